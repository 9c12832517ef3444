//! Handing a mail over for delivery.

use bytes::Bytes;
use helve_core::BoxFuture;

use crate::text::Address;

/// Hands mails over for delivery: by SMTP, by JMAP, or into the embedded outbox.
pub trait Submit: Send + Sync + 'static {
    /// Hands one mail over, once. Never repeats by itself.
    fn submit<'a>(&'a self, envelope: &'a Envelope, message: Bytes) -> BoxFuture<'a, Submitted>;

    /// Whether the server puts what it takes into the Sent folder by itself, as Google's and JMAP's do.
    fn keeps_copy(&self) -> bool {
        false
    }
}

/// Who a mail goes to, whatever its headers say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Envelope {
    /// The account's own address.
    pub from: Address,
    /// Everybody who gets it.
    pub to: Vec<Address>,
}

/// What became of a mail that was handed over.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use]
pub enum Submitted {
    /// The server took it for everybody. What it said, shortened.
    Accepted(String),
    /// The server did not take it, and nobody gets it.
    Refused {
        /// What it said, for people.
        why: String,
        /// Whether the same may work later.
        temporary: bool,
        /// Recipients that it refused, where it said so.
        recipients: Vec<Address>,
    },
    /// It cannot be told whether the server took it: the reply was lost.
    Unknown(String),
}
