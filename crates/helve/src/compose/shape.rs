//! The four sorts of composition, as plain data.

use helve_core::ToolError;
use helve_core::expression::{Expression, Scope};
use helve_core::template::Template;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::step::{Code, OnError, Step};

/// Most items of a map, unless it says otherwise.
pub const ITEMS_MAX: usize = 1_000;
/// How many items of a map run at once, unless it says otherwise.
pub const MAP_CONCURRENCY: usize = 8;

/// Tools put together, as plain data.
///
/// ```
/// use helve::compose::Composition;
/// let composition: Composition = serde_json::from_value(serde_json::json!({
///     "type": "sequence",
///     "steps": [{ "tool": "web/fetch" }, { "tool": "text-stats", "arguments": { "text": "{{ previous.body }}" } }],
/// })).unwrap();
/// assert_eq!(composition.tools(), ["web/fetch", "text-stats"]);
/// ```
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Composition {
    /// One after the other.
    Sequence(Sequence),
    /// Side by side.
    Parallel(Parallel),
    /// One of several, by a condition.
    Conditional(Conditional),
    /// One tool for each item of a list.
    Map(MapOver),
}

/// Steps one after the other.
///
/// Templates and conditions see `input` (the arguments of the call), `steps.NAME` (the result of
/// an earlier step), `previous` (that of the last step that ran), `errors.NAME` (of a step that
/// failed and let the rest go on) and `context` (who calls).
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Sequence {
    /// The calls, in order. One without `arguments` gets the previous result where that is an
    /// object that fits it, and otherwise the input.
    pub steps: Vec<Step>,
    /// What becomes of the failure of a step: `stop` (the default), `continue`, or `undo`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_error: Option<OnError>,
    /// The result, as a template. Left out: `{ results = { NAME = … }, errors = { NAME = … } }`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<Template>,
    #[serde(skip)]
    pub(super) code: ShapeCode,
}

/// Steps side by side. Templates and conditions see `input` and `context`.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Parallel {
    /// The calls. One without `arguments` gets those fields of the input that its schema names.
    pub steps: Vec<Step>,
    /// How many run at once; the next starts as soon as one is done. Left out: all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 64))]
    pub concurrency: Option<usize>,
    /// What becomes of the failure of a step: `stop` (the default) takes the others back,
    /// `continue` waits for them, `undo` also undoes those that are done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_error: Option<OnError>,
    /// The result, as a template over `steps` and `errors` too. Left out: `{ NAME = … }`, with
    /// `{ error = … }` for a step that failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<Template>,
    #[serde(skip)]
    pub(super) code: ShapeCode,
}

/// The steps of the first branch whose condition holds. Conditions see `input`, `context` and
/// `decision`; templates see what those of a sequence do, too.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Conditional {
    /// A call to be made first, whose result the conditions see as `decision`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decide: Option<Step>,
    /// The branches, in the order in which their conditions are asked.
    pub branches: Vec<Branch>,
    /// The steps where no condition holds; an empty list does nothing. Left out: the error
    /// `no_branch_matched`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub otherwise: Option<Vec<Step>>,
    /// What becomes of the failure of a step: `stop` (the default), `continue`, or `undo`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_error: Option<OnError>,
    /// The result, as a template over `branch` (its name) too. Left out:
    /// `{ branch = …, result = (the last step's), errors = { NAME = … } }`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<Template>,
    #[serde(skip)]
    pub(super) code: ShapeCode,
}

/// Steps with a condition.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Branch {
    /// What the result calls it. Left out: `branch_1` and so on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// When it is taken.
    pub when: Expression,
    /// Its steps, as those of a sequence.
    pub steps: Vec<Step>,
    #[serde(skip)]
    pub(super) code: BranchCode,
}

/// What only Rust can say of a branch.
#[derive(Debug, Clone, Default)]
pub(super) struct BranchCode {
    pub(super) when: Option<Code<bool>>,
    pub(super) problems: Vec<String>,
}

impl Branch {
    /// A branch that is taken when this expression holds.
    pub fn when(expression: &str) -> Self {
        let mut problems = Vec::new();
        let when = Expression::parse(expression).unwrap_or_else(|error| {
            problems.push(error.to_string());
            never()
        });
        Self { name: None, when, steps: Vec::new(), code: BranchCode { when: None, problems } }
    }

