use helve::ports::Connected;
use helve::precondition::{Condition, DependencyStatus, Precondition};
use helve::{
    Advice, AdvisedAction, Call, Caller, FailureMode, Layer, Parameter, ParameterType, Risk, Settings, Stage,
    Status, Tool, ToolError,
};
use serde_json::json;
use std::sync::Arc;

use crate::support::{Bench, code, counter, echo, ran};

#[tokio::test]
async fn a_call_reaches_its_tool_by_full_name_alias_and_provider_name() {
    let bench = Bench::new([echo("web.scrape").alias("web:scrape"), echo("mail/send")]);
    let provider_name = bench.runtime.registry().get("web.scrape").unwrap().tool.provider_name().to_owned();
    for name in ["web.scrape", "web:scrape", &provider_name, "mail/send", "mail__send"] {
        let outcome = bench.call(name, json!({ "x": 1 })).await;
        assert!(outcome.is_success(), "{name}: {outcome:?}");
    }
    assert_eq!(bench.call("mail__send", json!({})).await.tool.as_ref(), "mail/send");
}

#[tokio::test]
async fn an_unknown_tool_names_near_matches_that_the_caller_may_use() {
    let bench = Bench::new([echo("mail/send"), echo("mail/search"), echo("time-now")]);
    let outcome = bench.call("mail/sned", json!({})).await;
    assert_eq!(outcome.error().unwrap().message(), "no tool named `mail/sned`; did you mean `mail/send`?");
    assert_eq!(code(&outcome), "tool_not_found");
    assert!(!outcome.error().unwrap().is_retryable());
    // A namespace that was left out.
    assert!(bench.call("send", json!({})).await.error().unwrap().message().contains("mail/send"));
    let narrow = Caller::agent("a").allow_only(["time-now"]);
    let outcome = bench.runtime.call(Call::new("mail/sned", json!({})).by(narrow)).await;
    assert!(!outcome.error().unwrap().message().contains("mail/send"));
}

#[tokio::test]
async fn a_caller_uses_only_what_its_allow_list_names() {
    let (tool, count) = counter("mail/send");
    let bench = Bench::new([tool, echo("time-now")]);
    let by = |tools: &[&str]| Caller::agent("a").allow_only(tools.iter().copied());
    let denied = bench.runtime.call(Call::new("mail/send", json!({})).by(by(&["time-now"]))).await;
    assert_eq!(code(&denied), "not_authorized");
    assert_eq!(denied.error().unwrap().stage(), Some(Stage::Authorize));
    // Not by its other name either.
    assert_eq!(
        code(&bench.runtime.call(Call::new("mail__send", json!({})).by(by(&[]))).await),
        "not_authorized"
    );
    assert_eq!(ran(&count), 0);
    assert!(bench.runtime.call(Call::new("mail/send", json!({})).by(by(&["mail/*"]))).await.is_success());
}

#[tokio::test]
async fn nobody_in_particular_is_denied_where_authentication_is_on() {
    let (tool, count) = counter("touch");
    let settings = Settings { require_authentication: true, ..Settings::default() };
    let bench = Bench::with([tool], |builder| builder.settings(settings));
    let outcome = bench.runtime.call(Call::new("touch", json!({})).by(Caller::anonymous())).await;
    assert_eq!((code(&outcome), ran(&count)), ("not_authorized", 0));
    assert!(bench.runtime.call(Call::new("touch", json!({})).by(Caller::agent("a"))).await.is_success());
}

fn search_tool() -> helve::ToolBuilder {
    Tool::builder("search")
        .description("Searches for things.")
        .parameter(Parameter::required("query", ParameterType::String, "What to find."))
        .parameter(
            Parameter::optional("maxResults", ParameterType::Integer, "How many.").default_value(json!(5)),
        )
        .parameter(Parameter::optional("kind", ParameterType::String, "Sort.").one_of(["news", "all"]))
        .read_only()
        .handler(|arguments, _| async move { Ok(arguments) })
}

