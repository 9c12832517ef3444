//! The end of a record: written once, and told.

use std::sync::Arc;

use helve_core::event::EventKind;
use helve_core::json::sha256_hex;
use helve_core::ports::JournalError;
use helve_core::record::{
    AttachedRecord, Attempt, CutRecord, EndStatus, Ending, Entry, Facts, Finished, GateRecord, HandlerEnd,
    Payload, VoteRecord,
};
use helve_core::schema::redact::scrub;
use helve_core::{Advice, CallId, ErrorCode, ErrorKind, Outcome, Stage, Status, Tool, ToolError};
use serde_json::Value;
use serde_json::value::to_raw_value;

use super::super::judge::gate_record;
use super::super::origin::Origin;
use super::{OpenRecord, State, Wait, unavailable};
use crate::runs::{FollowUp, Waiting, leave_dropped, step, wind_up_dropped};
use crate::runtime::stop;

/// Longest arguments that are kept of a call that never got to its tool, in bytes.
const REFUSED_ARGUMENT_BYTES_MAX: usize = 4 << 10;

impl OpenRecord<'_> {
    /// Writes the record and tells the outcome.
    pub(in crate::pipeline) async fn close(&mut self, result: Result<Status, ToolError>) -> Outcome {
        let stage = self.stage;
        let status = result.unwrap_or_else(|error| Status::Failed(error.at(stage)));
        self.enter(Stage::Record);
        self.state = State::Closed;
        if self.is_lost_with(&status) {
            return self.close_lost(status);
        }
        let status = self.without_refused(status);
        match self.waiting(&status) {
            Some(waiting) if self.is_root() => return Box::pin(self.close_waiting(waiting, status)).await,
            // It goes on when its run does.
            Some(_) => return self.outcome(status),
            None => {}
        }
        let facts = self.facts.clone();
        let payload = std::mem::take(&mut self.payload);
        let attempts = std::mem::take(&mut self.attempts);
        let (repairs, attempted) = (payload.repairs.clone(), attempts.len());
        if let Some(trace) = &mut self.trace {
            trace.keep(&payload, attempted);
        }
        let entry = self.finished_with(&status, facts, payload, attempts);
        let written = self.write_end(entry, &status).await;
        let status = match written {
            Ok(()) => status,
            Err(error) => {
                // Whoever recovers finds out whether the end got there after all.
                if self.is_root() {
                    self.leave_run();
                }
                self.unrecorded(status, attempted, error)
            }
        };
        if self.wait == Wait::Yes {
            self.enter(Stage::Record);
        }
        let mut outcome = self.outcome(status);
        outcome.repairs = repairs;
        outcome.attempts = u32::try_from(attempted).unwrap_or(u32::MAX);
        outcome
    }

    /// Tells whoever listens, and whoever called.
    pub(super) fn outcome(&mut self, status: Status) -> Outcome {
        let duration_us = self.timings.total_nanos() / 1_000;
        self.announce(&status, duration_us);
        self.tell_run(&status);
        self.tell_trace(&status);
        let mut outcome = Outcome::new(self.facts.call_id, Arc::clone(&self.facts.tool), status);
        outcome.duration_us = duration_us;
        outcome.replay_of = self.replay_of;
        outcome.effects = std::mem::take(&mut self.effects);
        if let Some(run) = &self.run
            && self.is_root()
            && !outcome.is_success()
        {
            outcome.parts = run.reports();
        }
        let content = self.content.take();
        // What Helve refused is not handed out beside the refusal.
        outcome.content = content.filter(|_| match &outcome.status {
            Status::Done(_) => true,
            Status::Failed(error) => error.code() == ErrorCode::ExecutionFailed,
            Status::Pending(_) => false,
        });
        outcome.context = std::mem::take(&mut self.context);
        outcome.messages = std::mem::take(&mut self.messages);
        outcome.degraded = self.all_degraded();
        outcome.cost.clone_from(&self.cost);
        outcome
    }

    pub(super) async fn write_end(&mut self, entry: Entry, status: &Status) -> Result<(), JournalError> {
        let ledger = &self.parts.ledger;
        match (&self.run, &self.origin) {
            (Some(run), Origin::Part(part)) => {
                let entry = match part.follow_up {
                    // Nobody outside the run knows of this end before the run's own, which is waited for.
                    FollowUp::AtOnce => run.hold_if_alone(&part.part.path, entry),
                    FollowUp::Unknown => Some(entry),
                };
                let Some(entry) = entry else { return Ok(()) };
                return ledger.append(entry).inspect_err(|error| run.refused_by(error));
            }
            (
                Some(run),
                Origin::Outside
                | Origin::Served(_)
                | Origin::Raised(_)
                | Origin::Approved(_)
                | Origin::Resumed(_),
            ) => {
                if self.wait == Wait::Yes && self.claim.is_none() {
                    return run.commit(&**ledger, entry).await;
                }
                run.release(&**ledger)?;
            }
            (None, _) => {}
        }
        match (self.claim.take(), self.wait) {
            (Some(claim), _) => {
                let kept = Arc::new(self.shown_status(status));
                ledger.finish(entry, claim, kept).await
            }
            (None, Wait::Yes) => ledger.commit(entry).await,
            // Waiting here is what keeps a flood of reads from outrunning the disk.
            (None, Wait::No) if ledger.is_behind() => {
                self.wait = Wait::Yes;
                ledger.commit(entry).await
            }
            (None, Wait::No) => ledger.append(entry),
        }
    }

    /// Whether the journal has failed in the middle of the run, so that nobody may call this an end.
    pub(super) fn is_lost_with(&self, status: &Status) -> bool {
        let Some(run) = &self.run else { return false };
        if let Status::Failed(error) = status
            && error.code() == ErrorCode::JournalUnavailable
            && run.stopped_by().is_none()
        {
            run.refused_by(&JournalError::new(error.message()));
        }
        // Whether the run had begun is certain when all its parts have ended.
        if self.is_root() { run.is_lost() } else { run.is_refused() }
    }

    /// A run that went on without its parts because the journal refused them all has not succeeded.
    pub(super) fn without_refused(&self, status: Status) -> Status {
        let refused = self.run.as_ref().filter(|_| self.is_root()).and_then(|run| run.refused());
        match (status, refused) {
            (Status::Done(_), Some(error)) => {
                let by = self.run.as_ref().and_then(|run| run.stopped_by());
                let error = by.map_or_else(|| unavailable(error), |by| stop::refused(&by));
                Status::Failed(error.at(Stage::Execute))
            }
            (status, _) => status,
        }
    }

    /// The run is left as the journal has it. What is known to be done is said, in case it can be.
    pub(super) fn close_lost(&mut self, status: Status) -> Outcome {
        let ledger = &self.parts.ledger;
        // What a composition came to without the parts that were refused is not what it comes to.
        let composed = self.tool.as_ref().is_some_and(Tool::is_composed);
        if matches!(status, Status::Done(_)) && !self.suspended && !composed && !self.is_root() {
            let payload = std::mem::take(&mut self.payload);
            let attempts = std::mem::take(&mut self.attempts);
            let entry = self.finished_with(&status, self.facts.clone(), payload, attempts);
            if let Err(error) = ledger.append(entry) {
                tracing::error!(call_id = %self.facts.call_id, %error, "a part could not be recorded");
            }
        }
        if !self.is_root() {
            return self.outcome(status);
        }
        if let Some(run) = &self.run
            && let Err(error) = run.release(&**ledger)
        {
            tracing::error!(run = %run.id, %error, "a run is left in its middle: it cannot be recorded");
        }
        self.leave_run();
        let error = match self.run.as_ref().and_then(|run| run.stopped_by()) {
            Some(by) => stop::left_open(&by, self.facts.call_id),
            None => left_open(self.facts.call_id, status),
        };
        self.outcome(Status::Failed(error.at(Stage::Record)))
    }

    /// Leaves the run as it is in the ledger, for whoever recovers.
    fn leave_run(&self) {
        if let Some(run) = &self.run {
            self.parts.runs.leave(run.id, run.left());
        }
    }

    /// The run cannot go on by itself: it stays open, and says what for.
    pub(super) async fn close_waiting(&mut self, waiting: Waiting, status: Status) -> Outcome {
        let (run, kind) = (self.facts.call_id, waiting.step());
        let mut step = step(self.parts.clock.now(), waiting.call_id, run, kind);
        if let Status::Failed(error) = &status {
            // Whoever is asked should know why.
            step.payload = to_raw_value(&self.shown_error(error)).ok();
        }
        let entry = Entry::Step(step);
        let written = match &self.run {
            Some(run) => run.commit(&*self.parts.ledger, entry).await,
            None => self.parts.ledger.commit(entry).await,
        };
        let status = match (written, waiting.pending) {
            (Err(error), _) => {
                self.leave_run();
                self.unrecorded(status, 1, error)
            }
            (Ok(()), Some(pending)) => Status::Pending(pending),
            (Ok(()), None) => Status::Failed(waits(waiting.call_id, status).at(Stage::Execute)),
        };
        self.outcome(status)
    }

    /// Why the call cannot end now: it has begun, and it or a part of it waits for a person.
    pub(super) fn waiting(&self, status: &Status) -> Option<Waiting> {
        let waiting = self.run.as_ref()?.waiting()?;
        let composed = self.tool.as_ref().is_some_and(Tool::is_composed);
        // Each part that was cut short asks for itself, one after the other.
        let unknown = matches!(status, Status::Failed(error) if error.code() == ErrorCode::OutcomeUnknown);
        let undoes = self.facts.undo_of.is_some();
        (self.announced && (composed || unknown || self.suspended || undoes || self.is_root()))
            .then_some(waiting)
    }

    pub(super) fn finished_with(
        &self,
        status: &Status,
        facts: Facts,
        mut payload: Payload,
        attempts: Vec<Attempt>,
    ) -> Entry {
        self.shorten(&mut payload, status, &attempts);
        let error = match status {
            Status::Failed(error) => Some(error),
            Status::Done(_) | Status::Pending(_) => payload.error.as_ref(),
        };
        let ending = Ending {
            status: end_status(status),
            code: error.map(ToolError::code),
            stage: error.and_then(ToolError::stage),
            approval_id: match status {
                Status::Pending(pending) => Some(pending.approval_id),
                Status::Done(_) | Status::Failed(_) => None,
            },
            replay_of: self.replay_of,
            attempts,
            timings: self.timings,
            result_bytes: self.result_bytes,
            withheld: self.result_withheld,
            degraded: self.all_degraded(),
            effects: self.effects.clone(),
            gate: self.gate_record(),
            cost: self.cost.clone(),
        };
        if let Status::Failed(error) = status {
            payload.error = Some(self.shown_error(error));
        }
        payload.votes = self.shown_votes();
        if let Some(advice) = &mut payload.advice {
            **advice = self.shown_advice(advice);
        }
        payload.attached = self.content.as_ref().map(|content| AttachedRecord {
            bytes: content.get().len() as u64,
            sha256: sha256_hex(content.get().as_bytes()),
        });
        // Received plus elapsed: the wall clock may jump between the two, and asking it costs more.
        let elapsed =
            jiff::SignedDuration::from_nanos(i64::try_from(self.timings.total_nanos()).unwrap_or(i64::MAX));
        let at = facts.received_at.checked_add(elapsed).unwrap_or(facts.received_at);
        Entry::Finished(Box::new(Finished { at, facts, ending, payload }))
    }

    /// Leaves out arguments that the start has, and keeps little of long ones.
    ///
    /// A start has all of them, however long: without them a run that is cut short could not go on.
    fn shorten(&self, payload: &mut Payload, status: &Status, attempts: &[Attempt]) {
        if self.start_has_arguments {
            payload.arguments = None;
        }
        let settings = &self.parts.settings;
        // Whoever sends what is refused should not fill the disk with it.
        let is_refused = matches!(status, Status::Failed(_)) && attempts.is_empty();
        let bytes_max = match (is_refused, self.run.is_some()) {
            (true, _) => settings.journal_argument_bytes_max.min(REFUSED_ARGUMENT_BYTES_MAX),
            (false, true) => settings.journal_argument_bytes_max.max(settings.run_result_bytes_max),
            (false, false) => settings.journal_argument_bytes_max,
        };
        if let Some(long) = payload.arguments.take_if(|arguments| arguments.get().len() > bytes_max) {
            payload.cut = Some(CutRecord::of(long.get()));
        }
    }

    pub(super) fn gate_record(&self) -> Option<GateRecord> {
        gate_record(self.votes(), self.decided)
    }

    /// Votes that have a reason, which may repeat what the source was told.
    fn shown_votes(&self) -> Vec<VoteRecord> {
        let with_words = self.votes().iter().filter(|vote| vote.reason.is_some());
        with_words
            .map(|vote| {
                let mut reason = Value::from(vote.reason.clone());
                scrub(&mut reason, &self.secrets);
                VoteRecord {
                    by: Arc::clone(&vote.by),
                    stance: vote.stance,
                    reason: reason.as_str().map(str::to_owned),
                }
            })
            .collect()
    }

    /// What the calling agent said of its call, without the call's secrets and no longer than anybody reads.
    pub(in crate::pipeline) fn shown_advice(&self, advice: &Advice) -> Advice {
        const REASONING_BYTES_MAX: usize = 4 << 10;
        let mut reasoning = Value::from(advice.reasoning.clone());
        scrub(&mut reasoning, &self.secrets);
        let reasoning =
            reasoning.as_str().map(|text| text[..text.floor_char_boundary(REASONING_BYTES_MAX)].to_owned());
        let confidence = advice.confidence.filter(|confidence| confidence.is_finite());
        Advice { action: advice.action, confidence, reasoning }
    }

    /// An end that could not be recorded is not reported as a success.
    pub(super) fn unrecorded(&self, status: Status, attempted: usize, error: JournalError) -> Status {
        tracing::error!(call_id = %self.facts.call_id, tool = %self.facts.tool, %error, "a call could not be recorded");
        if matches!(&status, Status::Failed(failed) if failed.code() == ErrorCode::JournalUnavailable) {
            return status;
        }
        let ran = attempted > 0 && self.facts.changes_world;
        Status::Failed(if ran { ran_unrecorded(error) } else { unavailable(error) }.at(Stage::Record))
    }

    /// The log is the only place for an error's source, and no place for secrets either.
    pub(super) fn log(&self, status: &Status, duration_us: u64) {
        let (call_id, tool) = (self.facts.call_id, &self.facts.tool);
        let Status::Failed(error) = status else {
            tracing::debug!(%call_id, %tool, duration_us, "call ended");
            return;
        };
        let source = std::error::Error::source(error).map(|source| {
            let mut text = Value::String(source.to_string());
            scrub(&mut text, &self.secrets);
            tracing::field::display(text)
        });
        tracing::debug!(%call_id, %tool, code = %error.code(), source, "call failed: {}", self.shown_error(error));
    }

    pub(super) fn announce(&self, status: &Status, duration_us: u64) {
        let call_id = self.facts.call_id;
        if tracing::enabled!(tracing::Level::DEBUG) {
            self.log(status, duration_us);
        }
        self.parts.registry.bus().publish_of(&self.facts.caller, || match (status, &self.tool) {
            (Status::Done(output), Some(tool)) if !output.is_failure => {
                EventKind::Executed { call_id, tool: tool.name().clone(), duration_us }
            }
            (Status::Pending(pending), Some(tool)) => {
                EventKind::Pending { call_id, tool: tool.name().clone(), approval_id: pending.approval_id }
            }
            (Status::Failed(error), _) => {
                EventKind::Failed { call_id, tool: self.facts.tool.clone(), code: error.code(), duration_us }
            }
            (Status::Done(_) | Status::Pending(_), _) => EventKind::Failed {
                call_id,
                tool: self.facts.tool.clone(),
                code: ErrorCode::ExecutionFailed,
                duration_us,
            },
        });
    }
}

