//! `/v1/calls`: calling tools, and what became of it.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::State;
use axum::http::Response;
use axum::response::IntoResponse;
use helve::approvals::Standing;
use helve::{Advice, AdvisedAction, ApprovalId, Call, CallId, Caller, Outcome};
use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::audit::own_record;
use super::extract::{Calling, Guest, Id, Json, Traced};
use super::reply::{Called, Soon};
use super::signature::{Gives, Operation};
use crate::problem::Problem;
use crate::records::Recorded;
use crate::state::ServerState;
use crate::visitor::Visitor;

/// Longest session, loop or key.
pub(super) const NAME_CHARS_MAX: usize = 256;
/// Longest that an answer waits for a person.
pub(super) const WAIT_MAX: Duration = Duration::from_secs(10 * 60);

/// A call of one tool.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct CallRequest {
    /// The tool's name, as any format writes it.
    tool: String,
    /// The arguments of the tool.
    #[serde(default)]
    arguments: Map<String, Value>,
    /// The session that it belongs to.
    #[schemars(length(min = 1, max = NAME_CHARS_MAX))]
    session: Option<String>,
    /// The loop of that session.
    #[serde(rename = "loop")]
    #[schemars(length(min = 1, max = NAME_CHARS_MAX))]
    loop_id: Option<String>,
    /// The same key never runs twice: the answer is the first call's.
    #[schemars(length(min = 1, max = NAME_CHARS_MAX))]
    idempotency_key: Option<String>,
    /// How long the tool may run.
    timeout_ms: Option<u64>,
    /// How long to wait for a person, where one is asked; at most ten minutes. Absent: as the server
    /// is set up.
    wait_ms: Option<u64>,
    /// What the caller itself thinks of it. It can only make it stricter.
    advice: Option<AdviceRequest>,
    /// Joins it with other calls in the record.
    #[schemars(length(min = 1, max = NAME_CHARS_MAX))]
    correlation_id: Option<String>,
}

/// What its own caller thinks call.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct AdviceRequest {
    /// What to do: `execute`, `request_approval` or `deny`.
    action: AdvisedAction,
    /// How sure it is, from 0 to 1.
    confidence: Option<f64>,
    /// Why the agent decided so.
    reasoning: Option<String>,
}

pub(super) async fn call(
    State(server): State<Arc<ServerState>>,
    Calling(caller): Calling,
    Traced(parent): Traced,
    Json(request): Json<CallRequest>,
) -> Result<Called, Problem> {
    let mut call = request.resolve(&caller)?;
    call.trace_parent = parent;
    // On the heap: what a call needs on its way is large.
    Ok(Called(Box::pin(server.api()?.runtime.call(call)).await))
}

