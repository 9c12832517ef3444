//! Going on after a decision: runs that wait, and callers who come back for what became of it.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use futures_util::{FutureExt, StreamExt};
use helve_core::approval::Approval;
use helve_core::ports::{Clock, Holder, JournalError, Ledger};
use helve_core::record::{Entry, Finished};
use helve_core::run::{StepKind, WaitingFor};
use helve_core::{
    ApprovalId, ApprovalState, Call, CallId, Caller, ErrorCode, Outcome, Pending, Status, ToolError,
};
use tokio::time::Instant;

use super::decide::belongs_to;
use super::flight::{Flight, Landed};
use super::repeat;
use crate::pipeline::{self, Origin, denied};
use crate::registry::Registry;
use crate::runs::{RecoveredRun, Resumption, RunError, parse, resume, told};
use crate::runtime::{Engine, Runtime, stop};

/// How many open runs are looked at in one go.
const PAGE: usize = 1_000;
/// How many runs are resumed at the same time.
const CONCURRENT_MAX: usize = 32;
/// How long to wait for the end of a call that another has begun. One of this process tells by itself;
/// for those of other processes a task has to look now and then.
const END_WAIT: Duration = Duration::from_secs(10);
const END_PAUSE: Duration = Duration::from_millis(500);
/// How often it is looked again where a question was decided while its run was followed.
const ROUNDS_MAX: usize = 4;

impl Runtime {
    /// What became of a question and of the call that it is about, for the one who asked.
    ///
    /// [`Runtime::standing_of`] tells the same without running anything.
    ///
    /// One that is approved runs now, once, however often this is asked and by however many at a time, and
    /// goes on if the asker goes away. It runs by the rights that `caller` has now, whatever they were
    /// when it was asked; a run that waited goes on by those it began with. One that was used answers with
    /// the outcome of the call that used it, which is waited for a while, or with the question that its run
    /// waits for by now.
    pub async fn outcome_of(&self, id: ApprovalId, caller: &Caller) -> Result<Outcome, super::DecideError> {
        let mut outcome = self.outcome_so_far(id, caller).await?;
        for _ in 0..ROUNDS_MAX {
            // All who come for a run share what is found out of it. A caller that comes while that is under way may
            // read of a question which was decided meanwhile, perhaps the very one they come for.
            let Status::Pending(pending) = &outcome.status else { break };
            let asked = self.approvals().get(pending.approval_id).await?;
            if asked.is_none_or(|asked| asked.state == ApprovalState::Pending) {
                break;
            }
            outcome = self.outcome_so_far(id, caller).await?;
        }
        if let (Status::Done(_) | Status::Failed(_), Some(run)) =
            (&outcome.status, self.run_of_part(id).await?)
        {
            repeat::tell(&*self.engine().ledger, &*self.engine().clock, run).await?;
        }
        Ok(outcome)
    }

    /// The run that a question about one of its parts belongs to.
    async fn run_of_part(&self, id: ApprovalId) -> Result<Option<CallId>, JournalError> {
        let asked = self.engine().ledger.approval(id).await?;
        Ok(asked.and_then(|asked| asked.part).map(|part| part.run))
    }

    async fn outcome_so_far(&self, id: ApprovalId, caller: &Caller) -> Result<Outcome, super::DecideError> {
        let engine = self.engine();
        let found = self.approvals().get(id).await?.filter(|found| belongs_to(found, caller));
        let approval = found.ok_or(super::DecideError::NotFound(id))?;
        let outcome = |status| Outcome::new(approval.run(), Arc::clone(&approval.tool), status);
        match approval.state {
            ApprovalState::Pending => return Ok(outcome(Status::Pending(pending(&approval)))),
            ApprovalState::Denied | ApprovalState::Expired | ApprovalState::Withdrawn => {
                return Ok(outcome(Status::Failed(denied(&approval))));
            }
            ApprovalState::Approved | ApprovalState::Used => {}
        }
        let flight = match run_of(&approval) {
            Some(run) if !engine.questions.flights.has(Flight::Call(id)) => Flight::Run(run),
            Some(_) | None => Flight::Call(id),
        };
        let follow = || follow(Arc::clone(engine), approval.clone(), caller.clone());
        match engine.questions.flights.join(flight, follow).await {
            Some(landed) => Ok(landed?),
            None => Ok(outcome(Status::Failed(lost()))),
        }
    }
}

