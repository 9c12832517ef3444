//! The server of one account: one origin, one login.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use helve_net::{
    Client, HeaderMap, HeaderName, NetError, NetPolicy, Redirects, Request, Response, StatusCode, Url,
};
use url::Host;

use super::ask::{Ask, unanswered};
use super::login::Login;
use crate::account::Fault;

/// Reports make some servers open every file of a collection.
const TIMEOUT_MAX: Duration = Duration::from_secs(120);

/// Whether a server on this very machine may be reached without TLS.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum PlainHttp {
    /// TLS is always required.
    #[default]
    No,
    /// On loopback, because the configuration says so.
    OnLoopback,
}

/// What it takes to talk to an account's web server.
#[derive(Debug, Clone)]
pub struct WebSettings {
    /// Where it is, as the user gave it. It may be in a private network: it is the user's own choice.
    pub url: Url,
    /// Whose account it is.
    pub login: Login,
    /// Whether TLS can be left out.
    pub plain_http: PlainHttp,
    /// What else holds for requests that go out: `[net]` of the configuration.
    pub net: NetPolicy,
    /// Longest wait for one answer. Most have less.
    pub timeout_max: Duration,
}

impl WebSettings {
    /// Settings with the usual bounds.
    pub fn new(url: Url, login: Login) -> Self {
        Self { url, login, plain_http: PlainHttp::No, net: NetPolicy::default(), timeout_max: TIMEOUT_MAX }
    }
}

/// The server of one account.
#[derive(Debug, Clone)]
pub(crate) struct Server {
    client: Client,
    home: Url,
    login: Login,
    timeout_max: Duration,
}

impl Server {
    pub(crate) fn new(settings: &WebSettings) -> Result<Self, Fault> {
        let home = checked(&settings.url, settings.plain_http)?;
        let host = home.host_str().unwrap_or_default();
        let entry = format!("{host}:{}", home.port_or_known_default().unwrap_or_default());
        let entry = entry.parse().map_err(|_| Fault::Refused(format!("`{host}` is no host")))?;
        // What is listed for others opens nothing here: one host is all that an account needs.
        let net = NetPolicy { allow: vec![entry], ..settings.net.clone() };
        let client = Client::new(net).map_err(|error| Fault::Unreachable(error.to_string()))?;
        Ok(Self { client, home, login: settings.login.clone(), timeout_max: settings.timeout_max })
    }

    /// Where the user said that it is.
    pub(crate) fn home(&self) -> &Url {
        &self.home
    }

    /// The host, for messages.
    pub(crate) fn host(&self) -> &str {
        self.home.host_str().unwrap_or_default()
    }

    /// A URL of this server, as it wrote it somewhere. Another origin is refused: the login is not for it.
    pub(crate) fn own(&self, base: &Url, reference: &str) -> Result<Url, Fault> {
        let nonsense = || Fault::Nonsense(format!("`{}` names a place that is no URL", self.host()));
        if reference.len() > 4096 || reference.chars().any(char::is_control) {
            return Err(nonsense());
        }
        let mut url = base.join(reference.trim()).map_err(|_| nonsense())?;
        if url.origin() != self.home.origin() {
            let elsewhere = url.origin().ascii_serialization();
            return Err(Fault::Refused(format!(
                "`{}` points to `{}`, and the login is not sent there; if your account is there, connect \
                 with that address",
                self.host(),
                helve_core::hidden::one_line(&elsewhere, 100),
            )));
        }
        url.set_fragment(None);
        let _ = url.set_username("");
        let _ = url.set_password(None);
        Ok(url)
    }

    /// Sends a request with the login. Any status is an answer; redirects are not followed.
    pub(crate) async fn send(&self, ask: Ask) -> Result<Response, Fault> {
        let intent = ask.intent;
        self.attempt(ask).await?.map_err(|error| unanswered(intent, &error))
    }

    /// The same, for those who look at what went wrong on the way.
    pub(crate) async fn attempt(&self, ask: Ask) -> Result<Result<Response, NetError>, Fault> {
        Ok(self.client.fetch(self.request(ask).await?).await)
    }

    /// Reads content up to a length, and leaves what comes behind it.
    pub(crate) async fn beginning(&self, ask: Ask, bytes_max: usize) -> Result<Beginning, Fault> {
        let intent = ask.intent;
        let mut request = self.request(ask).await?;
        // How long it is in all does not matter: no more than its beginning is read.
        request.response_bytes_max = usize::MAX;
        let failed = |error: NetError| unanswered(intent, &error);
        let mut response = self.client.open(request).await.map_err(failed)?;
        let mut content = BytesMut::new();
        while content.len() < bytes_max {
            let Some(part) = response.chunk().await.map_err(failed)? else { break };
            content.extend_from_slice(&part);
        }
        content.truncate(bytes_max);
        Ok(Beginning { status: response.status, headers: response.headers, content: content.freeze() })
    }

    /// The request with the login.
    async fn request(&self, ask: Ask) -> Result<Request, Fault> {
        debug_assert_eq!(ask.url.origin(), self.home.origin(), "URLs come from `own`");
        if ask.url.origin() != self.home.origin() {
            return Err(Fault::Refused("the login is not for that origin".to_owned()));
        }
        let mut request = Request::new(ask.method, ask.url)
            .timeout(ask.timeout.min(self.timeout_max))
            .response_bytes_max(ask.answer_bytes_max)
            .redirects(Redirects::Stop)
            .header(helve_net::header::AUTHORIZATION, self.login.header().await?);
        for (name, value) in ask.headers {
            request = request.header(name, value);
        }
        request.body = ask.body;
        Ok(request)
    }
}

/// An answer, of which only the beginning may have been read.
#[derive(Debug)]
pub(crate) struct Beginning {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) content: Bytes,
}

/// A header as text, if it is there.
pub(crate) fn header_text(headers: &HeaderMap, name: HeaderName) -> Option<&str> {
    headers.get(name).and_then(|value| value.to_str().ok())
}

/// The address without what does not belong there, if its scheme may carry a login.
fn checked(url: &Url, plain: PlainHttp) -> Result<Url, Fault> {
    let is_loopback = match url.host() {
        Some(Host::Domain(name)) => name == "localhost" || name.ends_with(".localhost"),
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        None => false,
    };
    let mut url = url.clone();
    match url.scheme() {
        "https" => {}
        "http" if plain == PlainHttp::OnLoopback && is_loopback => {}
        _ => {
            return Err(Fault::Refused(
                "the address of the server must begin with `https://`: the login would be readable on its way"
                    .to_owned(),
            ));
        }
    }
    let _ = url.set_username("");
    let _ = url.set_password(None);
    url.set_fragment(None);
    url.set_query(None);
    Ok(url)
}
