//! A composition with everything looked up and checked: what runs.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use helve_core::expression::{Expression, Reference};
use helve_core::json::canonical;
use helve_core::template::Template;
use helve_core::{Problem, Schema, Tool, ToolName};

use super::shape::{
    Branch, Composition, Conditional, ITEMS_MAX, MAP_CONCURRENCY, MapOver, Parallel, Sequence, ShapeCode,
};
use super::step::{Code, OnError, Step, Transform};
use crate::registry::Registry;
use serde_json::{Map, Value};

/// Most steps of one list.
const STEPS_MAX: usize = 256;
/// Most branches of one conditional.
const BRANCHES_MAX: usize = 32;
/// Most calls at once.
const CONCURRENCY_MAX: usize = 64;
/// Most that `items_max` may be.
const ITEMS_LIMIT: usize = 100_000;
/// Longest name of a step.
const NAME_BYTES_MAX: usize = 64;

/// A composition with everything looked up and checked.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) kind: Kind,
    /// How the result is made, where that is said.
    pub(super) output: Option<Make>,
    /// Whether a failure undoes what was done.
    pub(super) undoes: bool,
    /// The tools, each once.
    pub(super) tools: Vec<String>,
    pub(super) fingerprint: String,
}

/// The sorts, ready to run.
#[derive(Debug)]
pub(super) enum Kind {
    Sequence(Vec<Part>),
    Parallel { parts: Vec<Part>, concurrency: usize },
    Conditional { decide: Option<Part>, branches: Vec<Way>, otherwise: Option<Vec<Part>> },
    Map { part: Part, over: Make, item: String, concurrency: usize, items_max: usize },
}

/// A branch, ready to run.
#[derive(Debug)]
pub(super) struct Way {
    pub(super) name: String,
    pub(super) when: Test,
    pub(super) parts: Vec<Part>,
}

/// A step, ready to run.
#[derive(Debug)]
pub(super) struct Part {
    pub(super) name: String,
    /// What the run calls it; the same each time.
    pub(super) path: Arc<str>,
    pub(super) tool: String,
    /// What its arguments must fit, as it was when the composition was built.
    pub(super) schema: Schema,
    pub(super) fields: Fields,
    pub(super) arguments: Arguments,
    pub(super) when: Option<Test>,
    pub(super) on_error: OnError,
    pub(super) timeout: Option<Duration>,
}

/// The fields that a schema speaks of, found once and not at every step.
#[derive(Debug)]
pub(super) struct Fields {
    pub(super) named: Vec<String>,
    /// Whether it takes no others.
    pub(super) closed: bool,
}

impl Fields {
    fn of(schema: &Schema) -> Self {
        let nodes = schema.at("");
        let properties = nodes.iter().filter_map(|node| node.get("properties")?.as_object());
        Self {
            named: properties.flat_map(Map::keys).cloned().collect(),
            closed: nodes.iter().any(|node| node.get("additionalProperties") == Some(&Value::Bool(false))),
        }
    }
}

/// Where a step's arguments come from.
#[derive(Debug)]
pub(super) enum Arguments {
    /// From what the sort of composition passes on.
    Passed,
    Template(Template),
    Code(Transform),
}

/// The condition of a branch.
#[derive(Debug)]
pub(super) enum Test {
    Expression(Expression),
    Code(Code<bool>),
}

/// What makes a value.
#[derive(Debug)]
pub(super) enum Make {
    Template(Template),
    Expression(Expression),
    Code(Code<Value>),
}

impl Plan {
    /// Every part, with whether it is sure to be reached.
    pub(super) fn parts(&self) -> Vec<(&Part, bool)> {
        fn all<'p>(
            parts: impl IntoIterator<Item = &'p Part>,
            reached: bool,
        ) -> impl Iterator<Item = (&'p Part, bool)> {
            parts.into_iter().map(move |part| (part, reached && part.when.is_none()))
        }
        match &self.kind {
            Kind::Sequence(parts) | Kind::Parallel { parts, .. } => all(parts, true).collect(),
            Kind::Conditional { decide, branches, otherwise } => all(decide, true)
                .chain(branches.iter().flat_map(|way| all(&way.parts, false)))
                .chain(all(otherwise.iter().flatten(), false))
                .collect(),
            Kind::Map { part, .. } => vec![(part, true)],
        }
    }
}

