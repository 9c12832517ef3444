//! The record of a call: opened first, closed last, exactly once.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Instant;

use helve_core::event::EventKind;
use helve_core::json::check as check_limits;
use helve_core::ports::{JournalError, KeyClaim};
use helve_core::record::{
    Attempt, EndStatus, Ending, Entry, Facts, Finished, HandlerEnd, Payload, RawJson, Started, Timings,
};
use helve_core::run::{EffectReport, Part, PartReport, PartState, Step, StepKind, WaitingFor};
use helve_core::schema::redact::{REDACTED, scrub};
use helve_core::{
    Call, CallId, Caller, ErrorCode, ErrorKind, Outcome, Output, Repair, Stage, Status, Tool, ToolError,
};
use serde_json::Value;
use serde_json::value::to_raw_value;
use tokio_util::sync::CancellationToken;

use super::origin::Origin;
use crate::runs::{
    ActiveRun, Deed, Done, Earlier, History, InFlight, Waiting, in_doubt, step, wind_up_dropped,
};
use crate::runtime::{Durability, Parts};

/// What is known so far of a running call. Dropped before it is closed, it records that the
/// caller went away.
pub(super) struct OpenRecord<'p> {
    parts: &'p Arc<Parts>,
    origin: Origin,
    /// The run that the call is, or belongs to.
    run: Option<Arc<ActiveRun>>,
    in_flight: Option<InFlight>,
    facts: Facts,
    tool: Option<Tool>,
    payload: Payload,
    /// Texts of the arguments that are hidden, and must stay so in result and error.
    secrets: Vec<String>,
    /// Whether arguments or result are not recorded as they are.
    arguments_withheld: bool,
    result_withheld: bool,
    effects: Vec<EffectReport>,
    deed: Option<Deed>,
    /// Whether the tool was stopped in the middle of its work.
    cut_off: bool,
    attempts: Vec<Attempt>,
    result_bytes: Option<u64>,
    replay_of: Option<CallId>,
    /// Whether the journal has, or will have first, that the call has started.
    announced: bool,
    degraded: Option<Arc<[String]>>,
    claim: Option<KeyClaim>,
    /// Whether its effects are half applied, or half taken back, and go on when the run does.
    suspended: bool,
    wait: Wait,
    stage: Stage,
    since: Instant,
    timings: Timings,
    state: State,
}

/// Whether the call waits until its end is on disk.
#[derive(Clone, Copy, PartialEq)]
enum Wait {
    No,
    Yes,
}

#[derive(Clone, Copy, PartialEq)]
enum State {
    Open,
    Closed,
}

impl<'p> OpenRecord<'p> {
    pub(super) fn open(parts: &'p Arc<Parts>, call: &Call, origin: Origin) -> Self {
        let now = parts.clock.now();
        let facts = Facts {
            call_id: origin.call_id().unwrap_or_else(|| CallId::new(now)),
            received_at: now,
            correlation_id: call.correlation_id.as_deref().map(|id| shortened(id).to_string()),
            caller: Arc::clone(&call.caller),
            tool: unnamed(),
            resolved: false,
            risk: None,
            changes_world: false,
            idempotency_key: call.idempotency_key.clone(),
            part: origin.part().cloned(),
            undo_of: None,
        };
        Self {
            parts,
            run: origin.run().cloned(),
            in_flight: None,
            facts,
            tool: None,
            payload: Payload::default(),
            secrets: origin.run().map(|run| run.secrets()).unwrap_or_default(),
            arguments_withheld: false,
            result_withheld: false,
            effects: Vec::new(),
            deed: None,
            cut_off: false,
            attempts: Vec::new(),
            result_bytes: None,
            replay_of: None,
            announced: origin.cut_short().is_some(),
            degraded: None,
            origin,
            claim: None,
            suspended: false,
            wait: if parts.settings.durability == Durability::All { Wait::Yes } else { Wait::No },
            stage: Stage::Resolve,
            since: Instant::now(),
            timings: Timings::default(),
            state: State::Open,
        }
    }

    /// No journal, no call.
    pub(super) fn refuse_without_journal(&self) -> Result<(), ToolError> {
        self.parts.ledger.check().map_err(unavailable)
    }

    pub(super) fn call_id(&self) -> CallId {
        self.facts.call_id
    }

