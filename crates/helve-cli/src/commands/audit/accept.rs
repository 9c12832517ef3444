//! `helve audit accept`: takes a journal as it is that does not match its anchor, once a person has seen
//! what is missing.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use helve::CallId;
use helve::identity::Key;
use helve_host::config::Loaded;
use helve_host::config::origin::short;
use helve_host::wire;
use helve_store::{
    Audit, AuditQuery, Backup, CallRecord, CheckpointError, Concern, Quarantine, SigningKey, Store,
    StoreError, Trouble,
};
use serde::Serialize;
use serde_json::json;

use crate::app::App;
use crate::commands::approvals::local_user;
use crate::commands::mcp::ask::{Confirmation, ask};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::ui::escape;

const AFTER_HELP: &str = "\
For a journal that has lost entries: an older copy was restored, or a log or the `.head` file is
missing. Until you accept, the journal can be read and no call runs. If you still have the missing
files, restore them instead.

What the missing entries recorded is lost. Open runs may have ended in them, so each waits for you.
Questions are withdrawn. Keys and rules that were revoked in them are valid again: check
`helve keys list` and `helve approvals rules`. The journal records that you accepted.

Exit codes:
  0 accepted, or there is nothing to accept   3 a person must say yes   4 a person said no

Examples:
  helve audit accept
  helve audit accept --yes";

#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Args {
    /// Accept without being asked
    #[arg(long)]
    yes: bool,
}

pub(crate) fn run(args: &Args, app: &mut App<'_>) -> anyhow::Result<Exit> {
    local_user("accept a journal")?;
    let loaded = app.load_config()?;
    wire::need_file(
        &loaded,
        "`helve audit verify` says what is wrong with the database; put a good backup in its place",
    )?;
    wire::refuse_brought(&loaded)?;
    let Some(trouble) = trouble(&loaded)? else {
        if app.ui.is_json() {
            app.ui.json(&json!({ "accepted": false, "trouble": null, "open_runs": [] }))?;
        } else {
            app.ui.line("nothing to accept: the journal is the one that its anchor knows")?;
        }
        return Ok(Exit::Done);
    };
    let open = open(&loaded)?;
    let lost = Lost::of(&loaded);
    if !app.ui.is_json() {
        let paint = app.ui.paint();
        app.ui.line(format!("{} {}", paint.bad("✗"), escape::visible(&trouble)))?;
        if !open.is_empty() {
            app.ui.line("  open here, may have ended since, and will wait for you:")?;
            open.iter().try_for_each(|run| app.ui.line(format!("    {run}")))?;
        }
        if let Some(lost) = &lost {
            lost.print(app)?;
        }
    }
    let exit = match ask("Accept the journal as it is?", args.yes, app)? {
        Confirmation::Yes => Exit::Done,
        Confirmation::No => Exit::Denied,
        Confirmation::Nobody => Exit::Waiting,
    };
    if exit == Exit::Done {
        accept(&loaded)?;
    }
    if app.ui.is_json() {
        let accepted = exit == Exit::Done;
        let document = json!({ "accepted": accepted, "trouble": trouble, "open_runs": open, "lost": lost });
        app.ui.json(&document)?;
    } else {
        app.ui.note(match exit {
            Exit::Done if open.is_empty() => "accepted; calls run again",
            Exit::Done => "accepted; calls run again, and `helve runs list --waiting` has what waits for you",
            Exit::Waiting => "there is no terminal to ask on; `helve audit accept --yes` accepts it",
            _ => "not accepted",
        })?;
    }
    Ok(exit)
}

/// What the missing entries were about, as the journal says that the last restore put aside.
#[derive(Serialize)]
struct Lost {
    /// The journal that was put aside.
    copy: PathBuf,
    /// Calls with entries that are missing here, newest first.
    calls: Vec<LostCall>,
    /// Keys that are good here, and were revoked there.
    keys_good_again: Vec<String>,
}

#[derive(Serialize)]
struct LostCall {
    call_id: CallId,
    tool: Arc<str>,
    status: &'static str,
    /// Whether it may have changed something.
    changes_things: bool,
}

impl Lost {
    /// Most calls that are named.
    const CALLS_MAX: usize = 20;

