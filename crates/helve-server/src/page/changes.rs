//! `/changes`: which questions came or were decided, here and in other processes, as server-sent
//! events. What they say is fetched by who wants to know.

use std::sync::Arc;

use axum::Extension;
use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderValue, Response, header};
use bytes::Bytes;
use futures_util::stream;
use helve::approvals::Changes;

use super::Failed;
use super::form::Reader;
use crate::mcp::App;
use crate::visitor::Pass;

pub(super) async fn stream(
    State(app): State<Arc<App>>,
    Reader(_): Reader,
    Extension(pass): Extension<Pass>,
) -> Result<Response<Body>, Failed> {
    let changes = app.api()?.runtime.approvals().watch().await?;
    let first = Some("retry: 2000\n\nevent: ready\ndata: {}\n\n".to_owned());
    let body = stream::unfold((first, changes), move |(first, mut changes)| {
        let app = Arc::clone(&app);
        async move {
            let text = match first {
                Some(first) => first,
                None => next(&app, pass, &mut changes).await?,
            };
            Some((Ok::<_, std::io::Error>(Bytes::from(text)), (None, changes)))
        }
    });
    let mut response = Response::new(Body::from_stream(body));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    Ok(response)
}

/// The next change, or a sign of life. None: it is over, because their key was taken back.
async fn next(app: &App, pass: Pass, changes: &mut Changes) -> Option<String> {
    let heard = tokio::time::timeout(app.config.keep_alive, changes.next()).await;
    if !app.guard.is_good(pass).await {
        return None;
    }
    Some(match heard {
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
    })
}
