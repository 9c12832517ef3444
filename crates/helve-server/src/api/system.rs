//! `/healthz` and `/readyz`: for machines that look after machines.
//!
//! `/healthz` says that the process is there: whatever else is wrong, a restart would not mend it. `/readyz` says
//! whether calls run here. Both are open to everybody, so that they tell nothing of what is called.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use axum::http::{Response, StatusCode};
use axum::response::IntoResponse;
use helve::Runtime;
use schemars::JsonSchema;
use serde::Serialize;

use super::signature::{Content, Gives, Operation, shape};
use crate::state::ServerState;

pub(super) async fn alive() -> &'static str {
    "ok"
}

/// Whether calls run here.
#[derive(Serialize, JsonSchema)]
pub(super) struct Readiness {
    /// Whether they do. The status is 200 then, else 503.
    ready: bool,
    /// Why not, in a word that never changes.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<Reason>,
    /// Why not, and what to do about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    detail: Option<String>,
    /// How far it is with runs that other processes had left. Calls go through meanwhile.
    recovering: Recovering,
}

#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Reason {
    /// The process is about to end: calls belong elsewhere.
    Stopping,
    /// Another process keeps the journal locked.
    JournalBlocked,
    /// Calls cannot be recorded, so none runs.
    JournalUnavailable,
}

#[derive(Serialize, JsonSchema)]
struct Recovering {
    /// Runs that have ended since, or wait for a person.
    done: u64,
    /// All that were found.
    total: u64,
}

pub(super) async fn ready(State(server): State<Arc<ServerState>>) -> Readiness {
    Readiness::of(server.api.as_ref().map(|api| &api.runtime))
}

impl IntoResponse for Readiness {
    fn into_response(self) -> Response<Body> {
        let status = if self.ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
        (status, axum::Json(self)).into_response()
    }
}

impl Gives for Readiness {
    fn describe(operation: &mut Operation) {
        operation.answers(200, "Calls run here", Content::Json(shape::<Self>));
        operation.answers(503, "No call runs here; `reason` says why", Content::Json(shape::<Self>));
    }
}

impl Readiness {
    fn of(runtime: Option<&Runtime>) -> Self {
        let recovery = runtime.map(Runtime::recovery).unwrap_or_default();
        let wrong = runtime.and_then(wrong);
        let recovering = Recovering { done: recovery.done, total: recovery.total };
        let (reason, detail) = wrong.unzip();
        Self { ready: reason.is_none(), reason, detail, recovering }
    }
}

fn wrong(runtime: &Runtime) -> Option<(Reason, String)> {
    if runtime.is_stopping() {
        return Some((Reason::Stopping, "this Helve is stopping; call another replica".to_owned()));
    }
    let error = runtime.check_journal().err()?;
    tracing::warn!(%error, "not ready");
    Some(match error.blocker() {
        Some(blocker) => (Reason::JournalBlocked, blocker.to_owned()),
        None => {
            let why = "calls cannot be recorded, so none runs; `helve doctor` says why";
            (Reason::JournalUnavailable, why.to_owned())
        }
    })
}