    /// A branch that is taken when code says so. Must say the same for the same values.
    pub fn when_code<F>(test: F) -> Self
    where
        F: Fn(&Scope<'_>) -> Result<bool, ToolError> + Send + Sync + 'static,
    {
        let code = BranchCode { when: Some(Code::new(test)), problems: Vec::new() };
        Self { name: None, when: never(), steps: Vec::new(), code }
    }

    /// What the result calls it.
    pub fn named(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Adds a step.
    pub fn step(mut self, step: Step) -> Self {
        self.steps.push(step);
        self
    }
}

fn never() -> Expression {
    Expression::parse("false").expect("a plain word is an expression")
}

/// One tool for each item of a list.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MapOver {
    /// The tool to call for each item.
    pub tool: String,
    /// The list: an expression over `input` and `context`, such as `input.urls`.
    pub over: Expression,
    /// What templates call the item; `item` unless said.
    #[serde(default = "item", rename = "as")]
    pub item: String,
    /// The arguments for one item: a template over the item, its `index` from 0, `input` and
    /// `context`. Left out: the item itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arguments: Option<Template>,
    /// How many run at once; the next starts as soon as one is done. Left out: 8.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 64))]
    pub concurrency: Option<usize>,
    /// Most items; a longer list is an error. Left out: 1000.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 100_000))]
    pub items_max: Option<usize>,
    /// What becomes of the failure for an item: `stop` (the default), `continue`, or `undo`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_error: Option<OnError>,
    /// Less time for one item than the tool allows, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub item_timeout_ms: Option<u64>,
    /// The result, as a template over `results` too. Left out: the list of results in the order of
    /// the items, with `{ error = … }` for an item that failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<Template>,
    #[serde(skip)]
    pub(super) code: MapCode,
}

/// What only Rust can say of a map.
#[derive(Debug, Clone, Default)]
pub(super) struct MapCode {
    pub(super) step: super::step::StepCode,
    pub(super) over: Option<Code<Value>>,
    pub(super) shape: ShapeCode,
}

fn item() -> String {
    "item".to_owned()
}

impl MapOver {
    /// A call of `tool` for each item of the list at `over`.
    pub fn new(tool: impl Into<String>, over: &str) -> Self {
        let mut code = MapCode::default();
        let over = Expression::parse(over).unwrap_or_else(|error| {
            code.shape.problems.push(error.to_string());
            never()
        });
        Self {
            tool: tool.into(),
            over,
            item: item(),
            arguments: None,
            concurrency: None,
            items_max: None,
            on_error: None,
            item_timeout_ms: None,
            output: None,
            code,
        }
    }
}

/// What only Rust can say of a composition.
#[derive(Debug, Clone, Default)]
pub(super) struct ShapeCode {
    pub(super) output: Option<Code<Value>>,
    pub(super) problems: Vec<String>,
}

impl Composition {
    /// The tools that it names, each once, in order.
    pub fn tools(&self) -> Vec<&str> {
        let all: Vec<&str> = match self {
            Self::Sequence(Sequence { steps, .. }) | Self::Parallel(Parallel { steps, .. }) => {
                steps.iter().map(|step| step.tool.as_str()).collect()
            }
            Self::Conditional(conditional) => conditional.steps().map(|step| step.tool.as_str()).collect(),
            Self::Map(map) => vec![&map.tool],
        };
        let mut tools = Vec::new();
        for tool in all {
            if !tools.contains(&tool) {
                tools.push(tool);
            }
        }
        tools
    }

    /// Whether code stands in it, which data does not show.
    pub(super) fn has_code(&self) -> bool {
        let in_step = |step: &Step| step.code.transform.is_some() || step.code.when.is_some();
        match self {
            Self::Sequence(Sequence { steps, code, .. }) | Self::Parallel(Parallel { steps, code, .. }) => {
                code.output.is_some() || steps.iter().any(in_step)
            }
            Self::Conditional(conditional) => {
                conditional.code.output.is_some()
                    || conditional.branches.iter().any(|branch| branch.code.when.is_some())
                    || conditional.steps().any(in_step)
            }
            Self::Map(MapOver { code, .. }) => {
                code.over.is_some() || code.step.transform.is_some() || code.shape.output.is_some()
            }
        }
    }
}

impl Conditional {
    fn steps(&self) -> impl Iterator<Item = &Step> {
        let branches = self.branches.iter().flat_map(|branch| &branch.steps);
        self.decide.iter().chain(branches).chain(self.otherwise.iter().flatten())
    }
}

impl From<Sequence> for Composition {
    fn from(sequence: Sequence) -> Self {
        Self::Sequence(sequence)
    }
}

impl From<Parallel> for Composition {
    fn from(parallel: Parallel) -> Self {
        Self::Parallel(parallel)
    }
}

impl From<Conditional> for Composition {
    fn from(conditional: Conditional) -> Self {
        Self::Conditional(conditional)
    }
}

impl From<MapOver> for Composition {
    fn from(map: MapOver) -> Self {
        Self::Map(map)
    }
}
