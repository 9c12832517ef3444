//! The tool's answer as it is recorded.

use std::sync::Arc;

use helve_core::record::RawJson;
use helve_core::{Shortfall, Tool, ToolError};
use serde_json::Value;
use serde_json::value::RawValue;

use super::redacted::{Redacted, Scrubber};

/// What is recorded of the tool's answer, and what it attached.
#[derive(Default)]
pub(in crate::pipeline) struct ResultRecord {
    pub(super) shown: Option<Redacted<RawJson>>,
    pub(super) bytes: Option<u64>,
    /// Whether something of it is not recorded.
    pub(super) is_withheld: bool,
    /// Whether it holds what its schema or its name calls a secret.
    is_secret: bool,
    /// The failure that became a result, because the tool's failure mode says so.
    pub(super) returned: Option<Redacted<ToolError>>,
    /// How the answer is less than was asked for.
    shortfall: Option<RecordedShortfall>,
    /// The answer in the richer form that the tool attached.
    pub(super) attached: Option<Arc<RawValue>>,
}

/// How an answer is less than was asked for, as it is recorded.
struct RecordedShortfall {
    lines: Redacted<Arc<[String]>>,
    is_failure: bool,
}

impl ResultRecord {
    /// Keeps a result without its secrets, if it is small enough.
    pub(in crate::pipeline) fn keep(
        &mut self,
        value: &Value,
        text: RawJson,
        bytes_max: usize,
        scrubber: &mut Scrubber<'_>,
    ) {
        if text.get().len() > bytes_max {
            return self.keep_size(value, text.get().len(), scrubber);
        }
        self.bytes = Some(text.get().len() as u64);
        // A hook may have put another result in its place.
        self.is_secret = scrubber.finds_secret_in(value);
        let (shown, is_changed) = scrubber.result(value, text, self.is_secret);
        self.shown = shown;
        self.is_withheld |= is_changed;
        self.is_secret |= is_changed;
    }

    /// Keeps of a result only its size, and whether it holds secrets.
    pub(in crate::pipeline) fn keep_size(
        &mut self,
        value: &Value,
        bytes: usize,
        scrubber: &mut Scrubber<'_>,
    ) {
        self.bytes = Some(bytes as u64);
        self.is_withheld = true;
        self.is_secret = scrubber.finds_secret_in(value);
    }

    /// Keeps the failure that becomes a result.
    pub(in crate::pipeline) fn keep_returned(&mut self, error: &ToolError, scrubber: &Scrubber<'_>) {
        self.returned = Some(scrubber.error(error));
    }

    /// Whether the result holds what its schema, or its name, calls a secret.
    pub(in crate::pipeline) fn is_secret(&self) -> bool {
        self.is_secret
    }

    /// Attaches something to the answer, in place of what was attached before.
    pub(in crate::pipeline) fn attach(&mut self, content: Option<&Arc<RawValue>>) {
        self.attached = content.cloned();
    }

    /// What is attached to the answer.
    pub(in crate::pipeline) fn attached(&self) -> Option<&Arc<RawValue>> {
        self.attached.as_ref()
    }

    /// Whether something is attached to the answer that says more than the result does.
    pub(in crate::pipeline) fn attached_more_than(&self, result: &Value, tool: Option<&Tool>) -> bool {
        let says_no_more = |content: &Arc<RawValue>| {
            tool.is_some_and(|tool| tool.handler().attached_says_no_more(content, result))
        };
        self.attached.as_ref().is_some_and(|content| !says_no_more(content))
    }

    /// Notes how the answer is less than was asked for.
    pub(in crate::pipeline) fn set_shortfall(
        &mut self,
        shortfall: Option<&Arc<Shortfall>>,
        scrubber: &Scrubber<'_>,
    ) {
        self.shortfall = shortfall.map(|shortfall| RecordedShortfall {
            lines: scrubber.lines(&shortfall.lines),
            is_failure: shortfall.is_failure,
        });
    }

    /// What the answer lacks, one line each.
    pub(super) fn lacking(&self) -> &[String] {
        self.shortfall.as_ref().map(|shortfall| &**shortfall.lines.get()).unwrap_or_default()
    }

    /// Whether the call counts as failed, although it has a result.
    pub(in crate::pipeline) fn fails_with_result(&self) -> bool {
        self.shortfall.as_ref().is_some_and(|shortfall| shortfall.is_failure)
    }
}
