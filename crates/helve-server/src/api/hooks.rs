//! `/v1/hooks`: events that an agent raises, so that its whole session runs through the same hooks.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use axum::http::Response;
use helve::hook::HookInput;
use serde_json::{Map, Value};

use super::extract::{Calling, Json, json};
use crate::mcp::App;
use crate::problem::Problem;

/// Raises an event, and answers what the hooks say together.
pub(super) async fn fire(
    State(app): State<Arc<App>>,
    Calling(_caller): Calling,
    Json(event): Json<Map<String, Value>>,
) -> Result<Response<Body>, Problem> {
    let input: HookInput = serde_json::from_value(Value::Object(event)).map_err(|error| {
        Problem::bad(format!("this is no event: {error}; see docs/hooks.md for what each has"))
    })?;
    let fired = Box::pin(app.api()?.runtime.fire(input)).await;
    Ok(json(&fired.to_output()))
}
