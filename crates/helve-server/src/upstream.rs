//! `/v1/mcp/servers`: the MCP servers behind this one, for who looks after them.
//!
//! INVARIANT: only the local user gets in. A server's log, or the reason that it failed, is not for
//! everybody who may call tools.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Path, Query, Request as HttpRequest, State};
use axum::http::request::Parts;
use axum::http::{Response, StatusCode};
use helve::Caller;
use helve_mcp::servers::Servers;
use serde::{Deserialize, Serialize};

use crate::guard::{json_response, plain};
use crate::mcp::{App, admit};

/// Most lines of a log that are given at once.
const LINES_MAX: usize = 1_000;

type Refused = Box<Response<Body>>;

/// How every server is.
pub(crate) async fn list(State(app): State<Arc<App>>, request: HttpRequest) -> Response<Body> {
    match servers(&app, &request.into_parts().0) {
        Ok(servers) => json(&servers.status()),
        Err(refused) => *refused,
    }
}

/// Stops a server and connects it anew.
pub(crate) async fn restart(
    State(app): State<Arc<App>>,
    Path(name): Path<String>,
    request: HttpRequest,
) -> Response<Body> {
    let servers = match servers(&app, &request.into_parts().0) {
        Ok(servers) => servers,
        Err(refused) => return *refused,
    };
    if !servers.restart(&name).await {
        return plain(StatusCode::NOT_FOUND, "there is no such server");
    }
    match servers.status().into_iter().find(|one| one.name == name) {
        Some(status) => json(&status),
        None => plain(StatusCode::NOT_FOUND, "the server is gone"),
    }
}

/// What is asked of a log.
#[derive(Deserialize)]
pub(crate) struct Wanted {
    lines: Option<usize>,
}

/// The last lines of a server's log.
pub(crate) async fn logs(
    State(app): State<Arc<App>>,
    Path(name): Path<String>,
    Query(wanted): Query<Wanted>,
    request: HttpRequest,
) -> Response<Body> {
    let servers = match servers(&app, &request.into_parts().0) {
        Ok(servers) => servers,
        Err(refused) => return *refused,
    };
    match servers.log(&name, wanted.lines.unwrap_or(LINES_MAX).min(LINES_MAX)) {
        Some(lines) => json(&lines),
        None => plain(StatusCode::NOT_FOUND, "there is no such server"),
    }
}

fn servers(app: &App, parts: &Parts) -> Result<Servers, Refused> {
    let caller = admit(app, parts)?;
    if caller.principal != Caller::local().principal {
        return Err(Box::new(plain(StatusCode::FORBIDDEN, "only who runs Helve looks after its servers")));
    }
    let none = || Box::new(plain(StatusCode::NOT_FOUND, "there are no servers"));
    app.servers.get().cloned().ok_or_else(none)
}

fn json(value: &impl Serialize) -> Response<Body> {
    match serde_json::to_string(value) {
        Ok(text) => json_response(StatusCode::OK, text),
        Err(_) => plain(StatusCode::INTERNAL_SERVER_ERROR, "this cannot be written as JSON"),
    }
}
