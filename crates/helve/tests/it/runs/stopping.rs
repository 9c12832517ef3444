//! Runs that wait, are stopped or go on.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use helve::Context;

use super::*;

#[tokio::test]
async fn a_part_that_needs_approval_makes_the_run_wait_and_it_goes_on_once_allowed() {
    let world = World::default();
    let ledger = Arc::new(VolatileLedger::default());
    let tools = || [world.act("draft"), world.act("send").risk(helve::Risk::High), world.act("log")];
    let strict = runtime(ledger.clone(), tools(), Settings::default());
    sequence(&strict, "mail", &["draft", "send", "log"], OnError::Undo);
    let outcome = strict.call(Call::new("mail", json!({}))).await;
    assert!(matches!(outcome.status, helve::Status::Pending(_)), "{outcome:?}");
    assert_eq!(states(&outcome), [("draft", PartState::Done), ("send", PartState::Waiting)]);
    assert_eq!(world.done(), ["draft"]);

    let lax = Settings { ask_from: helve::Risk::Critical, ..Settings::default() };
    let later = runtime(ledger.clone(), tools(), lax);
    sequence(&later, "mail", &["draft", "send", "log"], OnError::Undo);
    let resumed = later.resume_run(outcome.call_id, None).await.unwrap();
    assert!(resumed.is_success(), "{resumed:?}");
    assert_eq!(resumed.call_id, outcome.call_id);
    assert_eq!(world.done(), ["draft", "send", "log"]);
    assert!(ledger.open_runs(None, 10).await.unwrap().is_empty());
}

#[tokio::test]
async fn cancelling_a_run_stops_its_parts_and_undoes_what_they_did() {
    let world = World::default();
    let started = Arc::new(tokio::sync::Notify::new());
    let signal = started.clone();
    let slow = Tool::builder("slow").description("Never ends.").handler(move |_, context| {
        signal.notify_one();
        async move {
            context.cancelled().await;
            Err(ToolError::failed("stopped"))
        }
    });
    let ledger = Arc::new(VolatileLedger::default());
    let tools = world.doable("write").into_iter().chain([slow]);
    let runtime = runtime(ledger.clone(), tools, Settings::default());
    sequence(&runtime, "saga", &["write", "slow"], OnError::Undo);
    let running = tokio::spawn({
        let runtime = runtime.clone();
        async move { runtime.call(Call::new("saga", json!({}))).await }
    });
    started.notified().await;
    let run = ledger.open_runs(None, 10).await.unwrap()[0].run;
    runtime.cancel_run(run).await.unwrap();
    let outcome = running.await.unwrap();
    assert_eq!((outcome.call_id, code(&outcome)), (run, "cancelled"));
    assert_eq!(world.done(), ["write", "unwrite"]);
    assert!(ledger.open_runs(None, 10).await.unwrap().is_empty());
}

