//! Random compositions whose tools change a world, cut short anywhere, against an interpreter that
//! is as simple as can be: what stands in the end is what stands where nothing was cut short.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use helve::compose::{Composition, Given, OnError};
use helve::effect::{Change, Effect, StateOperation};
use helve::memory::{MemoryPlace, MemoryScope};
use helve::ports::{Holder, JournalError, Ledger, Memory, Runs};
use helve::record::Entry;
use helve::run::{Finding, StepKind, Undo};
use helve::runs::{Resumption, Settlement};
use helve::template::Template;
use helve::{Call, CallId, Caller, Context, Layer, Runtime, Tool, ToolError, VolatileLedger};
use helve_testkit::FaultyLedger;
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::support::code;

/// A composition as the model sees it.
#[derive(Debug, Clone)]
enum Shape {
    Leaf {
        fails: bool,
        undoable: bool,
    },
    Sequence(Vec<Shape>, Policy),
    Parallel(Vec<Shape>, usize, Policy),
    /// The first way if it is open, else the second.
    Conditional(bool, Box<Shape>, Option<Box<Shape>>, Policy),
    Map(Box<Shape>, usize, usize, Policy),
}

/// What becomes of a failure. A type of ours, so that it can be shrunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Policy {
    Stop,
    Continue,
    Undo,
}

impl From<Policy> for OnError {
    fn from(policy: Policy) -> Self {
        match policy {
            Policy::Stop => Self::Stop,
            Policy::Continue => Self::Continue,
            Policy::Undo => Self::Undo,
        }
    }
}

fn policies() -> impl Strategy<Value = Policy> {
    prop::sample::select(vec![Policy::Stop, Policy::Continue, Policy::Undo])
}

fn shapes() -> impl Strategy<Value = Shape> {
    let leaf = (prop::bool::weighted(0.25), prop::bool::weighted(0.7))
        .prop_map(|(fails, undoable)| Shape::Leaf { fails, undoable });
    let composed = leaf.prop_recursive(3, 12, 4, |inner| {
        let many = || prop::collection::vec(inner.clone(), 1..4);
        let boxed = || inner.clone().prop_map(Box::new);
        prop_oneof![
            (many(), policies()).prop_map(|(steps, policy)| Shape::Sequence(steps, policy)),
            (many(), 1..4_usize, policies())
                .prop_map(|(steps, width, policy)| Shape::Parallel(steps, width, policy)),
            (any::<bool>(), boxed(), prop::option::of(boxed()), policies())
                .prop_map(|(open, a, b, policy)| Shape::Conditional(open, a, b, policy)),
            (boxed(), 0..4_usize, 1..3_usize, policies())
                .prop_map(|(step, count, width, policy)| Shape::Map(step, count, width, policy)),
        ]
    });
    // A run of one tool is no composition.
    composed.prop_map(|shape| match shape {
        Shape::Leaf { .. } => Shape::Sequence(vec![shape], Policy::Undo),
        composed => composed,
    })
}

/// What goes wrong with the journal.
#[derive(Debug, Clone, Copy)]
enum Trouble {
    /// From this boundary on the process is gone.
    Crash(u64),
    /// This one write fails, or is said to have.
    Hiccup(u64),
}

fn troubles() -> impl Strategy<Value = Trouble> {
    prop_oneof![(0..60_u64).prop_map(Trouble::Crash), (0..60_u64).prop_map(Trouble::Hiccup)]
}

/// What stands of a leaf in the end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Standing {
    Done,
    Undone,
    /// It could not be undone, but its effect is.
    EffectUndone,
    /// It may have been stopped before it began: something parallel to it failed.
    Either,
}

#[derive(Debug, Default)]
struct Model(BTreeMap<String, (Standing, bool)>);

