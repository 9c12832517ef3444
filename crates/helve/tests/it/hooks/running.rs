//! How hooks run: until when, in parallel to the call, as tools.

use super::*;

#[tokio::test]
async fn a_hook_ends_with_the_call_that_is_taken_back() {
    let dropped = Arc::new(AtomicBool::new(false));
    struct Flag(Arc<AtomicBool>);
    impl Drop for Flag {
        fn drop(&mut self) {
            self.0.store(true, Ordering::SeqCst);
        }
    }
    let flag = Arc::clone(&dropped);
    let hang = move |_: Arc<HookInput>, _: HookContext| {
        let flag = Flag(Arc::clone(&flag));
        async move {
            let _flag = flag;
            std::future::pending().await
        }
    };
    let (tool, count) = counting("say");
    let bench = bench(tool, HookSet::default().on(HookEvent::PreToolUse, Matcher::all(), hang));
    let token = CancellationToken::new();
    let call = bench.runtime.call(Call::new("say", json!({ "text": "hi" })).cancellation(token.clone()));
    let (outcome, ()) = tokio::join!(call, async { token.cancel() });
    assert_eq!(outcome.error().unwrap().code(), ErrorCode::Cancelled);
    assert!(dropped.load(Ordering::SeqCst));
    assert_eq!(count.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn hooks_in_the_background_have_no_say() {
    let done = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&done);
    let slow = move |_: Arc<HookInput>, _: HookContext| {
        let flag = Arc::clone(&flag);
        async move {
            tokio::time::sleep(Duration::from_millis(20)).await;
            flag.store(true, Ordering::SeqCst);
            Ok(HookOutput::deny("too late").and_context("too late"))
        }
    };
    let (tool, count) = counting("say");
    let says_async =
        from_json(HookEvent::PreToolUse, json!({ "async": true, "asyncTimeout": 5, "decision": "block" }));
    let set = on(HookEvent::PreToolUse, says_async)
        .with(HookEntry::new(HookEvent::PreToolUse, Matcher::all(), slow).in_background());
    let bench = bench(tool, set);
    let outcome = bench.call("say", json!({ "text": "hi" })).await;
    assert!(outcome.is_success() && outcome.context.is_empty());
    assert_eq!(count.load(Ordering::SeqCst), 1);
    bench.runtime.hooks().settle(Duration::from_secs(10)).await;
    assert!(done.load(Ordering::SeqCst));
}

#[tokio::test]
async fn a_tool_can_be_a_hook_and_fires_none_itself() {
    let checker = Tool::builder("demo/check")
        .description("Stands in for a tool.")
        .input_schema(json!({ "type": "object" }))
        .read_only()
        .handler(|arguments: Value, context: Context| async move {
            assert_eq!(context.caller().principal.as_deref(), Some("hook"));
            assert_eq!(arguments["hook_event_name"], "PreToolUse");
            let text = arguments["tool_input"]["text"].as_str() == Some("bad");
            // As an MCP server says it.
            Ok::<_, ToolError>(json!(if text {
                r#"{"decision":"block","reason":"bad words"}"#
            } else {
                "fine"
            }))
        });
    let (tool, count) = counting("say");
    let set = HookSet::default().on(HookEvent::PreToolUse, Matcher::all(), ToolHook::new("demo/check"));
    let bench = Bench::with([checker, tool], |builder| builder.hooks(set));
    assert!(bench.call("say", json!({ "text": "good" })).await.is_success());
    let outcome = bench.call("say", json!({ "text": "bad" })).await;
    assert!(outcome.error().unwrap().message().contains("bad words"));
    assert_eq!(count.load(Ordering::SeqCst), 1);
    // Somebody who takes the hook's name is not taken for it.
    let call = Call::new("say", json!({ "text": "bad" })).by(Caller::principal("hook"));
    assert_eq!(bench.runtime.call(call).await.error().unwrap().code(), ErrorCode::HookDenied);

    let set = HookSet::default().on(HookEvent::PreToolUse, Matcher::all(), ToolHook::new("gone"));
    bench.runtime.hooks().replace(set);
    let outcome = bench.call("say", json!({ "text": "good" })).await;
    assert!(outcome.error().unwrap().message().contains("no tool named"), "{outcome:?}");
    assert_eq!(count.load(Ordering::SeqCst), 1);
}
