//! Hooks from configuration: real commands in real boxes, a real server, and the hooks that people
//! have for Claude Code.

use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::http::{HeaderMap, StatusCode};
use axum::routing::post;
use helve::hook::{HookEvent, HookInput};
use helve::hooks::HookSet;
use helve::{Call, Context, ErrorCode, Outcome, Runtime, Source, Tool, ToolError};
use helve_net::NetPolicy;
use helve_sandbox::Sandbox;
use helve_tools::hooks::{HookGroup, HookMaker};
use helve_tools::web::client::LazyClient;
use rustix::fs::{FlockOperation, flock};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

/// Reads `[[hooks.EVENT]]` groups as they stand in a helve.toml.
fn set(toml: &str, folder: &Path) -> Result<HookSet, String> {
    let policy = NetPolicy::allowing(["127.0.0.1"]).unwrap();
    let maker = HookMaker::new(Arc::new(Sandbox::default()), LazyClient::new(policy));
    let file: Value = toml::from_str(toml).map_err(|error| error.to_string())?;
    let mut set = HookSet::default().in_folder(folder.to_str().unwrap());
    for (event, groups) in file["hooks"].as_object().unwrap() {
        let event: HookEvent = event.parse().unwrap();
        for group in groups.as_array().unwrap() {
            let group: HookGroup =
                serde_json::from_value(group.clone()).map_err(|error| error.to_string())?;
            let entries = maker.make(&event, &group, folder).map_err(|problems| {
                problems
                    .iter()
                    .map(|one| format!("{}: {}", one.at, one.message))
                    .collect::<Vec<_>>()
                    .join("; ")
            })?;
            set = entries.into_iter().fold(set, HookSet::with);
        }
    }
    Ok(set)
}

struct Bench {
    runtime: Runtime,
    /// How often a tool ran.
    ran: Arc<AtomicU32>,
    folder: tempfile::TempDir,
}

impl Bench {
    fn new(toml: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        Self::within(toml, folder)
    }

    fn within(toml: &str, folder: tempfile::TempDir) -> Self {
        let ran = Arc::new(AtomicU32::new(0));
        let tool = |name: &str, field: &str| {
            let (ran, folder) = (Arc::clone(&ran), folder.path().to_owned());
            Tool::builder(name)
                .description("Stands in for a tool that ships with Helve.")
                .input_schema(json!({ "type": "object", "required": [field], "properties": {
                    field: { "type": "string" }, "content": { "type": "string" } } }))
                .source(Source::Builtin)
                .read_only()
                .handler(move |arguments: Value, _: Context| {
                    ran.fetch_add(1, Ordering::SeqCst);
                    let folder = folder.clone();
                    async move {
                        if let (Some(path), Some(content)) =
                            (arguments["path"].as_str(), arguments["content"].as_str())
                        {
                            std::fs::write(folder.join(path), content).unwrap();
                        }
                        Ok::<_, ToolError>(arguments)
                    }
                })
        };
        let runtime = Runtime::builder()
            .tool(tool("code-execute", "code"))
            .unwrap()
            .tool(tool("file-write", "path"))
            .unwrap()
            .hooks(set(toml, folder.path()).unwrap())
            .build();
        Self { runtime, ran, folder }
    }

    async fn run(&self, code: &str) -> Outcome {
        self.runtime.call(Call::new("code-execute", json!({ "code": code }))).await
    }

    async fn write(&self, path: &str) -> Outcome {
        self.runtime.call(Call::new("file-write", json!({ "path": path, "content": "a  b" }))).await
    }

    fn ran(&self) -> u32 {
        self.ran.load(Ordering::SeqCst)
    }
}

fn denied(outcome: &Outcome, expected: &str) {
    let error = outcome.error().unwrap_or_else(|| panic!("{outcome:?}"));
    assert_eq!(error.code(), ErrorCode::HookDenied, "{error}");
    assert!(error.message().contains(expected), "{error}");
}