impl Model {
    /// Runs a shape. Returns whether it succeeds.
    fn run(&mut self, shape: &Shape, at: &str) -> bool {
        let (succeeds, policy) = match shape {
            Shape::Leaf { fails: true, .. } => return false,
            Shape::Leaf { fails: false, undoable } => {
                self.0.insert(at.to_owned(), (Standing::Done, *undoable));
                return true;
            }
            Shape::Sequence(steps, policy) => (self.one_by_one(steps, at, *policy), *policy),
            Shape::Conditional(true, step, _, policy) | Shape::Conditional(false, _, Some(step), policy) => {
                (self.one_by_one(std::slice::from_ref(&**step), at, *policy), *policy)
            }
            Shape::Conditional(false, _, None, policy) => (false, *policy),
            Shape::Parallel(steps, width, policy) => {
                let steps: Vec<_> = steps.iter().collect();
                (self.at_once(&steps, at, *width, *policy), *policy)
            }
            Shape::Map(step, count, width, policy) => {
                (self.at_once(&vec![&**step; *count], at, *width, *policy), *policy)
            }
        };
        if !succeeds && policy == Policy::Undo {
            self.change(at, |standing, undoable| match (standing, undoable) {
                (_, true) => Standing::Undone,
                (Standing::Done, false) => Standing::EffectUndone,
                (standing, false) => standing,
            });
        }
        succeeds
    }

    fn one_by_one(&mut self, steps: &[Shape], at: &str, policy: Policy) -> bool {
        let mut succeeds = true;
        for (index, step) in steps.iter().enumerate() {
            succeeds &= self.run(step, &format!("{at}/{index}"));
            // One that goes on without a step has a result, and has not succeeded.
            if !succeeds && policy != Policy::Continue {
                return false;
            }
        }
        succeeds
    }

    fn at_once(&mut self, steps: &[&Shape], at: &str, width: usize, policy: Policy) -> bool {
        let mut succeeds = true;
        for (index, step) in steps.iter().enumerate() {
            succeeds &= self.run(step, &format!("{at}/{index}"));
            if !succeeds && width == 1 && policy != Policy::Continue {
                return false;
            }
        }
        if !succeeds && policy != Policy::Continue {
            self.change(at, |standing, _| match standing {
                Standing::Done | Standing::EffectUndone | Standing::Either => Standing::Either,
                Standing::Undone => Standing::Undone,
            });
        }
        succeeds
    }

    fn change(&mut self, at: &str, change: impl Fn(Standing, bool) -> Standing) {
        let within = format!("{at}/");
        for (_, (standing, undoable)) in self.0.iter_mut().filter(|(leaf, _)| leaf.starts_with(&within)) {
            *standing = change(*standing, *undoable);
        }
    }
}

/// What was done, and under which key: nothing is refused because it comes twice.
#[derive(Clone, Default)]
struct World(Arc<Mutex<Vec<(String, String)>>>);

impl World {
    fn act(&self, what: String, context: &Context) {
        let key = context.idempotency_key().expect("a part has a key").to_owned();
        self.0.lock().unwrap().push((key, what));
    }

    fn count(&self, what: &str) -> usize {
        self.0.lock().unwrap().iter().filter(|(_, done)| done == what).count()
    }

    fn has(&self, key: &str) -> bool {
        self.0.lock().unwrap().iter().any(|(done, _)| done == key)
    }
}

fn schema() -> Value {
    json!({ "type": "object", "properties": { "at": { "type": "string" } }, "required": ["at"] })
}

fn tool(world: &World, name: &str, prefix: &'static str, fails: bool) -> helve::ToolBuilder {
    let world = world.clone();
    Tool::builder(name).description("Does something.").input_schema(schema()).handler(
        move |arguments: Value, context| {
            let at = arguments["at"].as_str().unwrap().to_owned();
            if !fails {
                world.act(format!("{prefix}{at}"), &context);
            }
            async move { if fails { Err(ToolError::failed("as planned")) } else { Ok(json!({})) } }
        },
    )
}

