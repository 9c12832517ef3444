//! `helve tools show`: everything about one tool, readable.

use std::collections::BTreeSet;

use helve::compose::effects_of_parts;
use helve::cost::{Amount, Price};
use helve::schema::{Redactor, example};
use helve::{Definition, Facet, Registered, Registry, Schema};
use helve_host::wire::mcp::Which;
use serde_json::{Value, json};

use super::list;
use crate::app::App;
use crate::commands::servers;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::ui::table::{Cell, Tone};
use crate::ui::{Table, Ui, escape, json as json_text};

/// Deepest nesting of parameters that is shown.
const DEPTH_MAX: usize = 3;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The tool's full name, alias or provider name
    name: String,
    /// Show the schemas as JSON too
    #[arg(long)]
    schema: bool,
}

pub(crate) fn run(args: &Args, app: &mut App<'_>) -> anyhow::Result<Exit> {
    let loaded = app.load_config()?;
    let registry = helve_host::wire::registry(&loaded)?;
    let here = list::Here::of(&loaded);
    servers::with_tools(&loaded, &registry, Which::With(&args.name), app, |app| {
        show(args, &registry, &here, app)
    })
}

fn show(args: &Args, registry: &Registry, here: &list::Here, app: &mut App<'_>) -> anyhow::Result<Exit> {
    let registered = find(registry, &args.name)?;
    if app.ui.is_json() {
        let mut document = here.document(&registered)?;
        document["warnings"] = json!(registered.tool.warnings());
        if registered.tool.is_composed() {
            document["parts"] = json!(registered.tool.handler().parts());
            document["effects_of_parts"] = json!(effects_of_parts(&registered.tool, registry));
        }
        app.ui.json(&document)?;
        return Ok(Exit::Done);
    }
    let ui = &mut *app.ui;
    heading(&registered, ui)?;
    facts(&registered, registry, ui)?;
    if let Some(word) = here.waits(&registered) {
        let why = match word {
            "changed" => "it came with this project and is not what was trusted",
            _ => "it came with this project and nobody has trusted it",
        };
        ui.line(format!("  {} {why}: helve trust", ui.paint().warn("!")))?;
    }
    for integration in here.lacks(&registered.tool) {
        let how = here.how_to_connect(integration);
        let how = escape::visible(&how);
        ui.line(format!("  {} models are not shown it: {how}", ui.paint().warn("!")))?;
    }
    parameter_section("Parameters", registered.tool.input(), ui)?;
    if let Some(output) = registered.tool.output() {
        parameter_section("Result", output, ui)?;
    }
    examples(&registered, ui)?;
    if args.schema {
        schemas(registered.tool.definition(), ui)?;
    }
    warnings(&registered, ui)?;
    Ok(Exit::Done)
}

/// The tool of this name, or what was probably meant.
pub(crate) fn find(registry: &Registry, name: &str) -> Result<Registered, Failure> {
    registry.get(name).ok_or_else(|| {
        if let Some(broken) = registry.broken(name) {
            let shown = escape::one_line(name, 128);
            return Failure::usage(format!("`{shown}` is broken: {}", broken.reason))
                .hint("`helve tools list` says what is wrong");
        }
        let near = registry.near(name, 3);
        let failure = Failure::usage(format!("no tool named `{}`", escape::one_line(name, 128)));
        match near.split_first() {
            Some((first, rest)) => {
                let others: String = rest.iter().map(|name| format!(", `{name}`")).collect();
                failure.hint(format!("did you mean `{first}`{others}?"))
            }
            None => failure.hint("`helve tools list` shows them all"),
        }
    })
}

/// What a tool costs.
fn price(price: &Price) -> String {
    let own = (price.per_call != Amount::ZERO).then(|| format!("{} {} a call", price.per_call, price.unit));
    let told =
        price.reported.as_ref().map(|at| format!("what its result reports at `{at}`, in {}", price.unit));
    let known: Vec<_> = own.into_iter().chain(told).collect();
    if known.is_empty() { format!("what it reports, in {}", price.unit) } else { known.join(", and ") }
}

fn heading(registered: &Registered, ui: &mut Ui) -> anyhow::Result<()> {
    let definition = registered.tool.definition();
    let paint = ui.paint();
    let title =
        definition.annotations.title.as_deref().map(|title| format!("  {}", escape::one_line(title, 100)));
    ui.line(format!("{}{}", paint.bold(registered.name()), paint.dim(title.unwrap_or_default())))?;
    ui.paragraph(&definition.description)?;
    if let Some(text) = &definition.when_to_use {
        ui.line("")?;
        ui.heading("When to use")?;
        ui.paragraph(text)?;
    }
    Ok(())
}

