//! Who may come in: Host and Origin first, then a secret.
//!
//! INVARIANT: every request passes `Guard::admit`, in one layer around all routes. What is open to
//! everybody is a list here (`is_open`); a route that is not on it cannot be reached without a
//! secret, however it is written.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, Method, Response, StatusCode, Uri, header};
use axum::middleware::Next;
use futures_util::StreamExt;
use helve::{ApprovalId, Caller, KeyId};
use jiff::Timestamp;
use serde_json::json;

use crate::connections::ConnectionSlot;
use crate::jwt::{Issuer, Worth};
use crate::keyring::Keyring;
use crate::login::{self, Login, Logins};
use crate::page;
use crate::place::Place;
use crate::problem::Problem;
use crate::state::ServerState;
use crate::tokens::Tokens;
use crate::visitor::{Pass, Visitor};

/// Who may come in.
pub enum Door {
    /// Every caller with a token.
    Tokens(Tokens),
    /// Everybody on this machine, as this caller. Only on loopback.
    Open(Arc<Caller>),
}

/// What every request must pass.
pub(crate) struct Guard {
    door: Door,
    /// API keys, where there is a ledger that keeps them.
    pub(crate) keyring: Option<Keyring>,
    /// The issuer that says who people are.
    pub(crate) issuer: Option<Issuer>,
    pub(crate) logins: Logins,
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
    /// A page of another tries to use a person's cookie.
    Forged,
    /// A secret that is not for this.
    Purpose,
    /// A token of the issuer with no scope that counts here.
    Scope,
    /// Who it is cannot be found out now.
    Unknown,
}

/// How soon a stream learns that it should end.
const LOOK_AGAIN: Duration = Duration::from_millis(500);

const LOOPBACK: [&str; 3] = ["localhost", "127.0.0.1", "[::1]"];

/// Whether everybody may ask for this, without a secret. What clients must know to sign in at an issuer is
/// open too (`Guard::metadata_for`).
fn is_open(method: &Method, path: &str) -> bool {
    matches!(
        (method.as_str(), path),
        ("GET" | "HEAD", "/healthz" | "/readyz" | "/sign-in") | ("POST", "/sign-in" | "/sign-in/form")
    ) || (*method == Method::GET && page::is_asset(path))
}

/// Whether a path leads to one question, or to what goes with it: the page around it, whether it has
/// changed, who one is, and the way out.
fn is_about(only: ApprovalId, path: &str) -> bool {
    if matches!(path, "/" | "/changes" | "/v1/me" | "/sign-out" | "/sign-out/form") {
        return true;
    }
    let about = path.strip_prefix("/approvals/").or_else(|| path.strip_prefix("/v1/approvals/"));
    about.and_then(|rest| rest.split('/').next()?.parse().ok()) == Some(only)
}

/// Whether this is asked by machines that look after machines, under whatever name.
fn is_probe(path: &str) -> bool {
    matches!(path, "/healthz" | "/readyz")
}

fn is_mcp(path: &str) -> bool {
    path == "/mcp" || path.starts_with("/mcp/")
}

/// The layer around all routes.
pub(crate) async fn stand(
    State(server): State<Arc<ServerState>>,
    request: Request,
    next: Next,
) -> Response<Body> {
    let (mut parts, mut body) = request.into_parts();
    // Nobody but this layer says who came in.
    parts.extensions.remove::<Visitor>();
    parts.extensions.remove::<FormToken>();
    if let Some(login) = server.guard.sender_of_form(&parts) {
        let sender = Visitor::Decider(Arc::clone(&login.deciding));
        let form = match server.read_body(Some(&sender), body).await {
            Ok(form) => form,
            Err(error) => return Problem::from(error).into_response(),
        };
        parts.extensions.insert(FormToken(page::field(&form, page::TOKEN_FIELD).unwrap_or_default()));
        body = Body::from(form);
    }
    match server.guard.admit(&parts).await {
        Ok(visitor) => {
            let Some((visitor, pass)) = visitor else {
                return next.run(Request::from_parts(parts, body)).await;
            };
            if let Some(slot) = parts.extensions.get::<ConnectionSlot>() {
                slot.recognize(&visitor);
            }
            parts.extensions.insert(visitor);
            parts.extensions.insert(pass.clone());
            let response = next.run(Request::from_parts(parts, body)).await;
            lasting(server, pass, response)
        }
        Err(refusal) => refusal.into_response(&parts, server.guard.challenge(refusal, &parts.headers)).await,
    }
}

/// Ends a stream with the authority of its reader: when they sign out, their key is taken back
/// or the time of their token is over.
fn lasting(server: Arc<ServerState>, pass: Pass, response: Response<Body>) -> Response<Body> {
    let media = response.headers().get(header::CONTENT_TYPE);
    if matches!(pass, Pass::Lasting) || media.is_none_or(|media| media != "text/event-stream") {
        return response;
    }
    let ended = async move { server.guard.ended(&pass).await };
    response.map(|body| Body::from_stream(body.into_data_stream().take_until(Box::pin(ended))))
}

