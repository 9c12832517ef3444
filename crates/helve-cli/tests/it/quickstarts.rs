//! The tutorial, the quickstarts, and the loops of agents over plain HTTP. Every block of shell in `docs/tutorial.md` and
//! `docs/quickstart-*.md` is run as it stands there, but for those that say whose program they need (`sh claude`,
//! `sh editor`) and the build of Helve itself (`sh build`).

use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};

use crate::home::{Home, until};
use crate::up::Up;

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn page(name: &str) -> String {
    std::fs::read_to_string(repository().join("docs").join(name)).unwrap()
}

/// The blocks of code in a page: what they are, and what they say.
fn blocks(page: &str) -> Vec<(&str, &str)> {
    let parts = page.split("```").skip(1).step_by(2);
    parts.map(|block| block.split_once('\n').unwrap()).collect()
}

/// A command that must end with this exit code.
fn ending(command: &str, code: u8) -> String {
    format!("if {command}then exit 1; else test $? -eq {code}; fi\n")
}

/// A model on loopback, ended with the test.
struct Model {
    child: Child,
    url: String,
}

impl Drop for Model {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Model {
    #[expect(clippy::disallowed_methods, reason = "a test starts its counterpart, no tool")]
    fn start() -> Self {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/scripted_model.py");
        let mut child = Command::new("python3").arg(script).stdout(Stdio::piped()).spawn().unwrap();
        let mut port = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut port).unwrap();
        Self { child, url: format!("http://127.0.0.1:{}", port.trim()) }
    }
}

/// A home with a running server in it, and a shell that finds both.
struct Desk {
    home: Home,
    up: Up,
}

impl Desk {
    fn new() -> Self {
        Self::at(Home::new())
    }

    fn at(home: Home) -> Self {
        let examples = home.project().join("examples");
        std::fs::create_dir(&examples).unwrap();
        std::fs::copy(repository().join("examples/agent_loop.py"), examples.join("agent_loop.py")).unwrap();
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let up = Up::at(&home, port);
        Self { home, up }
    }

    /// Runs a script as a person would have typed it; what it wrote. The address is this server's.
    #[expect(clippy::disallowed_methods, reason = "the tests run what the page shows")]
    fn shell(&self, script: &str, variables: &[(&str, &str)]) -> String {
        let helve = Path::new(env!("CARGO_BIN_EXE_helve")).parent().unwrap();
        let path = format!("{}:/usr/bin:/bin", helve.display());
        let script = script.replace("127.0.0.1:7777", &self.up.address);
        let mut command = Command::new("bash");
        command.args(["-euc", &script]).current_dir(self.home.project()).env_clear();
        command.env("HOME", self.home.project().parent().unwrap()).env("PATH", path);
        let ran = command.envs(variables.iter().copied()).output().unwrap();
        let (out, err) = (String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr));
        assert!(ran.status.success(), "{script}\n{out}\n{err}");
        format!("{out}\n{err}")
    }

    /// Runs all that a page shows, in order, in one shell.
    fn run_page(&self, name: &str, variables: &[(&str, &str)]) -> String {
        let page = page(name);
        let mut script = String::new();
        for (kind, text) in blocks(&page) {
            match kind {
                // It runs already.
                "sh" if text == "helve up\n" => {}
                "sh" => script.push_str(text),
                "sh fails" => script.push_str(&ending(text, 2)),
                "sh asks" => script.push_str(&ending(text, 3)),
                "sh denied" => script.push_str(&ending(text, 4)),
                _ => {}
            }
        }
        assert!(!script.is_empty(), "{name} shows no command");
        self.shell(&script, variables)
    }
}

#[test]
fn the_tutorial_runs_as_shown() {
    let said = Desk::new().run_page("tutorial.md", &[]);
    for expected in [
        "\"text\": \"0.3\"",
        "mended /expression",
        "did you mean `math-eval`?",
        "\n42\n",
        "{\"invoice\":\"2026-17\"}",
        "waiting: a person must approve this call first",
        "denied by `rule deny file-read(.env)`: a rule of the project on this machine says so",
        "nothing was changed or removed",
    ] {
        assert!(said.contains(expected), "{expected}: {said}");
    }
}