fn facts(registered: &Registered, registry: &Registry, ui: &mut Ui) -> anyhow::Result<()> {
    let definition = registered.tool.definition();
    let mut table = Table::bare().indented();
    let mut fact = |name: &str, value: String| {
        if !value.is_empty() {
            table.row([Cell::new(name, Tone::Dim), value.into()]);
        }
    };
    let overrides: Vec<_> = registered.overrides.iter().map(|layer| layer.as_str()).collect();
    let overrides =
        if overrides.is_empty() { String::new() } else { format!(", overrides {}", overrides.join(", ")) };
    fact("layer", format!("{}{overrides}", registered.layer));
    fact(
        "source",
        format!("{} ({})", definition.source, registered.tool.handler().implementation().as_str()),
    );
    fact("category", definition.category.to_string());
    let asks = if definition.requires_approval { ", always asks a person first" } else { "" };
    fact("risk", format!("{}{asks}", definition.risk));
    fact("behaviour", behaviour(definition));
    fact("facets", facets(definition));
    fact("timeout", definition.timeout_ms.map_or("the default".to_owned(), |ms| format!("{ms} ms")));
    fact("cost", definition.cost.as_ref().map(price).unwrap_or_default());
    fact("aliases", definition.aliases.join(", "));
    fact("models see", registered.tool.provider_name().to_owned());
    fact("integrations", definition.integrations.join(", "));
    let preconditions: Vec<_> = definition.preconditions.iter().map(|one| one.description.clone()).collect();
    fact("preconditions", preconditions.join("; "));
    let effects: Vec<_> =
        definition.effects.iter().filter_map(|one| serde_json::to_string(one).ok()).collect();
    fact("effects", effects.join("; "));
    fact("made of", registered.tool.handler().parts().join(", "));
    let of_parts = effects_of_parts(&registered.tool, registry);
    let of_parts: Vec<_> = of_parts.iter().map(|(part, effect)| format!("{part}: {effect}")).collect();
    fact("effects of parts", of_parts.join("; "));
    fact("digest", registered.tool.digest().to_string());
    ui.line("")?;
    ui.table(table)?;
    Ok(())
}

/// Which ways information takes through it.
fn facets(definition: &Definition) -> String {
    let listed =
        |facets: &BTreeSet<Facet>| facets.iter().map(|one| one.as_str()).collect::<Vec<_>>().join(", ");
    match &definition.facets {
        None => match definition.assumed.facets.is_empty() {
            true => "nobody has said; `labels.unlabelled` decides".to_owned(),
            false => format!("nobody has said; assumed: {}", listed(&definition.assumed.facets)),
        },
        Some(facets) if facets.is_empty() => "none".to_owned(),
        Some(facets) => listed(facets),
    }
}

fn behaviour(definition: &Definition) -> String {
    let hints = &definition.annotations;
    let mut words = vec![if hints.read_only { "read-only" } else { "may change things" }];
    if hints.destructive && !hints.read_only {
        words.push("may destroy");
    }
    if hints.idempotent {
        words.push("idempotent");
    }
    words.push(if hints.open_world { "reaches beyond this machine" } else { "stays on this machine" });
    words.join(", ")
}

fn parameter_section(title: &str, schema: &Schema, ui: &mut Ui) -> anyhow::Result<()> {
    let rows = parameters(schema);
    ui.line("")?;
    ui.heading(title)?;
    if rows.is_empty() {
        let kind = kind(&schema.at(""));
        let none = if kind == "object" { "none".to_owned() } else { kind };
        ui.line(format!("  {none}"))?;
        return Ok(());
    }
    let mut table = Table::bare().indented();
    for row in rows {
        let need = match (row.required, &row.default) {
            (true, _) => Cell::new("required", Tone::Warn),
            (false, Some(value)) => Cell::new(format!("default {value}"), Tone::Dim),
            (false, None) => Cell::new("optional", Tone::Dim),
        };
        table.row([
            Cell::new(row.name, Tone::Strong),
            Cell::new(row.kind, Tone::Dim),
            need,
            row.description.into(),
        ]);
    }
    ui.table(table)?;
    Ok(())
}

/// A field of an object schema.
pub(crate) struct ParameterRow {
    /// With dots between levels and `[]` for items of a list.
    pub(crate) name: String,
    pub(crate) kind: String,
    pub(crate) required: bool,
    pub(crate) default: Option<Value>,
    pub(crate) description: String,
}

/// The fields of an object schema, nested ones included, in the schema's order.
pub(crate) fn parameters(schema: &Schema) -> Vec<ParameterRow> {
    let mut rows = Vec::new();
    collect(schema, "", "", 0, &mut rows);
    rows
}