fn counts() -> Effect {
    let change = Change::StateChange {
        state: Template::parse(json!("count {{ arguments.at }}")).unwrap(),
        change: StateOperation::Increment,
        value: None,
        scope: MemoryScope::ShortTerm,
    };
    Effect::new("counts", change).reversible()
}

/// Registers a shape and all within it; gives the name of its tool.
fn register(runtime: &Runtime, world: &World, shape: &Shape) -> String {
    let registry = runtime.registry();
    let name = |registry: &helve::Registry| format!("made-{}", registry.len());
    let policy = |policy: Policy| json!(OnError::from(policy));
    let steps = |shapes: &[Shape]| -> Vec<Value> {
        let step = |(index, shape): (usize, &Shape)| {
            let tool = register(runtime, world, shape);
            json!({ "name": format!("s{index}"), "tool": tool,
                "arguments": { "at": format!("{{{{ input.at }}}}/{index}") } })
        };
        shapes.iter().enumerate().map(step).collect()
    };
    let one = |shape: &Shape| steps(std::slice::from_ref(shape));
    let composition = match shape {
        Shape::Leaf { fails, undoable } => {
            let name = name(registry);
            let mut leaf = tool(world, &name, "", *fails).effect(counts());
            if *undoable {
                let arguments = Template::parse(json!({ "at": "{{ arguments.at }}" })).unwrap();
                leaf = leaf.undo(Undo::Tool { tool: "undo-it".to_owned(), arguments });
            }
            registry.register(Layer::Project, leaf.build().unwrap()).unwrap();
            return name;
        }
        Shape::Sequence(shapes, on_error) => {
            json!({ "type": "sequence", "on_error": policy(*on_error), "steps": steps(shapes) })
        }
        Shape::Parallel(shapes, width, on_error) => {
            json!({ "type": "parallel", "on_error": policy(*on_error), "concurrency": width, "steps": steps(shapes) })
        }
        Shape::Conditional(open, a, b, on_error) => {
            let when = if *open { "input.at" } else { "not input.at" };
            let mut json = json!({ "type": "conditional", "on_error": policy(*on_error),
                "branches": [{ "when": when, "steps": one(a) }] });
            if let Some(b) = b {
                json["otherwise"] = json!(one(b));
            }
            json
        }
        Shape::Map(step, count, width, on_error) => {
            json!({ "type": "map", "tool": register(runtime, world, step), "concurrency": width,
                "on_error": policy(*on_error), "over": format!("range({count})"),
                "arguments": { "at": "{{ input.at }}/{{ item }}" } })
        }
    };
    let name = name(registry);
    let composition: Composition = serde_json::from_value(composition).unwrap();
    let given = Given { input_schema: Some(schema()), ..Given::default() };
    let derived = composition.derive(&name, given, registry).unwrap();
    let tool = derived.complete(Tool::builder(&name).description("Is made by chance.")).build().unwrap();
    registry.register(Layer::Project, tool).unwrap();
    name
}

fn runtime(ledger: Arc<dyn Ledger>, world: &World, shape: &Shape) -> (Runtime, String) {
    let runtime = Runtime::builder().ledger(ledger).build();
    let undo = tool(world, "undo-it", "undone ", false).build().unwrap();
    runtime.registry().register(Layer::Project, undo).unwrap();
    let name = register(&runtime, world, shape);
    (runtime, name)
}

fn troubled(ledger: &Arc<VolatileLedger>, trouble: Trouble) -> FaultyLedger {
    let passed = AtomicU64::new(0);
    let fault = move |_| {
        let number = passed.fetch_add(1, Ordering::SeqCst);
        let refused = match trouble {
            Trouble::Crash(at) => number >= at,
            Trouble::Hiccup(at) => number == at,
        };
        if refused { Err(JournalError::new("the disk is gone")) } else { Ok(()) }
    };
    FaultyLedger::new(ledger.clone(), Arc::new(fault))
}

