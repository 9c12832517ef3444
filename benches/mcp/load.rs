//! The load: callers on connections of their own, one call after the other. As bytes over plain HTTP/1.1, so that
//! the client itself costs next to nothing; and by the client that programs have.

use std::time::Instant;

use rmcp::ServiceExt;
use rmcp::model::CallToolRequestParams;
use rmcp::service::{RoleClient, RunningService};
use rmcp::transport::StreamableHttpClientTransport;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

pub(crate) struct Figures {
    pub(crate) rate: f64,
    pub(crate) p50_us: f64,
    pub(crate) p99_us: f64,
    pub(crate) cpu_us: Option<f64>,
}

/// Who makes the calls.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Load {
    /// Nobody: the same bytes are sent each time, and in the answer only a word is looked for.
    Bytes(Era),
    /// rmcp's client, as a program would use it.
    Rmcp,
}

impl Load {
    pub(crate) fn shown(self) -> String {
        match self {
            Self::Bytes(era) => format!("the client sends bytes, of {}", era.version()),
            Self::Rmcp => "the client is rmcp's".to_owned(),
        }
    }
}

/// How the client speaks. What a server does for a call, and what it costs, depends on it.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Era {
    /// 2025-11-25: a handshake, then little in each request.
    Handshake,
    /// 2026-07-28: no handshake, and each request says who asks and what they can do.
    Stateless,
}

impl Era {
    pub(crate) fn version(self) -> &'static str {
        match self {
            Self::Handshake => "2025-11-25",
            Self::Stateless => "2026-07-28",
        }
    }
}

/// Makes `calls` calls by `callers` at a time.
pub(crate) async fn measure_load(url: &str, load: Load, callers: usize, calls: usize) -> Figures {
    let mut clients = Vec::new();
    for _ in 0..callers {
        clients.push(Client::connect(url, load).await);
    }
    let began = Instant::now();
    let each = (calls / callers).max(1);
    let working = clients.into_iter().map(|mut client| async move {
        let mut times = Vec::with_capacity(each);
        for _ in 0..each {
            let began = Instant::now();
            client.call().await;
            times.push(began.elapsed().as_secs_f64() * 1e6);
        }
        times
    });
    let mut times: Vec<f64> = futures_util::future::join_all(working).await.concat();
    let rate = times.len() as f64 / began.elapsed().as_secs_f64();
    times.sort_by(f64::total_cmp);
    let at = |part: f64| times[((times.len() - 1) as f64 * part) as usize];
    Figures { rate, p50_us: at(0.5), p99_us: at(0.99), cpu_us: None }
}

enum Client {
    Bytes(Bytes),
    Rmcp(Box<(RunningService<RoleClient, ()>, CallToolRequestParams)>),
}

impl Client {
    async fn connect(url: &str, load: Load) -> Self {
        match load {
            Load::Bytes(era) => Self::Bytes(Bytes::connect(url, era).await),
            Load::Rmcp => {
                let client = ().serve(StreamableHttpClientTransport::from_uri(url)).await.unwrap();
                let tools = client.list_all_tools().await.unwrap();
                let tool =
                    tools.into_iter().map(|tool| tool.name).find(|name| name.ends_with("echo")).unwrap();
                let arguments = json!({ "message": "hello" }).as_object().unwrap().clone();
                let call = CallToolRequestParams::new(tool).with_arguments(arguments);
                Self::Rmcp(Box::new((client, call)))
            }
        }
    }

    async fn call(&mut self) {
        match self {
            Self::Bytes(client) => client.call().await,
            Self::Rmcp(rmcp) => {
                let (client, call) = &**rmcp;
                let result = client.call_tool(call.clone()).await.unwrap();
                let answer = result.content.first().and_then(|content| content.as_text());
                assert!(answer.is_some_and(|answer| answer.text == "hello"), "{result:?}");
            }
        }
    }
}

struct Bytes {
    stream: TcpStream,
    era: Era,
    head: String,
    /// The request that is made again and again.
    call: String,
    buffer: Vec<u8>,
}