#[tokio::test]
async fn defaults_are_filled_in_and_repairs_are_told() {
    let bench = Bench::new([search_tool()]);
    let outcome = bench.call("search", json!({ "Query": "rust", "maxResults": "7", "kind": "News" })).await;
    assert_eq!(outcome.repairs.len(), 3);
    assert_eq!(outcome.into_result().unwrap(), json!({ "query": "rust", "maxResults": 7, "kind": "news" }));
    assert_eq!(bench.last_record().payload.repairs.len(), 3);
    let plain = bench.call("search", json!({ "query": "rust" })).await;
    assert!(plain.repairs.is_empty());
    assert_eq!(plain.into_result().unwrap(), json!({ "query": "rust", "maxResults": 5 }));
    // Whole arguments as a JSON string, as some models send them.
    let text = bench.call("search", json!("{\"query\": \"rust\"}")).await;
    assert_eq!(text.into_result().unwrap(), json!({ "query": "rust", "maxResults": 5 }));
}

/// For JSON Schema `5.0` is an integer, and so it is one for Rust's types.
#[tokio::test]
async fn a_whole_number_with_a_point_reaches_a_typed_tool() {
    #[derive(serde::Deserialize, schemars::JsonSchema)]
    struct Input {
        top: u8,
        #[serde(default)]
        pages: Vec<Option<i64>>,
        ratio: f64,
    }
    let tool = Tool::builder("typed")
        .description("Takes numbers.")
        .function(|input: Input, _| async move { Ok(json!([input.top, input.pages, input.ratio])) });
    let bench =
        Bench::with([tool], |builder| builder.settings(Settings { repair: false, ..Settings::default() }));
    let arguments = json!({ "top": 5.0, "pages": [1.0, null, -2e2], "ratio": 2.0 });
    let outcome = bench.call("typed", arguments).await;
    assert!(outcome.repairs.is_empty());
    assert_eq!(outcome.into_result().unwrap(), json!([5, [1, null, -200], 2.0]));
    let outcome = bench.call("typed", json!({ "top": 5.5, "ratio": 2.0 })).await;
    assert_eq!(code(&outcome), "validation_failed");
}

#[tokio::test]
async fn repair_can_be_turned_off() {
    let settings = Settings { repair: false, ..Settings::default() };
    let bench = Bench::with([search_tool()], |builder| builder.settings(settings));
    assert_eq!(
        code(&bench.call("search", json!({ "query": "x", "maxResults": "7" })).await),
        "validation_failed"
    );
}

#[tokio::test]
async fn invalid_arguments_list_every_field_and_show_a_corrected_example() {
    let bench = Bench::new([search_tool()]);
    let outcome = bench.call("search", json!({ "maxResults": "many", "kind": "sports", "bogus": 1 })).await;
    let error = outcome.error().unwrap();
    let mut paths: Vec<_> = error.field_errors().iter().map(|field| field.path.as_str()).collect();
    paths.sort_unstable();
    assert_eq!(paths, ["/bogus", "/kind", "/maxResults", "/query"]);
    assert!(error.is_retryable());
    assert!(error.message().contains("; and 1 more"), "{}", error.message());
    let example = error.example().unwrap().clone();
    assert!(bench.call("search", example).await.is_success());
}

#[tokio::test]
async fn a_secret_never_comes_back_in_an_error() {
    let tool = Tool::builder("login")
        .description("Logs in.")
        .input_schema(json!({ "type": "object", "required": ["user"], "properties": {
            "user": { "type": "string" }, "pin": { "type": "string", "writeOnly": true, "maxLength": 10 },
            "token": { "type": "string", "maxLength": 4 } } }))
        .handler(|_, _| async { Ok(json!(null)) });
    let bench = Bench::new([tool]);
    let outcome = bench.call("login", json!({ "pin": "hunter2-pin", "token": "hunter2-token" })).await;
    assert_eq!(code(&outcome), "validation_failed");
    assert!(!serde_json::to_string(&outcome).unwrap().contains("hunter2"));
    assert!(!format!("{:?}", bench.last_record()).contains("hunter2"));
    // Mended secrets neither: a number where text was asked for.
    let outcome = bench.call("login", json!({ "user": "a", "pin": 7_351_904_266_u64 })).await;
    assert_eq!(outcome.repairs.len(), 1);
    assert!(!serde_json::to_string(&outcome).unwrap().contains("7351904266"));
    assert!(!format!("{:?}", bench.last_record()).contains("7351904266"));
}

