//! Hooks: who is told of what, what their answers come to, and that a broken one denies.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use helve::formats::{ResultBudget, result_text};
use helve::hook::{
    HookContext, HookEvent, HookFailure, HookInput, HookOutput, OnFailure, PermissionDecision,
};
use helve::hooks::{HookEntry, HookSet, Matcher, ToolHook};
use helve::{Call, Caller, Context, ErrorCode, Source, Status, Tool, ToolBuilder, ToolError};
use proptest::prelude::*;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::support::Bench;

/// A tool that says what it was given, and counts how often it ran.
fn counting(name: &str) -> (ToolBuilder, Arc<AtomicU32>) {
    let count = Arc::new(AtomicU32::new(0));
    let counter = Arc::clone(&count);
    let tool = Tool::builder(name)
        .description("Says what it was given.")
        .input_schema(json!({ "type": "object", "additionalProperties": false, "required": ["text"],
            "properties": { "text": { "type": "string" }, "times": { "type": "integer", "maximum": 3 },
                "password": { "type": "string" } } }))
        .handler(move |arguments: Value, _: Context| {
            counter.fetch_add(1, Ordering::SeqCst);
            async move { Ok::<_, ToolError>(json!({ "said": arguments["text"] })) }
        })
        .read_only();
    (tool, count)
}

fn answering(output: HookOutput) -> impl helve::hook::Hook {
    move |_: Arc<HookInput>, _: HookContext| {
        let output = output.clone();
        async move { Ok::<_, HookFailure>(output) }
    }
}

fn from_json(event: HookEvent, answer: Value) -> HookOutput {
    HookOutput::from_value(&event, answer).unwrap()
}

fn before(specific: Value) -> HookOutput {
    from_json(HookEvent::PreToolUse, json!({ "hookSpecificOutput": specific }))
}

type Heard = Arc<Mutex<Vec<Value>>>;

/// A hook that writes down what it is told.
fn listening() -> (Heard, impl helve::hook::Hook) {
    let heard = Heard::default();
    let told = Arc::clone(&heard);
    let hook = move |input: Arc<HookInput>, _: HookContext| {
        told.lock().unwrap().push(serde_json::to_value(&*input).unwrap());
        async { Ok::<_, HookFailure>(HookOutput::none()) }
    };
    (heard, hook)
}

fn bench(tool: ToolBuilder, set: HookSet) -> Bench {
    Bench::with([tool], |builder| builder.hooks(set))
}

fn on(event: HookEvent, output: HookOutput) -> HookSet {
    HookSet::default().on(event, Matcher::all(), answering(output))
}

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
    let set = HookSet::default().with(entry().on_failure(OnFailure::Block));
    let outcome = bench(tool(), set).call("say", json!({ "text": "hi" })).await;
    assert_eq!(outcome.error().unwrap().code(), ErrorCode::HookDenied);
}

#[tokio::test]
async fn hooks_are_told_in_the_words_of_the_reference() {
    let (heard, hook) = listening();
    let hook = Arc::new(hook);
    let mut set = HookSet::default().in_folder("/srv/project");
    for event in [
        HookEvent::PreToolUse,
        HookEvent::PostToolUse,
        HookEvent::PostToolUseFailure,
        HookEvent::PermissionDenied,
    ] {
        set = set.with(HookEntry::shared(event, Matcher::all(), hook.clone()));
    }
    let (tool, _) = counting("demo/say");
    let failing = Tool::builder("fail")
        .description("Stands in for a tool.")
        .input_schema(json!({ "type": "object" }))
        .handler(|_, _| async { Err::<Value, _>(ToolError::failed("out of paper")) });
    let bench = Bench::with([tool.source(Source::Mcp), failing], |builder| builder.hooks(set));
    let caller = Arc::new(Caller::agent("scout").session("s-1"));
    let call = |tool: &str, arguments| bench.runtime.call(Call::new(tool, arguments).by(Arc::clone(&caller)));
    let said = call("demo/say", json!({ "text": "hi" })).await;
    let failed = call("fail", json!({})).await;
    let stranger = Caller::principal("eve").allow_only(["other"]);
    let denied = bench.runtime.call(Call::new("demo/say", json!({ "text": "hi" })).by(stranger)).await;

    let heard = heard.lock().unwrap().clone();
    let common = |event: &str| {
        json!({ "hook_event_name": event, "session_id": "s-1", "transcript_path": "", "cwd": "/srv/project",
            "permission_mode": "default", "agent_id": "scout" })
    };
    let with = |mut one: Value, more: Value| {
        one.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        one
    };
    let duration = |index: usize| heard[index]["duration_ms"].as_u64().unwrap();
    let server = json!({ "name": "demo", "source": "mcp" });
    let of_call = json!({ "tool_name": "demo/say", "tool_input": { "text": "hi" }, "tool_use_id": said.call_id,
        "mcp_server": server });
    assert_eq!(heard[0], with(common("PreToolUse"), of_call.clone()));
    let after = json!({ "tool_response": { "said": "hi" }, "duration_ms": duration(1) });
    assert_eq!(heard[1], with(with(common("PostToolUse"), of_call), after));
    assert_eq!(
        heard[3],
        with(
            common("PostToolUseFailure"),
            json!({ "tool_name": "fail", "tool_input": {},
            "tool_use_id": failed.call_id, "error": "out of paper", "is_interrupt": false,
            "duration_ms": duration(3) })
        )
    );
    assert_eq!(heard[4]["hook_event_name"], "PermissionDenied");
    assert_eq!(heard[4]["tool_use_id"], json!(denied.call_id));
    assert_eq!(heard[4]["reason"], denied.error().unwrap().message());
    assert_eq!(heard.len(), 5);
}

