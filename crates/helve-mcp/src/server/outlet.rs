//! Where messages that nobody asked for go: the stream of one request, or the whole connection.

use std::fmt::Write as _;
use std::time::Duration;

use serde_json::value::RawValue;

use crate::message::Id;

/// How often it is looked whether a client that reads too slowly has made room.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Takes messages to a client. What it sends never waits: where the client reads too slowly, a
/// message is refused.
pub trait Outlet: Send + Sync + 'static {
    /// Takes one message.
    fn send(&self, message: String) -> Sent;
}

/// What became of a message to a client.
#[derive(Debug, PartialEq, Eq)]
pub enum Sent {
    /// It is on its way.
    Taken,
    /// The client reads too slowly: the message, to be sent later or not at all.
    NoRoom(String),
    /// The client is gone for good.
    Gone,
}

impl Sent {
    pub(super) fn is_taken(&self) -> bool {
        matches!(self, Self::Taken)
    }
}

/// Sends a message as soon as there is room for it. False where the client is gone.
pub(super) async fn deliver(outlet: &dyn Outlet, mut message: String) -> bool {
    loop {
        message = match outlet.send(message) {
            Sent::Taken => return true,
            Sent::Gone => return false,
            Sent::NoRoom(message) => message,
        };
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

/// Drops every message, because no client listens.
pub struct Nowhere;

impl Outlet for Nowhere {
    fn send(&self, _message: String) -> Sent {
        Sent::Gone
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
