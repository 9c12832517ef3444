//! `/v1/runs`: calls that change things or have parts, and what can be done about each.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use axum::http::{Response, StatusCode, Uri};
use helve::run::Answer;
use helve::runs::{RunError, Settlement, Standing};
use helve::{Action, CallId};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json as value};

use super::Api;
use super::audit::{Found, own_record, paged, records};
use super::calls::answer;
use super::extract::{Calling, Guest, Id, Json, Params, json};
use crate::mcp::App;
use crate::problem::Problem;
use crate::records::{Among, Record, RecordQuery};
use crate::visitor::Visitor;

const PAGE: usize = 20;
const PAGE_MAX: usize = 500;

pub(super) async fn list(
    State(app): State<Arc<App>>,
    Guest(visitor): Guest,
    uri: Uri,
    Params(mut query): Params<RecordQuery>,
) -> Result<Response<Body>, Problem> {
    let api = app.api()?;
    let limit = query.limit.unwrap_or(PAGE).clamp(1, PAGE_MAX);
    (query.among, query.limit) = (Among::Runs, Some(limit));
    let Found { records, next } = records(api, &visitor, query).await?;
    Ok(paged(json(&with_states(api, records).await?), &uri, next))
}

pub(super) async fn show(
    State(app): State<Arc<App>>,
    Guest(visitor): Guest,
    Id(id): Id<CallId>,
) -> Result<Response<Body>, Problem> {
    let api = app.api()?;
    let record = own_record(api, &visitor, id).await?;
    Ok(json(&with_states(api, vec![record]).await?.pop()))
}

/// What is recorded of runs, and how each stands: in the words of `helve runs list`.
async fn with_states(api: &Api, records: Vec<Record>) -> Result<Vec<Value>, Problem> {
    let runs: Vec<_> = records.iter().map(|record| record.id).collect();
    let standing = api.runtime.standing_of_runs(&runs).await?;
    let together = |(record, standing): (Record, Option<Standing>)| {
        let mut body: Value = serde_json::from_str(record.body.get()).unwrap_or_default();
        // A call that began no run has no state of one.
        if let (Some(body), Ok(Value::Object(standing))) =
            (body.as_object_mut(), serde_json::to_value(standing))
        {
            body.extend(standing);
        }
        body
    };
    Ok(records.into_iter().zip(standing).map(together).collect())
}

pub(super) async fn cancel(
    State(app): State<Arc<App>>,
    Guest(visitor): Guest,
    Id(id): Id<CallId>,
) -> Result<Response<Body>, Problem> {
    let api = app.api()?;
    changeable(api, &visitor, id).await?;
    let runtime = api.runtime.clone();
    match to_its_end(async move { runtime.cancel_run(id).await }).await? {
        Some(outcome) => Ok(json(&outcome)),
        None => {
            let mut response = json(&value!({ "run": id, "state": "stopping" }));
            *response.status_mut() = StatusCode::ACCEPTED;
            Ok(response)
        }
    }
}

/// How to go on.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ResumeRequest {
    /// What a person found out about the step whose outcome is unknown: `happened` or
    /// `did_not_happen`. Takes the role `admin`.
    #[schemars(with = "Option<String>")]
    answer: Option<Answer>,
    /// What that step returned.
    result: Option<Value>,
}

pub(super) async fn resume(
    State(app): State<Arc<App>>,
    Guest(visitor): Guest,
    Id(id): Id<CallId>,
    Json(request): Json<ResumeRequest>,
) -> Result<Response<Body>, Problem> {
    let api = app.api()?;
    changeable(api, &visitor, id).await?;
    let by = visitor.person().principal.clone();
    let settlement =
        request.answer.map(|answer| Settlement { call_id: None, answer, result: request.result, by });
    if settlement.is_some() {
        may_settle(api, &visitor)?;
    }
    let runtime = api.runtime.clone();
    Ok(answer(&to_its_end(async move { runtime.resume_run(id, settlement).await }).await?))
}

/// What a person found out about a call of a finished run that was stopped or got no answer.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct SettleRequest {
    /// The call, as the run's list of parts has it.
    #[schemars(with = "String")]
    call_id: CallId,
    /// `happened` or `did_not_happen`.
    #[schemars(with = "String")]
    answer: Answer,
    /// What it returned.
    result: Option<Value>,
}

pub(super) async fn settle(
    State(app): State<Arc<App>>,
    Guest(visitor): Guest,
    Id(id): Id<CallId>,
    Json(request): Json<SettleRequest>,
) -> Result<Response<Body>, Problem> {
    let api = app.api()?;
    changeable(api, &visitor, id).await?;
    may_settle(api, &visitor)?;
    let SettleRequest { call_id, answer, result } = request;
    if answer == Answer::DidNotHappen && result.is_some() {
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
    Ok(json(&value!({ "run": id, "call_id": call_id, "answer": answer })))
}

/// What became of a step decides what is undone, and is not for whoever called to say.
fn may_settle(api: &Api, visitor: &Visitor) -> Result<(), Problem> {
    match visitor.may(Action::Administer, &api.runtime) {
        true => Ok(()),
        false => Err(Problem::forbidden("what became of a step is for who administers Helve to say")),
    }
}

/// To its end, also where whoever asked hangs up: a run is not cancelled for that, and its parts are not
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
    State(app): State<Arc<App>>,
    Calling(caller): Calling,
    Id(id): Id<CallId>,
) -> Result<Response<Body>, Problem> {
    let api = app.api()?;
    changeable(api, &Visitor::Caller(Arc::clone(&caller)), id).await?;
    let runtime = api.runtime.clone();
    let outcome = to_its_end(async move { runtime.undo_run(id, caller).await }).await?;
    match outcome.replay_of {
        Some(earlier) if outcome.is_success() => {
            let undone = Problem::new(StatusCode::CONFLICT, format!("{id} is undone already"));
            Err(undone.suggest(format!("nothing is undone twice; {earlier} says what was undone")))
        }
        Some(_) | None => Ok(answer(&outcome)),
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
            | RunError::IsUndo(_) => Self::new(StatusCode::CONFLICT, error.to_string()),
            RunError::Journal(error) => error.into(),
            other => Self::new(StatusCode::CONFLICT, other.to_string()),
        }
    }
}
