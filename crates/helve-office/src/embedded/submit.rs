//! The way out of an account that has none.

use bytes::Bytes;
use helve_core::BoxFuture;

use crate::account::{Envelope, Submit, Submitted};

/// Takes mails and delivers none: a person who sends from the embedded account finds them in its Sent folder, and
/// is told that nothing left the machine.
#[derive(Debug, Clone, Copy, Default)]
pub struct EmbeddedOutbox;

impl EmbeddedOutbox {
    /// Who writes from an account that does not know its person. Mail to it goes nowhere, by RFC 2606.
    pub const NOBODY: &'static str = "me@local.invalid";

    /// What a caller is told.
    pub const NOTE: &'static str = "no mail account is connected: the mail was kept in the local Sent folder, \
        nothing left this machine and nobody received it";
}

impl Submit for EmbeddedOutbox {
    fn submit<'a>(&'a self, _envelope: &'a Envelope, _message: Bytes) -> BoxFuture<'a, Submitted> {
        Box::pin(std::future::ready(Submitted::Accepted(Self::NOTE.to_owned())))
    }
}