/// The run that a question belongs to, once there is one.
pub(super) fn run_of(approval: &Approval) -> Option<CallId> {
    approval.part.as_ref().map(|part| part.run).or(approval.used_by)
}

/// Runs what was approved, or finds how it ends.
pub(super) async fn follow(engine: Arc<Engine>, mut approval: Approval, caller: Caller) -> Landed {
    // Looked at anew: another flight may have landed since the asker has seen it.
    if let Some(now) = engine.ledger.approval(approval.id).await? {
        approval = now;
    }
    approval.expire(engine.clock.now());
    if let Some(run) = run_of(&approval) {
        return follow_run(&engine, run, &approval).await;
    }
    let failed = |error| Outcome::new(approval.run(), Arc::clone(&approval.tool), Status::Failed(error));
    if approval.state != ApprovalState::Approved {
        return Ok(failed(denied(&approval)));
    }
    if let Some(by) = engine.stop.by() {
        return Ok(failed(stop::refused(by)));
    }
    if let Some(error) = out_of_reach(&engine.registry, &approval) {
        return Ok(failed(error));
    }
    let call = Box::new(call_of(&approval, caller));
    let ran = pipeline::run_call(&engine, call, Origin::Approved(approval.id)).await;
    // Another process, or the same call made again, may have been faster.
    let is_late = ran.error().is_some_and(|error| error.code() == ErrorCode::ApprovalDenied);
    let now = if is_late { engine.ledger.approval(approval.id).await? } else { None };
    match now.as_ref().and_then(run_of) {
        Some(run) => follow_run(&engine, run, &approval).await,
        None => Ok(ran),
    }
}

/// The call that was asked about, by the caller as they are now: what they may do may have changed since.
fn call_of(approval: &Approval, mut caller: Caller) -> Call {
    caller.agent.clone_from(&approval.caller.agent);
    caller.session.clone_from(&approval.caller.session);
    caller.session_kind = approval.caller.session_kind;
    caller.loop_id.clone_from(&approval.caller.loop_id);
    let mut call = Call::new(&*approval.tool, parse(&approval.arguments)).by(Arc::new(caller));
    call.idempotency_key = approval.idempotency_key.clone();
    // The record of the call that runs tells why it was asked about.
    call.advice = approval.advice.clone();
    call
}

/// Why an approved call can be made only by the caller that has asked for it.
pub(super) fn out_of_reach(registry: &Registry, approval: &Approval) -> Option<ToolError> {
    let why = if approval.withheld {
        "this call is approved, but its arguments hold a secret, which is not kept".to_owned()
    } else if registry.tool(&approval.tool).is_none() {
        // What a server has besides tools is asked about too, and is in no registry.
        format!("this is approved, but `{}` is not among the tools that can be called", approval.tool)
    } else {
        return None;
    };
    let error = ToolError::new(ErrorCode::PermissionDenied, why);
    Some(error.suggest("make the same request again; it is approved now"))
}

/// How a run ends, or what it waits for by now. Where that is decided and nobody is at it, it goes on.
async fn follow_run(engine: &Arc<Engine>, run: CallId, asked: &Approval) -> Landed {
    let failed = |error| Outcome::new(run, Arc::clone(&asked.tool), Status::Failed(error));
    // What was approved belongs to a run that waits; the faster process goes on with it.
    let mut goes_on = asked.part.is_some() && asked.state == ApprovalState::Approved;
    let until = Instant::now() + END_WAIT;
    loop {
        let entries = engine.ledger.history(run).await?;
        if let Some(finished) = end_of(&entries, run) {
            return Ok(told(finished).unwrap_or_else(|| failed(not_kept())));
        }
        let question = match last_wait(&entries) {
            Some(wait) if wait.is_last_word => match wait.question {
                Some(id) => engine.ledger.approval(id).await?,
                None => return Ok(failed(waits(run))),
            },
            Some(_) | None => None,
        };
        let state = question.as_ref().map(|question| question.state_at(engine.clock.now()));
        match (state, question) {
            (Some(ApprovalState::Pending), Some(question)) if !goes_on => {
                return Ok(Outcome::new(
                    run,
                    Arc::clone(&question.tool),
                    Status::Pending(pending(&question)),
                ));
            }
            (Some(ApprovalState::Used), _) | (None, _) => {}
            (Some(_), _) => goes_on = true,
        }
        if goes_on {
            match resume(engine, run).await {
                Ok(outcome) => return Ok(outcome),
                // Another process is at it.
                Err(RunError::Busy(_) | RunError::Ended(_)) => goes_on = false,
                Err(RunError::Journal(error)) => return Err(error),
                Err(error) => return Ok(failed(not_resumed(&error))),
            }
        }
        if Instant::now() >= until {
            return Ok(failed(not_ended()));
        }
        let over = engine.runs.until_over(run, END_PAUSE);
        // However it went, what the journal says then counts.
        let _ = tokio::time::timeout_at(until, over).await;
    }
}

