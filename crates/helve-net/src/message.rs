//! Requests and responses.

use std::time::{Duration, Instant};

use bytes::Bytes;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use reqwest::{Method, StatusCode};
use url::Url;

use crate::error::NetError;
use crate::plain;
use crate::policy::NetPolicy;
use crate::target::Target;

/// A request, with its bounds.
#[derive(Debug, Clone)]
pub struct Request {
    /// What to do.
    pub method: Method,
    /// The address to request.
    pub url: Url,
    /// What goes with it. Mark secrets with [`HeaderValue::set_sensitive`].
    pub headers: HeaderMap,
    /// The content, if any.
    pub body: Option<Vec<u8>>,
    /// When it must be done, redirects and body included.
    pub deadline: Instant,
    /// The largest response, in bytes after decompression.
    pub response_bytes_max: usize,
    /// What to do about redirects.
    pub redirects: Redirects,
    made: Instant,
}

/// What to do about redirects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Redirects {
    /// Follow a few; to another origin only to read, and without credentials.
    Follow,
    /// Follow as above, but only where the request stays what it is: a redirect that would make another method
    /// of it, and take its content away, is returned as the response.
    Unchanged,
    /// Return the redirect as the response.
    Stop,
}

impl Request {
    /// How long a request may take unless it or the policy says otherwise.
    pub const TIMEOUT: Duration = Duration::from_secs(30);
    /// The largest response unless the request or the policy says otherwise.
    pub const RESPONSE_BYTES_MAX: usize = 10 << 20;

    /// A request with the usual bounds.
    pub fn new(method: Method, url: Url) -> Self {
        let made = Instant::now();
        Self {
            method,
            url,
            headers: HeaderMap::new(),
            body: None,
            deadline: made + Self::TIMEOUT,
            response_bytes_max: Self::RESPONSE_BYTES_MAX,
            redirects: Redirects::Follow,
            made,
        }
    }

    /// A request to read `url`.
    pub fn get(url: &str) -> Result<Self, NetError> {
        let url = Url::parse(url).map_err(|error| NetError::BadUrl { reason: error.to_string() })?;
        Ok(Self::new(Method::GET, url))
    }

    /// Adds a header.
    pub fn header(mut self, name: HeaderName, value: HeaderValue) -> Self {
        self.headers.append(name, value);
        self
    }

    /// Sets the content.
    pub fn body(mut self, body: impl Into<Vec<u8>>) -> Self {
        self.body = Some(body.into());
        self
    }

    /// Sets how long it may take from now.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.deadline = Instant::now() + timeout;
        self
    }

    /// Sets the largest response, in bytes after decompression.
    pub fn response_bytes_max(mut self, bytes: usize) -> Self {
        self.response_bytes_max = bytes;
        self
    }

    /// Sets what to do about redirects.
    pub fn redirects(mut self, redirects: Redirects) -> Self {
        self.redirects = redirects;
        self
    }

    /// Bounds that were left as they were become those of the policy.
    pub(crate) fn bounded_by(mut self, policy: &NetPolicy) -> Self {
        if self.deadline == self.made + Self::TIMEOUT {
            self.deadline = self.made.checked_add(policy.timeout()).unwrap_or(self.deadline);
        }
        if self.response_bytes_max == Self::RESPONSE_BYTES_MAX {
            self.response_bytes_max = policy.response_bytes;
        }
        self
    }
}

/// How much room is made at once for content that is only announced.
const READ_AHEAD_BYTES_MAX: usize = 1 << 20;

/// Most that is read before others have their turn. Who floods us has the next part always ready, and the task that
/// reads it would never come to look at the clock.
const TURN_BYTES_MAX: usize = 256 << 10;

/// A response whose content is still to be read, within the bounds of its request.
///
/// ```no_run
/// # async fn example(client: helve_net::Client, mut file: std::fs::File) -> Result<(), Box<dyn std::error::Error>> {
/// use std::io::Write;
/// use helve_net::Request;
/// let request = Request::get("https://example.com/large.iso")?.response_bytes_max(4 << 30);
/// let mut response = client.open(request).await?;
/// while let Some(chunk) = response.chunk().await? {
///     file.write_all(&chunk)?;
/// }
/// # Ok(()) }
/// ```
#[non_exhaustive]
pub struct StreamingResponse {
    /// How it went.
    pub status: StatusCode,
    /// What came with it.
    pub headers: HeaderMap,
    /// Where it came from in the end, after redirects.
    pub url: Url,
    content: Content,
    target: Target,
    deadline: tokio::time::Instant,
    limit: usize,
    left: usize,
    /// What was read since others last had their turn.
    turn_bytes: usize,
    /// A part could not be read: there is no end that would be a good one.
    is_broken: bool,
}

impl StreamingResponse {
    /// What came for a request. A length that is announced and too large is refused at once.
    pub(crate) fn new(
        status: StatusCode,
        headers: HeaderMap,
        content: Content,
        request: Request,
        target: Target,
    ) -> Result<Self, NetError> {
        let limit = request.response_bytes_max;
        // A HEAD response names the length of a content that does not come.
        let announced = content.length().filter(|_| request.method != Method::HEAD);
        if announced.is_some_and(|length| length > limit as u64) {
            return Err(NetError::TooLarge { host: target.to_string(), limit });
        }
        Ok(Self {
            status,
            headers,
            url: request.url,
            content,
            target,
            deadline: request.deadline.into(),
            limit,
            left: limit,
            turn_bytes: 0,
            is_broken: false,
        })
    }