/// Looks everything up, and collects all that is wrong.
pub(super) struct Planner<'a> {
    registry: &'a Registry,
    pub(super) problems: Vec<Problem>,
    /// The tools, as the steps name them.
    pub(super) tools: BTreeMap<String, Tool>,
    undoes: bool,
}

/// What expressions at some place can name.
struct ScopeNames<'a> {
    names: Vec<&'a str>,
    /// The names of the steps that come earlier.
    steps: &'a [String],
}

impl<'a> Planner<'a> {
    pub(super) fn new(registry: &'a Registry) -> Self {
        Self { registry, problems: Vec::new(), tools: BTreeMap::new(), undoes: false }
    }

    fn refuse(&mut self, at: impl Into<String>, message: impl Into<String>) {
        self.problems.push(Problem { at: at.into(), message: message.into() });
    }

    /// The plan, if nothing is wrong.
    pub(super) fn plan(&mut self, composition: &Composition) -> Option<Plan> {
        let (kind, output, code) = match composition {
            Composition::Sequence(one) => (self.sequence(one), &one.output, &one.code),
            Composition::Parallel(one) => (self.parallel(one), &one.output, &one.code),
            Composition::Conditional(one) => (self.conditional(one), &one.output, &one.code),
            Composition::Map(one) => (self.map(one), &one.output, &one.code.shape),
        };
        let names = self.names_for_output(composition);
        let output = self.output(output.as_ref(), code, &names);
        let json = serde_json::to_value(composition).expect("a composition is plain data");
        (self.problems.is_empty()).then_some(Plan {
            kind: kind?,
            output,
            undoes: self.undoes,
            tools: composition.tools().into_iter().map(str::to_owned).collect(),
            // Code cannot be compared; that there is some can be seen.
            fingerprint: canonical(&json) + if composition.has_code() { "+code" } else { "" },
        })
    }

    fn sequence(&mut self, sequence: &Sequence) -> Option<Kind> {
        if sequence.steps.is_empty() {
            self.refuse("steps", "there are none; give at least one");
        }
        let policy = self.policy(sequence.on_error, sequence.steps.iter());
        self.steps("steps", &sequence.steps, policy, &[], None).map(Kind::Sequence)
    }

    fn parallel(&mut self, parallel: &Parallel) -> Option<Kind> {
        let steps = &parallel.steps;
        if steps.is_empty() {
            self.refuse("steps", "there are none; give at least one");
        }
        let policy = self.policy(parallel.on_error, steps.iter());
        let concurrency = self.concurrency(parallel.concurrency, steps.len().max(1));
        let names = self.names("steps", steps);
        let known = ScopeNames { names: vec!["input", "context"], steps: &[] };
        let parts: Vec<_> = steps
            .iter()
            .zip(&names)
            .enumerate()
            .map(|(index, (step, name))| {
                self.part(&format!("steps/{index}"), step, name, name.clone(), policy, &known)
            })
            .collect();
        Some(Kind::Parallel { parts: parts.into_iter().collect::<Option<_>>()?, concurrency })
    }

    fn conditional(&mut self, conditional: &Conditional) -> Option<Kind> {
        let Conditional { decide, branches, otherwise, on_error, .. } = conditional;
        if branches.is_empty() || branches.len() > BRANCHES_MAX {
            self.refuse("branches", format!("there must be 1 to {BRANCHES_MAX}, and not {}", branches.len()));
        }
        let steps = branches.iter().flat_map(|branch| &branch.steps);
        let policy = self.policy(*on_error, decide.iter().chain(steps).chain(otherwise.iter().flatten()));
        let mut known = ScopeNames { names: vec!["input", "context"], steps: &[] };
        let decided = match decide {
            Some(step) => {
                let name = step.name.as_deref().unwrap_or("decide");
                self.check_name("decide/name", name);
                Some(self.part("decide", step, name, name.to_owned(), policy, &known))
            }
            None => None,
        };
        let more: &[&str] = if decide.is_some() { &["decision", "errors"] } else { &[] };
        known.names.extend(more);
        let names = self.branch_names(branches);
        let ways: Vec<_> = branches
            .iter()
            .zip(names)
            .enumerate()
            .map(|(index, (branch, name))| self.way(index, branch, name, policy, &known, more))
            .collect();
        let otherwise =
            otherwise.as_ref().map(|steps| self.steps("otherwise", steps, policy, more, Some("otherwise")));
        Some(Kind::Conditional {
            // Each of them is absent, or could not be planned, or is there.
            decide: decided.map_or(Some(None), |part| part.map(Some))?,
            branches: ways.into_iter().collect::<Option<_>>()?,
            otherwise: otherwise.map_or(Some(None), |parts| parts.map(Some))?,
        })
    }

