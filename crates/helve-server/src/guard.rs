//! Who may come in: Host and Origin first, then the caller's token.

use std::net::IpAddr;
use std::sync::Arc;

use axum::body::Body;
use axum::http::{HeaderMap, HeaderValue, Response, StatusCode, Uri, header};
use helve::Caller;
use serde_json::json;

use crate::tokens::Tokens;

/// Who may come in.
pub enum Door {
    /// Whoever has a token.
    Tokens(Tokens),
    /// Everybody on this machine, as this caller. Only on loopback.
    Open(Arc<Caller>),
}

/// What every request must pass.
pub(crate) struct Guard {
    door: Door,
    hosts: Vec<String>,
    origins: Vec<String>,
    /// Whether addresses may stand in for names. A page that was rebound carries its own name, never
    /// an address.
    allows_addresses: bool,
}

/// Why a request may not come in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refusal {
    Host,
    Origin,
    Token,
}

const LOOPBACK: [&str; 3] = ["localhost", "127.0.0.1", "[::1]"];

impl Guard {
    pub(crate) fn new(door: Door, hosts: &[String], origins: &[String], beyond_loopback: bool) -> Self {
        let lower = |names: &[String]| names.iter().map(|name| name.to_lowercase()).collect();
        Self { door, hosts: lower(hosts), origins: lower(origins), allows_addresses: beyond_loopback }
    }

    /// Who comes in.
    pub(crate) fn admit(&self, uri: &Uri, headers: &HeaderMap) -> Result<Arc<Caller>, Refusal> {
        let host = sole(headers, header::HOST).ok_or(Refusal::Host)?;
        let authority = uri.authority().map(|authority| authority.as_str());
        if !self.allows_host(host) || !authority.is_none_or(|authority| self.allows_host(authority)) {
            return Err(Refusal::Host);
        }
        if headers.contains_key(header::ORIGIN) {
            let origin = sole(headers, header::ORIGIN).ok_or(Refusal::Origin)?;
            if !self.allows_origin(origin) {
                return Err(Refusal::Origin);
            }
        }
        match &self.door {
            Door::Open(caller) => Ok(Arc::clone(caller)),
            Door::Tokens(tokens) => {
                let token = sole(headers, header::AUTHORIZATION).and_then(bearer).ok_or(Refusal::Token)?;
                tokens.caller(token).cloned().ok_or(Refusal::Token)
            }
        }
    }

    fn allows_host(&self, host: &str) -> bool {
        let Some(name) = name_of(host) else { return false };
        LOOPBACK.contains(&name.as_str())
            || self.hosts.contains(&name)
            || (self.allows_addresses && is_address(&name))
    }

    fn allows_origin(&self, origin: &str) -> bool {
        let origin = origin.to_lowercase();
        if self.origins.contains(&origin) {
            return true;
        }
        let Some((scheme, host)) = origin.split_once("://") else { return false };
        matches!(scheme, "http" | "https")
            && name_of(host).is_some_and(|name| LOOPBACK.contains(&name.as_str()))
    }
}

/// The name in `name:port`, in lower case.
fn name_of(host: &str) -> Option<String> {
    let (name, port) = match host.rfind(':') {
        Some(colon) if !host.ends_with(']') => (&host[..colon], &host[colon + 1..]),
        Some(_) | None => (host, ""),
    };
    let is_port = port.bytes().all(|byte| byte.is_ascii_digit());
    let is_name = !name.is_empty() && !name.contains(['/', '@', '?', '#', '\\']);
    (is_port && is_name).then(|| name.trim_end_matches('.').to_lowercase())
}

fn is_address(name: &str) -> bool {
    name.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>().is_ok()
}

