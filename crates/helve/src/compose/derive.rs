//! What a composed tool says of itself, derived from its parts.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use helve_core::precondition::{Condition, DependencyStatus, Precondition};
use helve_core::{Annotations, Category, DefinitionError, Facet, Problem, Risk, Source, Tool, ToolBuilder};
use serde_json::Value;

use super::handler::Composed;
use super::plan::{Kind, Part, Plan, Planner};
use super::shape::Composition;
use super::{chain, inputs, outputs};
use crate::registry::Registry;
use crate::runtime::Settings;

/// What is said of a composed tool. What is absent is derived from its parts.
#[derive(Debug, Clone)]
pub struct Given {
    /// JSON Schema of the arguments.
    pub input_schema: Option<Value>,
    /// JSON Schema of the result.
    pub output_schema: Option<Value>,
    /// What sort of work it does; otherwise that of its parts, if they agree.
    pub category: Option<Category>,
    /// At least the highest of its parts, which holds otherwise.
    pub risk: Option<Risk>,
    /// How long it may run.
    pub timeout: Option<Duration>,
    /// A name for people.
    pub title: Option<String>,
    /// Changes nothing: only where none of its parts does.
    pub read_only: Option<bool>,
    /// May delete or overwrite; otherwise if one of its parts may.
    pub destructive: Option<bool>,
    /// Two equal calls do no more than one; otherwise if that holds for all its parts.
    pub idempotent: Option<bool>,
    /// Reaches beyond this machine; otherwise if one of its parts does.
    pub open_world: Option<bool>,
    /// Which ways information takes through it; otherwise those of its parts, if all say.
    pub facets: Option<BTreeSet<Facet>>,
    /// How long a part that does not say may run.
    pub timeout_default: Duration,
}

impl Default for Given {
    fn default() -> Self {
        Self {
            input_schema: None,
            output_schema: None,
            category: None,
            risk: None,
            timeout: None,
            title: None,
            read_only: None,
            destructive: None,
            idempotent: None,
            open_world: None,
            facets: None,
            timeout_default: Settings::default().timeout_default,
        }
    }
}

/// What is known of a composed tool but its texts.
pub struct Derived {
    plan: Arc<Plan>,
    input_schema: Value,
    output_schema: Option<Value>,
    category: Category,
    risk: Risk,
    timeout: Duration,
    annotations: Annotations,
    facets: Option<BTreeSet<Facet>>,
    preconditions: Vec<Precondition>,
    integrations: Vec<String>,
}

impl Derived {
    /// Adds it all to a tool in the making.
    pub fn complete(self, builder: ToolBuilder) -> ToolBuilder {
        let repeatable = self.annotations.read_only || self.annotations.idempotent;
        let mut builder = builder
            .input_schema(self.input_schema)
            .category(self.category)
            .risk(self.risk)
            .timeout(self.timeout)
            .source(Source::Plugin)
            .annotations(self.annotations)
            .shared_handler(Arc::new(Composed { plan: self.plan, repeatable }));
        if let Some(schema) = self.output_schema {
            builder = builder.output_schema(schema);
        }
        if let Some(facets) = self.facets {
            builder = builder.facets(facets);
        }
        builder = self.preconditions.into_iter().fold(builder, ToolBuilder::precondition);
        self.integrations.into_iter().fold(builder, ToolBuilder::integration)
    }
}

impl Composition {
    /// A tool under this name, all else derived from its parts.
    pub fn build(&self, name: &str, description: &str, registry: &Registry) -> Result<Tool, DefinitionError> {
        let derived = self.derive(name, Given::default(), registry)?;
        derived.complete(Tool::builder(name).description(description)).build()
    }

