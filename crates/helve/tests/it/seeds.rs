//! The seeds' own test cases, written as calls.

use std::sync::Arc;

use helve::ports::Connected;
use helve::{
    Advice, AdvisedAction, Call, Caller, Category, Parameter, ParameterType, Risk, Runtime, Source, Status,
    Tool, ToolBuilder,
};
use serde_json::{Value, json};

use crate::support::{Bench, code};

fn number(arguments: &Value, key: &str) -> f64 {
    arguments[key].as_f64().unwrap()
}

fn add() -> ToolBuilder {
    Tool::builder("add")
        .description("Add two numbers")
        .parameter(Parameter::required("a", ParameterType::Number, "First number"))
        .parameter(Parameter::required("b", ParameterType::Number, "Second number"))
        .risk(Risk::Low)
        .source(Source::Function)
        .timeout(std::time::Duration::from_millis(5_000))
        .handler(|arguments, _| async move { Ok(json!(number(&arguments, "a") + number(&arguments, "b"))) })
}

fn by_agent(tool: &str, arguments: Value) -> Call {
    Call::new(tool, arguments).by(Caller::agent("agent-1").session("session-1"))
}

#[tokio::test]
async fn seed_1_registers_and_executes_a_tool() {
    let bench = Bench::new([add()]);
    let outcome = bench.runtime.call(by_agent("add", json!({ "a": 2, "b": 3 }))).await;
    assert!(outcome.is_success());
    assert_eq!(outcome.into_result().unwrap(), json!(5.0));
}

#[tokio::test]
async fn seed_1_fails_for_unknown_tools() {
    let bench = Bench::new([]);
    assert_eq!(code(&bench.runtime.call(by_agent("nonexistent", json!({}))).await), "tool_not_found");
}

#[tokio::test]
async fn seed_1_validates_required_types_and_enums() {
    let greet = Tool::builder("greet")
        .description("Greet a person")
        .parameter(Parameter::required("name", ParameterType::String, "Person name"))
        .parameter(Parameter::optional("tone", ParameterType::String, "Tone").one_of(["warm", "formal"]))
        .handler(|arguments, _| async move {
            Ok(json!(format!("Hello, {}!", arguments["name"].as_str().unwrap())))
        });
    let bench = Bench::new([greet]);
    for (arguments, path) in [
        (json!({}), "/name"),
        (json!({ "name": ["x"] }), "/name"),
        (json!({ "name": "Ada", "tone": "rude" }), "/tone"),
    ] {
        let outcome = bench.runtime.call(by_agent("greet", arguments)).await;
        assert_eq!(code(&outcome), "validation_failed");
        assert_eq!(outcome.error().unwrap().field_errors()[0].path, path);
    }
    let outcome = bench.runtime.call(by_agent("greet", json!({ "name": "Ada" }))).await;
    assert_eq!(outcome.into_result().unwrap(), "Hello, Ada!");
}

fn query_events() -> ToolBuilder {
    Tool::builder("query_events")
        .description("Lists calendar events between two dates.")
        .when_to_use("Use when the user asks what is on their calendar.")
        .category(Category::Query)
        .risk(Risk::Low)
        .read_only()
        .integration("calendar")
        .input_schema(json!({ "type": "object", "additionalProperties": false, "required": ["startDate"], "properties": {
            "startDate": { "type": "string", "format": "date" },
            "limit": { "type": "integer", "minimum": 1, "maximum": 50 } } }))
        .handler(|_, _| async { Ok(json!({ "events": [] })) })
}

fn send_email() -> ToolBuilder {
    Tool::builder("send_email")
        .description("Sends an email.")
        .when_to_use("Use ONLY when the user explicitly wants to SEND an email.")
        .category(Category::External)
        .risk(Risk::High)
        .requires_approval()
        .input_schema(json!({ "type": "object", "additionalProperties": false, "required": ["to", "subject", "body"], "properties": {
            "to": { "type": "array", "minItems": 1, "maxItems": 50, "items": { "type": "string", "format": "email" } },
            "subject": { "type": "string", "minLength": 1, "maxLength": 998 },
            "body": { "type": "string", "minLength": 1, "maxLength": 100_000 } } }))
        .handler(|_, _| async { panic!("sent without approval") })
}