impl Drop for OpenRecord<'_> {
    fn drop(&mut self) {
        if self.state == State::Closed && !self.is_root() {
            return;
        }
        self.settle_bill();
        let run = self.run.clone();
        if let Some(run) = &run
            && self.state == State::Open
            && let Err(error) = run.release(&*self.parts.ledger)
        {
            tracing::error!(run = %run.id, %error, "what a cancelled run did could not be recorded");
        }
        if let Some(run) = &run
            && self.is_root()
        {
            if self.state == State::Open && run.is_lost() {
                return leave_dropped(self.parts, run);
            }
            if self.leaves_parts() {
                return wind_up_dropped(self.parts, run, &self.facts, self.payload.arguments.as_ref());
            }
            self.parts.runs.remove(run);
        }
        if self.state == State::Closed {
            return;
        }
        let went_away = went_away().at(self.stage);
        self.enter(Stage::Record);
        let mut attempts = std::mem::take(&mut self.attempts);
        if self.stage_was_reached(Stage::Execute) && self.wait == Wait::Yes {
            attempts.push(Attempt {
                duration_us: 0,
                code: Some(ErrorCode::Cancelled),
                handler: HandlerEnd::Stopped,
                nothing_done: false,
            });
            // Its run has to know, too.
            self.cut_off = true;
        }
        let repeatable = self.tool.as_ref().is_none_or(|tool| tool.definition().repeatable());
        let in_doubt = self.cut_off && !repeatable;
        let status = Status::Failed(if in_doubt { went_away.in_doubt() } else { went_away });
        let payload = std::mem::take(&mut self.payload);
        if let Some(trace) = &mut self.trace {
            trace.keep(&payload, attempts.len());
        }
        self.tell_trace(&status);
        let entry = self.finished_with(&status, self.facts.clone(), payload, attempts);
        self.tell_run(&status);
        self.write_in_background(entry, status);
    }
}

