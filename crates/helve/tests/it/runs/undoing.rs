//! What was done is undone, newest first, once.

use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use helve::ports::Clock;
use helve_testkit::ManualClock;
use jiff::SignedDuration;

use super::*;

#[tokio::test]
async fn a_saga_whose_third_step_fails_is_undone_newest_first() {
    let world = World::default();
    let tools = [world.doable("write"), world.doable("post")].into_iter().flatten().chain([failing("plan")]);
    let runtime = runtime(Arc::new(VolatileLedger::default()), tools, Settings::default());
    sequence(&runtime, "saga", &["write", "post", "plan"], OnError::Undo);
    let outcome = runtime.call(Call::new("saga", json!({}))).await;
    assert_eq!(code(&outcome), "execution_failed");
    assert_eq!(world.done(), ["write", "post", "unpost", "unwrite"]);
    let states = states(&outcome);
    for expected in [("write", PartState::Undone), ("post", PartState::Undone), ("plan", PartState::Failed)] {
        assert!(states.contains(&expected), "{states:?}");
    }
    assert!(outcome.error().unwrap().suggestions().iter().any(|line| line.contains("nothing stands")));
}

#[tokio::test]
async fn an_undo_names_only_what_stands() {
    let world = World::default();
    let tools = world.doable("write").into_iter().chain([world.act("burn")]);
    let runtime = runtime(Arc::new(VolatileLedger::default()), tools, Settings::default());
    sequence(&runtime, "mixed", &["write", "burn"], OnError::Stop);
    let outcome = runtime.call(Call::new("mixed", json!({}))).await;
    assert!(outcome.is_success(), "{outcome:?}");
    let undone = runtime.undo_run(outcome.call_id, Caller::local()).await.unwrap();
    let message = undone.error().unwrap().message();
    let stands = message.split("what stands: ").nth(1).unwrap();
    assert!(stands.starts_with("`burn` (call_") && !stands.contains("write"), "{message}");
}

#[tokio::test]
async fn after_a_rollback_the_calls_that_undid_are_nothing_that_stands() {
    let world = World::default();
    let tools = world.doable("write").into_iter().chain([world.act("burn"), failing("plan")]);
    let runtime = runtime(Arc::new(VolatileLedger::default()), tools, Settings::default());
    sequence(&runtime, "saga", &["write", "burn", "plan"], OnError::Undo);
    let outcome = runtime.call(Call::new("saga", json!({}))).await;
    assert_eq!(world.done(), ["write", "burn", "unwrite"]);
    let undone = runtime.undo_run(outcome.call_id, Caller::local()).await.unwrap();
    let message = undone.error().unwrap().message();
    let stands = message.split("what stands: ").nth(1).unwrap();
    assert!(stands.starts_with("`burn` (call_") && !stands.contains("write"), "{message}");
    assert_eq!(world.done(), ["write", "burn", "unwrite"]);
}

/// A tool that undoes can be made of others that could themselves be undone.
#[tokio::test]
async fn what_undid_a_call_is_not_undone_itself() {
    let world = World::default();
    let by = |tool: &str| Undo::Tool { tool: tool.to_owned(), arguments: Template::default() };
    let write = world.act("write").undo(by("take-back"));
    let unwrite = world.act("unwrite").undo(by("write"));
    let tools = [write, unwrite, world.act("burn"), failing("plan")];
    let runtime = runtime(Arc::new(VolatileLedger::default()), tools, Settings::default());
    sequence(&runtime, "take-back", &["unwrite"], OnError::Stop);
    sequence(&runtime, "saga", &["write", "burn", "plan"], OnError::Undo);
    let outcome = runtime.call(Call::new("saga", json!({}))).await;
    assert_eq!(world.done(), ["write", "burn", "unwrite"]);
    let undone = runtime.undo_run(outcome.call_id, Caller::local()).await.unwrap();
    assert_eq!(world.done(), ["write", "burn", "unwrite"], "{undone:?}");
}

