//! `helve runs list`: runs that have not ended, then the latest.

use std::collections::{BTreeSet, HashSet};

use helve::CallId;
use helve::ports::Runs;
use helve::runs::Story;
use helve_store::{Audit, AuditQuery, CallRecord, Store, StoreError};
use jiff::Zoned;
use serde_json::{Value, json};

use super::next::{Undoable, first, next};
use super::state::{State, cell};
use crate::app::App;
use crate::commands::when;
use crate::exit::Exit;
use crate::ui::Table;
use crate::ui::table::{Cell, Tone, Yield};
use crate::wire;

const AFTER_HELP: &str = "\
Examples:
  helve runs list --waiting
  helve runs list --tool trip/book --json";

/// As typed.
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
}

/// How many calls are read in one go.
const PAGE: usize = 500;

/// How many calls are looked at without `--all`, should few of them be runs.
const CALLS_MAX: usize = 20_000;

pub(crate) fn run(args: &Args, app: &mut App<'_>) -> anyhow::Result<Exit> {
    let loaded = app.load_config()?;
    let Found { runs, looked } = match wire::open_audit(&loaded)? {
        // Nothing was ever recorded, which is an answer too.
        Err(StoreError::Missing(_)) => Found { runs: Vec::new(), looked: Looked::AtAll },
        Ok(_) | Err(_) => {
            let store = wire::open_store(&loaded)?;
            let found = wire::block_on(read(args, &store))?;
            store.close()?;
            found
        }
    };
    if looked == Looked::AtSome {
        app.ui.note(format!("only the latest {CALLS_MAX} calls were looked at; --all looks at every one"))?;
    }
    let undoable = Undoable::of(&loaded);
    if app.ui.is_json() {
        app.ui.json(&runs.iter().map(|story| document(story, &undoable)).collect::<Vec<_>>())?;
        return Ok(Exit::Done);
    }
    if runs.is_empty() {
        app.ui.note(match (args.open, args.waiting, &args.tool) {
            (true, _, _) => "every run has ended; `helve runs list` shows the latest",
            (_, true, _) => "no run waits; `helve runs list` shows the latest",
            (false, false, Some(_)) => "no run of this tool; `helve runs list` shows the latest of all",
            (false, false, None) => "no run yet: a run is a call that changes something or has parts",
        })?;
        return Ok(Exit::Done);
    }
    let now = app.ui.on_terminal().then(Zoned::now);
    let next: Vec<_> = runs.iter().map(|story| first(story, &undoable)).collect();
    let is_more = next.iter().any(Option::is_some);
    app.ui.table(table(&runs, next, now.as_ref()))?;
    if is_more {
        app.ui.note("\nwhat happened, and all that can be done: helve runs show ID")?;
    }
    Ok(Exit::Done)
}

struct Found {
    runs: Vec<Story>,
    looked: Looked,
}

/// Whether there may be more that would have fitted.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Looked {
    AtAll,
    AtSome,
}

/// Open runs first, newest first within each kind.
async fn read(args: &Args, store: &Store) -> anyhow::Result<Found> {
    let fits = |story: &Story| {
        let waits = story.state.is_waiting() || story.state == State::CutShort;
        args.tool.as_ref().is_none_or(|tool| **tool == *story.facts.tool) && (!args.waiting || waits)
    };
    let mut open = super::open_runs(store).await?;
    open.reverse();
    let mut runs = Vec::new();
    for open in &open {
        let story = Story::new(open.run, store.history(open.run).await?, Some(open));
        runs.extend(story.filter(|story| fits(story)));
    }
    if args.open || args.waiting {
        return Ok(Found { runs, looked: Looked::AtAll });
    }
    let open: HashSet<_> = open.iter().map(|open| open.run).collect();
    let mut ended = Ended::new(store.audit());
    let limit = if args.all { usize::MAX } else { args.limit };
    let calls_max = if args.all { usize::MAX } else { CALLS_MAX };
    let mut count = 0;
    while count < limit {
        if ended.looked_at >= calls_max {
            return Ok(Found { runs, looked: Looked::AtSome });
        }
        let Some(page) = ended.next()? else { break };
        for run in page.into_iter().filter(|run| !open.contains(run)) {
            let story = Story::new(run, store.history(run).await?, None).filter(|story| fits(story));
            if count < limit && story.is_some() {
                count += 1;
                runs.extend(story);
            }
        }
    }
    Ok(Found { runs, looked: Looked::AtAll })
}

/// Goes through the calls that have ended, newest first, and finds the runs among them.
struct Ended {
    audit: Audit,
    query: AuditQuery,
    /// Every run that was found.
    known: HashSet<CallId>,
    /// Those that a part told of before the look came to them.
    ahead: BTreeSet<CallId>,
    looked_at: usize,
}

impl Ended {
    fn new(audit: Audit) -> Self {
        let mut query = AuditQuery::default();
        query.limit = PAGE;
        Self { audit, query, known: HashSet::new(), ahead: BTreeSet::new(), looked_at: 0 }
    }

    /// The runs of the next page of calls, newest first; `None` at the end.
    fn next(&mut self) -> Result<Option<Vec<CallId>>, StoreError> {
        let calls = self.audit.list(&self.query)?;
        let last = calls.last().map(|call| call.facts.call_id);
        if last.is_none() && self.ahead.is_empty() {
            return Ok(None);
        }
        self.query.before = last.or(self.query.before);
        self.looked_at += calls.len();
        for run in calls.iter().filter_map(run_of) {
            if self.known.insert(run) {
                self.ahead.insert(run);
            }
        }
        let here = match last {
            Some(last) => self.ahead.split_off(&last),
            None => std::mem::take(&mut self.ahead),
        };
        Ok(Some(here.into_iter().rev().collect()))
    }
}

/// The run that a call belongs to, or is. Whichever of the two has the newer id: journals of earlier builds
/// have both orders.
fn run_of(call: &CallRecord) -> Option<CallId> {
    // One that was refused never began.
    let began = call.started_at.is_some() && call.facts.changes_world;
    match &call.facts.part {
        Some(part) => Some(part.run),
        None => began.then_some(call.facts.call_id),
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
    json!({
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

#[cfg(test)]
mod tests {
    use super::*;
    use helve::ports::Journal;
    use helve_store::StoreOptions;
    use helve_testkit::entries::SampleCall;

    #[test]
    fn a_run_is_found_whether_its_parts_sort_before_or_after_it() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(&folder.path().join("journal.db"), StoreOptions::default()).unwrap();
        let [before, run, after] = ["before", "run", "after"].map(|tool| {
            let mut call = SampleCall::new(tool);
            call.facts.changes_world = false;
            call
        });
        let late = SampleCall::new("late");
        // Only their parts tell that these are runs.
        let calls = [before.part_of(&run, "one"), run.clone(), late.part_of(&after, "one")];
        calls.iter().chain([&after]).for_each(|call| store.append(call.done(json!(1))).unwrap());
        wire::block_on(async { Ok(store.flush().await?) }).unwrap();
        let mut ended = Ended::new(store.audit());
        ended.query.limit = 1;
        let mut found = Vec::new();
        while let Some(runs) = ended.next().unwrap() {
            found.extend(runs);
        }
        assert_eq!(found, [after.id(), run.id()]);
        store.close().unwrap();
    }
}
