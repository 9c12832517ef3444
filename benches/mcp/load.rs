//! The load client: callers on connections of their own, one call after the other, over plain
//! HTTP/1.1 so that the client itself costs little.

use std::time::Instant;

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

pub(crate) struct Figures {
    pub(crate) rate: f64,
    pub(crate) p50_us: f64,
    pub(crate) p99_us: f64,
    pub(crate) cpu_us: Option<f64>,
}

/// Makes `calls` calls by `callers` at a time.
pub(crate) async fn run(url: &str, callers: usize, calls: usize) -> Figures {
    let address = url.strip_prefix("http://").unwrap().split('/').next().unwrap().to_owned();
    let mut clients = Vec::new();
    for _ in 0..callers {
        clients.push(Client::connect(&address).await);
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

struct Client {
    stream: TcpStream,
    head: String,
    body: String,
    buffer: Vec<u8>,
}

impl Client {
    async fn connect(address: &str) -> Self {
        let stream = TcpStream::connect(address).await.unwrap();
        stream.set_nodelay(true).unwrap();
        let head = format!(
            "POST /mcp HTTP/1.1\r\nhost: {address}\r\ncontent-type: application/json\r\naccept: application/json, text/event-stream\r\n"
        );
        let mut client = Self { stream, head, body: String::new(), buffer: Vec::new() };
        let greeting = json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
            "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": { "name": "load", "version": "1" },
        } });
        let (head, _) = client.exchange(&greeting.to_string()).await;
        client.head.push_str("mcp-protocol-version: 2025-11-25\r\n");
        let session = field(&head, "mcp-session-id");
        if let Some(session) = session {
            client.head.push_str(&format!("mcp-session-id: {session}\r\n"));
        }
        client.exchange(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#).await;
        let (_, listed) =
            client.exchange(r#"{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{}}"#).await;
        let start = listed.find('{').unwrap();
        let list: Value =
            serde_json::Deserializer::from_str(&listed[start..]).into_iter().next().unwrap().unwrap();
        let tools = list["result"]["tools"].as_array().unwrap_or_else(|| panic!("{listed}"));
        let tool = tools
            .iter()
            .filter_map(|tool| tool["name"].as_str())
            .find(|name| name.ends_with("echo"))
            .unwrap();
        client.body = json!({ "jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {
            "name": tool, "arguments": { "message": "hello" },
        } })
        .to_string();
        client
    }

    async fn call(&mut self) {
        let body = std::mem::take(&mut self.body);
        let (_, answer) = self.exchange(&body).await;
        assert!(answer.contains("hello") && !answer.contains("\"isError\":true"), "{answer}");
        self.body = body;
    }

    /// Sends a body and reads the whole response.
    async fn exchange(&mut self, body: &str) -> (String, String) {
        let request = format!("{}content-length: {}\r\n\r\n{body}", self.head, body.len());
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
