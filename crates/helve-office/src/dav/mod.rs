//! CalDAV (RFC 4791, 6638) and CardDAV (RFC 6352): calendars, task lists and address books on the user's own server.
//!
//! Our own small client over the guarded one, because every answer has to be bounded while it is read, and no
//! library for it lets that be said:
//!
//! - `xml` reads what servers answer, within limits, and expands nothing;
//! - `href` keeps places on the user's server, and below what was asked for;
//! - `client` sends the methods of DAV, `multistatus` is what they answer;
//! - `layout` finds where an account's things are;
//! - `listing` is the collections, `sync` what changed in one, `objects` reads and writes;
//! - `free_busy` asks the server about other people;
//! - `account` is all of that as a port, `pair` one with contacts on another server.

mod account;
mod client;
mod free_busy;
mod href;
mod layout;
mod listing;
mod multistatus;
mod objects;
mod pair;
mod state;
mod sync;
mod xml;

pub use account::DavAccount;
pub use layout::{Layout, Service};
#[cfg(fuzzing)]
pub use multistatus::read_multistatus;
pub use pair::DavPair;

pub(crate) use client::Dav;
