//! `/healthz` and `/readyz`: for machines that look after machines. They say yes or no, and nothing
//! of what is here.

use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;

use crate::mcp::App;
use crate::problem::Problem;

pub(super) async fn alive() -> &'static str {
    "ok"
}

pub(super) async fn ready(State(app): State<Arc<App>>) -> Result<&'static str, Problem> {
    match app.api.as_ref().map(|api| api.runtime.check_journal()) {
        None | Some(Ok(())) => Ok("ready"),
        Some(Err(error)) => {
            tracing::warn!(%error, "not ready");
            Err(Problem::new(
                StatusCode::SERVICE_UNAVAILABLE,
                "calls cannot be recorded, so none runs; `helve doctor` says why",
            ))
        }
    }
}
