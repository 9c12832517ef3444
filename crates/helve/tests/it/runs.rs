//! Runs: parts, effects, undo, and taking up again what was cut short.

use std::sync::{Arc, Mutex};

use helve::compose::{self, OnError, Step};
use helve::effect::{Change, Effect, StateOperation};
use helve::memory::{MemoryPlace, MemoryScope};
use helve::ports::{Ledger, Memory, Runs};
use helve::run::{Answer, EffectState, OnCrash, PartState, StepKind, Undo};
use helve::runs::{Settlement, TakenUp};
use helve::template::Template;
use helve::{Call, CallId, Caller, Outcome, Runtime, Settings, Tool, ToolBuilder, ToolError, VolatileLedger};
use helve_testkit::{Boundary, FaultyLedger};
use serde_json::{Value, json};

use crate::support::code;

/// The world: what was done to it, in order.
#[derive(Clone, Default)]
struct World(Arc<Mutex<Vec<String>>>);

impl World {
    fn done(&self) -> Vec<String> {
        self.0.lock().unwrap().clone()
    }

    fn count(&self, what: &str) -> usize {
        self.done().iter().filter(|done| *done == what).count()
    }

    /// A tool that does something, and another one that undoes it.
    fn doable(&self, name: &'static str) -> [ToolBuilder; 2] {
        let undo = format!("un{name}");
        let doing = self.act(name).undo(Undo::Tool {
            tool: undo.clone(),
            arguments: Template::parse(json!({ "what": "{{ result.did }}" })).unwrap(),
        });
        [doing, self.act(&undo)]
    }

    fn act(&self, name: &str) -> ToolBuilder {
        let (world, did) = (self.clone(), name.to_owned());
        Tool::builder(name)
            .description("Does something to the world.")
            .input_schema(json!({ "type": "object" }))
            .handler(move |_, _| {
                world.0.lock().unwrap().push(did.clone());
                let did = did.clone();
                async move { Ok(json!({ "did": did })) }
            })
    }
}

fn failing(name: &str) -> ToolBuilder {
    Tool::builder(name)
        .description("Fails.")
        .input_schema(json!({ "type": "object" }))
        .handler(|_, _| async { Err(ToolError::failed("it is broken")) })
}

fn runtime(
    ledger: Arc<dyn Ledger>,
    tools: impl IntoIterator<Item = ToolBuilder>,
    settings: Settings,
) -> Runtime {
    let mut builder = Runtime::builder().ledger(ledger).settings(settings);
    for tool in tools {
        builder = builder.tool(tool).unwrap();
    }
    builder.build()
}

fn compose(runtime: &Runtime, tool: Tool) {
    runtime.registry().register(helve::Layer::Project, tool).unwrap();
}

fn sequence(runtime: &Runtime, name: &str, steps: &[&str], policy: OnError) {
    let steps = steps.iter().map(|tool| Step::of(*tool).arguments(json!({})));
    let composed = steps.fold(compose::sequence(name), |composed, step| composed.step(step));
    let tool = composed.description("A sequence.").on_error(policy).build(runtime.registry()).unwrap();
    compose(runtime, tool);
}

fn states(outcome: &Outcome) -> Vec<(&str, PartState)> {
    outcome.parts.iter().map(|part| (&*part.path, part.state)).collect()
}

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

fn count_up(reversible: bool) -> Effect {
    let change = Change::StateChange {
        state: Template::literal(json!("orders")),
        change: StateOperation::Increment,
        value: None,
        scope: MemoryScope::ShortTerm,
    };
    let effect = Effect::new("counts orders", change);
    if reversible { effect.reversible() } else { effect }
}

fn cascade(tool: &str) -> Effect {
    let change = Change::Cascade { tool: tool.to_owned(), arguments: Template::default() };
    Effect::new(format!("calls {tool}"), change).reversible()
}

async fn orders(ledger: &dyn Memory) -> Value {
    let place = MemoryPlace::of(&Caller::local(), MemoryScope::ShortTerm, "orders");
    ledger.read(place).await.unwrap().map_or(Value::Null, |found| found.value)
}

