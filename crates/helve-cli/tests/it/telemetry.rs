//! Traces of the real binary's calls, at a collector on loopback. What they say in detail is tested in
//! `helve-telemetry`.

use std::io::{BufRead as _, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::Stdio;
use std::sync::{Arc, Mutex};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::home::Home;

/// Takes whatever is posted.
#[derive(Clone)]
struct Collector {
    endpoint: String,
    posts: Arc<Mutex<Vec<Vec<u8>>>>,
}

impl Collector {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let endpoint = format!("http://{}", listener.local_addr().unwrap());
        let posts = Arc::new(Mutex::new(Vec::new()));
        let kept = Arc::clone(&posts);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let kept = Arc::clone(&kept);
                std::thread::spawn(move || take(stream.unwrap(), &kept));
            }
        });
        Self { endpoint, posts }
    }

    /// How often a text stands in what came.
    fn count(&self, text: impl AsRef<[u8]>) -> usize {
        let text = text.as_ref();
        let posts = self.posts.lock().unwrap();
        posts.iter().flat_map(|post| post.windows(text.len())).filter(|window| *window == text).count()
    }

    fn set(&self) -> String {
        format!("telemetry.otlp_endpoint={}", self.endpoint)
    }
}

/// Requests on a connection, one after the other.
fn take(stream: TcpStream, kept: &Mutex<Vec<Vec<u8>>>) {
    let mut reader = BufReader::new(stream);
    loop {
        let (mut head, mut length) = (Vec::new(), 0);
        while reader.read_until(b'\n', &mut head).is_ok_and(|read| read > 0) && !head.ends_with(b"\r\n\r\n") {
        }
        for line in String::from_utf8_lossy(&head).to_lowercase().lines() {
            if let Some(value) = line.strip_prefix("content-length: ") {
                length = value.parse().unwrap();
            }
        }
        if head.is_empty() {
            return;
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body).unwrap();
        kept.lock().unwrap().push([head, body].concat());
        reader.get_mut().write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").unwrap();
    }
}

const CALL: [&str; 3] = ["call", "math-eval", "expression=2000+345"];

#[test]
fn a_call_is_told_before_the_process_ends() {
    let (home, collector) = (Home::new(), Collector::start());
    let set = collector.set();
    let header = "telemetry.headers={ authorization = \"Bearer ${env:OTLP_TOKEN}\" }";
    let args = [&CALL[..], &["--set", &set, "--set", header]].concat();
    let ran = home.run_with(&args, &[("OTLP_TOKEN", "letmein-1")], b"");
    assert_eq!((ran.code, ran.stderr.as_str()), (0, ""), "{}", ran.stdout);
    assert!(collector.posts.lock().unwrap()[0].starts_with(b"POST /v1/traces HTTP/1.1\r\n"));
    assert_eq!(collector.count("execute_tool math-eval"), 1);
    assert_eq!(collector.count("Bearer letmein-1"), 1);
    for said in ["2000+345", "2345"] {
        assert_eq!(collector.count(said), 0, "{said}");
    }
    let args = [&CALL[..], &["--set", &set, "--set", "telemetry.content=true"]].concat();
    home.run(&args);
    assert!(collector.count("2000+345") > 0, "content is told where it is wanted");
}

#[test]
fn a_project_cannot_say_who_hears_of_calls() {
    let (home, collector) = (Home::new(), Collector::start());
    home.write("helve.toml", format!("[telemetry]\notlp_endpoint = '{}'\n", collector.endpoint));
    let ran = home.run(&CALL);
    assert_eq!(ran.code, 0, "{}", ran.all());
    assert!(ran.stderr.contains("`telemetry.otlp_endpoint` of the project does not count"), "{}", ran.stderr);
    assert!(collector.posts.lock().unwrap().is_empty());
    let ran = home.run(&[&CALL[..], &["--config", "helve.toml"]].concat());
    assert_eq!((ran.code, ran.stderr.as_str()), (0, ""));
    assert_eq!(collector.count("execute_tool math-eval"), 1);
    // Nor what is told to the one that the person chose.
    home.write("helve.toml", "[telemetry]\ncontent = true\n");
    home.run(&[&CALL[..], &["--set", &collector.set()]].concat());
    assert_eq!((collector.count("execute_tool math-eval"), collector.count("2000+345")), (2, 0));
}

