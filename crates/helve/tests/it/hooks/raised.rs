//! Events that somebody outside raises: judged, limited and recorded under their name, and never Helve's own.

use futures_util::future::join_all;
use helve::hooks::RAISE;
use helve::limit::LimitRule;
use helve::record::{Entry, Finished};
use helve::{Caller, Settings};

use super::*;
use crate::support::{code, counter, ran};

fn prompt() -> HookInput {
    HookInput::new(HookEvent::UserPromptSubmit).with("prompt", "hi")
}

fn finished(bench: &Bench) -> Vec<Finished> {
    let finished = |entry| match entry {
        Entry::Finished(finished) => Some(*finished),
        _ => None,
    };
    bench.journal.entries().into_iter().filter_map(finished).collect()
}

/// A runtime in which a prompt calls `deed`, and how often that ran.
fn deed_at_prompts() -> (Bench, Arc<AtomicU32>) {
    let (deed, count) = counter("deed");
    let hook = ToolHook::new("deed").input(serde_json::Map::new());
    let set = HookSet::default().on(HookEvent::UserPromptSubmit, Matcher::all(), hook);
    (Bench::with([deed], |builder| builder.hooks(set)), count)
}

#[tokio::test]
async fn a_tool_that_the_caller_may_not_use_does_not_run_by_a_hook() {
    let (bench, count) = deed_at_prompts();
    let narrow = Caller::principal("eve").allow_only([RAISE, "other"]);
    let outcome = bench.runtime.raise(prompt(), narrow).await;
    assert_eq!((code(&outcome), ran(&count)), ("none", 0), "{outcome:?}");
    let records = finished(&bench);
    let seen: Vec<_> = records
        .iter()
        .map(|one| (one.facts.caller.principal.as_deref(), one.facts.tool.to_string()))
        .collect();
    assert_eq!(
        seen,
        [(Some("eve"), "deed".to_owned()), (Some("eve"), RAISE.to_owned())],
        "both are recorded under the name of the caller that raised it"
    );

    let wide = Caller::principal("ada");
    assert!(bench.runtime.raise(prompt(), wide).await.is_success());
    assert_eq!(ran(&count), 1);
    assert!(finished(&bench)[2..].iter().all(|one| one.facts.caller.principal.as_deref() == Some("ada")));
}

#[tokio::test]
async fn what_denies_a_call_denies_it_to_a_hook_of_the_same_caller() {
    let (deed, count) = counter("deed");
    let hook = ToolHook::new("deed").input(serde_json::Map::new());
    let no = answering(before(json!({ "hookEventName": "PreToolUse", "permissionDecision": "deny" })));
    let set = HookSet::default().on(HookEvent::UserPromptSubmit, Matcher::all(), hook).on(
        HookEvent::PreToolUse,
        Matcher::new("deed").unwrap(),
        no,
    );
    let bench = Bench::with([deed], |builder| builder.hooks(set));
    assert!(bench.runtime.raise(prompt(), Caller::principal("ada")).await.is_success());
    assert_eq!(ran(&count), 0, "a hook guards the tool");
}

#[tokio::test]
async fn whoever_may_not_raise_events_is_refused_and_hooks_hear_nothing() {
    let (heard, hook) = listening();
    let set = HookSet::default().on(HookEvent::UserPromptSubmit, Matcher::all(), hook);
    let bench = Bench::with([], |builder| {
        let settings = Settings { require_authentication: true, ..Settings::default() };
        builder.hooks(set).settings(settings)
    });
    for caller in [Caller::principal("eve").allow_only(["echo"]), Caller::anonymous()] {
        let outcome = bench.runtime.raise(prompt(), caller.clone()).await;
        assert_eq!(code(&outcome), "not_authorized");
        let record = bench.last_record();
        assert_eq!((record.facts.caller.principal.clone(), &*record.facts.tool), (caller.principal, RAISE));
    }
    assert!(heard.lock().unwrap().is_empty());
}

