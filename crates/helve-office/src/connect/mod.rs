//! Connecting accounts: what is kept of each, where its secret is, and how it becomes an [`Account`].
//!
//! The file holds how an account is reached ([`AccountSettings`]) and where its secret lies, never the secret. That
//! comes through a port ([`Secrets`]) whenever a server is spoken to.
//!
//! INVARIANT: one account that cannot be used takes nothing from the others: it is set aside with the reason.

mod build;
pub mod discover_dav;
mod secrets;
mod settings;
mod syncing;

pub(crate) use build::Connected;
pub use build::{Connect, LOCAL, SetAside};
pub use secrets::{NoSecrets, SecretPlace, Secrets};
pub use settings::{
    AccountSettings, Auth, DavSettings, JmapSettings, MailSettings, OAuthSettings, ServerSettings, Tls,
};
pub use syncing::{Synced, Tell, keep_syncing, sync_account};

#[cfg(doc)]
use crate::Account;
