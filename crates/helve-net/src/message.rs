//! Requests and responses.

use std::time::{Duration, Instant};

use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use reqwest::{Method, StatusCode};
use url::Url;

use crate::error::NetError;

/// A request, with its bounds.
#[derive(Debug, Clone)]
pub struct Request {
    /// What to do.
    pub method: Method,
    /// Where.
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
}

/// What to do about redirects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Redirects {
    /// Follow a few; to another origin only to read, and without credentials.
    Follow,
    /// Return the redirect as the response.
    Stop,
}

impl Request {
    /// How long a request may take unless it says otherwise.
    pub const TIMEOUT: Duration = Duration::from_secs(30);
    /// The largest response unless the request says otherwise.
    pub const RESPONSE_BYTES_MAX: usize = 10 << 20;

    /// A request with the usual bounds.
    pub fn new(method: Method, url: Url) -> Self {
        Self {
            method,
            url,
            headers: HeaderMap::new(),
            body: None,
            deadline: Instant::now() + Self::TIMEOUT,
            response_bytes_max: Self::RESPONSE_BYTES_MAX,
            redirects: Redirects::Follow,
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
    pub body: Vec<u8>,
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
