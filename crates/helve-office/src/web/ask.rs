//! One request, and what its failures mean.

use std::time::Duration;

use helve_net::{HeaderName, HeaderValue, Method, NetError, StatusCode, Url};

use crate::account::Fault;

/// Whether a request changes something: then an answer that does not come leaves open what became of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Intent {
    Read,
    Change,
}

/// A request to the account's server.
#[derive(Debug, Clone)]
pub(crate) struct Ask {
    pub(crate) intent: Intent,
    pub(crate) method: Method,
    pub(crate) url: Url,
    pub(crate) headers: Vec<(HeaderName, HeaderValue)>,
    pub(crate) body: Option<Vec<u8>>,
    pub(crate) timeout: Duration,
    pub(crate) answer_bytes_max: usize,
}

impl Ask {
    /// A request that only reads.
    pub(crate) fn reads(method: Method, url: Url) -> Self {
        Self {
            intent: Intent::Read,
            method,
            url,
            headers: Vec::new(),
            body: None,
            timeout: Duration::from_secs(30),
            answer_bytes_max: 1 << 20,
        }
    }

    /// A request that changes something on the server.
    pub(crate) fn changes(method: Method, url: Url) -> Self {
        Self { intent: Intent::Change, ..Self::reads(method, url) }
    }

    pub(crate) fn header(mut self, name: HeaderName, value: HeaderValue) -> Self {
        self.headers.push((name, value));
        self
    }

    pub(crate) fn body(mut self, body: impl Into<Vec<u8>>) -> Self {
        self.body = Some(body.into());
        self
    }

    pub(crate) fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    pub(crate) fn answer_bytes_max(mut self, bytes: usize) -> Self {
        self.answer_bytes_max = bytes;
        self
    }
}

/// What a request that got no whole answer means.
pub(crate) fn unanswered(intent: Intent, error: &NetError) -> Fault {
    let text = error.to_string();
    match error {
        NetError::BadUrl { .. }
        | NetError::BadHeader { .. }
        | NetError::Forbidden { .. }
        | NetError::Denied { .. } => Fault::Refused(text),
        error if intent == Intent::Change && !error.is_unsent() => {
            Fault::Unknown(format!("{text}; it may have been done all the same"))
        }
        NetError::TooLarge { .. } | NetError::Redirect { .. } => Fault::Nonsense(text),
        _ => Fault::Unreachable(text),
    }
}

/// What a status that is no success means. `said` is why, as far as the server told.
pub(crate) fn explain(intent: Intent, host: &str, status: StatusCode, said: Option<&str>) -> Fault {
    let said = said.map(|said| format!(" ({said})")).unwrap_or_default();
    match status.as_u16() {
        401 => Fault::Login(format!("`{host}` does not accept the login{said}; connect the account again")),
        404 | 410 => Fault::Gone(format!("`{host}` has nothing there{said}")),
        429 | 503 => Fault::Unreachable(format!("`{host}` has no time now{said}; try again later")),
        300..=399 => {
            Fault::Refused(format!("`{host}` says that it has moved{said}; connect the account again"))
        }
        500..=599 if status != StatusCode::INSUFFICIENT_STORAGE => match intent {
            Intent::Read => Fault::Unreachable(format!("`{host}` has trouble (status {status}){said}")),
            Intent::Change => Fault::Unknown(format!(
                "`{host}` has trouble (status {status}){said}; it may have been done all the same"
            )),
        },
        507 => Fault::Refused(format!("`{host}` has no room left{said}")),
        400..=499 => Fault::Refused(format!("`{host}` refuses it (status {status}){said}")),
        _ => Fault::Nonsense(format!("`{host}` answers with status {status}{said}")),
    }
}
