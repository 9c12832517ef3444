//! `/v1/approvals` and `/v1/rules`: questions to people, and deciding them.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use helve::approval::{Rule, Same};
use helve::approvals::{Decision, Remember};
use helve::{Action, Approval, ApprovalId, ApprovalQuery, ApprovalState, RuleId, Runtime};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use super::extract::{Calling, Decides, Guest, Id, Json, Params};
use crate::problem::Problem;
use crate::state::ServerState;
use crate::visitor::{Deciding, Visitor};

const PAGE_MAX: usize = 1_000;
const PAGE: usize = 50;
const RULES_MAX: usize = 10_000;

/// Which approvals to list.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ApprovalParams {
    /// What became of them: `pending`, `approved`, `denied`, `expired`, `used` or `withdrawn`.
    state: Option<ApprovalState>,
    /// The tool's full name.
    tool: Option<String>,
    /// Who asked. Callers see their own, whatever stands here.
    principal: Option<String>,
    /// The caller's session.
    session: Option<String>,
    /// Questions older than this one.
    before: Option<ApprovalId>,
    /// Most questions to return; at most 1,000.
    limit: Option<usize>,
}

pub(super) async fn list(
    State(server): State<Arc<ServerState>>,
    Guest(visitor): Guest,
    Params(params): Params<ApprovalParams>,
) -> Result<Json<Vec<Approval>>, Problem> {
    let runtime = &server.api()?.runtime;
    let mut query = ApprovalQuery::default();
    query.state = params.state;
    query.tool = params.tool;
    query.session = params.session;
    query.before = params.before;
    query.limit = params.limit.unwrap_or(PAGE).min(PAGE_MAX);
    query.principal = visitor.whose(params.principal, runtime)?;
    Ok(Json(runtime.approvals().list(query).await?))
}

pub(super) async fn show(
    State(server): State<Arc<ServerState>>,
    Guest(visitor): Guest,
    Id(id): Id<ApprovalId>,
) -> Result<Json<Approval>, Problem> {
    let runtime = &server.api()?.runtime;
    let found = runtime.approvals().get(id).await?;
    let found = found.filter(|approval| visitor.sees(approval.caller.principal.as_deref(), runtime));
    found.map(Json).ok_or_else(Problem::not_found)
}

pub(super) async fn withdraw(
    State(server): State<Arc<ServerState>>,
    Calling(caller): Calling,
    Id(id): Id<ApprovalId>,
) -> Result<Json<Approval>, Problem> {
    Ok(Json(server.api()?.runtime.approvals().withdraw(id, &caller).await?))
}

/// What a person decides about an approval.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct DecisionRequest {
    /// Whether the call may run.
    decision: Word,
    /// Arguments that are to run instead of those that were asked for. They are validated anew.
    edited: Option<Value>,
    /// Why. The caller is told.
    reason: Option<String>,
    /// Lets the like run without asking, for the rest of the session.
    remember: Option<RememberRequest>,
}

/// Whether a call may run.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "Decision")]
enum Word {
    /// It may, once.
    Approve,
    /// It may not.
    Deny,
}

/// What is the like.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct RememberRequest {
    /// JSON Pointers of the arguments that must stay as they are, such as `/to`. Absent: all of them.
    same: Option<Vec<String>>,
    /// For how long, in seconds. Absent: as the server is set up.
    ttl_s: Option<u64>,
}

impl DecisionRequest {
    fn resolve(self) -> Result<Decision, Problem> {
        match self.decision {
            Word::Deny if self.edited.is_some() || self.remember.is_some() => {
                Err(Problem::bad("`edited` and `remember` go with `approve`"))
            }
            Word::Deny => Ok(Decision::Deny { reason: self.reason }),
            Word::Approve => {
                let remember = self.remember.map(|like| Remember {
                    same: like.same.map_or(Same::Everything, Same::Fields),
                    ttl: like.ttl_s.map(Duration::from_secs),
                });
                Ok(Decision::Approve { edited: self.edited, remember, reason: self.reason })
            }
        }
    }
}

pub(super) async fn decide(
    State(server): State<Arc<ServerState>>,
    Decides(deciding): Decides,
    Id(id): Id<ApprovalId>,
    Json(request): Json<DecisionRequest>,
) -> Result<Json<Approval>, Problem> {
    let runtime = &server.api()?.runtime;
    may_approve(&deciding, runtime)?;
    let decision = request.resolve()?;
    may_remember(&deciding, &decision)?;
    Ok(Json(runtime.approvals().decide(id, decision, &deciding.decider).await?))
}

pub(super) async fn rules(
    State(server): State<Arc<ServerState>>,
    Guest(visitor): Guest,
) -> Result<Json<Vec<Rule>>, Problem> {
    let runtime = &server.api()?.runtime;
    let mut rules = runtime.approvals().rules(RULES_MAX).await?;
    let sees_all = visitor.may(Action::Inspect, runtime);
    rules.retain(|rule| sees_all || visitor.owns(rule.principal.as_deref()));
    Ok(Json(rules))
}

pub(super) async fn revoke_rule(
    State(server): State<Arc<ServerState>>,
    Decides(deciding): Decides,
    Id(id): Id<RuleId>,
) -> Result<Json<Rule>, Problem> {
    let runtime = &server.api()?.runtime;
    may_approve(&deciding, runtime)?;
    let revoked = runtime.approvals().revoke(id, &deciding.decider).await?;
    revoked.map(Json).ok_or_else(Problem::not_found)
}

/// Whether a person may allow the like for a session: not by a link, which is good for one question.
pub(crate) fn may_remember(deciding: &Deciding, decision: &Decision) -> Result<(), Problem> {
    match decision {
        Decision::Approve { remember: Some(_), .. } if deciding.only.is_some() => {
            Err(Problem::forbidden("this link decides its own question and no other; sign in to allow more"))
        }
        Decision::Approve { .. } | Decision::Deny { .. } => Ok(()),
    }
}

/// Whether the policy lets a person decide.
pub(crate) fn may_approve(deciding: &Arc<Deciding>, runtime: &Runtime) -> Result<(), Problem> {
    match Visitor::Decider(Arc::clone(deciding)).may(Action::Approve, runtime) {
        true => Ok(()),
        false => Err(Problem::forbidden("the policy does not let you decide")),
    }
}
