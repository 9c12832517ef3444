//! The account that needs no server: all that it has is in the office file.

mod mails;
mod submit;

pub use mails::EmbeddedMails;
pub use submit::EmbeddedOutbox;
