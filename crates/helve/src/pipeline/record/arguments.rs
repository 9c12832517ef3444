//! The arguments as they are recorded, and what was changed in them.

use helve_core::Repair;
use helve_core::json::{JsonLimits, check as check_limits};
use helve_core::record::RawJson;
use serde_json::Value;

use super::redacted::{Redacted, Scrubber};

/// Longest part of the arguments before a hook changed them that is kept, in bytes.
const FORMER_BYTES_MAX: usize = 4_096;

/// What is recorded of the arguments, and the scrubber that learns their secrets.
pub(in crate::pipeline) struct ArgumentsRecord<'p> {
    scrubber: Scrubber<'p>,
    limits: JsonLimits,
    pub(super) shown: Option<Redacted<RawJson>>,
    /// Whether something of them is not recorded.
    pub(super) is_withheld: bool,
    /// Whether the start, which is in the journal or comes there first, has the same arguments.
    pub(super) are_in_start: bool,
    pub(super) repairs: Redacted<Vec<Repair>>,
}

impl<'p> ArgumentsRecord<'p> {
    pub(super) fn new(scrubber: Scrubber<'p>, limits: JsonLimits) -> Self {
        let (shown, repairs) = (None, Redacted::default());
        Self { scrubber, limits, shown, is_withheld: false, are_in_start: false, repairs }
    }

    /// Takes the call's secrets out of other things.
    pub(in crate::pipeline) fn scrubber(&self) -> &Scrubber<'p> {
        &self.scrubber
    }

    /// The same, where more secrets may be found.
    pub(in crate::pipeline) fn scrubber_mut(&mut self) -> &mut Scrubber<'p> {
        &mut self.scrubber
    }

    /// The scrubber, and what the caller is told about the arguments.
    pub(super) fn scrubber_and_notes(&mut self) -> (&mut Scrubber<'p>, &mut Redacted<Vec<Repair>>) {
        (&mut self.scrubber, &mut self.repairs)
    }

    /// The arguments as they are recorded, and whether something of them is missing.
    pub(in crate::pipeline) fn shown(&self) -> (Option<&RawJson>, bool) {
        (self.shown.as_ref().map(Redacted::get), self.is_withheld)
    }

    /// Keeps the arguments without their secrets, and remembers those to keep them out of the rest.
    pub(in crate::pipeline) fn keep(&mut self, arguments: &Value) {
        (self.shown, self.is_withheld) = self.scrubber.arguments(arguments);
        self.are_in_start = false;
    }

    /// Keeps arguments that do not fit the tool's schema.
    pub(in crate::pipeline) fn keep_refused(&mut self, arguments: &Value) {
        (self.shown, self.is_withheld) = self.scrubber.refused_arguments(arguments);
        self.are_in_start = false;
    }

    /// Keeps arguments that nothing has checked yet; nothing of those beyond the limits.
    pub(in crate::pipeline) fn keep_unchecked(&mut self, arguments: &Value) {
        if check_limits(arguments, self.limits).is_ok() {
            self.keep_refused(arguments);
        }
    }

    /// Notes what was changed to make the arguments fit.
    pub(in crate::pipeline) fn add_repairs(&mut self, repairs: Vec<Repair>) {
        self.repairs.append(self.scrubber.repairs(repairs));
    }

    /// A hook or a person put others in their place. The caller is told who, and how they are now.
    pub(in crate::pipeline) fn change(&mut self, who: &str, arguments: &Value) {
        self.keep(arguments);
        self.note([format!("{who} changed its arguments to {arguments}")]);
    }

    /// A hook put others in their place. The caller is told who, and how they were; both versions are kept.
    pub(in crate::pipeline) fn rewrite(&mut self, by: &str, arguments: &Value, conflicts: &[String]) {
        let before = self.shown.as_ref().map_or("null", |shown| shown.get().get());
        let before = &before[..before.floor_char_boundary(FORMER_BYTES_MAX)];
        let detail = format!("{by} changed the arguments; they were {before}");
        self.note([detail]);
        self.note(conflicts.iter().cloned());
        self.keep(arguments);
    }

    /// Tells the caller something about the arguments, such as that hooks wanted different things.
    pub(in crate::pipeline) fn note(&mut self, details: impl IntoIterator<Item = String>) {
        let notes = details.into_iter().map(|detail| Repair { path: String::new(), detail });
        self.add_repairs(notes.collect());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use helve_core::schema::Redactor;
    use serde_json::json;

    #[test]
    fn what_somebody_changes_the_arguments_to_is_told_without_secrets() {
        let redactor = Redactor::default();
        let mut record = ArgumentsRecord::new(Scrubber::new(&redactor, None), JsonLimits::default());
        record.keep(&json!({ "password": "former-secret" }));
        record.change("a person", &json!({ "to": "ada", "password": "edited-secret" }));
        record.rewrite("a hook", &json!({ "to": "eve" }), &["another wanted edited-secret".to_owned()]);
        let told: Vec<_> = record.repairs.get().iter().map(|repair| repair.detail.as_str()).collect();
        assert_eq!(told.len(), 3);
        assert!(told[0].starts_with("a person changed its arguments to {"), "{told:?}");
        assert!(told.iter().all(|detail| !detail.contains("-secret")), "{told:?}");
    }
}
