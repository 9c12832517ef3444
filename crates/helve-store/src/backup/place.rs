//! Putting a ledger in place of another, so that a crash leaves one of them, whole.
//!
//! The new files are copied next to the place first, into `helve.db.restoring/`. Then a file `commit` is written there:
//! from then on the restore happens, even if the process dies, because the process that opens the ledger next finishes it.
//! Each step can be done twice. The old files end up in `helve.db.before/TIME/`.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use jiff::Timestamp;

use super::{Progress, Stage, create, sync_folder, with_ending};
use crate::anchor::Anchor;
use crate::owners::create_folder;

const RESTORING: &str = ".restoring";
const BEFORE: &str = ".before";
const COMMIT: &str = "commit";

/// What stands next to a database and belongs to it alone. A log that is left would be read into the new one.
const LOGS: [&str; 3] = ["-wal", "-shm", "-journal"];

/// What is replaced.
const REPLACED: [&str; 2] = [".key", ""];

/// The ledger that the last restore put aside, where it is still there.
pub(super) fn put_aside(journal: &Path) -> Option<PathBuf> {
    let folders = fs::read_dir(with_ending(journal, BEFORE)).ok()?;
    // Their names are times.
    let last = folders.filter_map(Result::ok).map(|entry| entry.path()).max()?;
    Some(last.join(journal.file_name()?)).filter(|file| file.is_file())
}

/// A ledger next to its place.
pub(super) struct Staged {
    folder: PathBuf,
    /// The name of the folder for what stands at the place.
    aside: String,
}

impl Staged {
    /// Begins with nothing: what a killed process left before it had committed is forgotten.
    pub(super) fn begin(journal: &Path, at: Timestamp) -> io::Result<Self> {
        let folder = with_ending(journal, RESTORING);
        match fs::remove_dir_all(&folder) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            Ok(()) | Err(_) => {}
        }
        create_folder(&folder)?;
        Ok(Self { folder, aside: at.strftime("%Y%m%dT%H%M%S%.3fZ").to_string() })
    }

    /// A file of the ledger, by what stands behind the database's name.
    pub(super) fn file(&self, ending: &str) -> PathBuf {
        self.folder.join(format!("ledger{ending}"))
    }

    /// Puts it in place. Returns where the old one is, if there was one.
    pub(super) fn put_in_place(
        &self,
        journal: &Path,
        progress: &mut impl FnMut(Progress),
    ) -> io::Result<Option<PathBuf>> {
        let commit = self.folder.join(COMMIT);
        let new = with_ending(&commit, ".new");
        let mut file = create(&new)?;
        file.write_all(self.aside.as_bytes())?;
        file.sync_all()?;
        sync_folder(&self.folder)?;
        progress(Stage::Placing.at(0, 5));
        fs::rename(&new, &commit)?;
        sync_folder(&self.folder)?;
        progress(Stage::Placing.at(1, 5));
        self.finish(journal, progress)
    }

    /// The rest, once it is committed. Every step may have been done before.
    fn finish(&self, journal: &Path, progress: &mut impl FnMut(Progress)) -> io::Result<Option<PathBuf>> {
        let folder = journal.parent().unwrap_or(Path::new("/"));
        let aside = with_ending(journal, BEFORE).join(&self.aside);
        let name = journal.file_name().unwrap_or_default();
        let kept = |ending: &str| with_ending(&aside.join(name), ending);
        if self.file("").exists() {
            if journal.exists() {
                create_folder(&aside)?;
                // A copy: the anchor stays where it is, to compare the new ledger with.
                fs::copy(Anchor::path(journal), Anchor::path(&kept("")))?;
            }
            for ending in LOGS {
                move_away(&with_ending(journal, ending), &kept(ending))?;
            }
            // Before the new database is there: after a power cut it must not stand next to the old log.
            sync_folder(folder)?;
        }
        progress(Stage::Placing.at(2, 5));
        for ending in REPLACED {
            self.replace(ending, &with_ending(journal, ending), &kept(ending))?;
            progress(Stage::Placing.at(if ending.is_empty() { 4 } else { 3 }, 5));
        }
        sync_folder(folder)?;
        fs::remove_file(self.folder.join(COMMIT))?;
        // What stays is swept by the next restore.
        let _ = fs::remove_dir_all(&self.folder);
        progress(Stage::Placing.at(5, 5));
        Ok(aside.exists().then_some(aside))
    }

    /// Puts one file in place in one step, and keeps the one that stood there.
    fn replace(&self, ending: &str, place: &Path, kept: &Path) -> io::Result<()> {
        let new = self.file(ending);
        if !new.exists() {
            return Ok(());
        }
        if place.exists() && !kept.exists() {
            if let Some(aside) = kept.parent() {
                create_folder(aside)?;
            }
            // A second name, so that the first is never without a file. Not every file system has such.
            if fs::hard_link(place, kept).is_err() {
                fs::rename(place, kept)?;
            }
        }
        if let Some(aside) = kept.parent().filter(|aside| aside.exists()) {
            sync_folder(aside)?;
        }
        fs::rename(new, place)
    }
}

/// Keeps a log, unless nothing is in it.
fn move_away(log: &Path, to: &Path) -> io::Result<()> {
    let is_empty =
        log.metadata().is_ok_and(|found| found.len() == 0) || log.to_string_lossy().ends_with("-shm");
    if let Some(aside) = to.parent().filter(|_| log.exists() && !is_empty) {
        create_folder(aside)?;
    }
    match if is_empty { fs::remove_file(log) } else { fs::rename(log, to) } {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        moved => moved,
    }
}

/// Finishes a restore that was committed before its process died. Called before a ledger is opened.
pub(crate) fn finish_restore(journal: &Path) -> io::Result<()> {
    if !with_ending(journal, RESTORING).join(COMMIT).exists() {
        return Ok(());
    }
    let mut anchor = Anchor::open(journal)?;
    let _locked = anchor.lock()?;
    finish_locked(journal)
}

/// The same for who holds the anchor's lock, as everybody does who restores.
pub(super) fn finish_locked(journal: &Path) -> io::Result<()> {
    let folder = with_ending(journal, RESTORING);
    let aside = match read_commit(&folder.join(COMMIT)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        aside => aside?,
    };
    tracing::warn!(journal = %journal.display(), "finishing a restore that was cut short");
    Staged { folder, aside }.finish(journal, &mut |_| {}).map(drop)
}

/// The name of the folder for the old files, which leads nowhere else.
fn read_commit(path: &Path) -> io::Result<String> {
    let text = io::read_to_string(io::Read::take(File::open(path)?, 64))?;
    let is_time = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'.');
    match is_time && !text.contains("..") && text != "." {
        true => Ok(text),
        false => Err(io::Error::new(io::ErrorKind::InvalidData, "the restore that was cut short is damaged")),
    }
}
