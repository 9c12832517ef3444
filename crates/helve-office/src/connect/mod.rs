//! Connecting accounts: what is kept of each, where its secret is, and how it becomes an [`Account`].
//!
//! The file holds how an account is reached ([`AccountSettings`]) and where its secret lies, never the secret. That
//! comes through a port ([`Secrets`]) whenever a server is spoken to.
//!
//! [`discover_mail`] and [`discover_dav`] find servers from an address, with the few questions of [`dns`]; [`presets`]
//! are providers whose servers and OAuth endpoints are known.
//!
//! INVARIANT: one account that cannot be used takes nothing from the others: it is set aside with the reason.

mod build;
pub mod discover_dav;
pub mod discover_mail;
pub mod dns;
mod logins;
pub mod presets;
mod secrets;
mod settings;
mod syncing;

pub use crate::embedded::LOCAL;
pub(crate) use build::Connected;
pub use build::{Connect, SetAside};
pub use logins::{mail_login, web_settings};
pub use secrets::{NoSecrets, SecretPlace, Secrets};
pub use settings::{
    AccountSettings, Auth, DavSettings, JmapSettings, MailSettings, OAuthSettings, ServerSettings, Tls,
};
pub use syncing::{Synced, Tell, keep_syncing, sync_account};

#[cfg(doc)]
use crate::Account;