#[tokio::test]
async fn a_missing_integration_stops_the_call_and_says_how_to_connect() {
    let (tool, count) = counter("query_events");
    let bench = Bench::new([tool.integration("calendar")]);
    let outcome = bench.call("query_events", json!({})).await;
    assert_eq!((code(&outcome), ran(&count)), ("integration_missing", 0));
    assert!(!outcome.error().unwrap().is_retryable());
    assert!(outcome.error().unwrap().suggestions()[0].contains("calendar"));
    let (tool, count) = counter("query_events");
    let connected = Arc::new(Connected::new(["calendar"]));
    let bench = Bench::with([tool.integration("calendar")], |builder| builder.integrations(connected));
    assert!(bench.call("query_events", json!({})).await.is_success());
    assert_eq!(ran(&count), 1);
}

#[tokio::test]
async fn a_precondition_that_cannot_be_checked_counts_as_unmet() {
    let browser = |critical| Precondition {
        description: "a browser is available".to_owned(),
        critical,
        condition: Condition::Resource { resource: "browser".to_owned() },
    };
    let other = |tool: &str| Precondition {
        description: format!("{tool} is there"),
        critical: true,
        condition: Condition::Dependency { tool: tool.to_owned(), status: DependencyStatus::Available },
    };
    let (tool, count) = counter("scrape");
    let bench = Bench::new([
        tool.precondition(browser(true)).precondition(other("nothing")),
        echo("degraded").precondition(browser(false)).precondition(other("scrape")),
    ]);
    let outcome = bench.call("scrape", json!({})).await;
    assert_eq!((code(&outcome), ran(&count)), ("precondition_failed", 0));
    assert_eq!(outcome.error().unwrap().suggestions().len(), 2);
    assert!(bench.call("degraded", json!({})).await.is_success());
}

#[tokio::test]
async fn risk_approval_and_advice_decide_and_the_strictest_wins() {
    use AdvisedAction::{Deny, Execute, RequestApproval};
    let cases = [
        (Risk::Low, false, None, "done"),
        (Risk::Medium, false, Some(Execute), "done"),
        (Risk::High, false, None, "pending"),
        (Risk::Critical, false, Some(Execute), "pending"),
        (Risk::Low, true, Some(Execute), "pending"),
        (Risk::Low, false, Some(RequestApproval), "pending"),
        (Risk::Low, false, Some(Deny), "failed"),
        (Risk::Critical, true, Some(Deny), "failed"),
    ];
    for (risk, requires_approval, action, expected) in cases {
        let (mut tool, count) = counter("act");
        tool = tool.risk(risk);
        if requires_approval {
            tool = tool.requires_approval();
        }
        let bench = Bench::new([tool]);
        let mut call = Call::new("act", json!({}));
        call.advice = action.map(|action| Advice::new(action).because("it seemed right"));
        let outcome = bench.runtime.call(call).await;
        let status = serde_json::to_value(&outcome).unwrap()["status"].clone();
        assert_eq!(status, expected, "{risk} {requires_approval} {action:?}");
        assert_eq!(ran(&count), u32::from(expected == "done"));
        if expected == "failed" {
            assert_eq!(code(&outcome), "permission_denied");
        }
    }
}

#[tokio::test]
async fn a_pending_call_has_an_id_reasons_and_a_binding_to_what_was_asked() {
    let bench = Bench::new([echo("send").risk(Risk::High).requires_approval()]);
    let ask = |arguments| async {
        match bench.call("send", arguments).await.status {
            Status::Pending(pending) => pending,
            other => panic!("{other:?}"),
        }
    };
    let first = ask(json!({ "to": "a", "n": 1 })).await;
    let same = ask(json!({ "n": 1, "to": "a" })).await;
    let other = ask(json!({ "to": "b", "n": 1 })).await;
    assert_eq!(first.reasons.len(), 2);
    assert_eq!(first.approval_id, same.approval_id, "asked once");
    assert_eq!(first.binding, same.binding);
    assert_ne!(first.binding, other.binding);
    assert_eq!(bench.last_record().ending.approval_id, Some(other.approval_id));
}