/// What a form carries in the place of the header, which forms cannot set.
#[derive(Clone)]
struct FormToken(String);

impl Guard {
    pub(crate) fn new(door: Door, hosts: &[String], origins: &[String], beyond_loopback: bool) -> Self {
        let lower = |names: &[String]| names.iter().map(|name| name.to_lowercase()).collect();
        Self {
            door,
            keyring: None,
            issuer: None,
            logins: Logins::default(),
            hosts: lower(hosts),
            origins: lower(origins),
            allows_addresses: beyond_loopback,
        }
    }

    /// Who comes in; an unnamed caller where that is not asked.
    async fn admit(&self, parts: &Parts) -> Result<Option<(Visitor, Pass)>, Refusal> {
        let Parts { method, uri, headers, .. } = parts;
        if !is_probe(uri.path()) {
            self.check_place(uri, headers)?;
        }
        if is_open(method, uri.path()) || self.metadata_for(method, uri.path()).is_some() {
            return Ok(None);
        }
        let (visitor, pass) = match headers.contains_key(header::AUTHORIZATION) {
            true => self.by_token(headers).await?,
            false if is_mcp(uri.path()) => self.without_token()?,
            false => match parts.extensions.get() {
                Some(place) => self.by_cookie(parts, place).await?,
                None => self.without_token()?,
            },
        };
        if is_mcp(uri.path()) && matches!(visitor, Visitor::Decider(_)) {
            return Err(Refusal::Purpose);
        }
        // A sign-in for one question counts nowhere else.
        if let Visitor::Decider(deciding) = &visitor
            && deciding.only.is_some_and(|only| !is_about(only, uri.path()))
        {
            return Err(Refusal::Token);
        }
        Ok(Some((visitor, pass)))
    }

    /// Host and Origin.
    fn check_place(&self, uri: &Uri, headers: &HeaderMap) -> Result<(), Refusal> {
        let host = sole(headers, header::HOST).ok_or(Refusal::Host)?;
        let authority = uri.authority().map(|authority| authority.as_str());
        if !self.allows_host(host) || !authority.is_none_or(|authority| self.allows_host(authority)) {
            return Err(Refusal::Host);
        }
        if headers.contains_key(header::ORIGIN) {
            let origin = sole(headers, header::ORIGIN).ok_or(Refusal::Origin)?;
            if !self.allows_origin(origin) && !login::is_own_origin(headers) {
                return Err(Refusal::Origin);
            }
        }
        Ok(())
    }

    /// Whether the caller that came in with this could still come in.
    pub(crate) async fn is_good(&self, pass: &Pass) -> bool {
        match pass {
            Pass::Lasting => true,
            Pass::Key(key) => self.is_good_key(*key).await,
            Pass::Token { until, .. } => Timestamp::now() < *until,
            Pass::Login(login) => {
                self.logins.is_good(login)
                    && match login.key {
                        Some(key) => self.is_good_key(key).await,
                        None => true,
                    }
            }
        }
    }

    /// Waits until the caller that came in with this could no longer come in.
    pub(crate) async fn ended(&self, pass: &Pass) {
        while self.is_good(pass).await {
            tokio::time::sleep(LOOK_AGAIN).await;
        }
    }

    async fn is_good_key(&self, key: KeyId) -> bool {
        match &self.keyring {
            Some(keyring) => keyring.is_good(key).await.unwrap_or(false),
            None => false,
        }
    }

    fn without_token(&self) -> Result<(Visitor, Pass), Refusal> {
        match &self.door {
            Door::Open(caller) => Ok((Visitor::Caller(Arc::clone(caller)), Pass::Lasting)),
            Door::Tokens(_) => Err(Refusal::Token),
        }
    }

    async fn by_token(&self, headers: &HeaderMap) -> Result<(Visitor, Pass), Refusal> {
        let token = sole(headers, header::AUTHORIZATION).and_then(bearer);
        if let Some(token) = token {
            if let Door::Tokens(tokens) = &self.door
                && let Some(caller) = tokens.caller(token)
            {
                return Ok((Visitor::Caller(Arc::clone(caller)), Pass::Lasting));
            }
            if let Some(keyring) = &self.keyring
                && let Some((key, visitor)) = keyring.find(token).await.map_err(unknown)?
            {
                return Ok((visitor, Pass::Key(key)));
            }
            if let Some(issuer) = &self.issuer {
                match issuer.worth(token).await {
                    Worth::Good(vouched) => return Ok(vouched.admitted()),
                    Worth::NoScope => return Err(Refusal::Scope),
                    Worth::Nothing => {}
                }
            }
        }
        self.without_token()
    }

