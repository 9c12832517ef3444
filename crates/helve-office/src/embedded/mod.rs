//! The account that needs no server: all that it has is in the office file.

mod mails;
mod objects;
mod submit;

pub use mails::EmbeddedMails;
pub use objects::{EmbeddedObjects, LOCAL};
pub use submit::EmbeddedOutbox;
