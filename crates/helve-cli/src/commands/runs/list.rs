//! `helve runs list`: runs that have not ended, then the latest.

use std::collections::HashSet;

use helve::CallId;
use helve::runs::Story;
use helve_host::wire::{self, OpenLedger};
use jiff::Zoned;
use serde_json::{Value, json as value};

use super::next::{Undoable, first, next};
use super::state::{State, cell};
use crate::app::App;
use crate::blocking::block_on;
use crate::commands::when;
use crate::exit::Exit;
use crate::ui::table::{Cell, Columns, Tone, Yield};
use crate::ui::{Table, Ui, json};

const AFTER_HELP: &str = "\
Examples:
  helve runs list --waiting
  helve runs list --all --json > runs.json
  helve runs list --tool trip/book --json";

#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Args {
    /// Only runs that have not ended
    #[arg(long, conflicts_with_all = ["waiting", "all"])]
    open: bool,
    /// Only runs that wait for a person, or that were cut short
    #[arg(long, conflicts_with = "all")]
    waiting: bool,
    /// Every run, however old
    #[arg(long, conflicts_with = "limit")]
    all: bool,
    /// Only runs of this tool
    #[arg(long, value_name = "NAME")]
    tool: Option<String>,
    /// Show at most this many that have ended
    #[arg(long, short = 'n', default_value_t = 20, value_name = "COUNT")]
    limit: usize,
    /// Only runs that have ended and are older than this one: the last of the page before
    #[arg(long, value_name = "ID", conflicts_with_all = ["open", "waiting"])]
    before: Option<CallId>,
}

/// How many runs are read in one go, and kept in memory.
const PAGE: usize = 500;

/// How many runs that have ended are looked at without `--all`, should few of them fit.
const LOOK_MAX: usize = 20_000;

pub(crate) fn run(args: &Args, app: &mut App<'_>) -> anyhow::Result<Exit> {
    let loaded = app.load_config()?;
    let undoable = Undoable::of(&loaded);
    let mut shown = Output::new(app.ui, &undoable);
    let more = match wire::open_trail(&loaded)? {
        // Nothing was ever recorded, which is an answer too.
        Err(error) if error.is_missing() => None,
        Ok(_) | Err(_) => {
            let ledger = wire::open_ledger(&loaded)?;
            let more = block_on(read(args, &ledger, &mut shown))?;
            ledger.close()?;
            more
        }
    };
    shown.finish(args, more)
}

/// Why there may be more runs than were shown, and where they begin.
enum More {
    /// As many as were asked for are shown.
    Limit(CallId),
    /// Too many were looked at.
    Looked(CallId),
}

/// Shows open runs first, newest first within each kind, page by page.
async fn read(args: &Args, ledger: &OpenLedger, shown: &mut Output<'_, '_>) -> anyhow::Result<Option<More>> {
    let fits = |story: &Story| {
        let waits = story.state.is_waiting() || story.state == State::CutShort;
        args.tool.as_ref().is_none_or(|tool| **tool == *story.facts.tool) && (!args.waiting || waits)
    };
    let mut open = super::open_runs(ledger).await?;
    open.reverse();
    // Those that have not ended stand on the first page.
    if args.before.is_none() {
        for page in open.chunks(PAGE) {
            let outlines = ledger.outlines(page.iter().map(|open| open.run).collect()).await?;
            let stories = page.iter().zip(outlines);
            let stories = stories.filter_map(|(open, outline)| Story::new(open.run, outline, Some(open)));
            shown.page(&stories.filter(fits).collect::<Vec<_>>())?;
        }
    }
    if args.open || args.waiting {
        return Ok(None);
    }
    let open: HashSet<_> = open.iter().map(|open| open.run).collect();
    let mut missing = if args.all { usize::MAX } else { args.limit };
    // A program reads on, and does not learn what was left out.
    let mut to_look_at = if args.all || shown.ui.is_json() { usize::MAX } else { LOOK_MAX };
    let mut before = args.before;
    while missing > 0 {
        let mut page = ledger.trail().runs(before, PAGE.min(to_look_at))?;
        let Some(last) = page.last().copied() else { return Ok(None) };
        before = Some(last);
        to_look_at -= page.len();
        page.retain(|run| !open.contains(run));
        let outlines = ledger.outlines(page.clone()).await?;
        let stories =
            page.into_iter().zip(outlines).filter_map(|(run, outline)| Story::new(run, outline, None));
        let stories: Vec<_> = stories.filter(fits).take(missing).collect();
        shown.page(&stories)?;
        missing -= stories.len();
        if missing == 0 {
            return Ok(stories.last().map(|story| More::Limit(story.run)));
        }
        if to_look_at == 0 {
            return Ok(Some(More::Looked(last)));
        }
    }
    Ok(None)
}

