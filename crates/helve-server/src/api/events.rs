//! `/v1/events`: what happens, as it happens, as server-sent events.
//!
//! A slow reader never slows a call: what it could not take it misses, and is told how much.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderValue, Response, header};
use bytes::Bytes;
use futures_util::stream;
use helve::event::EventKind;
use helve::{Action, Caller, Delivery, Event, Subscription};

use super::extract::Guest;
use crate::mcp::App;
use crate::problem::Problem;
use crate::visitor::Visitor;

pub(super) async fn stream(
    State(app): State<Arc<App>>,
    Guest(visitor): Guest,
) -> Result<Response<Body>, Problem> {
    let events = app.api()?.runtime.subscribe();
    let keep_alive = app.config.keep_alive;
    let first = Some("retry: 2000\n\n".to_owned());
    let body = stream::unfold((first, events, visitor), move |(first, mut events, visitor)| async move {
        let text = match first {
            Some(first) => first,
            None => next(&mut events, &visitor, keep_alive).await?,
        };
        Some((Ok::<_, std::io::Error>(Bytes::from(text)), (None, events, visitor)))
    });
    let mut response = Response::new(Body::from_stream(body));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache, no-transform"));
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    Ok(response)
}

/// The next event that this visitor may see, or a sign of life.
async fn next(events: &mut Subscription, visitor: &Visitor, keep_alive: Duration) -> Option<String> {
    let until = tokio::time::Instant::now() + keep_alive;
    loop {
        match tokio::time::timeout_at(until, events.next()).await {
            Err(_) => return Some(": alive\n\n".to_owned()),
            Ok(None) => return None,
            Ok(Some(Delivery::Missed(count))) => {
                return Some(format!("event: missed\ndata: {{\"missed\":{count}}}\n\n"));
            }
            Ok(Some(Delivery::Event(event))) if sees(visitor, &event) => {
                let data = serde_json::to_string(&*event).ok()?;
                return Some(format!("event: {}\ndata: {data}\n\n", event.name()));
            }
            Ok(Some(Delivery::Event(_))) => {}
        }
    }
}

fn sees(visitor: &Visitor, event: &Event) -> bool {
    if visitor.may(Action::Inspect) {
        return true;
    }
    let is_own = |caller: &Caller| {
        caller.principal.is_some() && event.principal.as_deref() == caller.principal.as_deref()
    };
    match (visitor, &event.kind) {
        (
            Visitor::Caller(caller),
            EventKind::Registered { tool, .. }
            | EventKind::Replaced { tool, .. }
            | EventKind::Unregistered { tool, .. },
        ) => caller.access.allows(tool),
        (Visitor::Caller(caller), _) => is_own(caller),
        (Visitor::Decider(_), _) => false,
    }
}