#[tokio::test]
async fn a_caller_that_goes_away_leaves_nothing_half_done() {
    let world = World::default();
    let started = Arc::new(tokio::sync::Notify::new());
    let signal = started.clone();
    let slow = Tool::builder("slow").description("Never ends.").handler(move |_, _| {
        signal.notify_one();
        std::future::pending()
    });
    let ledger = Arc::new(VolatileLedger::default());
    let tools = world.doable("write").into_iter().chain([slow]);
    let runtime = runtime(ledger.clone(), tools, Settings::default());
    sequence(&runtime, "saga", &["write", "slow"], OnError::Undo);
    tokio::select! {
        _ = runtime.call(Call::new("saga", json!({}))) => panic!("it ended"),
        () = started.notified() => {}
    }
    while !ledger.open_runs(None, 10).await.unwrap().is_empty() {
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
    assert_eq!(world.done(), ["write", "unwrite"]);
}

#[tokio::test]
async fn a_call_of_its_own_has_a_key_that_stays_the_same() {
    let seen = Arc::new(Mutex::new(None));
    let kept = seen.clone();
    let tool = Tool::builder("pay").description("Pays.").handler(move |_, context| {
        *kept.lock().unwrap() = context.idempotency_key().map(str::to_owned);
        async { Ok(json!({})) }
    });
    let runtime = runtime(Arc::new(VolatileLedger::default()), [tool], Settings::default());
    let outcome = runtime.call(Call::new("pay", json!({}))).await;
    assert_eq!(seen.lock().unwrap().as_deref(), Some(outcome.call_id.to_string().as_str()));
}

#[tokio::test]
async fn a_step_that_may_have_happened_is_not_said_to_be_nothing() {
    let world = World::default();
    let lost = Tool::builder("post")
        .description("Is not answered.")
        .input_schema(json!({ "type": "object" }))
        .handler(|_, _| async { Err(ToolError::new(helve::ErrorCode::Network, "the line broke")) });
    let runtime = runtime(
        Arc::new(VolatileLedger::default()),
        world.doable("write").into_iter().chain([lost]),
        Settings::default(),
    );
    sequence(&runtime, "saga", &["write", "post"], OnError::Undo);
    let outcome = runtime.call(Call::new("saga", json!({}))).await;
    assert_eq!(states(&outcome)[..2], [("write", PartState::Undone), ("post", PartState::Unknown)]);
    let suggestions = outcome.error().unwrap().suggestions().join(" ");
    assert!(!suggestions.contains("nothing stands"), "{suggestions}");
}

#[tokio::test]
async fn a_secret_stays_one_wherever_a_run_hands_it() {
    let ledger = Arc::new(VolatileLedger::default());
    let schema = json!({ "type": "object", "properties": {
        "password": { "type": "string" }, "text": { "type": "string" } } });
    let open = |name: &str| {
        Tool::builder(name)
            .description("Takes a password.")
            .input_schema(schema.clone())
            .handler(|arguments, _| async move { Ok(json!({ "id": 7, "said": arguments })) })
    };
    let told = Change::Cascade {
        tool: "note".to_owned(),
        arguments: Template::parse(json!({ "text": "pw {{ arguments.password }}" })).unwrap(),
    };
    let undo = Undo::Tool {
        tool: "close".to_owned(),
        arguments: Template::parse(json!({ "text": "{{ result.id }}" })).unwrap(),
    };
    let tools = [open("open").effect(Effect::new("is noted", told)).undo(undo), open("note"), open("close")];
    let runtime = runtime(ledger.clone(), tools, Settings::default());
    let composed = compose::sequence("job")
        .description("A job.")
        .input_schema(schema.clone())
        .step(Step::of("open").arguments(json!({ "password": "{{ input.password }}" })))
        .step(Step::of("note").arguments(json!({ "text": "again {{ input.password }}" })));
    compose(&runtime, composed.build(runtime.registry()).unwrap());
    let outcome = runtime.call(Call::new("job", json!({ "password": "hunter2" }))).await;
    assert!(outcome.is_success(), "{outcome:?}");
    // What it takes to undo holds no secret, so it can be undone.
    let undone = runtime.undo_run(outcome.call_id, Caller::local()).await.unwrap();
    let entries = format!("{:?}", ledger.entries());
    assert!(entries.contains("close"), "{undone:?}");
    assert!(!entries.contains("hunter2"), "{entries}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn what_was_left_is_not_taken_up_while_a_part_of_it_is_still_at_work() {
    let ledger = Arc::new(VolatileLedger::default());
    let (full, began) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let (release, blocked) = std::sync::mpsc::channel::<()>();
    let (blocked, starts, fills) = (Mutex::new(blocked), Arc::clone(&began), Arc::clone(&full));
    // It cannot be stopped: it blocks its thread.
    let slow = Tool::builder("slow").description("Blocks.").read_only().handler(move |_, _| {
        starts.fetch_add(1, SeqCst);
        let _ = blocked.lock().unwrap().recv_timeout(Duration::from_secs(20));
        async { Ok(json!({})) }
    });
    let begun = Arc::clone(&began);
    let quick = Tool::builder("quick").description("Fills the disk.").handler(move |_, _| {
        let (begun, fills) = (Arc::clone(&begun), Arc::clone(&fills));
        async move {
            while begun.load(SeqCst) == 0 {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            fills.store(true, SeqCst);
            Ok(json!({}))
        }
    });
    let (refused, fault) = (Arc::new(AtomicUsize::new(0)), Arc::clone(&full));
    let counts = Arc::clone(&refused);
    let faulty = FaultyLedger::new(
        ledger.clone(),
        Arc::new(move |boundary| {
            if boundary == Boundary::After || !fault.load(SeqCst) {
                return Ok(());
            }
            counts.fetch_add(1, SeqCst);
            Err(helve::ports::JournalError::new("the disk is full"))
        }),
    );
    let runtime = runtime(Arc::new(faulty), [slow, quick], Settings::default());
    let both = compose::parallel("both").step(Step::of("slow").arguments(json!({})));
    let both = both.step(Step::of("quick").arguments(json!({}))).description("Both at once.");
    compose(&runtime, both.build(runtime.registry()).unwrap());
    let calling = tokio::spawn({
        let runtime = runtime.clone();
        async move { runtime.call(Call::new("both", json!({}))).await }
    });
    until(|| refused.load(SeqCst) > 0).await;
    calling.abort();
    assert!(calling.await.is_err_and(|error| error.is_cancelled()));
    full.store(false, SeqCst);
    for _ in 0..20 {
        assert!(runtime.recover_left().await.unwrap().is_empty(), "a part of it is still at work");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    assert_eq!(began.load(SeqCst), 1);
    drop(release);
    let mut recovered = Vec::new();
    for _ in 0..1_000 {
        recovered = runtime.recover_left().await.unwrap();
        if !recovered.is_empty() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert_eq!(recovered.len(), 1, "then it is");
}

async fn until(holds: impl Fn() -> bool) {
    let held = async {
        while !holds() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), held).await.expect("in time");
}

#[tokio::test]
async fn a_part_has_no_more_time_than_the_call_that_makes_it() {
    let left = Tool::builder("left")
        .description("How long it may take.")
        .read_only()
        .handler(|_, context| async move { Ok(json!({ "ms": context.time_left().as_millis() as u64 })) });
    // One that is no composition, and says for how long it wants to wait itself.
    let outer = Tool::builder("outer").description("Asks.").handler(|_, context: Context| async move {
        let call = Call::new("left", json!({})).timeout(Duration::from_secs(250));
        context.call_part("left", call).await.into_result()
    });
    let runtime = runtime(Arc::new(VolatileLedger::default()), [left, outer], Settings::default());
    sequence(&runtime, "composed", &["left"], OnError::Stop);
    let alone = runtime.call(Call::new("left", json!({}))).await.into_result().unwrap();
    assert!(alone["ms"].as_u64().unwrap() > 20_000, "{alone}");
    for tool in ["outer", "composed"] {
        let call = Call::new(tool, json!({})).timeout(Duration::from_secs(9));
        let answer = runtime.call(call).await.into_result().unwrap();
        let ms = answer.get("ms").unwrap_or_else(|| &answer["results"]["left"]["ms"]).as_u64().unwrap();
        assert!(ms <= 9_000, "{tool}: {answer}");
    }
}

#[tokio::test]
async fn a_call_that_has_ended_makes_no_parts() {
    let kept = Arc::new(std::sync::Mutex::new(None));
    let keeps = Tool::builder("keeps").description("Keeps its context.").handler({
        let kept = Arc::clone(&kept);
        move |_, context| {
            *kept.lock().unwrap() = Some(context);
            std::future::ready(Ok(json!({})))
        }
    });
    let world = World::default();
    let ledger = Arc::new(VolatileLedger::default());
    let runtime = runtime(ledger, [keeps, world.act("write")], Settings::default());
    assert!(runtime.call(Call::new("keeps", json!({}))).await.is_success());
    let context: Context = kept.lock().unwrap().take().unwrap();
    let late = context.call_part("late", Call::new("write", json!({}))).await;
    assert_eq!(code(&late), "internal", "{late:?}");
    assert_eq!(world.done(), [""; 0]);
}
