//! The transport of 2024: one stream of events to hear, and a place to post to.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream::{StreamExt, unfold};
use helve::BoxFuture;
use helve_net::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE};
use helve_net::{HeaderMap, HeaderValue, Method, Redirects, Request as HttpRequest, StreamingResponse, Url};
use tokio::time::Instant;

use super::duplex::{Duplex, Writer};
use super::http::{Endpoint, bearer, is_stream};
use super::link::{LinkError, Receiver};
use super::sse::Events;

/// How long the stream is held; servers of this age have nothing to resume.
const STREAM_MAX: Duration = Duration::from_secs(24 * 3600);
/// How much may come on the stream in all.
const STREAM_BYTES_MAX: usize = 1 << 40;
/// How long posting a message may take.
const POST_MAX: Duration = Duration::from_secs(30);

/// Opens the stream and waits for the place to post to.
pub(crate) async fn connect(
    endpoint: Endpoint,
    receiver: Arc<dyn Receiver>,
    deadline: Instant,
) -> Result<Duplex, LinkError> {
    let opening = open(&endpoint);
    let response = tokio::time::timeout_at(deadline, opening).await.unwrap_or_else(|_| Err(too_late()))?;
    let mut reader = Reader { response, events: Events::new(endpoint.bytes_max), limit: endpoint.bytes_max };
    let told = tokio::time::timeout_at(deadline, reader.next("endpoint")).await;
    let place = told.unwrap_or_else(|_| Err(too_late()))?;
    let place = place.ok_or_else(|| LinkError::Protocol("it ended the stream at once".to_owned()))?;
    let url = endpoint.url.join(place.trim());
    let url = url.map_err(|_| LinkError::Protocol("it named no place to post to".to_owned()))?;
    if url.origin() != endpoint.url.origin() {
        return Err(LinkError::Protocol("it wants messages posted to another origin".to_owned()));
    }
    let frames = unfold(reader, |mut reader| async move {
        match reader.next("message").await {
            Ok(Some(data)) => Some((Ok(Bytes::from(data)), reader)),
            Ok(None) => None,
            Err(error) => Some((Err(error), reader)),
        }
    });
    let closer = Box::new(|| -> BoxFuture<'static, ()> { Box::pin(async {}) });
    Ok(Duplex::start(frames.boxed(), Poster { endpoint, url }, receiver, closer))
}

fn too_late() -> LinkError {
    LinkError::unsent("the server did not open its stream in time")
}

async fn headers(endpoint: &Endpoint) -> Result<HeaderMap, LinkError> {
    let mut headers = endpoint.headers.clone();
    if let Some(authorizer) = &endpoint.authorizer
        && let Some(token) = authorizer.bearer().await?
    {
        headers.insert(AUTHORIZATION, bearer(&token)?);
    }
    Ok(headers)
}

async fn open(endpoint: &Endpoint) -> Result<StreamingResponse, LinkError> {
    let mut request = HttpRequest::new(Method::GET, endpoint.url.clone()).timeout(STREAM_MAX);
    request.headers = headers(endpoint).await?;
    request.headers.insert(ACCEPT, HeaderValue::from_static("text/event-stream"));
    request.response_bytes_max = STREAM_BYTES_MAX;
    let response = endpoint.client.open(request).await;
    let response = response.map_err(|error| LinkError::unsent(error.to_string()))?;
    if let Some(refusal) = endpoint.refusal(response.status, &response.headers) {
        return Err(refusal);
    }
    if !response.status.is_success() || !is_stream(&response.headers) {
        let status = response.status.as_u16();
        return Err(LinkError::Status { status, detail: Some("no stream of events".to_owned()) });
    }
    Ok(response)
}

struct Reader {
    response: StreamingResponse,
    events: Events,
    limit: usize,
}

impl Reader {
    /// The data of the next event of this kind.
    async fn next(&mut self, kind: &str) -> Result<Option<String>, LinkError> {
        loop {
            let limit = self.limit;
            while let Some(event) = self.events.next().map_err(|_| LinkError::TooLarge { limit })? {
                if event.kind == kind || (event.kind.is_empty() && kind == "message") {
                    return Ok(Some(event.data));
                }
            }
            match self.response.chunk().await {
                Ok(Some(chunk)) => self.events.push(&chunk),
                Ok(None) => return Ok(None),
                Err(error) => return Err(LinkError::closed(error.to_string())),
            }
        }
    }
}

/// Posts each message by itself, in order.
struct Poster {
    endpoint: Endpoint,
    url: Url,
}

impl Writer for Poster {
    fn write(&mut self, messages: Vec<String>) -> BoxFuture<'_, Result<(), LinkError>> {
        Box::pin(async move {
            for message in messages {
                let mut request = HttpRequest::new(Method::POST, self.url.clone()).timeout(POST_MAX);
                request.headers = headers(&self.endpoint).await?;
                request.headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
                request.redirects = Redirects::Unchanged;
                request.body = Some(message.into_bytes());
                let response = self.endpoint.client.open(request).await;
                let response = response.map_err(|error| LinkError::closed(error.to_string()))?;
                if let Some(refusal) = self.endpoint.refusal(response.status, &response.headers) {
                    return Err(refusal);
                }
                if !response.status.is_success() {
                    return Err(LinkError::Status { status: response.status.as_u16(), detail: None });
                }
            }
            Ok(())
        })
    }
}
