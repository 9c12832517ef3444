//! How accounts are reached. Never a secret: only where one lies.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use url::Url;

use super::SecretPlace;
use crate::dav::Layout;
use crate::wire::{Security, Server};

/// How an account is reached, as its row keeps it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AccountSettings {
    /// Mail: IMAP, and SMTP to send.
    Mail(MailSettings),
    /// Calendars, tasks and contacts: CalDAV and CardDAV.
    Dav(DavSettings),
    /// Mail by JMAP.
    Jmap(JmapSettings),
}

impl AccountSettings {
    /// The word for it in the column `kind`.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Mail(_) => "mail",
            Self::Dav(_) => "dav",
            Self::Jmap(_) => "jmap",
        }
    }

    /// How it logs in.
    pub fn auth(&self) -> &Auth {
        match self {
            Self::Mail(MailSettings { auth, .. })
            | Self::Dav(DavSettings { auth, .. })
            | Self::Jmap(JmapSettings { auth, .. }) => auth,
        }
    }
}

/// Mail by IMAP and SMTP.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MailSettings {
    /// Where mails are.
    pub imap: ServerSettings,
    /// Where mails go out; without it nothing is sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub smtp: Option<ServerSettings>,
    /// The name to log in with.
    pub login: String,
    /// How to log in.
    pub auth: Auth,
    /// Certificates that its servers are checked with, besides the usual ones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ca_file: Option<PathBuf>,
}

/// Calendars, tasks and contacts by CalDAV and CardDAV.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DavSettings {
    /// Where the server is.
    pub url: Url,
    /// Where the account's things are there.
    pub layout: Layout,
    /// The name to log in with.
    pub login: String,
    /// How to log in.
    pub auth: Auth,
}

/// Mail by JMAP.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct JmapSettings {
    /// Where its session is described.
    pub session: Url,
    /// The name to log in with.
    pub login: String,
    /// How to log in.
    pub auth: Auth,
}

/// Where one server listens.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServerSettings {
    /// The name of the host.
    pub host: String,
    /// The port it listens on.
    pub port: u16,
    /// How the line is kept private.
    pub tls: Tls,
}

impl ServerSettings {
    /// The same for those who connect.
    pub fn server(&self, ca_file: Option<PathBuf>) -> Server {
        let security = match self.tls {
            Tls::Implicit => Security::Tls,
            Tls::Starttls => Security::StartTls,
            Tls::None => Security::PlainOnThisMachine,
        };
        Server { ca_file, ..Server::new(self.host.clone(), self.port, security) }
    }
}

impl From<&Server> for ServerSettings {
    fn from(server: &Server) -> Self {
        let tls = match server.security {
            Security::Tls => Tls::Implicit,
            Security::StartTls => Tls::Starttls,
            Security::PlainOnThisMachine => Tls::None,
        };
        Self { host: server.host.clone(), port: server.port, tls }
    }
}

/// How a line is kept private.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Tls {
    /// From the first byte.
    Implicit,
    /// After a greeting, before anything else is said.
    Starttls,
    /// Not at all, which is refused unless the server is on this machine.
    None,
}

impl Tls {
    /// The word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Implicit => "implicit",
            Self::Starttls => "starttls",
            Self::None => "none",
        }
    }
}

/// How to log in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Auth {
    /// With a password, or one that was made for this program alone.
    Password(SecretPlace),
    /// With a token that an issuer renews (XOAUTH2).
    OAuth(Box<OAuthSettings>),
}

impl Auth {
    /// Where the secret lies that it logs in with, besides the tokens of an issuer.
    pub fn place(&self) -> Option<&SecretPlace> {
        match self {
            Self::Password(place) => Some(place),
            Self::OAuth(login) => login.client_secret.as_ref(),
        }
    }
}

/// A login at an issuer, whose tokens the servers take.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OAuthSettings {
    /// Under what name its tokens are kept.
    pub id: String,
    /// Who issues the tokens.
    pub issuer: Url,
    /// Where a person agrees.
    pub authorization_url: Url,
    /// Where tokens come from.
    pub token_url: Url,
    /// What the issuer calls us.
    pub client_id: String,
    /// The secret that some issuers give to programs of a desktop, too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_secret: Option<SecretPlace>,
    /// What is asked for.
    pub scopes: Vec<String>,
}
