//! Runs to be cut short, and what must be so in the end.

use std::path::Path;
use std::sync::Arc;

use helve::compose::{self, OnError, Step};
use helve::effect::{Change, Effect, StateOperation};
use helve::memory::{MemoryPlace, MemoryScope};
use helve::ports::{Clock, Ledger, Memory};
use helve::run::{OnCrash, Recalled, Undo};
use helve::template::Template;
use helve::{Call, Caller, Context, Layer, Runtime, Settings, Tool, ToolBuilder, ToolError};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::service::{Deed, Remote};

/// A run. Its tools have names of their own, so that all scenarios fit into one runtime.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Scenario {
    /// Four tools that change the world, each with an effect.
    Sequence,
    /// The same, but the last one fails and all is undone.
    Undone,
    /// A file is written, a request is sent, and the third step fails; undone by the tools' own code.
    Saga,
    /// One tool whose effects count, call another tool, and count again.
    Cascade,
    /// The same, but the last effect fails and those before are taken back.
    CascadeFails,
    /// A composition of compositions, five deep.
    Nested,
    /// The same, but the innermost step fails and all is undone from the outside.
    NestedUndone,
    /// Four at once.
    Parallel,
    /// Two after the other, then four at once of which one fails when the others are done.
    ParallelUndone,
    /// One tool for each item of a list.
    Map,
    /// Rolled back after a crash, whatever came of it.
    RollBack,
    /// The tools know what became of them, so nothing is ever unknown.
    Recall,
    /// The call has an idempotency key.
    Keyed,
    /// Two of the four must be approved, each by itself.
    Approved,
}

impl Scenario {
    pub(super) const ALL: [Self; 14] = [
        Self::Sequence,
        Self::Undone,
        Self::Saga,
        Self::Cascade,
        Self::CascadeFails,
        Self::Nested,
        Self::NestedUndone,
        Self::Parallel,
        Self::ParallelUndone,
        Self::Map,
        Self::RollBack,
        Self::Recall,
        Self::Keyed,
        Self::Approved,
    ];

    /// What its tools' names begin with.
    fn prefix(self) -> String {
        format!("{self:?}").to_lowercase()
    }

    /// The run with this number.
    pub(super) fn call(self, number: u64) -> Call {
        let call = Call::new(format!("{}-root", self.prefix()), json!({ "number": number }));
        match self {
            Self::Keyed => call.idempotency_key(format!("key-{number}")),
            _ => call,
        }
    }

    /// What must have been done to the world in the end, and what the run's count is.
    pub(super) fn expected(self) -> (&'static [&'static str], i64) {
        match self {
            Self::Sequence
            | Self::Parallel
            | Self::RollBack
            | Self::Recall
            | Self::Keyed
            | Self::Approved => (&["a", "b", "c", "d"], 4),
            Self::Undone => (&["a", "b", "c", "unc", "unb", "una"], 0),
            Self::Saga => (&["post", "unpost"], 0),
            Self::Cascade => (&["root", "pack"], 2),
            Self::CascadeFails => (&["root", "pack", "unpack"], 0),
            Self::Nested => (&["a", "b", "c", "d", "e"], 5),
            Self::NestedUndone => (&["a", "b", "c", "d", "e", "une", "und", "unc", "unb", "una"], 0),
            Self::ParallelUndone => (&["a", "b", "c", "d", "e", "una", "unb", "unc", "und", "une"], 0),
            Self::Map => (&["a", "a", "a", "a"], 4),
        }
    }

    /// Whether the order in which things are done is always the same.
    pub(super) fn is_ordered(self) -> bool {
        !matches!(self, Self::Parallel | Self::ParallelUndone | Self::Map)
    }

    fn register(self, runtime: &Runtime, bench: &Bench<'_>) {
        let kit = Kit { scenario: self, runtime, bench };
        match self {
            Self::Sequence | Self::Keyed => {
                ["a", "b", "c", "d"].iter().for_each(|what| kit.add(kit.counted(what)));
                kit.sequence("root", &["a", "b", "c", "d"], OnError::Stop);
            }
            Self::Approved => {
                ["a", "c"].iter().for_each(|what| kit.add(kit.counted(what)));
                ["b", "d"].iter().for_each(|what| kit.add(kit.counted(what).requires_approval()));
                kit.sequence("root", &["a", "b", "c", "d"], OnError::Stop);
            }
            Self::Recall => {
                ["a", "b", "c", "d"].iter().for_each(|what| kit.add(kit.recalled(what)));
                kit.sequence("root", &["a", "b", "c", "d"], OnError::Stop);
            }
            Self::Undone => {
                ["a", "b", "c"].iter().for_each(|what| kit.add_undoable(kit.counted(what), what));
                kit.add(kit.broken());
                kit.sequence("root", &["a", "b", "c", "broken"], OnError::Undo);
            }
            Self::Saga => {
                kit.add(kit.file());
                kit.add(kit.undone_by_code("post"));
                kit.add(kit.broken());
                kit.sequence("root", &["file", "post", "broken"], OnError::Undo);
            }
            Self::Cascade | Self::CascadeFails => {
                kit.add_undoable(kit.act("pack"), "pack");
                let root = kit.counted("root").effect(kit.cascade("pack"));
                let last = if self == Self::Cascade { counts() } else { kit.cascade("broken") };
                kit.add(kit.broken());
                kit.add(root.effect(last));
            }
            Self::Nested | Self::NestedUndone => kit.nested(),
            Self::Parallel => {
                ["a", "b", "c", "d"].iter().for_each(|what| kit.add(kit.counted(what)));
                kit.parallel("root", &["a", "b", "c", "d"]);
            }
            Self::ParallelUndone => {
                ["a", "b", "c", "d", "e"].iter().for_each(|what| kit.add_undoable(kit.counted(what), what));
                kit.add(kit.broken());
                kit.parallel("many", &["c", "d", "e"]);
                kit.sequence("root", &["a", "b", "many", "broken"], OnError::Undo);
            }
            Self::Map => {
                kit.add(kit.counted("a"));
                let map = compose::map(kit.name("root"), kit.name("a"), "[input.number] * 4")
                    .description("For each.")
                    .input_schema(number_schema())
                    .arguments(json!({ "number": "{{ item }}" }))
                    .concurrency(2);
                kit.add_built(map.build(runtime.registry()).unwrap());
            }
            Self::RollBack => {
                ["a", "b", "c", "d"].iter().for_each(|what| kit.add_undoable(kit.counted(what), what));
                kit.rolled_back("root", &["a", "b", "c", "d"]);
            }
        }
    }
}

