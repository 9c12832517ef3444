//! The system's keyring, behind a trait: which store there is, is the program's choice.

use secrecy::SecretString;

/// Where secrets of a service and a user are kept.
pub trait Keyring: Send + Sync {
    /// The secret, or `None` where there is no such entry.
    fn read(&self, service: &str, user: &str) -> Result<Option<SecretString>, KeyringError>;
}

/// A keyring that could not be asked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KeyringError {
    /// There is none.
    #[error("there is no keyring on this system; use `{{ env = \"NAME\" }}` or `{{ file = \"PATH\" }}`")]
    Absent,
    /// It did not answer.
    #[error("the keyring did not answer: {0}")]
    Failed(String),
}

/// The store that this program set up with `keyring_core::set_default_store`.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemKeyring;

impl Keyring for SystemKeyring {
    fn read(&self, service: &str, user: &str) -> Result<Option<SecretString>, KeyringError> {
        use keyring_core::Error;
        let read = keyring_core::Entry::new(service, user).and_then(|entry| entry.get_password());
        match read {
            Ok(secret) => Ok(Some(secret.into())),
            Err(Error::NoEntry) => Ok(None),
            Err(Error::NoDefaultStore) => Err(KeyringError::Absent),
            // These two carry what was stored.
            Err(Error::BadEncoding(_) | Error::BadDataFormat(..)) => {
                Err(KeyringError::Failed("what it holds is not text".to_owned()))
            }
            Err(other) => Err(KeyringError::Failed(other.to_string())),
        }
    }
}

/// No keyring at all.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoKeyring;

impl Keyring for NoKeyring {
    fn read(&self, _service: &str, _user: &str) -> Result<Option<SecretString>, KeyringError> {
        Err(KeyringError::Absent)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use secrecy::ExposeSecret;

    // One test, because the store is one for the whole process.
    #[test]
    fn the_store_that_was_set_up_is_asked() {
        assert!(matches!(SystemKeyring.read("s", "u"), Err(KeyringError::Absent)));
        keyring_core::set_default_store(keyring_core::mock::Store::new().unwrap());
        assert!(SystemKeyring.read("s", "u").unwrap().is_none());
        let entry = keyring_core::Entry::new("s", "u").unwrap();
        entry.set_password("p").unwrap();
        assert_eq!(SystemKeyring.read("s", "u").unwrap().unwrap().expose_secret(), "p");
        entry.set_secret(b"\xffkept").unwrap();
        let error = SystemKeyring.read("s", "u").unwrap_err();
        assert!(!format!("{error} {error:?}").contains("kept"));
        keyring_core::unset_default_store();
    }
}
