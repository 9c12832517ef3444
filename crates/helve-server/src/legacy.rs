//! `/mcp/sse`: the HTTP transport of 2024. A stream tells the client where to post, and answers come
//! on the stream.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use axum::body::Body;
use axum::extract::{Request as HttpRequest, State};
use axum::http::{Response, StatusCode};
use bytes::Bytes;
use futures_util::stream;
use helve::Caller;
use helve_mcp::server::{Link, Waiting};
use tokio_util::sync::CancellationToken;

use crate::guard::plain;
use crate::mcp::{accepted, caller, check_content_type, full, read_body};
use crate::seats::Seat;
use crate::sse;
use crate::state::ServerState;

/// The open connections, by the id of their session.
#[derive(Default)]
pub(crate) struct Links(Mutex<HashMap<Arc<str>, Arc<Open>>>);

struct Open {
    link: Link,
    caller: Caller,
    _seat: Seat,
}

impl Links {
    /// Keeps a connection.
    fn add(&self, link: Link, caller: &Caller, seat: Seat) -> Arc<str> {
        let id = Arc::clone(link.session().id());
        let open = Open { link, caller: caller.clone(), _seat: seat };
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(Arc::clone(&id), Arc::new(open));
        id
    }

    fn find(&self, id: &str, caller: &Caller) -> Option<Arc<Open>> {
        let open = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        open.get(id).filter(|open| open.caller == *caller).cloned()
    }

    fn remove(&self, id: &str) {
        let removed = self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(id);
        if let Some(open) = removed {
            open.link.session().close();
        }
    }
}

/// Ends the connection when its stream ends.
struct End {
    server: Arc<ServerState>,
    id: Arc<str>,
}

impl Drop for End {
    fn drop(&mut self) {
        self.server.links.remove(&self.id);
    }
}

/// Opens the stream.
pub(crate) async fn open(State(server): State<Arc<ServerState>>, request: HttpRequest) -> Response<Body> {
    let (parts, _) = request.into_parts();
    let caller = match caller(&parts) {
        Ok(caller) => caller,
        Err(refused) => return *refused,
    };
    let Some(seat) = server.seats.take(&caller) else { return full() };
    let (link, waiting) = server.mcp.link(Arc::clone(&caller));
    let id = server.links.add(link, &caller, seat);
    let endpoint = format!("event: endpoint\ndata: /mcp/sse/message?sessionId={id}\n\n");
    let keep_alive = server.config.keep_alive;
    let end = End { server, id };
    let body = stream::unfold((Some(endpoint), waiting, end), move |(first, mut waiting, end)| async move {
        let text = match first {
            Some(first) => first,
            None => next(&mut waiting, keep_alive, &end.server.closing).await?,
        };
        Some((Ok::<_, std::io::Error>(Bytes::from(text)), (None, waiting, end)))
    });
    sse::answer(Body::from_stream(body))
}

async fn next(
    waiting: &mut Waiting,
    keep_alive: std::time::Duration,
    closing: &CancellationToken,
) -> Option<String> {
    let message = tokio::select! {
        biased;
        message = tokio::time::timeout(keep_alive, waiting.next()) => message,
        () = sse::closing_time(closing) => return None,
    };
    match message {
        Ok(message) => message.map(|message| sse::event(&message)),
        Err(_) => Some(": keepalive\n\n".to_owned()),
    }
}

/// Takes a message.
pub(crate) async fn post(State(server): State<Arc<ServerState>>, request: HttpRequest) -> Response<Body> {
    let (parts, body) = request.into_parts();
    let caller = match caller(&parts) {
        Ok(caller) => caller,
        Err(refused) => return *refused,
    };
    let query = parts.uri.query().unwrap_or_default();
    let id = query.split('&').find_map(|part| part.strip_prefix("sessionId=")).unwrap_or_default();
    let Some(open) = server.links.find(id, &caller) else {
        return plain(StatusCode::NOT_FOUND, "no such session; open `/mcp/sse` again");
    };
    if let Err(refused) = check_content_type(&parts.headers) {
        return *refused;
    }
    match read_body(&server, &caller, body).await {
        Err(refused) => *refused,
        Ok(body) if open.link.take(&body).await => accepted(),
        Ok(_) => plain(StatusCode::NOT_FOUND, "the stream of this session has ended"),
    }
}
