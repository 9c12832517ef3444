//! The first hour of a new user: server and commands on one journal, a configuration that is followed while the
//! server runs, and links and commands that can be copied on any terminal.

use std::io::{BufRead, BufReader, Read, Write};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};

use crate::home::{Home, until};
use crate::up::Up;

/// Every journal below a home.
fn journals(home: &Home) -> Vec<PathBuf> {
    let user = home.project().parent().unwrap().join(".local/state/helve/helve.db");
    let own = home.project().join(".helve/helve.db");
    [user, own].into_iter().filter(|file| file.exists()).collect()
}

fn calls(home: &Home) -> usize {
    home.json(&["audit", "list"]).as_array().unwrap().len()
}

fn tool(name: &str, says: &str) -> String {
    format!(
        "[[tool.program]]\nname = '{name}'\ndescription = 'Says a word.'\ncommand = 'echo'\nargs = ['\"{says}\"']\n"
    )
}

fn output(up: &Up, name: &str) -> Value {
    up.call(&up.token(), name, json!({})).1["result"].clone()
}

/// A `helve up` whose words on standard error can be read.
struct Talking {
    up: Up,
    said: PathBuf,
}

impl Talking {
    fn start(home: &Home) -> Self {
        let said = home.project().parent().unwrap().join("said");
        let file = std::fs::File::create(&said).unwrap();
        let mut command = home.command(&["up", "--listen", "127.0.0.1:0", "--json"]);
        let mut child = command.stdout(Stdio::piped()).stderr(file).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
        let told = lines.find_map(|line| {
            serde_json::from_str::<Value>(&line).ok().filter(|told| told["listening"].is_string())
        });
        let told = told.unwrap();
        let address = told["listening"].as_str().unwrap().to_owned();
        Self { up: Up { child, address, told }, said }
    }

    fn said(&self) -> String {
        std::fs::read_to_string(&self.said).unwrap()
    }

    fn hear(&self, text: &str) {
        until(text, || self.said().contains(text));
    }
}

#[test]
fn a_project_made_while_a_server_runs_shares_its_journal() {
    let by_init: fn(&Home) = |home| {
        let ran = home.run(&["init"]);
        assert!(ran.stderr.contains("which the running `helve up` uses"), "{}", ran.all());
    };
    let by_add: fn(&Home) = |home| {
        let ran = home.run(&["mcp", "add", "--no-test", "--yes", "x", "http://127.0.0.1:9/mcp"]);
        assert_eq!(ran.code, 0, "{}", ran.all());
    };
    for make in [by_init, by_add] {
        let home = Home::new();
        let up = Up::anywhere(&home);
        make(&home);
        assert_eq!(home.run(&["call", "time-now"]).code, 0);
        up.call(&up.token(), "time-now", json!({}));
        assert_eq!((journals(&home).len(), calls(&home)), (1, 2));
        // Commands find that server, and nobody starts a second one by accident.
        let again = home.run(&["up", "--json"]);
        assert!(again.stdout.contains("already_up"), "{}", again.all());
        until("it is written down", || {
            let projects = home.project().parent().unwrap().join(".local/state/helve/projects");
            let mut files = std::fs::read_dir(projects).into_iter().flatten().flatten();
            files.any(|file| std::fs::read_to_string(file.path()).unwrap().contains("journal = "))
        });
        up.kill();
        assert_eq!(home.run(&["call", "time-now"]).code, 0);
        assert_eq!((journals(&home).len(), calls(&home)), (1, 3), "it goes on when the server has ended");
    }
}

/// A program in a box can write such a file.
#[test]
fn a_project_written_by_hand_is_not_taken_up_by_a_server_that_runs() {
    let home = Home::new();
    let up = Talking::start(&home);
    home.write("helve.toml", tool("a", "one"));
    up.hear("there is a new helve.toml at");
    up.hear("needs a restart, and counts after it: helve.toml");
    // The user's own file is followed all the same.
    let own = home.project().parent().unwrap().join(".config/helve");
    std::fs::create_dir_all(&own).unwrap();
    std::fs::write(own.join("helve.toml"), "[rules]\ndeny = ['math-eval']\n").unwrap();
    let status = |tool: &str| up.up.call(&up.up.token(), tool, json!({ "expression": "1+1" })).0;
    until("the rule counts", || status("math-eval") == 403);
    assert_eq!(status("a"), 404);
    assert_eq!(up.said().matches("there is a new helve.toml").count(), 1, "{}", up.said());
    let doctor = home.run(&["doctor"]);
    assert!(doctor.stdout.contains("was started with another helve.toml"), "{}", doctor.stdout);
    assert_eq!(home.run(&["call", "time-now"]).code, 0);
    assert_eq!(journals(&home).len(), 1, "commands share the server's journal");
}

