//! What a trace says, and what it never says.

use helve::permission::Destination;
use helve::permissions::PermissionOptions;
use helve::{Annotations, Call, Caller, Risk, Tool};
use opentelemetry_proto::tonic::trace::v1::status::StatusCode;
use serde_json::json;

use crate::collector::{Collector, LONG, list, runtime, telemetry, text};

const SECRET: &str = "hush-hush-4711";

#[tokio::test]
async fn a_call_is_a_span_with_its_stages_in_order_and_within_its_time() {
    let (collector, address) = Collector::start(&[]).await;
    let telemetry = telemetry(address, |options| {
        options.service_name("shop").unwrap().header("authorization", "Bearer letmein").unwrap()
    });
    let runtime = runtime(&telemetry, |builder| builder);
    let caller = Caller::agent("assistant").session("s-1");
    let outcome = runtime.call(Call::new("greet", json!({ "name": "Ada" })).by(caller)).await;
    assert!(outcome.is_success());
    runtime.flush_traces(LONG).await;

    let spans = collector.spans();
    let (call, stages) = spans.split_first().unwrap();
    assert_eq!(call.name, "execute_tool greet");
    assert_eq!((call.trace_id.len(), call.span_id.len(), call.parent_span_id.len()), (16, 8, 0));
    let expected = [
        ("gen_ai.operation.name", "execute_tool"),
        ("gen_ai.tool.name", "greet"),
        ("gen_ai.tool.call.id", &outcome.call_id.to_string()),
        ("gen_ai.tool.type", "function"),
        ("gen_ai.conversation.id", "s-1"),
        ("gen_ai.agent.name", "assistant"),
        ("helve.risk", "medium"),
        ("helve.status", "done"),
        ("helve.gate.said", "allow"),
    ];
    for (key, value) in expected {
        assert_eq!(text(call, key).as_deref(), Some(value), "{key}");
    }
    assert_eq!((text(call, "error.type"), &call.status), (None, &None));

    let names: Vec<_> = stages.iter().map(|span| span.name.as_str()).collect();
    assert_eq!(
        names,
        ["resolve", "authorize", "prepare", "ready", "decide", "execute", "check_output", "record"]
    );
    let mut at = call.start_time_unix_nano;
    for stage in stages {
        assert_eq!((&stage.trace_id, &stage.parent_span_id), (&call.trace_id, &call.span_id));
        assert_eq!(stage.start_time_unix_nano, at, "{}", stage.name);
        assert!(stage.end_time_unix_nano > at, "{}", stage.name);
        at = stage.end_time_unix_nano;
    }
    assert_eq!(at, call.end_time_unix_nano);
    let mut ids: Vec<_> = spans.iter().map(|span| &span.span_id).collect();
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), spans.len());

    let (headers, _) = &collector.posts()[0];
    assert_eq!(headers["content-type"], "application/x-protobuf");
    assert_eq!(headers["authorization"], "Bearer letmein");
    let resource = collector.requests()[0].resource_spans[0].resource.clone().unwrap();
    let service = resource.attributes.iter().find(|one| one.key == "service.name").unwrap();
    assert!(format!("{service:?}").contains("\"shop\""), "{service:?}");
}

#[tokio::test]
async fn a_failure_has_its_code_and_nothing_of_what_was_said() {
    let (collector, address) = Collector::start(&[]).await;
    let runtime = runtime(&telemetry(address, |options| options), |builder| builder);
    let said = json!({ "name": "Ada Lovelace", "password": SECRET });
    let outcome = runtime.call(Call::new("fail", said.clone())).await;
    assert!(outcome.error().unwrap().message().contains("Ada Lovelace"), "the caller is told");
    runtime.call(Call::new("greet", said)).await;
    runtime.call(Call::new("greet", json!({ "name": ["Grace Hopper"] }))).await;
    runtime.flush_traces(LONG).await;

    let spans = collector.spans();
    let failed = |stage: &str| {
        let is = |span: &&opentelemetry_proto::tonic::trace::v1::Span| {
            span.name == stage && span.status.as_ref().is_some_and(|one| one.code == StatusCode::Error as i32)
        };
        spans.iter().find(is).unwrap_or_else(|| panic!("{stage} has failed"))
    };
    for span in [failed("execute_tool fail"), failed("execute")] {
        assert_eq!(text(span, "error.type").as_deref(), Some("execution_failed"));
    }
    assert_eq!(text(failed("prepare"), "error.type").as_deref(), Some("validation_failed"));
    assert_eq!(collector.calls().len(), 3);
    for said in ["Ada", "Lovelace", "Grace", SECRET, "cannot greet", "hello"] {
        assert!(!collector.has_text(said), "{said}");
    }
}