impl OpenRecord<'_> {
    /// Whether it goes away in the middle of a composed run, whose parts are to be undone or listed.
    fn leaves_parts(&self) -> bool {
        let composed = self.tool.as_ref().is_some_and(Tool::is_composed);
        let lives = tokio::runtime::Handle::try_current().is_ok();
        self.state == State::Open && composed && self.announced && lives
    }

    pub(super) fn stage_was_reached(&self, stage: Stage) -> bool {
        self.timings.iter().any(|(reached, _)| reached == stage)
    }

    /// From a destructor nothing can be awaited; a key is given back by a task.
    fn write_in_background(&mut self, entry: Entry, status: Status) {
        let call_id = self.facts.call_id;
        let lost = move |error: JournalError| tracing::error!(%call_id, %error, "a cancelled call could not be recorded");
        match (self.claim.take(), tokio::runtime::Handle::try_current()) {
            (Some(claim), Ok(handle)) => {
                let journal = Arc::clone(&self.parts.ledger);
                handle.spawn(async move {
                    if let Err(error) = journal.finish(entry, claim, Arc::new(status)).await {
                        lost(error);
                    }
                });
            }
            _ => {
                if let Err(error) = self.parts.ledger.append(entry) {
                    lost(error);
                }
            }
        }
    }
}

