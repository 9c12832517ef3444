//! Accounts: what the office pack asks of mail, calendar and contacts servers, whatever they speak.
//!
//! Each port is narrow, so that an account has only those that its servers offer. The embedded account has all of
//! them, and passes the same tests as the others.

mod fault;
mod mails;
mod objects;
mod submit;

pub use fault::Fault;
pub use mails::{Flags, Folder, FolderRole, MailChanges, MailStore, NewMail};
pub use objects::{Collection, Expected, Holds, Object, ObjectChanges, ObjectStore, PutFault, UnreadObject};
pub use submit::{Envelope, Submit, Submitted};