fn office() -> Runtime {
    Runtime::builder()
        .tool(query_events())
        .unwrap()
        .tool(send_email())
        .unwrap()
        .integrations(Arc::new(Connected::new(["calendar"])))
        .build()
}

#[tokio::test]
async fn seed_5_executes_a_query_when_all_checks_pass() {
    let advice = Advice::new(AdvisedAction::Execute).because("a harmless query");
    let call = by_agent("query_events", json!({ "startDate": "2024-01-01" })).advised(advice);
    assert_eq!(office().call(call).await.into_result().unwrap(), json!({ "events": [] }));
}

#[tokio::test]
async fn seed_5_creates_an_approval_for_sending() {
    // The model wrote one address where a list is asked for, as in the seed.
    let arguments = json!({ "to": "test@example.com", "subject": "Test", "body": "Hello" });
    let advice = Advice {
        action: AdvisedAction::RequestApproval,
        confidence: Some(0.9),
        reasoning: Some("it reaches people".into()),
    };
    let office = office();
    let outcome = office.call(by_agent("send_email", arguments).advised(advice.clone())).await;
    let Status::Pending(pending) = &outcome.status else { panic!("{outcome:?}") };
    assert_eq!(pending.reasons.len(), 3);
    assert!(pending.reasons.iter().any(|why| why.contains("(90% sure): it reaches people")), "{pending:?}");
    let asked = office.approvals().get(pending.approval_id).await.unwrap().unwrap();
    assert_eq!(asked.advice, Some(advice), "the question keeps what the agent said");
    assert!(pending.approval_id.to_string().starts_with("apr_"));
}

#[tokio::test]
async fn seed_5_the_record_keeps_what_the_agent_said_of_its_call_without_its_secrets() {
    let tool = Tool::builder("pay")
        .description("Pays.")
        .parameter(Parameter::required("password", ParameterType::String, "Secret"))
        .handler(|_, _| async { Ok(json!(1)) });
    let bench = Bench::new([tool]);
    for action in [AdvisedAction::Execute, AdvisedAction::RequestApproval, AdvisedAction::Deny] {
        let long = format!("with hunter2-hunter2 {}", "é".repeat(9_000));
        let advice = Advice::new(action).confidence(0.25).because(long);
        let call = by_agent("pay", json!({ "password": "hunter2-hunter2" })).advised(advice);
        bench.runtime.call(call).await;
        let kept = bench.last_record().payload.advice.unwrap();
        assert_eq!((kept.action, kept.confidence), (action, Some(0.25)));
        let why = kept.reasoning.unwrap();
        assert!(!why.contains("hunter2") && why.len() <= 4_096 && why.ends_with('é'), "{why}");
    }
    let odd = Advice::new(AdvisedAction::Execute).confidence(f64::NAN);
    bench.runtime.call(by_agent("pay", json!({ "password": "x" })).advised(odd)).await;
    assert_eq!(bench.last_record().payload.advice.unwrap().confidence, None, "JSON has no such number");
}

#[tokio::test]
async fn seed_5_returns_a_friendly_error_for_invalid_parameters() {
    let outcome = office().call(by_agent("query_events", json!({ "limit": "not-a-number" }))).await;
    let error = outcome.error().unwrap();
    assert_eq!((error.code().as_str(), error.is_retryable()), ("validation_failed", true));
    assert_eq!(error.field_errors().len(), 2);
    assert!(error.message().contains("`/startDate`") && error.message().contains("`/limit`"));
    assert_eq!(error.example().unwrap(), &json!({ "startDate": "2026-01-31", "limit": 1 }));
}

#[tokio::test]
async fn seed_5_reports_a_missing_integration() {
    let bench = Bench::new([query_events()]);
    let outcome = bench.runtime.call(by_agent("query_events", json!({ "startDate": "2024-01-01" }))).await;
    assert_eq!((code(&outcome), outcome.error().unwrap().is_retryable()), ("integration_missing", false));
}