/// Takes up what was left, telling the truth where nobody else can.
async fn recover(runtime: &Runtime, ledger: &VolatileLedger, world: &World) {
    for one in runtime.recover().await.unwrap() {
        assert!(!matches!(one.resumption, Resumption::Failed(_)), "{one:?}");
    }
    for _ in 0..64 {
        let open = ledger.open_runs(None, 10).await.unwrap();
        let Some(waiting) = open.first() else { return };
        assert_eq!(waiting.holder, Holder::Person, "nobody is at it");
        let settlement = truth(ledger, waiting.run, world).await;
        runtime.resume_run(waiting.run, Some(settlement)).await.unwrap();
    }
    panic!("it waits for ever");
}

async fn truth(ledger: &VolatileLedger, run: CallId, world: &World) -> Settlement {
    let history = ledger.history(run).await.unwrap();
    let asked = history.iter().rev().find_map(|entry| match entry {
        Entry::Step(step) if matches!(step.kind, StepKind::Waiting { .. }) => Some(step.call_id),
        Entry::Started(_) | Entry::Step(_) | Entry::Finished(_) => None,
    });
    let mut facts = history.iter().filter_map(Entry::facts).filter(|facts| Some(facts.call_id) == asked);
    let part = facts.next().and_then(|facts| facts.part.clone()).expect("it waits for a part");
    let happened = world.has(&format!("{}/{}", part.run, part.path));
    let answer = if happened { Finding::Happened } else { Finding::DidNotHappen };
    Settlement { call_id: asked, answer, result: happened.then(|| json!({})), by: None }
}

async fn count(ledger: &VolatileLedger, at: &str) -> i64 {
    let place = MemoryPlace::of(&Caller::local(), MemoryScope::ShortTerm, format!("count {at}"));
    ledger.read(place).await.unwrap().map_or(0, |found| found.value.as_i64().unwrap())
}

async fn check(shape: &Shape, trouble: Trouble) -> Result<(), TestCaseError> {
    let (world, ledger) = (World::default(), Arc::new(VolatileLedger::default()));
    let (first, name) = runtime(Arc::new(troubled(&ledger, trouble)), &world, shape);
    let outcome = first.call(Call::new(name, json!({ "at": "r" }))).await;
    ledger.abandon_runs();
    let refused_at_once = code(&outcome) == "journal_unavailable" && world.0.lock().unwrap().is_empty();
    let is_open = !ledger.open_runs(None, 1).await.unwrap().is_empty();
    let (second, _) = runtime(ledger.clone(), &world, shape);
    recover(&second, &ledger, &world).await;
    if refused_at_once && !is_open {
        return Ok(());
    }
    let mut model = Model::default();
    model.run(shape, "r");
    let deeds = world.0.lock().unwrap().clone();
    for (key, what) in &deeds {
        prop_assert_eq!(world.count(what), 1, "{} of {} was done twice", what, key);
        let leaf = what.strip_prefix("undone ").unwrap_or(what);
        prop_assert!(model.0.contains_key(leaf), "{} should not have been done", what);
    }
    for (at, (standing, _)) in &model.0 {
        let (done, undone) = (world.count(at), world.count(&format!("undone {at}")));
        let counted = count(&ledger, at).await;
        let is_right = match standing {
            Standing::Done => (done, undone, counted) == (1, 0, 1),
            // What never began needs no undoing.
            Standing::Undone => done == undone && counted == 0,
            Standing::EffectUndone => (done, undone, counted) == (1, 0, 0),
            Standing::Either => undone <= done && counted <= 1,
        };
        prop_assert!(
            is_right,
            "{}: {:?}, but done {}, undone {}, counted {}",
            at,
            standing,
            done,
            undone,
            counted
        );
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]
    #[test]
    fn a_run_that_was_cut_short_comes_to_what_the_model_says(shape in shapes(), trouble in troubles()) {
        let executor = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        executor.block_on(check(&shape, trouble))?;
    }
}
