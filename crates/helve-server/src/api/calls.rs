//! `/v1/calls`: calling tools, and what became of it.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderName, HeaderValue, Response, StatusCode, header};
use helve::approvals::Standing;
use helve::{Advice, AdvisedAction, ApprovalId, Call, CallId, Caller, Outcome, Status};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::audit::own_record;
use super::extract::{Calling, Guest, Id, Json, Traced, json};
use crate::mcp::App;
use crate::problem::Problem;
use crate::visitor::Visitor;

/// Longest session, loop or key.
const NAME_CHARS_MAX: usize = 256;
/// Longest that an answer waits for a person.
const WAIT_MAX: Duration = Duration::from_secs(10 * 60);

/// Says that the answer is that of an earlier call with the same idempotency key.
const REPLAYED: HeaderName = HeaderName::from_static("idempotency-replayed");

/// A call.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct CallRequest {
    /// The tool's name, as any format writes it.
    tool: String,
    /// Its arguments.
    #[serde(default)]
    arguments: Map<String, Value>,
    /// The session that it belongs to.
    session: Option<String>,
    /// The loop of that session.
    #[serde(rename = "loop")]
    loop_id: Option<String>,
    /// The same key never runs twice: the answer is the first call's.
    idempotency_key: Option<String>,
    /// How long the tool may run.
    timeout_ms: Option<u64>,
    /// How long to wait for a person, where one is asked; at most ten minutes. Absent: as the server
    /// is set up.
    wait_ms: Option<u64>,
    /// What the caller itself thinks of it. It can only make it stricter.
    advice: Option<AdviceRequest>,
    /// Joins it with other calls in the record.
    correlation_id: Option<String>,
}

/// What a caller thinks of its own call.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct AdviceRequest {
    /// What to do: `execute`, `request_approval` or `deny`.
    #[schemars(with = "String")]
    action: AdvisedAction,
    /// How sure it is, from 0 to 1.
    confidence: Option<f64>,
    /// Why.
    reasoning: Option<String>,
}

pub(super) async fn call(
    State(app): State<Arc<App>>,
    Calling(caller): Calling,
    Traced(parent): Traced,
    Json(request): Json<CallRequest>,
) -> Result<Response<Body>, Problem> {
    let mut call = request.resolve(&caller)?;
    call.trace_parent = parent;
    // On the heap: what a call needs on its way is large.
    Ok(answer(&Box::pin(app.api()?.runtime.call(call)).await))
}

impl CallRequest {
    fn resolve(self, caller: &Arc<Caller>) -> Result<Call, Problem> {
        for (name, text) in [
            ("session", &self.session),
            ("loop", &self.loop_id),
            ("idempotency_key", &self.idempotency_key),
            ("correlation_id", &self.correlation_id),
        ] {
            let fits = |text: &String| (1..=NAME_CHARS_MAX).contains(&text.chars().count());
            if text.as_ref().is_some_and(|text| !fits(text)) {
                return Err(Problem::bad(format!("`{name}` has 1 to {NAME_CHARS_MAX} characters")));
            }
        }
        let caller = match (self.session, self.loop_id) {
            (None, None) => Arc::clone(caller),
            (session, loop_id) => {
                let mut caller = Caller::clone(caller);
                caller.session = session.or(caller.session);
                caller.loop_id = loop_id.or(caller.loop_id);
                Arc::new(caller)
            }
        };
        let mut call = Call::new(self.tool, Value::Object(self.arguments)).by(caller);
        call.idempotency_key = self.idempotency_key.map(Into::into);
        call.timeout = self.timeout_ms.map(Duration::from_millis);
        call.correlation_id = self.correlation_id;
        call.approval_wait = self.wait_ms.map(|wait| Duration::from_millis(wait).min(WAIT_MAX));
        call.advice = self.advice.map(|said| {
            let mut advice = Advice::new(said.action);
            (advice.confidence, advice.reasoning) = (said.confidence, said.reasoning);
            advice
        });
        Ok(call)
    }
}

/// An id of a call, or of the question that it asked.
pub(super) enum CallRef {
    Call(CallId),
    Approval(ApprovalId),
}

impl std::str::FromStr for CallRef {
    type Err = helve::id::IdError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        text.parse().map(Self::Approval).or_else(|_| text.parse().map(Self::Call))
    }
}

/// What became of a call, for the one who made it. Looking runs nothing: [`run`] does.
pub(super) async fn outcome(
    State(app): State<Arc<App>>,
    Guest(visitor): Guest,
    Id(id): Id<CallRef>,
) -> Result<Response<Body>, Problem> {
    let api = app.api()?;
    match (id, &visitor) {
        (CallRef::Approval(id), Visitor::Caller(caller)) => {
            Ok(stands(&Box::pin(api.runtime.standing_of(id, caller)).await?))
        }
        (CallRef::Approval(_), Visitor::Decider(_)) => Err(Problem::not_found()),
        (CallRef::Call(id), _) => Ok(json(&own_record(api, &visitor, id).await?.body)),
    }
}

/// Runs a call that a person has approved, once, and answers how it ended.
pub(super) async fn run(
    State(app): State<Arc<App>>,
    Calling(caller): Calling,
    Id(id): Id<ApprovalId>,
) -> Result<Response<Body>, Problem> {
    Ok(answer(&Box::pin(app.api()?.runtime.outcome_of(id, &caller)).await?))
}

/// Where a call stands as an answer: 202 until it has ended.
fn stands(standing: &Standing) -> Response<Body> {
    let so_far = match standing {
        Standing::Pending(outcome) | Standing::Ended(outcome) => return answer(outcome),
        Standing::Ready(ready) => serde_json::json!({
            "call_id": ready.call_id, "tool": ready.tool, "status": "approved",
            "approval_id": ready.approval_id, "expires_at": ready.expires_at,
            "run": { "method": "POST", "path": format!("/v1/calls/{}/run", ready.approval_id) },
        }),
        Standing::Running { call_id, tool } => {
            serde_json::json!({ "call_id": call_id, "tool": tool, "status": "running" })
        }
    };
    let mut response = json(&so_far);
    *response.status_mut() = StatusCode::ACCEPTED;
    response
}

/// An outcome as an answer: 200, 202 while a person is asked, or a problem.
pub(super) fn answer(outcome: &Outcome) -> Response<Body> {
    let mut response = own_answer(outcome);
    if outcome.replay_of.is_some() {
        response.headers_mut().insert(REPLAYED, HeaderValue::from_static("true"));
    }
    response
}

fn own_answer(outcome: &Outcome) -> Response<Body> {
    match &outcome.status {
        Status::Done(_) => json(outcome),
        Status::Failed(error) => {
            Problem::of(error, Some(outcome.call_id)).of_earlier(outcome.replay_of).into_response()
        }
        Status::Pending(pending) => {
            let mut response = json(outcome);
            *response.status_mut() = StatusCode::ACCEPTED;
            if let Ok(place) = HeaderValue::try_from(format!("/v1/calls/{}", pending.approval_id)) {
                response.headers_mut().insert(header::LOCATION, place);
            }
            response
        }
    }
}