#[tokio::test]
async fn who_raises_an_event_is_who_the_caller_is() {
    let (heard, hook) = listening();
    let set = HookSet::default().on(HookEvent::Stop, Matcher::all(), hook).in_folder("/srv");
    let bench = Bench::with([], |builder| builder.hooks(set));
    let mut claims = HookInput::new(HookEvent::Stop)
        .in_session("s-1")
        .with("raised_by", json!({ "principal": "root" }))
        .with("stop_hook_active", false);
    claims.agent_id = Some("root".to_owned());
    claims.permission_mode = Some("bypassPermissions".into());
    let outcome = bench.runtime.raise(claims.clone(), Caller::agent("scout")).await;
    assert!(outcome.is_success(), "{outcome:?}");
    assert_eq!(
        *heard.lock().unwrap(),
        [json!({ "hook_event_name": "Stop", "session_id": "s-1", "transcript_path": "", "cwd": "/srv",
            "permission_mode": "default", "agent_id": "scout", "stop_hook_active": false,
            "raised_by": { "principal": "scout", "kind": "agent", "channel": "rust" } })]
    );
    let record = bench.last_record();
    let caller = &record.facts.caller;
    assert_eq!((caller.agent.as_deref(), caller.session.as_deref()), (Some("scout"), Some("s-1")));

    bench.runtime.raise(claims, Caller::principal("bob")).await;
    assert_eq!(heard.lock().unwrap()[1].get("agent_id"), None, "a caller that is no agent has none");
    let long = HookInput::new(HookEvent::Stop).in_session("s".repeat(257));
    assert_eq!(code(&bench.runtime.raise(long, Caller::principal("bob")).await), "validation_failed");
    assert_eq!(heard.lock().unwrap().len(), 2);
}

#[tokio::test]
async fn nobody_raises_an_event_that_only_helve_can_know() {
    let (heard, hook) = listening();
    let hook = Arc::new(hook);
    let mut set = HookSet::default();
    for event in HookEvent::KNOWN {
        set = set.with(HookEntry::shared(event, Matcher::all(), hook.clone()));
    }
    let bench = Bench::with([], |builder| builder.hooks(set));
    for event in HookEvent::KNOWN {
        let input =
            HookInput::new(event.clone()).with("tool_name", "mail/send").with("tool_use_id", "call_1");
        let outcome = bench.runtime.raise(input, Caller::principal("ada")).await;
        let told = std::mem::take(&mut *heard.lock().unwrap()).len();
        match event.is_own() {
            true => assert_eq!((code(&outcome), told), ("permission_denied", 0), "{event}"),
            false => assert_eq!((code(&outcome), told), ("none", 1), "{event}"),
        }
        assert_eq!(bench.last_record().facts.caller.principal.as_deref(), Some("ada"), "{event}");
    }
}

/// A hook that counts how many of it run at once, and ends when it is told to.
fn counted_at_once() -> (Arc<AtomicU32>, Arc<tokio::sync::Semaphore>, impl helve::hook::Hook) {
    let (now, most) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)));
    let go_on = Arc::new(tokio::sync::Semaphore::new(0));
    let (seen, gate) = (Arc::clone(&most), Arc::clone(&go_on));
    let hook = move |_: Arc<HookInput>, _: HookContext| {
        let (now, most, gate) = (Arc::clone(&now), Arc::clone(&seen), Arc::clone(&gate));
        async move {
            most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            let _turn = gate.acquire().await;
            now.fetch_sub(1, Ordering::SeqCst);
            Ok::<_, HookFailure>(HookOutput::none())
        }
    };
    (most, go_on, hook)
}

#[tokio::test]
async fn one_caller_has_only_so_many_events_at_once_and_others_have_room() {
    let (most, go_on, hook) = counted_at_once();
    let set = HookSet::default().on(HookEvent::UserPromptSubmit, Matcher::all(), hook);
    let bench = Bench::with([], |builder| builder.hooks(set));
    let eves = join_all((0..80).map(|_| bench.runtime.raise(prompt(), Caller::principal("eve"))));
    let adas = bench.runtime.raise(prompt(), Caller::principal("ada"));
    let free = async {
        while most.load(Ordering::SeqCst) < 9 {
            tokio::task::yield_now().await;
        }
        go_on.add_permits(100);
    };
    let (eves, adas, ()) = tokio::join!(eves, adas, free);
    assert!(adas.is_success(), "{adas:?}");
    assert_eq!(eves.iter().filter(|outcome| outcome.is_success()).count(), 8);
    assert_eq!(eves.iter().filter(|outcome| code(outcome) == "rate_limit").count(), 72);
    assert_eq!(most.load(Ordering::SeqCst), 9, "eight of eve's, and ada's");
    assert_eq!(finished(&bench).len(), 81, "what was refused is recorded too");
}

