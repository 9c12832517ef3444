//! Where messages that nobody asked for go: the stream of one request, or the whole connection.

use std::fmt::Write as _;

use serde_json::value::RawValue;

use crate::message::Id;

/// Takes messages to a client. What it sends never waits: where the client reads too slowly, a
/// message is refused.
pub trait Outlet: Send + Sync + 'static {
    /// Takes one message. False where it cannot be taken: the client is gone or too slow.
    fn send(&self, message: String) -> bool;
}

/// Nobody listens.
pub struct Nowhere;

impl Outlet for Nowhere {
    fn send(&self, _message: String) -> bool {
        false
    }
}

/// Writes a notification whose parameters are JSON already.
pub(super) fn notification(method: &str, params: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","method":"{method}","params":{params}}}"#)
}

/// Writes a request whose parameters are JSON already.
pub(super) fn request(id: &Id, method: &str, params: &RawValue) -> String {
    let mut text = String::with_capacity(params.get().len() + 80);
    // Writing to a text does not fail.
    let _ = write!(text, r#"{{"jsonrpc":"2.0","id":{},"method":"{method}","params":{params}}}"#, id_text(id));
    text
}

/// An id as JSON.
pub(super) fn id_text(id: &Id) -> String {
    match id {
        Id::Number(number) => number.to_string(),
        Id::Text(text) => serde_json::Value::from(&**text).to_string(),
    }
}
