//! Sends a request and follows its redirects, every hop under the same checks.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use bytes::Bytes;
use helve_core::boxed;
use reqwest::header::{self, HeaderMap, HeaderName, HeaderValue};
use reqwest::{Method, StatusCode};
use url::Url;

use crate::error::NetError;
use crate::message::{Content, Redirects, Request, Response, StreamingResponse, Upgraded};
use crate::plain::Plain;
use crate::policy::NetPolicy;
use crate::resolver::{GuardedResolver, Lookup, look_up, system_lookup};
use crate::target::Target;

pub(crate) const USER_AGENT: &str = concat!("helve/", env!("CARGO_PKG_VERSION"));

/// What a request keeps on its way to another origin. A list of what may stay cannot miss a
/// secret; a list of what must go can.
const KEPT_ACROSS_ORIGINS: [HeaderName; 4] =
    [header::ACCEPT, header::ACCEPT_LANGUAGE, header::RANGE, header::USER_AGENT];

/// Which host is meant and where a message ends is said once, by the client: with a `Host` of its
/// own, a request to a listed host could be served as one to another on the same server.
const OWN_HEADERS: [HeaderName; 8] = [
    header::HOST,
    header::CONTENT_LENGTH,
    header::TRANSFER_ENCODING,
    header::CONNECTION,
    header::TE,
    header::TRAILER,
    header::UPGRADE,
    header::PROXY_AUTHORIZATION,
];

/// The guarded client. Cheap to clone; connections are kept and shared.
///
/// ```no_run
/// # async fn example() -> Result<(), helve_net::NetError> {
/// use helve_net::{Client, NetPolicy, Request};
/// let client = Client::new(NetPolicy::default())?;
/// let response = client.fetch(Request::get("https://example.com/")?).await?;
/// assert!(client.fetch(Request::get("http://169.254.169.254/latest/meta-data")?).await.is_err());
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct Client(Arc<Inner>);

struct Inner {
    policy: Arc<NetPolicy>,
    lookup: Lookup,
    /// For what goes without TLS.
    plain: Plain,
    /// For ports that no entry of the policy names.
    any_port: reqwest::Client,
    /// For each port that one does, made when it is needed: a list may be long, and each client
    /// reads the certificates of this machine.
    by_port: HashMap<u16, OnceLock<reqwest::Client>>,
}

impl Client {
    /// A client under a policy.
    pub fn new(policy: NetPolicy) -> Result<Self, NetError> {
        Self::with_lookup(policy, system_lookup())
    }

    /// A client that turns names into addresses in its own way.
    pub fn with_lookup(policy: NetPolicy, lookup: Lookup) -> Result<Self, NetError> {
        // Fails only where a provider is installed already, which is as good.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let policy = Arc::new(policy);
        // No entry names port 0, so it stands for all the others.
        let any_port = build(&policy, &lookup, 0)?;
        let by_port = policy.ports().map(|port| (port, OnceLock::new())).collect();
        let plain = Plain::new(Arc::clone(&policy), Arc::clone(&lookup));
        Ok(Self(Arc::new(Inner { policy, lookup, plain, any_port, by_port })))
    }

    /// The policy that it keeps.
    pub fn policy(&self) -> &NetPolicy {
        &self.0.policy
    }

    /// The same client for the public internet alone: what `allow` lists is refused, after redirects too.
    pub fn public(&self) -> Result<Self, NetError> {
        match self.0.policy.allow.is_empty() {
            true => Ok(self.clone()),
            false => Self::with_lookup(self.0.policy.public(), Arc::clone(&self.0.lookup)),
        }
    }

    /// Whether a URL leads to what only an entry of `allow` opens. Its name is looked up where that is needed
    /// to tell; one that cannot be looked up leads nowhere.
    pub async fn leads_inside(&self, url: &Url) -> bool {
        if let Some(known) = self.0.policy.leads_inside(url) {
            return known;
        }
        let Ok(target) = Target::of(url) else { return false };
        let looked_up = look_up(&self.0.lookup, &target.host);
        let found = tokio::time::timeout(self.0.policy.connect_timeout(), looked_up).await;
        let is_opened = |found: &[IpAddr]| self.0.policy.is_opened(&target.host, target.port, found);
        matches!(found, Ok(Ok(addresses)) if is_opened(&addresses))
    }

    /// Sends a request and reads the whole response. Any status is a response.
    pub async fn fetch(&self, request: Request) -> Result<Response, NetError> {
        let (request, target) = self.bounded(request)?;
        // One timer for all of it: each costs about as much as the checks do.
        within(request.deadline, target.clone(), || async {
            self.follow(request, target).await?.read_untimed().await
        })
        .await
    }

    /// Sends a request, follows its redirects, and leaves the content to be read. Any status is a
    /// response.
    pub async fn open(&self, request: Request) -> Result<StreamingResponse, NetError> {
        let (request, target) = self.bounded(request)?;
        within(request.deadline, target.clone(), || self.follow(request, target)).await
    }