/// `helve init` writes the file, and only then down that it was made here. A server that looks in between must not
/// ask for a restart that nobody needs.
#[test]
fn a_file_that_becomes_known_a_moment_later_is_taken_up_without_a_word() {
    let home = Home::new();
    let up = Talking::start(&home);
    home.write("helve.toml", tool("a", "one"));
    // Longer than it takes the server to see the file.
    std::thread::sleep(std::time::Duration::from_millis(1_200));
    assert_eq!(home.run(&["rules", "deny", "math-eval", "--in", "local"]).code, 0);
    until("its tools", || up.up.call(&up.up.token(), "a", json!({})).0 == 200);
    assert!(!up.said().contains("restart"), "{}", up.said());
}

#[test]
fn a_project_that_shares_a_journal_is_trusted_before_it_changes_what_that_remembers() {
    let home = Home::new();
    let effect = "effects = [{ type = 'memory', scope = 'long-term', operation = 'write', key = 'k', description = 'Kept.' }]\n";
    let file = tool("a", "one") + effect;
    let _up = Up::start(&home);
    assert_eq!(home.run(&["init"]).code, 0);
    home.write("helve.toml", &file);
    let ran = home.run(&["call", "a"]);
    assert!(ran.code == 4 && ran.stderr.contains("your own journal remembers"), "{}", ran.all());
    assert_eq!(home.run(&["trust", "--yes"]).code, 0);
    assert_eq!(home.run(&["call", "a"]).code, 0);
    // With its own journal a project remembers what it likes.
    let other = Home::new();
    other.write("helve.toml", file);
    let ran = other.run(&["call", "a"]);
    assert_eq!(ran.code, 0, "{}", ran.all());
}

#[test]
fn a_project_elsewhere_has_a_journal_of_its_own() {
    let home = Home::new();
    let other = home.project().join("other");
    std::fs::create_dir_all(other.join(".git")).unwrap();
    let _up = Up::anywhere(&home);
    std::fs::write(other.join("helve.toml"), "").unwrap();
    let done = home.command(&["call", "time-now"]).current_dir(&other).output().unwrap();
    assert!(done.status.success());
    assert!(other.join(".helve/helve.db").exists());
}

#[test]
fn a_journal_that_is_there_is_gone_on_with_and_the_server_asks_for_a_restart() {
    let home = Home::new();
    let ran = home.run(&["init"]);
    assert!(ran.stderr.contains("calls here are recorded in .helve/helve.db"), "{}", ran.all());
    home.run(&["call", "time-now"]);
    let text = std::fs::read(home.project().join("helve.toml")).unwrap();
    std::fs::remove_file(home.project().join("helve.toml")).unwrap();
    let up = Talking::start(&home);
    home.write("helve.toml", text);
    up.hear("needs a restart, and counts after it: helve.toml");
    assert_eq!(calls(&home), 1, "nothing that was recorded is lost");
    let doctor = home.run(&["doctor"]);
    assert!(doctor.stdout.contains("was started with another helve.toml"), "{}", doctor.stdout);
}

#[test]
fn a_cloned_folder_does_not_choose_the_journal() {
    let home = Home::new();
    home.write("helve.toml", "[journal]\npath = '../../elsewhere.db'\n");
    let ran = home.run(&["call", "time-now"]);
    assert!(ran.stderr.contains("`journal.path` of the project does not count"), "{}", ran.stderr);
    assert_eq!(journals(&home), [home.project().join(".helve/helve.db")]);
}

#[test]
fn a_running_server_follows_its_tools() {
    let home = Home::new();
    home.write("helve.toml", tool("a", "one") + &tool("b", "two"));
    let up = Talking::start(&home);
    assert_eq!(output(&up.up, "a"), "one");
    home.write("helve.toml", tool("a", "other") + &tool("c", "three"));
    until("the new one", || output(&up.up, "c") == "three");
    assert_eq!(output(&up.up, "a"), "other");
    assert_eq!(up.up.call(&up.up.token(), "b", json!({})).0, 404);
    for said in ["tools added: c", "tools removed: b", "tools changed: a"] {
        up.hear(said);
    }
    // The built-in ones are followed too, and those that are made of others.
    let composed = "[[tool.sequence]]\nname = 'both'\ndescription = 'Calls another.'\n\
                    steps = [{ name = 'x', tool = 'a' }]\n";
    home.write("helve.toml", format!("[builtin]\nwithout = ['math-eval']\n{}{composed}", tool("a", "one")));
    until("the composition", || output(&up.up, "both").to_string().contains("one"));
    assert_eq!(up.up.call(&up.up.token(), "math-eval", json!({ "expression": "1" })).0, 404);
}

