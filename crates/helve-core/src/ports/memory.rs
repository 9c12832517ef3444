//! Where agents' memory is kept.

use crate::BoxFuture;
use crate::id::CallId;
use crate::memory::{Changed, MemoryChange, MemoryError, MemoryPlace, MemoryScope, Remembered};
use crate::run::Step;

/// Keeps memory. What has expired is as good as gone.
pub trait Memory: Send + Sync + 'static {
    /// Reads a value.
    fn read(&self, place: MemoryPlace) -> BoxFuture<'_, Result<Option<Remembered>, MemoryError>>;

    /// An owner's values whose keys start with `prefix`, by key, at most `limit`.
    fn list(
        &self,
        scope: MemoryScope,
        owner: String,
        prefix: String,
        limit: usize,
    ) -> BoxFuture<'_, Result<Vec<(String, Remembered)>, MemoryError>>;

    /// Changes a value, and waits until the change would survive a power cut.
    fn change(&self, place: MemoryPlace, change: MemoryChange)
    -> BoxFuture<'_, Result<Changed, MemoryError>>;

    /// Changes a value as the effect of a call: the change, what it takes to undo it, and the
    /// journal's `step` are written together or not at all. An effect that was applied before is
    /// not applied again.
    fn apply(
        &self,
        effect: EffectId,
        place: MemoryPlace,
        change: MemoryChange,
        step: Box<Step>,
    ) -> BoxFuture<'_, Result<(), MemoryError>>;

    /// Takes back what [`Memory::apply`] did, together with the journal's `step`.
    ///
    /// A number that was added is subtracted. Any other value is put back as it was, unless
    /// it was changed since.
    fn undo(&self, effect: EffectId, step: Box<Step>) -> BoxFuture<'_, Result<(), MemoryError>>;
}

/// One effect of one call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct EffectId {
    /// The call that has the effect.
    pub call_id: CallId,
    /// Which of its tool's effects.
    pub index: u32,
}
