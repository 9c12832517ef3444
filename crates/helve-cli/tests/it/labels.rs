//! Labels with the settings that everybody has: private data that met strangers' words does not reach an MCP
//! server unasked, and ordinary work is not asked about. What counts is what the receiving server heard.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Stdio};

use serde_json::{Value, json};

use crate::home::Home;

const SECRET: &str = "TOP-SECRET-77";

/// A client of `helve mcp serve`, which asks one thing after the other: its own session.
struct Client {
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
    asked: i64,
}

impl Client {
    fn of(home: &Home, more: &[&str]) -> Self {
        let mut command = home.command(&[&["mcp", "serve"], more].concat());
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let (stdin, stdout) = (child.stdin.take(), BufReader::new(child.stdout.take().unwrap()));
        let mut client = Self { child, stdin, stdout, asked: 0 };
        let about = json!({ "name": "t", "version": "1" });
        client.ask(
            "initialize",
            json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": about }),
        );
        client
    }

    fn ask(&mut self, method: &str, params: Value) -> Value {
        self.asked += 1;
        let message = json!({ "jsonrpc": "2.0", "id": self.asked, "method": method, "params": params });
        writeln!(self.stdin.as_mut().unwrap(), "{message}").unwrap();
        loop {
            let mut line = String::new();
            assert_ne!(self.stdout.read_line(&mut line).unwrap(), 0, "it ended before it answered {message}");
            let answer: Value = serde_json::from_str(&line).unwrap();
            if answer["id"] == self.asked && answer["method"].is_null() {
                return answer;
            }
        }
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        drop(self.stdin.take());
        let _ = self.child.wait();
    }
}

/// A home with the three servers, as somebody has who wrote nothing about labels. A file holds the secret too.
fn home(more: &str) -> Home {
    let home = Home::new();
    let server = |role: &str| {
        format!(
            "[mcp.servers.{role}]\ncommand = 'python3'\nargs = ['flow_server.py', '{role}', '{role}.heard']\nconfined = false\n"
        )
    };
    let config = ["vault", "web", "sink"].map(server).concat();
    let carry = "[[tool.sequence]]\nname = 'carry'\ndescription = 'Carries.'\nsteps = [\n{ name = 'secret', tool = 'vault/read_secret', arguments = {} },\n{ tool = 'web/get_page', arguments = {} },\n{ tool = 'sink/post', arguments = { text = '{{ steps.secret }}' } },\n]\n";
    home.write("flow_server.py", include_str!("flow_server.py"))
        .write("diary.txt", SECRET)
        .write("helve.toml", format!("{config}{carry}{more}"));
    let trusted = home.run(&["trust", "--yes"]);
    assert_eq!(trusted.code, 0, "{}", trusted.all());
    home
}

/// What a server has heard, as text.
fn heard(home: &Home, role: &str) -> String {
    std::fs::read_to_string(home.project().join(format!("{role}.heard"))).unwrap_or_default()
}