#[tokio::test]
async fn an_answer_that_breaks_its_promise_is_an_error() {
    let tool = |name: &str, answer: serde_json::Value| {
        Tool::builder(name)
            .description("Promises a number.")
            .output_schema(
                json!({ "type": "object", "required": ["n"], "properties": { "n": { "type": "integer" } } }),
            )
            .handler(move |_, _| std::future::ready(Ok(answer.clone())))
    };
    let bench = Bench::new([tool("good", json!({ "n": 1 })), tool("bad", json!({ "n": "1" }))]);
    assert!(bench.call("good", json!({})).await.is_success());
    let outcome = bench.call("bad", json!({})).await;
    assert_eq!(code(&outcome), "output_invalid");
    assert_eq!(outcome.error().unwrap().field_errors()[0].path, "/n");
    assert_eq!(outcome.error().unwrap().stage(), Some(Stage::CheckOutput));
}

#[tokio::test]
async fn an_answer_beyond_the_limit_is_an_error() {
    let settings = Settings { result_bytes_max: 1_000, journal_result_bytes_max: 100, ..Settings::default() };
    let bench = Bench::with([echo("echo")], |builder| builder.settings(settings));
    assert_eq!(code(&bench.call("echo", json!({ "x": "y".repeat(2_000) })).await), "output_too_large");
    assert!(bench.call("echo", json!({ "x": "y".repeat(500) })).await.is_success());
    // Too large to keep, but its size is known.
    assert!(bench.last_record().payload.result.is_none());
    assert_eq!(bench.last_record().ending.result_bytes, Some(508));
}

#[tokio::test]
async fn an_answer_beyond_the_limit_is_not_held_against_its_schema() {
    let settings = Settings { result_bytes_max: 1_000, ..Settings::default() };
    let tool = Tool::builder("long")
        .description("Promises a short text.")
        .output_schema(json!({ "type": "object", "properties": { "x": { "pattern": "^z" } } }))
        .handler(|_, _| std::future::ready(Ok(json!({ "x": "y".repeat(2_000) }))));
    let bench = Bench::with([tool], |builder| builder.settings(settings));
    assert_eq!(code(&bench.call("long", json!({})).await), "output_too_large");
    assert!(bench.last_record().payload.result.is_none());
}

#[tokio::test]
async fn a_failure_can_be_made_a_result() {
    let failing = |name: &str, mode| {
        Tool::builder(name)
            .description("Always fails.")
            .failure_mode(mode)
            .handler(|_, _| async { Err(ToolError::failed("the printer is out of paper")) })
    };
    let bench = Bench::new([failing("errs", FailureMode::Error), failing("returns", FailureMode::Return)]);
    assert_eq!(code(&bench.call("errs", json!({})).await), "execution_failed");
    let outcome = bench.call("returns", json!({})).await;
    assert!(!outcome.is_success());
    assert_eq!(bench.last_record().ending.status.as_str(), "returned");
    let result = outcome.into_result().unwrap();
    assert_eq!(result["error"]["message"], "the printer is out of paper");
    // Wrong arguments are an error all the same.
    assert_eq!(code(&bench.call("returns", json!({ "x": 1 })).await), "validation_failed");
}

#[tokio::test]
async fn an_override_in_a_higher_layer_is_what_runs() {
    let bench = Bench::new([]);
    let answers = |text: &'static str| {
        Tool::builder("who")
            .description("Says who it is.")
            .handler(move |_, _| async move { Ok(json!(text)) })
            .build()
            .unwrap()
    };
    let registry = bench.runtime.registry();
    registry.register(Layer::Org, answers("org")).unwrap();
    registry.register(Layer::BuiltIn, answers("built-in")).unwrap();
    assert_eq!(bench.call("who", json!({})).await.into_result().unwrap(), "org");
    registry.unregister(Layer::Org, "who").unwrap();
    assert_eq!(bench.call("who", json!({})).await.into_result().unwrap(), "built-in");
}
