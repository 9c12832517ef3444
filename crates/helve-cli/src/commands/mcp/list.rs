//! `helve mcp list`: every server that is configured. Nothing is started.

use helve_host::config::Problem;
use helve_host::wire::mcp::{Configured, configured};
use helve_mcp::counted::{Standing, assumed_words};
use helve_mcp::trust::{Scope, Verdict, shown};
use serde_json::{Value, json};

use super::show;
use crate::app::App;
use crate::exit::Exit;
use crate::ui::table::{Cell, Tone, Yield};
use crate::ui::{Table, escape};

pub(crate) fn run(app: &mut App<'_>) -> anyhow::Result<Exit> {
    let loaded = app.load_config()?;
    let servers = configured(&loaded);
    if app.ui.is_json() {
        let broken = loaded.broken_servers.iter().map(|(name, one)| {
            let problems: Vec<_> = one.problems.iter().map(Problem::line).collect();
            json!({ "name": name, "origin": one.origin, "broken": problems })
        });
        app.ui.json(&servers.iter().map(document).chain(broken).collect::<Vec<_>>())?;
        return Ok(Exit::Done);
    }
    for (name, one) in &loaded.broken_servers {
        for problem in &one.problems {
            app.ui.note(escape::visible(&format!("✗ {name} is broken: {}", problem.line())))?;
        }
    }
    if servers.is_empty() && loaded.broken_servers.is_empty() {
        app.ui.note(
            "no MCP server is configured; `helve mcp add` adds one, `helve mcp import` finds those you have",
        )?;
        return Ok(Exit::Done);
    }
    // An address or a command is there to be copied: where it does not fit, each server takes several lines.
    const YIELDS: &[Yield] = &[Yield::Drop(3)];
    let mut table = Table::new(["name", "may run", "what", "from"]).one_line_rows(YIELDS);
    for one in &servers {
        let (word, tone) = word(one);
        table.row([
            Cell::new(&one.name, Tone::Strong),
            Cell::new(word, tone),
            Cell::to_copy(show::place(&one.config), Tone::Plain),
            Cell::new(one.origin.to_string(), Tone::Dim),
        ]);
    }
    app.ui.table(table)?;
    for one in servers.iter().filter(|one| one.config.enabled) {
        if let Some(unsaid) = show::unsaid(&one.name, &one.config) {
            app.ui.note(format!("! {}", escape::one_line(&unsaid, 600)))?;
        }
    }
    if servers.iter().any(|one| one.hold().is_some()) {
        app.ui.note("see what they would run, and let them: helve trust")?;
    } else if app.ui.on_terminal() {
        app.ui.note("\nhelve mcp status · helve mcp test NAME · helve tools list --source mcp")?;
    }
    Ok(Exit::Done)
}

/// Whether it may run, in a word.
fn word(one: &Configured) -> (&'static str, Tone) {
    match (&one.verdict, &one.scope) {
        _ if !one.config.enabled => ("disabled", Tone::Dim),
        (Verdict::Trusted, Scope::User) => ("yes, yours", Tone::Good),
        (Verdict::Trusted, Scope::Project(_)) => ("yes, trusted", Tone::Good),
        (Verdict::Changed { .. }, _) => ("no, changed", Tone::Bad),
        (_, _) => ("not yet trusted", Tone::Warn),
    }
}

/// Who says what its tools count as for labels.
fn counted_by(one: &Configured) -> Value {
    match Standing::of(&one.config) {
        Standing::Said => json!({ "by": "operator" }),
        Standing::Known(known) => json!({ "by": "helve", "as": known }),
        Standing::PartlySaid => json!({ "by": "operator", "else": assumed_words(&one.name, &one.config) }),
        Standing::Assumed => json!({ "by": "nobody", "else": assumed_words(&one.name, &one.config) }),
    }
}

fn document(one: &Configured) -> Value {
    let (trust, diff) = match &one.verdict {
        Verdict::Trusted => ("trusted", None),
        Verdict::Changed { diff, .. } => ("changed", Some(diff)),
        _ => ("unknown", None),
    };
    let scope = match &one.scope {
        Scope::User => "user",
        Scope::Project(_) => "project",
    };
    let mut document = json!({
        "name": one.name, "enabled": one.config.enabled, "scope": scope, "origin": one.origin,
        "trust": trust, "config": shown(&one.config), "counted_by": counted_by(one),
    });
    if let Some(diff) = diff {
        document["diff"] = json!(diff);
    }
    document
}
