//! Deciding by form. The guard has compared the token by now; what may be decided, by whom, is the
//! runtime's to say, as for the HTTP API.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, Response, StatusCode};
use helve::approval::Same;
use helve::approvals::{DecideError, Decision, Remember};
use helve::json::{JsonLimits, parse};
use helve::{Approval, ApprovalId, Runtime};
use serde_json::Value;

use super::detail::{self, Stage};
use super::form::{Form, Reader, wants_part};
use super::inbox::{self, ListParams};
use super::layout::{respond, see};
use super::{Failed, html::Html};
use crate::api::{Id, chain, may_approve, may_remember};
use crate::problem::Problem;
use crate::state::ServerState;
use crate::visitor::Deciding;

pub(super) async fn approve(desk: Desk, form: Form) -> Result<Response<Body>, Failed> {
    let edited = match form.text("edited") {
        None => None,
        Some(text) => match read(&desk.server.api()?.runtime, &text) {
            Ok(edited) => Some(edited),
            Err(problem) => {
                return desk.show(StatusCode::UNPROCESSABLE_ENTITY, Stage::Edits { text, problem }).await;
            }
        },
    };
    desk.decide(Decision::Approve { edited, remember: None, reason: form.text("reason") }).await
}

pub(super) async fn deny(desk: Desk, form: Form) -> Result<Response<Body>, Failed> {
    desk.decide(Decision::Deny { reason: form.text("reason") }).await
}

/// Approves, and lets the like run. Which arguments must stay the same is what is checked.
pub(super) async fn always(desk: Desk, form: Form) -> Result<Response<Body>, Failed> {
    let approval = desk.approval().await?;
    let fields: Result<Vec<String>, _> =
        form.all("same").iter().map(|text| serde_json::from_str(text)).collect();
    let fields = fields.map_err(|_| Problem::bad("`same` is not as the form sends it"))?;
    let arguments: Value = serde_json::from_str(approval.arguments.get()).unwrap_or_default();
    // Everything is more than each of them: nothing may be added either.
    let same = match arguments.as_object().is_some_and(|all| all.len() == fields.len()) {
        true => Same::Everything,
        false => Same::Fields(fields),
    };
    let remember = Some(Remember { same, ttl: None });
    desk.decide(Decision::Approve { edited: None, remember, reason: form.text("reason") }).await
}

/// Shows what an edit would change. Decides nothing.
pub(super) async fn edit(desk: Desk, form: Form) -> Result<Response<Body>, Failed> {
    let text = form.text("edited").unwrap_or_default();
    match desk.check(&text).await? {
        Ok(edited) => desk.show(StatusCode::OK, Stage::Reviews { edited }).await,
        Err(problem) => desk.show(StatusCode::UNPROCESSABLE_ENTITY, Stage::Edits { text, problem }).await,
    }
}

/// JSON that a person has typed.
fn read(runtime: &Runtime, text: &str) -> Result<Value, String> {
    let limits: JsonLimits = runtime.settings().arguments;
    parse(text.as_bytes(), limits).map_err(|error| format!("this is no JSON that can run: {}", chain(&error)))
}

/// A person about to decide a question.
pub(super) struct Desk {
    server: Arc<ServerState>,
    deciding: Arc<Deciding>,
    id: ApprovalId,
    headers: HeaderMap,
}

impl FromRequestParts<Arc<ServerState>> for Desk {
    type Rejection = Failed;

    async fn from_request_parts(parts: &mut Parts, server: &Arc<ServerState>) -> Result<Self, Failed> {
        let Reader(deciding) = Reader::from_request_parts(parts, server).await?;
        let Id(id) = Id::from_request_parts(parts, server).await?;
        Ok(Self { server: Arc::clone(server), deciding, id, headers: parts.headers.clone() })
    }
}

impl Desk {
    /// The question as it is now.
    async fn approval(&self) -> Result<Approval, Failed> {
        let found = self.server.api()?.runtime.approvals().get(self.id).await?;
        Ok(found.ok_or_else(Problem::not_found)?)
    }

    async fn decide(&self, decision: Decision) -> Result<Response<Body>, Failed> {
        let runtime = &self.server.api()?.runtime;
        may_approve(&self.deciding, runtime)?;
        may_remember(&self.deciding, &decision)?;
        let edited = match &decision {
            Decision::Approve { edited: Some(edited), .. } => Some(detail::pretty(edited)),
            Decision::Approve { .. } | Decision::Deny { .. } => None,
        };
        match (runtime.approvals().decide(self.id, decision, &self.deciding.decider).await, edited) {
            (Ok(approval), _) => {
                let state = HeaderValue::from_static(approval.state.as_str());
                let mut response = match wants_part(&self.headers) {
                    true => self.show(StatusCode::OK, Stage::Look).await?,
                    false => see(&format!("{}/approvals/{}", self.deciding.place, self.id)),
                };
                response.headers_mut().insert("x-helve-decided", state);
                Ok(response)
            }
            (Err(DecideError::NotFound(_)), _) => Err(Problem::not_found().into()),
            (Err(DecideError::Invalid(error)), Some(text)) => {
                let problem = error.message().to_owned();
                self.show(StatusCode::UNPROCESSABLE_ENTITY, Stage::Edits { text, problem }).await
            }
            (Err(error), _) => {
                let problem = Problem::from(error);
                self.show(problem.status(), Stage::Told(problem.detail().to_owned())).await
            }
        }
    }

    /// Whether edited arguments would be taken, in words where not. The decision checks them again.
    async fn check(&self, text: &str) -> Result<Result<Value, String>, Failed> {
        let runtime = &self.server.api()?.runtime;
        let edited = match read(runtime, text) {
            Ok(edited) => edited,
            Err(problem) => return Ok(Err(problem)),
        };
        match runtime.approvals().check_edit(self.id, edited).await {
            Ok(edited) => Ok(Ok(edited)),
            Err(DecideError::Invalid(error)) => Ok(Err(error.message().to_owned())),
            Err(error @ DecideError::ToolUnknown(_)) => Ok(Err(error.to_string())),
            Err(error) => Err(Problem::from(error).into()),
        }
    }

    /// The page about it.
    async fn show(&self, status: StatusCode, stage: Stage) -> Result<Response<Body>, Failed> {
        let shown: Html = detail::load(&self.server, self.approval().await?, &self.deciding, stage).await?;
        if wants_part(&self.headers) {
            return Ok(respond(status, shown));
        }
        let mut response =
            inbox::around(&self.server, self.id, &ListParams::default(), &shown, &self.deciding).await?;
        *response.status_mut() = status;
        Ok(response)
    }
}