/// How a call ended, as a run's history says.
pub(super) fn end_of(entries: &[Entry], call_id: CallId) -> Option<&Finished> {
    entries.iter().rev().find_map(|entry| match entry {
        Entry::Finished(finished) if finished.facts.call_id == call_id => Some(&**finished),
        Entry::Started(_) | Entry::Step(_) | Entry::Finished(_) => None,
    })
}

/// The last time that a run said that it waits for a person.
pub(super) struct Wait {
    /// The question, where it waits for an approval.
    pub(super) question: Option<ApprovalId>,
    /// Whether nothing has happened since but that a person decided.
    pub(super) is_last_word: bool,
}

pub(super) fn last_wait(entries: &[Entry]) -> Option<Wait> {
    let (at, question) = entries.iter().enumerate().rev().find_map(|(at, entry)| {
        let Entry::Step(step) = entry else { return None };
        let StepKind::Waiting { reason, approval_id } = step.kind else { return None };
        Some((at, approval_id.filter(|_| reason == WaitingFor::Approval)))
    })?;
    let is_of_question = |entry: &Entry| {
        matches!(entry, Entry::Step(step)
            if matches!(step.kind, StepKind::Asked { .. } | StepKind::Decided { .. }))
    };
    let is_last_word = entries[at + 1..].iter().all(is_of_question);
    Some(Wait { question, is_last_word })
}

/// The question as callers see it.
pub(crate) fn pending(approval: &Approval) -> Pending {
    Pending { approval_id: approval.id, reasons: approval.reasons.clone(), binding: approval.binding.clone() }
}

fn not_resumed(error: &RunError) -> ToolError {
    ToolError::new(ErrorCode::OutcomeUnknown, error.to_string()).suggest("ask again in a moment")
}

pub(super) fn lost() -> ToolError {
    ToolError::new(ErrorCode::OutcomeUnknown, "it is not known how the call ended")
        .suggest("ask again; the journal may know by then")
}

pub(super) fn not_kept() -> ToolError {
    ToolError::new(
        ErrorCode::OutcomeUnknown,
        "the call has ended, but how was not kept: its result holds a secret or is too large",
    )
}

pub(super) fn waits(run: CallId) -> ToolError {
    ToolError::new(
        ErrorCode::OutcomeUnknown,
        format!("{run} has begun, and waits for a person to look at it"),
    )
    .suggest(format!("tell the user: `helve runs show {run}` says what for"))
}

fn not_ended() -> ToolError {
    ToolError::new(ErrorCode::OutcomeUnknown, "the call has begun and not ended yet")
        .retryable(true)
        .suggest("ask again in a moment; do not make it again")
}

/// Whether that is why there is no outcome.
pub(super) fn is_under_way(error: &ToolError) -> bool {
    error.code() == ErrorCode::OutcomeUnknown && error.is_retryable()
}

