//! Who logs in, and the words that IMAP and SMTP both wrap in base64 (SASL).

use std::fmt;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use helve_core::BoxFuture;
use secrecy::{ExposeSecret as _, SecretString};

use crate::account::Fault;

/// Gives access tokens that are good now. The keeper of refresh tokens implements it.
pub trait Tokens: Send + Sync + 'static {
    /// A token that has not expired.
    fn token(&self) -> BoxFuture<'_, Result<SecretString, Fault>>;
}

/// Who logs in, and with what.
#[derive(Clone)]
pub enum Login {
    /// A password, or one that the provider made for this program alone.
    Password {
        /// Often the address.
        user: String,
        /// The password, kept in memory only.
        password: SecretString,
    },
    /// A password that is looked up at each login.
    Kept {
        /// Often the address.
        user: String,
        /// Where it comes from.
        password: Arc<dyn Tokens>,
    },
    /// OAuth (XOAUTH2, OAUTHBEARER).
    Token {
        /// The mail address that the tokens are for.
        user: String,
        /// Where tokens come from.
        tokens: Arc<dyn Tokens>,
    },
}

/// Without the secret.
impl fmt::Debug for Login {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (kind, user) = match self {
            Self::Password { user, .. } => ("Password", user),
            Self::Kept { user, .. } => ("Kept", user),
            Self::Token { user, .. } => ("Token", user),
        };
        f.debug_struct(kind).field("user", user).finish_non_exhaustive()
    }
}

/// How a login is put, best first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mechanism {
    OauthBearer,
    Xoauth2,
    Plain,
    Login,
}

impl Mechanism {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::OauthBearer => "OAUTHBEARER",
            Self::Xoauth2 => "XOAUTH2",
            Self::Plain => "PLAIN",
            Self::Login => "LOGIN",
        }
    }

    /// The best way for this login that a server offers.
    pub(crate) fn choose(login: &Login, offered: impl Fn(&str) -> bool) -> Option<Self> {
        let ways = match login {
            Login::Password { .. } | Login::Kept { .. } => [Self::Plain, Self::Login],
            // Google and Microsoft document XOAUTH2 alone.
            Login::Token { .. } => [Self::Xoauth2, Self::OauthBearer],
        };
        ways.into_iter().find(|way| offered(way.name()))
    }
}

impl Login {
    /// The name that logs in.
    pub fn user(&self) -> &str {
        match self {
            Self::Password { user, .. } | Self::Kept { user, .. } | Self::Token { user, .. } => user,
        }
    }

    /// What the client says first, as base64. [`Mechanism::Login`] says its two words by [`Login::words`].
    pub(crate) async fn first_words(&self, mechanism: Mechanism, host: &str) -> Result<SecretString, Fault> {
        let user = self.user();
        // These characters separate the parts.
        if user.chars().any(|c| c.is_control()) {
            return Err(Fault::Refused("the login name has a control character".to_owned()));
        }
        let said = match self {
            Self::Password { password, .. } => format!("\0{user}\0{}", checked(password)?),
            Self::Kept { password, .. } => {
                let password = password.token().await?;
                format!("\0{user}\0{}", checked(&password)?)
            }
            Self::Token { tokens, .. } => {
                let token = tokens.token().await?;
                let token = checked(&token)?;
                match mechanism {
                    Mechanism::OauthBearer => {
                        // RFC 5801 writes these two otherwise.
                        let user = user.replace('=', "=3D").replace(',', "=2C");
                        format!("n,a={user},\x01host={host}\x01auth=Bearer {token}\x01\x01")
                    }
                    Mechanism::Xoauth2 | Mechanism::Plain | Mechanism::Login => {
                        format!("user={user}\x01auth=Bearer {token}\x01\x01")
                    }
                }
            }
        };
        Ok(encoded(&said))
    }

    /// Name and password, each as base64.
    pub(crate) async fn words(&self) -> Result<[SecretString; 2], Fault> {
        Ok([encoded(self.user()), encoded(checked(&self.password().await?)?)])
    }

    /// The password, looked up where it is kept elsewhere.
    pub(crate) async fn password(&self) -> Result<SecretString, Fault> {
        match self {
            Self::Password { password, .. } => Ok(password.clone()),
            Self::Kept { password, .. } => password.token().await,
            Self::Token { .. } => Err(Fault::Login("the server takes no token".to_owned())),
        }
    }
}

/// What ends a refused OAuth login, so that the server says why in the usual way.
pub(crate) fn bearer_refusal_answer(mechanism: Mechanism) -> &'static [u8] {
    match mechanism {
        Mechanism::OauthBearer => b"AQ==\r\n",
        Mechanism::Xoauth2 | Mechanism::Plain | Mechanism::Login => b"\r\n",
    }
}

fn checked(secret: &SecretString) -> Result<&str, Fault> {
    match secret.expose_secret() {
        "" => Err(Fault::Login("there is no password or token; connect the account again".to_owned())),
        secret if secret.chars().any(|c| c.is_control()) => {
            Err(Fault::Login("the password or token has a control character".to_owned()))
        }
        secret => Ok(secret),
    }
}

fn encoded(text: &str) -> SecretString {
    SecretString::from(STANDARD.encode(text))
}
