//! `helve tools list`: every tool, one a line.

use std::collections::BTreeMap;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use helve::{Category, Filter, Layer, Registered, Risk, Source};
use serde_json::{Value, json};

use crate::app::App;
use crate::exit::Exit;
use crate::running;
use crate::ui::table::{Cell, Tone, Yield};
use crate::ui::{Table, count, escape};
use crate::wire::broken::BrokenPart;
use crate::wire::mcp::{self, Which};
use crate::wire::{Tools, brought};

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    filter: FilterArgs,
}

/// Which tools, as typed.
#[derive(Debug, clap::Args)]
pub(crate) struct FilterArgs {
    /// Only this category
    #[arg(long, value_parser = one_of(&Category::ALL, |category| category.as_str()))]
    category: Option<Category>,
    /// Only from this source
    #[arg(long, value_parser = one_of(&Source::ALL, |source| source.as_str()))]
    source: Option<Source>,
    /// Only of this risk
    #[arg(long, value_parser = one_of(&Risk::ALL, |risk| risk.as_str()))]
    risk: Option<Risk>,
    /// Only in this namespace, or below it
    #[arg(long)]
    namespace: Option<String>,
    /// Only tools that need this integration
    #[arg(long)]
    integration: Option<String>,
    /// Only from this layer
    #[arg(long, value_parser = one_of(&[Layer::BuiltIn, Layer::Org, Layer::Project], |layer| layer.as_str()))]
    layer: Option<Layer>,
}

impl FilterArgs {
    pub(crate) fn resolve(self) -> Filter {
        Filter {
            category: self.category,
            source: self.source,
            risk: self.risk,
            namespace: self.namespace,
            integration: self.integration,
            layer: self.layer,
        }
    }
}

/// Accepts the words of one of our enums.
pub(super) fn one_of<T: Copy + Send + Sync + 'static>(
    all: &[T],
    word: fn(T) -> &'static str,
) -> impl TypedValueParser<Value = T> + use<T> {
    let all = all.to_vec();
    PossibleValuesParser::new(all.iter().map(|value| word(*value))).map(move |text| {
        *all.iter().find(|value| word(**value) == text).expect("clap let only these words through")
    })
}

pub(crate) fn run(args: Args, app: &mut App<'_>) -> anyhow::Result<Exit> {
    let loaded = app.load_config()?;
    let Tools { registry, remarks, broken } = crate::wire::tools(&loaded)?;
    app.note(&remarks);
    if let Some(note) = running::note_near(&loaded) {
        app.note(&note.following.remarks());
    }
    let filter = args.filter.resolve();
    let waiting = brought::waiting(&loaded);
    mcp::with_tools(&loaded, &registry, Which::All, app, |app| {
        print(&registry.list(&filter), &waiting, &broken, app)
    })
}

/// Tools that wait to be trusted, by name, with what is known of each.
pub(super) type Waiting = BTreeMap<String, &'static str>;

fn print(
    tools: &[Registered],
    waiting: &Waiting,
    broken: &[BrokenPart],
    app: &mut App<'_>,
) -> anyhow::Result<Exit> {
    if app.ui.is_json() {
        let mut documents = tools.iter().map(|one| document(one, waiting)).collect::<Result<Vec<_>, _>>()?;
        documents.extend(broken.iter().map(BrokenPart::document));
        app.ui.json(&documents)?;
        return Ok(Exit::Done);
    }
    print_broken(broken, app)?;
    if tools.is_empty() {
        app.ui.note("no tool fits; `helve tools list` shows them all, `helve init` makes your own")?;
        return Ok(Exit::Done);
    }
    app.ui.table(table(tools, waiting))?;
    if tools.iter().any(|one| waits(one, waiting).is_some()) {
        app.ui.note("some wait to be trusted, and do not run before you have seen them: helve trust")?;
    }
    if app.ui.on_terminal() {
        let tools = count(tools.len(), "tool");
        app.ui.note(format!("\n{tools} · helve tools show NAME · helve call NAME key=value"))?;
    }
    Ok(Exit::Done)
}

/// What is broken, each with all that is wrong and how to mend it.
fn print_broken(broken: &[BrokenPart], app: &mut App<'_>) -> anyhow::Result<()> {
    let paint = app.ui.error_paint();
    for one in broken {
        let (found, name) = (paint.bad("✗"), escape::visible(&one.name));
        app.ui.note(format!("{found} {} is broken", paint.bold(name)))?;
        for line in &one.lines {
            app.ui.note(format!("    {}", escape::visible(line)))?;
        }
        app.ui.note(format!("    → {}", escape::visible(&one.fix())))?;
    }
    Ok(())
}

/// What is known of a tool that waits to be trusted.
pub(super) fn waits(registered: &Registered, waiting: &Waiting) -> Option<&'static str> {
    let is_foreign = registered.layer == Layer::Project;
    waiting.get(registered.name().as_str()).filter(|_| is_foreign).copied()
}

/// A tool for programs, which says so where it waits to be trusted.
pub(super) fn document(registered: &Registered, waiting: &Waiting) -> serde_json::Result<Value> {
    let mut document = serde_json::to_value(registered)?;
    if let Some(word) = waits(registered, waiting) {
        document["trust"] = json!(word);
    }
    Ok(document)
}

/// Tools, one a line.
pub(super) fn table(tools: &[Registered], waiting: &Waiting) -> Table {
    // The name is what people copy, risk and layer what they must see.
    const YIELDS: &[Yield] =
        &[Yield::Cut(5, 30), Yield::Drop(3), Yield::Drop(2), Yield::Cut(5, 12), Yield::Drop(5)];
    let mut table =
        Table::new(["name", "risk", "category", "source", "layer", "what it does"]).one_line_rows(YIELDS);
    for registered in tools {
        let definition = registered.tool.definition();
        table.row([
            Cell::new(registered.name().as_str(), Tone::Strong),
            risk_cell(definition.risk, definition.requires_approval),
            definition.category.as_str().into(),
            definition.source.as_str().into(),
            layer_cell(registered, waits(registered, waiting).is_some()),
            Cell::from(first_sentence(&definition.description)),
        ]);
    }
    table
}

pub(super) fn risk_cell(risk: Risk, requires_approval: bool) -> Cell {
    let text = if requires_approval { format!("{risk}, asks") } else { risk.to_string() };
    Cell::new(text, risk_tone(risk))
}

fn risk_tone(risk: Risk) -> Tone {
    match risk {
        Risk::Low => Tone::Good,
        Risk::Medium => Tone::Plain,
        Risk::High => Tone::Warn,
        Risk::Critical => Tone::Bad,
    }
}

fn layer_cell(registered: &Registered, waits: bool) -> Cell {
    let overridden: Vec<_> = registered.overrides.iter().map(|layer| layer.as_str()).collect();
    let overrides = (!overridden.is_empty()).then(|| format!("overrides {}", overridden.join(", ")));
    let remarks: Vec<_> = overrides.into_iter().chain(waits.then(|| "waits for trust".to_owned())).collect();
    match remarks.is_empty() {
        true => registered.layer.as_str().into(),
        false => Cell::new(format!("{} ({})", registered.layer, remarks.join("; ")), Tone::Warn),
    }
}

fn first_sentence(text: &str) -> &str {
    let end = text.find(". ").or_else(|| text.find(".\n")).map_or(text.len(), |at| at + 1);
    text[..end].trim_end()
}
