//! What brings servers' accounts into the file, page by page.

mod mails;
mod objects;

pub(crate) use mails::{Indexing, tell_folders};
pub use mails::{MailProgress, MailsSynced, sync_mails};
pub use objects::{Progress, Synced, store_object, sync_objects};
