//! Arguments, results, every exit code.

use std::process::{Command, Output, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::home::Home;

fn result(home: &Home, args: &[&str]) -> Value {
    home.json(&[&["call"], args].concat())["result"].clone()
}

#[test]
fn every_way_to_give_arguments_ends_in_the_same_call() {
    let home = Home::new();
    home.write("arguments.json", r#"{"expression": "2+3"}"#);
    for args in [
        &[r#"{"expression": "2+3"}"#][..],
        &["expression=2+3"],
        &["expression:=\"2+3\""],
        &["@arguments.json"],
    ] {
        assert_eq!(result(&home, &[&["math-eval"], args].concat())["value"], 5, "{args:?}");
    }
    let ran = home.run_with(&["call", "math-eval", "-", "--json"], &[], br#"{"expression": "2+3"}"#);
    assert_eq!(serde_json::from_str::<Value>(&ran.stdout).unwrap()["result"]["value"], 5);
}

#[test]
fn outcomes_for_people() {
    let home = Home::new();
    home.settled(|home| {
        insta::assert_snapshot!("call_done", home.run(&["call", "math-eval", "expression=2+3"]).all());
        insta::assert_snapshot!("call_repaired", home.run(&["call", "math-eval", "expresion=2+3"]).all());
        insta::assert_snapshot!("call_invalid", home.run(&["call", "text-stats", "limit=many"]).all());
        insta::assert_snapshot!("call_unknown", home.run(&["call", "math-evl", "expression=2"]).all());
        insta::assert_snapshot!(
            "call_pending",
            home.run(&["call", "time-now", "--advice", "request_approval", "--because", "not sure"]).all()
        );
        insta::assert_snapshot!("call_denied", home.run(&["call", "time-now", "--advice", "deny"]).all());
        insta::assert_snapshot!("call_forbidden", home.run(&["call", "time-now", "--allow", "mail/*"]).all());
        insta::assert_snapshot!("call_no_pair", home.run(&["call", "time-now", "zone"]).all());
    });
}

#[test]
fn exit_codes_mean_something() {
    let home = Home::new();
    home.write("helve.toml", PROGRAMS);
    let code = |args: &[&str]| home.run(&[&["call"], args].concat()).code;
    assert_eq!(code(&["time-now"]), 0);
    assert_eq!(code(&["fails"]), 1);
    assert_eq!(code(&["sleeps", "--timeout-ms", "100"]), 1);
    assert_eq!(code(&["needs-account"]), 1);
    assert_eq!(code(&["no-such-tool"]), 2);
    assert_eq!(code(&["math-eval"]), 2);
    assert_eq!(code(&["math-eval", "{"]), 2);
    assert_eq!(code(&["risky"]), 3);
    assert_eq!(code(&["time-now", "--advice", "request_approval"]), 3);
    assert_eq!(code(&["time-now", "--advice", "deny"]), 4);
    assert_eq!(code(&["time-now", "--allow", "math-eval"]), 4);
    assert_eq!(home.run(&["call", "needs-account"]).stderr.lines().count(), 2);
    assert_eq!(home.run_with(&["call", "needs-account"], &[("ACME_TOKEN", "x")], b"").code, 0);
}

const PROGRAMS: &str = r#"
[integrations.acme]
env = "ACME_TOKEN"

[[tool.program]]
name = "fails"
description = "Fails every time it is called."
command = "sh"
args = ["-c", "echo 'out of paper' >&2; exit 3"]
risk = "low"

[[tool.program]]
name = "sleeps"
description = "Sleeps for a minute and answers."
command = "sh"
args = ["-c", "sleep 60; echo 1"]
risk = "low"

[[tool.program]]
name = "risky"
description = "Would do harm if it were called wrongly."
command = "sh"
args = ["-c", "echo 1"]
risk = "critical"

[[tool.program]]
name = "needs-account"
description = "Needs an account that may not be connected."
command = "sh"
args = ["-c", "echo 1"]
risk = "low"
integrations = ["acme"]

[[tool.program]]
name = "echo"
description = "Answers with the arguments it was given."
command = "sh"
args = ["-c", "cat"]
risk = "low"
parameters = [
    { name = "text", type = "string", description = "A text." },
    { name = "count", type = "integer", description = "A number." },
    { name = "tags", type = "array", description = "Some words." },
]
"#;

#[test]
fn pairs_are_typed_by_the_tool() {
    let home = Home::new();
    home.write("helve.toml", PROGRAMS);
    let args = ["echo", "text=007", "count=7", "tags=a", "tags=b"];
    assert_eq!(result(&home, &args), json!({ "text": "007", "count": 7, "tags": ["a", "b"] }));
}

#[test]
fn an_idempotency_key_runs_once() {
    let home = Home::new();
    home.write("helve.toml", PROGRAMS);
    let call = || home.json(&["call", "echo", "text=x", "--idempotency-key", "order-17"]);
    let (first, second) = (call(), call());
    assert_eq!(second["replay_of"], first["call_id"]);
    assert_eq!(second["result"], first["result"]);
}

#[test]
fn a_field_that_a_tool_without_parameters_does_not_know_is_named() {
    let home = Home::new();
    home.write("helve.toml", PROGRAMS);
    let ran = home.run(&["call", "fails", "colour=red"]);
    assert!(ran.stderr.contains("`/colour`: expected no fields here"), "{}", ran.stderr);
}

#[test]
fn a_replay_is_said() {
    let home = Home::new();
    home.write("helve.toml", PROGRAMS);
    let call = || home.run(&["call", "echo", "text=x", "--idempotency-key", "order-17"]);
    assert_eq!(call().stderr, "");
    assert!(call().stderr.starts_with("the tool did not run again: this is the stored outcome of call_"));
}

#[test]
fn a_timeout_names_what_allows_more() {
    let home = Home::new();
    home.write("helve.toml", PROGRAMS);
    let ran = home.run(&["call", "sleeps", "--timeout-ms", "100"]);
    assert!(ran.stderr.contains("at most 100 ms (`--timeout-ms`)"), "{}", ran.stderr);
    assert!(ran.stderr.contains("in doubt: it may have happened all the same"), "{}", ran.stderr);
    let runs = home.json(&["runs", "list"]);
    assert_eq!(runs[0]["state"], "in_doubt", "{runs}");
    assert_eq!(runs[0]["in_doubt"][0], runs[0]["run"]);
    let args = ["call", "sleeps", "--timeout-ms", "5000", "--set", "execution.default_timeout_ms=100"];
    let ran = home.run(&args);
    assert!(ran.stderr.contains("`execution.default_timeout_ms`, allows more"), "{}", ran.stderr);
}

#[test]
fn an_interrupt_takes_the_call_back_and_the_journal_says_so() {
    for signal in [Signal::INT, Signal::TERM, Signal::HUP] {
        let home = Home::new();
        let output = interrupted(&home, &mut home.command(&["call", "sleeps", "--json"]), signal);
        assert_eq!(output.status.code(), Some(1));
        let outcome: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(outcome["error"]["code"], "cancelled");
        let calls = home.json(&["audit", "list", "--tool", "sleeps"]);
        assert_eq!(calls[0]["ending"]["code"], "cancelled");
    }
}

#[test]
fn a_call_that_was_told_to_outlive_the_terminal_does() {
    let home = Home::new();
    let helve = env!("CARGO_BIN_EXE_helve");
    let mut command = home.command(&[]);
    command.env("HELVE_EXECUTION__DEFAULT_TIMEOUT_MS", "3000");
    #[expect(clippy::disallowed_methods, reason = "the tests start the real binary")]
    let mut nohup = std::process::Command::new("nohup");
    nohup.args([helve, "call", "sleeps", "--json"]).current_dir(home.project()).env_clear();
    nohup.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let output = interrupted(&home, &mut nohup, Signal::HUP);
    let outcome: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(outcome["error"]["code"], "timeout");
}

/// Sends a signal to a call of `sleeps` once its start is recorded: only then is there something to
/// take back.
fn interrupted(home: &Home, command: &mut Command, signal: Signal) -> Output {
    home.write("helve.toml", PROGRAMS);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let started = || {
        home.json(&["audit", "list", "--status", "started"]).as_array().is_some_and(|calls| !calls.is_empty())
    };
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(30);
    while !started() {
        assert!(std::time::Instant::now() < deadline, "the call never started");
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    let pid = Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap();
    kill_process(pid, signal).unwrap();
    child.wait_with_output().unwrap()
}

#[test]
fn the_result_can_go_to_a_file() {
    let home = Home::new();
    let ran = home.run(&["call", "math-eval", "expression=1+1", "--out", "result.json"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (0, ""));
    let written = std::fs::read(home.project().join("result.json")).unwrap();
    assert_eq!(serde_json::from_slice::<Value>(&written).unwrap()["value"], 2);
}

#[test]
fn a_repair_of_all_arguments_is_said_of_them() {
    let home = Home::new();
    let ran = home.run_with(&["call", "math-eval", "-"], &[], br#""{\"expression\":\"1+1\"}""#);
    assert_eq!(ran.code, 0, "{}", ran.all());
    assert!(ran.stderr.starts_with("mended the arguments: JSON in a string"), "{}", ran.stderr);
}

#[test]
fn a_folder_for_downloads_that_is_not_there_is_what_saving_complains_of() {
    let home = Home::new();
    let save = ["call", "http-get", "url=http://127.0.0.1:9/", "save_as=x.txt"];
    let none = home.run(&save).stderr;
    assert!(none.contains("add `[web.http]` with `downloads"), "{none}");
    home.write("helve.toml", "[web.http]\ndownloads = \"saved\"\n");
    let missing = home.run(&save).stderr;
    assert!(missing.contains("the folder for downloads, `saved`, cannot be used: No such file"), "{missing}");
    assert!(missing.contains("make that folder"), "{missing}");
    std::fs::create_dir(home.project().join("saved")).unwrap();
    let made = home.run(&save).stderr;
    assert!(!made.contains("folder"), "{made}");
}