    /// Books the time so far to the stage that ends, and begins another.
    pub(super) fn enter(&mut self, stage: Stage) {
        let now = Instant::now();
        let nanos = u64::try_from((now - self.since).as_nanos()).unwrap_or(u64::MAX);
        self.timings.add(self.stage, nanos);
        self.since = now;
        self.stage = stage;
        tracing::trace!(%stage, "enter");
    }

    /// Nobody has this name.
    pub(super) fn asked_for(&mut self, name: &str) {
        self.facts.tool = shortened(name);
    }

    pub(super) fn tool_is(&mut self, tool: &Tool) {
        let definition = tool.definition();
        self.facts.tool = definition.name.to_shared();
        self.facts.resolved = true;
        self.facts.risk = Some(definition.risk);
        self.facts.changes_world = definition.changes_world();
        self.tool = Some(tool.clone());
        self.enter_run(tool);
    }

    /// Keeps arguments that nothing has checked yet; nothing of those beyond the limits.
    pub(super) fn keep_unchecked_arguments(&mut self, arguments: &Value) {
        if check_limits(arguments, self.parts.settings.arguments).is_ok() {
            self.keep_refused_arguments(arguments);
        }
    }

    /// Keeps the arguments without their secrets, and remembers those to keep them out of the rest.
    pub(super) fn keep_arguments(&mut self, arguments: &Value) {
        let schema = self.tool.as_ref().map(Tool::input);
        let redactor = &self.parts.settings.redactor;
        let shown = redactor.redact(schema, arguments);
        if matches!(shown, Cow::Owned(_)) {
            let secrets = redactor.secrets_in(schema, arguments);
            self.hide(secrets);
        }
        let shown = without(shown, &self.secrets);
        self.arguments_withheld = matches!(shown, Cow::Owned(_));
        self.payload.arguments = to_raw_value(&shown).ok();
    }

    /// Keeps arguments that do not fit the tool's schema.
    pub(super) fn keep_refused_arguments(&mut self, arguments: &Value) {
        self.keep_arguments(arguments);
        if let Some(tool) = &self.tool {
            let shown = self.parts.settings.redactor.redact_refused(tool.input(), arguments);
            self.payload.arguments = to_raw_value(&shown).ok();
        }
    }

    pub(super) fn repaired(&mut self, repairs: Vec<Repair>) {
        self.payload.repairs = repairs;
    }

    /// The call runs although these conditions do not hold. Checks like to repeat what they were
    /// given, so secrets are taken out.
    pub(super) fn degrade(&mut self, conditions: Vec<String>) {
        let mut lines = Value::from(conditions);
        scrub(&mut lines, &self.secrets);
        let lines: Vec<String> = serde_json::from_value(lines).unwrap_or_default();
        self.degraded = (!lines.is_empty()).then(|| lines.into());
    }

    /// Conditions that do not hold, and without which the call runs.
    pub(super) fn degraded(&self) -> Option<Arc<[String]>> {
        self.degraded.clone()
    }

    pub(super) fn attempted(&mut self, attempt: Attempt) {
        self.attempts.push(attempt);
        self.cut_off = in_doubt(&self.attempts);
    }

    pub(super) fn last_attempt(&self) -> Option<&Attempt> {
        self.attempts.last()
    }

    /// Keeps a result without its secrets, if it is small enough.
    pub(super) fn keep_result(&mut self, value: &Value, text: RawJson) {
        self.result_bytes = Some(text.get().len() as u64);
        // A run may need the results of its parts again, should it be cut short.
        let settings = &self.parts.settings;
        let bytes_max = if self.run.is_some() {
            settings.run_result_bytes_max
        } else {
            settings.journal_result_bytes_max
        };
        if text.get().len() > bytes_max {
            self.result_withheld = true;
            return;
        }
        let schema = self.tool.as_ref().and_then(Tool::output);
        if self.run.is_some() && matches!(settings.redactor.redact(schema, value), Cow::Owned(_)) {
            let secrets = settings.redactor.secrets_in(schema, value);
            self.hide(secrets);
        }
        self.payload.result = match self.shown(value) {
            Cow::Borrowed(_) => Some(text),
            Cow::Owned(shown) => {
                self.result_withheld = true;
                to_raw_value(&shown).ok()
            }
        };
    }

