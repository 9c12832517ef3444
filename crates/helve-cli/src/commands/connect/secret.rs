//! Where a password comes from, and where it is kept.

use std::io::Read;
use std::path::PathBuf;

use helve_host::wire::office::{Keep, OfficeSecrets};
use helve_office::connect::SecretPlace;
use secrecy::{ExposeSecret, SecretString};

use super::ask;
use crate::app::App;
use crate::failure::Failure;

/// Longest password that is read.
const BYTES_MAX: u64 = 64 << 10;

#[derive(Debug, clap::Args)]
pub(super) struct SecretArgs {
    /// Read the password from standard input
    #[arg(long, conflicts_with = "secret")]
    password_stdin: bool,
    /// Where the password lies and stays: env:NAME, file:PATH or keyring:SERVICE/USER
    #[arg(long, value_name = "REF", value_parser = place)]
    secret: Option<SecretPlace>,
    /// Where to keep a password that you give
    #[arg(long, value_enum, value_name = "WHERE", default_value = "auto", hide_possible_values = true)]
    keep_in: KeepIn,
}

/// Where to keep a password, as typed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum KeepIn {
    /// The system's keyring where there is one, else the encrypted file
    Auto,
    /// The system's keyring
    Keyring,
    /// Helve's encrypted file
    File,
}

impl From<KeepIn> for Keep {
    fn from(typed: KeepIn) -> Self {
        match typed {
            KeepIn::Auto => Self::Auto,
            KeepIn::Keyring => Self::Keyring,
            KeepIn::File => Self::File,
        }
    }
}

/// A reference to a secret, as typed.
pub(super) fn place(text: &str) -> Result<SecretPlace, String> {
    let wrong = || {
        "it is env:NAME, file:PATH or keyring:SERVICE/USER; a password itself is never an argument".to_owned()
    };
    let (kind, rest) = text.split_once(':').filter(|(_, rest)| !rest.is_empty()).ok_or_else(wrong)?;
    match kind {
        "env" => Ok(SecretPlace::Env(rest.to_owned())),
        "file" => {
            let path = PathBuf::from(rest);
            Ok(SecretPlace::File(std::path::absolute(&path).unwrap_or(path)))
        }
        "keyring" => {
            let (service, user) = rest.split_once('/').ok_or_else(wrong)?;
            Ok(SecretPlace::Keyring { service: service.to_owned(), user: user.to_owned() })
        }
        _ => Err(wrong()),
    }
}

/// A password to be tried, and where it will lie.
pub(super) enum Secret {
    /// It was given, and is kept once it works.
    Given(SecretString, Keep),
    /// It lies there already.
    At(SecretPlace),
}

impl SecretArgs {
    /// The password, from wherever it comes.
    pub(super) fn resolve(self, question: &str, app: &mut App<'_>) -> Result<Secret, Failure> {
        match self.secret {
            Some(place) => Ok(Secret::At(place)),
            None if self.password_stdin => Ok(Secret::Given(from_stdin()?, self.keep_in.into())),
            None => Ok(Secret::Given(ask::hidden(question, app)?, self.keep_in.into())),
        }
    }
}

fn from_stdin() -> Result<SecretString, Failure> {
    let mut text = String::new();
    let read = std::io::stdin().lock().take(BYTES_MAX + 1).read_to_string(&mut text);
    let text: SecretString = match read {
        Ok(_) => text.trim_end_matches(['\n', '\r']).to_owned().into(),
        Err(error) => {
            return Err(Failure::usage(
                "standard input holds no password; pipe it in, or leave out --password-stdin to be asked",
            )
            .because(&error));
        }
    };
    match text.expose_secret().len() as u64 {
        0 => Err(Failure::usage(
            "standard input holds no password; pipe it in, or leave out --password-stdin to be asked",
        )),
        1..=BYTES_MAX => Ok(text),
        _ => Err(Failure::usage(
            "standard input is too long for a password; it should hold the password and nothing else",
        )),
    }
}

impl Secret {
    /// The password itself, to try it.
    pub(super) async fn read(&self, secrets: &OfficeSecrets) -> Result<SecretString, Failure> {
        match self {
            Self::Given(secret, _) => Ok(secret.clone()),
            Self::At(place) => secrets
                .look_up(place)
                .await
                .map_err(|fault| Failure::usage("there is no password").because(&fault)),
        }
    }

    /// Keeps it. Where it lies then.
    pub(super) async fn keep(self, account: &str, secrets: &OfficeSecrets) -> Result<SecretPlace, Failure> {
        match self {
            Self::Given(secret, keep) => Ok(secrets.keep(account, &secret, keep).await?),
            Self::At(place) => Ok(place),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_are_read_and_a_password_is_none() {
        assert_eq!(place("env:MAIL_PW").unwrap(), SecretPlace::Env("MAIL_PW".to_owned()));
        assert_eq!(place("file:/run/pw").unwrap(), SecretPlace::File("/run/pw".into()));
        let keyring = SecretPlace::Keyring { service: "mail".to_owned(), user: "ada".to_owned() };
        assert_eq!(place("keyring:mail/ada").unwrap(), keyring);
        for text in ["hunter2", "", "env:", "keyring:mail", "pw:x"] {
            assert!(place(text).is_err_and(|why| !why.contains("hunter2")), "{text}");
        }
    }
}