/// The best-known hook of all.
#[tokio::test]
async fn public_example_block_dangerous_commands() {
    let bench = Bench::new(
        r#"
        [[hooks.PreToolUse]]
        matcher = "Bash"
        hooks = [{ type = "command", command = """
        command=$(jq -r '.tool_input.command')
        if echo "$command" | grep -qE 'rm -(rf|fr)'; then
          echo 'rm -rf is not allowed' >&2
          exit 2
        fi
        """ }]"#,
    );
    assert!(bench.run("ls").await.is_success());
    denied(&bench.run("rm -rf /").await, "rm -rf is not allowed");
    assert!(bench.write("rm -rf").await.is_success());
    assert_eq!(bench.ran(), 2);
}

#[tokio::test]
async fn public_example_protect_files_with_a_script_of_the_project() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir_all(folder.path().join(".claude/hooks")).unwrap();
    let script = r#"#!/bin/bash
INPUT=$(cat)
FILE_PATH=$(echo "$INPUT" | jq -r '.tool_input.file_path // empty')
for pattern in ".env" "package-lock.json" ".git/"; do
  if [[ "$FILE_PATH" == *"$pattern"* ]]; then
    echo "Blocked: $FILE_PATH matches protected pattern '$pattern'" >&2
    exit 2
  fi
done
exit 0
"#;
    std::fs::write(folder.path().join(".claude/hooks/protect-files.sh"), script).unwrap();
    let bench = Bench::within(
        r#"
        [[hooks.PreToolUse]]
        matcher = "Edit|Write"
        hooks = [{ type = "command", command = 'bash "$CLAUDE_PROJECT_DIR"/.claude/hooks/protect-files.sh' }]"#,
        folder,
    );
    denied(&bench.write(".env").await, "Blocked: .env matches protected pattern '.env'");
    assert!(!bench.folder.path().join(".env").exists());
    assert!(bench.write("notes.txt").await.is_success());
    assert_eq!(bench.ran(), 1);
}

#[tokio::test]
async fn public_example_a_validator_in_python_answers_with_json() {
    let folder = tempfile::tempdir().unwrap();
    let script = r#"
import json, re, sys
RULES = [(r"^grep\b(?!.*\|)", "Use 'rg' instead of 'grep'"), (r"^find\s+\S+\s+-name\b", "Use 'rg --files'")]
data = json.load(sys.stdin)
if data.get("tool_name", "") != "Bash":
    sys.exit(1)
command = data.get("tool_input", {}).get("command", "")
issues = [message for pattern, message in RULES if re.search(pattern, command)]
if issues:
    print(json.dumps({"hookSpecificOutput": {"hookEventName": "PreToolUse", "permissionDecision": "deny",
        "permissionDecisionReason": "; ".join(issues)}}))
elif command.startswith("npm "):
    print(json.dumps({"hookSpecificOutput": {"hookEventName": "PreToolUse",
        "updatedInput": {**data["tool_input"], "command": "p" + command}}}))
"#;
    std::fs::write(folder.path().join("validate.py"), script).unwrap();
    let bench = Bench::within(
        r#"
        [[hooks.PreToolUse]]
        matcher = "Bash"
        hooks = [{ type = "command", command = "/usr/bin/python3 validate.py", timeout = 30 }]"#,
        folder,
    );
    denied(&bench.run("grep foo .").await, "Use 'rg' instead of 'grep'");
    assert_eq!(bench.run("npm install").await.into_result().unwrap(), json!({ "code": "pnpm install" }));
    assert_eq!(bench.ran(), 1);
}

#[tokio::test]
async fn public_example_log_every_command_with_jq() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("log")).unwrap();
    let bench = Bench::within(
        r#"
        [[hooks.PreToolUse]]
        matcher = "Bash"
        hooks = [{ type = "command", write = ["log"], command = '''
        jq -r '"\(.tool_input.command) - \(.tool_input.description // "No description")"' >> log/bash.txt
        ''' }]"#,
        folder,
    );
    assert!(bench.run("ls -l").await.is_success());
    let log = std::fs::read_to_string(bench.folder.path().join("log/bash.txt")).unwrap();
    assert_eq!(log, "ls -l - No description\n");
}

