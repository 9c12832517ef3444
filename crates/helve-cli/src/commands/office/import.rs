//! `helve office import`: mails, events, tasks and contacts from files of other programs.

use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

use helve_office::Office;
use helve_office::account::FolderRole;
use helve_office::embedded::EmbeddedMails;
use helve_office::import::{import_mails, import_objects};
use serde::Serialize;

use super::{local, open, unusable};
use crate::app::App;
use crate::blocking::block_on;
use crate::commands::approvals::local_user;
use crate::commands::progress::Line;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::ui::count;

const AFTER_HELP: &str = "\
Helve recognises a file by its content. Everything goes to the account `local`. You can repeat an import: what is
there already stays as it is. Links are not followed.

Examples:
  helve office import ~/Mail/archive.mbox
  helve office import ~/Maildir --folder inbox
  helve office import calendar.ics contacts.vcf letter.eml";

/// Largest file of events or contacts.
const OBJECTS_BYTES_MAX: u64 = 256 << 20;
/// Most files that are looked at in folders, and how deep.
const FILES_MAX: usize = 1_000_000;
const DEPTH_MAX: usize = 16;
/// How many of the things that were left out are named.
const SKIPPED_SHOWN: usize = 20;

#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Args {
    /// Files and folders: mbox, maildir, .eml, .ics, .vcf
    #[arg(required = true, value_name = "PATH")]
    paths: Vec<PathBuf>,
    /// Put mails into this folder [default: the one that a file's name speaks of, else archive]
    #[arg(long, value_name = "FOLDER", value_parser = role)]
    folder: Option<FolderRole>,
}

fn role(text: &str) -> Result<FolderRole, String> {
    let known = [FolderRole::Inbox, FolderRole::Drafts, FolderRole::Sent, FolderRole::Archive];
    let found = known.into_iter().find(|role| role.as_str() == text);
    found.ok_or_else(|| "it is one of inbox, drafts, sent, archive".to_owned())
}

/// What was done with all files together.
#[derive(Debug, Default, Serialize)]
struct Done {
    mails: usize,
    events: usize,
    tasks: usize,
    contacts: usize,
    notes: usize,
    /// What was there before.
    known: usize,
    /// What was left out, in all.
    skipped_count: usize,
    /// The first of these.
    skipped: Vec<Skipped>,
}

#[derive(Debug, Serialize)]
struct Skipped {
    what: String,
    why: String,
}

pub(crate) fn run(args: &Args, app: &mut App<'_>) -> anyhow::Result<Exit> {
    local_user("import files")?;
    for path in &args.paths {
        if let Err(error) = fs::metadata(path) {
            return Err(Failure::usage(format!("cannot read {}", path.display())).because(&error).into());
        }
    }
    let office = open(app)?;
    let done = block_on(async {
        let mut done = Done::default();
        for path in &args.paths {
            take(&office, path, args.folder, &mut done, app).await?;
        }
        Ok(done)
    })?;
    print(&done, app)
}

async fn take(
    office: &Office,
    path: &Path,
    folder: Option<FolderRole>,
    done: &mut Done,
    app: &App<'_>,
) -> anyhow::Result<()> {
    let mut found = FileList::default();
    found.look(path, 0);
    for file in &found.objects {
        take_objects(office, file, done).await?;
    }
    // A folder may hold mails next to them; a file is one or the other.
    if found.objects.iter().any(|file| file == path) {
        return Ok(());
    }
    let own = local(office)?.person.as_ref().map(|person| person.address().clone());
    let mails = EmbeddedMails::new(office.db(), own);
    let line = std::sync::Mutex::new(Line::new(app.ui));
    let imported = import_mails(&mails, path, folder, &|far| {
        let mut line = line.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        line.show(&format!("{} new, {} known", count(far.added as u64, "mail"), far.known));
    })
    .await;
    drop(line);
    let imported = imported.map_err(|error| unusable(&error))?;
    done.mails += imported.added;
    done.known += imported.known;
    let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let taken: Vec<_> = found.objects.iter().map(|file| real(file)).collect();
    let (as_objects, skipped): (Vec<_>, Vec<_>) =
        imported.skipped.into_iter().partition(|one| taken.contains(&one.path));
    done.skipped_count += imported.skipped_count - as_objects.len();
    done.skipped.extend(
        skipped.into_iter().map(|one| Skipped { what: one.path.display().to_string(), why: one.why }),
    );
    Ok(())
}

