//! An authorization server and a protected resource of the test's own, on loopback.

use std::collections::{HashMap, HashSet};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard};

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{Response, StatusCode, header, request};
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use tokio::net::TcpListener;
use url::Url;

type Query = HashMap<String, String>;

/// How the authority behaves. A test changes what it is about.
pub(crate) struct Ways {
    /// Where the resource's metadata is, and whether the challenge says so.
    pub(crate) resource_metadata: &'static str,
    pub(crate) challenge_says: bool,
    /// The path of the issuer, and where its metadata is.
    pub(crate) issuer_path: &'static str,
    pub(crate) metadata: &'static str,
    /// Changes to what is published.
    pub(crate) edit_resource: fn(&mut Value),
    pub(crate) edit_metadata: fn(&mut Value),
    /// A raw answer in the place of the metadata.
    pub(crate) raw_metadata: Option<fn() -> Response<Body>>,
    /// The same in the place of a token.
    pub(crate) raw_token: Option<fn() -> Response<Body>>,
    /// A client's secret, where registration gives one.
    pub(crate) secret: Option<&'static str>,
    /// Changes to the redirect with the code.
    pub(crate) edit_redirect: fn(&mut Vec<(&'static str, String)>),
    pub(crate) expires_in: Option<u64>,
    pub(crate) gives_refresh: bool,
    pub(crate) rotates: bool,
    /// The error of every refresh.
    pub(crate) refuses_refresh: Option<(u16, &'static str)>,
    /// How long a refresh takes, in milliseconds.
    pub(crate) refresh_ms: u64,
    pub(crate) scope_needed: Option<&'static str>,
    /// What stands behind it for who has a valid token: gets the request with its token and body.
    pub(crate) behind: Option<Behind>,
}

/// Answers who has a valid token: with it, the session header, the method and the body.
pub(crate) type Behind = Arc<dyn Fn(&str, &request::Parts, &str) -> Response<Body> + Send + Sync>;

impl Default for Ways {
    fn default() -> Self {
        Self {
            resource_metadata: "/.well-known/oauth-protected-resource/mcp",
            challenge_says: true,
            issuer_path: "",
            metadata: "/.well-known/oauth-authorization-server",
            edit_resource: |_| (),
            edit_metadata: |_| (),
            raw_metadata: None,
            raw_token: None,
            secret: None,
            edit_redirect: |_| (),
            expires_in: Some(3_600),
            gives_refresh: true,
            rotates: true,
            refuses_refresh: None,
            refresh_ms: 0,
            scope_needed: None,
            behind: None,
        }
    }
}

/// What it has seen and given.
#[derive(Default)]
pub(crate) struct Seen {
    pub(crate) registered: Vec<Value>,
    pub(crate) authorized: Vec<Query>,
    pub(crate) token_requests: Vec<Query>,
    pub(crate) refreshes: usize,
    pub(crate) problems: Vec<String>,
    codes: HashMap<String, Query>,
    pub(crate) valid: HashMap<String, String>,
    refresh_tokens: HashSet<String>,
    pub(crate) made: usize,
}

#[derive(Clone)]
pub(crate) struct Authority {
    pub(crate) address: SocketAddr,
    shared: Arc<(Mutex<Ways>, Mutex<Seen>)>,
}

impl Authority {
    pub(crate) async fn start(ways: Ways) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let authority = Self { address, shared: Arc::new((Mutex::new(ways), Mutex::default())) };
        let router = Router::new().fallback(serve).with_state(authority.clone());
        tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        authority
    }

    pub(crate) fn ways(&self) -> MutexGuard<'_, Ways> {
        self.shared.0.lock().unwrap()
    }

    /// A look at them that holds no lock.
    fn look<T>(&self, look: impl FnOnce(&Ways) -> T) -> T {
        look(&self.ways())
    }

    pub(crate) fn seen(&self) -> MutexGuard<'_, Seen> {
        self.shared.1.lock().unwrap()
    }

    pub(crate) fn origin(&self) -> String {
        format!("http://{}", self.address)
    }

    pub(crate) fn server(&self) -> Url {
        Url::parse(&format!("{}/mcp", self.origin())).unwrap()
    }

    pub(crate) fn issuer(&self) -> String {
        format!("{}{}", self.origin(), self.ways().issuer_path)
    }