#[tokio::test]
async fn content_is_told_where_it_is_wanted_and_never_its_secrets() {
    let (collector, address) = Collector::start(&[]).await;
    let runtime = runtime(&telemetry(address, |options| options.with_content()), |builder| builder);
    let said = json!({ "name": format!("Ada {SECRET} {}", "é".repeat(5_000)), "password": SECRET });
    runtime.call(Call::new("greet", said)).await;
    runtime.flush_traces(LONG).await;
    let call = &collector.calls()[0];
    for key in ["gen_ai.tool.call.arguments", "gen_ai.tool.call.result"] {
        let told = text(call, key).unwrap();
        assert!(told.contains("Ada") && told.len() <= 8 << 10, "{key}: {} bytes", told.len());
    }
    assert!(!collector.has_text(SECRET));
}

#[tokio::test]
async fn a_denied_call_says_who_denied_it() {
    let (collector, address) = Collector::start(&[]).await;
    let rules = serde_json::from_value(json!({ "deny": ["greet"] })).unwrap();
    let places = vec![(Destination::UserSettings, rules)];
    let runtime = runtime(&telemetry(address, |options| options), |builder| {
        builder.permissions(PermissionOptions { places, ..PermissionOptions::default() })
    });
    assert!(!runtime.call(Call::new("greet", json!({}))).await.is_success());
    runtime.flush_traces(LONG).await;
    let call = &collector.calls()[0];
    assert_eq!(text(call, "helve.status").as_deref(), Some("denied"));
    assert_eq!(text(call, "error.type").as_deref(), Some("permission_denied"));
    assert_eq!(text(call, "helve.gate.said").as_deref(), Some("deny"));
    assert_eq!(list(call, "helve.gate.by"), ["rule deny greet"]);
    assert!(collector.spans().iter().all(|span| span.name != "execute"), "it did not run");
}

#[tokio::test]
async fn a_call_that_waits_for_a_person_names_the_question() {
    let (collector, address) = Collector::start(&[]).await;
    let risky = Tool::builder("risky")
        .description("Asks.")
        .risk(Risk::High)
        .annotations(Annotations::pure())
        .handler(async |_, _| Ok(json!("done")));
    let runtime = runtime(&telemetry(address, |options| options), |builder| builder.tool(risky).unwrap());
    let outcome = runtime.call(Call::new("risky", json!({}))).await;
    let helve::Status::Pending(pending) = &outcome.status else { panic!("{outcome:?}") };
    runtime.flush_traces(LONG).await;
    let call = &collector.calls()[0];
    assert_eq!(text(call, "helve.approval.id"), Some(pending.approval_id.to_string()));
    assert_eq!(text(call, "helve.status").as_deref(), Some("pending"));
    assert_eq!(text(call, "helve.gate.said").as_deref(), Some("ask"));
    assert_eq!(call.status, None, "to wait is no failure");
}

#[tokio::test]
async fn a_name_that_nobody_has_is_no_name_of_a_span() {
    let (collector, address) = Collector::start(&[]).await;
    let runtime = runtime(&telemetry(address, |options| options), |builder| builder);
    runtime.call(Call::new("x".repeat(100_000), json!({}))).await;
    runtime.flush_traces(LONG).await;
    let call = &collector.calls()[0];
    assert_eq!(call.name, "execute_tool");
    assert_eq!(text(call, "error.type").as_deref(), Some("tool_not_found"));
    assert!(text(call, "gen_ai.tool.name").unwrap().len() <= 256);
}

#[tokio::test]
async fn a_caller_who_went_away_is_told_of() {
    let (collector, address) = Collector::start(&[]).await;
    let slow = Tool::builder("slow")
        .description("Takes its time.")
        .annotations(Annotations::pure())
        .handler(async |_, _| std::future::pending().await);
    let runtime = runtime(&telemetry(address, |options| options), |builder| builder.tool(slow).unwrap());
    let left = tokio::time::timeout(
        std::time::Duration::from_millis(100),
        runtime.call(Call::new("slow", json!({}))),
    );
    assert!(left.await.is_err());
    runtime.flush_traces(LONG).await;
    let call = &collector.calls()[0];
    assert_eq!(text(call, "error.type").as_deref(), Some("cancelled"));
}
