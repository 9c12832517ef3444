//! `helve memory list`: keys and values, by key.

use helve::ports::Memory as _;
use serde_json::Value;

use super::{OwnerArgs, document, shown, with_memory};
use crate::app::App;
use crate::exit::Exit;
use crate::ui::table::{Cell, Tone, Yield};
use crate::ui::{Table, json as json_text};

const AFTER_HELP: &str = "\
Examples:
  helve memory list --session s-1
  helve memory list --scope long-term --agent assistant --prefix user/ --json";

#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Args {
    /// Only keys that begin so
    #[arg(long, value_name = "TEXT", default_value = "")]
    prefix: String,
    /// Show at most this many
    #[arg(long, short = 'n', default_value_t = 50, value_name = "COUNT")]
    limit: usize,
    #[command(flatten)]
    owner: OwnerArgs,
}

pub(crate) fn run(args: Args, app: &mut App<'_>) -> anyhow::Result<Exit> {
    let Args { prefix, limit, owner } = args;
    let (scope, caller) = owner.resolve();
    let found = with_memory(app, async |runtime| {
        runtime.memory().list(scope, scope.owner(&caller), prefix, limit).await
    })?;
    if app.ui.is_json() {
        let all: Vec<Value> = found.iter().map(|(key, one)| document(key, one)).collect();
        app.ui.json(&all)?;
        return Ok(Exit::Done);
    }
    if found.is_empty() {
        app.ui.note("nothing is remembered here; `--scope`, `--principal`, `--agent` and `--session` say whose memory")?;
        return Ok(Exit::Done);
    }
    const YIELDS: &[Yield] = &[Yield::Cut(1, 20), Yield::Drop(3), Yield::Drop(2), Yield::Cut(1, 8)];
    let mut table = Table::new(["key", "value", "version", "changed", "forgotten"]).one_line_rows(YIELDS);
    for (key, one) in &found {
        table.row([
            Cell::new(key, Tone::Strong),
            Cell::from(json_text::compact(&one.value)?),
            Cell::from(one.version.to_string()),
            Cell::new(shown(one.changed_at), Tone::Dim),
            Cell::new(one.expires_at.map(shown).unwrap_or_default(), Tone::Dim),
        ]);
    }
    app.ui.table(table)?;
    if found.len() == limit {
        app.ui.note("\nthere may be more; raise `--limit`")?;
    }
    Ok(Exit::Done)
}