#[tokio::test]
async fn sessions_that_begin_at_once_wait_for_their_turn() {
    let (most, go_on, hook) = counted_at_once();
    let set = HookSet::default().on(HookEvent::SessionStart, Matcher::all(), hook);
    let bench = Bench::with([], |builder| builder.hooks(set));
    let begin = |who: &str| {
        let (runtime, caller) = (bench.runtime.clone(), Caller::principal(who));
        async move { runtime.fire_in_turn(HookInput::new(HookEvent::SessionStart), &caller).await }
    };
    let free = async {
        while most.load(Ordering::SeqCst) < 9 {
            tokio::task::yield_now().await;
        }
        go_on.add_permits(100);
    };
    let (eves, adas, ()) = tokio::join!(join_all((0..80).map(|_| begin("eve"))), begin("ada"), free);
    assert_eq!(most.load(Ordering::SeqCst), 9, "eight of eve's, and ada's");
    assert!(eves.iter().chain([&adas]).all(|fired| fired.answers.len() == 1), "each is told in the end");
}

#[tokio::test]
async fn events_come_only_so_fast_and_as_the_operator_says() {
    let calm = Bench::new([]);
    let mut refused = 0;
    for _ in 0..130 {
        let outcome = calm.runtime.raise(prompt(), Caller::principal("eve")).await;
        refused += u32::from(code(&outcome) == "rate_limit");
    }
    assert!(refused > 0, "a hundred at once, then twenty a second");

    let bench = Bench::with_settings([], |settings| {
        settings.limits = vec![LimitRule::for_tools(RAISE).rate("1/1h".parse().unwrap())];
    });
    assert!(bench.runtime.raise(prompt(), Caller::principal("eve")).await.is_success());
    assert_eq!(code(&bench.runtime.raise(prompt(), Caller::principal("ada")).await), "rate_limit");
}

#[tokio::test]
async fn events_from_outside_do_not_take_the_room_of_hooks_of_calls() {
    let (most, go_on, hook) = counted_at_once();
    let hook = Arc::new(hook);
    let of = |event| HookEntry::shared(event, Matcher::all(), hook.clone()).in_background();
    let set = HookSet::default().with(of(HookEvent::Stop)).with(of(HookEvent::PreToolUse));
    let (tool, _) = counting("say");
    let bench = Bench::with([tool], |builder| builder.hooks(set));
    for _ in 0..90 {
        bench.runtime.raise(HookInput::new(HookEvent::Stop), Caller::principal("eve")).await;
    }
    while most.load(Ordering::SeqCst) < 16 {
        tokio::task::yield_now().await;
    }
    assert!(bench.call("say", json!({ "text": "hi" })).await.is_success());
    while most.load(Ordering::SeqCst) < 17 {
        tokio::task::yield_now().await;
    }
    go_on.add_permits(100);
    bench.runtime.hooks().settle(Duration::from_secs(10)).await;
    assert_eq!(most.load(Ordering::SeqCst), 17, "sixteen of the events, and the call's own");
}

#[tokio::test]
async fn a_person_is_not_asked_about_an_event_and_no_tool_takes_its_name() {
    let (heard, hook) = listening();
    let set = HookSet::default().on(HookEvent::Stop, Matcher::all(), hook);
    let bench = Bench::with([], |builder| {
        let settings = Settings { ask_from: helve::Risk::Low, ..Settings::default() };
        builder.hooks(set).settings(settings)
    });
    let outcome = bench.runtime.raise(HookInput::new(HookEvent::Stop), Caller::principal("ada")).await;
    assert_eq!((code(&outcome), heard.lock().unwrap().len()), ("permission_denied", 0), "{outcome:?}");

    for tool in [counter(RAISE).0, counter("other").0.alias(RAISE)] {
        let refused = helve::Runtime::builder().tool(tool).err().unwrap().to_string();
        assert!(refused.contains("stands for the events that agents raise"), "{refused}");
    }
    let called = bench.call(RAISE, json!({ "hook_event_name": "Stop" })).await;
    assert_eq!(code(&called), "tool_not_found", "it is no tool that models call");
}
