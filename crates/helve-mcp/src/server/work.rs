//! A request that runs, and may have to wait for its client: until the client makes it again with
//! what was asked for.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use helve::BoxFuture;
use serde_json::json;
use serde_json::value::RawValue;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use super::asker::Asker;
use super::backend::TaskSupport;
use super::outlet::Nowhere;
use super::seal::random_id;
use super::session::{ParsedRequest, Session};
use super::tasks;
use crate::message::{RpcError, raw};

/// A request that runs.
pub(super) type Work = BoxFuture<'static, Result<Arc<RawValue>, RpcError>>;

const PURPOSE: &str = "request-state";
/// After the first question, others that are put at the same time have this long to be put.
const GATHER: Duration = Duration::from_millis(5);
/// A tool that runs only as a task has this long to put a question before.
const TASK_GATHER: Duration = Duration::from_millis(50);

/// Runs a request of the stateless era to its end, to its first question, or until it becomes a
/// task.
pub(super) async fn run_call(
    session: &Arc<Session>,
    asked: &ParsedRequest<'_>,
    work: Work,
    asker: Arc<Asker>,
    cancellation: CancellationToken,
    support: TaskSupport,
) -> Result<Arc<RawValue>, RpcError> {
    let held = Held { work, asker, cancellation, support, round: 0 };
    go_on(session, asked, held).await
}

/// Goes on with a request that waited for its client.
pub(super) async fn resume(
    session: &Arc<Session>,
    asked: &ParsedRequest<'_>,
    state: &str,
) -> Result<Arc<RawValue>, RpcError> {
    let shared = &session.shared;
    let held = shared.seal.open(PURPOSE, state).and_then(|state| {
        let (id, round) = state.split_once(':')?;
        shared.waiting.take(id, round.parse().ok()?, session.caller.principal.as_deref(), &what(asked))
    });
    let Some(held) = held else {
        return Err(RpcError::invalid_params("Invalid or expired requestState")
            .with_data(&json!({ "reason": "invalid_request_state" })));
    };
    held.asker.lead_to(Arc::clone(&asked.outlet), asked.meta.progress_token);
    if let Some(questions) = held.asker.questions() {
        questions.give(asked.params.input_responses)?;
    }
    go_on(session, asked, held).await
}

async fn go_on(
    session: &Arc<Session>,
    asked: &ParsedRequest<'_>,
    mut held: Held,
) -> Result<Arc<RawValue>, RpcError> {
    let becomes_task = match held.support {
        _ if !asked.peer.knows_tasks_extension() => None,
        TaskSupport::Forbidden => None,
        TaskSupport::Optional => Some(session.shared.options.task_after),
        TaskSupport::Required => Some(TASK_GATHER),
    };
    match step(&mut held, becomes_task).await {
        Step::Done(result) => result,
        Step::Asked(requests) => suspend(session, asked, held, &requests),
        Step::BecomesTask => tasks::start_extension(session, asked, held),
    }
}

enum Step {
    Done(Result<Arc<RawValue>, RpcError>),
    Asked(serde_json::Value),
    BecomesTask,
}

async fn step(held: &mut Held, becomes_task: Option<Duration>) -> Step {
    if becomes_task.is_some_and(|after| after.is_zero()) {
        return Step::BecomesTask;
    }
    let Some(questions) = held.asker.questions().cloned() else { return Step::Done((&mut held.work).await) };
    let becomes_task = async {
        match becomes_task {
            Some(after) => tokio::time::sleep(after).await,
            None => std::future::pending().await,
        }
    };
    tokio::pin!(becomes_task);
    loop {
        // What was not answered well is asked again, and nothing new may be put meanwhile.
        if questions.to_requests().is_none() {
            tokio::select! {
                biased;
                result = &mut held.work => return Step::Done(result),
                () = questions.asked() => {}
                () = &mut becomes_task => return Step::BecomesTask,
            }
        }
        tokio::select! {
            biased;
            result = &mut held.work => return Step::Done(result),
            () = tokio::time::sleep(GATHER) => {}
        }
        // A question may have been taken back meanwhile.
        if let Some(requests) = questions.to_requests() {
            return Step::Asked(requests);
        }
    }
}

fn suspend(
    session: &Arc<Session>,
    asked: &ParsedRequest<'_>,
    mut held: Held,
    requests: &serde_json::Value,
) -> Result<Arc<RawValue>, RpcError> {
    let shared = &session.shared;
    held.asker.lead_to(Arc::new(Nowhere), None);
    if held.round == 0 {
        held.work = by_itself(held.work);
    }
    held.round += 1;
    let round = held.round;
    let id = random_id();
    let ttl = shared.options.waiting_ttl;
    let waits = Suspended { owner: session.caller.principal.clone(), what: what(asked), held };
    shared.waiting.put(&id, waits, shared.options.waiting_max)?;
    let expiring = (Arc::downgrade(shared), id.clone());
    tokio::spawn(async move {
        tokio::time::sleep(ttl).await;
        if let Some(shared) = expiring.0.upgrade() {
            shared.waiting.drop_expired(&expiring.1);
        }
    });
    Ok(raw(&json!({
        "resultType": "input_required",
        "inputRequests": requests,
        "requestState": shared.seal.close(PURPOSE, &format!("{id}:{round}")),
    }))
    .into())
}

/// Lets work go on although nobody waits for it: a server that asked its client hears of the answer later,
/// and has more to say meanwhile. Dropped, it is taken back.
fn by_itself(work: Work) -> Work {
    let task = AbortOnDropHandle::new(tokio::spawn(work));
    Box::pin(async move {
        task.await.unwrap_or_else(|_| Err(RpcError::new(RpcError::INTERNAL, "the request was given up")))
    })
}

/// What is asked, so that the state of one request cannot be used with another.
fn what(asked: &ParsedRequest<'_>) -> String {
    let name = asked.params.name.as_deref().or(asked.params.uri.as_deref()).unwrap_or_default();
    format!("{} {name}", asked.method)
}

/// A request that runs. Dropped, it is taken back.
pub(super) struct Held {
    pub(super) work: Work,
    pub(super) asker: Arc<Asker>,
    pub(super) cancellation: CancellationToken,
    support: TaskSupport,
    /// How often its client was asked.
    round: u32,
}

/// A request that waits for its client, and whose it is.
struct Suspended {
    owner: Option<String>,
    what: String,
    held: Held,
}

/// Requests that wait for their clients.
#[derive(Default)]
pub(super) struct Waiting(Mutex<HashMap<String, Suspended>>);

impl Waiting {
    fn put(&self, id: &str, waits: Suspended, max: usize) -> Result<(), RpcError> {
        let mut waiting = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let own = waiting.values().filter(|other| other.owner == waits.owner).count();
        // One caller's requests must not keep out everybody else's.
        if waiting.len() >= max || own >= (max / 2).max(1) {
            return Err(RpcError::new(-32000, "too many requests wait for their clients; try again later"));
        }
        waiting.insert(id.to_owned(), waits);
        Ok(())
    }

    fn take(&self, id: &str, round: u32, owner: Option<&str>, what: &str) -> Option<Held> {
        let mut waiting = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Suspended { owner: whose, what: of, held } = waiting.get(id)?;
        let fits = held.round == round && whose.as_deref() == owner && of == what;
        if fits { waiting.remove(id).map(|waits| waits.held) } else { None }
    }

    fn drop_expired(&self, id: &str) {
        let expired = self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(id);
        drop(expired);
    }
}
