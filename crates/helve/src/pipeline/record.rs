//! The recorder of a call: opened first, closed last, exactly once.
//!
//! It is made of parts with one concern each, and a stage gets only those that it may touch: before the tool runs,
//! [`BeforeWork`], after it [`AfterWork`]. Only stages that begin or end runs get all of it.
//!
//! | part | what it holds |
//! |---|---|
//! | [`Subject`] | who calls what, when, from where, within which run; stages only read it |
//! | [`ArgumentsRecord`] | the arguments as they are recorded, and the [`Scrubber`] that knows their secrets |
//! | [`GateRecorder`] | the votes on the call, and what the gate decided |
//! | [`WorkRecord`] | what the tool did: attempts, cost, effects, undo |
//! | [`ResultRecord`] | the answer as it is recorded |
//! | [`Messages`] | what the model and the user are told besides it |

mod arguments;
mod bill;
mod close;
mod dropped;
mod messages;
mod redacted;
mod result;
mod run;
mod stopwatch;
mod subject;
mod trace;
mod views;
mod work;

use std::sync::Arc;

use helve_core::approval::{Approved, Grant};
use helve_core::ports::{JournalError, KeyClaim};
use helve_core::record::{Attempt, RawJson, Started};
use helve_core::{Advice, ApprovalId, Call, ErrorCode, Stage, Stance, ToolError};
use tokio::time::Instant;

use super::authorize::{AuthorizedCall, Unauthorized};
use super::decide::Permission;
use super::origin::Origin;
use super::resolve::{ResolvedCall, Unresolved};
use super::votes::Ballot;
use crate::runs::InFlight;
use crate::runtime::{Durability, Engine, GoingOn};
pub(super) use arguments::ArgumentsRecord;
pub(super) use messages::Messages;
use redacted::Redacted;
pub(super) use redacted::Scrubber;
pub(crate) use redacted::{error_of_run, is_redacted, note_of_run, result_by_person, set_payload};
pub(super) use result::ResultRecord;
use stopwatch::Stopwatch;
pub(super) use subject::Subject;
use trace::OpenTrace;
pub(super) use views::{AfterWork, BeforeWork};
pub(super) use work::{HowKnown, WorkRecord};

/// Records a running call. Dropped before it is closed, it records that the caller went away.
pub(super) struct CallRecorder<'p> {
    engine: &'p Arc<Engine>,
    pub(super) subject: Subject<'p>,
    pub(super) arguments: ArgumentsRecord<'p>,
    pub(super) gate: GateRecorder,
    pub(super) work: WorkRecord,
    pub(super) result: ResultRecord,
    pub(super) messages: Messages,
    stopwatch: Stopwatch,
    journal: JournalState,
    /// Where the call stands in a trace, if calls are traced.
    trace: Option<Box<OpenTrace>>,
    in_flight: Option<InFlight>,
    /// Counted until it is closed, so that the process can wait for it.
    _going_on: Option<GoingOn<'p>>,
    state: State,
}

/// What the gate heard and decided.
#[derive(Default)]
pub(super) struct GateRecorder {
    /// The votes on whether the call runs.
    pub(super) ballot: Ballot,
    /// What the calling agent said of its call.
    advice: Option<Box<Advice>>,
    decided: Option<Stance>,
    /// Why it may run, as far as a person has a part in it.
    permission: Permission,
    /// The question that ended with no.
    refused_by: Option<ApprovalId>,
}

impl GateRecorder {
    /// What the gate decided in the end.
    pub(super) fn decide(&mut self, stance: Stance) {
        self.decided = Some(stance);
    }

    /// Why the call may run.
    pub(super) fn permitted(&mut self, permission: Permission) {
        self.permission = permission;
    }

    /// The approval by which the call runs.
    pub(super) fn approved(&self) -> Option<Arc<Approved>> {
        self.permission.approved.clone()
    }

    /// The approval that the start uses up.
    pub(super) fn grant(&self) -> Option<&Grant> {
        self.permission.grant.as_deref()
    }
}

