//! `/v1/hooks`: events that an agent raises, so that its whole session runs through the same hooks.
//!
//! An event is a call of its key's owner: authorized, limited and recorded under their name, and hooks
//! that are tools run with their rights.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use axum::http::Response;
use helve::Status;
use helve::hook::HookInput;
use serde_json::{Map, Value};

use super::calls::answer;
use super::extract::{Calling, Json, json};
use crate::mcp::App;
use crate::problem::Problem;

/// Raises an event, and answers what the hooks say together.
pub(super) async fn fire(
    State(app): State<Arc<App>>,
    Calling(caller): Calling,
    Json(event): Json<Map<String, Value>>,
) -> Result<Response<Body>, Problem> {
    let input: HookInput = serde_json::from_value(Value::Object(event)).map_err(|error| {
        Problem::bad(format!("this is no event: {error}; see docs/hooks.md for what each has"))
    })?;
    let outcome = Box::pin(app.api()?.runtime.raise(input, caller)).await;
    Ok(match &outcome.status {
        Status::Done(output) if !output.is_failure => json(&output.value),
        Status::Done(_) | Status::Failed(_) | Status::Pending(_) => answer(&outcome),
    })
}