/// One request of a flow.
type Step = (&'static str, Value);

fn call(tool: &str, arguments: Value) -> Step {
    ("tools/call", json!({ "name": tool, "arguments": arguments }))
}

fn play(home: &Home, steps: &[Step], more: &[&str]) -> Vec<Value> {
    let mut client = Client::of(home, more);
    steps.iter().map(|(method, params)| client.ask(method, params.clone())).collect()
}

fn flows() -> Vec<(&'static str, Vec<Step>)> {
    let file = || call("file-read", json!({ "path": "diary.txt" }));
    let vault = || call("vault__read_secret", json!({}));
    let page = || call("web__get_page", json!({}));
    let post = || call("sink__post", json!({ "text": SECRET }));
    let read = |uri: String| ("resources/read", json!({ "uri": uri }));
    let complete = |reference: Value, name: &str| {
        ("completion/complete", json!({ "ref": reference, "argument": { "name": name, "value": SECRET } }))
    };
    let code = format!(
        "import helve\nhelve.call('vault/read_secret')\nhelve.call('web/get_page')\nhelve.call('sink/post', text='{SECRET}')"
    );
    vec![
        ("a file, in arguments", vec![file(), page(), post()]),
        ("a private server, in arguments", vec![vault(), page(), post()]),
        ("strangers first", vec![page(), vault(), post()]),
        ("in a path", vec![file(), page(), call("sink__get", json!({ "path": format!("/x/{SECRET}") }))]),
        (
            "in an address",
            vec![
                file(),
                page(),
                call("sink__fetch", json!({ "url": format!("http://127.0.0.1:9/{SECRET}") })),
            ],
        ),
        (
            "in a search that calls itself read-only",
            vec![vault(), page(), call("sink__search", json!({ "query": SECRET }))],
        ),
        (
            "to a tool that says it is closed",
            vec![vault(), page(), call("sink__closed", json!({ "text": SECRET }))],
        ),
        ("in a resource's address", vec![vault(), page(), read(format!("sink://x/{SECRET}"))]),
        (
            "in a prompt's argument",
            vec![
                vault(),
                page(),
                ("prompts/get", json!({ "name": "sink__ask", "arguments": { "about": SECRET } })),
            ],
        ),
        (
            "in a word to complete",
            vec![vault(), page(), complete(json!({ "type": "ref/prompt", "name": "sink__ask" }), "about")],
        ),
        (
            "in a template's word to complete",
            vec![
                vault(),
                page(),
                complete(json!({ "type": "ref/resource", "uri": "sink://x/{data}" }), "data"),
            ],
        ),
        (
            "in a subscription",
            vec![vault(), page(), ("resources/subscribe", json!({ "uri": format!("sink://x/{SECRET}") }))],
        ),
        (
            "by code, after both",
            vec![vault(), page(), call("code-execute", json!({ "language": "python", "code": code }))],
        ),
        (
            "by code that does it all",
            vec![call("code-execute", json!({ "language": "python", "code": code }))],
        ),
        ("by a composition", vec![call("carry", json!({}))]),
        ("from a structured result alone", vec![vault(), call("web__get_facts", json!({})), post()]),
        (
            "from words of a list that the server wrote",
            vec![vault(), call("web__get_words", json!({})), post()],
        ),
        ("from an error's text", vec![vault(), call("web__get_broken", json!({})), post()]),
        ("from a link", vec![vault(), call("web__get_link", json!({})), post()]),
        ("from a resource", vec![read("vault://secret".to_owned()), read("page://one".to_owned()), post()]),
        (
            "from a prompt",
            vec![
                vault(),
                ("prompts/get", json!({ "name": "web__ask", "arguments": { "about": "x" } })),
                post(),
            ],
        ),
        ("a private tool that says it is closed", vec![call("vault__lookup", json!({})), page(), post()]),
        (
            "to the server that brought strangers' words",
            vec![
                vault(),
                page(),
                ("prompts/get", json!({ "name": "web__ask", "arguments": { "about": SECRET } })),
            ],
        ),
    ]
}

#[test]
fn no_flow_carries_private_data_to_a_server_unasked() {
    let home = home("");
    for (name, steps) in flows() {
        for role in ["web", "sink"] {
            let _ = std::fs::remove_file(home.project().join(format!("{role}.heard")));
        }
        let answers = play(&home, &steps, &[]);
        for role in ["web", "sink"] {
            assert!(!heard(&home, role).contains(SECRET), "{name}: {role} heard it: {answers:#?}");
        }
        assert!(heard(&home, "sink").contains("tools/list"), "{name}: it was there to hear");
    }
}

/// Without labels each of them arrives, so it is labels that stop them.
#[test]
fn without_labels_every_flow_arrives() {
    let home = home("");
    for (name, steps) in flows() {
        for role in ["web", "sink"] {
            let _ = std::fs::remove_file(home.project().join(format!("{role}.heard")));
        }
        let answers = play(&home, &steps, &["--set", "labels.when_met=off"]);
        let arrived = ["web", "sink"].iter().any(|role| heard(&home, role).contains(SECRET));
        assert!(arrived, "{name}: {answers:#?}");
    }
}

#[test]
fn ordinary_work_is_not_asked_about() {
    let tools = "[mcp.servers.boxed]\ncommand = 'python3'\nargs = ['flow_server.py', 'sink', '/dev/null']\n";
    let home = home(tools);
    let page = || call("web__get_page", json!({}));
    let post = || call("sink__post", json!({ "text": "hello" }));
    let file = || call("file-read", json!({ "path": "diary.txt" }));
    let vault = || call("vault__read_secret", json!({}));
    let flows: [(&str, Vec<Step>); 7] = [
        ("reading from one open server", vec![page(), page(), call("web__get_facts", json!({})), page()]),
        ("reading files", vec![file(), file(), call("file-list", json!({ "path": "." }))]),
        ("sending what no stranger had a word in", vec![file(), post()]),
        ("sending what is not private", vec![page(), post(), post()]),
        (
            "reading what is private again and again, at its own server",
            vec![vault(), vault(), ("resources/read", json!({ "uri": "vault://secret" })), vault()],
        ),
        (
            "a server in a box without a network",
            vec![
                file(),
                page(),
                call("boxed__post", json!({ "text": "x" })),
                call("boxed__get", json!({ "path": "x" })),
            ],
        ),
        (
            "tools that neither read nor send",
            vec![
                file(),
                page(),
                call("math-eval", json!({ "expression": "1" })),
                call("time-now", json!({})),
            ],
        ),
    ];
    for (name, steps) in flows {
        for (step, answer) in steps.iter().zip(play(&home, &steps, &[])) {
            assert!(
                answer["error"].is_null() && answer["result"]["isError"] != true,
                "{name}: {step:?}: {answer}"
            );
        }
    }
    assert_eq!(home.json(&["approvals", "list"]), json!([]));
}

#[test]
fn what_the_operator_says_of_a_tool_counts() {
    let home = home("[mcp.servers.sink.tools.facets]\nclosed = []\n");
    let steps = [
        call("vault__read_secret", json!({})),
        call("web__get_page", json!({})),
        call("sink__closed", json!({ "text": "fine" })),
        call("sink__post", json!({ "text": SECRET })),
    ];
    play(&home, &steps, &[]);
    let heard = heard(&home, "sink");
    assert!(heard.contains("fine") && !heard.contains(SECRET), "{heard}");
}