/// What the journal has of the call, or must have before it ends.
struct JournalState {
    /// Whether the journal has, or will have first, that the call has started.
    has_start: bool,
    /// The idempotency key that the call holds until it is closed.
    claim: Option<KeyClaim>,
    wait: Wait,
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

impl<'p> CallRecorder<'p> {
    pub(super) fn open(engine: &'p Arc<Engine>, call: &Call, origin: Origin) -> Self {
        let settings = &engine.settings;
        let has_start = origin.cut_short().is_some();
        let wait = if settings.durability == Durability::All { Wait::Yes } else { Wait::No };
        let subject = Subject::new(engine, call, origin);
        let scrubber = Scrubber::new(&settings.redactor, subject.run());
        Self {
            engine,
            _going_on: subject.is_root().then(|| engine.stop.call_begins()),
            trace: trace::open(engine.tracer.as_ref(), call, &subject),
            subject,
            arguments: ArgumentsRecord::new(scrubber, settings.arguments),
            gate: GateRecorder { advice: call.advice.clone().map(Box::new), ..GateRecorder::default() },
            work: WorkRecord::default(),
            result: ResultRecord::default(),
            messages: Messages::default(),
            stopwatch: Stopwatch::start(),
            journal: JournalState { has_start, claim: None, wait },
            in_flight: None,
            state: State::Open,
        }
    }

    /// No journal, no call.
    pub(super) fn refuse_without_journal(&self) -> Result<(), ToolError> {
        self.engine.ledger.check().map_err(unavailable)
    }

    /// Books the time so far to the stage that ends, and begins another.
    pub(super) fn enter(&mut self, stage: Stage) {
        self.stopwatch.enter(stage);
    }

    /// Begins another stage after one that takes next to nothing: the clock is not looked at.
    pub(super) fn go_on_to(&mut self, stage: Stage) {
        self.stopwatch.go_on_to(stage);
    }

    /// When the stage began that the call is in.
    pub(super) fn since(&self) -> Instant {
        self.stopwatch.since()
    }

    /// Notes which tool was found, or what was asked for in vain.
    pub(super) fn resolved(
        &mut self,
        resolved: Result<ResolvedCall, Unresolved>,
    ) -> Result<ResolvedCall, ToolError> {
        match resolved {
            Ok(resolved) => {
                self.subject.set_tool(&resolved.tool);
                self.arguments.scrubber_mut().set_tool(&resolved.tool);
                self.enter_run(&resolved.tool);
                Ok(resolved)
            }
            Err(Unresolved { call, error }) => {
                self.subject.facts.tool = shortened(&call.tool);
                self.arguments.keep_unchecked(&call.arguments);
                Err(error)
            }
        }
    }

    /// Notes which source denied the caller the use of the tool, if one did.
    pub(super) fn authorized(
        &mut self,
        authorized: Result<AuthorizedCall, Unauthorized>,
    ) -> Result<AuthorizedCall, ToolError> {
        authorized.map_err(|Unauthorized { call, vote, error }| {
            self.gate.ballot.add(vote);
            self.arguments.keep_unchecked(&call.arguments);
            error
        })
    }

    /// When an attempt begins that follows now: where nothing was waited for, the stage has just begun.
    pub(super) fn attempt_begins(&self) -> Instant {
        let is_first = self.work.attempts.is_empty() && !self.journal.has_start;
        if is_first { self.since() } else { Instant::now() }
    }

    /// An attempt has ended, at `ended`.
    pub(super) fn attempted(&mut self, attempt: Attempt, ended: Instant) {
        // What follows a failure may take its time, and is a part of the same stage.
        self.stopwatch.answered(attempt.code.is_none().then_some(ended));
        self.work.add_attempt(attempt);
    }

    /// Conditions that did not hold, and what the answer lacks.
    fn all_degraded(&self) -> Vec<String> {
        let conditions = self.messages.degraded().map(|conditions| &**conditions).unwrap_or_default();
        [conditions, self.result.lacking()].concat()
    }

    /// From now on the end must be on disk before it is reported.
    pub(super) fn require_durable_end(&mut self) {
        self.journal.wait = Wait::Yes;
    }

    /// The call holds its idempotency key until it is closed.
    pub(super) fn claim(&mut self, claim: KeyClaim) {
        self.journal.claim = Some(claim);
        self.require_durable_end();
    }

    /// The entry that says: about to start.
    pub(super) fn started(&self) -> Box<Started> {
        let tool = self.subject.tool();
        Box::new(Started {
            at: self.engine.clock.now(),
            facts: self.subject.facts.clone(),
            digest: tool.map_or_else(unnamed, |tool| Arc::clone(tool.digest())),
            withheld: self.arguments.is_withheld,
            grant: self.gate.grant().cloned(),
            arguments: self.arguments.shown.clone().map_or_else(
                || RawJson::from(serde_json::value::RawValue::NULL.to_owned()),
                Redacted::into_inner,
            ),
        })
    }
}

pub(super) fn unavailable(error: JournalError) -> ToolError {
    ToolError::new(ErrorCode::JournalUnavailable, format!("{error}; without a record no tool runs"))
        .suggest("tell the operator; `helve doctor` says what is wrong")
        .with_source(error)
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