#[test]
fn the_quickstart_for_python_runs_as_shown() {
    let (desk, model) = (Desk::new(), Model::start());
    let variables =
        [("ANTHROPIC_BASE_URL", &*model.url), ("ANTHROPIC_API_KEY", "k"), ("ANTHROPIC_MODEL", "m")];
    let said = desk.run_page("quickstart-python.md", &variables);
    assert!(said.contains("17% of 4,250 is 722.5."), "{said}");
    assert!(said.contains("math-eval"), "the journal tells of it: {said}");
    let example = std::fs::read_to_string(repository().join("examples/agent_loop.py")).unwrap();
    let page = page("quickstart-python.md");
    let shown = blocks(&page).into_iter().find(|(kind, _)| *kind == "python").unwrap().1;
    assert!(example.contains(shown), "the page shows the loop of the example");
    assert!(shown.lines().count() < 14, "a dozen lines");
}

#[test]
fn the_same_loop_runs_in_every_providers_format() {
    let (desk, model) = (Desk::new(), Model::start());
    let key = desk.up.key(&desk.home, &["reviewer", "--agent"]);
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/agent_loops.py");
    let url = format!("http://{}", desk.up.address);
    let variables = [
        ("HELVE_URL", &*url),
        ("HELVE_KEY", &*key),
        ("ANTHROPIC_BASE_URL", &*model.url),
        ("ANTHROPIC_API_KEY", "k"),
        ("ANTHROPIC_MODEL", "m"),
    ];
    let said = desk.shell(&format!("python3 {} examples/agent_loop.py", script.display()), &variables);
    for format in ["anthropic", "openai", "openai-chat", "gemini"] {
        assert!(said.contains(&format!("{format} 17% of 4,250 is 722.5.")), "{said}");
    }
}

/// A loop that took the first page for all would hide tools from its model.
#[test]
fn the_example_reads_every_page_of_tools() {
    let home = Home::new();
    let tool = |n: usize| {
        format!(
            "[[tool.http]]\nname = \"tool-{n}\"\ndescription = \"One of many.\"\nurl = \"https://example.com/{n}\"\n"
        )
    };
    let config: String = (0..230).map(tool).collect();
    home.write("helve.toml", &config);
    let desk = Desk::at(home);
    let key = desk.up.key(&desk.home, &["reviewer", "--agent"]);
    let url = format!("http://{}", desk.up.address);
    let variables =
        [("HELVE_URL", &*url), ("HELVE_KEY", &*key), ("ANTHROPIC_API_KEY", "k"), ("ANTHROPIC_MODEL", "m")];
    let count = "import sys; sys.path.insert(0, 'examples'); import agent_loop; \
                 print(len([t for t in agent_loop.all_tools('anthropic') if t['name'].startswith('tool-')]))";
    let counted = desk.shell(&format!("python3 -c \"{count}\""), &variables);
    assert_eq!(counted.trim(), "230");
}

#[test]
fn the_quickstart_for_claude_code_runs_as_shown() {
    let desk = Desk::new();
    let said = desk.run_page("quickstart-claude-code.md", &[]);
    assert!(said.contains("secrets live there"), "{said}");
    // What Claude Code would read: a command for each event, which is one of ours.
    let settings = std::fs::read_to_string(desk.home.project().join(".claude/settings.json")).unwrap();
    let settings: Value = serde_json::from_str(&settings).unwrap();
    for event in ["PreToolUse", "PostToolUse"] {
        let command = settings["hooks"][event][0]["hooks"][0]["command"].as_str().unwrap();
        desk.shell(&format!("echo '{{\"tool_name\": \"Read\", \"tool_input\": {{}}}}' | {command}"), &[]);
    }
}

/// The page's hook goes where Helve reads it, also for those who keep their configuration elsewhere.
#[test]
fn the_quickstart_for_claude_code_works_with_another_configuration_folder() {
    let desk = Desk::new();
    let config = desk.home.project().parent().unwrap().join("settings");
    let said = desk.run_page("quickstart-claude-code.md", &[("XDG_CONFIG_HOME", config.to_str().unwrap())]);
    assert!(said.contains("secrets live there"), "{said}");
    assert!(config.join("helve/helve.toml").exists());
}