#[tokio::test]
async fn public_example_format_what_was_written() {
    let bench = Bench::new(
        r#"
        [[hooks.PostToolUse]]
        matcher = "Edit|MultiEdit|Write"
        hooks = [{ type = "command", write = ["."], command = """
        jq -r '.tool_input.file_path' | { read file_path; if echo "$file_path" | grep -q '\\.txt$'; then
          sed -i 's/  */ /g' "$file_path"; fi; }
        """ }]"#,
    );
    assert!(bench.write("a.txt").await.is_success());
    assert_eq!(std::fs::read_to_string(bench.folder.path().join("a.txt")).unwrap(), "a b");
}

#[tokio::test]
async fn public_example_a_check_after_the_fact_talks_to_the_model() {
    let bench = Bench::new(
        r#"
        [[hooks.PostToolUse]]
        matcher = "Write"
        hooks = [
          { type = "command", command = "echo 'run the linter' >&2; exit 2" },
          { type = "command", command = '''echo '{"hookSpecificOutput": {"hookEventName": "PostToolUse", "additionalContext": "style guide: docs/style.md"}}' ''' },
        ]"#,
    );
    let outcome = bench.write("a.txt").await;
    assert!(outcome.is_success());
    let context = outcome.context.join("\n");
    assert!(context.contains("run the linter") && context.contains("style guide"), "{context}");
}

#[tokio::test]
async fn public_example_notification_and_context_for_a_session() {
    let bench = Bench::new(
        r#"
        [[hooks.Notification]]
        matcher = "permission_prompt"
        hooks = [{ type = "command", write = ["."], command = "jq -r .message > seen.txt" }]

        [[hooks.SessionStart]]
        matcher = "compact"
        hooks = [{ type = "command", command = "echo 'Reminder: use Bun, not npm.'" }]

        [[hooks.UserPromptSubmit]]
        hooks = [{ type = "command", command = "jq -e '.prompt | contains(\"password\") | not' > /dev/null || { echo 'no secrets please' >&2; exit 2; }" }]"#,
    );
    let fire = |input: HookInput| bench.runtime.fire(input);
    fire(
        HookInput::new(HookEvent::Notification)
            .with("message", "hello")
            .with("notification_type", "permission_prompt"),
    )
    .await;
    assert_eq!(std::fs::read_to_string(bench.folder.path().join("seen.txt")).unwrap(), "hello\n");
    let start = fire(HookInput::new(HookEvent::SessionStart).with("source", "compact")).await;
    assert_eq!(start.context, ["Reminder: use Bun, not npm."]);
    let prompt = |text: &str| fire(HookInput::new(HookEvent::UserPromptSubmit).with("prompt", text));
    assert_eq!(prompt("my password is x").await.refusal(), Some("no secrets please"));
    assert_eq!(prompt("hello").await.refusal(), None);
}

#[tokio::test]
async fn commands_that_break_deny_and_say_how() {
    for (command, expected) in [
        ("echo oops >&2; exit 1", "it exited with code 1: oops"),
        ("kill -KILL $$", "killed by signal 9"),
        ("echo '{\"decision\": 5}'", "not a hook's answer"),
        ("echo '{\"decision\": '", "not a hook's answer"),
        ("head -c 100000000 /dev/zero", "wrote more than"),
        ("/no/such/program", "exited with code 127"),
        ("sleep 60", "did not answer within 1s"),
    ] {
        let toml = format!(
            "[[hooks.PreToolUse]]\ntimeout = 1\nhooks = [{{ type = 'command', command = {command:?} }}]"
        );
        let bench = Bench::new(&toml);
        denied(&bench.run("ls").await, expected);
        let lenient = Bench::new(&toml.replace("timeout = 1", "timeout = 1\nonFailure = 'continue'"));
        assert!(lenient.run("ls").await.is_success(), "{command}");
        assert_eq!((bench.ran(), lenient.ran()), (0, 1), "{command}");
    }
}

