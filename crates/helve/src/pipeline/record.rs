//! The record of a call: opened first, closed last, exactly once.

mod bill;
mod close;
mod run;
mod shown;
mod trace;

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use helve_core::approval::Grant;
use helve_core::cost::{Amount, Cost};
use helve_core::json::check as check_limits;
use helve_core::ports::{JournalError, KeyClaim};
use helve_core::record::{Attempt, Facts, Payload, RawJson, Started, Timings};
use helve_core::run::EffectReport;
use helve_core::schema::redact::scrub;
use helve_core::{Call, CallId, ErrorCode, Repair, Shortfall, Stage, Stance, Tool, ToolError, Vote};
use serde_json::Value;
use serde_json::value::{RawValue, to_raw_value};
use tokio::time::Instant;

use super::origin::Origin;
use super::votes::Ballot;
use crate::runs::{ActiveRun, Deed, InFlight, in_doubt};
use crate::runtime::{Durability, GoingOn, Parts};
use bill::Bill;
use shown::without;
use trace::OpenTrace;

/// Longest part of the arguments before a hook changed them that is kept, in bytes.
const FORMER_BYTES_MAX: usize = 4_096;

/// What is known so far of a running call. Dropped before it is closed, it records that the
/// caller went away.
pub(super) struct OpenRecord<'p> {
    parts: &'p Arc<Parts>,
    /// Counted until it is closed, so that the process can wait for it.
    _going_on: Option<GoingOn<'p>>,
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
    /// Whether the start, which is in the journal or comes there first, has the same arguments.
    start_has_arguments: bool,
    result_withheld: bool,
    result_is_secret: bool,
    effects: Vec<EffectReport>,
    deed: Option<Deed>,
    /// Whether the tool was stopped in the middle of its work.
    cut_off: bool,
    attempts: Vec<Attempt>,
    /// What the tool says that it cost, and what the call cost in all.
    charged: Amount,
    cost: Option<Box<Cost>>,
    /// What it owes while its tool runs.
    bill: Option<Bill>,
    result_bytes: Option<u64>,
    replay_of: Option<CallId>,
    /// Whether the journal has, or will have first, that the call has started.
    announced: bool,
    degraded: Option<Arc<[String]>>,
    /// How the tool's answer is less than was asked for.
    shortfall: Option<Arc<Shortfall>>,
    /// The answer in the richer form that the tool attached.
    content: Option<Arc<RawValue>>,
    claim: Option<KeyClaim>,
    /// The approval that its start uses up.
    grant: Option<Box<Grant>>,
    /// What hooks want the model to know.
    context: Vec<String>,
    /// What hooks want the user to know.
    messages: Vec<String>,
    /// The votes on whether the call runs.
    ballot: Ballot,
    /// What the gate decided in the end.
    decided: Option<Stance>,
    /// Whether its effects are half applied, or half taken back, and go on when the run does.
    suspended: bool,
    wait: Wait,
    stage: Stage,
    since: Instant,
    /// When the tool answered, until the next stage begins.
    answered_at: Option<Instant>,
    timings: Timings,
    /// Where it stands in a trace, if somebody listens.
    trace: Option<Box<OpenTrace>>,
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
            trace_parent: call.trace_parent,
        };
        Self {
            parts,
            _going_on: origin.part().is_none().then(|| parts.stop.call_begins()),
            trace: trace::open(parts, call, facts.call_id, &origin),
            run: origin.run().cloned(),
            in_flight: None,
            facts,
            tool: None,
            payload: Payload { advice: call.advice.clone().map(Box::new), ..Payload::default() },
            secrets: origin.run().map(|run| run.secrets()).unwrap_or_default(),
            arguments_withheld: false,
            start_has_arguments: false,
            result_withheld: false,
            result_is_secret: false,
            effects: Vec::new(),
            deed: None,
            cut_off: false,
            attempts: Vec::new(),
            charged: Amount::ZERO,
            cost: None,
            bill: None,
            result_bytes: None,
            replay_of: None,
            announced: origin.cut_short().is_some(),
            degraded: None,
            shortfall: None,
            content: None,
            origin,
            claim: None,
            grant: None,
            context: Vec::new(),
            messages: Vec::new(),
            ballot: Ballot::default(),
            decided: None,
            suspended: false,
            wait: if parts.settings.durability == Durability::All { Wait::Yes } else { Wait::No },
            stage: Stage::Resolve,
            since: Instant::now(),
            answered_at: None,
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

    /// Where the call comes from.
    pub(super) fn origin(&self) -> &Origin {
        &self.origin
    }

    /// Books the time so far to the stage that ends, and begins another.
    pub(super) fn enter(&mut self, stage: Stage) {
        let now = self.answered_at.take().unwrap_or_else(Instant::now);
        self.timings.add(self.stage, nanos(now - self.since));
        self.since = now;
        self.begin(stage);
    }

    /// Begins another stage after one that takes next to nothing. To look at the clock would take longer, so that
    /// its time is booked to this one.
    pub(super) fn go_on_to(&mut self, stage: Stage) {
        self.timings.add(self.stage, 0);
        self.begin(stage);
    }

    fn begin(&mut self, stage: Stage) {
        self.stage = stage;
        tracing::trace!(%stage, "enter");
    }

    /// When an attempt begins that follows now: where nothing was waited for, the stage has just begun.
    pub(super) fn attempt_begins(&self) -> Instant {
        let is_first = self.attempts.is_empty() && !self.announced;
        if is_first { self.since } else { Instant::now() }
    }

    /// When the stage began that it is in.
    pub(super) fn since(&self) -> Instant {
        self.since
    }

    /// What the last attempt attached to its answer, if anything.
    pub(super) fn attach(&mut self, content: Option<&Arc<RawValue>>) {
        self.content = content.cloned();
    }

    /// What is attached to the answer.
    pub(super) fn attached(&self) -> Option<&Arc<RawValue>> {
        self.content.as_ref()
    }

    /// Whether something is attached to the answer that says more than the result does.
    pub(super) fn attached_more_than(&self, result: &Value) -> bool {
        let says_no_more = |content: &Arc<RawValue>| {
            self.tool.as_ref().is_some_and(|tool| tool.handler().attached_says_no_more(content, result))
        };
        self.content.as_ref().is_some_and(|content| !says_no_more(content))
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
        self.start_has_arguments = false;
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

    /// The arguments as they are recorded, and whether something of them is missing.
    pub(super) fn shown_arguments(&self) -> (Option<&RawJson>, bool) {
        (self.payload.arguments.as_ref(), self.arguments_withheld)
    }

    /// Texts that must not be seen.
    pub(super) fn secrets(&self) -> &[String] {
        &self.secrets
    }

    /// A person has changed the arguments, which whoever called should know.
    pub(super) fn edited(&mut self, arguments: &Value) {
        self.changed_by("the person who approved the call", arguments);
    }

    /// Somebody has changed the arguments, which whoever called should know.
    pub(super) fn changed_by(&mut self, who: &str, arguments: &Value) {
        let detail = format!("{who} changed its arguments to {arguments}");
        self.payload.repairs.push(Repair { path: String::new(), detail });
    }

    /// A hook has changed the arguments, which whoever called should know. Both versions are kept.
    pub(super) fn rewritten(&mut self, by: &str, arguments: &Value, conflicts: &[String]) {
        let before = self.payload.arguments.as_ref().map_or("null", |shown| shown.get());
        let before = &before[..before.floor_char_boundary(FORMER_BYTES_MAX)];
        let detail = format!("{by} changed the arguments; they were {before}");
        self.payload.repairs.push(Repair { path: String::new(), detail });
        self.note_conflicts(conflicts);
        self.keep_arguments(arguments);
    }

    /// Hooks wanted different things, and not all could have them.
    pub(super) fn note_conflicts(&mut self, conflicts: &[String]) {
        let notes = conflicts.iter().map(|detail| Repair { path: String::new(), detail: detail.clone() });
        self.payload.repairs.extend(notes);
    }

    /// More was mended.
    pub(super) fn mended(&mut self, repairs: Vec<Repair>) {
        self.payload.repairs.extend(repairs);
    }

    /// Something for the model to know beside the result.
    pub(super) fn tell(&mut self, context: impl IntoIterator<Item = String>) {
        self.context.extend(clear(context, &self.secrets));
    }

    /// Something for the user, which the model is not told.
    pub(super) fn tell_user(&mut self, messages: impl IntoIterator<Item = String>) {
        self.messages.extend(clear(messages, &self.secrets));
    }

    /// Whether the outcome is that of an earlier call.
    pub(super) fn is_replay(&self) -> bool {
        self.replay_of.is_some()
    }

    /// The approval that the start uses up.
    pub(super) fn grant(&self) -> Option<&Grant> {
        self.grant.as_deref()
    }

    /// When the call came.
    pub(super) fn received_at(&self) -> jiff::Timestamp {
        self.facts.received_at
    }

    /// The approval that the start will use up.
    pub(super) fn granted(&mut self, grant: Option<Box<Grant>>) {
        self.grant = grant;
    }

    /// The votes on whether the call runs.
    pub(super) fn ballot(&mut self) -> &mut Ballot {
        &mut self.ballot
    }

    /// The votes, and where the call comes from.
    pub(super) fn ballot_and_origin(&mut self) -> (&mut Ballot, &Origin) {
        (&mut self.ballot, &self.origin)
    }

    /// The votes so far.
    pub(super) fn votes(&self) -> &[Vote] {
        self.ballot.votes()
    }

    /// What the gate decided in the end.
    pub(super) fn decided(&mut self, stance: Stance) {
        self.decided = Some(stance);
    }

    /// Whether the result holds what its schema, or its name, calls a secret.
    pub(super) fn answered_secret(&self) -> bool {
        self.result_is_secret
    }

    /// The tool, once it is known.
    pub(super) fn tool(&self) -> Option<&Tool> {
        self.tool.as_ref()
    }

    pub(super) fn is_granted(&self) -> bool {
        self.grant.is_some()
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

    /// The tool's answer is less than was asked for.
    pub(super) fn falls_short(&mut self, shortfall: Option<&Arc<Shortfall>>) {
        self.shortfall = shortfall.cloned();
    }

    /// Whether the call counts as failed, although it has a result.
    pub(super) fn fails_with_result(&self) -> bool {
        self.shortfall.as_ref().is_some_and(|shortfall| shortfall.is_failure)
    }

    /// Conditions that did not hold, and what the answer lacks.
    fn all_degraded(&self) -> Vec<String> {
        let conditions = self.degraded.as_deref().unwrap_or_default();
        let lacking = self.shortfall.as_ref().map(|shortfall| shortfall.lines.as_slice()).unwrap_or_default();
        [conditions, lacking].concat()
    }

    /// An attempt has ended, at `ended`.
    pub(super) fn attempted(&mut self, attempt: Attempt, ended: Instant) {
        // What follows a failure may take its time, and is a part of the same stage.
        self.answered_at = attempt.code.is_none().then_some(ended);
        self.attempts.push(attempt);
        self.cut_off = in_doubt(&self.attempts);
    }

    /// Whether nobody knows if the tool had its effect.
    pub(super) fn is_in_doubt(&self) -> bool {
        self.cut_off
    }

    /// Whoever was asked knows that the attempts had no effect.
    pub(super) fn nothing_was_done(&mut self) {
        self.attempts.iter_mut().for_each(|attempt| attempt.nothing_done = attempt.code.is_some());
        self.cut_off = false;
    }

    /// Whoever was asked knows that the tool had its effect.
    pub(super) fn it_happened(&mut self) {
        self.cut_off = false;
    }

    pub(super) fn last_attempt(&self) -> Option<&Attempt> {
        self.attempts.last()
    }

    pub(super) fn attempts(&self) -> &[Attempt] {
        &self.attempts
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
            grant: self.grant.as_deref().cloned(),
            arguments: self
                .payload
                .arguments
                .clone()
                .unwrap_or_else(|| RawJson::from(serde_json::value::RawValue::NULL.to_owned())),
        })
    }
}

pub(super) fn unavailable(error: JournalError) -> ToolError {
    ToolError::new(ErrorCode::JournalUnavailable, format!("{error}; without a record no tool runs"))
        .suggest("tell the operator; `helve doctor` says what is wrong")
        .with_source(error)
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
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

/// Texts without these secrets.
fn clear<'s>(
    texts: impl IntoIterator<Item = String> + 's,
    secrets: &'s [String],
) -> impl Iterator<Item = String> + 's {
    texts.into_iter().filter_map(move |text| {
        let mut text = Value::String(text);
        scrub(&mut text, secrets);
        text.as_str().map(str::to_owned)
    })
}