    fn way(
        &mut self,
        index: usize,
        branch: &Branch,
        name: String,
        policy: OnError,
        known: &ScopeNames<'_>,
        more: &[&str],
    ) -> Option<Way> {
        let at = format!("branches/{index}");
        for problem in &branch.code.problems {
            self.refuse(format!("{at}/when"), problem);
        }
        let when = self.test(&format!("{at}/when"), Some(&branch.when), branch.code.when.as_ref(), known);
        let parts = self.steps(&format!("{at}/steps"), &branch.steps, policy, more, Some(&name));
        Some(Way { name, when: when?, parts: parts? })
    }

    fn map(&mut self, map: &MapOver) -> Option<Kind> {
        let step = Step {
            name: None,
            tool: map.tool.clone(),
            arguments: map.arguments.clone(),
            when: None,
            on_error: map.on_error,
            timeout_ms: map.item_timeout_ms,
            code: map.code.step.clone(),
        };
        let policy = self.policy(map.on_error, [].into_iter());
        let concurrency = self.concurrency(map.concurrency, MAP_CONCURRENCY);
        let items_max = map.items_max.unwrap_or(ITEMS_MAX);
        if !(1..=ITEMS_LIMIT).contains(&items_max) {
            self.refuse("items_max", format!("it must be from 1 to {ITEMS_LIMIT}"));
        }
        self.check_name("as", &map.item);
        if ["input", "context", "index", "results"].contains(&map.item.as_str()) {
            self.refuse("as", format!("`{}` is the name of something else here", map.item));
        }
        let mut known = ScopeNames { names: vec!["input", "context"], steps: &[] };
        let over = match &map.code.over {
            Some(code) => Make::Code(code.clone()),
            None => {
                self.check_references("over", &map.over.references(), &known);
                Make::Expression(map.over.clone())
            }
        };
        known.names.extend([map.item.as_str(), "index"]);
        let name = default_name(&map.tool);
        let part = self.part("", &step, &name, name.clone(), policy, &known)?;
        Some(Kind::Map { part, over, item: map.item.clone(), concurrency, items_max })
    }

    /// Steps that run one after the other.
    fn steps(
        &mut self,
        at: &str,
        steps: &[Step],
        policy: OnError,
        more: &[&str],
        branch: Option<&str>,
    ) -> Option<Vec<Part>> {
        let names = self.names(at, steps);
        let mut parts = Vec::new();
        for (index, (step, name)) in steps.iter().zip(&names).enumerate() {
            let mut known = vec!["input", "context"];
            let earlier: &[_] = if index == 0 { &[] } else { &["steps", "errors", "previous"] };
            known.extend(earlier);
            known.extend(branch.map(|_| "branch"));
            known.extend(more.iter().filter(|name| !earlier.contains(name)));
            let known = ScopeNames { names: known, steps: &names[..index] };
            // Two branches may have steps of one name; the record must tell them apart.
            let path = branch.map_or_else(|| name.clone(), |branch| format!("{branch}.{name}"));
            parts.push(self.part(&format!("{at}/{index}"), step, name, path, policy, &known));
        }
        parts.into_iter().collect()
    }