#[test]
fn the_quickstart_for_editors_configures_servers_that_answer() {
    let desk = Desk::new();
    desk.run_page("quickstart-editors.md", &[]);
    let page = page("quickstart-editors.md");
    let files = page.split("<<'END'\n").skip(1).map(|text| text.split("\nEND").next().unwrap());
    let mut found = Vec::new();
    for file in files {
        let file: Value = serde_json::from_str(file).unwrap();
        let server =
            [&file["mcpServers"]["helve"], &file["servers"]["helve"]].into_iter().find(|one| one.is_object());
        let server = server.unwrap();
        match server["command"].as_str() {
            Some(program) => answers_over_stdio(&desk, program, &server["args"]),
            None => answers_over_http(&desk, server),
        }
        found.push(server["command"].is_string());
    }
    assert_eq!(found, [true, false, true, false], "each editor, started and over HTTP");
}

fn initialize() -> Value {
    let client = json!({ "name": "an-editor", "version": "1" });
    json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize",
        "params": { "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client } })
}

fn answers_over_stdio(desk: &Desk, program: &str, args: &Value) {
    let args: Vec<_> = args.as_array().unwrap().iter().map(|arg| arg.as_str().unwrap()).collect();
    let messages = [
        initialize(),
        json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }),
        json!({ "jsonrpc": "2.0", "id": 2, "method": "tools/list" }),
    ];
    let lines: Vec<_> = messages.iter().map(|message| format!("'{message}'")).collect();
    let said = desk.shell(&format!("printf '%s\\n' {} | {program} {}", lines.join(" "), args.join(" ")), &[]);
    assert!(said.contains("math-eval"), "{said}");
}

fn answers_over_http(desk: &Desk, server: &Value) {
    assert_eq!(server["url"], "http://127.0.0.1:7777/mcp", "where `helve up` is");
    let header = server["headers"]["Authorization"].as_str().unwrap();
    let key = desk.up.key(&desk.home, &["an-editor", "--agent"]);
    let bearer = format!("{}{key}", header.split("${").next().unwrap());
    let headers = [("Authorization", &*bearer), ("Accept", "application/json, text/event-stream")];
    let (status, head, _) = desk.up.send("POST /mcp", &headers, &initialize());
    assert_eq!(status, 200, "{head}");
}

#[test]
fn the_quickstart_for_rust_shows_the_example_that_is_run() {
    let example = std::fs::read_to_string(repository().join("examples/quickstart.rs")).unwrap();
    let page = page("quickstart-rust.md");
    let shown = blocks(&page).into_iter().find(|(kind, _)| *kind == "rust").unwrap().1;
    assert!(example.ends_with(shown), "docs/quickstart-rust.md shows examples/quickstart.rs");
    let embedded = std::fs::read_to_string(repository().join("examples/embed.rs")).unwrap();
    let shown = blocks(&page).into_iter().filter(|(kind, _)| *kind == "rust").nth(1).unwrap().1;
    assert!(embedded.contains(shown), "and lines of examples/embed.rs");
    let desk = Desk::new();
    desk.run_page("quickstart-rust.md", &[]);
    assert!(desk.home.project().join("agent/Cargo.toml").exists());
}

/// A loop that comes back after the server was killed gets what its message did before.
#[test]
fn a_message_is_answered_from_the_record_after_the_server_was_killed() {
    let home = Home::new();
    let up = Up::start(&home);
    let key = up.key(&home, &["reviewer", "--agent"]);
    let call =
        json!({ "type": "tool_use", "id": "toolu_1", "name": "math-eval", "input": { "expression": "6*7" } });
    let message = json!({ "message": { "role": "assistant", "content": [call] }, "session": "s" });
    let (status, first) = up.with("POST /v1/answers", &key, message.clone());
    assert_eq!((status, &first["calls"][0]["status"]), (200, &json!("done")), "{first}");
    up.kill();
    let up = Up::start(&home);
    until("the key is known", || up.with("GET /v1/me", &key, Value::Null).0 == 200);
    let (status, again) = up.with("POST /v1/answers", &key, message);
    assert_eq!((status, &again["calls"][0]["replayed"]), (200, &json!(true)), "{again}");
    assert_eq!(again["messages"], first["messages"]);
}
