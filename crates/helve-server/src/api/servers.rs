//! `/v1/mcp/servers`: the MCP servers behind this one, for who looks after them.
//!
//! INVARIANT: only who administers gets in. A server's log, or the reason that it failed, is not for
//! everybody who may call tools.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use axum::http::Response;
use helve::Action;
use helve_mcp::servers::Servers;
use schemars::JsonSchema;
use serde::Deserialize;

use super::extract::{Guest, Id, Params, json};
use crate::mcp::App;
use crate::problem::Problem;
use crate::visitor::Visitor;

/// Most lines of a log that are given at once.
const LINES_MAX: usize = 1_000;

/// How every server is.
pub(super) async fn list(
    State(app): State<Arc<App>>,
    Guest(visitor): Guest,
) -> Result<Response<Body>, Problem> {
    Ok(json(&servers(&app, &visitor)?.status()))
}

/// Stops a server and connects it anew.
pub(super) async fn restart(
    State(app): State<Arc<App>>,
    Guest(visitor): Guest,
    Id(name): Id<String>,
) -> Result<Response<Body>, Problem> {
    let servers = servers(&app, &visitor)?;
    if !servers.restart(&name).await {
        return Err(Problem::not_found());
    }
    let status = servers.status().into_iter().find(|one| one.name == name);
    status.map(|status| json(&status)).ok_or_else(Problem::not_found)
}

/// What is asked of a log.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct LogParams {
    /// Most lines; at most 1,000.
    lines: Option<usize>,
}

/// The last lines of a server's log.
pub(super) async fn logs(
    State(app): State<Arc<App>>,
    Guest(visitor): Guest,
    Id(name): Id<String>,
    Params(wanted): Params<LogParams>,
) -> Result<Response<Body>, Problem> {
    let lines = servers(&app, &visitor)?.log(&name, wanted.lines.unwrap_or(LINES_MAX).min(LINES_MAX));
    lines.map(|lines| json(&lines)).ok_or_else(Problem::not_found)
}

fn servers<'a>(app: &'a App, visitor: &Visitor) -> Result<&'a Servers, Problem> {
    if !visitor.may(Action::Administer, &app.api()?.runtime) {
        return Err(Problem::forbidden("only who administers Helve looks after its servers"));
    }
    app.servers.as_ref().ok_or_else(Problem::not_found)
}