#[tokio::test]
async fn without_undo_the_outcome_says_what_stands() {
    let world = World::default();
    let tools = world.doable("write").into_iter().chain([failing("plan")]);
    let runtime = runtime(Arc::new(VolatileLedger::default()), tools, Settings::default());
    sequence(&runtime, "careless", &["write", "plan"], OnError::Stop);
    let outcome = runtime.call(Call::new("careless", json!({}))).await;
    assert_eq!(states(&outcome), [("write", PartState::Done), ("plan", PartState::Failed)]);
    // What stands can still be undone, once.
    let undone = runtime.undo_run(outcome.call_id, Caller::local()).await.unwrap();
    assert!(undone.is_success(), "{undone:?}");
    assert_eq!(world.done(), ["write", "unwrite"]);
    runtime.undo_run(outcome.call_id, Caller::local()).await.unwrap();
    assert_eq!(world.count("unwrite"), 1);
}

#[tokio::test]
async fn a_single_call_can_be_undone_and_asks_where_undoing_needs_it() {
    let world = World::default();
    let [book, unbook] = world.doable("book");
    let ledger = Arc::new(VolatileLedger::default());
    let tools = [book, unbook.risk(helve::Risk::Critical)];
    let runtime = runtime(ledger.clone(), tools, Settings::default());
    let outcome = runtime.call(Call::new("book", json!({}))).await;
    assert!(outcome.is_success());
    let undo = runtime.undo_run(outcome.call_id, Caller::local()).await.unwrap();
    assert!(matches!(undo.status, helve::Status::Pending(_)), "{undo:?}");
    assert_eq!(world.count("unbook"), 0);
    let open = ledger.open_runs(None, 10).await.unwrap();
    assert_eq!(open[0].run, undo.call_id);
}

#[tokio::test]
async fn a_saga_with_a_step_that_cannot_be_undone_says_that_it_stands() {
    let world = World::default();
    let tools = world.doable("write").into_iter().chain([world.act("shout"), failing("broken")]);
    let runtime = runtime(Arc::new(VolatileLedger::default()), tools, Settings::default());
    sequence(&runtime, "saga", &["write", "shout", "broken"], OnError::Undo);
    let outcome = runtime.call(Call::new("saga", json!({}))).await;
    assert_eq!(world.done(), ["write", "shout", "unwrite"]);
    let suggestions = outcome.error().unwrap().suggestions().join(" ");
    assert!(suggestions.contains("could not all be undone"), "{suggestions}");
    assert!(states(&outcome).contains(&("shout", PartState::Done)));
}

