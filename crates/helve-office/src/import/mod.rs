//! Files that other programs exported, read into the embedded account.

mod mails;
mod mbox;
mod objects;

pub use mails::{MailSkipped, MailsImported, import_mails};
pub use objects::{ImportError, Imported, Skipped, import_objects};