/// A call whose run waits for a person: waits with it, and goes on with it, until time is up.
pub(crate) async fn go_on(
    engine: &Arc<Engine>,
    mut outcome: Outcome,
    until: Instant,
    call: &Call,
) -> Outcome {
    let cancelled = || call.cancellation.as_ref().is_some_and(|token| token.is_cancelled());
    while let Status::Pending(pending) = &outcome.status
        && Instant::now() < until
        && !cancelled()
        && !engine.stop.has_begun()
    {
        let id = pending.approval_id;
        let asked = engine.ledger.approval(id).await.ok().flatten();
        // Only a run waits; a call by itself has waited in the gate already.
        let Some(run) = asked.and_then(|asked| asked.part).map(|part| part.run) else { return outcome };
        if engine
            .questions
            .feed
            .until_decided(id, until, call.cancellation.as_ref(), &engine.stop)
            .await
            .is_err()
        {
            return outcome;
        }
        let decided = engine.ledger.approval(id).await.ok().flatten();
        if decided.is_none_or(|found| found.state_at(engine.clock.now()) == ApprovalState::Pending) {
            return outcome;
        }
        match resume(engine, run).await {
            Ok(resumed) => {
                outcome = resumed;
                let is_over = !matches!(outcome.status, Status::Pending(_));
                // Where that cannot be written, the outcome is given once more to a caller that makes the call again.
                if is_over && let Err(error) = repeat::tell(&*engine.ledger, &*engine.clock, run).await {
                    tracing::warn!(%run, %error, "cannot write down that the caller was told");
                }
            }
            // Another process resumed it: that one will tell how it ended.
            Err(error) => {
                tracing::debug!(%run, %error, "a run that waited was resumed elsewhere");
                return outcome;
            }
        }
    }
    outcome
}

/// Takes up runs that waited for a decision which has been made.
pub(super) async fn resume_decided(engine: &Arc<Engine>) -> Result<Vec<RecoveredRun>, JournalError> {
    engine.ledger.check()?;
    let waiting = waiting(&*engine.ledger).await?.into_iter();
    let resuming = waiting.map(|run| async move {
        match is_decided(&*engine.ledger, &*engine.clock, run).await {
            Ok(true) => resume_one(engine, run).await,
            Ok(false) => None,
            Err(error) => Some(RecoveredRun { run, resumption: Resumption::Failed(error.into()) }),
        }
    });
    let resuming = futures_util::stream::iter(resuming).buffer_unordered(CONCURRENT_MAX);
    Ok(resuming.filter_map(std::future::ready).collect().await)
}

/// Goes on with a run that was decided, unless another process was faster.
async fn resume_one(engine: &Arc<Engine>, run: CallId) -> Option<RecoveredRun> {
    let resumption = match resume(engine, run).await {
        Ok(outcome) if matches!(outcome.status, Status::Pending(_)) => Resumption::Waits(outcome),
        Ok(outcome) => Resumption::Ended(outcome),
        Err(RunError::Busy(_) | RunError::Ended(_)) => return None,
        Err(error) => Resumption::Failed(error),
    };
    Some(RecoveredRun { run, resumption })
}

/// The runs that wait for a person.
async fn waiting(ledger: &dyn Ledger) -> Result<Vec<CallId>, JournalError> {
    let (mut waiting, mut after) = (Vec::new(), None);
    loop {
        let page = ledger.open_runs(after, PAGE).await?;
        let Some(last) = page.last() else { return Ok(waiting) };
        after = Some(last.run);
        let of_page = page.iter().filter(|open| open.holder == Holder::Person);
        waiting.extend(of_page.map(|open| open.run));
    }
}

/// Goes on with runs as decisions are made. One look at all that wait answers for every decision that was
/// made before it; only what goes on then has its own task, since it may take its time.
pub(super) async fn resume_as_decided(engine: &Arc<Engine>) -> Result<Infallible, JournalError> {
    let mut changes = engine.questions.feed.subscribe().await?;
    loop {
        // At first too: something may have been decided before anybody listened.
        if let Err(error) = look(engine).await {
            tracing::warn!(%error, "runs that were decided could not be resumed");
        }
        while changes.next().await.is_some_and(|changed| changed.state == ApprovalState::Pending) {}
        while changes.next().now_or_never().is_some() {}
    }
}

/// Lets every run go on that waited for a decision which has been made.
async fn look(engine: &Arc<Engine>) -> Result<(), JournalError> {
    let waiting = futures_util::stream::iter(waiting(&*engine.ledger).await?);
    let each = async |run| match is_decided(&*engine.ledger, &*engine.clock, run).await {
        Ok(true) => {
            let engine = Arc::clone(engine);
            tokio::spawn(async move { say_resumed(resume_one(&engine, run).await) });
        }
        Ok(false) => {}
        Err(error) => tracing::warn!(%run, %error, "nobody can tell whether a run was decided"),
    };
    waiting.for_each_concurrent(CONCURRENT_MAX, each).await;
    Ok(())
}

