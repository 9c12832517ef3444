//! JMAP (RFC 8620, 8621): mail and its submission on the user's own server.
//!
//! - `session` is what the server says of itself: where its parts are, whose account this is, its limits;
//! - `call` sends one method call, `blob` whole messages;
//! - `sync` is what changed in a mailbox, `mails` reads and writes, `submit` sends.

mod account;
mod blob;
mod call;
mod mails;
mod session;
mod submit;
mod sync;

pub use account::JmapAccount;
