//! The methods of DAV.

use std::time::Duration;

use helve_net::{HeaderName, HeaderValue, Method, NetError, Response, StatusCode, header};

use super::href::Href;
use super::multistatus::MultiStatus;
use super::xml::{self, Element, Limits, Space};
use crate::account::Fault;
use crate::web::{Ask, Intent, Server, explain, unanswered};

/// Most that is read of a list of places.
pub(crate) const LIST_BYTES_MAX: usize = 32 << 20;
/// Reports make some servers open every file of a collection.
const REPORT_TIMEOUT: Duration = Duration::from_secs(120);

const XML: HeaderValue = HeaderValue::from_static("application/xml; charset=utf-8");
const DEPTH: HeaderName = HeaderName::from_static("depth");

/// How deep a request goes.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Depth {
    Itself,
    Members,
}

/// An account's DAV server.
#[derive(Debug, Clone)]
pub(crate) struct Dav {
    pub(crate) server: Server,
}

impl Dav {
    /// Asks for properties. `props` is what stands inside `prop`, with `c`, `k` and `s` for the namespaces of CalDAV,
    /// CardDAV and calendarserver.org.
    pub(crate) async fn propfind(&self, at: &Href, depth: Depth, props: &str) -> Result<MultiStatus, Fault> {
        let response = self.propfind_raw(at, depth, props).await?;
        self.multistatus(at, &response)
    }

    /// The same with whatever status comes.
    pub(crate) async fn propfind_raw(&self, at: &Href, depth: Depth, props: &str) -> Result<Response, Fault> {
        let body = document("propfind", &format!("<prop>{props}</prop>"));
        let ask = Ask::reads(method("PROPFIND"), at.url(&self.server))
            .header(DEPTH, HeaderValue::from_static(depth.word()))
            .header(header::CONTENT_TYPE, XML)
            .timeout(REPORT_TIMEOUT)
            .answer_bytes_max(LIST_BYTES_MAX)
            .body(body);
        self.server.send(ask).await
    }

    /// Asks for a report. `name` is its element with a prefix; `content` stands inside.
    pub(crate) async fn report(&self, at: &Href, name: &str, content: &str) -> Result<Response, Fault> {
        let answer = self.try_report(at, name, content, LIST_BYTES_MAX).await?;
        answer.map_err(|error| unanswered(Intent::Read, &error))
    }

    /// The same, for those who look at what went wrong on the way.
    pub(crate) async fn try_report(
        &self,
        at: &Href,
        name: &str,
        content: &str,
        answer_bytes_max: usize,
    ) -> Result<Result<Response, NetError>, Fault> {
        let ask = Ask::reads(method("REPORT"), at.url(&self.server))
            // `sync-collection` wants 0 (RFC 6578 3.2), multiget does not look at it.
            .header(DEPTH, HeaderValue::from_static("0"))
            .header(header::CONTENT_TYPE, XML)
            .timeout(REPORT_TIMEOUT)
            .answer_bytes_max(answer_bytes_max)
            .body(document(name, content));
        self.server.attempt(ask).await
    }

    /// What a server says it can do at a place: the words of its `DAV` headers.
    pub(crate) async fn options(&self, at: &Href) -> Result<Vec<String>, Fault> {
        let response = self.server.send(Ask::reads(Method::OPTIONS, at.url(&self.server))).await?;
        if !response.status.is_success() {
            return Err(self.fault(Intent::Read, &response));
        }
        let lines = response.headers.get_all("dav").iter().filter_map(|line| line.to_str().ok());
        Ok(lines
            .flat_map(|line| line.split(','))
            .map(|word| word.trim().to_ascii_lowercase())
            .take(100)
            .collect())
    }

    /// The places of an answer, if it is one.
    pub(crate) fn multistatus(&self, at: &Href, response: &Response) -> Result<MultiStatus, Fault> {
        if response.status != StatusCode::MULTI_STATUS {
            return Err(match response.status.is_success() {
                true => self.nonsense("answers without any properties; is this a CalDAV or CardDAV server?"),
                false => self.fault(Intent::Read, response),
            });
        }
        MultiStatus::read(&self.server, at, self.xml(response)?)
    }

    /// The content of an answer as XML.
    pub(crate) fn xml(&self, response: &Response) -> Result<Element, Fault> {
        xml::parse(&response.body, Limits::default())
            .map_err(|error| self.nonsense(&format!("cannot be understood: {error}")))
    }

    /// What an answer that is no success means.
    pub(crate) fn fault(&self, intent: Intent, response: &Response) -> Fault {
        let said = violated(response);
        explain(intent, self.server.host(), response.status, said.as_deref())
    }

    pub(crate) fn nonsense(&self, why: &str) -> Fault {
        Fault::Nonsense(format!("`{}` {why}", self.server.host()))
    }
}

impl Depth {
    fn word(self) -> &'static str {
        match self {
            Self::Itself => "0",
            Self::Members => "1",
        }
    }
}

/// The rule that a request broke, as RFC 4918 has servers name it: `valid-sync-token`.
pub(crate) fn violated(response: &Response) -> Option<String> {
    // An error page may be long; the name of a rule never is.
    let body = response.body.get(..response.body.len().min(64 << 10))?;
    let root = xml::parse(body, Limits::default()).ok().filter(|root| root.is(Space::Dav, "error"))?;
    let name = &root.children.first()?.name;
    let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    (name.len() <= 80 && name.chars().all(is_name)).then(|| name.to_string())
}

/// A request's XML, with the prefixes of the namespaces that we use.
fn document(name: &str, content: &str) -> String {
    format!(
        "<?xml version=\"1.0\" encoding=\"utf-8\"?><{name} xmlns=\"DAV:\" xmlns:c=\"urn:ietf:params:xml:ns:caldav\" \
         xmlns:k=\"urn:ietf:params:xml:ns:carddav\" xmlns:s=\"http://calendarserver.org/ns/\">{content}</{name}>"
    )
}

/// A method that HTTP itself does not have.
fn method(name: &'static str) -> Method {
    Method::from_bytes(name.as_bytes()).expect("the name is a token")
}