    /// The next part of the content, decompressed; `None` after the last. Once a part failed, all do.
    pub async fn chunk(&mut self) -> Result<Option<Bytes>, NetError> {
        let next = tokio::time::timeout_at(self.deadline, self.next()).await;
        next.unwrap_or_else(|_| Err(NetError::Timeout { host: self.target.to_string(), unsent: false }))
    }

    /// Lowers what may still come to so many bytes.
    #[must_use]
    pub fn at_most(mut self, bytes: usize) -> Self {
        self.limit = self.limit.min(bytes);
        self.left = self.left.min(bytes);
        self
    }

    /// Reads the rest.
    pub async fn read(mut self) -> Result<Response, NetError> {
        match tokio::time::timeout_at(self.deadline, self.rest()).await {
            Ok(body) => Ok(self.whole(body?)),
            Err(_) => Err(NetError::Timeout { host: self.target.to_string(), unsent: false }),
        }
    }

    /// Reads the rest for a reader who looks at the clock.
    pub(crate) async fn read_untimed(mut self) -> Result<Response, NetError> {
        let body = self.rest().await?;
        Ok(self.whole(body))
    }

    fn whole(self, body: Bytes) -> Response {
        let Self { status, headers, url, .. } = self;
        Response { status, headers, body, url }
    }

    /// All that is left. What comes in one piece, as most things do, is not copied.
    async fn rest(&mut self) -> Result<Bytes, NetError> {
        let first = self.next().await?.unwrap_or_default();
        let Some(second) = self.next().await? else { return Ok(first) };
        // What is announced was held against the limit before; what is not true of it costs no more.
        let announced = self.content.length().and_then(|length| usize::try_from(length).ok());
        let ahead = announced.unwrap_or(0).min(READ_AHEAD_BYTES_MAX);
        let mut body = Vec::with_capacity(first.len() + second.len() + ahead);
        body.extend_from_slice(&first);
        body.extend_from_slice(&second);
        while let Some(chunk) = self.next().await? {
            body.extend_from_slice(&chunk);
        }
        Ok(body.into())
    }

    /// The next part within the limit, however long it takes. After one that failed there is none.
    async fn next(&mut self) -> Result<Option<Bytes>, NetError> {
        if self.is_broken {
            let source = "an earlier part of it could not be read".into();
            return Err(NetError::Broken { host: self.target.to_string(), source });
        }
        let next = self.read_next().await;
        self.is_broken = next.is_err();
        next
    }

    async fn read_next(&mut self) -> Result<Option<Bytes>, NetError> {
        if self.turn_bytes >= TURN_BYTES_MAX {
            self.turn_bytes = 0;
            tokio::task::yield_now().await;
        }
        let chunk = match &mut self.content {
            Content::Plain(content) => content
                .chunk()
                .await
                .map_err(|source| NetError::Broken { host: self.target.to_string(), source })?,
            Content::Secure(content) => {
                content.chunk().await.map_err(|error| NetError::sort(&self.target.to_string(), error))?
            }
        };
        let length = chunk.as_ref().map_or(0, Bytes::len);
        self.turn_bytes += length;
        self.left = self
            .left
            .checked_sub(length)
            .ok_or_else(|| NetError::TooLarge { host: self.target.to_string(), limit: self.limit })?;
        Ok(chunk)
    }
}

impl std::fmt::Debug for StreamingResponse {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { status, headers, url, .. } = self;
        let fields = &mut f.debug_struct("StreamingResponse");
        fields.field("status", status).field("headers", headers).field("url", url).finish_non_exhaustive()
    }
}

/// What is still to be read, by the way that it comes.
pub(crate) enum Content {
    Plain(plain::Unpacked),
    Secure(reqwest::Response),
}

impl Content {
    /// How long it is, where that is known.
    fn length(&self) -> Option<u64> {
        match self {
            Self::Plain(content) => content.length(),
            Self::Secure(content) => content.content_length(),
        }
    }
}

/// What came of a request for another protocol.
#[derive(Debug)]
pub struct Upgraded {
    /// 101 where the other side agreed.
    pub status: StatusCode,
    /// What came with it.
    pub headers: HeaderMap,
    /// The connection, where the other side agreed.
    pub connection: Option<reqwest::Upgraded>,
}

/// A response, read to its end.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Response {
    /// How it went.
    pub status: StatusCode,
    /// What came with it.
    pub headers: HeaderMap,
    /// The content, decompressed.
    pub body: Bytes,
    /// Where it came from in the end, after redirects.
    pub url: Url,
}

impl Response {
    /// A header as text, where it is there once and is text.
    pub fn header(&self, name: impl reqwest::header::AsHeaderName) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok())
    }

    /// The content type without its parameters, in lower case; empty where absent.
    pub fn content_type(&self) -> String {
        let full = self.header(reqwest::header::CONTENT_TYPE).unwrap_or_default();
        full.split(';').next().unwrap_or_default().trim().to_ascii_lowercase()
    }

    /// The content as text; bytes that are not UTF-8 become replacement characters.
    pub fn text(&self) -> std::borrow::Cow<'_, str> {
        String::from_utf8_lossy(&self.body)
    }
}
