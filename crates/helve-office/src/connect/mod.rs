//! How accounts are connected: servers found from an address, and their logins tried.
//!
//! - [`discover_mail`]: IMAP and submission servers of an address.
//! - [`presets`]: providers whose servers and OAuth endpoints are known.
//! - [`dns`]: the few questions that finding them takes.

pub mod discover_mail;
pub mod dns;
pub mod presets;