/// Shows runs page by page, so that a long list needs no memory.
struct Output<'a, 'l> {
    ui: &'a mut Ui,
    undoable: &'a Undoable<'l>,
    /// On a terminal, times leave out what goes without saying.
    now: Option<Zoned>,
    columns: Columns,
    count: usize,
    /// Whether something can be done about one of them.
    has_next: bool,
}

impl<'a, 'l> Output<'a, 'l> {
    fn new(ui: &'a mut Ui, undoable: &'a Undoable<'l>) -> Self {
        let now = ui.on_terminal().then(Zoned::now);
        Self { ui, undoable, now, columns: Columns::default(), count: 0, has_next: false }
    }

    fn page(&mut self, runs: &[Story]) -> anyhow::Result<()> {
        if runs.is_empty() {
            return Ok(());
        }
        if self.ui.is_json() {
            for story in runs {
                self.ui.text(if self.count == 0 { "[" } else { "," })?;
                self.ui.text(&json::compact(&document(story, self.undoable))?)?;
                self.count += 1;
            }
            return Ok(());
        }
        let next: Vec<_> = runs.iter().map(|story| first(story, self.undoable)).collect();
        self.has_next |= next.iter().any(Option::is_some);
        self.count += runs.len();
        self.ui.table_page(table(runs, next, self.now.as_ref()), &mut self.columns)?;
        Ok(())
    }

    fn finish(self, args: &Args, more: Option<More>) -> anyhow::Result<Exit> {
        let ui = self.ui;
        if ui.is_json() {
            ui.text(if self.count == 0 { "[]\n" } else { "]\n" })?;
            return Ok(Exit::Done);
        }
        if self.count == 0 && more.is_none() {
            ui.note(nothing(args))?;
        }
        if self.has_next {
            ui.note("\nwhat happened, and all that can be done: helve runs show ID")?;
        }
        let tool = args.tool.as_ref().map(|tool| format!(" --tool {tool}")).unwrap_or_default();
        match more {
            None => {}
            Some(More::Limit(last)) => ui.note(format!("\nmore: helve runs list{tool} --before {last}"))?,
            Some(More::Looked(last)) => ui.note(format!(
                "\nonly {LOOK_MAX} runs were looked at; on from there: helve runs list{tool} --before {last}"
            ))?,
        }
        Ok(Exit::Done)
    }
}

fn nothing(args: &Args) -> &'static str {
    match (args.open, args.waiting, &args.tool, args.before) {
        (true, ..) => "every run has ended; `helve runs list` shows the latest",
        (_, true, ..) => "no run waits; `helve runs list` shows the latest",
        (_, _, Some(_), _) => "no run of this tool; `helve runs list` shows the latest of all",
        (_, _, None, Some(_)) => "no run is older than that",
        (_, _, None, None) => "no run yet: a run is a call that changes something or has parts",
    }
}

/// `now` where times should leave out what goes without saying.
fn table(runs: &[Story], next: Vec<Option<String>>, now: Option<&Zoned>) -> Table {
    // Half a command is no help.
    const YIELDS: &[Yield] = &[Yield::Drop(5), Yield::Drop(4), Yield::Cut(2, 8)];
    let mut table = Table::new(["when", "run", "tool", "state", "parts", "next"]).one_line_rows(YIELDS);
    for (story, next) in runs.iter().zip(next) {
        let at = story.facts.received_at;
        table.row([
            Cell::new(now.map_or_else(|| when::shown(at), |now| when::brief(at, now)), Tone::Dim),
            Cell::from(story.run.to_string()),
            Cell::new(tool(story), Tone::Strong),
            cell(story.state),
            Cell::from(parts(story)),
            Cell::new(next.unwrap_or_default(), Tone::Dim),
        ]);
    }
    table
}

fn tool(story: &Story) -> String {
    match story.facts.undo_of {
        Some(_) => format!("undo of {}", story.facts.tool),
        None => story.facts.tool.to_string(),
    }
}

/// How many steps of how many that began.
fn parts(story: &Story) -> String {
    let counts = story.counts();
    match (counts.total, counts.undone) {
        (0, _) => String::new(),
        (total, 0) => format!("{}/{total}", counts.done),
        (total, undone) => format!("{}/{total}, {undone} undone", counts.done),
    }
}

fn document(story: &Story, undoable: &Undoable<'_>) -> Value {
    let standing = story.standing();
    let next: Vec<_> = next(story, undoable).into_iter().map(|next| next.command).collect();
    value!({
        "call_id": story.run,
        "run": story.run,
        "received_at": story.facts.received_at,
        "tool": story.facts.tool,
        "state": standing.state,
        "waiting": standing.waiting,
        "in_doubt": standing.in_doubt,
        "undo_of": story.facts.undo_of,
        "parts": story.counts(),
        "next": next,
    })
}
