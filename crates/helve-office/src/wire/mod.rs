//! Connections to mail servers: TCP and TLS under limits, and the logins that IMAP and SMTP share.
//!
//! The host is the one that the account's owner configured, never one that a model names, so the outbound
//! policy of `helve-net` does not apply here: many a mail server stands in a private network.
//!
//! Nothing but a server on this machine is ever spoken to without TLS, and only where the owner says so.

mod lines;
mod login;
mod server;
mod stream;
mod tls;

pub(crate) use lines::{crlf_lines, needs_eight_bits, smtp_lines};
pub use login::{Login, Tokens};
pub(crate) use login::{Mechanism, bearer_refusal_answer};
pub use server::{Security, Server, Timeouts};
pub(crate) use stream::{Opened, Wire};
