//! Program tools, with real programs.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use helve::{
    Annotations, CallId, Caller, Context, ContextParts, ErrorCode, Implementation, Risk, Source, Tool,
    ToolError,
};
use helve_sandbox::Sandbox;
use helve_tools::common::ToolCommon;
use helve_tools::{ProgramToolConfig, program_tool};
use serde_json::{Value, json};

use crate::{call, context};

/// A variable that Cargo sets for every test, and that no program should see by itself.
const INHERITED: &str = "CARGO_MANIFEST_DIR";

fn config(command: &str) -> ProgramToolConfig {
    let mut common = ToolCommon::new("acme/echo", "Runs a program of the tests.");
    common.input_schema = Some(json!({ "type": "object" }));
    ProgramToolConfig::new(common, command)
}

fn script(script: &str) -> ProgramToolConfig {
    ProgramToolConfig { args: vec!["-c".to_owned(), script.to_owned()], ..config("sh") }
}

fn tool(config: ProgramToolConfig) -> Tool {
    program_tool(config, Arc::new(Sandbox::default())).unwrap()
}

async fn run_program(config: ProgramToolConfig) -> Result<Value, ToolError> {
    call(&tool(config), json!({})).await
}

#[test]
fn a_program_that_says_nothing_of_itself_is_taken_to_be_dangerous() {
    let tool = tool(config("cat"));
    let definition = tool.definition();
    assert_eq!((definition.risk, definition.source), (Risk::Medium, Source::Plugin));
    assert_eq!(definition.annotations, Annotations::default());
    assert_eq!(tool.handler().implementation(), Implementation::Program);
}

#[tokio::test]
async fn arguments_arrive_on_stdin_as_they_are() {
    let arguments = json!({ "path": "; rm -rf / $(id) `id` --help", "quote": "\"'\n", "n": 18_446_744_073_709_551_615_u64 });
    assert_eq!(call(&tool(config("cat")), arguments.clone()).await.unwrap(), arguments);
}

#[tokio::test]
async fn the_environment_holds_what_is_configured_and_the_ids_of_the_call() {
    let text = r#"printf '["%s","%s","%s","%s"]' "$HELVE_CALL_ID" "$HELVE_IDEMPOTENCY_KEY" "$MODE" "${CARGO_MANIFEST_DIR-unset}""#;
    let mut config = script(text);
    config.env.insert("MODE".to_owned(), "dry run".to_owned());
    let tool = tool(config);
    let (id, soon) = (CallId::new(jiff::Timestamp::now()), Instant::now() + Duration::from_secs(30));
    let known = ContextParts::new(id, tool.name().clone(), Caller::local(), soon);
    let context = Context::from(ContextParts { idempotency_key: Some("order-17".into()), ..known });
    let id = context.call_id().to_string();
    let answer = tool.handler().call(json!({}), context).await.unwrap();
    assert_eq!(answer, json!([id, "order-17", "dry run", "unset"]));
}

#[tokio::test]
async fn a_secret_that_is_not_set_is_the_operators_matter_and_starts_nothing() {
    let mut config = config("/no/such/program");
    config.env.insert("TOKEN".to_owned(), "${env:HELVE_TEST_NEVER_SET}".to_owned());
    let error = run_program(config).await.unwrap_err();
    assert_eq!(error.code(), ErrorCode::IntegrationMissing);
    assert!(error.message().contains("`HELVE_TEST_NEVER_SET`"), "{error}");
}

#[tokio::test]
async fn failures_have_a_code_and_the_end_of_stderr() {
    for (text, code, expected) in [
        ("echo oops >&2; exit 3", ErrorCode::ExecutionFailed, "exit code 3: oops"),
        ("exit 1", ErrorCode::ExecutionFailed, "exit code 1; it wrote nothing to stderr"),
        ("printf '{}'; exit 1", ErrorCode::ExecutionFailed, "exit code 1"),
        ("printf '\\033[31mred\\007' >&2; exit 1", ErrorCode::ExecutionFailed, "exit code 1: [31mred"),
        ("yes why | head -c 9000 >&2; exit 1", ErrorCode::ExecutionFailed, "exit code 1: …"),
        ("kill -SEGV $$", ErrorCode::ExecutionFailed, "killed by signal 11"),
        ("echo hello", ErrorCode::OutputInvalid, "it begins: hello"),
        ("echo '{\"a\": 1, \"a\": 2}'", ErrorCode::OutputInvalid, "stands twice"),
        ("echo 1 2", ErrorCode::OutputInvalid, "trailing"),
        ("printf '[%.0s' $(seq 1 20000)", ErrorCode::OutputInvalid, "cannot be used"),
        ("true", ErrorCode::OutputInvalid, "wrote nothing to stdout"),
        ("yes", ErrorCode::OutputTooLarge, "more than 1048576 bytes"),
    ] {
        let error = run_program(script(text)).await.unwrap_err();
        assert_eq!(error.code(), code, "{text}: {error}");
        assert!(error.message().contains(expected), "{text}: {error}");
        assert!(error.message().len() < 2_000 && !error.message().contains(char::is_control), "{text}");
    }
}

