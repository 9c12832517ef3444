//! What of a call may be recorded: its result, its error and its outcome, without secrets and not too long.

use std::borrow::Cow;

use helve_core::record::RawJson;
use helve_core::schema::redact::{REDACTED, scrub};
use helve_core::{Output, Status, Tool, ToolError};
use serde_json::Value;
use serde_json::value::to_raw_value;

use super::OpenRecord;

impl OpenRecord<'_> {
    /// The largest result that is kept, in bytes of JSON.
    pub(in crate::pipeline) fn kept_bytes_max(&self) -> usize {
        let settings = &self.parts.settings;
        // A run may need the results of its parts again, should it be cut short.
        match self.run.is_some() {
            true => settings.run_result_bytes_max,
            false => settings.journal_result_bytes_max,
        }
    }

    /// Keeps of a result only its size, and whether it holds secrets.
    pub(in crate::pipeline) fn keep_size(&mut self, value: &Value, bytes: usize) {
        self.result_bytes = Some(bytes as u64);
        self.result_withheld = true;
        self.look_for_secrets(value);
    }

    /// Keeps a result without its secrets, if it is small enough.
    pub(in crate::pipeline) fn keep_result(&mut self, value: &Value, text: RawJson) {
        if text.get().len() > self.kept_bytes_max() {
            return self.keep_size(value, text.get().len());
        }
        self.result_bytes = Some(text.get().len() as u64);
        self.look_for_secrets(value);
        let has_secrets = self.result_is_secret || !self.secrets.is_empty();
        let shown = if has_secrets { self.shown(value) } else { Cow::Borrowed(value) };
        self.payload.result = match shown {
            Cow::Borrowed(_) => Some(text),
            Cow::Owned(shown) => {
                self.result_withheld = true;
                self.result_is_secret = true;
                to_raw_value(&shown).ok()
            }
        };
    }

    /// Notes whether a result holds secrets, and keeps them out of the rest of its run.
    pub(super) fn look_for_secrets(&mut self, value: &Value) {
        let redactor = &self.parts.settings.redactor;
        let schema = self.tool.as_ref().and_then(Tool::output);
        // A hook may have put another result in its place.
        self.result_is_secret = redactor.has_secret(schema, value);
        if self.result_is_secret && self.run.is_some() {
            let secrets = redactor.secrets_in(schema, value);
            self.hide(secrets);
        }
    }

    /// A result as it may be recorded: without its own secrets and without the arguments'.
    pub(super) fn shown<'v>(&self, result: &'v Value) -> Cow<'v, Value> {
        let schema = self.tool.as_ref().and_then(Tool::output);
        without(self.parts.settings.redactor.redact(schema, result), &self.secrets)
    }

    /// Keeps texts out of everything that is recorded from now on, in this call and in its run: a
    /// template may hand them to another tool under a name that does not give them away.
    pub(super) fn hide(&mut self, secrets: Vec<String>) {
        if let Some(run) = &self.run {
            run.hide(&secrets);
        }
        self.secrets.extend(secrets);
    }

    /// An error as it may be recorded: tools like to repeat what they were given.
    pub(in crate::pipeline) fn shown_error(&self, error: &ToolError) -> ToolError {
        if self.secrets.is_empty() {
            return error.clone();
        }
        let mut json = serde_json::to_value(error).unwrap_or_default();
        scrub(&mut json, &self.secrets);
        serde_json::from_value(json).unwrap_or_else(|_| ToolError::new(error.code(), REDACTED))
    }

    /// An outcome as it may be kept for when its key comes again.
    pub(super) fn shown_status(&self, status: &Status) -> Status {
        match status {
            Status::Done(output) => {
                Status::Done(Output { value: self.shown(&output.value).into_owned(), ..output.clone() })
            }
            Status::Failed(error) => Status::Failed(self.shown_error(error)),
            Status::Pending(pending) => Status::Pending(pending.clone()),
        }
    }
}

/// A value without texts that must not be seen. Borrowed where there are none.
pub(super) fn without<'v>(value: Cow<'v, Value>, secrets: &[String]) -> Cow<'v, Value> {
    if secrets.is_empty() {
        return value;
    }
    let mut scrubbed = Value::clone(&value);
    scrub(&mut scrubbed, secrets);
    if scrubbed == *value { value } else { Cow::Owned(scrubbed) }
}