/// What a runtime is made with.
pub(super) struct Bench<'a> {
    pub(super) ledger: Arc<dyn Ledger>,
    pub(super) remote: Remote,
    /// Where files are written.
    pub(super) folder: &'a Path,
    pub(super) clock: Arc<dyn Clock>,
}

impl Bench<'_> {
    pub(super) fn runtime(&self, scenarios: &[Scenario]) -> Runtime {
        let settings = Settings::default();
        let builder = Runtime::builder().ledger(Arc::clone(&self.ledger)).settings(settings);
        let runtime = builder.clock(Arc::clone(&self.clock)).build();
        scenarios.iter().for_each(|scenario| scenario.register(&runtime, self));
        runtime
    }
}

/// How often the run with this number has counted. What was counted up and down again is nothing.
pub(super) async fn count(ledger: &dyn Memory, number: u64) -> i64 {
    let place = MemoryPlace::of(&Caller::local(), MemoryScope::ShortTerm, format!("count-{number}"));
    ledger.read(place).await.unwrap().map_or(0, |found| found.value.as_i64().unwrap())
}

/// The key of a call, as the world knows it.
fn key(context: &Context) -> String {
    context.idempotency_key().map_or_else(|| context.call_id().to_string(), ToOwned::to_owned)
}

fn number_schema() -> Value {
    json!({ "type": "object", "properties": { "number": { "type": "integer" } }, "required": ["number"] })
}

fn counts() -> Effect {
    let change = Change::StateChange {
        state: Template::parse(json!("count-{{ arguments.number }}")).unwrap(),
        change: StateOperation::Increment,
        value: None,
        scope: MemoryScope::ShortTerm,
    };
    Effect::new("counts", change).reversible()
}

/// Makes the tools of one scenario.
struct Kit<'a> {
    scenario: Scenario,
    runtime: &'a Runtime,
    bench: &'a Bench<'a>,
}

