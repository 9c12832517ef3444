//! What a call over the HTTP API costs compared with a bare axum handler that does the same JSON work: keep-
//! alive, 1, 16 and 64 callers at once, one run.
//!
//! Helve has everything on: the guard with API keys, the pipeline, the journal on disk. The bare
//! handler reads the same body, echoes the same field and writes an answer of the same shape. Both
//! take turns in rounds, so that a noisy machine is noisy for both. Aim: at least half the bare rate.

#![expect(clippy::print_stdout, reason = "a benchmark prints its figures")]
#![expect(clippy::unwrap_used, reason = "a benchmark that cannot run should stop")]

use helve_benches as _;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::routing::post;
use axum::{Json, Router};
use helve::identity::{Key, Purpose};
use helve::{Caller, Runtime, Tool};
use helve_mcp::server::McpServer;
use helve_server::{ApiOptions, Door, HttpOptions, HttpServer, Tokens};
use helve_store::{Store, StoreOptions};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

const ROUNDS: usize = 5;
const ROUND: Duration = Duration::from_secs(2);
const CALLERS: [usize; 3] = [1, 16, 64];

fn main() {
    // The servers have threads of their own, as they would have their own machine.
    let servers = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let store = Arc::new(Store::open(&folder.path().join("journal.db"), StoreOptions::default()).unwrap());
    let (helve, key) = servers.block_on(start_helve(Arc::clone(&store)));
    let bare = servers.block_on(start_bare());
    let load = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    println!("{:>8} {:>14} {:>14} {:>8}", "callers", "helve, 1/s", "bare, 1/s", "ratio");
    for callers in CALLERS {
        let mut best = [0.0_f64; 2];
        for round in 0..=ROUNDS {
            for (best, address) in best.iter_mut().zip([helve, bare]) {
                let rate = load.block_on(rate(address, &key, callers));
                // The first is for warming up.
                *best = if round == 0 { 0.0 } else { best.max(rate) };
            }
        }
        println!("{callers:>8} {:>14.0} {:>14.0} {:>8.2}", best[0], best[1], best[0] / best[1]);
    }
    store.close().unwrap();
}

async fn start_helve(store: Arc<Store>) -> (SocketAddr, String) {
    let schema = json!({ "type": "object", "properties": { "message": { "type": "string" } }, "required": ["message"] });
    let echo = Tool::builder("echo")
        .description("Gives the message back.")
        .read_only()
        .input_schema(schema)
        .handler(|arguments: Value, _| async move { Ok(arguments["message"].clone()) })
        .build()
        .unwrap();
    let runtime = Runtime::builder().ledger(store).tool(echo).unwrap().build();
    let (key, text) = Key::generate("bench", Purpose::Call, "bench", jiff::Timestamp::now());
    runtime.keys().create_key(Box::new(key), Caller::local()).await.unwrap();
    let mcp = McpServer::from_runtime(runtime.clone());
    let door = Door::Tokens(Tokens::one("0123456789abcdef", Caller::local()));
    let address = "127.0.0.1:0".parse().unwrap();
    let options = HttpOptions { api: Some(ApiOptions::new(runtime)), ..HttpOptions::new(mcp, door) };
    let server = HttpServer::bind(address, options).await.unwrap();
    let address = server.address().unwrap();
    tokio::spawn(server.run(std::future::pending()));
    (address, text.reveal().to_owned())
}

async fn start_bare() -> SocketAddr {
    let echo = async |Json(body): Json<Value>| {
        Json(json!({
            "call_id": "call_01ARZ3NDEKTSV4RRFFQ69G5FAV", "tool": body["tool"], "status": "done",
            "result": body["arguments"]["message"], "attempts": 1, "duration_us": 10,
        }))
    };
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let router = Router::new().route("/v1/calls", post(echo));
    tokio::spawn(async move { axum::serve(NoDelay(listener), router).await.unwrap() });
    address
}

/// A listener as Helve's own: without waiting for acknowledgements.
struct NoDelay(TcpListener);

impl axum::serve::Listener for NoDelay {
    type Io = TcpStream;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (TcpStream, SocketAddr) {
        loop {
            if let Ok((stream, address)) = self.0.accept().await {
                stream.set_nodelay(true).unwrap();
                return (stream, address);
            }
        }
    }

    fn local_addr(&self) -> std::io::Result<SocketAddr> {
        self.0.local_addr()
    }
}

/// Calls a second.
async fn rate(address: SocketAddr, key: &str, callers: usize) -> f64 {
    let body = json!({ "tool": "echo", "arguments": { "message": "hello" } }).to_string();
    let request: Arc<str> = format!(
        "POST /v1/calls HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {key}\r\n\
         Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )
    .into();
    let began = Instant::now();
    let callers: Vec<_> =
        (0..callers).map(|_| tokio::spawn(call_for(address, Arc::clone(&request)))).collect();
    let mut calls = 0;
    for caller in callers {
        calls += caller.await.unwrap();
    }
    calls as f64 / began.elapsed().as_secs_f64()
}

/// One caller, one connection.
async fn call_for(address: SocketAddr, request: Arc<str>) -> u64 {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.set_nodelay(true).unwrap();
    let (until, mut calls, mut buffer) = (Instant::now() + ROUND, 0, vec![0; 16 << 10]);
    while Instant::now() < until {
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut filled = 0;
        loop {
            let read = stream.read(&mut buffer[filled..]).await.unwrap();
            assert!(read > 0, "the server hung up");
            filled += read;
            if is_whole(&buffer[..filled]) {
                break;
            }
        }
        assert!(buffer.starts_with(b"HTTP/1.1 200"), "{}", String::from_utf8_lossy(&buffer[..filled]));
        calls += 1;
    }
    calls
}

fn is_whole(answer: &[u8]) -> bool {
    let Some(end) = answer.windows(4).position(|window| window == b"\r\n\r\n") else { return false };
    let head = String::from_utf8_lossy(&answer[..end]).to_lowercase();
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")?.trim().parse().ok());
    answer.len() >= end + 4 + length.unwrap_or(0_usize)
}
