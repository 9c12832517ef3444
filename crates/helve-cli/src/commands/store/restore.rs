//! `helve store restore`: puts a backup in place of the ledger.

use std::path::PathBuf;

use helve_host::config::origin::short;
use helve_host::wire;
use helve_store::{Backup, BackupError, Comparison, Restored, Trouble};
use jiff::Timestamp;
use serde_json::json;

use super::{bytes, failed, said};
use crate::app::App;
use crate::commands::approvals::local_user;
use crate::commands::mcp::ask::{Confirmation, ask};
use crate::commands::progress::Line;
use crate::commands::when;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::ui::count;

const AFTER_HELP: &str = "\
Stop `helve up` first. Helve checks the backup, and refuses a damaged one. It keeps the journal that was
there in `helve.db.before/`. A crash in the middle leaves the old journal or the new one.

The anchor (`helve.db.head`) is not replaced, so it knows which entries the backup lacks. If it knows
of some, or if there is no anchor, as on a new machine, no call runs until you say
`helve audit accept`. To move to another machine without that, stop Helve, back up, and copy
`helve.db.head` to the new place first.

Exit codes:
  0 restored   1 the backup cannot be used   3 a person must say yes   4 a person said no

Examples:
  helve store restore /backup/helve-2026-11-18
  helve store restore /backup/helve-2026-11-18 --yes --json";

#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Args {
    /// The folder that `helve store backup` made
    #[arg(value_name = "FOLDER")]
    from: PathBuf,
    /// Restore without being asked
    #[arg(long)]
    yes: bool,
}

pub(crate) fn run(args: &Args, app: &mut App<'_>) -> anyhow::Result<Exit> {
    local_user("restore a journal")?;
    let loaded = app.load_config()?;
    wire::need_file(
        &loaded,
        "put a dump into a new database with `pg_restore`, and name that in `[store] url`",
    )?;
    wire::refuse_brought(&loaded)?;
    let journal = &loaded.journal_path;
    // Before anybody is asked: a yes could not be acted on.
    Backup::check_unused(journal).map_err(|error| refusal(&error))?;
    let backup = Backup::open(&args.from).map_err(|error| refusal(&error))?;
    let mut line = Line::new(app.ui);
    let checked = backup.check(|far| line.show(&said(far)));
    drop(line);
    checked.map_err(|error| refusal(&error))?;
    let compared = backup.compare(journal).map_err(|error| refusal(&error))?;
    if !app.ui.is_json() {
        tell(&backup, &compared, app)?;
    }
    let question = format!("Put it in place of {}?", short(journal));
    let exit = match ask(&question, args.yes, app)? {
        Confirmation::Yes => Exit::Done,
        Confirmation::No => Exit::Denied,
        Confirmation::Nobody => Exit::Waiting,
    };
    let mut restored = None;
    if exit == Exit::Done {
        let mut line = Line::new(app.ui);
        let result = backup.restore(journal, Timestamp::now(), |far| line.show(&said(far)));
        drop(line);
        restored = Some(result.map_err(|error| refusal(&error))?);
    }
    if app.ui.is_json() {
        let document =
            json!({ "restored": restored, "backup": backup.manifest().head, "compared": compared });
        app.ui.json(&document)?;
        return Ok(exit);
    }
    match (&restored, exit) {
        (Some(restored), _) => conclude(restored, &compared, app)?,
        (None, Exit::Waiting) => {
            app.ui.note("there is no terminal to ask on; `--yes` restores it")?;
        }
        (None, _) => app.ui.note("not restored")?,
    }
    Ok(exit)
}

/// What the backup is, and what it lacks.
fn tell(backup: &Backup, compared: &Comparison, app: &mut App<'_>) -> anyhow::Result<()> {
    let paint = app.ui.paint();
    let manifest = backup.manifest();
    let entries = manifest.head.as_ref().map_or(0, |head| head.seq);
    app.ui.line(format!(
        "{} the backup of {} is sound: {}, {}",
        paint.good("✓"),
        when::shown(manifest.made_at),
        count(entries, "entry"),
        bytes(backup.bytes())
    ))?;
    let Some(lacks) = &compared.lacks else {
        app.ui.line(format!("{} it lacks nothing that the anchor here knows of", paint.good("✓")))?;
        return Ok(());
    };
    let calls =
        compared.lost_calls.map(|calls| format!(" ({} here)", count(calls, "call"))).unwrap_or_default();
    let said = match lacks.trouble {
        Trouble::Missing { first, last } if first == last => {
            format!("it lacks entry {first}{calls}, which the anchor here knows of")
        }
        Trouble::Missing { first, last } => {
            format!("it lacks entries {first} to {last}{calls}, which the anchor here knows of")
        }
        Trouble::Other { seq } => {
            format!("it is of another history: entry {seq} is not the one that the anchor here knows")
        }
        Trouble::NoAnchor => "no anchor is here, so nobody can tell what was written after it".to_owned(),
        Trouble::DamagedAnchor => {
            "the anchor here is damaged, so nobody can tell what was written after it".to_owned()
        }
        _ => lacks.to_string(),
    };
    app.ui.line(format!("{} {said}", paint.warn("!")))?;
    Ok(())
}

fn conclude(restored: &Restored, compared: &Comparison, app: &mut App<'_>) -> anyhow::Result<()> {
    let sign = app.ui.paint().good("✓");
    app.ui.line(format!("{sign} restored to {}", short(&restored.journal)))?;
    if let Some(aside) = &restored.aside {
        app.ui.line(format!("  the journal that was here is in {}", short(aside)))?;
    }
    app.ui.note(match compared.lacks {
        Some(_) => "no call runs until you have looked at what is missing: `helve audit accept`",
        None => "calls run again",
    })?;
    Ok(())
}

fn refusal(error: &BackupError) -> Failure {
    let failure = failed("nothing was restored", error);
    match error {
        BackupError::InUse(_) => {
            failure.hint("stop `helve up`, and MCP clients that started `helve mcp serve`")
        }
        _ => failure,
    }
}
