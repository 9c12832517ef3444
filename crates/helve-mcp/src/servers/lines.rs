//! Over whose connection to a server something goes.

use std::sync::Arc;

use helve::Caller;

use super::connect::Who;

/// On whose behalf a server is asked something.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Behalf<'a> {
    /// Who calls.
    pub(crate) caller: &'a Caller,
    /// Over which of their clients, where that is known.
    pub(crate) client: Option<&'a str>,
}

/// One connection to a server among several: that which all share (the default), a caller's own, a
/// client's own.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(crate) struct Line {
    /// Whose account it is for, where each caller has their own.
    pub(crate) principal: Option<Arc<str>>,
    /// Which client has it to itself.
    pub(crate) client: Option<Arc<str>>,
}

impl Line {
    /// Whether it is the one that all share.
    pub(super) fn is_shared(&self) -> bool {
        self.principal.is_none() && self.client.is_none()
    }

    pub(super) fn who(&self) -> Who<'_> {
        self.principal.as_deref().map_or(Who::Helve, Who::Caller)
    }
}
