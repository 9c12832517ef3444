//! A server with a few tools, and a client that says exactly what a test wants.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use helve::ports::Question;
use helve::run::Progress;
use helve::{Caller, Context, Registry, Runtime, Tool, ToolError};
use helve_mcp::message::raw;
use helve_mcp::server::{McpServer, RuntimeBackend, ServerOptions};
use helve_server::{Door, HttpOptions, HttpServer, ServerConfig, Tokens};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;

pub(crate) const ADA: &str = "ada-0123456789abcdef";
pub(crate) const BOB: &str = "bob-0123456789abcdef";

pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    pub(crate) registry: Registry,
    pub(crate) runtime: Runtime,
}

pub(crate) fn tool(name: &str) -> Tool {
    let schema = json!({ "type": "object", "properties": { "message": { "type": "string" } }, "required": ["message"] });
    Tool::builder(name)
        .description("Gives the message back.")
        .read_only()
        .input_schema(schema)
        .handler(|arguments, _| async move { Ok(arguments["message"].clone()) })
        .build()
        .unwrap()
}

fn tools() -> Vec<Tool> {
    let simple =
        |name: &str| Tool::builder(name).description("A tool.").input_schema(json!({ "type": "object" }));
    let slow = simple("slow").read_only().handler(|_, context: Context| async move {
        for done in 1..=3_u8 {
            context.report(Progress {
                done: done.into(),
                total: Some(3.0),
                message: Some(format!("step {done}")),
            });
            tokio::time::sleep(Duration::from_millis(30)).await;
        }
        Ok(json!({ "slept": true }))
    });
    let ask = simple("ask").read_only().handler(|_, context: Context| async move {
        let schema =
            json!({ "type": "object", "properties": { "name": { "type": "string" } }, "required": ["name"] });
        let form = json!({ "message": "What is your name?", "requestedSchema": schema });
        let client = context.client().ok_or_else(|| ToolError::failed("nobody to ask"))?;
        let answer = client.ask(Question::FillForm, raw(&form)).await;
        let answer = answer.map_err(|error| ToolError::failed(error.message))?;
        let answer: Value = serde_json::from_str(answer.get()).unwrap();
        Ok(json!(format!("Hello {}", answer["content"]["name"].as_str().unwrap_or("nobody"))))
    });
    let hang = simple("hang").read_only().handler(|_, context: Context| async move {
        context.report(Progress { done: 1.0, total: None, message: None });
        context.cancelled().await;
        Err(ToolError::failed("taken back"))
    });
    let risky = simple("risky").requires_approval().handler(|_, _| async { Ok(json!("done")) });
    let built = [slow, ask, hang, risky].map(|builder| builder.build().unwrap());
    built.into_iter().chain([tool("echo"), tool("secret/echo")]).collect()
}

pub(crate) async fn serve() -> Server {
    serve_with(ServerOptions::default(), ServerConfig::default()).await
}

/// Ada may use everything, Bob all but what is secret.
pub(crate) async fn serve_with(options: ServerOptions, config: ServerConfig) -> Server {
    serve_until(std::future::pending(), options, config).await.0
}

/// The same until it is told to stop, and the task that ends when it has.
pub(crate) async fn serve_until(
    stop: impl Future<Output = ()> + Send + 'static,
    options: ServerOptions,
    config: ServerConfig,
) -> (Server, JoinHandle<()>) {
    let registry = Registry::default();
    registry.register_many(helve::Layer::Project, tools()).unwrap();
    let runtime = Runtime::builder().registry(registry.clone()).build();
    let mcp = McpServer::new(Arc::new(RuntimeBackend::new(runtime.clone())), options);
    let bob = Caller::principal("bob").allow_only(["echo", "slow", "ask", "hang", "risky"]);
    let tokens = Tokens::one(ADA, Arc::new(Caller::principal("ada"))).and(BOB, Arc::new(bob));
    let address = "127.0.0.1:0".parse().unwrap();
    let options = HttpOptions { config, ..HttpOptions::new(mcp, Door::Tokens(tokens)) };
    let server = HttpServer::bind(address, options).await.unwrap();
    let address = server.address().unwrap();
    let running = tokio::spawn(server.run(stop));
    (Server { address, registry, runtime }, running)
}

/// An answer as it came.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) headers: HashMap<String, String>,
    pub(crate) body: String,
}

impl Reply {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// The messages of a stream.
    pub(crate) fn events(&self) -> Vec<Value> {
        events(&self.body)
    }
}

pub(crate) fn events(text: &str) -> Vec<Value> {
    let data = text.lines().filter_map(|line| line.strip_prefix("data: "));
    data.filter(|data| !data.is_empty()).map(|data| serde_json::from_str(data).unwrap()).collect()
}

/// A request that is still being answered.
pub(crate) struct Open {
    stream: TcpStream,
    pub(crate) read: String,
}

impl Open {
    /// Reads until `marker` has come.
    pub(crate) async fn until(&mut self, marker: &str) -> &str {
        let mut buffer = [0; 4096];
        while !self.read.contains(marker) {
            let read = tokio::time::timeout(Duration::from_secs(20), self.stream.read(&mut buffer)).await;
            let read = read.unwrap_or_else(|_| panic!("no `{marker}` in {}", self.read)).unwrap();
            assert!(read > 0, "ended without `{marker}`: {}", self.read);
            self.read.push_str(&String::from_utf8_lossy(&buffer[..read]));
        }
        &self.read
    }