#[tokio::test]
async fn effects_are_taken_back_in_reverse_when_one_fails_and_the_outcome_says_all() {
    let world = World::default();
    let ledger = Arc::new(VolatileLedger::default());
    let notice = Change::Notification { event: "order:placed".to_owned(), payload: None };
    let order = world
        .act("order")
        .effect(count_up(true))
        .effect(Effect::new("tells", notice))
        .effect(cascade("pack"))
        .effect(cascade("broken"))
        .effect(count_up(true));
    let tools = [order, failing("broken")].into_iter().chain(world.doable("pack"));
    let runtime = runtime(ledger.clone(), tools, Settings::default());
    let outcome = runtime.call(Call::new("order", json!({}))).await;
    assert_eq!(code(&outcome), "effect_failed");
    assert_eq!(world.done(), ["order", "pack", "unpack"]);
    assert_eq!(orders(&*ledger).await, json!(null));
    let states: Vec<_> = outcome.effects.iter().map(|effect| effect.state).collect();
    assert_eq!(
        states,
        [
            EffectState::RolledBack,
            EffectState::Applied,
            EffectState::RolledBack,
            EffectState::Failed,
            EffectState::NotReached
        ]
    );
    let message = outcome.error().unwrap().message();
    assert!(message.contains("“tells”") && message.contains("“counts orders”"), "{message}");
}

#[tokio::test]
async fn a_rollback_that_fails_is_recorded_and_the_others_go_on() {
    let world = World::default();
    let ledger = Arc::new(VolatileLedger::default());
    // Whoever cascades last changes the state after the effect did.
    let meddle = Tool::builder("meddle").description("Meddles.").handler(|_, context| async move {
        let change = helve::memory::MemoryChange::new(helve::memory::Operation::Write(json!("mine")));
        context.memory().change(MemoryScope::ShortTerm, "url", change).await.unwrap();
        Ok(json!(null))
    });
    let set_url = Change::StateChange {
        state: Template::literal(json!("url")),
        change: StateOperation::Set,
        value: Some(Template::literal(json!("new"))),
        scope: MemoryScope::ShortTerm,
    };
    let go = world
        .act("go")
        .effect(count_up(true))
        .effect(Effect::new("sets the url", set_url).reversible())
        .effect(cascade("meddle"))
        .effect(cascade("broken"));
    let runtime = runtime(ledger.clone(), [go, meddle, failing("broken")], Settings::default());
    let outcome = runtime.call(Call::new("go", json!({}))).await;
    let states: Vec<_> = outcome.effects.iter().map(|effect| effect.state).collect();
    assert_eq!(states[..2], [EffectState::RolledBack, EffectState::RollbackFailed]);
    assert_eq!(orders(&*ledger).await, json!(null));
    let failed = ledger.entries().into_iter().any(|entry| {
        matches!(entry, helve::record::Entry::Step(step) if step.kind == StepKind::RollbackFailed { index: 1 })
    });
    assert!(failed);
}

#[tokio::test]
async fn a_part_whose_effect_failed_is_undone_with_its_saga() {
    let world = World::default();
    let [order, unorder] = world.doable("order");
    let tools = [order.effect(cascade("pack")).effect(cascade("broken")), unorder, failing("broken")];
    let tools = tools.into_iter().chain(world.doable("pack")).chain(world.doable("write"));
    let runtime = runtime(Arc::new(VolatileLedger::default()), tools, Settings::default());
    sequence(&runtime, "saga", &["write", "order"], OnError::Undo);
    let outcome = runtime.call(Call::new("saga", json!({}))).await;
    assert_eq!(code(&outcome), "effect_failed");
    assert_eq!(world.done(), ["write", "order", "pack", "unpack", "unorder", "unwrite"]);
    // The same without a saga: what stands is undone when somebody asks.
    let alone = runtime.call(Call::new("order", json!({}))).await;
    assert_eq!(code(&alone), "effect_failed");
    assert_eq!(world.count("unorder"), 1);
    let undone = runtime.undo_run(alone.call_id, Caller::local()).await.unwrap();
    assert!(undone.is_success(), "{undone:?}");
    assert_eq!((world.count("unorder"), world.count("unpack")), (2, 2));
}

