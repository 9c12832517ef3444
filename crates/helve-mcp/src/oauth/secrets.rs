//! Secrets by name, in an encrypted file like that of the tokens.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use secrecy::{ExposeSecret, SecretString};
use serde::{Deserialize, Serialize};

use super::error::OAuthError;
use super::lock;
use super::vault::{self, Key};

/// Longest secret, and most of them.
const BYTES_MAX: usize = 64 << 10;
const SECRETS_MAX: usize = 1_000;

/// Secrets by name. Cheap to clone; several processes may use one file at a time.
#[derive(Debug, Clone)]
pub struct SecretFile(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    file: PathBuf,
    key: Key,
}

impl SecretFile {
    /// The secrets in `folder`, which exists. They are in `NAME.secrets`, and the key in `NAME.key` is made when there
    /// are none yet.
    pub fn open(folder: &Path, name: &str) -> Result<Self, OAuthError> {
        let file = folder.join(name).with_extension("secrets");
        let key = Key::for_file(&file)?;
        Ok(Self(Arc::new(Inner { file, key })))
    }

    /// The secret of this name.
    pub async fn read(&self, name: &str) -> Result<Option<SecretString>, OAuthError> {
        let name = name.to_owned();
        self.blocking(move |inner| Ok(inner.read()?.0.remove(&name).map(SecretString::from))).await
    }

    /// Keeps a secret under this name, in the place of another.
    pub async fn write(&self, name: &str, secret: SecretString) -> Result<(), OAuthError> {
        let name = name.to_owned();
        if secret.expose_secret().len() > BYTES_MAX {
            return Err(OAuthError::store(format!("a secret has {BYTES_MAX} bytes at most")));
        }
        self.change(move |all| {
            all.0.insert(name, secret.expose_secret().to_owned());
            all.0.len() <= SECRETS_MAX
        })
        .await
    }

    /// Forgets a secret. Fine where there is none.
    pub async fn remove(&self, name: &str) -> Result<(), OAuthError> {
        let name = name.to_owned();
        self.change(move |all| {
            all.0.remove(&name);
            true
        })
        .await
    }

    async fn change(&self, change: impl FnOnce(&mut All) -> bool + Send + 'static) -> Result<(), OAuthError> {
        self.blocking(move |inner| {
            let _turn = lock::acquire_blocking(&inner.file.with_extension("lock"))?;
            let mut all = inner.read()?;
            if !change(&mut all) {
                return Err(OAuthError::store(format!("more than {SECRETS_MAX} secrets are not kept")));
            }
            let text = serde_json::to_vec(&all).map_err(|error| OAuthError::store(error.to_string()))?;
            vault::seal(&inner.file, &inner.key, text)
        })
        .await
    }

    async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Inner) -> Result<T, OAuthError> + Send + 'static,
    ) -> Result<T, OAuthError> {
        let inner = Arc::clone(&self.0);
        let done = tokio::task::spawn_blocking(move || work(&inner)).await;
        done.unwrap_or_else(|_| Err(OAuthError::store("the work on them broke off")))
    }
}

impl Inner {
    fn read(&self) -> Result<All, OAuthError> {
        let Some(text) = vault::open(&self.file, &self.key)? else { return Ok(All::default()) };
        // The parser's message could quote a secret.
        serde_json::from_slice(&text)
            .map_err(|_| OAuthError::store("they are not in the form of this version"))
    }
}

/// As they are: only ever in the encrypted file and in memory.
#[derive(Default, Serialize, Deserialize)]
struct All(BTreeMap<String, String>);

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn secrets_are_kept_by_name_and_never_in_clear() {
        let folder = tempfile::tempdir().unwrap();
        let secrets = SecretFile::open(folder.path(), "office").unwrap();
        assert!(secrets.read("a").await.unwrap().is_none());
        secrets.write("a", "hush-1".into()).await.unwrap();
        secrets.write("b", "hush-2".into()).await.unwrap();
        secrets.write("a", "hush-3".into()).await.unwrap();
        // Another process opens them anew.
        let again = SecretFile::open(folder.path(), "office").unwrap();
        assert_eq!(again.read("a").await.unwrap().unwrap().expose_secret(), "hush-3");
        again.remove("a").await.unwrap();
        assert!(secrets.read("a").await.unwrap().is_none());
        assert_eq!(secrets.read("b").await.unwrap().unwrap().expose_secret(), "hush-2");
        for entry in std::fs::read_dir(folder.path()).unwrap() {
            let entry = entry.unwrap();
            let bytes = std::fs::read(entry.path()).unwrap();
            assert!(!bytes.windows(5).any(|window| window == b"hush-"), "{:?}", entry.path());
            let mode = std::os::unix::fs::PermissionsExt::mode(&entry.metadata().unwrap().permissions());
            assert_eq!(mode & 0o077, 0, "{:?}", entry.path());
        }
        assert!(!format!("{secrets:?}").contains("hush"));
    }
}
