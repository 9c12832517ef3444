//! `helve session show`: where a session's labels came from, and what they keep it from.

use helve::Caller;
use helve::gate::Stance;
use helve::label::Label;
use helve::session::SessionState;
use jiff::Zoned;
use serde_json::json;

use crate::app::App;
use crate::blocking::block_on;
use crate::commands::approvals::Desk;
use crate::commands::when;
use crate::exit::Exit;
use crate::ui::table::{Cell, Tone};
use crate::ui::{Table, escape};

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The session's id; without one, what the caller does in none
    session: Option<String>,
    /// Whose session it is
    #[arg(long = "as", value_name = "NAME", default_value = "local")]
    principal: String,
}

pub(crate) fn run(args: &Args, app: &mut App<'_>) -> anyhow::Result<Exit> {
    let mut caller = Caller::principal(&args.principal);
    if let Some(session) = &args.session {
        caller = caller.session(session);
    }
    let (state, when_met) = match Desk::open(app)? {
        None => (None, helve::sessions::WhenMet::Off),
        Some(desk) => {
            let state = block_on(async { Ok(desk.runtime.session(&caller).await?) })?;
            let when_met = desk.runtime.settings().labels.when_met;
            desk.ledger.close()?;
            (state, when_met)
        }
    };
    if app.ui.is_json() {
        let labels = state.as_ref().map(|state| state.labels());
        app.ui.json(&json!({ "principal": args.principal, "session": args.session, "labels": labels,
            "has_met": labels.is_some_and(|labels| labels.has_met()), "when_met": when_met, "state": state }))?;
        return Ok(Exit::Done);
    }
    let is_blank = |state: &SessionState| {
        state.taints.is_empty() && state.permissions.is_empty() && state.ended_at.is_none()
    };
    let Some(state) = state.filter(|state| !is_blank(state)) else {
        app.ui.line("nothing is known of it: it has touched nothing, and nothing was allowed for it")?;
        app.ui.note("see all: helve session list")?;
        return Ok(Exit::Done);
    };
    let now = Zoned::now();
    if let Some(ended_at) = state.ended_at {
        app.ui.line(format!("ended {}: nothing runs in it any more", when::brief(ended_at, &now)))?;
    }
    if !state.taints.is_empty() {
        app.ui.heading("Labels, and where they came from")?;
        let mut table = Table::new(["label", "tool", "call", "when"]);
        for taint in &state.taints {
            for label in taint.labels.iter() {
                table.row([
                    Cell::new(label.as_str(), Tone::Warn),
                    Cell::new(&*taint.tool, Tone::Strong),
                    Cell::new(taint.call_id.to_string(), Tone::Plain),
                    Cell::new(when::brief(taint.at, &now), Tone::Dim),
                ]);
            }
        }
        app.ui.table(table)?;
    }
    app.ui.line("")?;
    app.ui.paragraph(&meaning(state.labels(), when_met))?;
    let rules = &state.permissions;
    for stance in [Stance::Deny, Stance::Ask, Stance::Allow] {
        for rule in rules.rules(stance) {
            app.ui.line(format!("{stance} {}", escape::one_line(&rule.to_string(), 200)))?;
        }
    }
    if let Some(mode) = rules.mode {
        app.ui.line(format!("the mode is {}", mode.as_str()))?;
    }
    Ok(Exit::Done)
}

fn meaning(labels: helve::LabelSet, when_met: helve::sessions::WhenMet) -> String {
    use helve::sessions::WhenMet;
    let then = match when_met {
        WhenMet::Ask => "calls that send something out or change something ask a person",
        WhenMet::Deny => "calls that send something out or change something are denied",
        WhenMet::Off => "nothing follows, because `labels.when_met` is off",
    };
    if labels.has_met() {
        return format!("Untrusted text and private data have met in this session: {then}.");
    }
    let missing = match labels.has(Label::Untrusted) {
        true => "private data",
        false if labels.is_empty() => "untrusted text and private data",
        false => "untrusted text",
    };
    format!("Nothing is held back yet. Once it has read {missing} too, {then}.")
}
