//! Streamable HTTP, of both eras: every question is a POST, and its answer JSON or a stream.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use helve::{BoxFuture, boxed};
use helve_net::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, LOCATION, WWW_AUTHENTICATE};
use helve_net::{
    Client, HeaderMap, HeaderName, HeaderValue, Method, NetError, Redirects, Request as HttpRequest,
    StatusCode, StreamingResponse, Url,
};
use secrecy::{ExposeSecret, SecretString};
use serde_json::json;
use tokio::sync::{oneshot, watch};
use tokio::task::AbortHandle;
use tokio::time::Instant;

use super::incoming::Incoming;
use super::link::{Link, LinkError, Outgoing, Receiver, RpcResult};
use super::resumes::{IN_VAIN_MAX, RETRY_DEFAULT, RETRY_MAX, RETRY_MIN, Resumes};
use super::sse::Events;
use crate::message::{self, Id, Message, Notification, Request, Response};
use crate::text;

const SESSION_ID: HeaderName = HeaderName::from_static("mcp-session-id");
const VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");
const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");

/// How long a stream of news is held before it is opened anew.
const LISTEN_MAX: Duration = Duration::from_secs(3600);
/// How long we wait for the server to agree to one.
const LISTEN_ANSWER_MAX: Duration = Duration::from_secs(1);
/// How much may come on one stream in all.
const STREAM_BYTES_MAX: usize = 1 << 30;
/// How long a stream must have held to count as a good one, though it brought nothing.
const STEADY: Duration = Duration::from_secs(30);
/// How long a notification may take to be delivered.
const NOTIFY_MAX: Duration = Duration::from_secs(10);
/// How much of an error's text is shown.
const DETAIL_BYTES_MAX: usize = 300;
/// How much of an address is shown.
const ADDRESS_CHARS_MAX: usize = 200;

/// Who we are to a server that asks.
pub(crate) trait Authorizer: Send + Sync + 'static {
    /// A token to send along, if there is one.
    fn bearer(&self) -> BoxFuture<'_, Result<Option<SecretString>, LinkError>>;

    /// The server refused a request that carried `used`. Whether another try is worth it.
    fn challenged(&self, challenge: String, used: Option<SecretString>) -> BoxFuture<'_, bool>;
}

/// Where a server is, and what goes with every request.
#[derive(Clone)]
pub(crate) struct Endpoint {
    pub(crate) client: Client,
    pub(crate) url: Url,
    /// Whether the address holds a secret, so that nothing is shown of what may repeat it.
    pub(crate) is_secret: bool,
    /// Sensitive ones are marked so.
    pub(crate) headers: HeaderMap,
    pub(crate) authorizer: Option<Arc<dyn Authorizer>>,
    /// The largest message.
    pub(crate) bytes_max: usize,
}

impl Endpoint {
    /// Why a server did not take a message, where its status says so: it wants to know who we are, or is
    /// somewhere else.
    pub(crate) fn refusal(&self, status: StatusCode, headers: &HeaderMap) -> Option<LinkError> {
        let text = |name| headers.get(name).and_then(|value: &HeaderValue| value.to_str().ok());
        let challenge = text(WWW_AUTHENTICATE).map(str::to_owned);
        match status {
            // A 403 without a challenge is a refusal of something else.
            StatusCode::FORBIDDEN if challenge.is_none() => None,
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => {
                Some(LinkError::Unauthorized { status: status.as_u16(), challenge })
            }
            // After these a message would become a question without content; after the others it is sent on.
            StatusCode::MOVED_PERMANENTLY | StatusCode::FOUND | StatusCode::SEE_OTHER => {
                let to = self.url.join(text(LOCATION)?).ok().filter(Url::has_host)?;
                Some(LinkError::Redirected { to: self.shown(&to) })
            }
            _ => None,
        }
    }

    /// An address that a server named, without what may be secret in it.
    fn shown(&self, url: &Url) -> String {
        let origin = url.origin().ascii_serialization();
        let path = if self.is_secret { "/…" } else { url.path() };
        let query = if url.query().is_some() { "?…" } else { "" };
        text::one_line(&format!("{origin}{path}{query}"), ADDRESS_CHARS_MAX)
    }
}

/// A link over streamable HTTP. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Http(Arc<Inner>);

struct Inner {
    endpoint: Endpoint,
    incoming: Incoming,
    session: Mutex<Option<HeaderValue>>,
    version: OnceLock<HeaderValue>,
    stateless: AtomicBool,
    closed: OnceLock<String>,
    is_closed: watch::Sender<bool>,
    listening: Mutex<Option<AbortHandle>>,
}