impl Bytes {
    async fn connect(url: &str, era: Era) -> Self {
        let (address, path) = url.strip_prefix("http://").unwrap().split_once('/').unwrap();
        let stream = TcpStream::connect(address).await.unwrap();
        stream.set_nodelay(true).unwrap();
        let head = format!(
            "POST /{path} HTTP/1.1\r\nhost: {address}\r\ncontent-type: application/json\r\naccept: application/json, text/event-stream\r\n"
        );
        let mut client = Self { stream, era, head, call: String::new(), buffer: Vec::new() };
        if let Era::Handshake = era {
            client.greet().await;
        }
        client.head.push_str(&format!("mcp-protocol-version: {}\r\n", era.version()));
        let list = client.request("tools/list", json!({}));
        let (_, listed) = client.exchange(&list).await;
        let start = listed.find('{').unwrap();
        let list: Value =
            serde_json::Deserializer::from_str(&listed[start..]).into_iter().next().unwrap().unwrap();
        let tools = list["result"]["tools"].as_array().unwrap_or_else(|| panic!("{listed}"));
        let mut names = tools.iter().filter_map(|tool| tool["name"].as_str());
        let tool = names.find(|name| name.ends_with("echo")).unwrap();
        client.call =
            client.request("tools/call", json!({ "name": tool, "arguments": { "message": "hello" } }));
        client
    }

    async fn greet(&mut self) {
        let client = json!({ "name": "load", "version": "1" });
        let params =
            json!({ "protocolVersion": self.era.version(), "capabilities": {}, "clientInfo": client });
        let greeting = self.request("initialize", params);
        let (head, _) = self.exchange(&greeting).await;
        if let Some(session) = field(&head, "mcp-session-id") {
            self.head.push_str(&format!("mcp-session-id: {session}\r\n"));
        }
        let thanks = self.written("", &json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }));
        self.exchange(&thanks).await;
    }

    /// A request, as it goes over the wire.
    fn request(&self, method: &str, mut params: Value) -> String {
        let mut fields = String::new();
        if let Era::Stateless = self.era {
            params["_meta"] = json!({
                "io.modelcontextprotocol/protocolVersion": self.era.version(),
                "io.modelcontextprotocol/clientInfo": { "name": "load", "version": "1" },
                "io.modelcontextprotocol/clientCapabilities": {},
            });
            fields = format!("mcp-method: {method}\r\n");
            if let Some(name) = params["name"].as_str() {
                fields.push_str(&format!("mcp-name: {name}\r\n"));
            }
        }
        self.written(&fields, &json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params }))
    }

    fn written(&self, fields: &str, message: &Value) -> String {
        let body = message.to_string();
        format!("{}{fields}content-length: {}\r\n\r\n{body}", self.head, body.len())
    }

    async fn call(&mut self) {
        let request = std::mem::take(&mut self.call);
        let (_, answer) = self.exchange(&request).await;
        assert!(answer.contains("hello") && !answer.contains("\"isError\":true"), "{answer}");
        self.call = request;
    }

    /// Sends a request and reads the whole response.
    async fn exchange(&mut self, request: &str) -> (String, String) {
        self.stream.write_all(request.as_bytes()).await.unwrap();
        self.buffer.clear();
        loop {
            if let Some((head, body)) = whole(&self.buffer) {
                return (head, body);
            }
            let read = self.stream.read_buf(&mut self.buffer).await.unwrap();
            assert!(read > 0, "{} closed: {}", self.head, String::from_utf8_lossy(&self.buffer));
        }
    }
}

/// A field of a response's head.
fn field<'a>(head: &'a str, name: &str) -> Option<&'a str> {
    let lines = head.lines().filter_map(|line| line.split_once(": "));
    lines.filter(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value.trim()).next()
}

/// The head and the body of a response, once it is all there.
fn whole(buffer: &[u8]) -> Option<(String, String)> {
    let at = buffer.windows(4).position(|window| window == b"\r\n\r\n")?;
    let head = String::from_utf8_lossy(&buffer[..at]).into_owned();
    let body = &buffer[at + 4..];
    if let Some(length) = field(&head, "content-length") {
        let length: usize = length.parse().unwrap();
        return (body.len() >= length).then(|| (head, String::from_utf8_lossy(body).into_owned()));
    }
    let chunked = field(&head, "transfer-encoding") == Some("chunked");
    (!chunked || body.ends_with(b"0\r\n\r\n")).then(|| (head, String::from_utf8_lossy(body).into_owned()))
}
