//! How an account proves to a web server whose it is.

use std::fmt;
use std::sync::Arc;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use helve_core::BoxFuture;
use helve_net::HeaderValue;
use secrecy::{ExposeSecret as _, SecretString};

use crate::account::Fault;

/// Gives an access token that is good now; renews it where it has to.
pub type TokenSource = Arc<dyn Fn() -> BoxFuture<'static, Result<SecretString, Fault>> + Send + Sync>;

/// How an account proves whose it is. Never printed.
#[derive(Clone)]
pub enum Login {
    /// A name with a password, or with a password for one application.
    Password {
        /// The name that the server knows.
        user: String,
        /// The password, kept in memory only.
        password: SecretString,
    },
    /// The same with a password that is looked up at every request.
    Kept {
        /// The name that the server knows.
        user: String,
        /// Where the password comes from.
        password: TokenSource,
    },
    /// An OAuth access token.
    Token(TokenSource),
}

impl Login {
    /// A name with its password.
    pub fn password(user: impl Into<String>, password: impl Into<SecretString>) -> Self {
        Self::Password { user: user.into(), password: password.into() }
    }

    /// What goes into `Authorization`.
    pub(super) async fn header(&self) -> Result<HeaderValue, Fault> {
        let text = match self {
            Self::Password { user, .. } | Self::Kept { user, .. } if user.contains(':') => {
                return Err(Fault::Refused("a login name must not have a colon".to_owned()));
            }
            Self::Password { user, password } => basic(user, password),
            Self::Kept { user, password } => basic(user, &password().await?),
            Self::Token(source) => {
                let token = source().await?;
                SecretString::from(format!("Bearer {}", token.expose_secret()))
            }
        };
        let mut value = HeaderValue::from_str(text.expose_secret())
            .map_err(|_| Fault::Login("the access token has characters that no token has".to_owned()))?;
        value.set_sensitive(true);
        Ok(value)
    }
}

fn basic(user: &str, password: &SecretString) -> SecretString {
    let pair = format!("{user}:{}", password.expose_secret());
    SecretString::from(format!("Basic {}", BASE64_STANDARD.encode(pair)))
}

impl fmt::Debug for Login {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Password { .. } => f.write_str("Login::Password"),
            Self::Kept { .. } => f.write_str("Login::Kept"),
            Self::Token(_) => f.write_str("Login::Token"),
        }
    }
}