#[tokio::test]
async fn a_tool_is_known_by_all_its_names() {
    for (matcher, expected) in [
        ("mail/send", Some("mail/send")),
        ("mail__send", Some("mail/send")),
        ("post", Some("mail/send")),
        ("mcp__mail__send", Some("mcp__mail__send")),
        ("mcp__mail__.*", Some("mcp__mail__send")),
        ("mcp__mail", None),
        ("send", None),
        ("Bash", None),
    ] {
        let (heard, hook) = listening();
        let (tool, _) = counting("mail/send");
        let set = HookSet::default().on(HookEvent::PreToolUse, Matcher::new(matcher).unwrap(), hook);
        let bench = bench(tool.alias("post").source(Source::Mcp), set);
        assert!(bench.call("mail/send", json!({ "text": "hi" })).await.is_success());
        let heard = heard.lock().unwrap();
        assert_eq!(heard.first().and_then(|told| told["tool_name"].as_str()), expected, "{matcher}");
    }
}

/// Hooks for Claude Code match `Write` and read `file_path`.
#[tokio::test]
async fn the_tools_that_ship_with_helve_are_told_of_in_the_words_of_claude_code() {
    let file_write = |source| {
        Tool::builder("file-write")
            .description("Stands in for a tool.")
            .input_schema(json!({ "type": "object", "additionalProperties": false, "required": ["path"],
                "properties": { "path": { "type": "string" } } }))
            .source(source)
            .read_only()
            .handler(|arguments: Value, _| async move { Ok::<_, ToolError>(arguments["path"].clone()) })
    };
    let protect = |input: Arc<HookInput>, _: HookContext| async move {
        assert_eq!(input.tool_name(), "Write");
        let path = input.tool_input()["file_path"].as_str().unwrap().to_owned();
        Ok(if path.ends_with(".env") {
            HookOutput::deny("secrets live there")
        } else {
            before(json!({ "updatedInput": { "file_path": format!("safe/{path}") } }))
        })
    };
    let set = HookSet::default().on(HookEvent::PreToolUse, Matcher::new("Edit|Write").unwrap(), protect);
    let ours = bench(file_write(Source::Builtin), set.clone());
    let denied = ours.call("file-write", json!({ "path": "a/.env" })).await;
    assert_eq!(denied.error().unwrap().code(), ErrorCode::HookDenied);
    let moved = ours.call("file-write", json!({ "path": "notes" })).await;
    assert_eq!(moved.into_result().unwrap(), json!("safe/notes"));
    // Somebody's own tool of that name takes who knows what.
    let theirs = bench(file_write(Source::Function), set);
    assert_eq!(
        theirs.call("file-write", json!({ "path": ".env" })).await.into_result().unwrap(),
        json!(".env")
    );
}

#[tokio::test]
async fn hooks_never_hand_on_a_secret_that_they_were_told() {
    let tell = |input: Arc<HookInput>, _: HookContext| async move {
        let secret = input.tool_input()["password"].as_str().unwrap().to_owned();
        Ok(HookOutput::deny(format!("{secret} is weak")).and_context(secret))
    };
    let (tool, _) = counting("say");
    let bench = bench(tool, HookSet::default().on(HookEvent::PreToolUse, Matcher::all(), tell));
    let outcome = bench.call("say", json!({ "text": "hi", "password": "hunter2!" })).await;
    let shown = format!("{} {:?}", serde_json::to_string(&outcome).unwrap(), bench.last_record());
    assert!(shown.contains("is weak") && !shown.contains("hunter2"), "{shown}");
}

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

