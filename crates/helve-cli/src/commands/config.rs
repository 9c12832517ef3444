//! `helve config`: what is set and where it came from, every key there is, the schema.

use helve_host::config::{Origin, find, keys, origin, schema};
use serde::Serialize;
use serde_json::{Value, json};

use crate::app::App;
use crate::exit::Exit;
use crate::ui::table::{Cell, Tone};
use crate::ui::{Table, escape, json as json_text};

/// Show configuration, and where each value came from.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// Show every value in force, and where it came from
    Show(ShowArgs),
    /// List every key, with its documentation
    Keys(KeysArgs),
    /// Print the JSON Schema of helve.toml, for editors
    Schema,
    /// List the files that are read
    Path,
}

#[derive(Debug, clap::Args)]
pub(crate) struct ShowArgs {
    /// Only keys that contain this, as in `execution`
    filter: Option<String>,
    /// Only values that are not defaults
    #[arg(long)]
    changed: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct KeysArgs {
    /// Only keys that contain this
    filter: Option<String>,
}

pub(crate) fn run(command: &Command, app: &mut App<'_>) -> anyhow::Result<Exit> {
    match command {
        Command::Show(args) => show(args, app)?,
        Command::Keys(args) => list_keys(args, app)?,
        Command::Schema => {
            let schema = schema::json();
            let text =
                if app.ui.is_json() { json_text::compact(&schema)? } else { json_text::pretty(&schema)? };
            app.ui.line(text)?;
        }
        Command::Path => path(app)?,
    }
    Ok(Exit::Done)
}

#[derive(Serialize)]
struct Row {
    key: String,
    value: Value,
    source: Origin,
}

fn show(args: &ShowArgs, app: &mut App<'_>) -> anyhow::Result<()> {
    let loaded = app.load_config()?;
    let values =
        loaded.values().into_iter().map(|(key, value, source)| Row { key, value: value.clone(), source });
    // Of a tool only the name: a header may hold what should not be on a screen.
    let tools = loaded.tools.iter().map(|entry| Row {
        key: entry.kind.section().to_owned(),
        value: json!(entry.label()),
        source: entry.origin(),
    });
    let wanted = |row: &Row| {
        args.filter.as_ref().is_none_or(|text| row.key.contains(text.as_str()))
            && !(args.changed && row.source == Origin::Default)
    };
    let rows: Vec<_> = values.chain(tools).filter(wanted).collect();
    if app.ui.is_json() {
        app.ui.json(&json!({ "values": rows, "remarks": loaded.remarks }))?;
        return Ok(());
    }
    if rows.is_empty() {
        return nothing_matches(args.filter.as_deref(), app);
    }
    let mut table = Table::new(["key", "value", "where it came from"]);
    for row in rows {
        let tone = if row.source == Origin::Default { Tone::Dim } else { Tone::Good };
        let value = match &row.value {
            Value::String(text) => text.clone(),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => {
                row.value.to_string()
            }
        };
        table.row([Cell::new(row.key, Tone::Strong), value.into(), Cell::new(row.source.to_string(), tone)]);
    }
    app.ui.table(table)?;
    Ok(())
}

fn list_keys(args: &KeysArgs, app: &mut App<'_>) -> anyhow::Result<()> {
    let mut sections = keys::sections();
    if let Some(text) = &args.filter {
        for section in &mut sections {
            section.keys.retain(|key| key.key.contains(text.as_str()));
        }
        sections.retain(|section| !section.keys.is_empty());
    }
    if app.ui.is_json() {
        app.ui.json(&sections)?;
        return Ok(());
    }
    if sections.is_empty() {
        return nothing_matches(args.filter.as_deref(), app);
    }
    for (index, section) in sections.iter().enumerate() {
        if index > 0 {
            app.ui.line("")?;
        }
        let paint = app.ui.paint();
        app.ui.line(format!("{}  {}", paint.bold(&section.header), paint.dim(&section.description)))?;
        let mut table = Table::bare().indented();
        for key in &section.keys {
            let default = match (&key.default, key.required) {
                (_, true) => "required".to_owned(),
                (Some(value), false) => format!("default {value}"),
                (None, false) => String::new(),
            };
            table.row([
                Cell::new(&key.key, Tone::Strong),
                Cell::new(&key.kind, Tone::Dim),
                Cell::new(default, Tone::Dim),
                Cell::from(&key.description),
            ]);
        }
        app.ui.table(table)?;
    }
    Ok(())
}

fn nothing_matches(filter: Option<&str>, app: &mut App<'_>) -> anyhow::Result<()> {
    app.ui.note(match filter {
        Some(text) => {
            format!("nothing matches `{}`; `helve config keys` lists every key", escape::one_line(text, 128))
        }
        None => "no value differs from its default".to_owned(),
    })?;
    Ok(())
}

fn path(app: &mut App<'_>) -> anyhow::Result<()> {
    let project = match &app.inputs.config {
        Some(file) => Some(app.inputs.work_dir.join(file)),
        None => find::project_file(&app.inputs.work_dir)?,
    };
    let files = [("user", find::user_file()), ("project", project)];
    if app.ui.is_json() {
        let rows = files.map(|(layer, file)| {
            json!({ "layer": layer, "path": file, "exists": file.as_ref().is_some_and(|file| file.is_file()) })
        });
        app.ui.json(&rows)?;
        return Ok(());
    }
    let mut table = Table::new(["layer", "file", ""]);
    for (layer, file) in files {
        let (shown, state) = match &file {
            Some(file) if file.is_file() => (origin::short(file), Cell::new("read", Tone::Good)),
            Some(file) => (origin::short(file), Cell::new("not there", Tone::Dim)),
            None => {
                ("-".to_owned(), Cell::new("none found here or above; `helve init` writes one", Tone::Dim))
            }
        };
        table.row([Cell::new(layer, Tone::Strong), shown.into(), state]);
    }
    app.ui.table(table)?;
    Ok(())
}