    /// Looks up the parts of a tool of this name, checks everything, and derives what is not given.
    pub fn derive(&self, name: &str, given: Given, registry: &Registry) -> Result<Derived, DefinitionError> {
        let mut planner = Planner::new(registry);
        let plan = planner.plan(self);
        let Planner { mut problems, tools, .. } = planner;
        let parts: Vec<_> = self.tools().into_iter().map(str::to_owned).collect();
        if let Some(message) = chain::refusal(name, &parts, registry) {
            // Before it is registered a tool that calls itself is also one that does not exist.
            problems.retain(|problem| !problem.message.starts_with(&format!("no tool named `{name}`")));
            problems.push(Problem { at: String::new(), message });
        }
        let refused = |problems| DefinitionError { tool: name.to_owned(), problems };
        match plan {
            Some(plan) if problems.is_empty() => derive(plan, &tools, given).map_err(refused),
            Some(_) | None => Err(refused(problems)),
        }
    }
}

fn derive(plan: Plan, tools: &BTreeMap<String, Tool>, given: Given) -> Result<Derived, Vec<Problem>> {
    let mut problems = Vec::new();
    let input_schema = match given.input_schema {
        Some(schema) => schema,
        None => inputs::schema(&plan).unwrap_or_else(|found| {
            problems.extend(found);
            Value::Null
        }),
    };
    let output_schema = given.output_schema.or_else(|| outputs::schema(&plan, tools));
    let (risk, riskiest) = highest_risk(tools);
    if let Some(given) = given.risk.filter(|given| *given < risk) {
        let message = format!("`{given}` is less than the risk of its part `{riskiest}`, which is {risk}");
        problems.push(Problem { at: "risk".to_owned(), message });
    }
    let changes = tools.values().find(|tool| tool.definition().changes_world());
    if let (Some(true), Some(tool)) = (given.read_only, changes) {
        let message = format!("its part `{}` may change things", tool.name());
        problems.push(Problem { at: "annotations/read_only".to_owned(), message });
    }
    if !problems.is_empty() {
        return Err(problems);
    }
    let any = |has: fn(&Annotations) -> bool| tools.values().any(|tool| has(&tool.definition().annotations));
    let read_only = given.read_only.unwrap_or(changes.is_none());
    let repeatable = tools.values().all(|tool| tool.definition().repeatable());
    let annotations = Annotations {
        title: given.title,
        read_only,
        destructive: given.destructive.unwrap_or_else(|| any(|hints| hints.destructive && !hints.read_only)),
        idempotent: given.idempotent.unwrap_or(repeatable),
        open_world: given.open_world.unwrap_or_else(|| any(|hints| hints.open_world)),
    };
    let mut categories = tools.values().map(|tool| tool.definition().category);
    let first = categories.next().unwrap_or_default();
    let common = if categories.all(|one| one == first) { first } else { Category::Custom };
    Ok(Derived {
        input_schema,
        output_schema,
        category: given.category.unwrap_or(common),
        risk: given.risk.unwrap_or(risk),
        timeout: given.timeout.unwrap_or_else(|| timeout(&plan, tools, given.timeout_default)),
        annotations,
        facets: given.facets.or_else(|| facets(tools)),
        preconditions: preconditions(&plan, tools),
        integrations: integrations(&plan, tools),
        plan: Arc::new(plan),
    })
}

fn highest_risk(tools: &BTreeMap<String, Tool>) -> (Risk, &str) {
    let risks = tools.values().map(|tool| (tool.definition().risk, tool.name().as_str()));
    risks.max_by_key(|(risk, _)| *risk).unwrap_or((Risk::Low, ""))
}

/// The facets of all parts. One part that does not say makes the whole unknown.
fn facets(tools: &BTreeMap<String, Tool>) -> Option<BTreeSet<Facet>> {
    let each = tools.values().map(|tool| tool.definition().facets.as_ref());
    each.collect::<Option<Vec<_>>>().map(|all| all.into_iter().flatten().copied().collect())
}