#[tokio::test]
async fn any_event_can_be_fired() {
    let (heard, hook) = listening();
    let hook = Arc::new(hook);
    let only = |event: HookEvent, matcher: &str| {
        HookEntry::shared(event, Matcher::new(matcher).unwrap(), hook.clone())
    };
    let teammate: HookEvent = "TeammateIdle".parse().unwrap();
    let set = HookSet::default()
        .with(only(HookEvent::SessionStart, "startup|resume"))
        .with(only(HookEvent::FileChanged, r"\.env$"))
        .with(only(HookEvent::UserPromptSubmit, "never looked at"))
        .with(only(teammate.clone(), "never looked at"))
        .on(HookEvent::UserPromptSubmit, Matcher::all(), answering(HookOutput::block("no")));
    let (tool, _) = counting("say");
    let runtime = bench(tool, set).runtime;
    for (input, expected) in [
        (HookInput::new(HookEvent::SessionStart).with("source", "startup"), 1),
        (HookInput::new(HookEvent::SessionStart).with("source", "clear"), 0),
        (HookInput::new(HookEvent::FileChanged).with("file_path", "/a.env/b"), 0),
        (HookInput::new(HookEvent::FileChanged).with("file_path", "/a/.env"), 1),
        (HookInput::new(teammate), 1),
        (HookInput::new(HookEvent::Stop), 0),
    ] {
        let fired = runtime.fire(input).await;
        assert_eq!(
            (fired.refusal(), heard.lock().unwrap().drain(..).count()),
            (None, expected),
            "{}",
            fired.event
        );
    }
    let fired = runtime.fire(HookInput::new(HookEvent::UserPromptSubmit).with("prompt", "hi")).await;
    assert_eq!(fired.refusal(), Some("no"));
    assert_eq!(
        serde_json::to_value(fired.to_output()).unwrap(),
        json!({ "decision": "block", "reason": "no" })
    );
}

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

/// A tool that a person is asked about.
fn risky() -> (ToolBuilder, Arc<AtomicU32>) {
    let (tool, count) = counting("say");
    (tool.risk(helve::Risk::High), count)
}

fn request(decision: Value) -> HookOutput {
    from_json(HookEvent::PermissionRequest, json!({ "hookSpecificOutput": { "decision": decision } }))
}

#[tokio::test]
async fn a_hook_can_have_a_person_asked_or_not() {
    let (tool, count) = counting("say");
    let asks = bench(tool, on(HookEvent::PreToolUse, HookOutput::ask("is this wise?")));
    let outcome = asks.call("say", json!({ "text": "hi" })).await;
    let Status::Pending(pending) = &outcome.status else { panic!("{outcome:?}") };
    assert!(pending.reasons.iter().any(|reason| reason.contains("is this wise?")), "{pending:?}");
    assert_eq!(count.load(Ordering::SeqCst), 0);

    let (tool, _) = counting("say");
    let defers = bench(tool, on(HookEvent::PreToolUse, before(json!({ "permissionDecision": "defer" }))));
    assert!(matches!(defers.call("say", json!({ "text": "hi" })).await.status, Status::Pending(_)));

    // What is of high risk needs nobody where a hook vouches for it.
    let (tool, _) = risky();
    let allows = bench(tool, on(HookEvent::PreToolUse, HookOutput::allow()));
    assert!(allows.call("say", json!({ "text": "hi" })).await.is_success());
}

#[tokio::test]
async fn a_hook_can_answer_in_place_of_the_person_who_would_be_asked() {
    let (heard, hook) = listening();
    let call = |output: HookOutput| async move {
        let (tool, count) = risky();
        let outcome =
            bench(tool, on(HookEvent::PermissionRequest, output)).call("say", json!({ "text": "hi" })).await;
        (outcome, count.load(Ordering::SeqCst))
    };
    let (outcome, ran) = call(HookOutput::none()).await;
    assert!(matches!(outcome.status, Status::Pending(_)) && ran == 0, "{outcome:?}");
    let (outcome, ran) = call(request(json!({ "behavior": "allow" }))).await;
    assert_eq!((outcome.into_result().unwrap(), ran), (json!({ "said": "hi" }), 1));
    let (outcome, ran) =
        call(request(json!({ "behavior": "allow", "updatedInput": { "text": "ho" } }))).await;
    assert_eq!((outcome.into_result().unwrap(), ran), (json!({ "said": "ho" }), 1));
    for no in [
        request(json!({ "behavior": "deny", "message": "never" })),
        request(json!({ "behavior": "allow", "updatedInput": { "nothing": 1 } })),
        HookOutput::block("no"),
        HookOutput::stop("enough"),
    ] {
        let (outcome, ran) = call(no).await;
        assert_eq!((outcome.error().unwrap().code(), ran), (ErrorCode::HookDenied, 0));
    }
    let (tool, _) = risky();
    let set = HookSet::default().on(HookEvent::PermissionRequest, Matcher::all(), hook);
    bench(tool, set).call("say", json!({ "text": "hi" })).await;
    let told = heard.lock().unwrap().pop().unwrap();
    assert_eq!((&told["tool_name"], &told["tool_input"]), (&json!("say"), &json!({ "text": "hi" })));
    assert_eq!(told.get("tool_use_id"), None);
    let suggested = &told["permission_suggestions"][0];
    assert_eq!((&suggested["type"], &suggested["rules"][0]["toolName"]), (&json!("addRules"), &json!("say")));
}

