//! What brings servers' accounts into the file, page by page.

mod mails;

pub(crate) use mails::Indexing;
pub use mails::{MailProgress, MailsSynced, sync_mails};
mod objects;

pub use objects::{Progress, Synced, sync_objects, take_up};