    /// Reads until the server closes.
    pub(crate) async fn end(&mut self) {
        let mut buffer = [0; 4096];
        while self.stream.read(&mut buffer).await.is_ok_and(|read| read > 0) {}
    }

    /// Sends more of the request.
    pub(crate) async fn write(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).await.unwrap();
    }

    /// Sends more, and says whether it could.
    pub(crate) async fn try_write(&mut self, bytes: &[u8]) -> bool {
        self.stream.write_all(bytes).await.is_ok()
    }

    /// Waits until it is answered, or nothing comes for a moment: a stream has no end of its own.
    pub(crate) async fn ended(mut self) {
        let mut buffer = [0; 4096];
        let answered = self.stream.read(&mut buffer);
        let _ = tokio::time::timeout(Duration::from_secs(5), answered).await;
    }
}

impl Server {
    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    pub(crate) async fn open(&self, line: &str, headers: &[(&str, &str)], body: &str) -> Open {
        let mut text = format!("{line} HTTP/1.1\r\n");
        let has = |name: &str| headers.iter().any(|(own, _)| own.eq_ignore_ascii_case(name));
        let mut all = headers.to_vec();
        let (host, bearer, length) =
            (self.address.to_string(), format!("Bearer {ADA}"), body.len().to_string());
        for (name, value) in [
            ("host", host.as_str()),
            ("authorization", bearer.as_str()),
            ("content-type", "application/json"),
            ("accept", "application/json, text/event-stream"),
            ("content-length", length.as_str()),
            ("connection", "close"),
        ] {
            if !has(name) {
                all.push((name, value));
            }
        }
        for (name, value) in all {
            // A test leaves a header out by giving it no value.
            if value != "-" {
                text.push_str(&format!("{name}: {value}\r\n"));
            }
        }
        text.push_str("\r\n");
        text.push_str(body);
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        // A server that refuses early may close before it has read everything.
        let _ = stream.write_all(text.as_bytes()).await;
        Open { stream, read: String::new() }
    }

    pub(crate) async fn send(&self, line: &str, headers: &[(&str, &str)], body: &str) -> Reply {
        let mut open = self.open(line, headers, body).await;
        let mut text = Vec::new();
        let whole = async {
            let mut buffer = [0; 4096];
            while !is_whole(&String::from_utf8_lossy(&text)) {
                match open.stream.read(&mut buffer).await {
                    Ok(0) | Err(_) => break,
                    Ok(read) => text.extend_from_slice(&buffer[..read]),
                }
            }
        };
        let read = tokio::time::timeout(Duration::from_secs(20), whole).await;
        assert!(read.is_ok(), "no end: {}", String::from_utf8_lossy(&text));
        let text = String::from_utf8_lossy(&text).into_owned();
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
        let mut lines = head.lines();
        let status = lines.next().and_then(|line| line.split(' ').nth(1)).and_then(|code| code.parse().ok());
        let headers: HashMap<String, String> = lines
            .filter_map(|line| line.split_once(": "))
            .map(|(name, value)| (name.to_lowercase(), value.to_owned()))
            .collect();
        let body = match headers.get("transfer-encoding") {
            Some(_) => joined(body),
            None => body.to_owned(),
        };
        let reply = Reply { status: status.unwrap_or(0), headers, body };
        crate::document::check(line, &reply);
        reply
    }

    pub(crate) async fn post(&self, headers: &[(&str, &str)], body: &Value) -> Reply {
        self.send("POST /mcp", headers, &body.to_string()).await
    }

    /// A session of the session era, and its id.
    pub(crate) async fn session(&self, token: &str, capabilities: Value) -> String {
        let params = json!({ "protocolVersion": "2025-11-25", "capabilities": capabilities, "clientInfo": { "name": "t", "version": "1" } });
        let reply = self
            .post(&[("authorization", &format!("Bearer {token}"))], &request(0, "initialize", params))
            .await;
        assert_eq!(reply.status, 200, "{reply:?}");
        reply.headers["mcp-session-id"].clone()
    }
}

/// Whether an answer that says how long it is has come to its end.
fn is_whole(text: &str) -> bool {
    let Some((head, body)) = text.split_once("\r\n\r\n") else { return false };
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
    length.and_then(|length| length.parse().ok()).is_some_and(|length: usize| body.len() >= length)
}

/// The chunks of a body, without their lengths.
fn joined(mut chunked: &str) -> String {
    let mut body = String::new();
    while let Some((length, rest)) = chunked.split_once("\r\n") {
        let length = usize::from_str_radix(length.trim(), 16).unwrap_or(0);
        if length == 0 || rest.len() < length {
            break;
        }
        body.push_str(&rest[..length]);
        chunked = rest[length..].trim_start_matches("\r\n");
    }
    body
}

pub(crate) fn request(id: i64, method: &str, params: Value) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params })
}

pub(crate) fn call(id: i64, tool: &str, arguments: Value) -> Value {
    request(id, "tools/call", json!({ "name": tool, "arguments": arguments }))
}

/// `_meta` of the stateless era.
pub(crate) fn meta(capabilities: Value) -> Value {
    json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": capabilities,
    })
}