    /// Whose form it is that has the token in its body: of a person who is signed in. Bodies of others
    /// are not read for it.
    fn sender_of_form(&self, parts: &Parts) -> Option<Arc<Login>> {
        let Parts { method, uri, headers, .. } = parts;
        let is_form = *method == Method::POST
            && page::is_page(uri.path())
            && !headers.contains_key(login::CSRF)
            && page::is_form(headers);
        is_form.then(|| self.logins.find(parts.extensions.get()?, headers)).flatten()
    }

    async fn by_cookie(&self, parts: &Parts, place: &Place) -> Result<(Visitor, Pass), Refusal> {
        let login = self.logins.find(place, &parts.headers).ok_or(Refusal::Token)?;
        // Revoking a key ends the sign-ins made with it.
        if let (Some(key), Some(keyring)) = (login.key, &self.keyring)
            && !keyring.is_good(key).await.map_err(unknown)?
        {
            self.logins.remove(&login);
            return Err(Refusal::Token);
        }
        let csrf = login.deciding.csrf.as_deref().ok_or(Refusal::Forged)?;
        let Parts { method, headers, extensions, .. } = parts;
        let said = match extensions.get::<FormToken>() {
            Some(FormToken(token)) => Some(token.as_str()),
            None => sole(headers, login::CSRF),
        };
        login::check_page(method, headers, said, csrf)?;
        Ok((Visitor::Decider(Arc::clone(&login.deciding)), Pass::Login(login)))
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

fn unknown(error: helve::ports::JournalError) -> Refusal {
    tracing::error!(%error, "who comes in cannot be found out, so nobody does");
    Refusal::Unknown
}

impl Refusal {
    /// The answer, in the form that this part of the server speaks.
    async fn into_response(self, parts: &Parts, challenge: Option<HeaderValue>) -> Response<Body> {
        let (status, message) = match self {
            Self::Host => {
                (StatusCode::FORBIDDEN, "this name is not served here; add it to the server's hosts")
            }
            Self::Origin => (StatusCode::FORBIDDEN, "pages of this origin may not come in"),
            Self::Token => {
                (StatusCode::UNAUTHORIZED, "a valid token is needed: `Authorization: Bearer TOKEN`")
            }
            Self::Forged => (
                StatusCode::FORBIDDEN,
                "this did not come from Helve's own page; send `X-Helve-CSRF`, or use a key",
            ),
            Self::Purpose => {
                (StatusCode::FORBIDDEN, "this key is for deciding; calls need a key of their own")
            }
            Self::Scope => (StatusCode::FORBIDDEN, "your token has no scope that counts here"),
            Self::Unknown => (StatusCode::SERVICE_UNAVAILABLE, "keys cannot be read now; try again"),
        };
        let path = parts.uri.path();
        // A client with a token is a program, and gets an answer for programs.
        if page::is_page(path) && !parts.headers.contains_key(header::AUTHORIZATION) {
            return page::refused(status, message, path).await;
        }
        let mut response = match is_mcp(path) {
            true => plain(status, message),
            false => Problem::new(status, message).into_response(),
        };
        response.headers_mut().extend(challenge.map(|challenge| (header::WWW_AUTHENTICATE, challenge)));
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
        let mut parts = Request::get("/mcp").body(Body::empty()).unwrap().into_parts().0;
        for (name, value) in headers {
            parts.headers.append(*name, value.parse().unwrap());
        }
        let admitted = guard.admit(&parts);
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(admitted).map(|_| ())
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

    #[test]
    fn one_question_leads_to_no_other() {
        let (own, other) = (ApprovalId::new(Timestamp::now()), ApprovalId::new(Timestamp::now()));
        for path in ["/approvals/{}", "/approvals/{}/deny", "/v1/approvals/{}", "/v1/approvals/{}/decision"] {
            assert!(is_about(own, &path.replace("{}", &own.to_string())), "{path}");
            assert!(!is_about(own, &path.replace("{}", &other.to_string())), "{path}");
            assert!(!is_about(own, &path.replace("{}", &format!("{own}%2f..%2f{other}"))), "{path}");
            assert!(!is_about(own, &format!("/{path}").replace("{}", &own.to_string())), "{path}");
        }
        for path in ["/history", "/live", "/rules", "/v1/events", "/v1/approvals", "/v1/audit", "/v1/tools"] {
            assert!(!is_about(own, path), "{path}");
        }
    }

    #[tokio::test]
    async fn a_pass_ends_at_its_time() {
        let guard = guard(false);
        assert!(guard.is_good(&Pass::Lasting).await);
        assert!(!guard.is_good(&Pass::Key(KeyId::new(Timestamp::now()))).await, "nobody knows this key");
        let until = Timestamp::now() + Duration::from_millis(300);
        let token = Pass::Token { until, scopes: Arc::from([]) };
        assert!(guard.is_good(&token).await);
        guard.ended(&token).await;
        assert!(Timestamp::now() >= until);
    }
}
