//! `helve store backup`: a copy of the ledger, in use or not.

use std::path::{Path, PathBuf};

use helve_host::config::Loaded;
use helve_host::config::origin::short;
use helve_host::wire;
use helve_store::office::OfficeDb;
use helve_store::{Backup, BackupError};
use jiff::Timestamp;
use serde_json::json;

use super::{bytes, failed, said};
use crate::app::App;
use crate::commands::approvals::local_user;
use crate::commands::progress::Line;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::ui::count;

const AFTER_HELP: &str = "\
The copy has everything that was acknowledged before the command began; other processes may go on
writing. Helve checks the copy before it gives the folder its name: if the check fails, or the process
dies, there is no such folder.

Included: the database, its anchor, the key that signs checkpoints, former contents of files, and office.db with
mails, calendars and contacts. `helve store restore` does not touch office.db: copy it back by hand while no Helve
runs. Not included: helve.toml, token files, passwords, and what this user trusts (~/.local/state/helve/mcp).
Keep the backup as private as the journal: it holds what was said to tools, and the key.

Examples:
  helve store backup /backup/helve-$(date +%F)
  helve audit verify --set journal.path=/backup/helve-2026-11-18/helve.db";

#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Args {
    /// A folder that does not exist yet
    #[arg(value_name = "FOLDER")]
    to: PathBuf,
}

pub(crate) fn run(args: &Args, app: &mut App<'_>) -> anyhow::Result<Exit> {
    local_user("back up the journal")?;
    let loaded = app.load_config()?;
    wire::need_file(
        &loaded,
        "back the database up with `pg_dump`, or archive its log for point-in-time recovery",
    )?;
    wire::refuse_brought(&loaded)?;
    let to = std::path::absolute(&args.to)?;
    // Before it is there: no tool may ever read it.
    wire::secret_files::remember(&to)?;
    let mut line = Line::new(app.ui);
    let made = Backup::make(&loaded.journal_path, &to, Timestamp::now(), |far| line.show(&said(far)));
    drop(line);
    let backup = made.map_err(|error| refusal(&error))?;
    let office = copy_office(&loaded, &to)?;
    let manifest = backup.manifest();
    let entries = manifest.head.as_ref().map_or(0, |head| head.seq);
    if app.ui.is_json() {
        let document = json!({
            "folder": backup.folder(), "head": manifest.head, "made_at": manifest.made_at,
            "files": manifest.files.len(), "bytes": backup.bytes(), "office": office,
        });
        app.ui.json(&document)?;
        return Ok(Exit::Done);
    }
    let sign = app.ui.paint().good("✓");
    app.ui.line(format!(
        "{sign} {} in {}, checked: {}",
        count(entries, "entry"),
        count(manifest.files.len() as u64, "file"),
        bytes(backup.bytes())
    ))?;
    if let Some(head) = &manifest.head {
        app.ui.line(format!("  head {}:{}", head.seq, head.hash))?;
    }
    if let Some(office) = &office {
        app.ui.line(format!("  with mails and calendars in {}", short(office)))?;
    }
    app.ui.note(format!("put it in place with `helve store restore {}`", short(backup.folder())))?;
    Ok(Exit::Done)
}

/// The office's file, where there is one: what the account `local` has is nowhere else.
fn copy_office(loaded: &Loaded, to: &Path) -> Result<Option<PathBuf>, Failure> {
    let from = wire::office::path(loaded);
    if !from.exists() {
        return Ok(None);
    }
    let to = to.join("office.db");
    let copied = OfficeDb::open(&from).and_then(|office| office.copy_to(&to));
    copied.map_err(|error| failed("the journal is backed up, and office.db is not", &error))?;
    Ok(Some(to))
}

fn refusal(error: &BackupError) -> Failure {
    let failure = failed("there is no backup", error);
    match error {
        BackupError::Quarantined(_) => failure.hint("put the files back, or see `helve audit accept`"),
        BackupError::Unsound(_) => failure.hint(
            "keep a copy of the files as they are; `helve audit verify` says what is wrong with the journal",
        ),
        _ => failure,
    }
}
