//! The way to authorization servers: `helve-net`, with small limits.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use helve_net::{Client, HeaderMap, Method, NetError, Redirects, Request, StatusCode, header};
use rmcp::transport::auth::{
    OAuthHttpClient, OAuthHttpClientError, OAuthHttpClientFuture, OAuthHttpRedirectPolicy, OAuthHttpRequest,
};
use url::{Host, Url};

use super::error::OAuthError;

/// Metadata and tokens are small.
const RESPONSE_BYTES_MAX: usize = 1 << 20;
const TIMEOUT: Duration = Duration::from_secs(15);
/// The server itself is asked only for its challenge.
const PROBE_TIMEOUT: Duration = Duration::from_secs(5);

type HttpResponse = http::Response<Vec<u8>>;

/// Sends rmcp's OAuth requests for one server through `helve-net`: checked addresses, at most 1 MiB
/// and 15 seconds each, https unless both ends are on this machine. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Http {
    client: Client,
    server: Arc<Url>,
    /// Why the last request of this conversation failed.
    failure: Arc<Mutex<Option<String>>>,
}

impl Http {
    /// For the authorization of `server`.
    pub fn new(client: Client, server: Url) -> Self {
        Self { client, server: Arc::new(server), failure: Arc::default() }
    }

    /// The same for its own conversation, whose failures are nobody else's.
    pub(super) fn apart(&self) -> Self {
        Self { failure: Arc::default(), ..self.clone() }
    }

    /// Why the last request failed, where it did not get an answer. rmcp says only that it did.
    pub(super) fn failure(&self) -> Option<String> {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Refuses an address that others could listen to. A server elsewhere may not name http on this
    /// machine either: it would be sending us, or a person's browser, to our own doors.
    pub(super) fn check(&self, what: &'static str, url: &Url) -> Result<(), OAuthError> {
        let here = |url: &Url| url.scheme() == "http" && is_loopback(url);
        let plain = url.username().is_empty() && url.password().is_none();
        if plain && url.host().is_some() && (url.scheme() == "https" || here(url) && here(&self.server)) {
            return Ok(());
        }
        let host = url.host_str().unwrap_or_default();
        Err(OAuthError::Insecure { what, origin: format!("{}://{host}", url.scheme()) })
    }

    /// Sends a form and reads the answer, whatever its status.
    pub(super) async fn post_form(
        &self,
        url: &Url,
        form: String,
    ) -> Result<HttpResponse, OAuthHttpClientError> {
        let content_type = header::HeaderValue::from_static("application/x-www-form-urlencoded");
        let request = Request::new(Method::POST, url.clone())
            .header(header::CONTENT_TYPE, content_type)
            .header(header::ACCEPT, header::HeaderValue::from_static("application/json"))
            .body(form)
            .redirects(Redirects::Stop);
        self.send(request).await
    }

    /// Sends a request of ours and reads the answer, whatever its status.
    pub(super) async fn fetch(&self, request: Request) -> Result<HttpResponse, String> {
        self.send(request).await.map_err(|error| error.to_string())
    }

    async fn exchange(&self, asked: OAuthHttpRequest) -> Result<HttpResponse, OAuthHttpClientError> {
        let (head, body) = asked.request.into_parts();
        let mut request = Request::new(head.method, Url::parse(&head.uri.to_string())?);
        request.headers = head.headers;
        request.body = (!body.is_empty()).then_some(body);
        request.redirects = match asked.redirect_policy {
            OAuthHttpRedirectPolicy::Follow => Redirects::Follow,
            _ => Redirects::Stop,
        };
        if request.method == Method::GET && request.url == *self.server {
            return self.probe(request).await;
        }
        self.send(request).await
    }

    /// Asks the server itself for its challenge. Whatever else it does with a GET, a stream that
    /// never ends or an error included, says nothing about its authorization.
    async fn probe(&self, request: Request) -> Result<HttpResponse, OAuthHttpClientError> {
        self.check("server", &request.url)?;
        let request = request.timeout(PROBE_TIMEOUT).response_bytes_max(RESPONSE_BYTES_MAX);
        match self.client.open(request).await {
            Ok(response) if response.status == StatusCode::UNAUTHORIZED => {
                answer(response.status, &response.headers, Vec::new())
            }
            Ok(_) | Err(NetError::Timeout { .. }) => {
                answer(StatusCode::NOT_FOUND, &HeaderMap::new(), Vec::new())
            }
            Err(error) => Err(error.into()),
        }
    }

    async fn send(&self, request: Request) -> Result<HttpResponse, OAuthHttpClientError> {
        self.check("endpoint", &request.url)?;
        let request = request.timeout(TIMEOUT).response_bytes_max(RESPONSE_BYTES_MAX);
        let response = self.client.fetch(request).await?;
        answer(response.status, &response.headers, response.body.to_vec())
    }
}

impl OAuthHttpClient for Http {
    fn execute(&self, request: OAuthHttpRequest) -> OAuthHttpClientFuture<'_> {
        Box::pin(async move {
            let answer = self.exchange(request).await;
            let failure = answer.as_ref().err().map(ToString::to_string);
            *self.failure.lock().unwrap_or_else(PoisonError::into_inner) = failure;
            answer
        })
    }
}

fn answer(
    status: StatusCode,
    headers: &HeaderMap,
    body: Vec<u8>,
) -> Result<HttpResponse, OAuthHttpClientError> {
    let mut answer = http::Response::new(body);
    *answer.status_mut() = status;
    answer.headers_mut().clone_from(headers);
    Ok(answer)
}

/// Whether a URL names this machine without asking anybody.
pub(super) fn is_loopback(url: &Url) -> bool {
    match url.host() {
        Some(Host::Domain(name)) => name == "localhost" || name.ends_with(".localhost"),
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use helve_net::NetPolicy;

    use super::*;

    #[test]
    fn only_https_or_this_machine() {
        let allowed = |server: &str, url: &str| {
            let client = Client::new(NetPolicy::default()).unwrap();
            Http::new(client, Url::parse(server).unwrap()).check("x", &Url::parse(url).unwrap()).is_ok()
        };
        let (far, near) = ("https://mcp.example/mcp", "http://127.0.0.1:8000/mcp");
        for url in ["https://as.example/token", "https://127.0.0.1/token"] {
            assert!(allowed(far, url) && allowed(near, url), "{url}");
        }
        for url in ["http://127.0.0.1:1/", "http://localhost/", "http://[::1]/", "http://a.localhost/"] {
            assert!(allowed(near, url), "{url}");
            assert!(!allowed(far, url), "{url}");
        }
        for url in [
            "http://as.example/",
            "javascript:alert(1)",
            "file:///etc/passwd",
            "data:text/html,x",
            "http://localhost.example/",
            "http://127.0.0.1.example/",
            "https://user:pass@as.example/",
            "vscode://x/y",
        ] {
            assert!(!allowed(near, url) && !allowed(far, url), "{url}");
        }
    }
}
