//! A call made of others that is made again after one of its parts was put to a person.
//!
//! INVARIANT: as long as its caller has not been told how a run ended that waited for a person, no second run of the
//! same call begins: a caller that makes the call again waits for that run, or gets its outcome. The same call is one with
//! the same binding, as for approvals.
//!
//! That the caller was told is a step of the run ([`StepKind::Told`]), on disk before the outcome is returned.
//! Calls that came in before it get the outcome too, so that of two repeaters at once neither begins a run.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use helve_core::approval::{Approval, ApprovalQuery};
use helve_core::ports::{Clock, JournalError, Ledger};
use helve_core::record::Entry;
use helve_core::run::StepKind;
use helve_core::{BoxFuture, Call, CallId, Outcome, Status};
use jiff::Timestamp;
use tokio::time::Instant;

use super::flight::Flight;
use super::follow::{end_of, follow, is_under_way, lost};
use crate::runs::step;
use crate::runtime::Engine;

/// How many questions of earlier runs of the same call are looked at.
const QUESTIONS_MAX: usize = 32;

/// What became of the run that this call began when it was made before. None where it is a new call.
///
/// `outer` is the call's binding, `received_at` when it came.
pub(crate) fn outcome_of_repeated<'a>(
    engine: &'a Arc<Engine>,
    call: &'a Call,
    outer: String,
    received_at: Timestamp,
) -> BoxFuture<'a, Result<Option<Outcome>, JournalError>> {
    // Boxed, because the run that it may go on with leads through the pipeline, and so back here.
    Box::pin(repeated(engine, call, outer, received_at))
}

async fn repeated(
    engine: &Arc<Engine>,
    call: &Call,
    outer: String,
    received_at: Timestamp,
) -> Result<Option<Outcome>, JournalError> {
    let Some((run, approval)) =
        untold(&*engine.ledger, engine.settings.approvals.ttl, outer, received_at).await?
    else {
        return Ok(None);
    };
    let until = Instant::now() + engine.settings.timeout_default;
    let wait = call.approval_wait.map(|wait| Instant::now() + wait);
    loop {
        let following = || follow(Arc::clone(engine), approval.clone(), call.caller.as_ref().clone());
        let landed = engine.questions.flights.join(Flight::Run(run), following).await.transpose()?;
        match landed.as_ref().map(|outcome| &outcome.status) {
            Some(Status::Pending(pending)) => match wait.filter(|wait| Instant::now() < *wait) {
                // Its caller waits for a person, and goes on with the run once one has decided.
                Some(wait) => {
                    let (feed, token) = (&engine.questions.feed, call.cancellation.as_ref());
                    feed.until_decided(pending.approval_id, wait, token, &engine.stop).await?
                }
                None => return Ok(landed),
            },
            Some(Status::Failed(error)) if is_under_way(error) && Instant::now() < until => {}
            Some(Status::Done(_) | Status::Failed(_)) => {
                tell(&*engine.ledger, &*engine.clock, run).await?;
                return Ok(landed);
            }
            None => return Ok(Some(unknown(run, &approval))),
        }
        if call.cancellation.as_ref().is_some_and(|token| token.is_cancelled()) {
            return Ok(landed);
        }
    }
}

/// Where nobody can tell how it stands, no second run begins all the same.
fn unknown(run: CallId, approval: &Approval) -> Outcome {
    Outcome::new(run, Arc::clone(&approval.tool), Status::Failed(lost()))
}

/// The newest run of a call that waited for a person and whose end its caller does not know, and a question of it.
async fn untold(
    ledger: &dyn Ledger,
    kept_for: Duration,
    outer: String,
    received_at: Timestamp,
) -> Result<Option<(CallId, Approval)>, JournalError> {
    let mut query = ApprovalQuery::default();
    (query.outer, query.limit) = (Some(outer), QUESTIONS_MAX);
    let mut seen = HashSet::new();
    for approval in ledger.approvals(query).await? {
        let run = approval.run();
        if seen.insert(run) && !is_told(&ledger.history(run).await?, kept_for, run, received_at) {
            return Ok(Some((run, approval)));
        }
    }
    Ok(None)
}

/// Whether a run's outcome is no longer for one who called at this time: a caller read it before, or none came for
/// it in the time that an approval is good for.
fn is_told(entries: &[Entry], kept_for: Duration, run: CallId, received_at: Timestamp) -> bool {
    let Some(finished) = end_of(entries, run) else { return false };
    let kept_until = finished.at.saturating_add(kept_for).unwrap_or(Timestamp::MAX);
    received_at >= kept_until || told_at(entries).is_some_and(|told| told <= received_at)
}

/// When a run's caller was first told how it ended.
fn told_at(entries: &[Entry]) -> Option<Timestamp> {
    entries.iter().find_map(|entry| match entry {
        Entry::Step(step) if step.kind == StepKind::Told => Some(step.at),
        Entry::Started(_) | Entry::Step(_) | Entry::Finished(_) => None,
    })
}

/// Writes down that the caller of a run is told how it ended, where it has.
pub(super) async fn tell(ledger: &dyn Ledger, clock: &dyn Clock, run: CallId) -> Result<(), JournalError> {
    let entries = ledger.history(run).await?;
    if end_of(&entries, run).is_some() && told_at(&entries).is_none() {
        let told = Entry::Step(step(clock.now(), run, run, StepKind::Told));
        ledger.commit(told).await?;
    }
    Ok(())
}
