//! What the model and the user are told besides the result.

use std::sync::Arc;

use super::redacted::{Redacted, Scrubber};

/// What the model and the user are told besides the result.
#[derive(Default)]
pub(in crate::pipeline) struct Messages {
    pub(super) for_model: Redacted<Vec<String>>,
    pub(super) for_user: Redacted<Vec<String>>,
    /// Conditions that do not hold, and without which the call runs.
    degraded: Option<Redacted<Arc<[String]>>>,
}

impl Messages {
    /// Tells the model something.
    pub(in crate::pipeline) fn tell_model(
        &mut self,
        texts: impl IntoIterator<Item = String>,
        scrubber: &Scrubber<'_>,
    ) {
        self.for_model.append(scrubber.texts(texts));
    }

    /// Tells the user something, which the model is not told.
    pub(in crate::pipeline) fn tell_user(
        &mut self,
        texts: impl IntoIterator<Item = String>,
        scrubber: &Scrubber<'_>,
    ) {
        self.for_user.append(scrubber.texts(texts));
    }

    /// The call runs although these conditions do not hold.
    pub(in crate::pipeline) fn set_degraded(&mut self, conditions: Vec<String>, scrubber: &Scrubber<'_>) {
        self.degraded = (!conditions.is_empty()).then(|| scrubber.lines(&conditions));
    }

    /// Conditions that do not hold, and without which the call runs.
    pub(in crate::pipeline) fn degraded(&self) -> Option<&Arc<[String]>> {
        self.degraded.as_ref().map(Redacted::get)
    }
}