    /// A request within the policy's bounds, and where it goes.
    fn bounded(&self, request: Request) -> Result<(Request, Target), NetError> {
        let request = request.bounded_by(&self.0.policy);
        if let Some(name) = OWN_HEADERS.iter().find(|name| request.headers.contains_key(*name)) {
            return Err(NetError::BadHeader { name: name.as_str().to_owned() });
        }
        let target = Target::of(&request.url)?;
        Ok((request, target))
    }

    /// Asks for another protocol on the connection, as WebSockets begin, and hands the connection
    /// over where the other side agrees (status 101). `protocol` is what `Upgrade` says. There are
    /// no redirects, and after the answer no bounds but the caller's.
    pub async fn upgrade(&self, request: Request, protocol: &'static str) -> Result<Upgraded, NetError> {
        let (request, target) = self.bounded(request.redirects(Redirects::Stop))?;
        let host = target.to_string();
        let checked = self.0.policy.check_target(&target);
        checked.map_err(|refused| NetError::refused(host.clone(), &refused))?;
        // Its own client: a connection that speaks HTTP/2 cannot be handed over.
        let client = builder(&self.0.policy, &self.0.lookup, target.port).http1_only().build();
        let client = client.map_err(|error| NetError::Setup { source: error.into() })?;
        let mut outgoing = reqwest::Request::new(request.method, request.url);
        *outgoing.headers_mut() = request.headers;
        outgoing.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("Upgrade"));
        outgoing.headers_mut().insert(header::UPGRADE, HeaderValue::from_static(protocol));
        let sent = tokio::time::timeout_at(request.deadline.into(), client.execute(outgoing)).await;
        let response = sent.map_err(|_| NetError::Timeout { host: host.clone(), unsent: false })?;
        let mut response = response.map_err(|error| NetError::sort(&host, error))?;
        let (status, headers) = (response.status(), std::mem::take(response.headers_mut()));
        let connection = match status {
            StatusCode::SWITCHING_PROTOCOLS => {
                Some(response.upgrade().await.map_err(|error| NetError::sort(&host, error))?)
            }
            _ => None,
        };
        Ok(Upgraded { status, headers, connection })
    }

    async fn follow(&self, mut request: Request, mut target: Target) -> Result<StreamingResponse, NetError> {
        // Shared by all hops, and not copied for each.
        let mut body = request.body.take().map(Bytes::from);
        for hop in 0..=self.0.policy.redirects {
            let sent = self.send(&request, body.clone(), &target).await;
            let response = match hop {
                0 => sent?,
                _ => sent.map_err(NetError::after_redirect)?,
            };
            let follows = match request.redirects {
                Redirects::Follow => true,
                Redirects::Unchanged => !becomes_get(&request.method, response.status),
                Redirects::Stop => false,
            };
            let next = match follows {
                true => redirect_of(&request.url, &target, response.status, &response.headers)?,
                false => None,
            };
            let Some(url) = next else { return response.within_bounds(request, target) };
            request = redirected(request, &mut body, response.status, url, &target)?;
            target = Target::of(&request.url)?;
        }
        Err(NetError::Redirect { host: target.to_string(), reason: "there were too many in a row" })
    }

    async fn send(
        &self,
        request: &Request,
        body: Option<Bytes>,
        target: &Target,
    ) -> Result<Answered, NetError> {
        // An address in the URL never reaches the resolver, so it is checked here.
        let checked = self.0.policy.check_target(target);
        checked.map_err(|refused| NetError::refused(target.to_string(), &refused))?;
        if request.url.scheme() == "http" {
            let (head, content) = self.0.plain.send(request, body, target).await?.into_parts();
            let content = Content::Plain(content);
            return Ok(Answered { status: head.status, headers: head.headers, content });
        }
        let client = self.0.for_port(target.port)?;
        let mut outgoing = reqwest::Request::new(request.method.clone(), request.url.clone());
        outgoing.headers_mut().clone_from(&request.headers);
        *outgoing.body_mut() = body.map(reqwest::Body::from);
        let answered = client.execute(outgoing).await;
        let mut response = answered.map_err(|error| NetError::sort(&target.to_string(), error))?;
        let (status, headers) = (response.status(), std::mem::take(response.headers_mut()));
        Ok(Answered { status, headers, content: Content::Secure(response) })
    }
}

/// What came for one hop.
struct Answered {
    status: StatusCode,
    headers: HeaderMap,
    content: Content,
}

impl Answered {
    fn within_bounds(self, request: Request, target: Target) -> Result<StreamingResponse, NetError> {
        StreamingResponse::new(self.status, self.headers, self.content, request, target)
    }
}

impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Client").field("policy", self.policy()).finish_non_exhaustive()
    }
}

impl Inner {
    fn for_port(&self, port: u16) -> Result<&reqwest::Client, NetError> {
        let Some(made) = self.by_port.get(&port) else { return Ok(&self.any_port) };
        if let Some(client) = made.get() {
            return Ok(client);
        }
        let client = build(&self.policy, &self.lookup, port)?;
        Ok(made.get_or_init(|| client))
    }
}