/// The start is on disk, the end is not: the one thing not to do now is to call again.
fn ran_unrecorded(error: JournalError) -> ToolError {
    let message = format!("the tool did run, but how it ended could not be recorded: {error}");
    ToolError::new(ErrorCode::JournalUnavailable, message)
        .in_doubt()
        .suggest("find out what the tool did before calling it again")
        .with_source(error)
}

/// The journal has failed in the middle of a run. It has not ended, whatever its parts came to.
fn left_open(run: CallId, status: Status) -> ToolError {
    let before = match &status {
        Status::Failed(error) => error.message().to_owned(),
        Status::Done(_) | Status::Pending(_) => "its end could not be recorded".to_owned(),
    };
    let message = format!("the journal failed in the middle of {run}, which is left as it was: {before}");
    ToolError::new(ErrorCode::JournalUnavailable, message).in_doubt().suggest(format!(
        "do not call again: once the journal can be written, {run} goes on when it is recovered"
    ))
}

/// A run that waits for a person has not failed, whatever its parts came to.
fn waits(call_id: CallId, status: Status) -> ToolError {
    match status {
        Status::Failed(error) if error.code() == ErrorCode::OutcomeUnknown => error,
        Status::Failed(error) => {
            let message = format!("the run waits: nobody knows what became of {call_id}; before: {error}");
            ToolError::new(ErrorCode::OutcomeUnknown, message)
                .suggest(format!("find out what {call_id} did, then resume the run and say so"))
                .with_source(error)
        }
        Status::Done(_) | Status::Pending(_) => {
            ToolError::new(ErrorCode::OutcomeUnknown, format!("the run waits for what became of {call_id}"))
        }
    }
}

fn went_away() -> ToolError {
    ToolError::new(ErrorCode::Cancelled, "the caller went away before the call had ended")
}

pub(super) fn end_status(status: &Status) -> EndStatus {
    match status {
        Status::Done(output) if output.is_failure => EndStatus::Returned,
        Status::Done(_) => EndStatus::Done,
        Status::Pending(_) => EndStatus::Pending,
        Status::Failed(error) => match error.kind() {
            ErrorKind::Denied => EndStatus::Denied,
            ErrorKind::Caller
            | ErrorKind::Setup
            | ErrorKind::Transient
            | ErrorKind::Tool
            | ErrorKind::Internal => EndStatus::Failed,
        },
    }
}
