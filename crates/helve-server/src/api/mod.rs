//! `/v1`: the HTTP API. One file a subject; [`routes`] is all of it on one screen.
//!
//! What a principal has (calls, approvals, runs) is theirs: another's looks as if it did not exist,
//! except to callers that may inspect.

mod extract;
mod reply;
mod routes;
mod signature;

mod answers;
mod approvals;
mod audit;
mod calls;
mod costs;
mod events;
mod hooks;
mod metrics;
mod openapi;
mod runs;
mod servers;
mod session;
mod system;
mod tools;

use std::sync::Arc;

use axum::http::{Method, StatusCode, Uri};
use helve::Runtime;
use tokio::sync::Semaphore;

pub(crate) use self::approvals::{may_approve, may_remember};
pub(crate) use self::extract::{Id, Params, chain};
use self::metrics::Metrics;
pub use self::openapi::openapi;
pub(crate) use self::routes::routes;
pub(crate) use self::session::{end_login, signed_in};
use crate::options::ApiOptions;
use crate::problem::Problem;
use crate::records::Records;
use crate::seats::Seats;
use crate::state::ServerState;

/// What the HTTP API works with.
pub(crate) struct Api {
    pub(crate) runtime: Runtime,
    pub(crate) records: Option<Arc<dyn Records>>,
    pub(crate) metrics: Metrics,
    /// Messages of models whose calls are at work.
    answering: Seats,
    /// Costs are added up for one visitor at a time: each reads much of the journal.
    adding_up: Arc<Semaphore>,
}

impl Api {
    pub(crate) fn new(ApiOptions { runtime, records }: ApiOptions) -> Self {
        let answering = Seats::new(answers::AT_WORK_MAX, answers::OWN_AT_WORK_MAX);
        Self {
            runtime,
            records,
            metrics: Metrics::default(),
            answering,
            adding_up: Arc::new(Semaphore::new(1)),
        }
    }

    /// Counts what happens, until dropped.
    pub(crate) async fn count(&self) {
        self.metrics.follow(self.runtime.subscribe()).await;
    }

    fn records(&self) -> Result<&dyn Records, Problem> {
        let none = || Problem::new(StatusCode::NOT_IMPLEMENTED, "calls are not kept in a journal here");
        self.records.as_deref().ok_or_else(none)
    }
}

impl ServerState {
    pub(crate) fn api(&self) -> Result<&Api, Problem> {
        self.api.as_ref().ok_or_else(Problem::not_found)
    }
}

pub(crate) async fn not_found(uri: Uri) -> Problem {
    let path: String = uri.path().chars().take(200).collect();
    Problem::new(StatusCode::NOT_FOUND, format!("there is nothing at `{}`", path.escape_debug()))
        .suggest("`GET /v1/openapi.json` lists what there is")
}

pub(crate) async fn wrong_method(method: Method) -> Problem {
    let detail = format!("`{method}` is not answered here");
    Problem::new(StatusCode::METHOD_NOT_ALLOWED, detail).suggest("`GET /v1/openapi.json` lists what there is")
}
