//! Files that other programs exported, read into the embedded account.

mod mails;

pub use mails::{MailSkipped, MailsImported, import_mails};
mod objects;

pub use objects::{ImportError, Imported, Skipped, import_objects};