impl Http {
    pub(crate) fn new(endpoint: Endpoint, receiver: Arc<dyn Receiver>) -> Self {
        Self(Arc::new(Inner {
            endpoint,
            incoming: Incoming::new(receiver),
            session: Mutex::default(),
            version: OnceLock::new(),
            stateless: AtomicBool::new(false),
            closed: OnceLock::new(),
            is_closed: watch::Sender::new(false),
            listening: Mutex::default(),
        }))
    }

    fn is_stateless(&self) -> bool {
        self.0.stateless.load(Ordering::Relaxed)
    }

    fn session(&self) -> Option<HeaderValue> {
        self.0.session.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn close_with(&self, reason: &str) {
        let _again = self.0.closed.set(reason.to_owned());
        self.0.is_closed.send_replace(true);
    }

    /// A request with everything that each one carries.
    async fn prepared(
        &self,
        method: Method,
        deadline: Instant,
    ) -> Result<(HttpRequest, Option<SecretString>), LinkError> {
        let endpoint = &self.0.endpoint;
        let mut request = HttpRequest::new(method, endpoint.url.clone());
        request.deadline = deadline.into_std();
        request.redirects = Redirects::Unchanged;
        request.headers = endpoint.headers.clone();
        if let Some(version) = self.0.version.get() {
            request.headers.insert(VERSION, version.clone());
        }
        if let Some(session) = self.session() {
            request.headers.insert(SESSION_ID, session);
        }
        let token = match &endpoint.authorizer {
            Some(authorizer) => authorizer.bearer().await?,
            None => None,
        };
        if let Some(token) = &token {
            request.headers.insert(AUTHORIZATION, bearer(token)?);
        }
        Ok((request, token))
    }

    /// Sends a message. A refusal for want of authorization is tried once more where that helps.
    async fn post(
        &self,
        message: &Message,
        headers: &[(String, String)],
        deadline: Instant,
    ) -> Result<StreamingResponse, LinkError> {
        let mut body = message.to_text().into_bytes();
        for is_last in [false, true] {
            let (mut request, token) = self.prepared(Method::POST, deadline).await?;
            request.headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
            request.headers.insert(ACCEPT, HeaderValue::from_static("application/json, text/event-stream"));
            for (name, value) in headers {
                if let (Ok(name), Ok(value)) = (name.parse::<HeaderName>(), HeaderValue::from_str(value)) {
                    request.headers.insert(name, value);
                }
            }
            // A second round comes only where a refusal can be mended.
            let comes_again = !is_last && self.0.endpoint.authorizer.is_some();
            request.body = Some(if comes_again { body.clone() } else { std::mem::take(&mut body) });
            request.response_bytes_max = STREAM_BYTES_MAX;
            let began = Instant::now();
            let response = self.0.endpoint.client.open(request).await;
            let response = response.map_err(|error| self.failed(error, began))?;
            match self.0.endpoint.refusal(response.status, &response.headers) {
                None => return Ok(response),
                Some(refusal) if is_last => return Err(refusal),
                Some(refusal) => {
                    if !self.may_retry(&refusal, token).await {
                        return Err(refusal);
                    }
                }
            }
        }
        unreachable!("the last round returns")
    }

    async fn may_retry(&self, refusal: &LinkError, used: Option<SecretString>) -> bool {
        match (&self.0.endpoint.authorizer, refusal) {
            (Some(authorizer), LinkError::Unauthorized { challenge, .. }) => {
                authorizer.challenged(challenge.clone().unwrap_or_default(), used).await
            }
            _ => false,
        }
    }

    /// A failure below HTTP of what `began` then. One that shows that nobody is there closes the link.
    fn failed(&self, error: NetError, began: Instant) -> LinkError {
        match error {
            NetError::Timeout { .. } => LinkError::timed_out(began.elapsed()),
            // What all of a stream may come to is no bound of one message.
            NetError::TooLarge { limit, .. } => {
                LinkError::TooLarge { limit: limit.min(self.0.endpoint.bytes_max) }
            }
            NetError::Connect { .. } | NetError::Dns { .. } => {
                self.close_with(&error.to_string());
                LinkError::unsent(error.to_string())
            }
            other => LinkError::closed(other.to_string()),
        }
    }

    /// The answer to our question `id`, from JSON or from a stream.
    async fn answer(
        &self,
        id: i64,
        response: StreamingResponse,
        deadline: Instant,
    ) -> Result<RpcResult, LinkError> {
        if let Some(session) = response.headers.get(SESSION_ID)
            && !self.is_stateless()
        {
            let mut kept = self.0.session.lock().unwrap_or_else(PoisonError::into_inner);
            kept.get_or_insert_with(|| session.clone());
        }
        match (response.status, is_stream(&response.headers)) {
            (status, true) if status.is_success() => self.answer_in_stream(id, response, deadline).await,
            (status, _) => {
                let began = Instant::now();
                let text = body(response, self.0.endpoint.bytes_max).await;
                let text = text.map_err(|error| self.failed(error, began).once_sent())?;
                match Message::parse(&text) {
                    Ok(Message::Response(Response { id: of, result }))
                        if is_answer(of.as_ref(), id, &result) =>
                    {
                        let has_session = self.session().is_some();
                        if has_session && is_lost_session(status, of.as_ref(), &result) {
                            return Err(self.session_gone());
                        }
                        Ok(result)
                    }
                    Ok(Message::Response(Response { id: of, .. })) => Err(LinkError::Protocol(format!(
                        "it answered something else than was asked: {}",
                        message::unasked(of.as_ref())
                    ))),
                    Ok(_) => Err(LinkError::Protocol("it answered something else than was asked".to_owned())),
                    Err(_) if status == StatusCode::NOT_FOUND && self.session().is_some() => {
                        Err(self.session_gone())
                    }
                    Err(error) if status.is_success() => Err(LinkError::Protocol(match text.is_empty() {
                        true => format!("HTTP {} without an answer", status.as_u16()),
                        false => error.to_string(),
                    })),
                    Err(_) => Err(LinkError::Status { status: status.as_u16(), detail: detail(&text) }),
                }
            }
        }
    }

    fn session_gone(&self) -> LinkError {
        self.close_with("the server has ended the session");
        LinkError::SessionGone
    }

    async fn answer_in_stream(
        &self,
        id: i64,
        response: StreamingResponse,
        deadline: Instant,
    ) -> Result<RpcResult, LinkError> {
        let events = Events::new(self.0.endpoint.bytes_max);
        let mut stream = Stream { response, events, last_id: None, has_brought: false };
        let mut resumes = Resumes::default();
        loop {
            let from = stream.last_id.clone();
            let broken = match self.read_stream(&mut stream, Some(id)).await {
                Ok(Some(answer)) => return Ok(answer),
                Ok(None) => LinkError::closed("the server ended the stream before it answered"),
                Err(error @ LinkError::Closed { .. }) => error,
                Err(error) => return Err(error),
            };
            // Without an id there is nothing to come back to.
            let Some(last) = stream.last_id.clone() else { return Err(broken) };
            let retry_ms = stream.events.retry_ms;
            let Some(wait) = resumes.next(stream.last_id != from, retry_ms) else { return Err(broken) };
            tokio::time::sleep(wait).await;
            let response = self.open_stream(Some(&last), deadline).await.map_err(LinkError::once_sent)?;
            let events = Events::new(self.0.endpoint.bytes_max);
            stream = Stream { response, events, last_id: Some(last), has_brought: false };
            stream.events.retry_ms = retry_ms;
        }
    }

    /// Reads a stream until it answers our question, or to its end.
    async fn read_stream(
        &self,
        stream: &mut Stream,
        id: Option<i64>,
    ) -> Result<Option<RpcResult>, LinkError> {
        let began = Instant::now();
        loop {
            let limit = self.0.endpoint.bytes_max;
            while let Some(event) = stream.events.next().map_err(|_| LinkError::TooLarge { limit })? {
                stream.has_brought = true;
                if event.id.is_some() {
                    stream.last_id = event.id;
                }
                if event.data.is_empty() || !matches!(event.kind.as_str(), "" | "message") {
                    continue;
                }
                match Message::parse(event.data.as_bytes()) {
                    Ok(Message::Response(Response { id: of, result }))
                        if id.is_some_and(|id| is_answer(of.as_ref(), id, &result)) =>
                    {
                        return Ok(Some(result));
                    }
                    Ok(Message::Response(Response { id: of, .. })) => {
                        self.0.incoming.receiver.noise(&message::unasked(of.as_ref()));
                    }
                    Ok(Message::Notification(told)) => self.0.incoming.receiver.notified(told, id),
                    Ok(Message::Request(request)) => self.asked(request, id),
                    Err(error) => self.0.incoming.receiver.noise(&format!("not a message: {error}")),
                }
            }
            match stream.response.chunk().await {
                Ok(Some(chunk)) => stream.events.push(&chunk),
                Ok(None) => return Ok(None),
                Err(NetError::Timeout { .. }) => return Err(LinkError::timed_out(began.elapsed())),
                Err(error) => return Err(LinkError::closed(error.to_string())),
            }
        }
    }

    fn asked(&self, request: Request, of: Option<i64>) {
        let link = self.clone();
        self.0.incoming.asked(request, of, move |answer| async move {
            // The server sees for itself that no answer comes.
            if let Err(error) = link.post(&answer, &[], Instant::now() + NOTIFY_MAX).await {
                tracing::debug!(%error, "an answer to the server was not delivered");
            }
        });
    }

    async fn open_stream(
        &self,
        last_id: Option<&str>,
        deadline: Instant,
    ) -> Result<StreamingResponse, LinkError> {
        let (mut request, _) = self.prepared(Method::GET, deadline).await?;
        request.headers.insert(ACCEPT, HeaderValue::from_static("text/event-stream"));
        if let Some(id) = last_id.and_then(|id| HeaderValue::from_str(id).ok()) {
            request.headers.insert(LAST_EVENT_ID, id);
        }
        request.response_bytes_max = STREAM_BYTES_MAX;
        let began = Instant::now();
        let response = self.0.endpoint.client.open(request).await;
        let response = response.map_err(|error| self.failed(error, began))?;
        if let Some(refusal) = self.0.endpoint.refusal(response.status, &response.headers) {
            return Err(refusal);
        }
        if response.status == StatusCode::NOT_FOUND && self.session().is_some() {
            return Err(self.session_gone());
        }
        if !response.status.is_success() || !is_stream(&response.headers) {
            let status = response.status.as_u16();
            let text = body(response, DETAIL_BYTES_MAX).await.unwrap_or_default();
            return Err(LinkError::Status { status, detail: detail(&text) });
        }
        Ok(response)
    }

    /// Hears what the server says unasked, as long as it offers to. Once it has, it is asked for ever: a
    /// stream that brings nothing and breaks is only opened less often.
    async fn listen_on(self, answered: oneshot::Sender<()>) {
        let mut answered = Some(answered);
        let mut last_id: Option<String> = None;
        let mut failures = 0;
        let mut was_open = false;
        while self.0.closed.get().is_none() {
            let began = Instant::now();
            let opened = self.open_stream(last_id.as_deref(), began + LISTEN_MAX).await;
            drop(answered.take());
            let mut wait = RETRY_DEFAULT;
            match opened {
                Ok(response) => {
                    was_open = true;
                    let events = Events::new(self.0.endpoint.bytes_max);
                    let mut stream = Stream { response, events, last_id: None, has_brought: false };
                    if let Err(error) = self.read_stream(&mut stream, None).await {
                        tracing::debug!(%error, "the server's stream of news broke");
                    }
                    if stream.has_brought || began.elapsed() > STEADY {
                        failures = 0;
                    }
                    wait = stream.events.retry_ms.map_or(wait, Duration::from_millis);
                    last_id = stream.last_id.or(last_id);
                }
                // It has no such stream, or does not let us.
                Err(LinkError::Status { .. } | LinkError::Unauthorized { .. }) if !was_open => return,
                Err(error) => tracing::debug!(%error, "the server's stream of news was not opened again"),
            }
            failures += 1;
            if failures > IN_VAIN_MAX {
                wait = RETRY_MAX;
            }
            tokio::time::sleep(wait.clamp(RETRY_MIN, RETRY_MAX)).await;
        }
    }
}

/// A token as the header that carries it.
pub(crate) fn bearer(token: &SecretString) -> Result<HeaderValue, LinkError> {
    let value = HeaderValue::from_str(&format!("Bearer {}", token.expose_secret()));
    let mut value = value.map_err(|_| LinkError::unsent("the access token is no header text"))?;
    value.set_sensitive(true);
    Ok(value)
}

/// A stream of events that is being read.
struct Stream {
    response: StreamingResponse,
    events: Events,
    last_id: Option<String>,
    /// Whether any event has come.
    has_brought: bool,
}

impl Link for Http {
    fn request(&self, outgoing: Outgoing) -> BoxFuture<'_, Result<RpcResult, LinkError>> {
        boxed(|| async move {
            let Outgoing { id, method, params, headers, deadline } = outgoing;
            let mut waiting = Waiting { link: self, id, sent: false };
            let message = Message::Request(Request { id: Id::Number(id), method, params });
            waiting.sent = !self.is_stateless();
            let response = self.post(&message, &headers, deadline).await;
            let answer = match response {
                Ok(response) => self.answer(id, response, deadline).await,
                Err(error) => Err(error),
            };
            waiting.sent = false;
            answer
        })
    }

