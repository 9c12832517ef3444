//! The port through which passwords and tokens come.

use std::fmt;
use std::path::PathBuf;

use helve_core::BoxFuture;
use secrecy::SecretString;
use serde::{Deserialize, Serialize};

use super::OAuthSettings;
use crate::account::Fault;

/// Where a secret lies.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SecretPlace {
    /// In Helve's own encrypted file, under this name.
    Kept(String),
    /// In the system's keyring: what for, and for whom.
    Keyring {
        /// For what it is kept.
        service: String,
        /// The user name that the secret belongs to.
        user: String,
    },
    /// In a variable of Helve's environment.
    Env(String),
    /// In a file.
    File(PathBuf),
}

impl fmt::Display for SecretPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Kept(_) => f.write_str("Helve's encrypted file"),
            Self::Keyring { service, user } => write!(f, "the keyring, as {service}/{user}"),
            Self::Env(name) => write!(f, "the environment variable {name}"),
            Self::File(path) => write!(f, "the file {}", path.display()),
        }
    }
}

/// Passwords and tokens, looked up whenever a server is spoken to, so that a new one needs no restart.
pub trait Secrets: Send + Sync + 'static {
    /// What lies at a place.
    fn read<'a>(&'a self, place: &'a SecretPlace) -> BoxFuture<'a, Result<SecretString, Fault>>;

    /// A token that is good now, renewed where it has to be.
    fn token<'a>(&'a self, login: &'a OAuthSettings) -> BoxFuture<'a, Result<SecretString, Fault>>;
}

/// Nobody keeps any secrets. For an office without connected accounts.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoSecrets;

impl NoSecrets {
    fn none() -> BoxFuture<'static, Result<SecretString, Fault>> {
        Box::pin(std::future::ready(Err(Fault::Login("no secrets are kept here".to_owned()))))
    }
}

impl Secrets for NoSecrets {
    fn read<'a>(&'a self, _place: &'a SecretPlace) -> BoxFuture<'a, Result<SecretString, Fault>> {
        Self::none()
    }

    fn token<'a>(&'a self, _login: &'a OAuthSettings) -> BoxFuture<'a, Result<SecretString, Fault>> {
        Self::none()
    }
}
