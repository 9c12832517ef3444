//! Coming back for what became of a question: by whose rights it runs, and what one is told.

use helve::gate::{Action, PolicyRequest, Stance, Vote};
use helve::hook::{HookContext, HookEvent, HookFailure, HookInput, HookOutput};
use helve::hooks::{HookSet, Matcher};
use helve::ports::Policy;
use helve::{PrincipalKind, RuntimeBuilder, Served};
use tokio::sync::Semaphore;

use super::*;

fn built(
    witness: &Witness,
    change: impl FnOnce(RuntimeBuilder) -> RuntimeBuilder,
) -> (Runtime, Arc<VolatileLedger>) {
    let ledger = Arc::new(VolatileLedger::default());
    let builder = change(Runtime::builder().ledger(ledger.clone()));
    (builder.tool(witness.tool("send")).unwrap().build(), ledger)
}

/// Puts a question and approves it.
async fn approved(runtime: &Runtime, call: Call) -> ApprovalId {
    let outcome = runtime.call(call).await;
    let Status::Pending(pending) = outcome.status else { panic!("{outcome:?}") };
    runtime.approvals().decide(pending.approval_id, Decision::approve(), &ada()).await.unwrap();
    pending.approval_id
}

/// Calls are for operators.
struct Operators;

impl Policy for Operators {
    fn rule(&self, request: &PolicyRequest<'_>) -> Vote {
        let may = request.action != Action::Call || request.caller.has_role("operator");
        Vote::policy("operators", if may { Stance::Allow } else { Stance::Deny })
    }
}

#[tokio::test]
async fn a_fetched_call_runs_with_the_roles_that_its_caller_has_now() {
    let witness = Witness::default();
    let (runtime, _) = built(&witness, |builder| builder.policy(Arc::new(Operators)));
    let eve = || Caller::principal("eve").session("s-1");
    let id = approved(&runtime, send("ada").by(Arc::new(eve().roles(["operator"])))).await;
    let fetched = runtime.outcome_of(id, &eve()).await.unwrap();
    assert_eq!((code(&fetched), witness.seen()), ("not_authorized", vec![]));
    // Nothing was used up by trying, and roles are nothing that an approval is bound to.
    let fetched = runtime.outcome_of(id, &eve().roles(["reader", "operator"])).await.unwrap();
    assert!(fetched.is_success(), "{fetched:?}");
    assert_eq!(witness.seen().len(), 1);
}

#[tokio::test]
async fn a_fetched_call_runs_only_with_what_its_caller_may_use_now() {
    let witness = Witness::default();
    let (runtime, _) = built(&witness, |builder| builder);
    let eve = || Caller::principal("eve");
    let id = approved(&runtime, send("ada").by(Arc::new(eve()))).await;
    let fetched = runtime.outcome_of(id, &eve().allow_only(["other"])).await.unwrap();
    assert_eq!((code(&fetched), witness.seen()), ("not_authorized", vec![]));
    for changed in
        [eve().allow_only(["send"]), eve().granted(["mail:send"]), eve().kind(PrincipalKind::Agent)]
    {
        let fetched = runtime.outcome_of(id, &changed).await.unwrap();
        assert_eq!((code(&fetched), witness.seen()), ("approval_stale", vec![]));
        assert!(fetched.error().unwrap().message().contains("its caller"), "{fetched:?}");
    }
    // The same caller from another place is the same caller.
    let elsewhere = eve().session("s-2").channel(helve::Channel::Http);
    let fetched = runtime.outcome_of(id, &elsewhere).await.unwrap();
    assert!(fetched.is_success(), "{fetched:?}");
}

#[tokio::test]
async fn what_was_approved_runs_and_no_hook_changes_it_once_more() {
    let witness = Witness::default();
    let rewriting = |input: Arc<HookInput>, _: HookContext| {
        let mut changed = serde_json::to_value(&*input).unwrap()["tool_input"].take();
        changed["text"] = json!(format!("checked: {}", changed["text"].as_str().unwrap()));
        let answer = json!({ "hookSpecificOutput": { "updatedInput": changed } });
        async move { Ok::<_, HookFailure>(HookOutput::from_value(&HookEvent::PreToolUse, answer).unwrap()) }
    };
    let set = HookSet::default().on(HookEvent::PreToolUse, Matcher::all(), rewriting);
    let (runtime, _) = built(&witness, |builder| builder.hooks(set));
    let checked = json!({ "to": "ada", "text": "checked: hi" });
    let id = approved(&runtime, send("ada")).await;
    let fetched = runtime.outcome_of(id, &bot()).await.unwrap();
    assert!(fetched.is_success(), "{fetched:?}");
    assert_eq!(witness.seen(), std::slice::from_ref(&checked));
    // Made again by its caller it is rewritten as it was before, which is what was approved.
    approved(&runtime, send("ada")).await;
    assert!(runtime.call(send("ada")).await.is_success());
    assert_eq!(witness.seen(), [checked.clone(), checked]);
}