/// Does something until it is too late. Boxed, and made in its place: a request's state is large and callers keep it
/// in theirs.
async fn within<T, W: Future<Output = Result<T, NetError>> + Send>(
    deadline: Instant,
    target: Target,
    work: impl FnOnce() -> W,
) -> Result<T, NetError> {
    tokio::time::timeout_at(deadline.into(), boxed(work))
        .await
        .unwrap_or_else(|_| Err(NetError::Timeout { host: target.to_string(), unsent: false }))
}

fn build(policy: &Arc<NetPolicy>, lookup: &Lookup, port: u16) -> Result<reqwest::Client, NetError> {
    builder(policy, lookup, port).build().map_err(|error| NetError::Setup { source: error.into() })
}

fn builder(policy: &Arc<NetPolicy>, lookup: &Lookup, port: u16) -> reqwest::ClientBuilder {
    let resolver = GuardedResolver { policy: Arc::clone(policy), port, lookup: Arc::clone(lookup) };
    reqwest::Client::builder()
        .dns_resolver(resolver)
        .no_proxy()
        .redirect(reqwest::redirect::Policy::none())
        .referer(false)
        .tcp_nodelay(true)
        .connect_timeout(policy.connect_timeout())
        .user_agent(USER_AGENT)
}

/// Where a response redirects to, if it does.
fn redirect_of(
    from: &Url,
    target: &Target,
    status: StatusCode,
    headers: &HeaderMap,
) -> Result<Option<Url>, NetError> {
    let redirects = matches!(
        status,
        StatusCode::MOVED_PERMANENTLY
            | StatusCode::FOUND
            | StatusCode::SEE_OTHER
            | StatusCode::TEMPORARY_REDIRECT
            | StatusCode::PERMANENT_REDIRECT
    );
    let Some(location) = headers.get(header::LOCATION).filter(|_| redirects) else {
        return Ok(None);
    };
    let refuse = |reason| NetError::Redirect { host: target.to_string(), reason };
    let location = location.to_str().map_err(|_| refuse("its target is not text"))?;
    let mut to = from.join(location).map_err(|_| refuse("its target is not a URL"))?;
    to.set_fragment(None);
    if from.scheme() == "https" && to.scheme() != "https" {
        return Err(refuse("it leads from https to something weaker"));
    }
    Ok(Some(to))
}

/// Whether a request goes on as one that only reads.
fn becomes_get(method: &Method, status: StatusCode) -> bool {
    match status {
        StatusCode::SEE_OTHER => !matches!(*method, Method::GET | Method::HEAD),
        StatusCode::MOVED_PERMANENTLY | StatusCode::FOUND => *method == Method::POST,
        _ => false,
    }
}

/// The request that follows a redirect, as browsers would make it but with less carried along.
fn redirected(
    mut request: Request,
    body: &mut Option<Bytes>,
    status: StatusCode,
    to: Url,
    target: &Target,
) -> Result<Request, NetError> {
    if becomes_get(&request.method, status) {
        request.method = Method::GET;
        *body = None;
        for name in [header::CONTENT_TYPE, header::CONTENT_LENGTH, header::CONTENT_ENCODING] {
            request.headers.remove(name);
        }
    }
    if request.url.origin() != to.origin() {
        if body.is_some() || !matches!(request.method, Method::GET | Method::HEAD) {
            let reason = "it would send a change to another origin";
            return Err(NetError::Redirect { host: target.to_string(), reason });
        }
        request.headers = kept_across_origins(&request.headers);
    }
    request.url = to;
    Ok(request)
}

fn kept_across_origins(headers: &HeaderMap) -> HeaderMap {
    let kept = |(name, value): (&HeaderName, &header::HeaderValue)| {
        (KEPT_ACROSS_ORIGINS.contains(name) && !value.is_sensitive()).then(|| (name.clone(), value.clone()))
    };
    headers.iter().filter_map(kept).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_redirect_never_weakens_the_connection() {
        let next = |from: &str, location: &'static str| {
            let headers =
                [(header::LOCATION, header::HeaderValue::from_static(location))].into_iter().collect();
            let from = Url::parse(from).unwrap();
            redirect_of(&from, &Target::of(&from).unwrap(), StatusCode::FOUND, &headers)
                .map(|url| url.map(String::from))
                .map_err(|error| error.to_string())
        };
        let secure = "https://a.example/x/y?q";
        assert_eq!(next(secure, "z#part"), Ok(Some("https://a.example/x/z".to_owned())));
        assert_eq!(next(secure, "//b.example/"), Ok(Some("https://b.example/".to_owned())));
        assert_eq!(
            next("http://a.example/", "https://a.example/"),
            Ok(Some("https://a.example/".to_owned()))
        );
        for location in ["http://a.example/x", "HTTP://b.example", "ftp://b.example"] {
            assert!(next(secure, location).is_err_and(|error| error.contains("weaker")), "{location}");
        }
    }
}