/// The longest that its parts can take, one after the other or side by side. The runtime's own
/// limit cuts it.
fn timeout(plan: &Plan, tools: &BTreeMap<String, Tool>, default: Duration) -> Duration {
    let of = |part: &Part| {
        let own = tools.get(&part.tool).and_then(|tool| tool.definition().timeout_ms);
        let own = own.map_or(default, Duration::from_millis);
        part.timeout.map_or(own, |step| step.min(own))
    };
    let sum = |parts: &[Part]| parts.iter().map(of).fold(Duration::ZERO, Duration::saturating_add);
    let rounds = |count: usize, width: usize| u32::try_from(count.div_ceil(width)).unwrap_or(u32::MAX);
    match &plan.kind {
        Kind::Sequence(parts) => sum(parts),
        Kind::Parallel { parts, concurrency } => {
            let longest = parts.iter().map(of).max().unwrap_or_default();
            longest.saturating_mul(rounds(parts.len(), *concurrency))
        }
        Kind::Conditional { decide, branches, otherwise } => {
            let ways = branches.iter().map(|way| &way.parts).chain(otherwise);
            let longest = ways.map(|parts| sum(parts)).max().unwrap_or_default();
            // A way that does nothing still needs a moment.
            longest.saturating_add(decide.as_ref().map_or(Duration::ZERO, of)).max(Duration::from_secs(1))
        }
        Kind::Map { part, concurrency, items_max, .. } => {
            of(part).saturating_mul(rounds(*items_max, *concurrency))
        }
    }
}

/// The conditions of all parts, each once. Of a part that may never be reached none is critical:
/// the part asks again, when its turn comes.
///
/// Left out are conditions that code of the part's own checks, over arguments that are not known
/// yet, and those that an earlier part fulfils.
fn preconditions(plan: &Plan, tools: &BTreeMap<String, Tool>) -> Vec<Precondition> {
    let mut all: Vec<Precondition> = Vec::new();
    let mut earlier: Vec<&str> = Vec::new();
    for (part, reached) in plan.parts() {
        let Some(tool) = tools.get(&part.tool) else { continue };
        for (index, one) in tool.definition().preconditions.iter().enumerate() {
            if tool.check(index).is_some() || is_fulfilled(&one.condition, &earlier) {
                continue;
            }
            let critical = one.critical && reached;
            match all.iter_mut().find(|known| known.condition == one.condition) {
                Some(known) => known.critical |= critical,
                None => all.push(Precondition { critical, ..one.clone() }),
            }
        }
        if matches!(plan.kind, Kind::Sequence(_)) {
            earlier.extend([part.tool.as_str(), tool.name().as_str()]);
        }
    }
    all
}

fn is_fulfilled(condition: &Condition, earlier: &[&str]) -> bool {
    match condition {
        Condition::Dependency { tool, status: DependencyStatus::Completed } => {
            earlier.contains(&tool.as_str())
        }
        Condition::Dependency { .. }
        | Condition::Resource { .. }
        | Condition::State { .. }
        | Condition::Permission { .. }
        | Condition::Custom { .. } => false,
    }
}

/// The accounts of all parts that are sure to be reached. Others ask when their turn comes.
fn integrations(plan: &Plan, tools: &BTreeMap<String, Tool>) -> Vec<String> {
    let mut all: Vec<String> = Vec::new();
    for (part, _) in plan.parts().into_iter().filter(|(_, reached)| *reached) {
        for one in tools.get(&part.tool).into_iter().flat_map(|tool| &tool.definition().integrations) {
            if !all.contains(one) {
                all.push(one.clone());
            }
        }
    }
    all
}

/// What the parts of a composed tool change, beyond their results: each part's name, and what.
/// The parts apply these themselves; the composed tool has only effects of its own.
pub fn effects_of_parts(tool: &Tool, registry: &Registry) -> Vec<(String, String)> {
    fn collect(tool: &Tool, registry: &Registry, depth: usize, found: &mut Vec<(String, String)>) {
        for part in tool.handler().parts() {
            let Some(part) = registry.tool(&part) else { continue };
            for effect in &part.definition().effects {
                let line = (part.name().to_string(), effect.description.clone());
                if !found.contains(&line) {
                    found.push(line);
                }
            }
            // A loop cannot be built, but a tool can be replaced afterwards.
            if depth < chain::DEPTH_MAX {
                collect(&part, registry, depth + 1, found);
            }
        }
    }
    let mut found = Vec::new();
    collect(tool, registry, 0, &mut found);
    found
}