#[tokio::test]
async fn a_secret_never_shows_in_an_error() {
    let secret = std::env::var(INHERITED).unwrap();
    for text in [
        "echo \"bad $TOKEN\" >&2; exit 2",
        "echo \"token is $TOKEN\"",
        "echo \"{\\\"$TOKEN\\\":1,\\\"$TOKEN\\\":2}\"",
    ] {
        let mut config = script(text);
        config.env.insert("TOKEN".to_owned(), format!("${{env:{INHERITED}}}"));
        let error = run_program(config).await.unwrap_err();
        assert!(error.message().contains("[redacted]"), "{error}");
        assert!(!serde_json::to_string(&error).unwrap().contains(&secret), "{error}");
    }
}

#[tokio::test]
async fn a_secret_reaches_the_program_and_never_comes_back() {
    let secret = std::env::var(INHERITED).unwrap();
    let mut config = script(r#"printf '["%s", %d]' "$TOKEN" "${#TOKEN}""#);
    config.env.insert("TOKEN".to_owned(), format!("${{env:{INHERITED}}}"));
    assert_eq!(run_program(config).await.unwrap(), json!(["[redacted]", secret.len()]));
}

#[tokio::test]
async fn a_program_that_is_not_there_is_explained() {
    let error = run_program(config("no-such-program")).await.unwrap_err();
    assert_eq!(error.code(), ErrorCode::ExecutionFailed);
    assert!(error.message().contains("cannot start `no-such-program`"), "{error}");
}

#[tokio::test]
async fn the_deadline_and_cancellation_stop_the_program() {
    let tool = tool(script("sleep 1000"));
    let soon = Instant::now() + Duration::from_millis(100);
    let id = CallId::new(jiff::Timestamp::now());
    let late = Context::new(id, tool.name().clone(), Caller::local(), soon);
    let error = tool.handler().call(json!({}), late).await.unwrap_err();
    assert_eq!((error.code(), error.is_retryable()), (ErrorCode::Timeout, true));

    let context = context(&tool);
    let token = context.cancellation().clone();
    let (answer, ()) = tokio::join!(tool.handler().call(json!({}), context), async { token.cancel() });
    assert_eq!(answer.unwrap_err().code(), ErrorCode::Cancelled);
}

#[tokio::test]
async fn the_output_bound_can_be_set() {
    let config = ProgramToolConfig { output_bytes_max: 10, ..script("echo '\"0123456789\"'") };
    assert_eq!(run_program(config).await.unwrap_err().code(), ErrorCode::OutputTooLarge);
}

#[test]
fn configuration_that_cannot_work_is_refused_with_the_key_at_fault() {
    let with_env = |name: &str, value: &str| {
        let mut config = config("cat");
        config.env.insert(name.to_owned(), value.to_owned());
        config
    };
    for (config, at) in [
        (config(""), "command"),
        (config("python3 tool.py"), "command"),
        (ProgramToolConfig { args: vec!["a\0".to_owned()], ..config("cat") }, "args"),
        (with_env("A-B", "x"), "env/A-B"),
        (with_env("1A", "x"), "env/1A"),
        (with_env("", "x"), "env/"),
        (with_env("HELVE_CALL_ID", "x"), "env/HELVE_CALL_ID"),
        (with_env("A", "Bearer ${env:TOKEN}"), "env/A"),
        (with_env("A", "${TOKEN}"), "env/A"),
        (with_env("A", "${env:}"), "env/A"),
        (with_env("API_TOKEN", "in plain text"), "env/API_TOKEN"),
        (with_env("A", "ghp_0123456789abcdef"), "env/A"),
        (ProgramToolConfig { output_bytes_max: 0, ..config("cat") }, "output_bytes_max"),
        (ProgramToolConfig { output_bytes_max: 1 << 30, ..config("cat") }, "output_bytes_max"),
    ] {
        let error = program_tool(config, Arc::new(Sandbox::default())).unwrap_err();
        assert_eq!(error.problems.len(), 1, "{error}");
        assert_eq!(error.problems[0].at, at, "{error}");
    }
    let mut both = config("");
    both.common.description = String::new();
    assert_eq!(program_tool(both, Arc::new(Sandbox::default())).unwrap_err().problems.len(), 2);
}

#[test]
fn configuration_reads_from_plain_data_and_refuses_keys_it_does_not_know() {
    let good = json!({ "name": "a", "description": "d", "command": "cat", "env": { "TOKEN_FILE": "/run/t" }, "risk": "low" });
    let config: ProgramToolConfig = serde_json::from_value(good.clone()).unwrap();
    assert_eq!((config.output_bytes_max, config.common.risk), (1 << 20, Some(Risk::Low)));
    tool(config);
    let mut wrong = good;
    wrong["comand"] = json!("cat");
    assert!(serde_json::from_value::<ProgramToolConfig>(wrong).unwrap_err().to_string().contains("comand"));
}

#[test]
fn the_example_of_the_documentation_makes_a_tool() {
    let file: Value = toml::from_str(include_str!("../../src/program/example.toml")).unwrap();
    let config: ProgramToolConfig = serde_json::from_value(file["tool"]["program"][0].clone()).unwrap();
    let tool = tool(config);
    assert!(tool.warnings().is_empty(), "{:?}", tool.warnings());
    assert!(tool.definition().annotations.read_only);
}

#[test]
fn every_key_is_documented() {
    let schema = serde_json::to_value(schemars::schema_for!(ProgramToolConfig)).unwrap();
    for (key, property) in schema["properties"].as_object().unwrap() {
        assert!(property.get("description").is_some(), "{key} has no description");
    }
}

#[test]
fn paths_are_relative_to_the_file_they_stand_in() {
    let folder = Path::new("/etc/helve");
    let moved = |command: &str| config(command).relative_to(folder);
    assert_eq!(moved("./tools/echo").command, Path::new("/etc/helve/./tools/echo"));
    assert_eq!(moved("/opt/echo").command, Path::new("/opt/echo"));
    assert_eq!(moved("python3").command, Path::new("python3"));
    assert_eq!(moved("python3").work_dir.as_deref(), Some(folder));
    let elsewhere = ProgramToolConfig { work_dir: Some("data".into()), ..config("cat") }.relative_to(folder);
    assert_eq!(elsewhere.work_dir.as_deref(), Some(Path::new("/etc/helve/data")));
}

#[tokio::test]
async fn a_program_names_its_own_errors() {
    let said = r#"echo '{"error": {"code": "NO_STOCK", "message": "none is left", "recoverable": true, "suggestions": ["wait a day"]}}'; exit 4"#;
    let error = run_program(script(said)).await.unwrap_err();
    assert_eq!((error.code(), error.tool_code()), (ErrorCode::ExecutionFailed, Some("NO_STOCK")));
    assert_eq!((error.message(), error.is_retryable()), ("none is left", true));
    assert_eq!(error.suggestions(), ["wait a day"]);
    // What is no such account is a failure like any other, and a success is none.
    for said in [
        r#"echo '{"error": {"code": "no stock", "message": "x"}}'; exit 4"#,
        r#"echo '{"error": {"code": "NO_STOCK"}}'; exit 4"#,
        r#"echo '{"error": "NO_STOCK"}'; exit 4"#,
        r#"head -c 100000 /dev/zero | tr '\\0' '['; exit 4"#,
    ] {
        let error = run_program(script(said)).await.unwrap_err();
        assert_eq!(error.tool_code(), None, "{said}");
        assert!(error.message().contains("exit code 4"), "{error}");
    }
    assert!(run_program(script(r#"echo '{"error": {"code": "NO_STOCK", "message": "x"}}'"#)).await.is_ok());
    let mut secret = script(r#"printf '{"error": {"code": "LEAK", "message": "%s"}}' "$KEY"; exit 1"#);
    secret.env.insert("KEY".to_owned(), "${env:CARGO_MANIFEST_DIR}".to_owned());
    let error = run_program(secret).await.unwrap_err();
    assert_eq!((error.tool_code(), error.message()), (Some("LEAK"), "[redacted]"));
}
