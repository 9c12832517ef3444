//! One account's HTTP server: CalDAV, CardDAV or JMAP. All requests go through the guarded client.
//!
//! INVARIANT: a [`Login`] is sent to one origin, the one that the user named. What a server answers (an href, a
//! redirect, a URL in a JMAP session) can name another origin; then nothing is sent there.

mod ask;
mod login;
mod server;

pub use login::{Login, TokenSource};
pub use server::{PlainHttp, WebSettings};

pub(crate) use ask::{Ask, Intent, explain, unanswered};
pub(crate) use server::{Server, header_text};
