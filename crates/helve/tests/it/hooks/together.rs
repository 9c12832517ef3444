//! Several hooks: the strictest answer counts.

use super::*;

#[tokio::test]
async fn one_strict_answer_outweighs_all_others() {
    use PermissionDecision::{Allow, Ask, Defer, Deny};
    let decided = |decision: PermissionDecision| before(json!({ "permissionDecision": decision.as_str() }));
    for (said, expected) in [
        (vec![Allow], Allow),
        (vec![Allow, Ask], Ask),
        (vec![Ask, Allow, Defer], Defer),
        (vec![Defer, Deny, Allow], Deny),
    ] {
        let set = said.iter().fold(HookSet::default(), |set, one| {
            set.on(HookEvent::PreToolUse, Matcher::all(), answering(decided(*one)))
        });
        let (tool, _) = counting("say");
        let input =
            HookInput::new(HookEvent::PreToolUse).with("tool_name", "Bash").with("tool_input", json!({}));
        let fired = bench(tool, set).runtime.fire(input).await;
        assert_eq!(fired.decision.unwrap().what.0, expected, "{said:?}");
    }
}

fn any_output() -> impl Strategy<Value = Option<Value>> {
    let decision = prop_oneof![Just("allow"), Just("deny"), Just("ask"), Just("defer")];
    let field = |name: &'static str, value: BoxedStrategy<Value>| {
        proptest::option::of(value).prop_map(move |value| value.map(|value| (name.to_owned(), value)))
    };
    let specific = (
        field("permissionDecision", decision.prop_map(|word| json!(word)).boxed()),
        field("updatedInput", (0..3u8).prop_map(|n| json!({ "text": n.to_string() })).boxed()),
        field("additionalContext", "[a-z]{1,3}".prop_map(Value::from).boxed()),
    );
    let output = (specific, proptest::option::weighted(0.1, Just(false))).prop_map(|((a, b, c), goes_on)| {
        let specific: serde_json::Map<_, _> = [a, b, c].into_iter().flatten().collect();
        let mut output = json!({ "hookSpecificOutput": specific });
        if let Some(goes_on) = goes_on {
            output["continue"] = json!(goes_on);
        }
        output
    });
    // None: it fails.
    proptest::option::weighted(0.9, output)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn who_is_faster_changes_nothing(
        outputs in proptest::collection::vec((any_output(), 0..4u64, 0..4u64), 1..6),
    ) {
        let tokio = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
        let fire = |pick: fn(&(Option<Value>, u64, u64)) -> u64| {
            let set = outputs.iter().fold(HookSet::default(), |set, one| {
                let (output, wait) = (one.0.clone(), pick(one));
                set.on(HookEvent::PreToolUse, Matcher::all(), move |_: Arc<HookInput>, _: HookContext| {
                    let output = output.clone();
                    async move {
                        if wait > 0 {
                            tokio::time::sleep(Duration::from_secs(wait)).await;
                        }
                        output.map(before_all).ok_or_else(|| HookFailure::new("broken"))
                    }
                })
            });
            let (tool, _) = counting("say");
            let runtime = bench(tool, set).runtime;
            let fired = tokio.block_on(runtime.fire(HookInput::new(HookEvent::PreToolUse)));
            let refused = fired.refusal().map(str::to_owned);
            (serde_json::to_value(fired.to_output()).unwrap(), fired.conflicts, refused)
        };
        prop_assert_eq!(fire(|one| one.1), fire(|one| one.2));
    }
}

fn before_all(output: Value) -> HookOutput {
    from_json(HookEvent::PreToolUse, output)
}
