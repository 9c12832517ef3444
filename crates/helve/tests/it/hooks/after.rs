//! After the tool: what the model learns, and other results.

use super::*;

#[tokio::test]
async fn what_hooks_want_the_model_to_know_reaches_it() {
    let (tool, _) = counting("say");
    let set = on(HookEvent::PreToolUse, HookOutput::allow().and_context("first"))
        .on(HookEvent::PreToolUse, Matcher::all(), answering(HookOutput::context("second")))
        .on(HookEvent::PostToolUse, Matcher::all(), answering(HookOutput::block("third")));
    let outcome = bench(tool, set).call("say", json!({ "text": "hi" })).await;
    assert!(outcome.is_success());
    let text = result_text(&outcome, &ResultBudget::default());
    let at = |wanted: &str| text.find(wanted).unwrap_or_else(|| panic!("{wanted} is not in {text}"));
    assert!(at("\"said\":\"hi\"") < at("first") && at("first") < at("second") && at("second") < at("third"));
}

#[tokio::test]
async fn a_system_message_is_for_the_user_and_suppressed_output_is_for_the_model() {
    let said = |event: HookEvent, message: &str, context: &str, suppress: bool| {
        let specific = json!({ "hookEventName": event.as_str(), "additionalContext": context });
        from_json(
            event,
            json!({ "systemMessage": message, "suppressOutput": suppress, "hookSpecificOutput": specific }),
        )
    };
    let (tool, _) = counting("say");
    let open = said(HookEvent::PreToolUse, "user one", "model one", false);
    let quiet = said(HookEvent::PostToolUse, "user two with hunter2-hunter2", "model two", true);
    let set = on(HookEvent::PreToolUse, open).on(HookEvent::PostToolUse, Matcher::all(), answering(quiet));
    let tool = tool.input_schema(json!({ "type": "object", "properties": {
        "text": { "type": "string" }, "password": { "type": "string" } } }));
    let outcome = bench(tool, set).call("say", json!({ "text": "hi", "password": "hunter2-hunter2" })).await;
    assert_eq!(outcome.context, ["model one", "model two"]);
    assert_eq!(outcome.messages, ["user one", "model one", "user two with [redacted]"], "and no secret");
    let text = result_text(&outcome, &ResultBudget::default());
    assert!(text.contains("model two") && !text.contains("user one") && !text.contains("user two"), "{text}");
}

#[tokio::test]
async fn a_result_can_be_replaced_and_is_checked_again() {
    let tool = || counting("say").0.output_schema(json!({ "type": "object", "required": ["said"] }));
    let replaced =
        bench(tool(), on(HookEvent::PostToolUse, HookOutput::replace_output(json!({ "said": "***" }))));
    let outcome = replaced.call("say", json!({ "text": "hi" })).await;
    assert_eq!(outcome.into_result().unwrap(), json!({ "said": "***" }));
    assert_eq!(replaced.last_record().payload.result.unwrap().get(), r#"{"said":"***"}"#);

    let wrong = bench(tool(), on(HookEvent::PostToolUse, HookOutput::replace_output(json!("gone"))));
    let outcome = wrong.call("say", json!({ "text": "xyzzy" })).await;
    let error = outcome.error().unwrap();
    assert_eq!(error.code(), ErrorCode::HookDenied);
    assert!(error.message().contains("withheld") && !error.message().contains("xyzzy"), "{error}");
}

#[tokio::test]
async fn only_tools_of_mcp_servers_take_an_mcp_result() {
    let output =
        from_json(HookEvent::PostToolUse, json!({ "hookSpecificOutput": { "updatedMCPToolOutput": 7 } }));
    let (plain, _) = counting("say");
    let outcome =
        bench(plain, on(HookEvent::PostToolUse, output.clone())).call("say", json!({ "text": "hi" })).await;
    assert_eq!(outcome.into_result().unwrap(), json!({ "said": "hi" }));
    let (served, _) = counting("demo/say");
    let set = on(HookEvent::PostToolUse, output);
    let outcome = bench(served.source(Source::Mcp), set).call("demo/say", json!({ "text": "hi" })).await;
    assert_eq!(outcome.into_result().unwrap(), json!(7));
}

#[tokio::test]
async fn a_check_of_results_that_breaks_withholds_them_where_the_operator_wants_that() {
    let fail = |_: Arc<HookInput>, _: HookContext| async { Err(HookFailure::new("no idea")) };
    let entry = || HookEntry::new(HookEvent::PostToolUse, Matcher::all(), fail);
    let tool = || counting("say").0;
    assert!(
        bench(tool(), HookSet::default().with(entry()))
            .call("say", json!({ "text": "hi" }))
            .await
            .is_success()
    );
    // Also where another hook has objected before, which by itself withholds nothing.
    let objecting = on(HookEvent::PostToolUse, HookOutput::block("look again"));
    for set in [HookSet::default(), objecting] {
        let set = set.with(entry().on_failure(OnFailure::Block));
        let outcome = bench(tool(), set).call("say", json!({ "text": "hi" })).await;
        assert_eq!(outcome.error().unwrap().code(), ErrorCode::HookDenied);
    }
}

#[tokio::test]
async fn an_outcome_that_is_replayed_is_told_of_once() {
    let (heard, hook) = listening();
    let (tool, count) = counting("say");
    let set = HookSet::default().on(HookEvent::PostToolUse, Matcher::all(), hook);
    let bench = bench(tool, set);
    for _ in 0..2 {
        let call = Call::new("say", json!({ "text": "hi" })).idempotency_key("k");
        assert!(bench.runtime.call(call).await.is_success());
    }
    assert_eq!((heard.lock().unwrap().len(), count.load(Ordering::SeqCst)), (1, 1));
}