fn collect(schema: &Schema, pointer: &str, prefix: &str, depth: usize, rows: &mut Vec<ParameterRow>) {
    const ROWS_MAX: usize = 200;
    let nodes = schema.at(pointer);
    let required: Vec<_> = nodes
        .iter()
        .filter_map(|node| node.get("required")?.as_array())
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    let mut seen: Vec<&String> = Vec::new();
    let fields = nodes.iter().filter_map(|node| node.get("properties")?.as_object());
    for key in fields.flat_map(|fields| fields.keys()) {
        if seen.contains(&key) || rows.len() >= ROWS_MAX {
            continue;
        }
        seen.push(key);
        let at = format!("{pointer}/{}", helve::json::escape_pointer(key));
        let parts = schema.at(&at);
        let text = |keyword: &str| parts.iter().find_map(|node| node.get(keyword));
        let name = format!("{prefix}{key}");
        rows.push(ParameterRow {
            name: name.clone(),
            kind: kind(&parts),
            required: required.contains(&key.as_str()),
            default: text("default").cloned(),
            description: text("description").and_then(Value::as_str).unwrap_or_default().to_owned(),
        });
        if depth < DEPTH_MAX {
            collect(schema, &at, &format!("{name}."), depth + 1, rows);
            let is_list = parts.iter().any(|node| node.get("type").is_some_and(|kind| kind == "array"));
            if is_list {
                collect(schema, &format!("{at}/0"), &format!("{name}[]."), depth + 1, rows);
            }
        }
    }
}

/// A type in few words: `integer 1..50`, `"a" | "b"`, `list of string`.
fn kind(nodes: &[&Value]) -> String {
    let words = nodes.iter().find_map(|node| node.get("enum")?.as_array());
    if let Some(words) = words {
        return words.iter().map(Value::to_string).collect::<Vec<_>>().join(" | ");
    }
    let constants: Vec<_> = nodes.iter().filter_map(|node| node.get("const")).map(Value::to_string).collect();
    if !constants.is_empty() {
        return constants.join(" | ");
    }
    let mut kinds: Vec<&str> = Vec::new();
    for node in nodes {
        match node.get("type") {
            Some(Value::String(name)) => kinds.push(name),
            Some(Value::Array(names)) => kinds.extend(names.iter().filter_map(Value::as_str)),
            _ => {}
        }
    }
    kinds.dedup();
    let bound = |keyword: &str| nodes.iter().find_map(|node| node.get(keyword));
    let range = match (bound("minimum"), bound("maximum")) {
        (Some(low), Some(high)) => format!(" {low}..{high}"),
        (Some(low), None) => format!(" ≥ {low}"),
        (None, Some(high)) => format!(" ≤ {high}"),
        (None, None) => String::new(),
    };
    if kinds.is_empty() { "any".to_owned() } else { format!("{}{range}", kinds.join(" | ")) }
}

fn examples(registered: &Registered, ui: &mut Ui) -> anyhow::Result<()> {
    let definition = registered.tool.definition();
    ui.line("")?;
    ui.heading("Try it")?;
    let paint = ui.paint();
    for example in &definition.examples {
        let line = example.to_line(registered.name().as_str());
        ui.line(format!("  {}", paint.dim(escape::one_line(&line, 300))))?;
    }
    let arguments = example_arguments(registered);
    // A quote in a value would end the shell's own; such an example is better left out.
    let text = json_text::compact(&arguments)?;
    let arguments =
        if arguments == json!({}) || text.contains('\'') { String::new() } else { format!(" '{text}'") };
    ui.line(format!("  helve call {}{arguments}", registered.name()))?;
    Ok(())
}

fn example_arguments(registered: &Registered) -> Value {
    let given = registered.tool.definition().examples.iter().find_map(helve::Example::arguments).cloned();
    given
        .or_else(|| example::corrected(registered.tool.input(), &json!({}), &[], &Redactor::default()))
        .unwrap_or_else(|| json!({}))
}

fn schemas(definition: &Definition, ui: &mut Ui) -> anyhow::Result<()> {
    let both = [
        ("Input schema", Some(&definition.input_schema)),
        ("Output schema", definition.output_schema.as_ref()),
    ];
    for (title, schema) in both {
        if let Some(schema) = schema {
            ui.line("")?;
            ui.heading(title)?;
            ui.line(json_text::pretty(schema)?)?;
        }
    }
    Ok(())
}

fn warnings(registered: &Registered, ui: &mut Ui) -> anyhow::Result<()> {
    let warnings = registered.tool.warnings();
    if warnings.is_empty() {
        return Ok(());
    }
    let paint = ui.paint();
    ui.line("")?;
    ui.heading("Warnings")?;
    for warning in warnings {
        ui.line(format!("  {} {}", paint.warn("!"), escape::one_line(&warning.to_string(), 400)))?;
    }
    Ok(())
}