    fn notify(&self, notification: Notification) -> BoxFuture<'_, Result<(), LinkError>> {
        Box::pin(async move {
            let message = Message::Notification(notification);
            let response = self.post(&message, &[], Instant::now() + NOTIFY_MAX).await?;
            let status = response.status;
            if status.is_success() {
                return Ok(());
            }
            let text = body(response, DETAIL_BYTES_MAX).await.unwrap_or_default();
            Err(LinkError::Status { status: status.as_u16(), detail: detail(&text) })
        })
    }

    fn greeted(&self, version: &str, stateless: bool) {
        if let Ok(version) = HeaderValue::from_str(version) {
            let _again = self.0.version.set(version);
        }
        self.0.stateless.store(stateless, Ordering::Relaxed);
    }

    /// Returns when the server has agreed or refused: a question that it asks on a stream that is
    /// not there yet is lost.
    fn listen(&self) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            if self.is_stateless() {
                return;
            }
            let (answered, answer) = oneshot::channel();
            let task = tokio::spawn(self.clone().listen_on(answered));
            let earlier =
                self.0.listening.lock().unwrap_or_else(PoisonError::into_inner).replace(task.abort_handle());
            if let Some(earlier) = earlier {
                earlier.abort();
            }
            // Some answer only when they have something to say.
            let _ = tokio::time::timeout(LISTEN_ANSWER_MAX, answer).await;
        })
    }

    fn closed(&self) -> Option<String> {
        self.0.closed.get().cloned()
    }

    fn wait_closed(&self) -> BoxFuture<'_, ()> {
        let mut closed = self.0.is_closed.subscribe();
        Box::pin(async move {
            let _ = closed.wait_for(|closed| *closed).await;
        })
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            let listening = self.0.listening.lock().unwrap_or_else(PoisonError::into_inner).take();
            if let Some(task) = listening {
                task.abort();
            }
            let is_open = self.0.closed.get().is_none();
            self.close_with("we closed the link");
            // Good manners: the server may forget the session.
            if is_open
                && self.session().is_some()
                && let Ok((request, _)) =
                    self.prepared(Method::DELETE, Instant::now() + Duration::from_secs(2)).await
            {
                let _ = self.0.endpoint.client.open(request).await;
            }
        })
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        if let Some(task) = self.listening.lock().unwrap_or_else(PoisonError::into_inner).take() {
            task.abort();
        }
    }
}