#[test]
fn what_works_goes_on_while_the_file_has_a_mistake_and_mending_is_said_once() {
    let home = Home::new();
    home.write("helve.toml", tool("a", "one"));
    let up = Talking::start(&home);
    let not_found = |name: &str| up.up.call(&up.up.token(), name, json!({})).0 == 404;
    // Of the whole file.
    home.write("helve.toml", tool("a", "other") + "[execution]\nmaxx = 1\n");
    up.hear("stays as it was: helve.toml:7:1  `execution.maxx` is not a key");
    assert_eq!(output(&up.up, "a"), "one");
    home.write("helve.toml", tool("a", "other"));
    up.hear("the configuration is mended, and followed again");
    until("the mended one", || output(&up.up, "a") == "other");
    // Of a tool that works: nothing is exchanged.
    home.write("helve.toml", tool("a", "third").replace("command", "commandd") + &tool("b", "two"));
    up.hear("`tool.program[0].commandd` is not a key");
    assert_eq!(output(&up.up, "a"), "other");
    assert!(not_found("b"));
    let doctor = home.run(&["doctor"]);
    assert!(doctor.stdout.contains("goes on with what it had"), "{}", doctor.stdout);
    home.write("helve.toml", tool("a", "third") + &tool("b", "two"));
    until("both", || output(&up.up, "a") == "third" && output(&up.up, "b") == "two");
    // Of a tool that is new: the others are followed.
    let whole = tool("a", "third") + &tool("b", "two");
    home.write("helve.toml", format!("{whole}{}colour = 1\n{}", tool("c", "x"), tool("d", "four")));
    until("the others", || output(&up.up, "d") == "four");
    let (status, answer) = up.up.call(&up.up.token(), "c", json!({}));
    assert!(status == 424 && answer["detail"].as_str().unwrap().contains("`c` is broken"), "{answer}");
    home.write("helve.toml", whole + &tool("c", "x") + &tool("d", "four"));
    until("all", || output(&up.up, "c") == "x");
    until("it is said", || up.said().matches("the configuration is mended").count() == 3);
    let doctor = home.run(&["doctor"]);
    assert!(doctor.stdout.contains("`helve up` runs at"), "{}", doctor.stdout);
}

#[test]
fn keys_that_cannot_be_followed_are_named_until_they_are_as_they_were() {
    let home = Home::new();
    home.write("helve.toml", "");
    let up = Talking::start(&home);
    home.write("helve.toml", "[limits]\nresult_bytes = 2000\n[execution]\ncancel_grace_ms = 7\n");
    up.hear("needs a restart, and counts after it: execution.cancel_grace_ms, limits.result_bytes");
    assert!(!up.said().contains("counts for tools now"), "{}", up.said());
    for command in [&["tools", "list"][..], &["doctor"], &["up"]] {
        let ran = home.run(command);
        let said = "was started with another execution.cancel_grace_ms, limits.result_bytes";
        assert!(ran.all().contains(said), "{command:?}\n{}", ran.all());
    }
    home.write("helve.toml", "# as it was\n");
    up.hear("no restart is needed any more");
    assert!(!home.run(&["tools", "list"]).stderr.contains("was started with"));
}

#[test]
fn a_server_added_while_helve_runs_is_reached_on_this_machine() {
    let (home, behind) = (Home::new(), Home::new());
    let other = Up::start(&behind);
    let token = other.token();
    let variables = [("BEHIND", token.as_str())];
    let up = Up::start_with_env(&home, &[], &variables);
    let url = other.told["url"].as_str().unwrap();
    let header = "Authorization=Bearer env:BEHIND";
    let ran = home.run_with(&["mcp", "add", "--yes", "--header", header, "behind", url], &variables, b"");
    assert_eq!(ran.code, 0, "{}", ran.all());
    until("its tools", || up.call(&up.token(), "behind/math-eval", json!({ "expression": "1+1" })).0 == 200);
}

