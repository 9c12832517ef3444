//! `helve mcp serve` and `helve up --listen`.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::Stdio;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::home::Home;
use crate::up::Up;

fn initialize() -> Value {
    initialize_with(json!({}))
}

fn initialize_with(capabilities: Value) -> Value {
    let params = json!({ "protocolVersion": "2025-11-25", "capabilities": capabilities, "clientInfo": { "name": "t", "version": "1" } });
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
    let unknown = home.json(&["audit", "list", "--tool", "nothing"]);
    assert_eq!(unknown[0]["ending"]["code"], "tool_not_found", "{unknown}");
    assert_eq!(unknown.as_array().unwrap().len(), 1, "{unknown}");
}

#[test]
fn what_clients_read_of_servers_is_in_the_audit_trail() {
    let home = Home::new();
    let server = include_str!("mcp_server.py")
        .replace(r#"{"tools": {}}"#, r#"{"tools": {}, "resources": {}}"#)
        .replace(
            r#""ping": {},"#,
            r#""ping": {}, "resources/list": {"resources": [{"uri": "note://one", "name": "one"}]},
        "resources/read": {"contents": [{"uri": "note://one", "text": "words"}]},"#,
        );
    let config = "[mcp.servers.small]\ncommand = 'python3'\nargs = ['server.py']\nconfined = false\n";
    home.write("server.py", server).write("helve.toml", config);
    assert_eq!(home.run(&["mcp", "trust", "small", "--yes"]).code, 0);
    let read = |id: i64, uri: &str| json!({ "jsonrpc": "2.0", "id": id, "method": "resources/read", "params": { "uri": uri } });
    let input = format!("{}\n{}\n{}\n", initialize(), read(2, "note://one"), read(3, "note://none"));
    let ran = home.run_with(&["mcp", "serve"], &[], input.as_bytes());
    assert_eq!(said(&ran.stdout, 2)["result"]["contents"][0]["text"], "words", "{}", ran.stderr);
    assert_eq!(said(&ran.stdout, 3)["error"]["code"], -32002);
    let listed = home.run(&["audit", "list", "--tool", "*/resources.read"]).stdout;
    assert!(listed.contains("small/resources.read note://one"), "{listed}");
    assert!(listed.contains("mcp/resources.read note://none"), "{listed}");
    let one = home.json(&["audit", "list", "--tool", "small/resources.read", "--status", "done"]);
    assert_eq!(one.as_array().unwrap().len(), 1, "{one}");
    assert!(home.json(&["audit", "list", "--tool", "small/say"]).as_array().unwrap().is_empty());
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
fn helve_up_alone_serves_and_is_not_started_twice() {
    let (first, second) = (Home::new(), Home::new());
    let up = Up::anywhere(&first);
    assert_eq!(up.send("GET /healthz", &[], &Value::Null).0, 200);
    let again = first.run(&["up"]);
    assert!(
        again.code == 0 && again.stdout.contains(&format!("up already, at http://{}", up.address)),
        "{}",
        again.all()
    );
    // Somebody else's, next to it: the usual port is taken by now.
    let other = Up::anywhere(&second);
    assert_ne!(other.address, up.address);
    assert!(other.address.starts_with("127.0.0.1:"));
    // Killed, it leaves its note behind, which deceives nobody.
    drop(up);
    assert_eq!(Up::anywhere(&first).send("GET /healthz", &[], &Value::Null).0, 200);
}

#[test]
fn whoever_listens_where_a_killed_helve_up_did_is_told_nothing() {
    let home = Home::new();
    let up = Up::start(&home);
    let address = up.address.clone();
    up.kill();
    // Takes every connection, and stays silent.
    let other = std::net::TcpListener::bind(&address).unwrap();
    other.set_nonblocking(true).unwrap();
    let began = std::time::Instant::now();
    assert_eq!(home.json(&["mcp", "status"]), json!([]));
    assert_eq!(home.json(&["keys", "sign-in"])["link"], Value::Null);
    drop(Up::anywhere(&home));
    assert!(began.elapsed() < std::time::Duration::from_secs(30), "nobody waits for an answer");
    let came = other.accept();
    assert!(matches!(&came, Err(error) if error.kind() == std::io::ErrorKind::WouldBlock), "{came:?}");
}

#[test]
fn a_helve_up_is_found_whatever_its_tokens_and_whoever_is_beside_it() {
    let home = Home::new();
    home.write("tokens", format!("ada = {}\n", "t0ken".repeat(10)));
    let up = Up::start_with(&home, &["--token-file", "tokens"]);
    let is_found = || {
        let again = home.run(&["up"]);
        let told = format!("up already, at http://{}", up.address);
        assert!(again.code == 0 && again.stdout.contains(&told), "{}", again.all());
    };
    is_found();
    let mut beside = Up::start(&home);
    assert_ne!(beside.address, up.address);
    is_found();
    // Its end takes nothing away but its own.
    let pid = i32::try_from(beside.child.id()).ok().and_then(Pid::from_raw).unwrap();
    kill_process(pid, Signal::INT).unwrap();
    assert!(beside.child.wait().unwrap().success());
    is_found();
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

const DEED: &str = "[[tool.program]]\nname = 'deed'\ndescription = 'Does something.'\ncommand = 'sh'\n\
                    args = ['-c', 'touch done; echo null']\nwrite = ['.']\nrequires_approval = true\n";

/// A client of `helve mcp serve` that can open pages, in the middle of a call that needs an approval; the
/// page that it was led to.
fn led_to(home: &Home, args: &[&str]) -> (std::process::Child, impl Iterator<Item = Value> + use<>, String) {
    let mut command = home.command(&[&["mcp", "serve"], args].concat());
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    let able = initialize_with(json!({ "elicitation": { "url": {} } }));
    writeln!(input, "{able}\n{}", call(2, "deed", json!({}))).unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut messages = lines.map(|line| serde_json::from_str::<Value>(&line.unwrap()).unwrap());
    let asked = messages.find(|message| message["method"] == "elicitation/create").unwrap();
    let opened = json!({ "jsonrpc": "2.0", "id": asked["id"], "result": { "action": "accept" } });
    writeln!(input, "{opened}").unwrap();
    let page = asked["params"]["url"].as_str().unwrap().to_owned();
    child.stdin = Some(input);
    (child, messages, page)
}

#[test]
fn a_client_over_stdio_is_led_to_the_page_and_waits_for_who_decides() {
    let home = Home::new();
    home.write("helve.toml", DEED);
    let page_url = "approvals.page_url=https://helve.example.com/";
    let (mut child, mut messages, page) = led_to(&home, &["--set", page_url]);
    let id = page.strip_prefix("https://helve.example.com/approvals/").unwrap_or_else(|| panic!("{page}"));
    assert!(!home.project().join("done").exists());
    let ran = home.run(&["approvals", "approve", id]);
    assert_eq!(ran.code, 0, "{}", ran.all());
    let answer = messages.find(|message| message["id"] == 2).unwrap();
    assert_ne!(answer["result"]["isError"], true, "{answer}");
    assert!(home.project().join("done").exists());
    drop(child.stdin.take());
    child.wait().unwrap();
    // What is no address of a page is said at once.
    for wrong in ["ftp://x", "https://ada:secret@helve.example.com", "helve.example.com"] {
        let ran = home.run(&["mcp", "serve", "--set", &format!("approvals.page_url={wrong}")]);
        assert!(ran.code == 2 && ran.stderr.contains("approvals.page_url"), "{wrong}: {}", ran.all());
        assert!(!ran.stderr.contains("secret"), "{}", ran.stderr);
    }
}

#[test]
fn without_a_page_a_client_is_told_that_its_call_waits() {
    let home = Home::new();
    home.write("helve.toml", DEED);
    let able = initialize_with(json!({ "elicitation": { "url": {} } }));
    let input = format!("{able}\n{}\n", call(2, "deed", json!({})));
    let ran = home.run_with(&["mcp", "serve"], &[], input.as_bytes());
    let answer = said(&ran.stdout, 2);
    assert_eq!(answer["result"]["_meta"]["helve/error"]["code"], "approval_required", "{answer}");
}

#[test]
fn a_client_over_stdio_is_led_to_the_helve_up_that_runs() {
    let home = Home::new();
    home.write("helve.toml", DEED);
    let mut up = home.command(&["up", "--listen", "127.0.0.1:0", "--json"]);
    let mut up = up.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let lines = BufReader::new(up.stdout.take().unwrap()).lines().map(Result::unwrap);
    let told = lines.into_iter().find(|line| line.contains("\"listening\"")).unwrap();
    let address = told.split("\"listening\":").nth(1).unwrap().trim().split('"').nth(1).unwrap().to_owned();
    let (mut child, mut messages, page) = led_to(&home, &[]);
    let id = page.strip_prefix(&format!("http://{address}/approvals/")).unwrap_or_else(|| panic!("{page}"));
    let ran = home.run(&["approvals", "deny", id, "--reason", "not today"]);
    assert_eq!(ran.code, 0, "{}", ran.all());
    let answer = messages.find(|message| message["id"] == 2).unwrap();
    assert!(answer["result"]["isError"] == true && answer.to_string().contains("not today"), "{answer}");
    assert!(!home.project().join("done").exists());
    for child in [&mut child, &mut up] {
        child.kill().unwrap();
        child.wait().unwrap();
    }
}

#[test]
fn an_allowed_name_that_no_tool_has_is_said() {
    let home = Home::new();
    let ran =
        home.run(&["mcp", "serve", "--allow", "time-now", "--allow", "flies/*", "--allow", "math-evel"]);
    assert_eq!(ran.code, 0, "{}", ran.all());
    assert_eq!(ran.stderr.matches("fits no tool").count(), 2, "{}", ran.all());
    assert!(ran.stderr.contains("`--allow flies/*`") && !ran.stderr.contains("time-now"), "{}", ran.all());
}