#[tokio::test]
async fn a_command_gets_no_more_than_it_was_granted() {
    let script = r#"
        touch here 2>/dev/null && exit 3
        [ -z "$CARGO_MANIFEST_DIR" ] || exit 4
        [ "$MODE" = strict ] || exit 5
        [ "$HELVE_HOOK_EVENT" = PreToolUse ] || exit 6
        [ "$PWD" = "$CLAUDE_PROJECT_DIR" ] || exit 7
        [ -e "$SECRET" ] && exit 8
        exit 0"#;
    let outside = tempfile::NamedTempFile::new().unwrap();
    let toml = format!(
        "[[hooks.PreToolUse]]\nhooks = [{{ type = 'command', env = {{ MODE = 'strict', SECRET_FILE = {:?} }}, command = '''{}''' }}]",
        outside.path(),
        script.replace("$SECRET", "$SECRET_FILE"),
    );
    let outcome = Bench::new(&toml).run("ls").await;
    assert!(outcome.is_success(), "{outcome:?}");
}

#[tokio::test]
async fn a_command_ends_with_the_call_that_is_taken_back() {
    let bench = Bench::new(
        r#"
        [[hooks.PreToolUse]]
        hooks = [{ type = "command", write = ["."], command = "exec 3> alive; touch started; sleep 300; touch ended" }]"#,
    );
    // It ends when the last process that has it open has died.
    let alive = bench.folder.path().join("alive");
    rustix::fs::mkfifoat(rustix::fs::CWD, &alive, rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR).unwrap();
    let gone = tokio::task::spawn_blocking(move || std::fs::read(alive));
    let token = CancellationToken::new();
    let call = Call::new("code-execute", json!({ "code": "ls" })).cancellation(token.clone());
    let started = bench.folder.path().join("started");
    let cancel = async {
        while !started.exists() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        token.cancel();
    };
    let (outcome, ()) = tokio::join!(bench.runtime.call(call), cancel);
    assert_eq!(outcome.error().unwrap().code(), ErrorCode::Cancelled);
    tokio::time::timeout(Duration::from_secs(10), gone)
        .await
        .expect("the command lives on")
        .unwrap()
        .unwrap();
    assert!(!bench.folder.path().join("ended").exists());
    assert_eq!(bench.ran(), 0);
}

type Asked = Arc<Mutex<Vec<(HeaderMap, Value)>>>;

async fn serve(status: StatusCode, body: &'static str) -> (String, Asked) {
    let asked = Asked::default();
    let heard = Arc::clone(&asked);
    let answer = move |headers: HeaderMap, bytes: Bytes| {
        let heard = Arc::clone(&heard);
        async move {
            heard.lock().unwrap().push((headers, serde_json::from_slice(&bytes).unwrap()));
            (status, body)
        }
    };
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/hook", listener.local_addr().unwrap());
    let router = Router::new().route("/hook", post(answer));
    tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
    (url, asked)
}

fn posting(url: &str) -> String {
    format!(
        "[[hooks.PreToolUse]]\nhooks = [{{ type = 'http', url = '{url}', headers = {{ X-From = '${{env:CARGO_PKG_NAME}}' }} }}]"
    )
}