#[tokio::test]
async fn the_parts_of_a_composed_call_are_told_of_too() {
    let (heard, hook) = listening();
    let (tool, _) = counting("say");
    let twice = Tool::builder("twice")
        .description("Stands in for a tool.")
        .input_schema(json!({ "type": "object" }))
        .handler(|_, context: Context| async move {
            let outcome = context.call_part("one", Call::new("say", json!({ "text": "hi" }))).await;
            assert!(matches!(outcome.status, Status::Done(_)), "{outcome:?}");
            Ok::<_, ToolError>(json!("done"))
        });
    let set = HookSet::default().on(HookEvent::PreToolUse, Matcher::all(), hook);
    let bench = Bench::with([tool, twice], |builder| builder.hooks(set));
    assert!(bench.call("twice", json!({})).await.is_success());
    let names: Vec<_> = heard.lock().unwrap().iter().map(|told| told["tool_name"].clone()).collect();
    assert_eq!(names, ["twice", "say"]);
}

/// A user who accepts every form.
#[derive(Debug, Default)]
struct User(Mutex<u32>);

impl helve::ports::Client for User {
    fn id(&self) -> &str {
        "user"
    }

    fn can(&self, _: helve::ports::Question) -> bool {
        true
    }

    fn ask(
        &self,
        _: helve::ports::Question,
        _: helve::record::RawJson,
    ) -> helve::BoxFuture<'static, Result<helve::record::RawJson, helve::ports::AskError>> {
        *self.0.lock().unwrap() += 1;
        let answer = json!({ "action": "accept", "content": { "name": "Ada" } });
        Box::pin(async move { Ok(serde_json::value::to_raw_value(&answer).unwrap()) })
    }

    fn progress(&self, _: &helve::run::Progress) {}

    fn log(&self, _: &serde_json::value::RawValue) {}

    fn meta(&self) -> Option<&serde_json::value::RawValue> {
        None
    }
}

#[tokio::test]
async fn hooks_may_answer_the_questions_of_mcp_servers() {
    let asking = || {
        Tool::builder("demo/form")
            .description("Asks the user.")
            .input_schema(json!({ "type": "object" }))
            .source(Source::Mcp)
            .read_only()
            .handler(|_, context: Context| async move {
                let params = json!({ "message": "Who are you?", "requestedSchema": { "type": "object" } });
                let params = serde_json::value::to_raw_value(&params).unwrap();
                let client = context.client().unwrap().clone();
                let answer = client.ask(helve::ports::Question::FillForm, params).await.unwrap();
                Ok::<Value, ToolError>(serde_json::from_str(answer.get()).unwrap())
            })
    };
    let specific =
        |event: &HookEvent, fields: Value| from_json(event.clone(), json!({ "hookSpecificOutput": fields }));
    let (before, after) = (HookEvent::Elicitation, HookEvent::ElicitationResult);
    for (event, output, expected, asked) in [
        (&before, HookOutput::none(), json!({ "action": "accept", "content": { "name": "Ada" } }), 1),
        (
            &before,
            specific(&before, json!({ "action": "accept", "content": { "name": "Eve" } })),
            json!({ "action": "accept", "content": { "name": "Eve" } }),
            0,
        ),
        (&before, HookOutput::block("no forms"), json!({ "action": "decline" }), 0),
        (&after, specific(&after, json!({ "action": "cancel" })), json!({ "action": "cancel" }), 1),
    ] {
        let (heard, hook) = listening();
        let set = on(event.clone(), output).on(event.clone(), Matcher::new("demo").unwrap(), hook);
        let bench = bench(asking(), set);
        let user = Arc::new(User::default());
        let outcome = bench.runtime.call(Call::new("demo/form", json!({})).client(user.clone())).await;
        assert_eq!((outcome.into_result().unwrap(), *user.0.lock().unwrap()), (expected, asked));
        let told = heard.lock().unwrap().pop().unwrap();
        assert_eq!((&told["mcp_server_name"], &told["message"]), (&json!("demo"), &json!("Who are you?")));
        assert_eq!(told.get("action").is_some(), *event == after);
    }
}
