//! Code does not run code: each box has limits of its own, and boxes within boxes would have none.

use std::sync::{Arc, Mutex, PoisonError};

use helve::{CallId, Context, ErrorCode, ToolError};

/// The calls that run now: the run each belongs to, and its path within it.
#[derive(Clone, Default)]
pub(super) struct Active(Arc<Mutex<Vec<(CallId, String)>>>);

/// A call that runs until this is dropped.
pub(super) struct Entered {
    active: Active,
    own: (CallId, String),
}

impl Active {
    /// Enters a call, unless it was made by code that runs now.
    pub(super) fn enter(&self, context: &Context) -> Result<Entered, ToolError> {
        let path = context.part().map(|part| format!("{}/", part.path)).unwrap_or_default();
        let own = (context.run(), path);
        let mut active = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_outer =
            |other: &&(CallId, String)| other.0 == own.0 && own.1 != other.1 && own.1.starts_with(&other.1);
        if active.iter().any(|other| is_outer(&other)) {
            return Err(ToolError::new(
                ErrorCode::SandboxViolation,
                "code cannot run other code in a box of its own",
            )
            .suggest("do it in this code, or call the tool again when it has ended"));
        }
        active.push(own.clone());
        Ok(Entered { active: self.clone(), own })
    }
}

impl Drop for Entered {
    fn drop(&mut self) {
        let mut active = self.active.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(at) = active.iter().position(|other| *other == self.own) {
            active.swap_remove(at);
        }
    }
}
