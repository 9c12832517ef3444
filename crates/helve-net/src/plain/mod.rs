//! Plain HTTP/1.1, on connections that are kept.
//!
//! What goes without TLS is mostly next door, and soon answered: there the way through reqwest costs more
//! than the request. It parses the URL twice, goes through layers for redirects and retries that are not
//! used here, and hands request, response and every part of its content from task to task. Here the task that
//! waits for a response drives the connection.

mod connection;
mod content;
mod kept;

use std::future::poll_fn;
use std::net::IpAddr;
use std::pin::pin;
use std::sync::Arc;

use bytes::Bytes;
use http_body_util::Full;
use hyper::Uri;
use hyper::header::{self, HeaderValue};
use url::{Position, Url};

use self::connection::PlainConnection;
pub(crate) use self::content::Unpacked;
use self::content::Whole;
use self::kept::Kept;
use crate::dial::dial;
use crate::error::NetError;
use crate::message::Request;
use crate::policy::NetPolicy;
use crate::resolver::{Lookup, look_up};
use crate::target::Target;

/// A request as it goes out.
type Outgoing = hyper::Request<Full<Bytes>>;

const USER_AGENT: HeaderValue = HeaderValue::from_static(crate::client::USER_AGENT);
const ANYTHING: HeaderValue = HeaderValue::from_static("*/*");
/// What `content` unpacks.
const ENCODINGS: HeaderValue = HeaderValue::from_static("gzip,deflate,br");

/// The way without TLS. Targets were checked before they get here; what a name leads to is checked here.
pub(crate) struct Plain {
    policy: Arc<NetPolicy>,
    lookup: Lookup,
    kept: Arc<Kept>,
}

impl Plain {
    pub(crate) fn new(policy: Arc<NetPolicy>, lookup: Lookup) -> Self {
        Self { policy, lookup, kept: Arc::default() }
    }

    /// Sends a request and waits for the head of its response.
    pub(crate) async fn send(
        &self,
        request: &Request,
        body: Option<Bytes>,
        target: &Target,
    ) -> Result<hyper::Response<Unpacked>, NetError> {
        let broken = |source| NetError::Broken { host: target.to_string(), source };
        let name = request.url.host_str().unwrap_or_default();
        let mut outgoing = outgoing(request, body).map_err(|error| broken(error.into()))?;
        loop {
            let kept = self.kept.take(name, target.port);
            let was_kept = kept.is_some();
            let mut connection = match kept {
                Some(connection) => connection,
                None => self.connect(name, target).await?,
            };
            let mut sending = pin!(connection.sender.try_send_request(outgoing));
            let answered = poll_fn(|cx| connection.drive(cx, |cx| sending.as_mut().poll(cx))).await;
            match answered {
                Ok(response) => {
                    let home = (Arc::clone(&self.kept), name.into(), target.port);
                    return Ok(
                        content::unpacked(response.map(|body| Whole::new(body, connection, home))).await
                    );
                }
                Err(mut error) => match error.take_message() {
                    // The other side had closed a connection that was kept, and nothing was sent.
                    Some(unsent) if was_kept => outgoing = unsent,
                    Some(_) | None => return Err(broken(error.into_error().into())),
                },
            }
        }
    }

    async fn connect(&self, name: &str, target: &Target) -> Result<Box<PlainConnection>, NetError> {
        let connecting = async {
            let stream = dial(target, self.addresses(name, target).await?).await?;
            PlainConnection::over(stream)
                .await
                .map_err(|error| NetError::Connect { host: target.to_string(), source: error.into() })
        };
        let connected = tokio::time::timeout(self.policy.connect_timeout(), Box::pin(connecting)).await;
        connected.unwrap_or_else(|_| Err(NetError::Timeout { host: target.to_string(), unsent: true }))
    }

    /// Where a connection may go. An address was checked with its target.
    async fn addresses(&self, name: &str, target: &Target) -> Result<Vec<IpAddr>, NetError> {
        if let Some(address) = target.address {
            return Ok(vec![address]);
        }
        let found = look_up(&self.lookup, name)
            .await
            .map_err(|error| NetError::Dns { host: target.to_string(), source: error.into() })?;
        let admitted = self.policy.admit(&target.host, target.port, found);
        admitted.map_err(|refused| NetError::refused(target.to_string(), &refused))
    }
}

fn outgoing(request: &Request, body: Option<Bytes>) -> Result<Outgoing, hyper::http::Error> {
    let mut outgoing = hyper::Request::new(Full::new(body.unwrap_or_default()));
    *outgoing.method_mut() = request.method.clone();
    *outgoing.uri_mut() = Uri::try_from(&request.url[Position::BeforePath..Position::AfterQuery])?;
    let mut headers = request.headers.clone();
    // What a request brings along goes instead, and not twice.
    for (name, value) in [
        (header::HOST, host(&request.url)?),
        (header::ACCEPT, ANYTHING),
        (header::USER_AGENT, USER_AGENT),
        (header::ACCEPT_ENCODING, ENCODINGS),
    ] {
        headers.entry(name).or_insert(value);
    }
    *outgoing.headers_mut() = headers;
    Ok(outgoing)
}

/// `Host`: without the port where it is the usual one, which a URL leaves out.
fn host(url: &Url) -> Result<HeaderValue, hyper::http::Error> {
    Ok(HeaderValue::from_str(&url[Position::BeforeHost..Position::AfterPort])?)
}