    fn part(
        &mut self,
        at: &str,
        step: &Step,
        name: &str,
        path: String,
        policy: OnError,
        known: &ScopeNames<'_>,
    ) -> Option<Part> {
        let below = |key: &str| if at.is_empty() { key.to_owned() } else { format!("{at}/{key}") };
        for problem in &step.code.problems {
            self.refuse(at, problem);
        }
        if step.timeout_ms == Some(0) {
            self.refuse(below("timeout_ms"), "zero would stop every call; leave it out for the tool's own");
        }
        let arguments = match (&step.arguments, &step.code.transform) {
            (_, Some(code)) => Arguments::Code(code.clone()),
            (Some(template), None) => {
                self.check_references(&below("arguments"), &template.references(), known);
                Arguments::Template(template.clone())
            }
            (None, None) => Arguments::Passed,
        };
        let when = self.test(&below("when"), step.when.as_ref(), step.code.when.as_ref(), known);
        let tool = self.look_up(&below("tool"), &step.tool)?;
        Some(Part {
            name: name.to_owned(),
            path: path.into(),
            tool: step.tool.clone(),
            fields: Fields::of(tool.input()),
            schema: tool.input().clone(),
            arguments,
            when,
            on_error: step.on_error.unwrap_or(policy),
            timeout: step.timeout_ms.map(Duration::from_millis),
        })
    }

    fn look_up(&mut self, at: &str, name: &str) -> Option<Tool> {
        if let Some(tool) = self.registry.tool(name) {
            self.tools.insert(name.to_owned(), tool.clone());
            return Some(tool);
        }
        let near: Vec<_> = self.registry.near(name, 3).iter().map(|near| format!("`{near}`")).collect();
        let hint =
            if near.is_empty() { String::new() } else { format!("; did you mean {}?", near.join(", ")) };
        self.refuse(at, format!("no tool named `{name}`{hint}"));
        None
    }

    fn test(
        &mut self,
        at: &str,
        expression: Option<&Expression>,
        code: Option<&Code<bool>>,
        known: &ScopeNames<'_>,
    ) -> Option<Test> {
        if let Some(code) = code {
            return Some(Test::Code(code.clone()));
        }
        let expression = expression?;
        self.check_references(at, &expression.references(), known);
        Some(Test::Expression(expression.clone()))
    }

    fn output(&mut self, template: Option<&Template>, code: &ShapeCode, names: &[String]) -> Option<Make> {
        for problem in &code.problems {
            self.refuse("", problem);
        }
        if let Some(code) = &code.output {
            return Some(Make::Code(code.clone()));
        }
        let template = template?;
        let known = ["input", "context", "steps", "errors", "previous", "branch", "decision", "results"];
        self.check_references(
            "output",
            &template.references(),
            &ScopeNames { names: known.to_vec(), steps: names },
        );
        Some(Make::Template(template.clone()))
    }

    /// The steps that an output may look at. Of a conditional, those of any branch.
    fn names_for_output(&self, composition: &Composition) -> Vec<String> {
        let mut quiet = Planner::new(self.registry);
        match composition {
            Composition::Sequence(Sequence { steps, .. }) | Composition::Parallel(Parallel { steps, .. }) => {
                quiet.names("steps", steps)
            }
            Composition::Conditional(Conditional { branches, otherwise, decide, .. }) => {
                let lists = branches.iter().map(|branch| &branch.steps).chain(otherwise);
                let mut names: Vec<_> = lists.flat_map(|steps| quiet.names("", steps)).collect();
                names.extend(decide.iter().map(|step| step.name.clone().unwrap_or("decide".to_owned())));
                names
            }
            Composition::Map(_) => Vec::new(),
        }
    }

    /// What is absent in a condition is false, and a slip of the pen would go unnoticed for long.
    fn check_references(&mut self, at: &str, references: &[Reference], known: &ScopeNames<'_>) {
        for reference in references {
            if let Some(message) = reference.unknown(&known.names) {
                self.refuse(at, message);
            }
            let Reference { name, field, .. } = reference;
            let is_step = name == "steps" || name == "errors";
            if let Some(field) = field.as_ref().filter(|field| is_step && !known.steps.contains(field)) {
                let list = match known.steps {
                    [] => "there is no earlier step".to_owned(),
                    steps => format!("there are `{}`", steps.join("`, `")),
                };
                // A conditional's own decision may have failed, and is no step of a branch.
                let is_decision = name == "errors" && known.names.contains(&"decision");
                if !is_decision {
                    self.refuse(at, format!("`{name}.{field}`: no such step before this one; {list}"));
                }
            }
        }
    }