#[tokio::test]
async fn a_hook_objects_to_what_was_approved() {
    let witness = Witness::default();
    let objects = Arc::new(std::sync::atomic::AtomicBool::new(false));
    let hook = {
        let objects = Arc::clone(&objects);
        move |_: Arc<HookInput>, _: HookContext| {
            let objects = objects.load(std::sync::atomic::Ordering::SeqCst);
            let output = if objects { HookOutput::deny("not now") } else { HookOutput::none() };
            async move { Ok::<_, HookFailure>(output) }
        }
    };
    let set = HookSet::default().on(HookEvent::PreToolUse, Matcher::all(), hook);
    let (runtime, _) = built(&witness, |builder| builder.hooks(set));
    let id = approved(&runtime, send("ada")).await;
    objects.store(true, std::sync::atomic::Ordering::SeqCst);
    assert_eq!(code(&runtime.outcome_of(id, &bot()).await.unwrap()), "hook_denied");
    assert!(witness.seen().is_empty());
}

/// A runtime with a sequence of these tools. Those whose name begins with `ask` need approval, and every one
/// waits, once it has begun, until it is let go.
fn steps(ledger: Arc<dyn Ledger>, witness: &Witness, tools: &[&str], go: &Arc<Semaphore>) -> Runtime {
    let mut builder = Runtime::builder().ledger(ledger);
    for tool in tools {
        let (seen, go) = (witness.clone(), Arc::clone(go));
        let built = witness.tool(tool).risk(if tool.starts_with("ask") { Risk::High } else { Risk::Low });
        let built = built.handler(move |arguments, _| {
            seen.0.lock().unwrap().push(arguments);
            let go = Arc::clone(&go);
            async move {
                go.acquire().await.unwrap().forget();
                Ok(json!("sent"))
            }
        });
        builder = builder.tool(built).unwrap();
    }
    let runtime = builder.build();
    let all = tools.iter().map(|tool| Step::of(*tool).arguments(json!({ "to": tool })));
    let trip = all.fold(compose::sequence("trip"), |trip, step| trip.step(step));
    let tool = trip.description("A trip.").on_error(OnError::Undo).build(runtime.registry()).unwrap();
    runtime.registry().register(Layer::Project, tool).unwrap();
    runtime
}

fn trip() -> Call {
    Call::new("trip", json!({})).by(bot())
}

