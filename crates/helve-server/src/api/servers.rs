//! `/v1/mcp/servers`: the MCP servers behind this one, for who looks after them.
//!
//! INVARIANT: only who administers gets in. A server's log, or the reason that it failed, is not for
//! everybody who may call tools.

use std::sync::Arc;

use axum::extract::State;
use helve::Action;
use helve_mcp::log::Line;
use helve_mcp::servers::{ServerStatus, Servers};
use schemars::JsonSchema;
use serde::Deserialize;

use super::extract::{Guest, Id, Json, Params};
use crate::problem::Problem;
use crate::state::ServerState;
use crate::visitor::Visitor;

/// Most lines of a log that are given at once.
const LINES_MAX: usize = 1_000;

/// How every server is.
pub(super) async fn list(
    State(server): State<Arc<ServerState>>,
    Guest(visitor): Guest,
) -> Result<Json<Vec<ServerStatus>>, Problem> {
    Ok(Json(servers(&server, &visitor)?.status()))
}

/// Stops a server and connects it anew.
pub(super) async fn restart(
    State(server): State<Arc<ServerState>>,
    Guest(visitor): Guest,
    Id(name): Id<String>,
) -> Result<Json<ServerStatus>, Problem> {
    let servers = servers(&server, &visitor)?;
    if !servers.restart(&name).await {
        return Err(Problem::not_found());
    }
    let status = servers.status().into_iter().find(|one| one.name == name);
    status.map(Json).ok_or_else(Problem::not_found)
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
    State(server): State<Arc<ServerState>>,
    Guest(visitor): Guest,
    Id(name): Id<String>,
    Params(wanted): Params<LogParams>,
) -> Result<Json<Vec<Line>>, Problem> {
    let lines = servers(&server, &visitor)?.log(&name, wanted.lines.unwrap_or(LINES_MAX).min(LINES_MAX));
    lines.map(Json).ok_or_else(Problem::not_found)
}

fn servers<'a>(server: &'a ServerState, visitor: &Visitor) -> Result<&'a Servers, Problem> {
    if !visitor.may(Action::Administer, &server.api()?.runtime) {
        return Err(Problem::forbidden("only who administers Helve looks after its servers"));
    }
    server.servers.as_ref().ok_or_else(Problem::not_found)
}
