//! The parts of the recorder that stages before and after the tool get.

use helve_core::{ApprovalId, Repair};
use tokio::time::Instant;

use super::super::votes::Ballot;
use super::redacted::Redacted;
use super::{ArgumentsRecord, CallRecorder, Messages, ResultRecord, Scrubber, Subject, WorkRecord};

/// What a stage before the tool may touch: everything but what the tool does and answers.
pub(in crate::pipeline) struct BeforeWork<'r, 'p> {
    pub(in crate::pipeline) subject: &'r Subject<'p>,
    pub(in crate::pipeline) arguments: &'r mut ArgumentsRecord<'p>,
    pub(in crate::pipeline) ballot: &'r mut Ballot,
    pub(in crate::pipeline) messages: &'r mut Messages,
    /// The question that ended with no, if one did.
    pub(in crate::pipeline) refused_by: &'r mut Option<ApprovalId>,
    /// When the stage began.
    pub(in crate::pipeline) since: Instant,
}

/// What a stage after the tool may touch: what it did and answered, and no longer what it was given and why it ran.
pub(in crate::pipeline) struct AfterWork<'r, 'p> {
    pub(in crate::pipeline) subject: &'r Subject<'p>,
    pub(in crate::pipeline) scrubber: &'r mut Scrubber<'p>,
    pub(in crate::pipeline) ballot: &'r mut Ballot,
    pub(in crate::pipeline) work: &'r mut WorkRecord,
    pub(in crate::pipeline) result: &'r mut ResultRecord,
    pub(in crate::pipeline) messages: &'r mut Messages,
    /// The largest result that is kept, in bytes of JSON.
    pub(in crate::pipeline) kept_bytes_max: usize,
    notes: &'r mut Redacted<Vec<Repair>>,
}

impl AfterWork<'_, '_> {
    /// Tells the caller something, such as that hooks wanted different things.
    pub(in crate::pipeline) fn note(&mut self, details: impl IntoIterator<Item = String>) {
        let notes = details.into_iter().map(|detail| Repair { path: String::new(), detail });
        self.notes.append(self.scrubber.repairs(notes.collect()));
    }
}

impl<'p> CallRecorder<'p> {
    /// What a stage before the tool may touch.
    pub(in crate::pipeline) fn before_work(&mut self) -> BeforeWork<'_, 'p> {
        BeforeWork {
            subject: &self.subject,
            arguments: &mut self.arguments,
            ballot: &mut self.gate.ballot,
            messages: &mut self.messages,
            refused_by: &mut self.gate.refused_by,
            since: self.stopwatch.since(),
        }
    }

    /// What a stage after the tool may touch.
    pub(in crate::pipeline) fn after_work(&mut self) -> AfterWork<'_, 'p> {
        let kept_bytes_max = self.kept_bytes_max();
        let (scrubber, notes) = self.arguments.scrubber_and_notes();
        AfterWork {
            subject: &self.subject,
            scrubber,
            ballot: &mut self.gate.ballot,
            work: &mut self.work,
            result: &mut self.result,
            messages: &mut self.messages,
            kept_bytes_max,
            notes,
        }
    }

    /// The largest result that is kept, in bytes of JSON.
    fn kept_bytes_max(&self) -> usize {
        let settings = &self.engine.settings;
        // A run may need the results of its parts again, should it be cut short.
        match self.subject.run().is_some() {
            true => settings.run_result_bytes_max,
            false => settings.journal_result_bytes_max,
        }
    }
}
