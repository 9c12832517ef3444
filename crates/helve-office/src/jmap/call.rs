//! One method call.

use std::time::Duration;

use helve_net::{HeaderValue, Method, header};
use serde_json::{Value, json};

use super::session::{CORE, MAIL, SUBMISSION, Session};
use crate::account::Fault;
use crate::web::{Ask, Intent, Server, explain};

const ANSWER_BYTES_MAX: usize = 8 << 20;
const TIMEOUT: Duration = Duration::from_secs(60);

/// Why a method call did not do what it should.
#[derive(Debug)]
pub(super) enum CallFault {
    /// The server says so by a word of JMAP: `cannotCalculateChanges`. Nothing was done.
    Said(String),
    /// The server or the connection failed.
    Fault(Fault),
}

impl From<Fault> for CallFault {
    fn from(fault: Fault) -> Self {
        Self::Fault(fault)
    }
}

impl CallFault {
    /// The same for callers who know no better. `doing` says what was tried.
    pub(super) fn into_fault(self, host: &str, doing: &str) -> Fault {
        let kind = match self {
            Self::Fault(fault) => return fault,
            Self::Said(kind) => kind,
        };
        let text = format!("`{host}` does not {doing} ({kind})");
        match kind.as_str() {
            "serverUnavailable" | "serverFail" | "rateLimit" => Fault::Unreachable(text),
            "serverPartialFail" => Fault::Unknown(text),
            "notFound" | "accountNotFound" | "blobNotFound" => Fault::Gone(text),
            "unknownMethod" | "invalidArguments" | "unknownCapability" => Fault::Nonsense(text),
            _ => Fault::Refused(text),
        }
    }
}

/// Calls one method with the account's id among its arguments.
pub(super) async fn call(
    server: &Server,
    session: &Session,
    intent: Intent,
    method: &'static str,
    mut arguments: Value,
) -> Result<Value, CallFault> {
    arguments["accountId"] = Value::from(session.account.as_str());
    let mut using = vec![CORE, MAIL];
    if session.submits {
        using.push(SUBMISSION);
    }
    let body = json!({ "using": using, "methodCalls": [[method, arguments, "0"]] });
    let ask = Ask { intent, ..Ask::reads(Method::POST, session.api.clone()) }
        .header(header::CONTENT_TYPE, HeaderValue::from_static("application/json"))
        .timeout(TIMEOUT)
        .answer_bytes_max(ANSWER_BYTES_MAX)
        .body(body.to_string());
    let response = server.send(ask).await?;
    if response.status.as_u16() != 200 {
        let said = problem(&response.body);
        let fault = explain(intent, server.host(), response.status, said.as_deref());
        return Err(after(intent, response.status.as_u16(), fault).into());
    }
    read(server, intent, method, &response.body)
}

/// A change that was sent may have been made, also where a proxy in front of the server says that it has no time, or
/// where the answer makes no sense.
fn after(intent: Intent, status: u16, fault: Fault) -> Fault {
    match (intent, fault) {
        (Intent::Change, Fault::Nonsense(text)) => Fault::Unknown(text),
        (Intent::Change, Fault::Unreachable(text)) if status == 503 => Fault::Unknown(text),
        (_, fault) => fault,
    }
}

/// What a method answered. After a change, an answer that cannot be read leaves open whether it was made.
fn read(server: &Server, intent: Intent, method: &str, body: &[u8]) -> Result<Value, CallFault> {
    let nonsense = || {
        let text = format!("`{}` answers with something that is no JMAP", server.host());
        CallFault::Fault(match intent {
            Intent::Read => Fault::Nonsense(text),
            Intent::Change => Fault::Unknown(format!("{text}; it may have been done all the same")),
        })
    };
    let mut answer: Value = serde_json::from_slice(body).map_err(|_| nonsense())?;
    // A method may answer with more than its own response; that one comes first.
    let response = answer.pointer_mut("/methodResponses/0").map(Value::take).ok_or_else(nonsense)?;
    let name = response.get(0).and_then(Value::as_str).ok_or_else(nonsense)?;
    if name == "error" {
        let kind = response.pointer("/1/type").and_then(Value::as_str).ok_or_else(nonsense)?;
        return Err(CallFault::Said(word(kind)));
    }
    match name == method {
        true => response.get(1).cloned().ok_or_else(nonsense),
        false => Err(nonsense()),
    }
}

/// The kind of trouble of a request as a whole (RFC 8620 3.6.1).
fn problem(body: &[u8]) -> Option<String> {
    let body: Value = serde_json::from_slice(body).ok()?;
    let kind = body.get("type")?.as_str()?.rsplit(':').next()?;
    Some(word(kind))
}

/// A word of the protocol, from any server.
pub(super) fn word(text: &str) -> String {
    text.chars().filter(char::is_ascii_alphanumeric).take(60).collect()
}
