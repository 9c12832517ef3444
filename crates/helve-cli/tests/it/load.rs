//! Clients that go on calling while a server is stopped or killed, and what a journal must say afterwards.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Child;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::home::{Home, until};
use crate::up::Up;

/// Tools that write down in the file `world` what they do, each line once a call.
pub(crate) const TOOLS: &str = r#"
[[tool.program]]
name = "deed"
description = "Notes its key, and takes a moment."
command = "sh"
write = ["."]
args = ["-c", "cat >/dev/null; echo \"$HELVE_IDEMPOTENCY_KEY\" >> world; sleep 0.05; echo '{}'"]

[[tool.program]]
name = "slow"
description = "Waits until there is a file called go, while there is a home."
command = "sh"
write = ["."]
args = ["-c", "cat >/dev/null; echo >> waits; while [ -e helve.toml ]; do if [ -e go ]; then echo slow >> world; echo '{}'; exit 0; fi; sleep 0.1; done; exit 1"]
timeout_ms = 100000

[[tool.program]]
name = "patient"
description = "The same, and harmless to repeat."
command = "sh"
write = ["."]
args = ["-c", "cat >/dev/null; echo >> waits; while [ -e helve.toml ]; do if [ -e go ]; then echo slow >> world; echo '{}'; exit 0; fi; sleep 0.1; done; exit 1"]
timeout_ms = 100000
annotations = { idempotent = true }

[[tool.program]]
name = "sign"
description = "Needs approval."
command = "sh"
write = ["."]
args = ["-c", "cat >/dev/null; echo sign >> world; echo '{}'"]
requires_approval = true

[[tool.program]]
name = "undeed"
description = "Takes a deed back."
command = "sh"
write = ["."]
args = ["-c", "cat >/dev/null; echo undone >> world; echo '{}'"]

[[tool.program]]
name = "write"
description = "Writes a line."
command = "sh"
write = ["."]
args = ["-c", "cat >/dev/null; echo write >> world; echo '{}'"]
undo = { tool = "undeed" }

[[tool.sequence]]
name = "saga"
description = "Waits in the middle, where it can be resumed."
on_error = "undo"
steps = [
  { name = "first", tool = "write", arguments = {} },
  { name = "wait", tool = "patient", arguments = {} },
  { name = "last", tool = "write", arguments = {} },
]
"#;

pub(crate) fn home() -> Home {
    home_with("")
}

pub(crate) fn home_with(more: &str) -> Home {
    let home = Home::new();
    home.write("helve.toml", format!("{more}\n{TOOLS}"));
    home
}

/// What was done to the world, in order.
pub(crate) fn world(home: &Home) -> Vec<String> {
    let text = std::fs::read_to_string(home.project().join("world")).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}

pub(crate) fn signal(child: &Child, signal: Signal) {
    let pid = Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap();
    // One that has ended meanwhile hears nothing.
    let _ = kill_process(pid, signal);
}

/// Waits until the tool runs that waits.
pub(crate) fn until_it_waits(home: &Home) {
    until("the tool waits", || home.project().join("waits").exists());
}

/// How often tools have begun to wait.
pub(crate) fn waiting(home: &Home) -> usize {
    let text = std::fs::read_to_string(home.project().join("waits")).unwrap_or_default();
    text.lines().count()
}

/// One request on its own connection: status and body. None where nobody took it.
pub(crate) fn send(address: &str, token: &str, path: &str, body: &Value) -> Option<(u16, Value)> {
    send_with(address, token, path, "", body)
}

/// The same with more headers.
fn send_with(address: &str, token: &str, path: &str, more: &str, body: &Value) -> Option<(u16, Value)> {
    let mut stream = TcpStream::connect(address).ok()?;
    let body = body.to_string();
    let head = format!(
        "POST {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\nAuthorization: Bearer {token}\r\n\
         Content-Type: application/json\r\n{more}Content-Length: {}\r\n",
        body.len()
    );
    write!(stream, "{head}\r\n{body}").ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    let (head, body) = answer.split_once("\r\n\r\n")?;
    let status = head.split(' ').nth(1)?.parse().ok()?;
    Some((status, serde_json::from_str(body).unwrap_or(Value::String(body.to_owned()))))
}

/// What a crowd of clients heard.
#[derive(Default)]
pub(crate) struct Heard {
    pub(crate) done: AtomicUsize,
    pub(crate) refused: AtomicUsize,
    pub(crate) cut_off: AtomicUsize,
}

impl Heard {
    pub(crate) fn all(&self) -> usize {
        self.done.load(SeqCst) + self.refused.load(SeqCst) + self.cut_off.load(SeqCst)
    }

    fn note(&self, code: Option<&str>) {
        match code {
            None => self.done.fetch_add(1, SeqCst),
            Some("stopping") => self.refused.fetch_add(1, SeqCst),
            Some("cancelled") => self.cut_off.fetch_add(1, SeqCst),
            Some(other) => panic!("nobody should hear {other}"),
        };
    }
}

/// Clients that call until they are told that it stops, half of them over MCP.
pub(crate) fn crowd(up: &Up, clients: usize) -> (Arc<Heard>, Vec<std::thread::JoinHandle<()>>) {
    let heard = Arc::new(Heard::default());
    let threads = (0..clients).map(|number| {
        let (heard, address, token) = (Arc::clone(&heard), up.address.clone(), up.token());
        std::thread::spawn(move || {
            loop {
                let answered =
                    if number % 2 == 0 { over_http(&address, &token) } else { over_mcp(&address, &token) };
                let Some(code) = answered else { return };
                heard.note(code.as_deref());
                if code.is_some() {
                    return;
                }
            }
        })
    });
    let threads = threads.collect();
    (heard, threads)
}

/// The code of the error, where the call was answered with one.
fn over_http(address: &str, token: &str) -> Option<Option<String>> {
    let (status, body) = send(address, token, "/v1/calls", &json!({ "tool": "deed" }))?;
    match status {
        200 => Some(None),
        _ => Some(Some(body["code"].as_str().unwrap_or_else(|| panic!("{status} {body}")).to_owned())),
    }
}

fn over_mcp(address: &str, token: &str) -> Option<Option<String>> {
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": { "name": "t", "version": "1" },
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    let params = json!({ "name": "deed", "arguments": {}, "_meta": meta });
    let call = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params });
    let headers = "MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/call\r\nMcp-Name: deed\r\n";
    let (status, body) = send_with(address, token, "/mcp", headers, &call)?;
    let result = &body["result"];
    assert!(status == 200 && result.is_object(), "{status} {body}");
    if result["isError"] != true {
        return Some(None);
    }
    let said = result.to_string();
    let code = ["stopping", "cancelled"].into_iter().find(|code| said.contains(code));
    Some(Some(code.unwrap_or_else(|| panic!("{said}")).to_owned()))
}

/// Nothing is open, every call has one end, and nobody has changed anything.
pub(crate) fn assert_all_ended(home: &Home) -> Vec<Value> {
    assert_eq!(home.json(&["runs", "list", "--open"]), json!([]));
    assert_eq!(home.json(&["audit", "verify"])["sound"], json!(true));
    let calls = home.json(&["audit", "list", "--limit", "10000"]).as_array().unwrap().clone();
    for call in &calls {
        assert!(call["ending"].is_object(), "{call}");
    }
    calls
}