    /// A result as it may be recorded: without its own secrets and without the arguments'.
    fn shown<'v>(&self, result: &'v Value) -> Cow<'v, Value> {
        let schema = self.tool.as_ref().and_then(Tool::output);
        without(self.parts.settings.redactor.redact(schema, result), &self.secrets)
    }

    /// Keeps texts out of everything that is recorded from now on, in this call and in its run: a
    /// template may hand them to another tool under a name that does not give them away.
    fn hide(&mut self, secrets: Vec<String>) {
        if let Some(run) = &self.run {
            run.hide(&secrets);
        }
        self.secrets.extend(secrets);
    }

    /// An error as it may be recorded: tools like to repeat what they were given.
    fn shown_error(&self, error: &ToolError) -> ToolError {
        if self.secrets.is_empty() {
            return error.clone();
        }
        let mut json = serde_json::to_value(error).unwrap_or_default();
        scrub(&mut json, &self.secrets);
        serde_json::from_value(json).unwrap_or_else(|_| ToolError::new(error.code(), REDACTED))
    }

    /// An outcome as it may be kept for when its key comes again.
    fn shown_status(&self, status: &Status) -> Status {
        match status {
            Status::Done(output) => {
                Status::Done(Output { value: self.shown(&output.value).into_owned(), ..output.clone() })
            }
            Status::Failed(error) => Status::Failed(self.shown_error(error)),
            Status::Pending(pending) => Status::Pending(pending.clone()),
        }
    }

    /// The tool failed, and its failure mode makes a result of that.
    pub(super) fn returned(&mut self, error: ToolError) {
        self.payload.error = Some(self.shown_error(&error));
    }

    pub(super) fn replays(&mut self, earlier: CallId) {
        self.replay_of = Some(earlier);
    }

    /// From now on the end must be on disk before it is reported.
    pub(super) fn must_survive(&mut self) {
        self.wait = Wait::Yes;
    }

    /// The call holds its idempotency key until it is closed.
    pub(super) fn claimed(&mut self, claim: KeyClaim) {
        self.claim = Some(claim);
        self.must_survive();
    }

    /// The entry that says: about to start.
    pub(super) fn started(&self) -> Box<Started> {
        Box::new(Started {
            at: self.parts.clock.now(),
            facts: self.facts.clone(),
            digest: self.tool.as_ref().map_or_else(unnamed, |tool| Arc::clone(tool.digest())),
            withheld: self.arguments_withheld,
            arguments: self
                .payload
                .arguments
                .clone()
                .unwrap_or_else(|| RawJson::from(serde_json::value::RawValue::NULL.to_owned())),
        })
    }

    /// Writes the record and tells the outcome.
    pub(super) async fn close(&mut self, result: Result<Status, ToolError>) -> Outcome {
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
        let entry = self.finished_with(&status, facts, payload, attempts);
        let written = self.write_end(entry, &status).await;
        let status = match written {
            Ok(()) => status,
            Err(error) => {
                // Whoever recovers finds out whether the end got there after all.
                if self.is_root() && self.run.is_some() {
                    self.parts.runs.leave(self.facts.call_id);
                }
                self.unrecorded(status, attempted, error)
            }
        };
        self.enter(Stage::Record);
        let mut outcome = self.outcome(status);
        outcome.repairs = repairs;
        outcome.attempts = u32::try_from(attempted).unwrap_or(u32::MAX);
        outcome
    }

    /// Tells whoever listens, and whoever called.
    fn outcome(&mut self, status: Status) -> Outcome {
        let duration_us = self.timings.total_nanos() / 1_000;
        self.announce(&status, duration_us);
        self.tell_run(&status);
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
        outcome.degraded = self.degraded.as_deref().unwrap_or_default().to_vec();
        outcome
    }

    async fn write_end(&mut self, entry: Entry, status: &Status) -> Result<(), JournalError> {
        let ledger = &self.parts.ledger;
        match (&self.run, &self.origin) {
            // Nobody outside the run knows of this end before the run's own, which is waited for.
            (Some(run), Origin::Part(part)) if part.hold && run.is_alone(&part.part.path) => {
                run.hold(entry);
                return Ok(());
            }
            (Some(run), Origin::Part(_)) => {
                return ledger.append(entry).inspect_err(|error| run.refused_by(error));
            }
            (Some(run), Origin::Outside | Origin::Resumed(_)) => {
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
            (None, Wait::No) if ledger.is_behind() => ledger.commit(entry).await,
            (None, Wait::No) => ledger.append(entry),
        }
    }

    /// Whether the journal has failed in the middle of the run, so that nobody may call this an end.
    fn is_lost_with(&self, status: &Status) -> bool {
        let Some(run) = &self.run else { return false };
        if let Status::Failed(error) = status
            && error.code() == ErrorCode::JournalUnavailable
        {
            run.refused_by(&JournalError::new(error.message()));
        }
        // Whether the run had begun is certain when all its parts have ended.
        if self.is_root() { run.is_lost() } else { run.is_refused() }
    }

    /// A run that went on without its parts because the journal refused them all has not succeeded.
    fn without_refused(&self, status: Status) -> Status {
        let refused = self.run.as_ref().filter(|_| self.is_root()).and_then(|run| run.refused());
        match (status, refused) {
            (Status::Done(_), Some(error)) => Status::Failed(unavailable(error).at(Stage::Execute)),
            (status, _) => status,
        }
    }

    /// The run is left as the journal has it. What is known to be done is said, in case it can be.
    fn close_lost(&mut self, status: Status) -> Outcome {
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
        if let Some(run) = &self.run {
            if let Err(error) = run.release(&**ledger) {
                tracing::error!(run = %run.id, %error, "a run is left in its middle: it cannot be recorded");
            }
            self.parts.runs.leave(run.id);
        }
        let error = left_open(self.facts.call_id, status).at(Stage::Record);
        self.outcome(Status::Failed(error))
    }

    /// The run cannot go on by itself: it stays open, and says what for.
    async fn close_waiting(&mut self, waiting: Waiting, status: Status) -> Outcome {
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
                self.parts.runs.leave(run);
                self.unrecorded(status, 1, error)
            }
            (Ok(()), Some(pending)) => Status::Pending(pending),
            (Ok(()), None) => Status::Failed(waits(waiting.call_id, status).at(Stage::Execute)),
        };
        self.outcome(status)
    }

    /// Why the call cannot end now: it has begun, and it or a part of it waits for a person.
    fn waiting(&self, status: &Status) -> Option<Waiting> {
        let waiting = self.run.as_ref()?.waiting()?;
        let composed = self.tool.as_ref().is_some_and(Tool::is_composed);
        // Each part that was cut short asks for itself, one after the other.
        let unknown = matches!(status, Status::Failed(error) if error.code() == ErrorCode::OutcomeUnknown);
        let undoes = self.facts.undo_of.is_some();
        (self.announced && (composed || unknown || self.suspended || undoes || self.is_root()))
            .then_some(waiting)
    }

    /// Its effects go on when the run does.
    pub(super) fn suspend(&mut self) {
        self.suspended = true;
    }

    fn is_composed(&self) -> bool {
        self.tool.as_ref().is_some_and(Tool::is_composed)
    }

    fn is_root(&self) -> bool {
        self.facts.part.is_none()
    }

    /// Lets the run know how this part of it ended.
    fn tell_run(&mut self, status: &Status) {
        let (Some(run), Some(part)) = (&self.run, &self.facts.part) else { return };
        let call_id = self.facts.call_id;
        let state = match status {
            Status::Done(output) if output.is_failure => PartState::Failed,
            Status::Done(_) => PartState::Done,
            Status::Failed(_) if self.cut_off && self.facts.changes_world && !self.is_composed() => {
                PartState::Unknown
            }
            Status::Failed(error) => match error.code() {
                ErrorCode::Cancelled => PartState::Cancelled,
                ErrorCode::OutcomeUnknown => PartState::Unknown,
                _ => PartState::Failed,
            },
            Status::Pending(pending) => {
                let pending = Some(pending.clone());
                run.wait_for(Waiting { reason: WaitingFor::Approval, call_id, pending });
                PartState::Waiting
            }
        };
        let report =
            PartReport { path: Arc::clone(&part.path), call_id, tool: Arc::clone(&self.facts.tool), state };
        let deed = self.deed.take().filter(|_| stands(state)).map(Arc::new);
        run.add(Done { report, deed });
    }

    /// The same call before its run was cut short.
    pub(super) fn cut_short(&self) -> Option<(CallId, &Earlier)> {
        self.origin.cut_short()
    }

    pub(super) fn run(&self) -> Option<&Arc<ActiveRun>> {
        self.run.as_ref()
    }

    pub(super) fn part(&self) -> Option<&Part> {
        self.facts.part.as_ref()
    }

    /// The call is a run of its own.
    pub(super) fn begin_run(&mut self, cancellation: CancellationToken, tool: &Tool) {
        let run = Arc::new(ActiveRun::new(self.facts.call_id, cancellation, History::default()));
        run.hide(&self.secrets);
        self.parts.runs.insert(&run);
        self.run = Some(run);
        self.enter_run(tool);
    }

    /// From now on the call is going on in its run.
    fn enter_run(&mut self, tool: &Tool) {
        if let Some(run) = &self.run {
            let path = self.facts.part.as_ref().map_or_else(unnamed, |part| Arc::clone(&part.path));
            self.in_flight = Some(run.enter(&path, tool));
        }
    }

    /// Says in the journal that the call is about to start, and waits for it.
    ///
    /// A composed call does nothing by itself: its start is written with that of its first part.
    pub(super) async fn announce_start(&mut self, composed: bool) -> Result<(), JournalError> {
        let started = Entry::Started(self.started());
        self.must_survive();
        self.announced = true;
        match &self.run {
            Some(run) if composed => {
                run.hold(started);
                Ok(())
            }
            Some(run) => run.commit(&*self.parts.ledger, started).await,
            None => self.parts.ledger.commit(started).await,
        }
    }

    pub(super) fn was_announced(&mut self) {
        self.announced = true;
        if let Some(run) = &self.run {
            run.begin();
        }
    }

    /// Says in the journal that the tool has answered and its effects come next, and waits for it.
    pub(super) async fn executed(&mut self) -> Result<(), ToolError> {
        let Some(run) = self.run.clone() else { return Ok(()) };
        if self.cut_short().is_some_and(|(_, earlier)| earlier.executed.is_some()) {
            return Ok(());
        }
        if !self.announced {
            run.hold(Entry::Started(self.started()));
            self.announced = true;
        }
        self.must_survive();
        let mut step = self.step(StepKind::Executed { withheld: self.result_withheld });
        step.payload = self.payload.result.clone();
        run.commit(&*self.parts.ledger, Entry::Step(step)).await.map_err(unavailable)
    }

    /// Writes what the run has held back, before something that may take its time.
    pub(super) async fn settle_run(&self) -> Result<(), ToolError> {
        match &self.run {
            Some(run) => run.settle(&*self.parts.ledger).await.map_err(unavailable),
            None => Ok(()),
        }
    }

    /// Records a step with the next entry that is waited for.
    pub(super) fn hold_step(&self, kind: StepKind) {
        if let Some(run) = &self.run {
            run.hold(Entry::Step(self.step(kind)));
        }
    }

    /// Records a step without waiting.
    pub(super) fn append_step(&self, kind: StepKind) {
        if let Err(error) = self.parts.ledger.append(Entry::Step(self.step(kind))) {
            tracing::error!(call_id = %self.facts.call_id, %error, "a step could not be recorded");
        }
    }

    pub(super) fn caller(&self) -> &Arc<Caller> {
        &self.facts.caller
    }

    /// This call undoes another one.
    pub(super) fn undoes(&mut self, run: CallId) {
        self.facts.undo_of = Some(run);
    }

    /// What it will take to undo the call.
    pub(super) fn keep_deed(&mut self, deed: Deed) {
        self.deed = Some(deed);
    }

    pub(super) fn effects_are(&mut self, effects: Vec<EffectReport>) {
        self.effects = effects;
    }

    /// A step of this call, now.
    pub(super) fn step(&self, kind: StepKind) -> Box<Step> {
        let run = self.facts.part.as_ref().map_or(self.facts.call_id, |part| part.run);
        step(self.parts.clock.now(), self.facts.call_id, run, kind)
    }

    fn finished_with(
        &self,
        status: &Status,
        facts: Facts,
        mut payload: Payload,
        attempts: Vec<Attempt>,
    ) -> Entry {
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
            degraded: self.degraded.as_deref().unwrap_or_default().to_vec(),
            effects: self.effects.clone(),
        };
        if let Status::Failed(error) = status {
            payload.error = Some(self.shown_error(error));
        }
        // Received plus elapsed: the wall clock may jump between the two, and asking it costs more.
        let elapsed =
            jiff::SignedDuration::from_nanos(i64::try_from(self.timings.total_nanos()).unwrap_or(i64::MAX));
        let at = facts.received_at.checked_add(elapsed).unwrap_or(facts.received_at);
        Entry::Finished(Box::new(Finished { at, facts, ending, payload }))
    }

    /// An end that could not be recorded is not reported as a success.
    fn unrecorded(&self, status: Status, attempted: usize, error: JournalError) -> Status {
        tracing::error!(call_id = %self.facts.call_id, tool = %self.facts.tool, %error, "a call could not be recorded");
        if matches!(&status, Status::Failed(failed) if failed.code() == ErrorCode::JournalUnavailable) {
            return status;
        }
        let ran = attempted > 0 && self.facts.changes_world;
        Status::Failed(if ran { ran_unrecorded(error) } else { unavailable(error) }.at(Stage::Record))
    }

    /// The log is the only place for an error's source, and no place for secrets either.
    fn log(&self, status: &Status, duration_us: u64) {
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

    fn announce(&self, status: &Status, duration_us: u64) {
        let call_id = self.facts.call_id;
        if tracing::enabled!(tracing::Level::DEBUG) {
            self.log(status, duration_us);
        }
        self.parts.registry.bus().publish(|| match (status, &self.tool) {
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
                self.parts.runs.leave(run.id);
                self.parts.runs.remove(run.id);
                return;
            }
            if self.leaves_parts() {
                return wind_up_dropped(self.parts, run, &self.facts, self.payload.arguments.as_ref());
            }
            self.parts.runs.remove(run.id);
        }
        if self.state == State::Closed {
            return;
        }
        let status = Status::Failed(went_away().at(self.stage));
        self.enter(Stage::Record);
        let mut attempts = std::mem::take(&mut self.attempts);
        if self.stage_was_reached(Stage::Execute) && self.wait == Wait::Yes {
            attempts.push(Attempt {
                duration_us: 0,
                code: Some(ErrorCode::Cancelled),
                handler: HandlerEnd::Stopped,
            });
        }
        let payload = std::mem::take(&mut self.payload);
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

    fn stage_was_reached(&self, stage: Stage) -> bool {
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

pub(super) fn unavailable(error: JournalError) -> ToolError {
    ToolError::new(ErrorCode::JournalUnavailable, format!("{error}; without a record no tool runs"))
        .suggest("tell the operator; `helve doctor` says what is wrong")
        .with_source(error)
}

/// The start is on disk, the end is not: the one thing not to do now is to call again.
fn ran_unrecorded(error: JournalError) -> ToolError {
    let message = format!("the tool did run, but how it ended could not be recorded: {error}");
    ToolError::new(ErrorCode::JournalUnavailable, message)
        .retryable(false)
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
    ToolError::new(ErrorCode::JournalUnavailable, message).retryable(false).suggest(format!(
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

/// Whether what a tool did stands when its call ended so: a tool can succeed and its effects fail.
fn stands(state: PartState) -> bool {
    matches!(state, PartState::Done | PartState::Failed)
}

/// A value without texts that must not be seen. Borrowed where there are none.
fn without<'v>(value: Cow<'v, Value>, secrets: &[String]) -> Cow<'v, Value> {
    if secrets.is_empty() {
        return value;
    }
    let mut scrubbed = Value::clone(&value);
    scrub(&mut scrubbed, secrets);
    if scrubbed == *value { value } else { Cow::Owned(scrubbed) }
}

fn went_away() -> ToolError {
    ToolError::new(ErrorCode::Cancelled, "the caller went away before the call had ended")
}

fn end_status(status: &Status) -> EndStatus {
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

/// Stands for a tool until it is resolved.
fn unnamed() -> Arc<str> {
    static UNNAMED: std::sync::OnceLock<Arc<str>> = std::sync::OnceLock::new();
    Arc::clone(UNNAMED.get_or_init(|| Arc::from("")))
}

/// What was asked for may be anything; the record keeps the beginning.
fn shortened(name: &str) -> Arc<str> {
    let end = name.char_indices().nth(128).map_or(name.len(), |(end, _)| end);
    Arc::from(&name[..end])
}