#[tokio::test]
async fn an_undo_that_failed_is_tried_again_when_somebody_asks_again() {
    let world = World::default();
    let fails = Arc::new(std::sync::atomic::AtomicBool::new(true));
    let (broken, undone) = (fails.clone(), world.clone());
    let book = world.act("book").undo_handled(move |_: Value, _: Value, _: helve::Context| {
        let (broken, undone) = (broken.clone(), undone.clone());
        async move {
            if broken.load(std::sync::atomic::Ordering::SeqCst) {
                return Err(ToolError::failed("the line is dead"));
            }
            undone.0.lock().unwrap().push("unbook".to_owned());
            Ok(())
        }
    });
    let runtime = runtime(Arc::new(VolatileLedger::default()), [book], Settings::default());
    let outcome = runtime.call(Call::new("book", json!({}))).await;
    let first = runtime.undo_run(outcome.call_id, Caller::local()).await.unwrap();
    assert!(!first.is_success());
    fails.store(false, std::sync::atomic::Ordering::SeqCst);
    let second = runtime.undo_run(outcome.call_id, Caller::local()).await.unwrap();
    assert!(second.is_success(), "{second:?}");
    assert_eq!(world.done(), ["book", "unbook"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_is_undone_once_however_many_ask_at_the_same_time() {
    let world = World::default();
    let runtime = runtime(Arc::new(VolatileLedger::default()), world.doable("pay"), Settings::default());
    let paid = runtime.call(Call::new("pay", json!({}))).await.call_id;
    let asking: Vec<_> = (0..8)
        .map(|_| {
            let runtime = runtime.clone();
            tokio::spawn(async move { runtime.undo_run(paid, Caller::local()).await })
        })
        .collect();
    for asked in asking {
        match asked.await.unwrap() {
            Ok(outcome) => assert!(outcome.is_success(), "{outcome:?}"),
            Err(error) => assert!(matches!(error, helve::runs::RunError::Busy(_)), "{error}"),
        }
    }
    assert_eq!(world.count("unpay"), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn whoever_undoes_beside_another_does_not_wait_as_long_as_that_waits_for_a_person() {
    let world = World::default();
    let [pay, unpay] = world.doable("pay");
    let tools = [pay.timeout(Duration::from_millis(200)), unpay.risk(helve::Risk::Critical)];
    // Once it counts, two come to their first write together: both have looked for an undo that is open.
    let (counts, both) = (Arc::new(AtomicUsize::new(usize::MAX / 2)), Arc::new(Barrier::new(2)));
    let counted = Arc::clone(&counts);
    let fault = move |boundary| {
        if boundary == Boundary::Before && counted.fetch_add(1, Ordering::SeqCst) < 2 {
            both.wait();
        }
        Ok(())
    };
    let ledger = FaultyLedger::new(Arc::new(VolatileLedger::default()), Arc::new(fault));
    let runtime = runtime(Arc::new(ledger), tools, Settings::default());
    let paid = runtime.call(Call::new("pay", json!({}))).await.call_id;
    counts.store(0, Ordering::SeqCst);
    let undo = || {
        let runtime = runtime.clone();
        tokio::spawn(async move { runtime.undo_run(paid, Caller::local()).await.unwrap() })
    };
    let (first, second) = (undo(), undo());
    let outcomes = async { [first.await.unwrap(), second.await.unwrap()] };
    let outcomes = tokio::time::timeout(Duration::from_secs(20), outcomes).await.expect("both end");
    let waits = |outcome: &&Outcome| matches!(outcome.status, helve::Status::Pending(_));
    assert_eq!(outcomes.iter().filter(waits).count(), 1, "{outcomes:?}");
    let other = outcomes.iter().find(|outcome| !waits(outcome)).unwrap();
    assert_eq!(code(other), "timeout", "{other:?}");
    assert_eq!(world.count("unpay"), 0);
}

#[tokio::test]
async fn an_undo_that_waits_is_found_though_the_clock_was_set_back() {
    let (world, clock) = (World::default(), Arc::new(ManualClock::default()));
    let [pay, unpay] = world.doable("pay");
    let ledger = Arc::new(VolatileLedger::new(clock.clone(), Default::default()));
    let builder = Runtime::builder().ledger(ledger).clock(clock.clone());
    let tools = [pay, unpay.risk(helve::Risk::Critical)];
    let runtime = tools.into_iter().fold(builder, |builder, tool| builder.tool(tool).unwrap()).build();
    let paid = runtime.call(Call::new("pay", json!({}))).await.call_id;
    clock.set(clock.now() - SignedDuration::from_hours(1));
    let first = runtime.undo_run(paid, Caller::local()).await.unwrap();
    let again = tokio::time::timeout(Duration::from_secs(20), runtime.undo_run(paid, Caller::local()));
    let again = again.await.expect("it ends").unwrap();
    assert!(matches!(again.status, helve::Status::Pending(_)), "{again:?}");
    assert_eq!(again.call_id, first.call_id);
}

#[tokio::test]
async fn an_effect_that_stands_is_said_to_stand_when_a_run_is_undone() {
    let world = World::default();
    let ledger = Arc::new(VolatileLedger::default());
    let set = Change::StateChange {
        state: Template::literal(json!("n")),
        change: StateOperation::Set,
        value: Some(Template::literal(json!(5))),
        scope: MemoryScope::ShortTerm,
    };
    let [pay, unpay] = world.doable("pay");
    let tools = [pay.effect(Effect::new("sets n", set).reversible()), unpay];
    let runtime = runtime(ledger.clone(), tools, Settings::default());
    let outcome = runtime.call(Call::new("pay", json!({}))).await;
    let place = MemoryPlace::of(&Caller::local(), MemoryScope::ShortTerm, "n");
    let change = helve::memory::MemoryChange::new(helve::memory::Operation::Write(json!(99)));
    ledger.change(place.clone(), change).await.unwrap();
    let undone = runtime.undo_run(outcome.call_id, Caller::local()).await.unwrap();
    assert!(!undone.is_success(), "{undone:?}");
    assert_eq!(ledger.read(place).await.unwrap().unwrap().value, json!(99));
}

/// An effect whose code says `made` when it applies it, and wants that to take it back.
struct Ticket {
    world: World,
    is_broken: Arc<AtomicBool>,
}

impl helve::effect::EffectHandler for Ticket {
    fn apply(
        &self,
        _: Value,
        _: Value,
        _: helve::Context,
    ) -> helve::BoxFuture<'static, Result<Value, ToolError>> {
        Box::pin(async { Ok(json!("made")) })
    }

    fn roll_back(
        &self,
        applied: Value,
        _: helve::Context,
    ) -> helve::BoxFuture<'static, Result<(), ToolError>> {
        let (world, is_broken) = (self.world.clone(), self.is_broken.load(Ordering::SeqCst));
        Box::pin(async move {
            if is_broken {
                return Err(ToolError::failed("the line is dead"));
            }
            world.0.lock().unwrap().push(format!("took back {applied}"));
            Ok(())
        })
    }
}

fn ticket(world: &World) -> (Effect, Ticket, Arc<AtomicBool>) {
    let is_broken = Arc::new(AtomicBool::new(true));
    let effect = Effect::new("makes a ticket", count_up(true).change).reversible();
    (effect, Ticket { world: world.clone(), is_broken: is_broken.clone() }, is_broken)
}

#[tokio::test]
async fn an_effect_that_could_not_be_taken_back_is_tried_again_when_somebody_asks_again() {
    let world = World::default();
    let (effect, handler, is_broken) = ticket(&world);
    let [pay, unpay] = world.doable("pay");
    let tools = [pay.effect_handled(effect, handler), unpay];
    let runtime = runtime(Arc::new(VolatileLedger::default()), tools, Settings::default());
    let outcome = runtime.call(Call::new("pay", json!({}))).await;
    for _ in 0..2 {
        let undone = runtime.undo_run(outcome.call_id, Caller::local()).await.unwrap();
        assert!(!undone.is_success(), "{undone:?}");
        assert_eq!(world.done(), ["pay", "unpay"]);
    }
    is_broken.store(false, Ordering::SeqCst);
    for _ in 0..2 {
        let undone = runtime.undo_run(outcome.call_id, Caller::local()).await.unwrap();
        assert!(undone.is_success(), "{undone:?}");
        assert_eq!(world.done(), ["pay", "unpay", "took back \"made\""]);
    }
}

#[tokio::test]
async fn an_effect_of_a_tool_that_only_reads_stands_until_it_is_taken_back() {
    let world = World::default();
    let (effect, handler, is_broken) = ticket(&world);
    let look = world.act("look").read_only().effect_handled(effect, handler);
    let runtime = runtime(Arc::new(VolatileLedger::default()), [look], Settings::default());
    let outcome = runtime.call(Call::new("look", json!({}))).await;
    let undone = runtime.undo_run(outcome.call_id, Caller::local()).await.unwrap();
    assert!(!undone.is_success(), "{undone:?}");
    is_broken.store(false, Ordering::SeqCst);
    let undone = runtime.undo_run(outcome.call_id, Caller::local()).await.unwrap();
    assert!(undone.is_success(), "{undone:?}");
    assert_eq!(world.done(), ["look", "took back \"made\""]);
}

/// What a tool answers wrongly it has done all the same.
#[tokio::test]
async fn a_deed_whose_answer_is_not_what_it_promises_is_undone() {
    let world = World::default();
    let by = |arguments| Undo::Tool { tool: "unbook".to_owned(), arguments };
    let wrong = |name: &str, arguments: Value| {
        world
            .act(name)
            .output_schema(json!({ "type": "integer" }))
            .undo(by(Template::parse(arguments).unwrap()))
    };
    let tools = [
        wrong("book", json!({ "what": "{{ arguments }}" })),
        wrong("book-by-result", json!({ "what": "{{ result.did }}" })),
        world.act("unbook"),
    ];
    let runtime = runtime(Arc::new(VolatileLedger::default()), tools, Settings::default());
    sequence(&runtime, "saga", &["book"], OnError::Undo);
    let outcome = runtime.call(Call::new("saga", json!({}))).await;
    assert_eq!(
        (code(&outcome), world.done()),
        ("output_invalid", vec!["book".to_owned(), "unbook".to_owned()])
    );

    let outcome = runtime.call(Call::new("book", json!({}))).await;
    assert_eq!(code(&outcome), "output_invalid");
    let undone = runtime.undo_run(outcome.call_id, Caller::local()).await.unwrap();
    assert!(undone.is_success(), "{undone:?}");
    assert_eq!(world.count("unbook"), 2);

    let outcome = runtime.call(Call::new("book-by-result", json!({}))).await;
    let undone = runtime.undo_run(outcome.call_id, Caller::local()).await.unwrap();
    assert!(undone.error().unwrap().message().contains("`book-by-result`"), "{undone:?}");
    assert_eq!(world.count("unbook"), 2, "what it answered is not known");
}

#[tokio::test]
async fn a_composed_part_is_undone_where_its_parts_are() {
    let world = World::default();
    let tools = world.doable("write").into_iter().chain([world.act("burn"), failing("plan")]);
    let runtime = runtime(Arc::new(VolatileLedger::default()), tools, Settings::default());
    sequence(&runtime, "inner", &["write"], OnError::Stop);
    sequence(&runtime, "outer", &["inner", "plan"], OnError::Undo);
    let outcome = runtime.call(Call::new("outer", json!({}))).await;
    assert!(states(&outcome).contains(&("inner", PartState::Undone)), "{outcome:?}");
    sequence(&runtime, "mixed", &["write", "burn"], OnError::Stop);
    sequence(&runtime, "partly", &["mixed", "plan"], OnError::Undo);
    let outcome = runtime.call(Call::new("partly", json!({}))).await;
    assert!(states(&outcome).contains(&("mixed", PartState::Done)), "`burn` stands: {outcome:?}");
}

#[tokio::test]
async fn a_run_whose_parts_are_taken_back_says_so() {
    let (world, begun) = (World::default(), Arc::new(tokio::sync::Notify::new()));
    let [write, _] = world.doable("write");
    let told = begun.clone();
    let unwrite = world.act("unwrite").handler(move |_, _| {
        told.notify_one();
        std::future::pending()
    });
    let fails = Tool::builder("fails")
        .description("Fails.")
        .input_schema(json!({ "type": "object" }))
        .handler(|_, _| async { Err(ToolError::failed("no")) });
    let ledger = Arc::new(VolatileLedger::default());
    let runtime = runtime(ledger.clone(), [write, unwrite, fails], Settings::default());
    sequence(&runtime, "saga", &["write", "fails"], OnError::Undo);
    let running = tokio::spawn({
        let runtime = runtime.clone();
        async move { runtime.call(Call::new("saga", json!({}))).await }
    });
    begun.notified().await;
    let run = ledger.open_runs(None, 10).await.unwrap()[0].run;
    let standing = runtime.standing_of_runs(&[run]).await.unwrap().remove(0).unwrap();
    assert_eq!(standing.state, helve::runs::RunState::BeingUndone);
    running.abort();
}

/// An effect whose code needs the call's password to take it back.
struct Locker(World);

impl helve::effect::EffectHandler for Locker {
    fn apply(
        &self,
        arguments: Value,
        _: Value,
        _: helve::Context,
    ) -> helve::BoxFuture<'static, Result<Value, ToolError>> {
        Box::pin(async move { Ok(json!({ "opened_with": arguments["password"] })) })
    }

    fn roll_back(
        &self,
        applied: Value,
        _: helve::Context,
    ) -> helve::BoxFuture<'static, Result<(), ToolError>> {
        self.0.0.lock().unwrap().push(format!("closed with {}", applied["opened_with"]));
        Box::pin(async { Ok(()) })
    }
}

/// Stores something in a locker, after which it may call a tool that is broken.
fn lock_up(world: &World, later: Option<Effect>) -> ToolBuilder {
    let effect = Effect::new("opens a locker", count_up(true).change).reversible();
    let input = json!({ "type": "object", "properties": { "password": { "type": "string" } } });
    let tool = world.act("store").input_schema(input).effect_handled(effect, Locker(world.clone()));
    later.into_iter().fold(tool, ToolBuilder::effect)
}

#[tokio::test]
async fn a_secret_that_takes_back_an_effect_is_used_at_once_but_not_recorded() {
    for (later, expected) in
        [(Some(cascade("broken")), vec!["store", "closed with \"hunter2\""]), (None, vec!["store"])]
    {
        let (world, ledger) = (World::default(), Arc::new(VolatileLedger::default()));
        let tools = [lock_up(&world, later), failing("broken")];
        let runtime = runtime(ledger.clone(), tools, Settings::default());
        let outcome = runtime.call(Call::new("store", json!({ "password": "hunter2" }))).await;
        if outcome.is_success() {
            // By now only the record knows, and code is not handed half of what it said.
            let undone = runtime.undo_run(outcome.call_id, Caller::local()).await.unwrap();
            assert!(!undone.is_success(), "{undone:?}");
        }
        assert_eq!(world.done(), expected);
        let entries = format!("{:?}", ledger.entries());
        assert!(entries.contains("opened_with") && !entries.contains("hunter2"), "{entries}");
    }
}
