//! Who says what callers may do.

use crate::gate::{PolicyRequest, Vote};

/// Rules on what callers may do. Asked on every call and for every tool that is shown, so it must
/// not wait for anything.
///
/// INVARIANT: it never fails. What cannot be decided is denied, and the vote says why.
pub trait Policy: Send + Sync + 'static {
    /// What it says to a request.
    fn rule(&self, request: &PolicyRequest<'_>) -> Vote;
}