#[tokio::test]
async fn what_a_part_set_off_is_undone_once() {
    let world = World::default();
    let [order, unorder] = world.doable("order");
    let tools = [order.effect(cascade("pack")), unorder, failing("broken")];
    let tools = tools.into_iter().chain(world.doable("pack"));
    let runtime = runtime(Arc::new(VolatileLedger::default()), tools, Settings::default());
    sequence(&runtime, "saga", &["order", "broken"], OnError::Undo);
    runtime.call(Call::new("saga", json!({}))).await;
    assert_eq!(world.done(), ["order", "pack", "unpack", "unorder"]);
    let alone = runtime.call(Call::new("order", json!({}))).await;
    assert!(alone.is_success());
    runtime.undo_run(alone.call_id, Caller::local()).await.unwrap();
    assert_eq!((world.count("unpack"), world.count("unorder")), (2, 2));
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

#[tokio::test]
async fn effects_that_go_in_a_circle_are_stopped() {
    let world = World::default();
    let tools = [
        world.act("a").effect(cascade("b")),
        world.act("b").effect(cascade("c")),
        world.act("c").effect(cascade("a")),
    ];
    let runtime = runtime(Arc::new(VolatileLedger::default()), tools, Settings::default());
    let outcome = runtime.call(Call::new("a", json!({}))).await;
    assert_eq!(code(&outcome), "effect_failed");
    assert_eq!(world.done(), ["a", "b", "c"]);
    assert!(outcome.error().unwrap().message().contains("`a` → `b` → `c` → `a`"), "{outcome:?}");
}

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

/// What a crash at one boundary leads to.
struct Crash {
    world: World,
    ledger: Arc<VolatileLedger>,
    /// Whether the run got to its end before the crash.
    ended: bool,
}

/// Runs `saga` until its ledger dies at boundary `at`; whatever comes later is not written.
async fn crash(at: usize, last: &'static str, on_crash: OnCrash) -> Crash {
    let (world, ledger) = (World::default(), Arc::new(VolatileLedger::default()));
    let passed = std::sync::atomic::AtomicUsize::new(0);
    let faulty = FaultyLedger::new(
        ledger.clone(),
        Arc::new(move |_: Boundary| {
            let number = passed.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
            if number >= at { Err(helve::ports::JournalError::new("the process is gone")) } else { Ok(()) }
        }),
    );
    let runtime = saga(Arc::new(faulty), &world, last, on_crash);
    let outcome = runtime.call(Call::new("saga", json!({})).idempotency_key("k")).await;
    let ended =
        code(&outcome) != "journal_unavailable" && ledger.open_runs(None, 1).await.unwrap().is_empty();
    ledger.abandon_runs();
    Crash { world, ledger, ended }
}

fn saga(ledger: Arc<dyn Ledger>, world: &World, last: &str, on_crash: OnCrash) -> Runtime {
    let [first, unfirst] = world.doable("first");
    let tools = [first.effect(count_up(true)), unfirst, failing("broken"), world.act("last")];
    let tools = tools.into_iter().chain(world.doable("second"));
    let runtime = runtime(ledger, tools, Settings::default());
    let steps = ["first", "second", last];
    let composed = steps.iter().fold(compose::sequence("saga"), |composed, tool| {
        composed.step(Step::of(*tool).arguments(json!({})))
    });
    let composed = composed
        .description("A saga.")
        .on_error(OnError::Undo)
        .define(|tool| tool.on_crash(on_crash))
        .build(runtime.registry())
        .unwrap();
    compose(&runtime, composed);
    runtime
}

/// Takes up what a crash left, telling the truth about what nobody else can know.
async fn recover(crash: &Crash, last: &str, on_crash: OnCrash) {
    let runtime = saga(crash.ledger.clone(), &crash.world, last, on_crash);
    let recovered = runtime.recover().await.unwrap();
    for one in recovered {
        let mut waits = match one.taken_up {
            TakenUp::Ended(_) => None,
            TakenUp::Waits(outcome) => Some(outcome),
            TakenUp::Failed(error) => panic!("{error}"),
        };
        while let Some(outcome) = waits {
            assert_eq!(code(&outcome), "outcome_unknown");
            let asked = waiting_for(&crash.ledger, one.run).await;
            let happened = crash.world.count(&asked) > 0;
            let answer = if happened { Answer::Happened } else { Answer::DidNotHappen };
            let result = happened.then(|| json!({ "did": asked }));
            let settlement = Settlement { call_id: None, answer, result };
            let resumed = runtime.resume_run(one.run, Some(settlement)).await.unwrap();
            let still_open = !crash.ledger.open_runs(None, 1).await.unwrap().is_empty();
            waits = still_open.then_some(resumed);
        }
    }
    assert!(crash.ledger.open_runs(None, 10).await.unwrap().is_empty());
}

/// The tool of the call that a run waits for.
async fn waiting_for(ledger: &VolatileLedger, run: CallId) -> String {
    let history = ledger.history(run).await.unwrap();
    let asked = history.iter().rev().find_map(|entry| match entry {
        helve::record::Entry::Step(step) if matches!(step.kind, StepKind::Waiting { .. }) => {
            Some(step.call_id)
        }
        _ => None,
    });
    let facts = history.iter().filter_map(helve::record::Entry::facts);
    facts.filter(|facts| Some(facts.call_id) == asked).map(|facts| facts.tool.to_string()).next().unwrap()
}

#[tokio::test]
async fn after_a_crash_at_any_boundary_a_run_is_finished_and_nothing_is_done_twice() {
    let mut at = 0;
    loop {
        let crash = crash(at, "last", OnCrash::Resume).await;
        recover(&crash, "last", OnCrash::Resume).await;
        let done = crash.world.done();
        let began = !crash.ledger.entries().is_empty();
        if began && !done.is_empty() {
            assert_eq!(done, ["first", "second", "last"], "boundary {at}");
            assert_eq!(orders(&*crash.ledger).await, json!(1), "boundary {at}");
        }
        if crash.ended {
            break;
        }
        at += 1;
    }
    assert!(at > 8, "only {at} boundaries were tried");
}

#[tokio::test]
async fn after_a_crash_at_any_boundary_a_failed_run_is_undone_once() {
    let mut at = 0;
    loop {
        let crash = crash(at, "broken", OnCrash::Resume).await;
        recover(&crash, "broken", OnCrash::Resume).await;
        let done = crash.world.done();
        if !done.is_empty() {
            assert_eq!(done, ["first", "second", "unsecond", "unfirst"], "boundary {at}");
            assert_eq!(orders(&*crash.ledger).await, json!(null), "boundary {at}");
        }
        if crash.ended {
            break;
        }
        at += 1;
    }
    assert!(at > 12, "only {at} boundaries were tried");
}

#[tokio::test]
async fn a_run_that_is_to_be_rolled_back_after_a_crash_is() {
    let mut at = 0;
    loop {
        let crash = crash(at, "last", OnCrash::RollBack).await;
        if crash.ended {
            break;
        }
        recover(&crash, "last", OnCrash::RollBack).await;
        let world = &crash.world;
        for name in ["first", "second"] {
            assert!(world.count(name) <= 1, "boundary {at}: {:?}", world.done());
            assert!(
                world.count(&format!("un{name}")) <= world.count(name),
                "boundary {at}: {:?}",
                world.done()
            );
        }
        at += 1;
    }
}

#[tokio::test]
async fn a_run_can_be_left_to_a_person() {
    let crash = crash(6, "last", OnCrash::Ask).await;
    let runtime = saga(crash.ledger.clone(), &crash.world, "last", OnCrash::Ask);
    let recovered = runtime.recover().await.unwrap();
    assert!(matches!(recovered[0].taken_up, TakenUp::Waits(_)), "{recovered:?}");
    assert!(runtime.recover().await.unwrap().is_empty(), "it waits, and is not taken up again");
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
