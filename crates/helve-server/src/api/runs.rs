//! `/v1/runs`: calls that change things or have parts, and what can be done about each.

use std::sync::Arc;

use axum::extract::State;
use axum::http::{StatusCode, Uri};
use helve::run::Finding;
use helve::runs::{RunError, RunState, Settlement, Standing};
use helve::{Action, CallId, Outcome};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::Api;
use super::audit::{RecordPage, own_record, records};
use super::extract::{Calling, Guest, Id, Json, Params};
use super::reply::{Called, Paged, Soon};
use crate::problem::Problem;
use crate::records::{Among, Record, RecordDocument, RecordQuery};
use crate::state::ServerState;
use crate::visitor::Visitor;

const PAGE: usize = 20;
const PAGE_MAX: usize = 500;

/// A run: all that is recorded of its call, and how it stands.
#[derive(Serialize, JsonSchema)]
pub(super) struct Run {
    #[serde(flatten)]
    #[schemars(with = "RecordDocument")]
    record: Map<String, Value>,
    /// How it stands, in the words of `helve runs list`. A call that began no run has no state of one.
    #[serde(flatten)]
    standing: Option<Standing>,
}

pub(super) async fn list(
    State(server): State<Arc<ServerState>>,
    Guest(visitor): Guest,
    uri: Uri,
    Params(mut query): Params<RecordQuery>,
) -> Result<Paged<Run>, Problem> {
    let api = server.api()?;
    let limit = query.limit.unwrap_or(PAGE).clamp(1, PAGE_MAX);
    (query.among, query.limit) = (Among::Runs, Some(limit));
    let RecordPage { records, next } = records(api, &visitor, query).await?;
    Ok(Paged::new(with_states(api, records).await?, &uri, next))
}

pub(super) async fn show(
    State(server): State<Arc<ServerState>>,
    Guest(visitor): Guest,
    Id(id): Id<CallId>,
) -> Result<Json<Run>, Problem> {
    let api = server.api()?;
    let record = own_record(api, &visitor, id).await?;
    with_states(api, vec![record]).await?.pop().map(Json).ok_or_else(Problem::not_found)
}

/// What is recorded of runs, and how each stands.
async fn with_states(api: &Api, records: Vec<Record>) -> Result<Vec<Run>, Problem> {
    let runs: Vec<_> = records.iter().map(|record| record.id).collect();
    let standing = api.runtime.standing_of_runs(&runs).await?;
    let together = |(record, standing): (Record, Option<Standing>)| {
        let record = serde_json::from_str(record.body.get()).unwrap_or_default();
        Run { record, standing }
    };
    Ok(records.into_iter().zip(standing).map(together).collect())
}

/// A run that was asked to stop, and will.
#[derive(Serialize, JsonSchema)]
pub(super) struct Stopping {
    /// The id of the run.
    run: CallId,
    /// How it stands.
    state: RunState,
}

pub(super) async fn cancel(
    State(server): State<Arc<ServerState>>,
    Guest(visitor): Guest,
    Id(id): Id<CallId>,
) -> Result<Soon<Outcome, Stopping>, Problem> {
    let api = server.api()?;
    changeable(api, &visitor, id).await?;
    let runtime = api.runtime.clone();
    match to_its_end(async move { runtime.cancel_run(id).await }).await? {
        Some(outcome) => Ok(Soon::Now(outcome)),
        None => Ok(Soon::Later(Stopping { run: id, state: RunState::Stopping })),
    }
}

/// How to go on.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ResumeRequest {
    /// What a person found out about the step whose outcome is unknown: `happened` or
    /// `did_not_happen`. Takes the role `admin`.
    answer: Option<Finding>,
    /// What that step returned.
    result: Option<Value>,
}

pub(super) async fn resume(
    State(server): State<Arc<ServerState>>,
    Guest(visitor): Guest,
    Id(id): Id<CallId>,
    Json(request): Json<ResumeRequest>,
) -> Result<Called, Problem> {
    let api = server.api()?;
    changeable(api, &visitor, id).await?;
    let by = visitor.person().principal.clone();
    let settlement =
        request.answer.map(|answer| Settlement { call_id: None, answer, result: request.result, by });
    if settlement.is_some() {
        may_settle(api, &visitor)?;
    }
    let runtime = api.runtime.clone();
    Ok(Called(to_its_end(async move { runtime.resume_run(id, settlement).await }).await?))
}

