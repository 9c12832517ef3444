//! `helve trust list`: what is trusted in this folder, what waits, and what has changed since.

use helve_host::wire::trust::{self, Brought, What};
use helve_mcp::trust::Verdict;

use super::document;
use crate::app::App;
use crate::exit::Exit;
use crate::ui::Table;
use crate::ui::table::{Cell, Tone};

pub(super) fn run(app: &mut App<'_>) -> anyhow::Result<Exit> {
    let loaded = app.load_config()?;
    let mut all = trust::brought(&loaded)?;
    let gone = trust::gone(&loaded, &all);
    all.extend(gone);
    if app.ui.is_json() {
        app.ui.json(&all.iter().map(document).collect::<Vec<_>>())?;
        return Ok(Exit::Done);
    }
    if all.is_empty() {
        app.ui.note("nothing here needs to be trusted")?;
        return Ok(Exit::Done);
    }
    let mut table = Table::new(["kind", "name", "trusted", "from"]);
    for one in &all {
        let (word, tone) = word(one);
        let origin = one.origin.as_ref().map(ToString::to_string).unwrap_or_default();
        table.row([
            Cell::from(one.kind()),
            Cell::new(&one.name, Tone::Strong),
            Cell::new(word, tone),
            Cell::new(origin, Tone::Dim),
        ]);
    }
    app.ui.table(table)?;
    if all.iter().any(Brought::waits) {
        app.ui.note("\nsee what it would run, and let it: helve trust")?;
    }
    Ok(Exit::Done)
}

fn word(one: &Brought) -> (&'static str, Tone) {
    match (&one.what, &one.verdict) {
        (What::Gone(_), _) => ("yes, but it is not there any more", Tone::Dim),
        (_, Verdict::Trusted) => ("yes", Tone::Good),
        (_, Verdict::Changed { .. }) => ("no, changed since", Tone::Bad),
        (_, Verdict::Unknown) => ("not yet", Tone::Warn),
    }
}