async fn take_objects(office: &Office, file: &Path, done: &mut Done) -> anyhow::Result<()> {
    let account = local(office)?;
    let Some(objects) = &account.objects else { return Ok(()) };
    let shown = file.display().to_string();
    let mut skip = |what: String, why: String| {
        done.skipped_count += 1;
        done.skipped.push(Skipped { what, why });
    };
    let mut bytes = Vec::new();
    let read = File::open(file).and_then(|file| file.take(OBJECTS_BYTES_MAX + 1).read_to_end(&mut bytes));
    match read {
        Ok(_) if bytes.len() as u64 > OBJECTS_BYTES_MAX => {
            skip(shown, format!("it is larger than {OBJECTS_BYTES_MAX} bytes"));
            return Ok(());
        }
        Ok(_) => {}
        Err(error) => {
            skip(shown, error.to_string());
            return Ok(());
        }
    }
    match import_objects(&**objects, bytes.into()).await {
        Ok(imported) => {
            done.events += imported.events;
            done.tasks += imported.tasks;
            done.contacts += imported.contacts;
            done.notes += imported.notes;
            done.known += imported.unchanged;
            done.skipped_count += imported.skipped;
            done.skipped.extend(
                imported
                    .reasons
                    .into_iter()
                    .map(|one| Skipped { what: format!("{shown}: {}", one.what), why: one.why }),
            );
        }
        Err(error) => skip(shown, error.to_string()),
    }
    Ok(())
}

/// Files of events and contacts at a place.
#[derive(Default)]
struct FileList {
    objects: Vec<PathBuf>,
    count: usize,
}

impl FileList {
    fn look(&mut self, path: &Path, depth: usize) {
        self.count += 1;
        // The path itself is the person's own word, and may be a link.
        let about = if depth == 0 { fs::metadata(path) } else { fs::symlink_metadata(path) };
        let Ok(about) = about else { return };
        if self.count > FILES_MAX || depth > DEPTH_MAX {
            return;
        }
        if about.is_file() && holds_objects(path) {
            self.objects.push(path.to_owned());
        }
        if about.is_dir() {
            let mut inner: Vec<_> = fs::read_dir(path)
                .into_iter()
                .flatten()
                .filter_map(|entry| Some(entry.ok()?.path()))
                .collect();
            inner.sort();
            inner.iter().for_each(|path| self.look(path, depth + 1));
        }
    }
}

/// Whether a file is one of events, tasks or contacts, by its first bytes.
fn holds_objects(path: &Path) -> bool {
    let mut start = Vec::new();
    let read = File::open(path).and_then(|file| file.take(64).read_to_end(&mut start));
    let start = start.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&start).trim_ascii_start().to_ascii_uppercase();
    read.is_ok() && (start.starts_with(b"BEGIN:VCALENDAR") || start.starts_with(b"BEGIN:VCARD"))
}

fn print(done: &Done, app: &mut App<'_>) -> anyhow::Result<Exit> {
    let added = done.mails + done.events + done.tasks + done.contacts + done.notes;
    let exit = if added + done.known == 0 { Exit::Failed } else { Exit::Done };
    if app.ui.is_json() {
        app.ui.json(done)?;
        return Ok(exit);
    }
    let counts = [
        (done.mails, "mail"),
        (done.events, "event"),
        (done.tasks, "task"),
        (done.contacts, "contact"),
        (done.notes, "note"),
    ];
    let new: Vec<_> = counts
        .iter()
        .filter(|(number, _)| *number > 0)
        .map(|(number, noun)| count(*number as u64, noun))
        .collect();
    let sign = if exit == Exit::Done { app.ui.paint().good("✓") } else { app.ui.paint().bad("✗") };
    let new = if new.is_empty() { "nothing new".to_owned() } else { new.join(", ") };
    let known = if done.known > 0 {
        format!("; {} there before", count(done.known as u64, "item"))
    } else {
        String::new()
    };
    app.ui.line(format!("{sign} {new}{known}"))?;
    for one in done.skipped.iter().take(SKIPPED_SHOWN) {
        let (what, why) =
            (crate::ui::escape::one_line(&one.what, 200), crate::ui::escape::one_line(&one.why, 200));
        app.ui.note(format!("left out {what}: {why}"))?;
    }
    let more = done.skipped_count.saturating_sub(SKIPPED_SHOWN);
    if more > 0 {
        app.ui.note(format!("… and {more} more; `--json` lists them"))?;
    }
    Ok(exit)
}