fn went(witness: &Witness) -> Vec<String> {
    witness.seen().iter().map(|seen| seen["to"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_goes_on_although_whoever_came_back_for_it_hangs_up() {
    let (witness, go) = (Witness::default(), Arc::new(Semaphore::new(0)));
    let runtime = steps(Arc::new(VolatileLedger::default()), &witness, &["ask", "after"], &go);
    let id = approved(&runtime, trip()).await;
    let fetch = || {
        let runtime = runtime.clone();
        tokio::spawn(async move { runtime.outcome_of(id, &bot()).await.unwrap() })
    };
    let impatient = fetch();
    while witness.seen().is_empty() {
        tokio::task::yield_now().await;
    }
    // Another who comes back meanwhile waits for the same end.
    let patient = fetch();
    impatient.abort();
    assert!(impatient.await.unwrap_err().is_cancelled());
    go.add_permits(2);
    let outcome = patient.await.unwrap();
    assert!(outcome.is_success(), "{outcome:?}");
    assert_eq!(went(&witness), ["ask", "after"]);
    assert_eq!(runtime.outcome_of(id, &bot()).await.unwrap().call_id, outcome.call_id);
}

#[tokio::test(start_paused = true)]
async fn whoever_asks_about_one_step_learns_of_the_next_question() {
    let (witness, go) = (Witness::default(), Arc::new(Semaphore::new(9)));
    let runtime = steps(Arc::new(VolatileLedger::default()), &witness, &["ask-a", "ask-b", "ask-c"], &go);
    let first = approved(&runtime, trip()).await;
    runtime.recover().await.unwrap();
    let outcome = runtime.outcome_of(first, &bot()).await.unwrap();
    let Status::Pending(second) = outcome.status else { panic!("{outcome:?}") };
    assert_ne!(second.approval_id, first);
    assert_eq!(went(&witness), ["ask-a"]);
    runtime.approvals().decide(second.approval_id, Decision::approve(), &ada()).await.unwrap();
    // No process has gone on with it: asking about the first step does.
    let outcome = runtime.outcome_of(first, &bot()).await.unwrap();
    let Status::Pending(third) = outcome.status else { panic!("{outcome:?}") };
    assert_eq!(went(&witness), ["ask-a", "ask-b"]);
    runtime.approvals().decide(third.approval_id, Decision::deny("no"), &ada()).await.unwrap();
    let outcome = runtime.outcome_of(first, &bot()).await.unwrap();
    assert_eq!((code(&outcome), went(&witness).len()), ("approval_denied", 2));
}

#[tokio::test]
async fn a_fetched_calls_record_has_what_its_agent_said() {
    let witness = Witness::default();
    let (runtime, ledger) = built(&witness, |builder| builder);
    let mut advice = helve::Advice::new(helve::AdvisedAction::RequestApproval);
    (advice.confidence, advice.reasoning) = (Some(0.4), Some("the amount is high".to_owned()));
    let id = approved(&runtime, send("ada").advised(advice.clone())).await;
    let fetched = runtime.outcome_of(id, &bot()).await.unwrap();
    assert!(fetched.is_success(), "{fetched:?}");
    let said = ledger.entries().into_iter().find_map(|entry| match entry {
        Entry::Finished(end) if end.facts.call_id == fetched.call_id => end.payload.advice,
        _ => None,
    });
    assert_eq!(said.as_deref(), Some(&advice));
}

#[tokio::test(start_paused = true)]
async fn an_approved_composition_tells_of_the_question_of_its_part() {
    let (witness, go) = (Witness::default(), Arc::new(Semaphore::new(9)));
    let runtime = steps(Arc::new(VolatileLedger::default()), &witness, &["ask"], &go);
    let advised = trip().advised(helve::Advice::new(helve::AdvisedAction::RequestApproval));
    let whole = approved(&runtime, advised).await;
    for _ in 0..2 {
        let outcome = runtime.outcome_of(whole, &bot()).await.unwrap();
        let Status::Pending(pending) = outcome.status else { panic!("{outcome:?}") };
        assert_ne!(pending.approval_id, whole);
    }
    assert!(witness.seen().is_empty());
}

#[tokio::test]
async fn what_a_server_has_beside_tools_is_asked_for_again() {
    let witness = Witness::default();
    let (runtime, ledger) = built(&witness, |builder| builder);
    let tool = witness.tool("up/resources.read").read_only().build().unwrap();
    let served = || Served {
        tool: tool.clone(),
        action: Action::ReadResource,
        server: "up".into(),
        named_by: "to",
        asks: helve::Asks::Person,
    };
    let read = || runtime.read(served(), Call::new("up/resources.read", json!({ "to": "note" })).by(bot()));
    let outcome = read().await;
    let Status::Pending(pending) = outcome.status else { panic!("{outcome:?}") };
    let id = pending.approval_id;
    runtime.approvals().decide(id, Decision::approve(), &ada()).await.unwrap();
    let before = ledger.entries().len();
    let fetched = runtime.outcome_of(id, &bot()).await.unwrap();
    let suggested = fetched.error().unwrap().suggestions().join("; ");
    assert!(suggested.contains("make the same request again"), "{fetched:?}");
    assert_eq!((ledger.entries().len(), witness.seen().len()), (before, 0));
    assert!(read().await.is_success());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn many_who_come_back_leave_one_call_in_the_journal() {
    for _ in 0..50 {
        let witness = Witness::default();
        let (runtime, ledger) = built(&witness, |builder| builder);
        let id = approved(&runtime, send("ada")).await;
        let fetching: Vec<_> = (0..64)
            .map(|_| {
                let runtime = runtime.clone();
                tokio::spawn(async move { runtime.outcome_of(id, &bot()).await.unwrap() })
            })
            .collect();
        for fetched in fetching {
            let outcome = fetched.await.unwrap();
            assert!(outcome.is_success(), "{outcome:?}");
        }
        let refused = |entry: &Entry| matches!(entry, Entry::Finished(end) if end.ending.code == Some(helve::ErrorCode::ApprovalDenied));
        assert_eq!(ledger.entries().iter().filter(|entry| refused(entry)).count(), 0);
    }
}
