//! The DevTools protocol over pipes.
//!
//! Chromium with `--remote-debugging-pipe` reads commands from its descriptor 3 and writes answers
//! and events to 4, each a JSON text that ends with a NUL. By hand, and not with chromiumoxide: that
//! crate speaks WebSocket over TCP alone, and any other user of the machine could connect to such a
//! port and drive the browser; the box that Chromium runs in has no network to listen on anyway. It
//! would also bring reqwest in, past the guarded client.

use std::collections::VecDeque;

use helve::{ErrorCode, ToolError};
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};

/// Largest message. A page's HTML comes in one, and JSON can make it several times longer.
const MESSAGE_BYTES_MAX: usize = 64 << 20;
/// Most events that wait to be looked at; a page can cause any number.
const EVENTS_MAX: usize = 10_000;
const READ_BYTES: usize = 64 << 10;

/// A connection to a browser. One command at a time; events that come meanwhile are kept, and
/// dialogs are dismissed.
pub(super) struct Connection<R, W> {
    reader: R,
    writer: W,
    /// Read, and not yet taken apart; searched for a NUL up to `searched`.
    buffer: Vec<u8>,
    searched: usize,
    events: VecDeque<Event>,
    last_id: u64,
}

/// Something that happened in the browser.
#[derive(Debug)]
pub(super) struct Event {
    pub(super) method: String,
    pub(super) session: Option<String>,
    pub(super) params: Value,
}

impl<R: AsyncRead + Unpin, W: AsyncWrite + Unpin> Connection<R, W> {
    pub(super) fn new(reader: R, writer: W) -> Self {
        Self { reader, writer, buffer: Vec::new(), searched: 0, events: VecDeque::new(), last_id: 0 }
    }

    /// Sends a command and waits for its answer.
    pub(super) async fn command(
        &mut self,
        session: Option<&str>,
        method: &str,
        params: Value,
    ) -> Result<Value, ToolError> {
        let id = self.send(session, method, params).await?;
        loop {
            let message = self.message().await?;
            if message.get("id").and_then(Value::as_u64) != Some(id) {
                self.keep(message).await?;
                continue;
            }
            if let Some(error) = message.get("error") {
                let reason = error.get("message").and_then(Value::as_str).unwrap_or("no reason given");
                return Err(ToolError::failed(format!("the browser refused `{method}`: {reason}")));
            }
            return Ok(message.get("result").cloned().unwrap_or_default());
        }
    }

    /// Sends a command whose answer nobody waits for.
    pub(super) async fn send(
        &mut self,
        session: Option<&str>,
        method: &str,
        params: Value,
    ) -> Result<u64, ToolError> {
        self.last_id += 1;
        let mut message = json!({ "id": self.last_id, "method": method, "params": params });
        if let Some(session) = session {
            message["sessionId"] = session.into();
        }
        let mut bytes = message.to_string().into_bytes();
        bytes.push(0);
        self.writer.write_all(&bytes).await.map_err(gone)?;
        self.writer.flush().await.map_err(gone)?;
        Ok(self.last_id)
    }

    /// The next event. Safe to drop while it waits to read: nothing that was read is lost.
    pub(super) async fn event(&mut self) -> Result<Event, ToolError> {
        loop {
            if let Some(event) = self.events.pop_front() {
                return Ok(event);
            }
            let message = self.message().await?;
            self.keep(message).await?;
        }
    }

    /// Drops what has happened so far.
    pub(super) fn forget_events(&mut self) {
        self.events.clear();
    }

    async fn keep(&mut self, mut message: Value) -> Result<(), ToolError> {
        // Answers to commands that nobody waited for have no method.
        let Some(method) = message.get("method").and_then(Value::as_str).map(str::to_owned) else {
            return Ok(());
        };
        let session = message.get("sessionId").and_then(Value::as_str).map(str::to_owned);
        if method == "Page.javascriptDialogOpening" {
            // At once: while it is open, the page answers no command.
            self.send(session.as_deref(), "Page.handleJavaScriptDialog", json!({ "accept": false })).await?;
        } else if self.events.len() < EVENTS_MAX {
            self.events.push_back(Event { method, session, params: message["params"].take() });
        }
        Ok(())
    }

    async fn message(&mut self) -> Result<Value, ToolError> {
        loop {
            if let Some(end) = self.buffer[self.searched..].iter().position(|byte| *byte == 0) {
                let end = self.searched + end;
                let message = serde_json::from_slice(&self.buffer[..end]);
                self.buffer.drain(..=end);
                self.searched = 0;
                return message
                    .map_err(|error| ToolError::failed("the browser sent no JSON").with_source(error));
            }
            self.searched = self.buffer.len();
            if self.buffer.len() > MESSAGE_BYTES_MAX {
                return Err(ToolError::new(
                    ErrorCode::OutputTooLarge,
                    "the browser sent more than is allowed",
                ));
            }
            self.buffer.reserve(READ_BYTES);
            let read = self.reader.read_buf(&mut self.buffer).await.map_err(gone)?;
            if read == 0 {
                return Err(ToolError::failed("the browser has ended").retryable(true));
            }
        }
    }
}

fn gone(error: std::io::Error) -> ToolError {
    ToolError::failed("the browser has ended").retryable(true).with_source(error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn answers_find_their_command_and_events_wait() {
        let (ours, theirs) = tokio::io::duplex(1 << 16);
        let (reader, writer) = tokio::io::split(ours);
        let (mut their_reader, mut their_writer) = tokio::io::split(theirs);
        let browser = tokio::spawn(async move {
            let mut bytes = vec![0; 1_000];
            let read = their_reader.read(&mut bytes).await.unwrap();
            // In pieces, with an event and a foreign answer before ours.
            for piece in [
                "{\"method\":\"A.b\",\"params\":{\"x\":1},\"sess",
                "ionId\":\"s\"}\0{\"id\":99,\"result\":{}}\0{\"id\":1,",
                "\"result\":{\"y\":2}}\0{\"id\":2,\"error\":{\"message\":\"no\"}}\0not json\0",
            ] {
                their_writer.write_all(piece.as_bytes()).await.unwrap();
                their_writer.flush().await.unwrap();
            }
            String::from_utf8(bytes[..read].to_vec()).unwrap()
        });
        let mut connection = Connection::new(reader, writer);
        let answer = connection.command(Some("s"), "Do.it", json!({ "z": 3 })).await.unwrap();
        assert_eq!(answer, json!({ "y": 2 }));
        assert_eq!(
            browser.await.unwrap(),
            "{\"id\":1,\"method\":\"Do.it\",\"params\":{\"z\":3},\"sessionId\":\"s\"}\0"
        );
        let event = connection.event().await.unwrap();
        assert_eq!((event.method.as_str(), event.session.as_deref()), ("A.b", Some("s")));
        // The pipe's other half is still there, so that writing works.
        let refused = connection.command(None, "Do.not", json!({})).await;
        assert!(refused.is_err());
    }
}