impl CallRequest {
    fn resolve(self, caller: &Arc<Caller>) -> Result<Call, Problem> {
        check_names(&[
            ("session", &self.session),
            ("loop", &self.loop_id),
            ("idempotency_key", &self.idempotency_key),
            ("correlation_id", &self.correlation_id),
        ])?;
        let caller = in_session(caller, self.session, self.loop_id);
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

/// Whether names that a caller made up are of a sensible length.
pub(super) fn check_names(names: &[(&str, &Option<String>)]) -> Result<(), Problem> {
    let fits = |text: &String| (1..=NAME_CHARS_MAX).contains(&text.chars().count());
    match names.iter().find(|(_, text)| text.as_ref().is_some_and(|text| !fits(text))) {
        Some((name, _)) => Err(Problem::bad(format!("`{name}` has 1 to {NAME_CHARS_MAX} characters"))),
        None => Ok(()),
    }
}

/// A caller in the session and loop that it names.
pub(super) fn in_session(
    caller: &Arc<Caller>,
    session: Option<String>,
    loop_id: Option<String>,
) -> Arc<Caller> {
    if session.is_none() && loop_id.is_none() {
        return Arc::clone(caller);
    }
    let mut caller = Caller::clone(caller);
    caller.session = session.or(caller.session);
    caller.loop_id = loop_id.or(caller.loop_id);
    Arc::new(caller)
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

/// A call that has not ended.
#[derive(Serialize, JsonSchema)]
#[serde(tag = "status", rename_all = "snake_case")]
pub(super) enum UnderWay {
    /// A person has approved it, and its caller has not run it yet.
    Approved {
        /// The id of the call.
        call_id: CallId,
        /// The full name of the tool.
        tool: Arc<str>,
        /// The approval that a person gave.
        approval_id: ApprovalId,
        /// Until when it can be run.
        expires_at: Timestamp,
        /// How to run it.
        run: RunLink,
    },
    /// It has begun.
    Running {
        /// The id of the call.
        call_id: CallId,
        /// The full name of the tool.
        tool: Arc<str>,
    },
}

/// How to run what was approved.
#[derive(Serialize, JsonSchema)]
pub(super) struct RunLink {
    /// The request's method.
    method: &'static str,
    /// The request's path.
    path: String,
}

/// What became of a call. By the id of its question: as the call itself answers. By its own: its record.
pub(super) enum Became {
    Called(Box<Called>),
    Recorded(Recorded),
    UnderWay(UnderWay),
}

/// How a finished call looks, by either id.
#[derive(JsonSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "it describes two answers that are written by themselves")]
enum Ended {
    Called(Box<Outcome>),
    Recorded(Recorded),
}

/// How an unfinished call looks.
#[derive(JsonSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "it describes two answers that are written by themselves")]
enum Unfinished {
    Asked(Box<Outcome>),
    UnderWay(UnderWay),
}

impl IntoResponse for Became {
    fn into_response(self) -> Response<Body> {
        match self {
            Self::Called(called) => called.into_response(),
            Self::Recorded(record) => Json(record).into_response(),
            Self::UnderWay(so_far) => Soon::<(), _>::Later(so_far).into_response(),
        }
    }
}

impl Gives for Became {
    fn describe(operation: &mut Operation) {
        Soon::<Ended, Unfinished>::describe(operation);
    }
}

impl From<Standing> for Became {
    fn from(standing: Standing) -> Self {
        match standing {
            Standing::Pending(outcome) | Standing::Ended(outcome) => Self::Called(Box::new(Called(outcome))),
            Standing::Ready(ready) => Self::UnderWay(UnderWay::Approved {
                run: RunLink { method: "POST", path: format!("/v1/calls/{}/run", ready.approval_id) },
                call_id: ready.call_id,
                tool: ready.tool,
                approval_id: ready.approval_id,
                expires_at: ready.expires_at,
            }),
            Standing::Running { call_id, tool } => Self::UnderWay(UnderWay::Running { call_id, tool }),
        }
    }
}

/// What became of a call, for the one who made it. Looking runs nothing: [`run`] does.
pub(super) async fn outcome(
    State(server): State<Arc<ServerState>>,
    Guest(visitor): Guest,
    Id(id): Id<CallRef>,
) -> Result<Became, Problem> {
    let api = server.api()?;
    match (id, &visitor) {
        (CallRef::Approval(id), Visitor::Caller(caller)) => {
            Ok(Box::pin(api.runtime.standing_of(id, caller)).await?.into())
        }
        (CallRef::Approval(_), Visitor::Decider(_)) => Err(Problem::not_found()),
        (CallRef::Call(id), _) => Ok(Became::Recorded(own_record(api, &visitor, id).await?.into())),
    }
}

/// Runs a call that a person has approved, once, and answers how it ended.
pub(super) async fn run_approved(
    State(server): State<Arc<ServerState>>,
    Calling(caller): Calling,
    Id(id): Id<ApprovalId>,
) -> Result<Called, Problem> {
    Ok(Called(Box::pin(server.api()?.runtime.outcome_of(id, &caller)).await?))
}
