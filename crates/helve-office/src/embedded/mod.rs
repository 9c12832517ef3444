//! The account that needs no server: all that it has is in the office file.

mod mails;
mod objects;
mod submit;

pub use mails::EmbeddedMails;
pub(crate) use mails::folders;
pub use objects::{EmbeddedObjects, LOCAL};
pub(crate) use objects::{account_row, collections};
pub use submit::EmbeddedOutbox;