impl Kit<'_> {
    fn name(&self, what: &str) -> String {
        format!("{}-{what}", self.scenario.prefix())
    }

    fn add(&self, tool: ToolBuilder) {
        self.add_built(tool.build().unwrap());
    }

    fn add_built(&self, tool: Tool) {
        self.runtime.registry().register(Layer::Project, tool).unwrap();
    }

    fn tool(&self, what: &str) -> ToolBuilder {
        Tool::builder(self.name(what)).description("Does something.").input_schema(number_schema())
    }

    /// A tool that does something to the world.
    fn act(&self, what: &str) -> ToolBuilder {
        let (remote, what_done) = (self.bench.remote, what.to_owned());
        self.tool(what).handler(move |arguments: Value, context| {
            let number = arguments["number"].as_u64().unwrap();
            remote.act(Deed { number, what: what_done.clone(), key: key(&context) })
        })
    }

    /// The same, and it counts.
    fn counted(&self, what: &str) -> ToolBuilder {
        self.act(what).effect(counts())
    }

    fn add_undoable(&self, tool: ToolBuilder, what: &str) {
        let undo = format!("un{what}");
        self.add(self.act(&undo));
        let arguments = Template::parse(json!({ "number": "{{ arguments.number }}" })).unwrap();
        self.add(tool.undo(Undo::Tool { tool: self.name(&undo), arguments }));
    }

    /// A tool that knows what became of a call.
    fn recalled(&self, what: &str) -> ToolBuilder {
        let remote = self.bench.remote;
        self.counted(what).recall_handled(move |_, context: Context| async move {
            Ok(match remote.seen(&key(&context)).await? {
                Value::Null => Recalled::WillNotHappen,
                result => Recalled::Happened(result),
            })
        })
    }

    /// A tool that is undone by code, which asks first: it may be called again.
    fn undone_by_code(&self, what: &str) -> ToolBuilder {
        let (remote, undo) = (self.bench.remote, format!("un{what}"));
        self.counted(what).undo_handled(move |arguments: Value, _, context: Context| {
            let number = arguments["number"].as_u64().unwrap();
            let deed = Deed { number, what: undo.clone(), key: format!("{}/undo", context.call_id()) };
            async move {
                if remote.seen(&deed.key).await?.is_null() {
                    remote.act(deed).await?;
                }
                Ok(())
            }
        })
    }

    /// A tool that writes a file, which can be done again and again.
    fn file(&self) -> ToolBuilder {
        let path = |folder: &Path, arguments: &Value| folder.join(format!("note-{}", arguments["number"]));
        let (folder, same) = (self.bench.folder.to_owned(), self.bench.folder.to_owned());
        self.tool("file")
            .idempotent()
            .handler(move |arguments: Value, _| {
                let path = path(&folder, &arguments);
                async move {
                    std::fs::write(&path, "written").map_err(|error| ToolError::failed(error.to_string()))?;
                    Ok(json!({ "path": path }))
                }
            })
            .undo_handled(move |arguments: Value, _, _| {
                let path = path(&same, &arguments);
                async move {
                    match std::fs::remove_file(path) {
                        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                            Err(ToolError::failed(error.to_string()))
                        }
                        _ => Ok(()),
                    }
                }
            })
    }

    fn broken(&self) -> ToolBuilder {
        self.tool("broken").handler(|_, _| async { Err(ToolError::failed("it is broken")) })
    }

    fn cascade(&self, what: &str) -> Effect {
        let arguments = Template::parse(json!({ "number": "{{ arguments.number }}" })).unwrap();
        let change = Change::Cascade { tool: self.name(what), arguments };
        Effect::new(format!("calls {what}"), change).reversible()
    }

    fn steps(&self, whats: &[&str]) -> Vec<Step> {
        let step = |what: &&str| {
            Step::call(*what, self.name(what)).arguments(json!({ "number": "{{ input.number }}" }))
        };
        whats.iter().map(step).collect()
    }

    fn sequence(&self, name: &str, whats: &[&str], policy: OnError) {
        let sequence = compose::sequence(self.name(name)).description("One after the other.");
        let sequence = sequence.input_schema(number_schema()).on_error(policy);
        let sequence = self.steps(whats).into_iter().fold(sequence, |sequence, step| sequence.step(step));
        self.add_built(sequence.build(self.runtime.registry()).unwrap());
    }

    fn rolled_back(&self, name: &str, whats: &[&str]) {
        let sequence = compose::sequence(self.name(name)).description("All or nothing.");
        let sequence = sequence.input_schema(number_schema()).define(|tool| tool.on_crash(OnCrash::RollBack));
        let sequence = self.steps(whats).into_iter().fold(sequence, |sequence, step| sequence.step(step));
        self.add_built(sequence.build(self.runtime.registry()).unwrap());
    }

    fn parallel(&self, name: &str, whats: &[&str]) {
        let parallel = compose::parallel(self.name(name)).description("At once.");
        let parallel = parallel.input_schema(number_schema()).concurrency(4);
        let parallel = self.steps(whats).into_iter().fold(parallel, |parallel, step| parallel.step(step));
        self.add_built(parallel.build(self.runtime.registry()).unwrap());
    }

    /// Each level does one thing and calls the next; the outermost is called `root`.
    fn nested(&self) {
        let fails = self.scenario == Scenario::NestedUndone;
        let levels = [("e", ""), ("d", "fifth"), ("c", "fourth"), ("b", "third"), ("a", "second")];
        if fails {
            self.add(self.broken());
        }
        for (index, (what, inner)) in levels.into_iter().enumerate() {
            self.add_undoable(self.counted(what), what);
            let name = ["fifth", "fourth", "third", "second", "root"][index];
            let inner = match (inner, fails) {
                ("", true) => Some("broken"),
                ("", false) => None,
                (inner, _) => Some(inner),
            };
            let whats: Vec<_> = std::iter::once(what).chain(inner).collect();
            let policy = if fails && name == "root" { OnError::Undo } else { OnError::Stop };
            self.sequence(name, &whats, policy);
        }
    }
}
