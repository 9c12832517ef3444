//! `/v1/hooks`: events that an agent raises, so that its whole session runs through the same hooks.
//!
//! An event is a call of its key's owner: authorized, limited and recorded under their name, and hooks
//! that are tools run with their rights.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use axum::http::Response;
use axum::response::IntoResponse;
use helve::hook::{HookInput, HookOutput};
use helve::{Outcome, Status};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::extract::{Calling, Json};
use super::reply::{Called, Soon};
use super::signature::{Gives, Operation};
use crate::problem::Problem;
use crate::state::ServerState;

/// How an event ended: what the hooks say, or as any call ends.
pub(super) enum Raised {
    Said(Value),
    Called(Box<Called>),
}

/// How that looks where it has ended.
#[derive(JsonSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "it describes two answers that are written by themselves")]
enum Heard {
    Said(Box<HookOutput>),
    Called(Box<Outcome>),
}

impl IntoResponse for Raised {
    fn into_response(self) -> Response<Body> {
        match self {
            Self::Said(output) => Json(output).into_response(),
            Self::Called(called) => called.into_response(),
        }
    }
}

impl Gives for Raised {
    fn describe(operation: &mut Operation) {
        Soon::<Heard, Outcome>::describe(operation);
    }
}

/// Raises an event, and answers what the hooks say together.
pub(super) async fn fire(
    State(server): State<Arc<ServerState>>,
    Calling(caller): Calling,
    Json(Event(event)): Json<Event>,
) -> Result<Raised, Problem> {
    let input: HookInput = serde_json::from_value(Value::Object(event)).map_err(|error| {
        Problem::bad(format!("this is no event: {error}; see docs/hooks.md for what each has"))
    })?;
    let outcome = Box::pin(server.api()?.runtime.raise(input, caller)).await;
    Ok(match outcome.status {
        Status::Done(output) if !output.is_failure => Raised::Said(output.value),
        Status::Done(_) | Status::Failed(_) | Status::Pending(_) => Raised::Called(Box::new(Called(outcome))),
    })
}

/// An event, as it came. What is wrong with it is told in the words of hooks.
#[derive(Deserialize, JsonSchema)]
#[serde(transparent)]
pub(super) struct Event(#[schemars(with = "HookInput")] Map<String, Value>);
