//! The end of a record: written once, and told.

use std::sync::Arc;

use helve_core::event::EventKind;
use helve_core::json::sha256_hex;
use helve_core::ports::JournalError;
use helve_core::record::{
    AttachedRecord, Attempt, CutRecord, EndStatus, Ending, Entry, Finished, GateRecord, Payload, RawJson,
};
use helve_core::{CallId, ErrorCode, ErrorKind, Outcome, Stage, Status, ToolCode, ToolError};
use serde_json::Value;

use super::super::judge::gate_record;
use super::super::origin::Origin;
use super::redacted::set_payload;
use super::{CallRecorder, Redacted, State, Wait, unavailable};
use crate::runs::{Conclusion, EndOf, Event, FollowUp, Halt, Waiting, step};
use crate::runtime::stop;

/// Longest arguments that are kept of a call that never got to its tool, in bytes.
const REFUSED_ARGUMENT_BYTES_MAX: usize = 4 << 10;

impl CallRecorder<'_> {
    /// Writes the record and tells the outcome.
    pub(in crate::pipeline) async fn close(&mut self, result: Result<Status, ToolError>) -> Outcome {
        let stage = self.stopwatch.stage();
        let status = result.unwrap_or_else(|error| Status::Failed(error.at(stage)));
        self.enter(Stage::Record);
        self.state = State::Closed;
        let status = match self.conclude(&status) {
            Conclusion::Ends => status,
            Conclusion::EndsHalted(halt) => without_halted(status, halt),
            Conclusion::Left(halt) => return self.close_lost(status, &halt),
            Conclusion::Waits(on, halt) if self.subject.is_root() => {
                let status = match halt {
                    Some(halt) => without_halted(status, halt),
                    None => status,
                };
                return Box::pin(self.close_waiting(on, status)).await;
            }
            // It goes on when its run does.
            Conclusion::Waits(..) => return self.outcome(status),
        };
        let (repairs, attempted) = (self.arguments.repairs.get().clone(), self.work.attempts.len());
        self.keep_for_trace();
        let entry = self.finished(&status);
        let written = self.write_end(entry, &status).await;
        let status = match written {
            Ok(()) => status,
            Err(error) => {
                // Recovery finds out whether the end got there after all.
                if self.subject.is_root() {
                    self.leave_run();
                }
                self.unrecorded(status, attempted, error)
            }
        };
        if self.journal.wait == Wait::Yes {
            self.enter(Stage::Record);
        }
        let mut outcome = self.outcome(status);
        outcome.repairs = repairs;
        outcome.attempts = u32::try_from(attempted).unwrap_or(u32::MAX);
        outcome
    }

    /// Tells the listeners, and the caller.
    pub(super) fn outcome(&mut self, status: Status) -> Outcome {
        let duration_us = self.stopwatch.timings().total_nanos() / 1_000;
        self.announce(&status, duration_us);
        self.tell_run(&status);
        self.tell_trace(&status);
        let mut outcome =
            Outcome::new(self.subject.facts.call_id, Arc::clone(&self.subject.facts.tool), status);
        outcome.duration_us = duration_us;
        outcome.replay_of = self.work.replay_of;
        outcome.effects = std::mem::take(&mut self.work.effects);
        if let Some(run) = &self.subject.run
            && self.subject.is_root()
            && !outcome.is_success()
        {
            outcome.parts = run.reports();
        }
        let content = self.result.attached.take();
        // What Helve refused is not handed out with the refusal.
        outcome.content = content.filter(|_| match &outcome.status {
            Status::Done(_) => true,
            Status::Failed(error) => error.code() == ErrorCode::ExecutionFailed,
            Status::Pending(_) => false,
        });
        outcome.context = std::mem::take(&mut self.messages.for_model).into_inner();
        outcome.messages = std::mem::take(&mut self.messages.for_user).into_inner();
        outcome.degraded = self.all_degraded();
        outcome.cost.clone_from(&self.work.cost);
        outcome
    }

    pub(super) async fn write_end(&mut self, entry: Entry, status: &Status) -> Result<(), JournalError> {
        let ledger = &self.engine.ledger;
        match (&self.subject.run, &self.subject.origin) {
            (Some(run), Origin::Part(part)) => {
                let entry = match part.follow_up {
                    // Nobody outside the run knows of this end before the run's own, which is waited for.
                    FollowUp::AtOnce => run.buffer_if_alone(&part.part.path, entry),
                    FollowUp::Unknown => Some(entry),
                };
                let Some(entry) = entry else { return Ok(()) };
                return ledger.append(entry).inspect_err(|error| run.feed(Event::Refused(error.clone())));
            }
            (
                Some(run),
                Origin::Outside(_)
                | Origin::Served(_)
                | Origin::Raised(_)
                | Origin::Approved(_)
                | Origin::Resumed(_),
            ) => {
                if self.journal.wait == Wait::Yes && self.journal.claim.is_none() {
                    return run.commit(&**ledger, entry).await;
                }
                run.release(&**ledger)?;
            }
            (None, _) => {}
        }
        match (self.journal.claim.take(), self.journal.wait) {
            (Some(claim), _) => {
                let kept = Arc::new(self.arguments.scrubber().status(status).into_inner());
                ledger.finish(entry, claim, kept).await
            }
            (None, Wait::Yes) => ledger.commit(entry).await,
            // Waiting here is what keeps a flood of reads from outrunning the disk.
            (None, Wait::No) if ledger.is_behind() => {
                self.journal.wait = Wait::Yes;
                ledger.commit(entry).await
            }
            (None, Wait::No) => ledger.append(entry),
        }
    }

    /// How the call may end, as its run stands.
    fn conclude(&self, status: &Status) -> Conclusion {
        let Some(run) = &self.subject.run else { return Conclusion::Ends };
        if let Status::Failed(error) = status
            && error.code() == ErrorCode::JournalUnavailable
        {
            run.feed(Event::Refused(JournalError::new(error.message())));
        }
        run.conclude(match (self.subject.is_root(), self.journal.has_start) {
            (true, true) => EndOf::Root,
            (true, false) => EndOf::UnstartedRoot,
            (false, true) if self.goes_on_with_its_run(status) => EndOf::OpenPart,
            (false, _) => EndOf::Part,
        })
    }

    /// Whether a part that has begun is not done: it, or a part of it, waits for a person.
    fn goes_on_with_its_run(&self, status: &Status) -> bool {
        // Each part that was cut short asks for itself, one after the other.
        let is_unknown = matches!(status, Status::Failed(error) if error.code() == ErrorCode::OutcomeUnknown);
        self.subject.is_composed() || is_unknown || self.work.is_suspended
    }

    /// The run is left as the journal has it. What is known to be done is said, in case it can be.
    fn close_lost(&mut self, status: Status, halt: &Halt) -> Outcome {
        let ledger = &self.engine.ledger;
        // What a composition came to without the parts that were refused is not what it comes to.
        let composed = self.subject.is_composed();
        if matches!(status, Status::Done(_))
            && !self.work.is_suspended
            && !composed
            && !self.subject.is_root()
        {
            let entry = self.finished(&status);
            if let Err(error) = ledger.append(entry) {
                tracing::error!(call_id = %self.subject.facts.call_id, %error, "a part could not be recorded");
            }
        }
        if !self.subject.is_root() {
            return self.outcome(status);
        }
        if let Some(run) = &self.subject.run
            && let Err(error) = run.release(&**ledger)
        {
            tracing::error!(run = %run.id, %error, "a run is left in its middle: it cannot be recorded");
        }
        self.leave_run();
        let error = match halt {
            Halt::Stop(by) => stop::left_open(by, self.subject.facts.call_id),
            Halt::Ledger(_) => left_open(self.subject.facts.call_id, status),
        };
        self.outcome(Status::Failed(error.at(Stage::Record)))
    }

    /// Leaves the run as it is in the ledger, for recovery.
    fn leave_run(&self) {
        if let Some(run) = &self.subject.run {
            self.engine.runs.leave(run.id, run.left());
        }
    }

    /// The run cannot go on by itself: it stays open, and says what for.
    pub(super) async fn close_waiting(&mut self, waiting: Waiting, status: Status) -> Outcome {
        let (run, kind) = (self.subject.facts.call_id, waiting.step());
        let mut step = step(self.engine.clock.now(), waiting.call_id, run, kind);
        if let Status::Failed(error) = &status {
            // The person who is asked should know why.
            set_payload(&mut step, self.arguments.scrubber().error(error).to_json());
        }
        let entry = Entry::Step(step);
        let written = match &self.subject.run {
            Some(run) => run.commit(&*self.engine.ledger, entry).await,
            None => self.engine.ledger.commit(entry).await,
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

    /// The entry that says how the call ended. It takes what was recorded with it.
    pub(super) fn finished(&mut self, status: &Status) -> Entry {
        let attempts = std::mem::take(&mut self.work.attempts);
        let payload = self.payload(status, &attempts);
        let error = match status {
            Status::Failed(error) => Some(error),
            Status::Done(_) | Status::Pending(_) => payload.error.as_ref(),
        };
        let timings = *self.stopwatch.timings();
        let ending = Ending {
            status: end_status(status),
            code: error.map(ToolError::code),
            // As it is recorded: a tool could put anything into a code.
            tool_code: payload.error.as_ref().and_then(ToolError::own_code).cloned(),
            stage: error.and_then(ToolError::stage),
            approval_id: match status {
                Status::Pending(pending) => Some(pending.approval_id),
                Status::Failed(_) => self.gate.refused_by,
                Status::Done(_) => None,
            },
            replay_of: self.work.replay_of,
            attempts,
            timings,
            result_bytes: self.result.bytes,
            withheld: self.result.is_withheld,
            degraded: self.all_degraded(),
            effects: self.work.effects.clone(),
            gate: self.gate_record(),
            cost: self.work.cost.clone(),
        };
        let facts = self.subject.facts.clone();
        // Received plus elapsed: the wall clock may jump between the two, and asking it costs more.
        let elapsed =
            jiff::SignedDuration::from_nanos(i64::try_from(timings.total_nanos()).unwrap_or(i64::MAX));
        let at = facts.received_at.checked_add(elapsed).unwrap_or(facts.received_at);
        Entry::Finished(Box::new(Finished { at, facts, ending, payload }))
    }

    /// What the call was given, was told and answered, as it is recorded. Every part of it is [`Redacted`].
    fn payload(&mut self, status: &Status, attempts: &[Attempt]) -> Payload {
        let scrubber = self.arguments.scrubber();
        let error = match status {
            Status::Failed(error) => Some(scrubber.error(error)),
            Status::Done(_) | Status::Pending(_) => self.result.returned.take(),
        };
        let votes = scrubber.votes(self.gate.ballot.votes());
        let advice = self.gate.advice.take().map(|advice| scrubber.advice(&advice));
        let (arguments, cut) = self.shortened_arguments(status, attempts);
        Payload {
            arguments: arguments.map(Redacted::into_inner),
            cut,
            repairs: std::mem::take(&mut self.arguments.repairs).into_inner(),
            result: self.result.shown.take().map(Redacted::into_inner),
            attached: self.result.attached().map(|content| AttachedRecord {
                bytes: content.get().len() as u64,
                sha256: sha256_hex(content.get().as_bytes()),
            }),
            error: error.map(Redacted::into_inner),
            votes: votes.into_inner(),
            advice: advice.map(|advice| Box::new(advice.into_inner())),
        }
    }

    /// The arguments without those that the start has, and of long ones only a little.
    ///
    /// A start has all of them, however long: without them a run that is cut short could not go on.
    fn shortened_arguments(
        &mut self,
        status: &Status,
        attempts: &[Attempt],
    ) -> (Option<Redacted<RawJson>>, Option<CutRecord>) {
        let arguments = self.arguments.shown.take().filter(|_| !self.arguments.are_in_start);
        let settings = &self.engine.settings;
        // A caller of refused calls should not fill the disk with them.
        let is_refused = matches!(status, Status::Failed(_)) && attempts.is_empty();
        let bytes_max = match (is_refused, self.subject.run().is_some()) {
            (true, _) => settings.journal_argument_bytes_max.min(REFUSED_ARGUMENT_BYTES_MAX),
            (false, true) => settings.journal_argument_bytes_max.max(settings.run_result_bytes_max),
            (false, false) => settings.journal_argument_bytes_max,
        };
        match arguments {
            Some(long) if long.get().get().len() > bytes_max => (None, Some(CutRecord::of(long.get().get()))),
            arguments => (arguments, None),
        }
    }

    pub(super) fn gate_record(&self) -> Option<GateRecord> {
        gate_record(self.gate.ballot.votes(), self.gate.decided)
    }

    /// An end that could not be recorded is not reported as a success.
    pub(super) fn unrecorded(&self, status: Status, attempted: usize, error: JournalError) -> Status {
        tracing::error!(call_id = %self.subject.facts.call_id, tool = %self.subject.facts.tool, %error, "a call could not be recorded");
        if matches!(&status, Status::Failed(failed) if failed.code() == ErrorCode::JournalUnavailable) {
            return status;
        }
        let ran = attempted > 0 && self.subject.facts.changes_world;
        Status::Failed(if ran { ran_unrecorded(error) } else { unavailable(error) }.at(Stage::Record))
    }

    /// The log is the only place for an error's source, and no place for secrets either.
    pub(super) fn log(&self, status: &Status, duration_us: u64) {
        let (call_id, tool) = (self.subject.facts.call_id, &self.subject.facts.tool);
        let Status::Failed(error) = status else {
            tracing::debug!(%call_id, %tool, duration_us, "call ended");
            return;
        };
        let source = std::error::Error::source(error).map(|source| {
            // As JSON: what it says may have several lines.
            let text = self.arguments.scrubber().text(source.to_string());
            tracing::field::display(Value::String(text.into_inner()))
        });
        tracing::debug!(%call_id, %tool, code = %error.code(), source, "call failed: {}", self.arguments.scrubber().error(error).get());
    }

    pub(super) fn announce(&self, status: &Status, duration_us: u64) {
        let call_id = self.subject.facts.call_id;
        if tracing::enabled!(tracing::Level::DEBUG) {
            self.log(status, duration_us);
        }
        self.engine.registry.bus().publish_of(&self.subject.facts.caller, || {
            match (status, &self.subject.tool) {
                (Status::Done(output), Some(tool)) if !output.is_failure => {
                    EventKind::Executed { call_id, tool: tool.name().clone(), duration_us }
                }
                (Status::Pending(pending), Some(tool)) => EventKind::Pending {
                    call_id,
                    tool: tool.name().clone(),
                    approval_id: pending.approval_id,
                },
                (Status::Failed(error), _) => EventKind::Failed {
                    call_id,
                    tool: self.subject.facts.tool.clone(),
                    code: error.code(),
                    tool_code: self.own_code(error),
                    duration_us,
                    may_have_happened: error.may_have_happened() && self.work.replay_of.is_none(),
                },
                (Status::Done(output), _) => {
                    let error = output.error();
                    EventKind::Failed {
                        call_id,
                        tool: self.subject.facts.tool.clone(),
                        code: error.as_ref().map_or(ErrorCode::ExecutionFailed, ToolError::code),
                        tool_code: error.as_ref().and_then(|error| self.own_code(error)),
                        duration_us,
                        may_have_happened: false,
                    }
                }
                (Status::Pending(_), None) => EventKind::Failed {
                    call_id,
                    tool: self.subject.facts.tool.clone(),
                    code: ErrorCode::ExecutionFailed,
                    tool_code: None,
                    duration_us,
                    may_have_happened: false,
                },
            }
        });
    }

    /// The tool's own code of an error, without the call's secrets: a tool could put anything into a code.
    fn own_code(&self, error: &ToolError) -> Option<ToolCode> {
        error.own_code()?;
        self.arguments.scrubber().error(error).get().own_code().cloned()
    }
}

/// A run that went on without its parts because the journal refused them all has not succeeded.
fn without_halted(status: Status, halt: Halt) -> Status {
    match (status, halt) {
        (Status::Done(_), Halt::Ledger(error)) => Status::Failed(unavailable(error).at(Stage::Execute)),
        (Status::Done(_), Halt::Stop(by)) => Status::Failed(stop::refused(&by).at(Stage::Execute)),
        (status @ (Status::Failed(_) | Status::Pending(_)), _) => status,
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
