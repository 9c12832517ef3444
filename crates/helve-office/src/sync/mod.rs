//! What brings servers' accounts into the file, page by page.

mod mails;

pub(crate) use mails::{Indexing, tell_folders};
pub use mails::{MailProgress, MailsSynced, sync_mails};
