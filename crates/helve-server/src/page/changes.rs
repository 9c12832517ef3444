//! `/changes`: which questions came or were decided, here and in other processes, as server-sent
//! events. What they say is fetched by who wants to know.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use axum::http::Response;
use bytes::Bytes;
use futures_util::stream;
use helve::approvals::Changes;

use super::Failed;
use super::form::Reader;
use crate::sse;
use crate::state::ServerState;
use crate::visitor::Deciding;

pub(super) async fn stream(
    State(server): State<Arc<ServerState>>,
    Reader(deciding): Reader,
) -> Result<Response<Body>, Failed> {
    let changes = server.api()?.runtime.approvals().watch().await?;
    let first = Some("retry: 2000\n\nevent: ready\ndata: {}\n\n".to_owned());
    let body = stream::unfold((first, changes), move |(first, mut changes)| {
        let (server, deciding) = (Arc::clone(&server), Arc::clone(&deciding));
        async move {
            let text = match first {
                Some(first) => first,
                None => next(&server, &deciding, &mut changes).await,
            };
            Some((Ok::<_, std::io::Error>(Bytes::from(text)), (None, changes)))
        }
    });
    Ok(sse::answer(Body::from_stream(body)))
}

/// The next change, or a sign of life.
async fn next(server: &ServerState, deciding: &Deciding, changes: &mut Changes) -> String {
    let heard = tokio::time::timeout(server.config.keep_alive, changes.next()).await;
    match heard {
        // Of a question that is not theirs they learn nothing.
        Ok(Some(approval)) if !deciding.sees(approval.id) => ": alive\n\n".to_owned(),
        Err(_) => ": alive\n\n".to_owned(),
        // Too much happened to tell all of it.
        Ok(None) => "event: missed\ndata: {}\n\n".to_owned(),
        Ok(Some(approval)) => {
            let said = serde_json::json!({
                "id": approval.id, "state": approval.state,
                "by": approval.ruling.as_ref().map(|ruling| &ruling.by),
            });
            format!("event: change\ndata: {said}\n\n")
        }
    }
}
