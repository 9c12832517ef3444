//! How accounts are reached. Never a secret: only where one lies.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use url::Url;

use super::SecretPlace;

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

    /// Certificates that its servers are checked with, beside the usual ones.
    pub fn ca_file(&self) -> Option<&PathBuf> {
        match self {
            Self::Mail(MailSettings { ca_file, .. })
            | Self::Dav(DavSettings { ca_file, .. })
            | Self::Jmap(JmapSettings { ca_file, .. }) => ca_file.as_ref(),
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
    /// Certificates that its servers are checked with, beside the usual ones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ca_file: Option<PathBuf>,
}

/// Calendars, tasks and contacts by CalDAV and CardDAV.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DavSettings {
    /// Where to look for calendars.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub calendars: Option<Url>,
    /// Where to look for address books.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub contacts: Option<Url>,
    /// The name to log in with.
    pub login: String,
    /// How to log in.
    pub auth: Auth,
    /// Certificates that its servers are checked with, beside the usual ones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ca_file: Option<PathBuf>,
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
    /// Certificates that its servers are checked with, beside the usual ones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ca_file: Option<PathBuf>,
}

/// Where one server listens.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServerSettings {
    /// Its name.
    pub host: String,
    /// Its port.
    pub port: u16,
    /// How the line is kept private.
    pub tls: Tls,
}

/// How a line is kept private. There is no way without.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Tls {
    /// From the first byte.
    Implicit,
    /// After a greeting, before anything else is said.
    Starttls,
}

impl Tls {
    /// The word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Implicit => "implicit",
            Self::Starttls => "starttls",
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
    OAuth(OAuthSettings),
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