fn say_resumed(resumed: Option<RecoveredRun>) {
    match resumed {
        Some(RecoveredRun { run, resumption: Resumption::Failed(error) }) => {
            tracing::warn!(%run, %error, "a run that was decided could not be resumed");
        }
        Some(RecoveredRun { run, .. }) => tracing::info!(%run, "a run that was decided has gone on"),
        None => {}
    }
}

/// Whether what a run waits for is an approval that a person has decided.
async fn is_decided(ledger: &dyn Ledger, clock: &dyn Clock, run: CallId) -> Result<bool, JournalError> {
    let entries = ledger.history(run).await?;
    let Some(id) = last_wait(&entries).and_then(|wait| wait.question) else { return Ok(false) };
    let approval = ledger.approval(id).await?;
    Ok(approval.is_some_and(|found| found.state_at(clock.now()) != ApprovalState::Pending))
}

#[cfg(test)]
mod tests {
    use helve_core::{Risk, Tool};
    use serde_json::json;

    use super::super::{Decider, Decision, Vouch};
    use super::*;
    use crate::{VolatileLedger, compose};

    #[tokio::test]
    async fn whoever_has_seen_it_approved_just_before_it_was_used_starts_nothing() {
        let ledger = Arc::new(VolatileLedger::default());
        let send = Tool::builder("send").description("Sends.").input_schema(json!({ "type": "object" }));
        let send = send.risk(Risk::High).handler(|_, _| async { Ok(json!("sent")) });
        let runtime = Runtime::builder().ledger(ledger.clone()).tool(send).unwrap().build();
        let call = Call::new("send", json!({}));
        let caller = Caller::clone(&call.caller);
        let Status::Pending(pending) = runtime.call(call).await.status else { panic!("it asks") };
        let ada = Decider::vouched("ada", Vouch::LocalUser);
        let seen = runtime.approvals().decide(pending.approval_id, Decision::approve(), &ada).await.unwrap();
        let engine = runtime.engine();
        let first = follow(Arc::clone(engine), seen.clone(), caller.clone()).await.unwrap();
        let entries = ledger.entries().len();
        let second = follow(Arc::clone(engine), seen, caller).await.unwrap();
        assert_eq!((first.is_success(), second.call_id), (true, first.call_id), "{first:?} {second:?}");
        assert_eq!(ledger.entries().len(), entries, "nothing is recorded of having asked");
    }

    #[tokio::test]
    async fn whoever_comes_while_another_flight_lands_is_not_told_of_a_question_that_was_decided() {
        let send = Tool::builder("send").description("Sends.").input_schema(json!({ "type": "object" }));
        let send = send.risk(Risk::High).handler(|_, _| async { Ok(json!("sent")) });
        let runtime = Runtime::builder().tool(send).unwrap().build();
        let trip = compose::sequence("trip").step(compose::Step::of("send").arguments(json!({})));
        let trip = trip.description("A trip.").build(runtime.registry()).unwrap();
        runtime.registry().register(crate::Layer::Project, trip).unwrap();
        let call = Call::new("trip", json!({}));
        let caller = Caller::clone(&call.caller);
        let asked = runtime.call(call).await;
        let Status::Pending(pending) = &asked.status else { panic!("{asked:?}") };
        let (engine, id) = (runtime.engine(), pending.approval_id);
        // Begun for an earlier question of the run, and about to tell that it waits for this one.
        let (land, landing) = tokio::sync::oneshot::channel::<Outcome>();
        let begin = || async { Ok(landing.await.unwrap()) };
        let earlier = engine.questions.flights.join(Flight::Run(asked.call_id), begin);
        let later = async {
            let ada = Decider::vouched("ada", Vouch::LocalUser);
            runtime.approvals().decide(id, Decision::approve(), &ada).await.unwrap();
            runtime.outcome_of(id, &caller).await.unwrap()
        };
        let lands = async {
            for _ in 0..100 {
                tokio::task::yield_now().await;
            }
            land.send(asked.clone()).unwrap();
        };
        let (_, outcome, ()) = tokio::join!(earlier, later, lands);
        assert!(outcome.is_success(), "{outcome:?}");
    }
}