/// What a person found out about a call of a finished run that was stopped or got no answer.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct SettleRequest {
    /// The call, as the run's list of parts has it.
    call_id: CallId,
    /// `happened` or `did_not_happen`.
    answer: Finding,
    /// What it returned.
    result: Option<Value>,
}

/// What was found out about a call, as it was written down.
#[derive(Serialize, JsonSchema)]
pub(super) struct Settled {
    /// The id of the run.
    run: CallId,
    /// The id of the call.
    call_id: CallId,
    /// What became of it.
    answer: Finding,
}

pub(super) async fn settle(
    State(server): State<Arc<ServerState>>,
    Guest(visitor): Guest,
    Id(id): Id<CallId>,
    Json(request): Json<SettleRequest>,
) -> Result<Json<Settled>, Problem> {
    let api = server.api()?;
    changeable(api, &visitor, id).await?;
    may_settle(api, &visitor)?;
    let SettleRequest { call_id, answer, result } = request;
    if answer == Finding::DidNotHappen && result.is_some() {
        let message = "what did not happen has no `result`";
        return Err(Problem::new(StatusCode::UNPROCESSABLE_ENTITY, message));
    }
    let by = visitor.person().principal.clone();
    match api.runtime.settle_call(id, call_id, answer, result, by).await {
        Ok(()) => {}
        Err(RunError::Open(_)) => {
            let open = Problem::new(StatusCode::CONFLICT, format!("{id} has not ended"));
            return Err(
                open.suggest("where it waits for what became of a step, resume it with your `answer`")
            );
        }
        Err(error) => return Err(error.into()),
    }
    Ok(Json(Settled { run: id, call_id, answer }))
}

/// What became of a step decides what is undone, and is not for the caller to say.
fn may_settle(api: &Api, visitor: &Visitor) -> Result<(), Problem> {
    match visitor.may(Action::Administer, &api.runtime) {
        true => Ok(()),
        false => Err(Problem::forbidden("what became of a step is for who administers Helve to say")),
    }
}

/// To its end, also where the client hangs up: a run is not cancelled for that, and its parts are not
/// undone.
async fn to_its_end<T: Send + 'static>(
    work: impl Future<Output = Result<T, RunError>> + Send + 'static,
) -> Result<T, Problem> {
    match tokio::spawn(work).await {
        Ok(ended) => Ok(ended?),
        Err(_) => {
            Err(Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "it broke off; the run says how far it came"))
        }
    }
}

pub(super) async fn undo(
    State(server): State<Arc<ServerState>>,
    Calling(caller): Calling,
    Id(id): Id<CallId>,
) -> Result<Called, Problem> {
    let api = server.api()?;
    changeable(api, &Visitor::Caller(Arc::clone(&caller)), id).await?;
    let runtime = api.runtime.clone();
    let outcome = to_its_end(async move { runtime.undo_run(id, caller).await }).await?;
    match outcome.replay_of {
        Some(earlier) if outcome.is_success() => {
            let undone = Problem::new(StatusCode::CONFLICT, format!("{id} is undone already"));
            Err(undone.suggest(format!("nothing is undone twice; {earlier} says what was undone")))
        }
        Some(_) | None => Ok(Called(outcome)),
    }
}

/// Whether a run is this visitor's to change: their own, or they administer. Who may only look is
/// told so.
async fn changeable(api: &Api, visitor: &Visitor, id: CallId) -> Result<(), Problem> {
    let record = own_record(api, visitor, id).await?;
    match visitor.owns(record.principal.as_deref()) || visitor.may(Action::Administer, &api.runtime) {
        true => Ok(()),
        false => Err(Problem::forbidden("you may look at this run, but not change it")),
    }
}

impl From<RunError> for Problem {
    fn from(error: RunError) -> Self {
        match error {
            RunError::NotFound(_) => Self::not_found(),
            RunError::Busy(_)
            | RunError::Ended(_)
            | RunError::Open(_)
            | RunError::ChangedNothing(_)
            | RunError::NotInDoubt(_)
            | RunError::IsUndo(_)
            | RunError::AtWork { .. } => Self::new(StatusCode::CONFLICT, error.to_string()),
            RunError::Journal(error) => error.into(),
            other => Self::new(StatusCode::CONFLICT, other.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_of_which_a_call_may_be_at_work_is_a_conflict() {
        let run = CallId::new(jiff::Timestamp::now());
        assert_eq!(Problem::from(RunError::AtWork { run, seconds: 7 }).status(), StatusCode::CONFLICT);
    }
}
