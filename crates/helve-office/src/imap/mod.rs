//! Mail accounts behind IMAP (RFC 3501), with what RFC 4315, 4731, 6154, 7162 and 7628 add where a server has it.
//!
//! The protocol is our own few hundred lines. A client that skips an answer it cannot read loses a mail without a
//! word, and one that collects answers without limits is a hostile server's to fill; the crates we looked at do
//! one or the other. Here an answer's frame is always read, its content is read leniently, and each has limits.
//!
//! - [`ImapAccount`]: the port, over one or two connections that are kept.
//! - `session`: one connection that has logged in; commands and their answers.
//! - `command`, `response`: the grammar. Text from outside goes into a command only quoted or as a literal.
//! - `sync`: what changed in a folder, from the little that `state` keeps between processes.
//! - `folders`, `utf7`: what folders are called and are for.
//! - `messages`: one message fetched, put, removed or found.

mod account;
mod command;
mod fetched;
mod folders;
mod messages;
mod response;
mod session;
mod state;
mod sync;
mod uids;
mod utf7;

pub use account::ImapAccount;
#[cfg(fuzzing)]
pub use response::read_responses;
#[cfg(fuzzing)]
pub use utf7::{decode_folder, encode_folder};
