//! Whole messages, which are transferred outside of the API.

use std::time::Duration;

use bytes::Bytes;
use helve_net::{HeaderValue, Method, header};
use serde_json::Value;

use super::session::Session;
use crate::account::Fault;
use crate::web::{Ask, Intent, Server, explain};

const TIMEOUT: Duration = Duration::from_secs(120);

/// A message, or its beginning where it is longer than `bytes_max`.
pub(super) async fn download(
    server: &Server,
    session: &Session,
    blob: &str,
    bytes_max: usize,
) -> Result<Bytes, Fault> {
    let ask = Ask::reads(Method::GET, session.download(server, blob)?).timeout(TIMEOUT);
    let answer = server.beginning(ask, bytes_max).await?;
    match answer.status.as_u16() {
        200 => Ok(answer.content),
        _ => Err(explain(Intent::Read, server.host(), answer.status, None)),
    }
}

/// Puts a message where a method call finds it. It is in no mailbox, and the server forgets it by itself.
pub(super) async fn upload(server: &Server, session: &Session, message: Bytes) -> Result<String, Fault> {
    if message.len() as u64 > session.limits.max_size_upload {
        return Err(Fault::Refused(format!(
            "the message is longer than `{}` takes ({} bytes)",
            server.host(),
            session.limits.max_size_upload
        )));
    }
    let ask = Ask::reads(Method::POST, session.upload(server)?)
        .header(header::CONTENT_TYPE, HeaderValue::from_static("message/rfc822"))
        .timeout(TIMEOUT)
        .body(message);
    let response = server.send(ask).await?;
    if !response.status.is_success() {
        return Err(explain(Intent::Read, server.host(), response.status, None));
    }
    let answer: Option<Value> = serde_json::from_slice(&response.body).ok();
    let blob = answer.as_ref().and_then(|answer| answer.get("blobId")).and_then(Value::as_str);
    blob.map(str::to_owned)
        .ok_or_else(|| Fault::Nonsense(format!("`{}` does not say where an upload went", server.host())))
}