#[tokio::test]
async fn a_server_can_be_a_hook() {
    let (url, asked) = serve(StatusCode::OK, r#"{"decision": "block", "reason": "says the server"}"#).await;
    let bench = Bench::new(&posting(&url));
    denied(&bench.run("ls").await, "says the server");
    let (headers, event) = asked.lock().unwrap().pop().unwrap();
    assert_eq!(
        (&headers["content-type"], &headers["x-from"]),
        (&"application/json".parse().unwrap(), &"helve-tools".parse().unwrap())
    );
    assert_eq!(
        (&event["hook_event_name"], &event["tool_input"]),
        (&json!("PreToolUse"), &json!({ "code": "ls" }))
    );
    assert_eq!(bench.ran(), 0);
    let (url, _) = serve(StatusCode::NO_CONTENT, "").await;
    assert!(Bench::new(&posting(&url)).run("ls").await.is_success());
}

#[tokio::test]
async fn a_server_that_breaks_denies() {
    for (status, body, expected) in [
        (StatusCode::INTERNAL_SERVER_ERROR, "{}", "answered 500"),
        (StatusCode::FOUND, "{}", "answered 302"),
        (StatusCode::OK, "fine", "no JSON object"),
        (StatusCode::OK, r#"{"continue": 1}"#, "not a hook's answer"),
    ] {
        let (url, _) = serve(status, body).await;
        let bench = Bench::new(&posting(&url));
        denied(&bench.run("ls").await, expected);
        assert_eq!(bench.ran(), 0);
    }
    // Nobody listens; and an address that nobody may reach.
    denied(&Bench::new(&posting("http://127.0.0.1:1/")).run("ls").await, "127.0.0.1");
    denied(&Bench::new(&posting("http://169.254.169.254/")).run("ls").await, "169.254.169.254");
}

#[test]
fn what_is_wrong_with_a_hook_is_said_at_once() {
    let check = |hook: &str, more: &str| {
        let toml = format!("[[hooks.PreToolUse]]\n{more}\nhooks = [{hook}]");
        set(&toml, Path::new("/tmp")).unwrap_err()
    };
    for (hook, more, expected) in [
        ("", "", "there is none"),
        ("{ type = 'command' }", "", "hooks/0/command: a hook of this type needs it"),
        ("{ type = 'command', command = ' ' }", "", "needs it"),
        ("{ type = 'command', command = 'if [[ -f x ]]; then exit 2; fi' }", "", "shell = \"bash\""),
        ("{ type = 'command', command = 'grep -q rm <<<\"$X\" && exit 2' }", "", "`<<<` is bash's"),
        ("{ type = 'http', url = 'file:///etc/passwd' }", "", "begins with"),
        ("{ type = 'http', url = 'https://a:b@c/' }", "", "credentials"),
        ("{ type = 'http', url = 'https://a/', read = ['/'] }", "", "hooks/0/read"),
        (
            "{ type = 'http', url = 'https://a/', headers = { Authorization = 'Bearer abcdef' } }",
            "",
            "does not belong",
        ),
        ("{ type = 'mcp_tool', tool = 'x' }", "", "hooks/0/server"),
        ("{ type = 'prompt', prompt = 'x' }", "", "unknown"),
        ("{ type = 'command', command = 'x', comand = 'y' }", "", "unknown field"),
        ("{ type = 'command', command = 'x', env = { HELVE_X = 'y' } }", "", "are set by Helve"),
        ("{ type = 'command', command = 'x' }", "matcher = '('", "matcher: "),
        (
            "{ type = 'command', command = 'x' }",
            "on_failure = 'block'\nonFailure = 'continue'",
            "says otherwise",
        ),
    ] {
        let said = check(hook, more);
        assert!(said.contains(expected), "{hook} {more}: {said}");
    }
    for command in [
        "command = 'if [[ -f x ]]; then exit 2; fi', shell = 'bash'",
        "command = \"grep -q '[[:space:]]'\"",
        "command = 'test', args = ['[[', 'x']",
    ] {
        let toml = format!("[[hooks.PreToolUse]]\nhooks = [{{ type = 'command', {command} }}]");
        assert!(set(&toml, Path::new("/tmp")).is_ok(), "{command}");
    }
}

#[tokio::test]
async fn a_server_answers_can_use_tool() {
    use helve::{Risk, Status};
    use helve_tools::hooks::AskUrl;
    for (status, body, ran, expected) in [
        (200, r#"{"behavior": "allow", "updatedInput": {"n": 5}}"#, Some(5), None),
        (200, r#"{"behavior": "deny", "message": "says the server"}"#, None, Some("says the server")),
        (200, "{\"behaviour\": \"allow\"}", None, Some("no PermissionResult")),
        (200, "yes", None, Some("no PermissionResult")),
        (500, "", None, Some("answered 500")),
        (200, "null", None, Some("pending")),
        (204, "", None, Some("pending")),
    ] {
        let (url, asked) = serve(StatusCode::from_u16(status).unwrap(), body).await;
        let given = Arc::new(Mutex::new(None));
        let kept = Arc::clone(&given);
        let tool = Tool::builder("deed")
            .description("Does something that stays.")
            .input_schema(json!({ "type": "object", "properties": { "n": { "type": "integer" } } }))
            .risk(Risk::High)
            .handler(move |arguments: Value, _: Context| {
                *kept.lock().unwrap() = arguments["n"].as_i64();
                async move { Ok(json!({})) }
            });
        let client = LazyClient::new(NetPolicy::allowing(["127.0.0.1"]).unwrap());
        let asking = AskUrl::new(&url, client).unwrap();
        let runtime = Runtime::builder().can_use_tool(asking).tool(tool).unwrap().build();
        let outcome = runtime.call(Call::new("deed", json!({ "n": 1 }))).await;
        let said = match &outcome.status {
            Status::Failed(error) => Some(error.message().to_owned()),
            Status::Pending(_) => Some("pending".to_owned()),
            Status::Done(_) => None,
        };
        assert_eq!(*given.lock().unwrap(), ran, "{body}");
        match expected {
            Some(expected) => {
                assert!(said.as_deref().is_some_and(|said| said.contains(expected)), "{said:?} {body}")
            }
            None => assert_eq!(said, None, "{body}"),
        }
        let question = asked.lock().unwrap()[0].1.clone();
        assert_eq!((&question["toolName"], &question["input"]), (&json!("deed"), &json!({ "n": 1 })));
    }
    assert!(AskUrl::new("file:///etc/passwd", LazyClient::new(NetPolicy::default())).is_err());
}

/// A hook that says in its first line that nobody need wait, and then what `then` does.
fn going_on(first: &str, then: &str) -> Bench {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("out")).unwrap();
    let toml = format!(
        r#"
        [[hooks.PreToolUse]]
        hooks = [{{ type = "command", write = ["out"], timeout = 30, command = """
        echo '{first}'
        {then}
        """ }}]"#
    );
    Bench::within(&toml, folder)
}

/// Waits until no process holds a lock: the system takes it from a process that ends, however it ends.
async fn until_let_go(file: &Path) {
    for _ in 0..1_500 {
        let taken = std::fs::File::open(file).ok();
        if taken.is_some_and(|file| flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok()) {
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("it goes on for ever");
}

async fn until_going(bench: &Bench) {
    while !bench.folder.path().join("out/going").exists() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// Holds a lock, and never ends.
const FOR_EVER: &str = "exec 9>out/held; flock 9; touch out/going; while true; do sleep 0.02; done";

#[tokio::test]
async fn a_command_that_says_async_is_not_waited_for() {
    let wait = "while [ ! -e out/go ]; do sleep 0.02; done; echo denied >&2; touch out/done; exit 2";
    let bench = going_on(r#"{"async": true}"#, wait);
    let out = bench.folder.path().join("out");
    assert!(bench.run("ls").await.is_success(), "it can no longer block");
    assert!(!out.join("done").exists() && bench.ran() == 1);
    std::fs::write(out.join("go"), "").unwrap();
    bench.runtime.hooks().settle(Duration::from_secs(20)).await;
    assert!(out.join("done").exists(), "it went on by itself");
}

#[tokio::test]
async fn a_command_that_says_async_later_is_waited_for() {
    let bench = going_on("first", r#"echo '{"async": true}'; echo no >&2; exit 2"#);
    denied(&bench.run("ls").await, "no");
}

#[tokio::test]
async fn a_command_goes_on_no_longer_than_it_asked_for() {
    let bench = going_on(r#"{"async": true, "asyncTimeout": 1500}"#, FOR_EVER);
    assert!(bench.run("ls").await.is_success());
    until_going(&bench).await;
    until_let_go(&bench.folder.path().join("out/held")).await;
}

#[tokio::test]
async fn commands_that_go_on_end_with_the_runtime() {
    let bench = going_on(r#"{"async": true, "asyncTimeout": 600000}"#, FOR_EVER);
    assert!(bench.run("ls").await.is_success());
    until_going(&bench).await;
    bench.runtime.hooks().stop(Duration::ZERO).await;
    until_let_go(&bench.folder.path().join("out/held")).await;
}
