//! Before the tool: deny, and change the arguments.

use super::*;

#[tokio::test]
async fn a_denied_call_never_reaches_the_tool() {
    for (output, expected) in [
        (HookOutput::deny("not today"), "not today"),
        (HookOutput::block("not so"), "not so"),
        (HookOutput::stop("enough"), "enough"),
        (before(json!({ "permissionDecision": "deny" })), "it gave no reason"),
        (
            from_json(
                HookEvent::PreToolUse,
                json!({ "continue": false, "hookSpecificOutput":
            { "permissionDecision": "allow" } }),
            ),
            "it gave no reason",
        ),
    ] {
        let (tool, count) = counting("say");
        let bench = bench(tool, on(HookEvent::PreToolUse, output));
        let outcome = bench.call("say", json!({ "text": "hi" })).await;
        let error = outcome.error().unwrap();
        assert_eq!(error.code(), ErrorCode::HookDenied);
        assert!(error.message().contains(expected), "{error}");
        assert_eq!(count.load(Ordering::SeqCst), 0);
        assert_eq!(bench.last_record().ending.code, Some(ErrorCode::HookDenied));
    }
}

#[tokio::test]
async fn a_hook_that_breaks_denies_unless_the_operator_says_otherwise() {
    let crash = |_: Arc<HookInput>, _: HookContext| async { panic!("boom") };
    let crash_at_once = |_: Arc<HookInput>,
                         _: HookContext|
     -> std::future::Ready<Result<HookOutput, HookFailure>> { panic!("boom") };
    let crash_later = |_: Arc<HookInput>, _: HookContext| async {
        tokio::time::sleep(Duration::from_millis(1)).await;
        panic!("boom")
    };
    let fail = |_: Arc<HookInput>, _: HookContext| async { Err(HookFailure::new("no idea")) };
    let hang = |_: Arc<HookInput>, _: HookContext| async { std::future::pending().await };
    let entry = |kind: usize| {
        let (event, all) = (HookEvent::PreToolUse, Matcher::all());
        match kind {
            0 => HookEntry::new(event, all, crash),
            1 => HookEntry::new(event, all, crash_at_once),
            2 => HookEntry::new(event, all, crash_later),
            3 => HookEntry::new(event, all, fail),
            _ => HookEntry::new(event, all, hang).timeout(Duration::from_millis(20)),
        }
    };
    for kind in 0..5 {
        let (tool, count) = counting("say");
        let denying = bench(tool, HookSet::default().with(entry(kind)));
        let outcome = denying.call("say", json!({ "text": "hi" })).await;
        assert_eq!(outcome.error().unwrap().code(), ErrorCode::HookDenied, "{kind}");
        assert_eq!(count.load(Ordering::SeqCst), 0);

        let (tool, count) = counting("say");
        let set = HookSet::default().with(entry(kind).on_failure(OnFailure::Continue));
        assert!(bench(tool, set).call("say", json!({ "text": "hi" })).await.is_success(), "{kind}");
        assert_eq!(count.load(Ordering::SeqCst), 1);
    }
}

#[tokio::test]
async fn changed_arguments_are_checked_recorded_and_what_runs() {
    let (tool, count) = counting("say");
    let set =
        on(HookEvent::PreToolUse, before(json!({ "updatedInput": { "text": "changed", "times": "2" } })));
    let bench = bench(tool, set);
    let outcome = bench.call("say", json!({ "text": "original" })).await;
    assert!(
        outcome.repairs.iter().any(|repair| repair.detail.contains(r#"they were {"text":"original"}"#)),
        "{outcome:?}"
    );
    assert_eq!(outcome.clone().into_result().unwrap(), json!({ "said": "changed" }));
    assert_eq!(count.load(Ordering::SeqCst), 1);
    let recorded = bench.last_record().payload;
    assert_eq!(recorded.arguments.unwrap().get(), r#"{"text":"changed","times":2}"#);
    assert!(
        recorded.repairs.iter().any(|repair| repair.detail.contains("hook 1 (code) changed the arguments"))
    );
}

#[tokio::test]
async fn changed_arguments_that_do_not_fit_deny_the_call() {
    for wrong in [json!({}), json!({ "text": "x", "times": 9 }), json!({ "text": "x", "other": 1 })] {
        let (tool, count) = counting("say");
        let set = on(
            HookEvent::PreToolUse,
            before(json!({ "permissionDecision": "allow", "updatedInput": wrong })),
        );
        let outcome = bench(tool, set).call("say", json!({ "text": "hi" })).await;
        let error = outcome.error().unwrap();
        assert_eq!(error.code(), ErrorCode::HookDenied);
        assert!(error.message().contains("does not fit"), "{error}");
        assert_eq!(count.load(Ordering::SeqCst), 0);
    }
}

#[tokio::test]
async fn arguments_that_do_not_fit_fire_no_hook() {
    let (heard, hook) = listening();
    let (tool, _) = counting("say");
    let set = HookSet::default().on(HookEvent::PreToolUse, Matcher::all(), hook);
    let outcome = bench(tool, set).call("say", json!({ "text": 1.5e300, "what": [] })).await;
    assert_eq!(outcome.error().unwrap().code(), ErrorCode::ValidationFailed);
    assert!(heard.lock().unwrap().is_empty());
}

#[tokio::test]
async fn of_two_changes_the_later_registered_counts_however_fast_it_is() {
    for slow in [0, 1] {
        let hook = move |index: u64| {
            move |_: Arc<HookInput>, _: HookContext| async move {
                if index == slow {
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
                Ok(before(json!({ "updatedInput": { "text": format!("by {index}") } })))
            }
        };
        let (tool, _) = counting("say");
        let set = HookSet::default().on(HookEvent::PreToolUse, Matcher::all(), hook(0)).on(
            HookEvent::PreToolUse,
            Matcher::all(),
            hook(1),
        );
        let outcome = bench(tool, set).call("say", json!({ "text": "hi" })).await;
        assert!(outcome.repairs.iter().any(|repair| repair.detail.contains("both changed the arguments")));
        assert_eq!(outcome.into_result().unwrap(), json!({ "said": "by 1" }));
    }
}
