//! The office pack's own file: accounts, mails, calendars, tasks and contacts, and what is to be sent.
//!
//! It stands next to the ledger and is none of it: a sync that writes ten thousand mails holds up no call. One
//! connection writes, a few read.

mod accounts;
mod collections;
mod db;
mod drafts;
mod error;
mod mail_search;
mod mail_threads;
mod mail_words;
mod mails;
mod objects;
mod outbox;
mod people;
mod search;
mod writes;

pub use accounts::AccountRow;
pub use collections::{CollectionRow, NewCollection};
pub use db::OfficeDb;
pub use drafts::DraftWrite;
pub use error::OfficeError;
pub use mail_search::{MailHits, MailQuery, MailRow, PersonSeen};
pub use mails::{MailFlags, MailPage, MailPerson, MailsChanged, NewMailRow, Sameness};
pub use objects::{Before, NewObject, NewPerson, ObjectPage, ObjectQuery, ObjectRow};
pub use outbox::{NewOutboxRow, OutboxRow, OutboxState};
pub use people::PersonRow;
pub use writes::ObjectWrite;
