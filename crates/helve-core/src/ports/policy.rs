//! Who says what callers may do.

use crate::gate::{PolicyRequest, Voice};

/// Rules on what callers may do. Asked on every call and for every tool that is shown, so it must
/// not wait for anything.
///
/// INVARIANT: it never fails. What cannot be decided is denied, and the voice says why.
pub trait Policy: Send + Sync + 'static {
    /// What it says to a request.
    fn rule(&self, request: &PolicyRequest<'_>) -> Voice;
}