    pub(crate) fn challenge(&self) -> String {
        let ways = self.ways();
        if !ways.challenge_says {
            return "Bearer".to_owned();
        }
        format!(r#"Bearer resource_metadata="{}{}""#, self.origin(), ways.resource_metadata)
    }

    /// No access token is good any more.
    pub(crate) fn revoke_all(&self) {
        self.seen().valid.clear();
    }

    fn resource_document(&self) -> Value {
        let mut document = json!({
            "resource": self.server().as_str(),
            "authorization_servers": [self.issuer()],
        });
        self.look(|ways| ways.edit_resource)(&mut document);
        document
    }

    fn metadata_document(&self) -> Value {
        let origin = self.origin();
        let mut document = json!({
            "issuer": self.issuer(),
            "authorization_endpoint": format!("{origin}/authorize"),
            "token_endpoint": format!("{origin}/token"),
            "registration_endpoint": format!("{origin}/register"),
            "response_types_supported": ["code"],
            "code_challenge_methods_supported": ["S256"],
            "authorization_response_iss_parameter_supported": true,
        });
        self.look(|ways| ways.edit_metadata)(&mut document);
        document
    }

    fn grant(&self, scope: &str) -> Value {
        let (expires_in, gives_refresh) = self.look(|ways| (ways.expires_in, ways.gives_refresh));
        let mut seen = self.seen();
        seen.made += 1;
        let (access, refresh) =
            (format!("access-token-{}", seen.made), format!("refresh-token-{}", seen.made));
        seen.valid.insert(access.clone(), scope.to_owned());
        // `id_token` is one of the fields that rmcp would log.
        let mut answer =
            json!({"access_token": access, "token_type": "Bearer", "id_token": "id-token-secret"});
        if !scope.is_empty() {
            answer["scope"] = json!(scope);
        }
        if let Some(seconds) = expires_in {
            answer["expires_in"] = json!(seconds);
        }
        if gives_refresh {
            seen.refresh_tokens.insert(refresh.clone());
            answer["refresh_token"] = json!(refresh);
        }
        answer
    }

    fn register(&self, body: &str) -> Response<Body> {
        let asked: Value = serde_json::from_str(body).unwrap();
        let secret = self.ways().secret;
        let mut seen = self.seen();
        seen.registered.push(asked.clone());
        let mut answer = json!({
            "client_id": format!("registered-{}", seen.registered.len()),
            "redirect_uris": asked["redirect_uris"],
        });
        if let Some(secret) = secret {
            answer["client_secret"] = json!(secret);
        }
        reply(201, answer)
    }

    fn authorize(&self, query: Query) -> Response<Body> {
        let code = {
            let mut seen = self.seen();
            let code = format!("code-secret-{}", seen.codes.len());
            seen.codes.insert(code.clone(), query.clone());
            seen.authorized.push(query.clone());
            code
        };
        let mut answer = vec![("code", code), ("state", query["state"].clone()), ("iss", self.issuer())];
        self.look(|ways| ways.edit_redirect)(&mut answer);
        let mut to = Url::parse(&query["redirect_uri"]).unwrap();
        to.query_pairs_mut().extend_pairs(answer);
        Response::builder().status(302).header(header::LOCATION, to.as_str()).body(Body::empty()).unwrap()
    }

    async fn token(&self, authorization: Option<String>, form: Query) -> Response<Body> {
        let error = |status, code: &str| reply(status, json!({"error": code, "error_description": "no"}));
        self.seen().token_requests.push(form.clone());
        if let Some(secret) = self.look(|ways| ways.secret) {
            let basic = authorization.as_deref().and_then(|value| value.strip_prefix("Basic "));
            let basic = basic.map(|value| String::from_utf8(STANDARD.decode(value).unwrap()).unwrap());
            if basic.is_none_or(|basic| basic.split_once(':').unwrap().1 != secret) {
                return error(401, "invalid_client");
            }
        }
        if form.get("resource").map(String::as_str) != Some(self.server().as_str()) {
            self.seen().problems.push(format!("resource: {form:?}"));
            return error(400, "invalid_target");
        }
        match form["grant_type"].as_str() {
            "authorization_code" => {
                let Some(asked) = self.seen().codes.remove(&form["code"]) else {
                    return error(400, "invalid_grant");
                };
                let digest = URL_SAFE_NO_PAD.encode(Sha256::digest(&form["code_verifier"]));
                if asked["code_challenge"] != digest || asked["code_challenge_method"] != "S256" {
                    self.seen().problems.push("PKCE".to_owned());
                    return error(400, "invalid_grant");
                }
                if asked["redirect_uri"] != form["redirect_uri"] {
                    self.seen().problems.push("redirect_uri".to_owned());
                    return error(400, "invalid_grant");
                }
                reply(200, self.grant(asked.get("scope").map_or("", String::as_str)))
            }
            "refresh_token" => {
                let (pause, refuses, rotates) =
                    self.look(|ways| (ways.refresh_ms, ways.refuses_refresh, ways.rotates));
                self.seen().refreshes += 1;
                tokio::time::sleep(std::time::Duration::from_millis(pause)).await;
                if let Some((status, code)) = refuses {
                    return error(status, code);
                }
                let token = &form["refresh_token"];
                let known = match rotates {
                    true => self.seen().refresh_tokens.remove(token),
                    false => self.seen().refresh_tokens.contains(token),
                };
                if !known {
                    return error(400, "invalid_grant");
                }
                let mut answer = self.grant("");
                if !rotates {
                    answer.as_object_mut().unwrap().remove("refresh_token");
                }
                reply(200, answer)
            }
            "client_credentials" => reply(200, self.grant(form.get("scope").map_or("", String::as_str))),
            _ => error(400, "unsupported_grant_type"),
        }
    }

    fn resource(&self, authorization: Option<&str>) -> Response<Body> {
        let token = authorization.and_then(|value| value.strip_prefix("Bearer "));
        let granted = token.and_then(|token| self.seen().valid.get(token).cloned());
        let Some(granted) = granted else { return refuse(401, &self.challenge()) };
        let needed = self.ways().scope_needed;
        if let Some(needed) = needed.filter(|needed| !granted.split(' ').any(|scope| scope == *needed)) {
            return refuse(403, &format!(r#"Bearer error="insufficient_scope", scope="{needed}""#));
        }
        reply(200, json!("welcome"))
    }
}

async fn serve(State(authority): State<Authority>, request: Request) -> Response<Body> {
    let (head, body) = request.into_parts();
    let body = axum::body::to_bytes(body, 1 << 20).await.unwrap();
    let body = String::from_utf8(body.to_vec()).unwrap();
    let authorization =
        head.headers.get(header::AUTHORIZATION).map(|value| value.to_str().unwrap().to_owned());
    let pairs = |text: &str| url::form_urlencoded::parse(text.as_bytes()).into_owned().collect::<Query>();
    let (resource_metadata, metadata) = authority.look(|ways| (ways.resource_metadata, ways.metadata));
    let path = head.uri.path();
    match path {
        "/mcp" => {
            let welcome = authority.resource(authorization.as_deref());
            let behind = authority.look(|ways| ways.behind.clone());
            let token = authorization.as_deref().and_then(|value| value.strip_prefix("Bearer "));
            match (behind, token) {
                (Some(behind), Some(token)) if welcome.status().is_success() => behind(token, &head, &body),
                _ => welcome,
            }
        }
        "/authorize" => authority.authorize(pairs(head.uri.query().unwrap_or_default())),
        "/token" => match authority.look(|ways| ways.raw_token) {
            Some(raw) => raw(),
            None => authority.token(authorization, pairs(&body)).await,
        },
        "/register" => authority.register(&body),
        path if path == resource_metadata => reply(200, authority.resource_document()),
        path if path == metadata => {
            let raw = authority.ways().raw_metadata;
            raw.map_or_else(|| reply(200, authority.metadata_document()), |raw| raw())
        }
        _ => reply(404, json!({})),
    }
}

fn reply(status: u16, value: Value) -> Response<Body> {
    Response::builder()
        .status(StatusCode::from_u16(status).unwrap())
        .header(header::CONTENT_TYPE, "application/json")
        .body(Body::from(value.to_string()))
        .unwrap()
}

fn refuse(status: u16, challenge: &str) -> Response<Body> {
    Response::builder()
        .status(status)
        .header(header::WWW_AUTHENTICATE, challenge)
        .body(Body::empty())
        .unwrap()
}
