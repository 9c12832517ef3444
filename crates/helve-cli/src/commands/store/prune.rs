//! `helve store prune`: removes the oldest entries, so that the rest still proves itself.

use std::sync::Arc;

use helve_host::config::Loaded;
use helve_host::wire;
use helve_store::{PruneError, PrunePlan, PruneReport, Retention, SigningKey};
use jiff::Timestamp;
use serde_json::json;

use super::{bytes, failed};
use crate::app::App;
use crate::blocking::block_on;
use crate::commands::approvals::local_user;
use crate::commands::mcp::ask::{Confirmation, ask};
use crate::commands::progress::Line;
use crate::commands::when;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::ui::count;

const AFTER_HELP: &str = "\
Removes entries from the oldest on. Helve signs the cut with `helve.db.key` and records it as an entry,
so `helve audit verify` still proves the rest and says what is gone. To keep the old entries, first run
`helve audit export --out calls.jsonl` or `helve store backup FOLDER`.

Never pruned: open runs, questions that wait, what can still be undone
(`journal.retention.undo_days`), calls whose cost counts towards a limit, and everything after
the first of these. Memory, API keys, rules and sessions stay. Without flags this removes what
`[journal.retention]` says; `helve up` does that by itself.

Exit codes:
  0 pruned, or nothing to prune   3 a person must say yes   4 a person said no

Examples:
  helve store prune --older-than 90d --dry-run
  helve store prune --older-than 90d --yes
  helve store prune --larger-than 2000000000";

#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Args {
    /// Entries of calls before this time or of this age, such as `90d`
    #[arg(long, value_name = "TIME", value_parser = when::parse)]
    older_than: Option<Timestamp>,
    /// The oldest entries, while the journal has more bytes
    #[arg(long, value_name = "BYTES")]
    larger_than: Option<u64>,
    /// What was said in calls that only read, before this time; that they were made stays
    #[arg(long, value_name = "TIME", value_parser = when::parse)]
    reads_older_than: Option<Timestamp>,
    /// Say what would go, and remove nothing
    #[arg(long, conflicts_with = "yes")]
    dry_run: bool,
    /// Prune without being asked
    #[arg(long)]
    yes: bool,
}

impl Args {
    /// What may go: what was typed, or else what the configuration says.
    fn retention(&self, loaded: &Loaded, now: Timestamp) -> Result<Retention, Failure> {
        let section = &loaded.config.journal.retention;
        let is_typed =
            self.older_than.is_some() || self.larger_than.is_some() || self.reads_older_than.is_some();
        if !is_typed && !section.is_set() {
            return Err(Failure::usage("nothing says which entries may go")
                .hint("say it: `helve store prune --older-than 90d`, or in `[journal.retention]` of your helve.toml"));
        }
        let by = local_user("prune the journal")?;
        let mut retention = section.at(&loaded.config.limits.calls, now, &by);
        if is_typed {
            (retention.before, retention.bytes_max) = (self.older_than, self.larger_than);
            retention.reads_before = self.reads_older_than;
        }
        Ok(retention)
    }
}

pub(crate) fn run(args: &Args, app: &mut App<'_>) -> anyhow::Result<Exit> {
    let loaded = app.load_config()?;
    wire::need_file(&loaded, "a database keeps all entries for now; `helve` cannot prune it yet")?;
    let now = Timestamp::now();
    let retention = args.retention(&loaded, now)?;
    let unreadable = |error| -> Failure { failed("the journal cannot be read", &error) };
    let audit = wire::open_audit(&loaded)?.map_err(unreadable)?;
    let plan = audit.prune_plan(&retention).map_err(unreadable)?;
    if !app.ui.is_json() {
        tell(&plan, app)?;
    }
    let nothing = plan.entries() == 0 && plan.reads_last == 0;
    let mut report = None;
    let mut exit = Exit::Done;
    if !args.dry_run && !nothing {
        exit = match ask("Remove them?", args.yes, app)? {
            Confirmation::Yes => Exit::Done,
            Confirmation::No => Exit::Denied,
            Confirmation::Nobody => Exit::Waiting,
        };
        if exit == Exit::Done {
            report = Some(prune(&loaded, &retention, &plan, now, app)?);
        }
    }
    if app.ui.is_json() {
        app.ui.json(&json!({ "plan": plan, "pruned": report }))?;
    } else if let Some(report) = &report {
        conclude(report, app)?;
    } else if exit == Exit::Waiting {
        app.ui.note("there is no terminal to ask on; `--yes` removes them")?;
    }
    Ok(exit)
}

/// What would go, and what keeps the rest.
fn tell(plan: &PrunePlan, app: &mut App<'_>) -> anyhow::Result<()> {
    let paint = app.ui.paint();
    match plan.entries() {
        0 => app.ui.line("no entry goes")?,
        entries => app.ui.line(format!(
            "{} would go: {} to {}, {}",
            count(entries, "entry"),
            plan.first,
            plan.last,
            bytes(plan.bytes)
        ))?,
    }
    if plan.reads_last > plan.last {
        app.ui.line(format!(
            "what was said in calls that only read would go up to entry {}",
            plan.reads_last
        ))?;
    }
    if let Some(hold) = &plan.held {
        app.ui.line(format!("{} {hold}", paint.warn("!")))?;
    }
    if plan.entries() > 0 {
        app.ui.note("to keep them elsewhere, first: `helve audit export --out calls.jsonl`")?;
    }
    Ok(())
}

fn prune(
    loaded: &Loaded,
    retention: &Retention,
    plan: &PrunePlan,
    now: Timestamp,
    app: &mut App<'_>,
) -> anyhow::Result<PruneReport> {
    let cannot = |error: &(dyn std::error::Error + 'static)| failed("the journal cannot be pruned", error);
    let store = wire::open_store(loaded)?;
    if let Some(why) = store.quarantine() {
        return Err(Failure::failed(why.to_string()).into());
    }
    let key = Arc::new(SigningKey::open(&loaded.journal_path).map_err(|error| cannot(&error))?);
    let mut line = Line::new(app.ui);
    let total = plan.entries();
    let told = |entries: i64| line.show(&format!("pruned {entries} of {total} entries"));
    let pruned = block_on(async { Ok(store.prune(retention, &key, now, told).await) })?;
    drop(line);
    store.close().map_err(|error| cannot(&error))?;
    Ok(pruned.map_err(|error: PruneError| cannot(&error))?)
}

fn conclude(report: &PruneReport, app: &mut App<'_>) -> anyhow::Result<()> {
    let sign = app.ui.paint().good("✓");
    app.ui.line(format!("{sign} {} removed", count(report.entries, "entry")))?;
    if let Some(cut) = &report.cut {
        app.ui.line(format!("  head at the cut {}:{}", cut.last, cut.hash))?;
    }
    if report.erased > 0 {
        app.ui.line(format!(
            "{sign} {} of calls that only read lost what was said",
            count(report.erased, "entry")
        ))?;
    }
    app.ui.note("`helve audit verify` proves the rest, and says what is gone")?;
    Ok(())
}