    /// The policy for steps that say nothing. Undoing is for the whole: where one step asks for
    /// it, none can leave standing what was done.
    fn policy<'s>(
        &mut self,
        whole: Option<OnError>,
        steps: impl Iterator<Item = &'s Step> + Clone,
    ) -> OnError {
        let says = |policy: OnError| steps.clone().any(|step| step.on_error == Some(policy));
        self.undoes = whole == Some(OnError::Undo) || says(OnError::Undo);
        let stops = whole == Some(OnError::Stop) || says(OnError::Stop);
        if self.undoes && stops {
            self.refuse(
                "on_error",
                "one says `undo` and another `stop`; what was done is undone as a whole or not at all",
            );
        }
        whole.unwrap_or(if self.undoes { OnError::Undo } else { OnError::Stop })
    }

    fn concurrency(&mut self, given: Option<usize>, default: usize) -> usize {
        if given.is_some_and(|given| !(1..=CONCURRENCY_MAX).contains(&given)) {
            self.refuse("concurrency", format!("it must be from 1 to {CONCURRENCY_MAX}"));
        }
        given.unwrap_or(default)
    }

    /// The names of steps: as given, or after the tool and made unique.
    fn names(&mut self, at: &str, steps: &[Step]) -> Vec<String> {
        if steps.len() > STEPS_MAX {
            self.refuse(at, format!("{} are too many; at most {STEPS_MAX}", steps.len()));
        }
        let mut taken: Vec<String> = Vec::new();
        for (index, step) in steps.iter().enumerate() {
            let Some(name) = &step.name else { continue };
            let at = format!("{at}/{index}/name");
            self.check_name(&at, name);
            if taken.contains(name) {
                self.refuse(at, format!("`{name}` is the name of another step; choose another"));
            }
            taken.push(name.clone());
        }
        let mut unique = |wanted: String| {
            let numbered = (2..).map(|number| format!("{wanted}_{number}"));
            let mut names = std::iter::once(wanted.clone()).chain(numbered);
            let name = names.find(|name| !taken.contains(name)).expect("numbers do not end");
            taken.push(name.clone());
            name
        };
        let name = |step: &Step| step.name.clone().unwrap_or_else(|| unique(default_name(&step.tool)));
        steps.iter().map(name).collect()
    }

    fn branch_names(&mut self, branches: &[Branch]) -> Vec<String> {
        let mut names: Vec<String> = Vec::new();
        for (index, branch) in branches.iter().enumerate() {
            let name = branch.name.clone().unwrap_or_else(|| format!("branch_{}", index + 1));
            let at = format!("branches/{index}/name");
            self.check_name(&at, &name);
            if names.contains(&name) || name == "otherwise" {
                self.refuse(at, format!("`{name}` is the name of another branch; choose another"));
            }
            names.push(name);
        }
        names
    }

    fn check_name(&mut self, at: &str, name: &str) {
        if !is_name(name) {
            let message = "a name has letters, digits and `_`, no digit first, and at most 64 characters";
            // `steps.a-b` would be a subtraction.
            self.refuse(at, format!("`{}`: {message}", name.escape_debug()));
        }
    }
}

fn is_name(name: &str) -> bool {
    name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_')
        && name.len() <= NAME_BYTES_MAX
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

/// The last part of a tool's name, as a name that expressions can say.
fn default_name(tool: &str) -> String {
    let simple = ToolName::new(tool).map_or_else(|_| tool.to_owned(), |name| name.simple().to_owned());
    let plain = |c: char| if c.is_ascii_alphanumeric() { c } else { '_' };
    let mut name: String = simple.chars().map(plain).take(NAME_BYTES_MAX - 8).collect();
    if !name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_') {
        name.insert(0, '_');
    }
    name
}