fn bearer(value: &str) -> Option<&str> {
    let (scheme, token) = value.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

/// The value of a header that stands there once.
pub(crate) fn sole(headers: &HeaderMap, name: impl header::AsHeaderName) -> Option<&str> {
    let mut values = headers.get_all(name).iter();
    let value = values.next()?;
    if values.next().is_some() {
        return None;
    }
    value.to_str().ok()
}

impl Refusal {
    pub(crate) fn into_response(self) -> Response<Body> {
        let (status, message) = match self {
            Self::Host => {
                (StatusCode::FORBIDDEN, "this name is not served here; add it to the server's hosts")
            }
            Self::Origin => (StatusCode::FORBIDDEN, "pages of this origin may not come in"),
            Self::Token => {
                (StatusCode::UNAUTHORIZED, "a valid token is needed: `Authorization: Bearer TOKEN`")
            }
        };
        let mut response = plain(status, message);
        if self == Self::Token {
            let challenge = HeaderValue::from_static("Bearer realm=\"helve\"");
            response.headers_mut().insert(header::WWW_AUTHENTICATE, challenge);
        }
        response
    }
}

/// An answer that says in JSON-RPC's form why there is no other.
pub(crate) fn plain(status: StatusCode, message: &str) -> Response<Body> {
    let body = json!({ "jsonrpc": "2.0", "id": null, "error": { "code": -32000, "message": message } });
    json_response(status, body.to_string())
}

pub(crate) fn json_response(status: StatusCode, text: String) -> Response<Body> {
    let mut response = Response::new(Body::from(text));
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    fn guard(beyond_loopback: bool) -> Guard {
        let door = Door::Tokens(Tokens::one("0123456789abcdef", Caller::local()));
        Guard::new(door, &["Helve.example.com".into()], &["https://app.example.com".into()], beyond_loopback)
    }

    fn admit(guard: &Guard, headers: &[(&'static str, &str)]) -> Result<(), Refusal> {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(*name, value.parse().unwrap());
        }
        guard.admit(&"/mcp".parse().unwrap(), &map).map(|_| ())
    }

    const TOKEN: (&str, &str) = ("authorization", "Bearer 0123456789abcdef");

    #[test]
    fn names_of_others_are_refused() {
        let guard = guard(false);
        for host in [
            "localhost",
            "localhost:80",
            "LOCALHOST:1",
            "127.0.0.1:9",
            "[::1]:9",
            "[::1]",
            "helve.example.com",
            "localhost.",
        ] {
            assert_eq!(admit(&guard, &[("host", host), TOKEN]), Ok(()), "{host}");
        }
        for host in [
            "evil.example.com",
            "localhost.evil.com",
            "127.0.0.1.evil.com",
            "10.0.0.1",
            "",
            ":80",
            "a@localhost",
            "localhost:80@evil.com",
            "localhost/x",
        ] {
            assert_eq!(admit(&guard, &[("host", host), TOKEN]), Err(Refusal::Host), "{host}");
        }
        assert_eq!(admit(&guard, &[TOKEN]), Err(Refusal::Host));
        assert_eq!(admit(&guard, &[("host", "localhost"), ("host", "localhost"), TOKEN]), Err(Refusal::Host));
        assert_eq!(admit(&super::tests::guard(true), &[("host", "10.0.0.1:80"), TOKEN]), Ok(()));
        assert_eq!(admit(&super::tests::guard(true), &[("host", "evil.com"), TOKEN]), Err(Refusal::Host));
    }

    #[test]
    fn pages_of_others_are_refused() {
        let guard = guard(false);
        for origin in
            ["http://localhost:6274", "https://127.0.0.1", "http://[::1]:3000", "https://app.example.com"]
        {
            assert_eq!(
                admit(&guard, &[("host", "localhost"), ("origin", origin), TOKEN]),
                Ok(()),
                "{origin}"
            );
        }
        for origin in [
            "null",
            "http://evil.example.com",
            "https://app.example.com.evil.com",
            "file://localhost",
            "http://localhost@evil.com",
            "",
        ] {
            let refused = admit(&guard, &[("host", "localhost"), ("origin", origin), TOKEN]);
            assert_eq!(refused, Err(Refusal::Origin), "{origin}");
        }
    }

    #[test]
    fn without_its_token_nobody_comes_in() {
        let guard = guard(false);
        for value in
            ["", "Bearer", "Bearer ", "Bearer 0123456789abcdeg", "Basic 0123456789abcdef", "0123456789abcdef"]
        {
            let refused = admit(&guard, &[("host", "localhost"), ("authorization", value)]);
            assert_eq!(refused, Err(Refusal::Token), "{value}");
        }
        let twice = [("host", "localhost"), TOKEN, TOKEN];
        assert_eq!(admit(&guard, &twice), Err(Refusal::Token));
        assert_eq!(
            admit(&guard, &[("host", "localhost"), ("authorization", "bearer 0123456789abcdef")]),
            Ok(())
        );
    }
}
