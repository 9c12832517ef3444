//! `helve mcp serve` and `helve up --listen`.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::Stdio;

use serde_json::{Value, json};

use crate::home::Home;

fn initialize() -> Value {
    let params = json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": { "name": "t", "version": "1" } });
    json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params })
}

fn call(id: i64, tool: &str, arguments: Value) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": { "name": tool, "arguments": arguments } })
}

fn said(stdout: &str, id: i64) -> Value {
    let messages = stdout.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    messages.into_iter().find(|message| message["id"] == id).unwrap()
}

#[test]
fn a_client_over_stdio_calls_through_the_pipeline() {
    let home = Home::new();
    let input =
        [initialize(), call(2, "math-eval", json!({ "expression": "2^10" })), call(3, "nothing", json!({}))];
    let input: String = input.iter().map(|message| format!("{message}\n")).collect();
    let ran = home.run_with(&["mcp", "serve", "--verbose"], &[], input.as_bytes());
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    assert_eq!(said(&ran.stdout, 2)["result"]["structuredContent"]["value"], 1024);
    assert_eq!(said(&ran.stdout, 3)["error"]["code"], -32602);
    let recorded = home.json(&["audit", "list"]);
    assert!(recorded.to_string().contains("math-eval"), "{recorded}");
}

#[test]
fn a_client_sees_only_what_it_is_allowed() {
    let home = Home::new();
    let list = json!({ "jsonrpc": "2.0", "id": 2, "method": "tools/list" });
    let input = format!("{}\n{list}\n{}\n", initialize(), call(3, "math-eval", json!({ "expression": "1" })));
    let ran = home.run_with(&["mcp", "serve", "--allow", "time-now"], &[], input.as_bytes());
    let tools = said(&ran.stdout, 2)["result"]["tools"].clone();
    assert_eq!(tools.as_array().unwrap().len(), 1, "{tools}");
    assert_eq!(said(&ran.stdout, 3)["error"]["code"], -32602);
}

fn post(address: &str, token: Option<&str>, body: &str) -> String {
    let token = token.map(|token| format!("Authorization: Bearer {token}\r\n")).unwrap_or_default();
    let mut stream = TcpStream::connect(address).unwrap();
    let head = format!(
        "POST /mcp HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\nContent-Type: application/json\r\n"
    );
    write!(stream, "{head}{token}Content-Length: {}\r\n\r\n{body}", body.len()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn helve_up_serves_whoever_has_the_token() {
    let home = Home::new();
    let mut command = home.command(&["up", "--listen", "127.0.0.1:0", "--json"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut text = String::new();
    let mut told = Value::Null;
    for line in lines {
        text.push_str(&line.unwrap());
        let documents = serde_json::Deserializer::from_str(&text).into_iter::<Value>();
        if let Some(found) = documents.flatten().find(|document| document["listening"].is_string()) {
            told = found;
            break;
        }
    }
    let address = told["listening"].as_str().unwrap().to_owned();
    let token = std::fs::read_to_string(told["token_file"].as_str().unwrap()).unwrap();
    assert!(!text.contains(token.trim()), "the token is not shown");
    let body = initialize().to_string();
    assert!(post(&address, None, &body).starts_with("HTTP/1.1 401"));
    let answer = post(&address, Some(token.trim()), &body);
    assert!(
        answer.starts_with("HTTP/1.1 200") && answer.contains("\"protocolVersion\":\"2025-11-25\""),
        "{answer}"
    );
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn a_server_that_everybody_could_use_is_refused() {
    let home = Home::new();
    let ran = home.run(&["up", "--listen", "0.0.0.0:0"]);
    assert_eq!(ran.code, 2);
    assert!(ran.stderr.contains("--token-file"), "{}", ran.stderr);
    home.write("tokens", "short\n");
    let ran = home.run(&["up", "--listen", "0.0.0.0:0", "--token-file", "tokens"]);
    assert_eq!(ran.code, 2);
    assert!(!ran.stderr.contains("short"), "{}", ran.stderr);
}