    /// Nothing, where no copy is there or it cannot be read: what is known of the trouble is told without.
    fn of(loaded: &Loaded) -> Option<Self> {
        let journal = &loaded.journal_path;
        let Some(Quarantine { trouble: Trouble::Missing { first, .. }, .. }) =
            Quarantine::of(journal).ok()?
        else {
            return None;
        };
        let copy = Backup::put_aside(journal)?;
        let there = Audit::open(&copy).ok()?;
        let mut query = AuditQuery::default();
        query.limit = Self::CALLS_MAX;
        let is_lost = |call: &CallRecord| call.chain.iter().any(|link| link.seq >= first);
        let calls = there.list(&query).ok()?.into_iter().filter(is_lost).map(|call| LostCall {
            call_id: call.facts.call_id,
            tool: call.facts.tool,
            status: call.status.as_str(),
            changes_things: call.facts.changes_world,
        });
        let (calls, keys_good_again) = (calls.collect(), Self::keys(&there, journal));
        Some(Self { copy, calls, keys_good_again })
    }

    fn keys(there: &Audit, journal: &Path) -> Vec<String> {
        let here = Audit::open(journal).and_then(|audit| audit.keys()).unwrap_or_default();
        let revoked: Vec<_> = there.keys().unwrap_or_default();
        let is_revoked = |key: &&Key| revoked.iter().any(|one| one.id == key.id && one.revoked_at.is_some());
        let again = here.iter().filter(|key| key.revoked_at.is_none()).filter(is_revoked);
        again.map(|key| format!("{} ({})", key.id, key.name)).collect()
    }

    fn print(&self, app: &mut App<'_>) -> anyhow::Result<()> {
        if !self.calls.is_empty() {
            app.ui.line("  recorded in what is missing, as the journal says that was put aside:")?;
        }
        for call in &self.calls {
            let mark = if call.changes_things { ", may have changed something" } else { "" };
            let tool = escape::one_line(&call.tool, 128);
            app.ui.line(format!("    {} {tool}: {}{mark}", call.call_id, call.status))?;
        }
        if self.calls.len() == Self::CALLS_MAX {
            app.ui.line(format!("    … more: helve audit list --set journal.path={}", short(&self.copy)))?;
        }
        if !self.keys_good_again.is_empty() {
            app.ui.line("  revoked in what is missing, so good again here; revoke them anew:")?;
        }
        for key in &self.keys_good_again {
            app.ui.line(format!("    {}", escape::one_line(key, 200)))?;
        }
        Ok(())
    }
}

/// What there is to accept, in words.
fn trouble(loaded: &Loaded) -> Result<Option<String>, Failure> {
    let path = &loaded.journal_path;
    if let Some(why) = Quarantine::of(path).map_err(|error| super::unreadable(&error.into()))? {
        return Ok(Some(why.to_string()));
    }
    if let Err(error @ (CheckpointError::Gone(_) | CheckpointError::Replaced(_))) = SigningKey::open(path) {
        return Ok(Some(error.to_string()));
    }
    // An earlier version noted a lost anchor in the chain, and went on. Runs whose rows were changed wait for a
    // person once they are accepted.
    let noted = Audit::open(path).ok().and_then(|audit| audit.verify(|_| {}).ok());
    let noted = noted.filter(|found| matches!(found.concern, Some(Concern::Anchor | Concern::Runs)));
    Ok(noted.and_then(|found| found.first_problem).map(|problem| problem.what))
}

/// The runs that are open in it.
fn open(loaded: &Loaded) -> anyhow::Result<Vec<String>> {
    // Not opened for writing: one of an earlier format is not brought up to date before it is accepted.
    let found = match wire::open_audit(loaded)? {
        Ok(audit) => audit.open_runs(),
        Err(StoreError::Missing(_) | StoreError::Gone { .. }) => Ok(Vec::new()),
        Err(error) => Err(error),
    };
    let found = found.map_err(|error| super::unreadable(&error.into()))?;
    Ok(found.into_iter().map(|run| run.to_string()).collect())
}

/// Accepts it, and makes sure that the chain says so.
fn accept(loaded: &Loaded) -> anyhow::Result<()> {
    Store::accept(&loaded.journal_path)
        .map_err(|error| Failure::failed("the journal cannot be accepted").because(&error))?;
    let store = wire::open_store(loaded)?;
    store.close().map_err(|error| Failure::failed("the acceptance cannot be written").because(&error))?;
    Ok(())
}
