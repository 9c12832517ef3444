//! MCP clients that others wrote, and calls that fail in every way: none of them may lose why.

use std::process::Command;

use helve_testkit::peers;
use serde_json::{Value, json};

use crate::home::Home;
use crate::up::Up;

/// Tools that promise an object with a number, and what each does instead.
const TOOLS: &str = r#"
[breaker]
enabled = false
[limits]
result_bytes = 4000
[[limits.calls]]
tool = "often"
rate = "1/1h"
[mcp.servers.failing]
command = "python3"
args = ["failing_server.py"]
confined = false
# What fails is looked at here, not what labels say.
tools = { facets = { "*" = [] } }
"#;

fn tool(name: &str, script: &str, more: &str) -> String {
    format!(
        "[[tool.program]]\nname = '{name}'\ndescription = 'Promises a number.'\ncommand = 'sh'\n\
         args = ['-c', '''{script}''']\nwrite = ['.']\n{more}\n\
         parameters = [{{ name = 'k', type = 'integer', description = 'Any.' }}]\n\
         [tool.program.output_schema]\ntype = 'object'\nrequired = ['n']\nproperties.n.type = 'integer'\n"
    )
}

fn project() -> Home {
    let home = Home::new();
    let mut file = TOOLS.to_owned();
    for (name, script, more) in [
        ("fine", r#"echo "{\"n\":1}""#, ""),
        ("fails", "echo out of paper >&2; exit 3", ""),
        ("returns", "echo no ink >&2; exit 3", "failure_mode = 'return'"),
        ("wrong", r#"echo "{\"m\":1}""#, ""),
        ("slow", "sleep 60", "timeout_ms = 200"),
        ("large", r#"printf "{\"n\":1,\"text\":\""; head -c 5000 /dev/zero | tr "\\0" x; echo "\"}""#, ""),
        ("often", r#"echo "{\"n\":1}""#, ""),
        ("forbidden", r#"touch done; echo "{\"n\":1}""#, ""),
        ("deed", r#"touch done; echo "{\"n\":1}""#, "requires_approval = true"),
    ] {
        file.push_str(&tool(name, script, more));
    }
    home.write("failing_server.py", include_str!("failing_server.py")).write("helve.toml", file);
    assert_eq!(home.run(&["mcp", "trust", "failing", "--yes"]).code, 0);
    assert_eq!(home.run(&["rules", "deny", "forbidden"]).code, 0);
    home
}

/// What each call must come to: the code, and words for the model.
const FAILURES: [(&str, &str, &str); 13] = [
    ("fails", "execution_failed", "out of paper"),
    ("returns", "execution_failed", "no ink"),
    ("wrong", "output_invalid", "promises"),
    ("slow", "timeout", "200 ms"),
    ("large", "output_too_large", "4000 are allowed"),
    ("often", "rate_limit", "Calling again may help after"),
    ("forbidden", "permission_denied", "rule deny forbidden"),
    ("deed", "approval_required", "helve approvals approve apr_"),
    ("failing__structured", "execution_failed", "no such city"),
    ("failing__silent", "execution_failed", "did not say why"),
    ("failing__unfit", "output_invalid", "promises"),
    ("failing__missing", "output_invalid", "promises"),
    ("failing__refused", "validation_failed", "the server refuses"),
];

fn calls() -> Value {
    // The first call of `often` may pass, and uses up the limit.
    let failing = FAILURES.iter().map(|(tool, ..)| *tool);
    let mut calls: Vec<_> =
        ["often"].into_iter().chain(failing).map(|tool| json!({ "name": tool, "arguments": {} })).collect();
    calls.push(json!({ "name": "fine", "arguments": { "k": "many" } }));
    calls.push(json!({ "name": "nothing", "arguments": {} }));
    calls.push(json!({ "name": "fine", "arguments": {} }));
    calls.push(json!({ "name": "failing__fine", "arguments": {} }));
    calls.push(json!({ "name": "failing__list", "arguments": {} }));
    calls.into()
}

/// Whether a client got to know all there is to know of each failure.
fn check(client: &str, told: &Value, stateless: bool) {
    let said = told["said"].as_array().unwrap_or_else(|| panic!("{client}: {told}"));
    let said = &said[1..];
    for ((tool, code, words), said) in FAILURES.iter().zip(said) {
        is_told(&format!("{client}: {tool}"), said, code, words);
    }
    let [fields, unknown, fine, served, list] = &said[FAILURES.len()..] else { panic!("{client}: {told}") };
    is_told(&format!("{client}: fields"), fields, "validation_failed", "`/k`");
    assert_eq!(
        fields["result"]["_meta"]["helve/error"]["field_errors"][0]["path"], "/k",
        "{client}: {fields}"
    );
    assert!(unknown["thrown"].as_str().is_some_and(|said| said.contains("nothing")), "{client}: {unknown}");
    for fine in [fine, served] {
        assert_eq!(fine["result"]["structuredContent"], json!({ "n": 1 }), "{client}: {fine}");
    }
    let expected = if stateless { json!([1, 2]) } else { json!({ "result": [1, 2] }) };
    assert_eq!(list["result"]["structuredContent"], expected, "{client}: {list}");
    assert_eq!(list["result"]["content"][0]["text"], "[1, 2]", "{client}: {list}");
}

fn is_told(what: &str, said: &Value, code: &str, words: &str) {
    let result = &said["result"];
    assert_eq!(result["isError"], true, "{what}: {said}");
    let text = result["content"][0]["text"].as_str().unwrap_or_else(|| panic!("{what}: {said}"));
    assert!(text.contains(words), "{what}: {said}");
    assert!(result.get("structuredContent").is_none(), "{what}: {said}");
    let error = &result["_meta"]["helve/error"];
    assert_eq!(error["code"], code, "{what}: {said}");
    assert!(error["kind"].is_string() && error["retryable"].is_boolean(), "{what}: {said}");
    if code == "approval_required" {
        let id = error["approval_id"].as_str().unwrap();
        assert_eq!(error["approval_command"], format!("helve approvals approve {id}"), "{what}: {said}");
        assert!(text.contains(id), "{what}: {said}");
    }
}

/// Programs, with the arguments that come before the target.
fn clients() -> Vec<(String, Vec<String>, bool)> {
    let node = |package: &str, mode: &str| {
        (
            peers::node(),
            vec![peers::script("calls.mjs"), package.to_owned(), mode.to_owned()],
            mode != "legacy",
        )
    };
    let python = |venv: &str, kind: &str, mode: &str| {
        let args = vec![peers::script("calls.py"), kind.to_owned(), mode.to_owned()];
        (peers::python(venv), args, kind == "fastmcp" && mode != "legacy")
    };
    vec![
        node("mcp-ts-current", "legacy"),
        node("mcp-ts-current", "auto"),
        node("@modelcontextprotocol/client", "auto"),
        node("@modelcontextprotocol/sdk", "legacy"),
        node("mcp-ts-previous", "legacy"),
        python("python-ws", "mcp", "legacy"),
        python("python", "mcp", "legacy"),
        python("python", "fastmcp", "legacy"),
        python("python", "fastmcp", "auto"),
    ]
}

#[expect(clippy::disallowed_methods, reason = "a test starts a program that others wrote")]
fn run_client(program: &str, args: &[String], target: &Value, calls: &Value) -> Value {
    let mut command = Command::new(program);
    command.args(args).args([target.to_string(), calls.to_string()]);
    let ran = command.env("HELVE_MCP_PEERS", peers::home()).output().unwrap();
    let said = String::from_utf8_lossy(&ran.stdout).into_owned();
    serde_json::from_str(&said)
        .unwrap_or_else(|_| panic!("{program} {args:?}: {said} {}", String::from_utf8_lossy(&ran.stderr)))
}

/// `helve mcp serve` as a client starts it.
pub(crate) fn stdio(home: &Home) -> Value {
    json!({
        "command": env!("CARGO_BIN_EXE_helve"),
        "args": ["mcp", "serve"],
        "cwd": home.project(),
        "env": { "HOME": home.project().parent().unwrap(), "PATH": "/usr/bin:/bin", "TZ": "UTC" },
    })
}

#[test]
fn over_stdio_every_client_learns_why_a_call_failed() {
    let home = project();
    for (program, args, stateless) in clients() {
        let told = run_client(&program, &args, &stdio(&home), &calls());
        check(&format!("{args:?}"), &told, stateless);
        assert!(!home.project().join("done").exists(), "{args:?}");
    }
}

#[test]
fn over_http_every_client_learns_why_a_call_failed() {
    let home = project();
    let up = Up::start(&home);
    let target = json!({ "url": format!("http://{}/mcp", up.address), "token": up.token() });
    for (program, args, stateless) in clients() {
        let told = run_client(&program, &args, &target, &calls());
        check(&format!("{args:?}"), &told, stateless);
        let deed = &told["said"][8]["result"];
        let page = format!("http://{}/approvals/", up.address);
        assert!(deed["content"][0]["text"].as_str().unwrap().contains(&page), "{deed}");
        assert!(deed["_meta"]["helve/error"]["approval_url"].as_str().unwrap().starts_with(&page), "{deed}");
        assert!(!home.project().join("done").exists(), "{args:?}");
    }
}

#[test]
fn the_inspector_shows_why_a_call_failed_in_all_eras() {
    let home = project();
    let up = Up::start(&home);
    inspect(&up, "legacy", "often");
    for era in ["legacy", "auto", "modern"] {
        // With the tasks extension a call that waits for a person is a task, and the inspector waits with it.
        let is_task = |tool: &str| tool == "deed" && era != "legacy";
        for (tool, code, words) in FAILURES.iter().filter(|(tool, ..)| !is_task(tool)) {
            let said = inspect(&up, era, tool);
            assert!(said.contains(words) && said.contains(code), "{era} {tool}: {said}");
            assert!(!said.contains("structuredContent"), "{era} {tool}: {said}");
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "a test starts a program that others wrote")]
fn inspect(up: &Up, era: &str, tool: &str) -> String {
    let mut command = Command::new("sh");
    command.arg(peers::script("inspector.sh")).arg(format!("http://{}/mcp", up.address));
    command.args(["--protocol-era", era, "--method", "tools/call", "--tool-name", tool, "--format", "json"]);
    command.args(["--header", &format!("Authorization: Bearer {}", up.token())]);
    let ran = command.env("HELVE_MCP_PEERS", peers::home()).output().unwrap();
    String::from_utf8_lossy(&ran.stdout).into_owned() + &String::from_utf8_lossy(&ran.stderr)
}

/// A composition of a step that is free and one that needs an approval; each leaves a line in `deeds`.
const TRIP: &str = "\
[[tool.program]]\nname = 'before'\ndescription = 'Does something.'\ncommand = 'sh'\n\
args = ['-c', 'echo before >> deeds; echo null']\nwrite = ['.']\n\
[[tool.program]]\nname = 'deed'\ndescription = 'Does something.'\ncommand = 'sh'\n\
args = ['-c', 'echo deed >> deeds; echo null']\nwrite = ['.']\nrequires_approval = true\n\
[[tool.sequence]]\nname = 'trip'\ndescription = 'Does both.'\n\
steps = [{ tool = 'before', arguments = {} }, { tool = 'deed', arguments = {} }]\n";

fn deeds(home: &Home) -> String {
    std::fs::read_to_string(home.project().join("deeds")).unwrap_or_default()
}

#[test]
fn a_stdio_client_that_comes_back_uses_the_approval_that_was_given_meanwhile() {
    for (program, args, _) in clients().into_iter().filter(|(_, args, _)| !args.contains(&"auto".to_owned()))
    {
        for (tool, waits, done) in [("deed", "", "deed\n"), ("trip", "before\n", "before\ndeed\n")] {
            let home = Home::new();
            home.write("helve.toml", TRIP);
            // Each time its own process, which ends with its client.
            let call = || {
                let calls = json!([{ "name": tool, "arguments": {} }]);
                run_client(&program, &args, &stdio(&home), &calls)["said"][0]["result"].clone()
            };
            let asked = call();
            let error = &asked["_meta"]["helve/error"];
            let id = error["approval_id"].as_str().unwrap_or_else(|| panic!("{args:?}: {asked}"));
            assert_eq!(
                call()["_meta"]["helve/error"]["approval_id"],
                id,
                "{args:?} {tool}: the same question"
            );
            assert_eq!(deeds(&home), waits, "{args:?} {tool}");
            let command = error["approval_command"].as_str().unwrap();
            assert!(asked["content"][0]["text"].as_str().unwrap().contains(command), "{asked}");
            let words: Vec<_> = command.split(' ').skip(1).collect();
            let ran = home.run(&words);
            assert_eq!(ran.code, 0, "{}", ran.all());
            let ended = call();
            assert_ne!(ended["isError"], true, "{args:?} {tool}: {ended}");
            assert_eq!(deeds(&home), done, "{args:?} {tool}");
            assert_eq!(call()["_meta"]["helve/error"]["code"], "approval_required", "{args:?} {tool}: once");
        }
    }
}

#[test]
fn a_repeated_call_gets_the_run_that_was_approved_over_http_and_the_command_line() {
    let home = Home::new();
    home.write("helve.toml", TRIP);
    let up = Up::start(&home);
    let token = up.token();
    let (_, asked) = up.call(&token, "trip", json!({}));
    let id = asked["approval_id"].as_str().unwrap_or_else(|| panic!("{asked}")).to_owned();
    assert_eq!(up.call(&token, "trip", json!({})).1["approval_id"], id.as_str());
    assert_eq!(home.run(&["approvals", "approve", &id]).code, 0);
    // The run goes on by itself here. A caller that calls again waits for it, or finds its end.
    let (status, ended) = up.call(&token, "trip", json!({}));
    assert_eq!((status, &ended["status"]), (200, &json!("done")), "{ended}");
    assert_eq!(deeds(&home), "before\ndeed\n");
    assert_ne!(up.call(&token, "trip", json!({})).1["approval_id"], id.as_str(), "another call");
    drop(up);

    let home = Home::new();
    home.write("helve.toml", TRIP);
    let asked: Value = serde_json::from_str(&home.run(&["call", "trip", "--json"]).stdout).unwrap();
    let id = asked["approval_id"].as_str().unwrap_or_else(|| panic!("{asked}"));
    assert_eq!(home.run(&["approvals", "approve", id]).code, 0);
    let ran = home.run(&["call", "trip", "--json"]);
    assert_eq!(ran.code, 0, "{}", ran.all());
    assert_eq!(deeds(&home), "before\ndeed\n");
}