#[test]
fn a_server_that_breaks_while_helve_runs_goes_on() {
    let (home, behind) = (Home::new(), Home::new());
    let other = Up::start(&behind);
    let server = |more: &str| {
        format!(
            "[mcp.servers.behind]\nurl = '{}'\n\
             headers = {{ Authorization = {{ env = 'BEHIND', prefix = 'Bearer ' }} }}\n{more}",
            other.told["url"].as_str().unwrap()
        )
    };
    home.write("helve.toml", server(""));
    let up = Up::start_with_env(&home, &["--config", "helve.toml"], &[("BEHIND", &other.token())]);
    let works = || up.call(&up.token(), "behind/math-eval", json!({ "expression": "1+1" })).0 == 200;
    until("its tools", works);
    home.write("helve.toml", server("colour = 'red'\n") + &tool("a", "one"));
    // Called, it would label the session, and what the server gets would have to be approved.
    until("the rest is followed", || {
        up.with("GET /v1/tools", &up.token(), Value::Null).1.to_string().contains("\"name\":\"a\"")
    });
    assert!(works());
}

#[test]
fn a_client_on_stdio_is_told_of_new_tools() {
    let home = Home::new();
    home.write("helve.toml", "");
    let mut command = home.command(&["mcp", "serve"]);
    let child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut child = Ended(child);
    let mut stdin = child.0.stdin.take().unwrap();
    let mut lines = BufReader::new(child.0.stdout.take().unwrap()).lines().map(Result::unwrap);
    let hello = json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": { "name": "t", "version": "1" } } });
    writeln!(stdin, "{hello}").unwrap();
    lines.next().unwrap();
    writeln!(stdin, "{}", json!({ "jsonrpc": "2.0", "method": "notifications/initialized" })).unwrap();
    home.write("helve.toml", tool("a", "one"));
    lines.find(|line| line.contains("notifications/tools/list_changed")).unwrap();
    writeln!(stdin, "{}", json!({ "jsonrpc": "2.0", "id": 2, "method": "tools/list" })).unwrap();
    let listed = lines.find(|line| line.contains("\"id\":2")).unwrap();
    assert!(listed.contains("\"name\":\"a\""), "{listed}");
}

/// A process that ends with the test.
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// What a command writes to a terminal of so many columns, up to a text that it ends with.
#[expect(clippy::disallowed_methods, reason = "a terminal is made by a program that others wrote")]
fn on_terminal(home: &Home, columns: u16, args: &str, end: &str) -> String {
    let line = format!("stty cols {columns}; exec {} {args}", env!("CARGO_BIN_EXE_helve"));
    let mut command = Command::new("script");
    command.args(["-q", "-c", &line, "/dev/null"]).current_dir(home.project()).env_clear();
    command.env("HOME", home.project().parent().unwrap()).env("PATH", "/usr/bin:/bin").env("NO_COLOR", "1");
    command.env("TERM", "xterm").env("TZ", "UTC");
    let mut child = Ended(command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap());
    let mut out = child.0.stdout.take().unwrap();
    let (mut seen, mut some) = (Vec::new(), [0; 4096]);
    loop {
        let read = out.read(&mut some).unwrap_or(0);
        seen.extend_from_slice(&some[..read]);
        let text = String::from_utf8_lossy(&seen).replace('\r', "");
        if read == 0 || (!end.is_empty() && text.contains(end)) {
            return text;
        }
    }
}

/// A text stands whole on one line.
fn assert_whole(text: &str, whole: &str, columns: u16) {
    assert!(text.lines().any(|line| line.contains(whole)), "{columns} columns, `{whole}`:\n{text}");
}

#[test]
fn links_and_commands_stand_whole_on_terminals_of_any_width() {
    for columns in [20, 40, 60, 80, 120] {
        let home = Home::new();
        let text = on_terminal(&home, columns, "up --listen 127.0.0.1:0", "arguments `mcp serve`");
        let address = text.split("http://").nth(1).unwrap().split("/mcp").next().unwrap();
        let token = home.project().parent().unwrap().canonicalize().unwrap().join(".local/state/helve/token");
        let header = format!("--header \"Authorization: Bearer $(cat {})\"", token.display());
        for whole in [
            format!("claude mcp add --transport http helve http://{address}/mcp {header}"),
            format!(
                "npx @modelcontextprotocol/inspector --cli http://{address}/mcp --method tools/list {header}"
            ),
            format!("http://{address}/v1/openapi.json"),
            "helve call math-eval expression='2^10 / 3'".to_owned(),
            "helve tools export --format anthropic".to_owned(),
            format!("in {}", token.display()),
        ] {
            assert_whole(&text, &whole, columns);
        }
        let link = text.lines().find_map(|line| line.split_once("/sign-in#")).unwrap().1;
        let code = link.split_whitespace().next().unwrap();
        assert!(code.len() > 20 && !code.contains('…'), "{columns}: {link}");
    }
}

