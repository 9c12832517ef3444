//! `/v1/events`: what happens, as it happens, as server-sent events.
//!
//! A slow reader never slows a call: what it could not take it misses, and is told how much. The guard
//! ends the stream when its reader could no longer come in.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use axum::http::Response;
use axum::response::IntoResponse;
use bytes::Bytes;
use futures_util::stream;
use helve::event::EventKind;
use helve::{Action, Delivery, Event, Subscription, ToolName};
use schemars::JsonSchema;
use serde::Serialize;

use super::extract::Guest;
use super::signature::{Content, Gives, Operation, shape};
use crate::problem::Problem;
use crate::sse;
use crate::state::ServerState;
use crate::visitor::Visitor;

/// Events without an end, each named as its `type` says.
pub(super) struct Events(Body);

/// A note to a reader that was too slow. Its event is called `missed`.
#[derive(Serialize, JsonSchema)]
pub(super) struct Missed {
    /// How many events it missed.
    missed: u64,
}

impl IntoResponse for Events {
    fn into_response(self) -> Response<Body> {
        sse::answer(self.0)
    }
}

impl Gives for Events {
    fn describe(operation: &mut Operation) {
        operation.answers(200, "Events, as they happen", Content::Events(shape::<Event>, shape::<Missed>));
    }
}

pub(super) async fn stream(
    State(server): State<Arc<ServerState>>,
    Guest(visitor): Guest,
) -> Result<Events, Problem> {
    let events = server.api()?.runtime.subscribe();
    let listener = Listener { server, events, visitor };
    let first = Some("retry: 2000\n\n".to_owned());
    let body = stream::unfold((first, listener), |(first, mut listener)| async move {
        let text = match first {
            Some(first) => first,
            None => listener.next().await?,
        };
        Some((Ok::<_, std::io::Error>(Bytes::from(text)), (None, listener)))
    });
    Ok(Events(Body::from_stream(body)))
}

struct Listener {
    server: Arc<ServerState>,
    events: Subscription,
    visitor: Visitor,
}

impl Listener {
    /// The next event that this visitor may see, or a sign of life. None: it is over.
    async fn next(&mut self) -> Option<String> {
        let until = tokio::time::Instant::now() + self.server.config.keep_alive;
        if self.server.closing.is_cancelled() {
            return None;
        }
        loop {
            let heard = tokio::select! {
                biased;
                heard = tokio::time::timeout_at(until, self.events.next()) => heard,
                () = self.server.closing.cancelled() => {
                    return Some("event: stopping\ndata: {\"reason\":\"stopping\"}\n\n".to_owned());
                }
            };
            match heard {
                Err(_) => return Some(": alive\n\n".to_owned()),
                Ok(None) => return None,
                Ok(Some(Delivery::Missed(count))) => {
                    let data = serde_json::to_string(&Missed { missed: count }).ok()?;
                    return Some(format!("event: missed\ndata: {data}\n\n"));
                }
                Ok(Some(Delivery::Event(event))) if self.sees(&event) => {
                    let data = serde_json::to_string(&*event).ok()?;
                    return Some(format!("event: {}\ndata: {data}\n\n", event.name()));
                }
                Ok(Some(Delivery::Event(_))) => {}
            }
        }
    }

    fn sees(&self, event: &Event) -> bool {
        let Some(api) = &self.server.api else { return false };
        let may_know = |tool: &ToolName| match (&self.visitor, api.runtime.registry().get(tool.as_str())) {
            (Visitor::Caller(caller), Some(found)) => api.runtime.may_see(caller, &found.tool),
            (Visitor::Caller(caller), None) => caller.access.allows(tool),
            (Visitor::Decider(_), _) => true,
        };
        let administers = || self.visitor.may(Action::Administer, &api.runtime);
        match &event.kind {
            EventKind::Registered { tool, .. }
            | EventKind::Replaced { tool, .. }
            | EventKind::Unregistered { tool, .. } => may_know(tool),
            // Who may call none of a server's tools need not know of it; before it has any, who administers does.
            EventKind::McpConnected { tools, .. } => tools.iter().any(may_know) || administers(),
            // Why it ended may be its own words.
            EventKind::McpDisconnected { .. } => administers(),
            EventKind::AuditVerified { .. } | EventKind::AuditPruned { .. } => {
                self.visitor.may(Action::Inspect, &api.runtime)
            }
            _ => self.visitor.sees(event.principal.as_deref(), &api.runtime),
        }
    }
}
