//! Which tools have completed in a session.
//!
//! Only tools that others wait for are noted, in the session's own memory and under a key that
//! nobody else can write.

use helve_core::memory::{MemoryChange, MemoryError, MemoryPlace, MemoryScope, Operation, RESERVED_PREFIX};
use helve_core::ports::{Clock, Memory};
use helve_core::{Caller, Outcome};
use jiff::SignedDuration;
use serde_json::json;

use crate::registry::Registry;
use crate::runtime::RuntimeMemory;

/// How long a session remembers. Sessions do not say when they end.
const KEPT: SignedDuration = SignedDuration::from_hours(30 * 24);
/// A note that is younger is not written again, which would cost a write to disk.
const FRESH: SignedDuration = SignedDuration::from_hours(24);

fn place(caller: &Caller, tool: &str) -> MemoryPlace {
    MemoryPlace::of(caller, MemoryScope::ShortTerm, format!("{RESERVED_PREFIX}completed/{tool}"))
}

/// Whether a tool has completed in the caller's session, or why that is not so.
pub(super) async fn has_completed(
    registry: &Registry,
    memory: &dyn Memory,
    caller: &Caller,
    tool: &str,
) -> Result<(), String> {
    let found = registry.tool(tool).ok_or_else(|| format!("no tool `{tool}` is registered"))?;
    let noted = memory.read(place(caller, found.name().as_str())).await;
    match noted.map_err(|error| error.to_string())? {
        Some(_) => Ok(()),
        None => Err(format!("`{tool}` has not completed in this session; call it first")),
    }
}

/// Notes that a tool has completed, where another waits for that.
pub(crate) async fn note(memory: &RuntimeMemory, clock: &dyn Clock, caller: &Caller, outcome: &Outcome) {
    if let Err(error) = write(memory, clock, place(caller, &outcome.tool), outcome).await {
        // The tool did run, so this is no failure of the call; what waits for it waits on.
        tracing::warn!(call_id = %outcome.call_id, tool = %outcome.tool, %error, "its completion could not be noted");
    }
}

async fn write(
    memory: &RuntimeMemory,
    clock: &dyn Clock,
    place: MemoryPlace,
    outcome: &Outcome,
) -> Result<(), MemoryError> {
    let noted = memory.read(place.clone()).await?;
    let is_fresh = noted.is_some_and(|note| clock.now().duration_since(note.changed_at) < FRESH);
    if is_fresh {
        return Ok(());
    }
    let change = MemoryChange::new(Operation::Write(json!({ "call_id": outcome.call_id }))).for_time(KEPT);
    memory.note(place, change).await
}