#[test]
fn what_to_do_next_is_whole_on_terminals_of_any_width() {
    for columns in [20, 40, 80] {
        let home = Home::new();
        let pay = "[[tool.program]]\nname = 'pay'\ndescription = 'Pays.'\ncommand = 'true'\nrisk = 'high'\n";
        home.write("helve.toml", format!("{pay}[[tool.http]]\nname = 'bad'\n"));
        home.write("p.cedar", "nonsense");
        let see = |args: &str| on_terminal(&home, columns, args, "");
        assert_whole(&see("doctor"), "`helve tools lint helve.toml`", columns);
        assert_whole(&see("tools list"), "`helve tools lint helve.toml`", columns);
        assert_whole(&see("doctor --set policy.files=p.cedar"), "`helve policy check`", columns);
        let asked = home.run(&["call", "pay"]);
        assert_eq!(asked.code, 3, "{}", asked.all());
        let pending = home.json(&["approvals", "list"]);
        let id = pending[0]["id"].as_str().unwrap();
        assert_whole(&see("approvals list"), id, columns);
        let shown = see(&format!("approvals show {id}"));
        assert_whole(&shown, &format!("helve approvals approve {id}"), columns);
        assert_whole(&see("keys sign-in"), "no `helve up` runs here", columns);
    }
}

#[test]
fn a_path_of_any_length_is_whole_in_the_command_to_copy_and_is_one_word_there() {
    let home = Home::new();
    for (name, quote) in [("token", ""), ("my token", "'")] {
        let folder = home.project().join("x".repeat(200)).join("y".repeat(250));
        std::fs::create_dir_all(&folder).unwrap();
        let file = folder.join(name);
        let args = format!("up --listen 127.0.0.1:0 --token-file '{}'", file.display());
        let text = on_terminal(&home, 80, &args, "arguments `mcp serve`");
        let file = file.canonicalize().unwrap();
        assert_whole(&text, &format!("Bearer $(cat {quote}{}{quote})\"", file.display()), 80);
    }
}

/// An address is there to be copied.
#[test]
fn addresses_of_servers_stand_whole_on_terminals_of_any_width() {
    let url = format!("https://mcp.example.com/{}/mcp", "tenant".repeat(8));
    for columns in [20, 60, 80, 120] {
        let home = Home::new();
        home.write(
            "helve.toml",
            format!("[mcp.servers.docs]\nurl = '{url}'\n[mcp.servers.b]\ncommand = 'true'\n"),
        );
        assert_whole(&on_terminal(&home, columns, "mcp list", ""), &url, columns);
    }
}

/// `helve mcp serve` before there is a project leaves its calls in the user's journal. Who looks for them in the
/// project's is told where they are.
#[test]
fn whoever_looks_into_one_journal_is_told_of_the_other() {
    let home = Home::new();
    assert_eq!(home.run(&["call", "math-eval", "expression=1+1"]).code, 0);
    let made = home.run(&["init"]);
    assert!(made.all().contains("~/.local/state/helve/helve.db"), "{}", made.all());
    let listed = home.run(&["audit", "list"]);
    let command = "helve audit list --set journal.path='~/.local/state/helve/helve.db'";
    assert!(listed.all().contains(command), "{}", listed.all());
    let there = home.json(&["audit", "list", "--set", "journal.path=~/.local/state/helve/helve.db"]);
    assert_eq!(there[0]["tool"], "math-eval");
    assert!(home.run(&["doctor"]).stdout.contains("calls without a project are in ~/.local/state"));
    let made = home.run(&["keys", "create", "ci", "--service"]);
    assert!(made.stderr.contains("those that use ~/.local/state/helve/helve.db do not"), "{}", made.all());
}

/// What fits the schema is not yet what works: `text` is a text, and no expression.
#[test]
fn the_arguments_shown_beside_an_error_work() {
    let home = Home::new();
    for tool in ["math-eval", "text-stats", "json-query"] {
        let ran = home.run(&["call", tool, "nonsense=1"]);
        assert_eq!(ran.code, 2, "{}", ran.all());
        let shown =
            ran.stderr.lines().find_map(|line| line.strip_prefix("for example: helve call ")).unwrap();
        let (named, arguments) = shown.split_once(' ').unwrap();
        let again = home.run(&["call", named, arguments.trim_matches('\'')]);
        assert_eq!((named, again.code), (tool, 0), "{shown}\n{}", again.all());
    }
}