#[test]
fn a_collector_that_is_down_is_said_once_and_the_call_runs() {
    let home = Home::new();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = format!("telemetry.otlp_endpoint=http://{}", listener.local_addr().unwrap());
    drop(listener);
    let ran = home.run(&[&CALL[..], &["--set", &endpoint]].concat());
    assert_eq!((ran.code, ran.stdout.trim().contains("2345")), (0, true), "{}", ran.all());
    assert_eq!(ran.stderr.matches("traces are not taken").count(), 1, "{}", ran.stderr);
}

#[test]
fn what_cannot_be_used_is_refused_and_no_secret_repeated() {
    let home = Home::new();
    for set in [
        "telemetry.headers={ authorization = \"Bearer hush-hush-4711\" }",
        "telemetry.headers={ authorization = \"Bearer ${env:NOT_THERE}\" }",
        "telemetry.otlp_endpoint=ftp://hush-hush-4711@a.example",
        "telemetry.sample_ratio=2",
        "telemetry.service_name=",
    ] {
        let ran = home.run(
            &[&CALL[..], &["--set", "telemetry.otlp_endpoint=http://127.0.0.1:9", "--set", set]].concat(),
        );
        assert_eq!(ran.code, 2, "{set}: {}", ran.all());
        assert!(!ran.all().contains("hush-hush"), "{set}: {}", ran.all());
    }
}

const TRACES: [&str; 3] = [
    "4bf92f3577b34da6a3ce929d0e0e4731",
    "4bf92f3577b34da6a3ce929d0e0e4732",
    "4bf92f3577b34da6a3ce929d0e0e4733",
];

fn bytes(trace: &str) -> [u8; 16] {
    u128::from_str_radix(trace, 16).unwrap().to_be_bytes()
}

#[test]
fn whoever_calls_over_http_sees_the_call_in_their_own_trace() {
    let (home, collector) = (Home::new(), Collector::start());
    let mut command = home.command(&["up", "--listen", "127.0.0.1:0", "--json", "--set", &collector.set()]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut text = String::new();
    let told = BufReader::new(child.stdout.take().unwrap()).lines().find_map(|line| {
        text.push_str(&line.unwrap());
        let documents = serde_json::Deserializer::from_str(&text).into_iter::<Value>();
        documents.flatten().find(|document| document["listening"].is_string())
    });
    let told = told.expect("it listens");
    let token = std::fs::read_to_string(told["token_file"].as_str().unwrap()).unwrap();
    let post = |path: &str, headers: &str, body: &Value| {
        let (address, body) = (told["listening"].as_str().unwrap(), body.to_string());
        let mut stream = TcpStream::connect(address).unwrap();
        write!(
            stream,
            "POST {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\nContent-Type: application/json\r\n\
             Accept: application/json, text/event-stream\r\nAuthorization: Bearer {}\r\n{headers}\
             Content-Length: {}\r\n\r\n{body}",
            token.trim(),
            body.len()
        )
        .unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 200") && answer.contains("2345"), "{answer}");
    };
    let parent = |trace: &str| format!("00-{trace}-00f067aa0ba902b7-01");
    let header = |trace: &str| format!("traceparent: {}\r\n", parent(trace));
    let arguments = json!({ "expression": "2000+345" });
    let call = json!({ "tool": "math-eval", "arguments": arguments });
    post("/v1/calls", &header(TRACES[0]), &call);
    post("/v1/calls", "traceparent: what is this\r\n", &call);
    let modern = "MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/call\r\nMcp-Name: math-eval\r\n";
    let asked = |traceparent: Value| {
        let meta = json!({ "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {},
            "io.modelcontextprotocol/clientInfo": { "name": "test", "version": "1" },
            "traceparent": traceparent });
        json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call",
            "params": { "name": "math-eval", "arguments": arguments, "_meta": meta } })
    };
    post("/mcp", &format!("{modern}{}", header(TRACES[1])), &asked(json!(7)));
    post("/mcp", &format!("{modern}{}", header(TRACES[0])), &asked(json!(parent(TRACES[2]))));

    // At the end of the process, or before.
    let pid = Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap();
    kill_process(pid, Signal::INT).unwrap();
    assert!(child.wait().unwrap().success());
    assert_eq!(collector.count("execute_tool math-eval"), 4);
    for trace in TRACES {
        assert!(collector.count(bytes(trace)) > 1, "{trace}");
    }
    assert_eq!(collector.count("2000+345"), 0);
}
