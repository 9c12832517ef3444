//! Clients of a gateway, as a test needs them.

use std::sync::Arc;

use helve::Caller;
use helve_mcp::gateway::Gateway;
use helve_mcp::server::{McpServer, ServerOptions};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream, Lines, ReadHalf, WriteHalf};

use crate::plain::LONG;
use crate::setup::Setup;

/// A client of a gateway, on behalf of somebody.
pub(crate) struct Client {
    read: Lines<BufReader<ReadHalf<DuplexStream>>>,
    write: WriteHalf<DuplexStream>,
    /// What it was told unasked.
    pub(crate) heard: Vec<Value>,
}

impl Client {
    pub(crate) async fn connect(setup: &Setup, principal: &str) -> Self {
        let gateway = Gateway::new(setup.runtime.clone(), setup.servers.clone());
        let server = McpServer::new(Arc::new(gateway), ServerOptions::default());
        Self::of(&server, Caller::principal(principal)).await
    }

    /// A client of this server. Several of one server share its gateway.
    pub(crate) async fn of(server: &McpServer, caller: Caller) -> Self {
        let server = server.clone();
        let (ours, theirs) = tokio::io::duplex(64 << 10);
        let (input, output) = tokio::io::split(theirs);
        tokio::spawn(async move { server.serve(input, output, caller).await });
        let (read, write) = tokio::io::split(ours);
        let mut client = Self { read: BufReader::new(read).lines(), write, heard: Vec::new() };
        let params = json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": { "name": "t", "version": "1" } });
        client.ask(json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params })).await;
        client
    }

    async fn hear(&mut self) -> Value {
        let line = tokio::time::timeout(LONG, self.read.next_line()).await.expect("something in time");
        serde_json::from_str(&line.unwrap().expect("not the end")).unwrap()
    }

    /// The answer to a request. What comes before it is kept.
    pub(crate) async fn ask(&mut self, request: Value) -> Value {
        self.send(&request).await;
        loop {
            let message = self.hear().await;
            if message["id"] == request["id"] && message.get("method").is_none() {
                return message;
            }
            self.heard.push(message);
        }
    }

    /// Waits until it was told something.
    pub(crate) async fn told(&mut self, method: &str) -> Value {
        self.heard_of(|heard| heard["method"] == method).await
    }

    /// Says something, and waits for no answer.
    pub(crate) async fn send(&mut self, message: &Value) {
        self.write.write_all(format!("{message}\n").as_bytes()).await.unwrap();
    }

    /// Waits until it was told that a resource has changed.
    pub(crate) async fn told_of(&mut self, uri: &str) -> Value {
        let updated = "notifications/resources/updated";
        self.heard_of(|heard| heard["method"] == updated && heard["params"]["uri"] == uri).await
    }

    async fn heard_of(&mut self, is_it: impl Fn(&Value) -> bool) -> Value {
        loop {
            if let Some(found) = self.heard.iter().find(|heard| is_it(heard)) {
                return found.clone();
            }
            let message = self.hear().await;
            self.heard.push(message);
        }
    }
}
