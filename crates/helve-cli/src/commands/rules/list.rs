//! `helve rules list`: every rule, and where it stands.

use helve::gate::Stance;
use helve::permission::{Destination, PermissionSet};
use helve_host::config::rules::places;
use serde_json::json;

use crate::app::App;
use crate::exit::Exit;
use crate::ui::Table;
use crate::ui::table::{Cell, Tone};

#[derive(Debug, clap::Args)]
pub(crate) struct Args {}

pub(crate) fn run(_args: &Args, app: &mut App<'_>) -> anyhow::Result<Exit> {
    let loaded = app.load_config()?;
    let places = places(&loaded)?;
    if app.ui.is_json() {
        let sets: Vec<_> =
            places.sets.iter().map(|(place, set)| json!({ "place": place, "rules": set })).collect();
        app.ui.json(&json!({ "places": sets, "held": places.held }))?;
        return Ok(Exit::Done);
    }
    if places.sets.iter().all(|(_, set)| set.is_empty()) && places.held.is_none() {
        app.ui.note("there are no rules; `helve rules deny \"file-read(.env)\"` makes one")?;
        return Ok(Exit::Done);
    }
    let mut table = Table::new(["says", "rule", "place", "counts"]);
    for (place, set) in &places.sets {
        rows(&mut table, *place, set, "yes");
    }
    if let Some(held) = &places.held {
        rows(&mut table, Destination::ProjectSettings, held, "not trusted");
    }
    app.ui.table(table)?;
    if places.held.is_some() {
        app.ui.note("\nwhat the project allows does not count yet: helve trust")?;
    }
    Ok(Exit::Done)
}

fn rows(table: &mut Table, place: Destination, set: &PermissionSet, counts: &str) {
    let mut row = |says: &str, what: String, tone| {
        let counted = if counts == "yes" { Tone::Plain } else { Tone::Warn };
        table.row([
            Cell::new(says, tone),
            Cell::new(what, Tone::Strong),
            Cell::new(place.as_str(), Tone::Dim),
            Cell::new(counts, counted),
        ]);
    };
    for (stance, tone) in [(Stance::Deny, Tone::Bad), (Stance::Ask, Tone::Warn), (Stance::Allow, Tone::Good)]
    {
        set.rules(stance).iter().for_each(|rule| row(stance.as_str(), rule.to_string(), tone));
    }
    if let Some(mode) = set.mode {
        row("mode", mode.as_str().to_owned(), Tone::Plain);
    }
    set.directories.iter().for_each(|folder| row("folder", folder.clone(), Tone::Plain));
}