/// A call that waits for an answer. Dropped before it came, the server of the session era is told;
/// in the stateless era the closed stream says it.
struct Waiting<'l> {
    link: &'l Http,
    id: i64,
    sent: bool,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        if !self.sent {
            return;
        }
        let link = self.link.clone();
        let params = json!({ "requestId": self.id, "reason": "nobody waits for it any more" });
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move {
                let told = Notification::new("notifications/cancelled", &params);
                if let Err(error) = link.notify(told).await {
                    tracing::debug!(%error, "the server was not told that a call is taken back");
                }
            });
        }
    }
}

/// An error may come without an id: its question could not be read.
fn is_answer(of: Option<&Id>, id: i64, result: &RpcResult) -> bool {
    match of {
        Some(of) => *of == Id::Number(id),
        None => result.is_err(),
    }
}

/// Whether an error says that our session is gone: 404 as the protocol has it, or 400 as widely
/// used servers do. An error that answers our question is none.
fn is_lost_session(status: StatusCode, of: Option<&Id>, result: &RpcResult) -> bool {
    match (status, result) {
        (StatusCode::NOT_FOUND, _) => true,
        (StatusCode::BAD_REQUEST, Err(error)) => {
            of.is_none() && error.message.to_ascii_lowercase().contains("session")
        }
        _ => false,
    }
}

async fn body(response: StreamingResponse, limit: usize) -> Result<Bytes, NetError> {
    Ok(response.at_most(limit).read().await?.body)
}

/// Whether what came is a stream of events.
pub(super) fn is_stream(headers: &HeaderMap) -> bool {
    let full = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    full.split(';').next().unwrap_or_default().trim().eq_ignore_ascii_case("text/event-stream")
}

fn detail(text: &[u8]) -> Option<String> {
    let start = String::from_utf8_lossy(&text[..text.len().min(DETAIL_BYTES_MAX)]);
    let start = text::clean(&start).text.trim().to_owned();
    (!start.is_empty()).then_some(start)
}
