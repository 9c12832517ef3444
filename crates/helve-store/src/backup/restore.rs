//! Checking a backup, and putting it in place.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use rusqlite::params;
use serde::Serialize;

use super::make::check_chain;
use super::manifest::{FileMark, KEY, LEDGER, Manifest};
use super::place::{self, Staged};
use super::{Backup, BackupError, Progress, Stage, copy, digest, sync_folder, with_ending};
use crate::anchor::{self, Anchor, Reading};
use crate::audit::{Audit, Head, SigningKey};
use crate::error::StoreError;
use crate::owners::{self, create_folder};
use crate::quarantine::{Quarantine, Trouble};

/// What a place knows that a backup does not.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Comparison {
    /// The last entry that the anchor at the place knows of.
    pub anchor: Option<Head>,
    /// The last entry of the backup.
    pub backup: Option<Head>,
    /// What the backup lacks against that anchor. Absent: nothing, and calls run at once.
    pub lacks: Option<Quarantine>,
    /// How many calls the ledger at the place has entries of that the backup lacks. Absent where it cannot be
    /// read, or has none.
    pub lost_calls: Option<u64>,
}

/// What became of a restore.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Restored {
    /// The file of the ledger that is in place now.
    pub journal: PathBuf,
    /// Where the one that stood there is kept. Absent: there was none.
    pub aside: Option<PathBuf>,
}

impl Backup {
    /// Reads what a backup says of itself. Its files are looked at by [`check`](Self::check).
    pub fn open(folder: &Path) -> Result<Self, BackupError> {
        Ok(Self { folder: folder.to_owned(), manifest: Manifest::read(folder)? })
    }

    /// Compares every file with its digest, and proves the chain.
    pub fn check(&self, mut progress: impl FnMut(Progress)) -> Result<(), BackupError> {
        let mut done = 0;
        for mark in &self.manifest.files {
            let path = mark.path(&self.folder);
            let read = File::open(&path).and_then(|mut file| {
                digest(&mut file, |piece| {
                    done += piece.len() as u64;
                    progress(Stage::Comparing.at(done, self.bytes()));
                    Ok(())
                })
            });
            let (bytes, sha256) = read.map_err(|source| unreadable(mark, &path, source))?;
            mark.check(bytes, &sha256)?;
        }
        let ledger = self.folder.join(LEDGER);
        if check_chain(&ledger, &mut progress)? != self.manifest.head {
            return Err(BackupError::damaged(LEDGER, "its last entry is not the one of the manifest"));
        }
        Ok(())
    }

    /// What the backup lacks against the anchor that stands at a place.
    pub fn compare(&self, journal: &Path) -> Result<Comparison, BackupError> {
        let ledger = self.folder.join(LEDGER);
        let anchor = match anchor::read(journal) {
            Ok(Reading::At(position)) => Head::at(position),
            Ok(Reading::Absent | Reading::Accept | Reading::Damaged) => None,
            Err(source) => return Err(BackupError::io("read the anchor of", journal, source)),
        };
        let lacks = Quarantine::of_copy(&ledger, journal)?;
        let lost_calls = match &lacks {
            Some(Quarantine { trouble: Trouble::Missing { first, .. }, .. }) => calls_from(journal, *first),
            Some(_) | None => None,
        };
        Ok(Comparison { anchor, backup: self.manifest.head.clone(), lacks, lost_calls })
    }

    /// Refuses a place whose ledger is in use, before anybody is asked whether to restore there.
    pub fn check_unused(journal: &Path) -> Result<(), BackupError> {
        match owners::any_alive(journal).map_err(|source| BackupError::io("look at", journal, source))? {
            true => Err(BackupError::InUse(journal.to_owned())),
            false => Ok(()),
        }
    }

    /// Puts the backup in place of the ledger at `journal`, whole or not at all. What stands there is kept
    /// aside, and its anchor stays: a ledger that lacks entries against it is not worked with until a person has
    /// accepted that. Where no anchor is, nobody can tell what was written after the backup, and the same holds.
    pub fn restore(
        &self,
        journal: &Path,
        at: Timestamp,
        mut progress: impl FnMut(Progress),
    ) -> Result<Restored, BackupError> {
        let journal =
            &std::path::absolute(journal).map_err(|error| StoreError::io("find", journal, error))?;
        let failed = |source| BackupError::io("restore", journal, source);
        let folder = journal.parent().unwrap_or(Path::new("/"));
        create_folder(folder).map_err(failed)?;
        // A process that opens the ledger meanwhile waits for this lock.
        let mut anchor = Anchor::open(journal).map_err(failed)?;
        let mut locked = anchor.lock().map_err(failed)?;
        if owners::any_alive(journal).map_err(failed)? {
            return Err(BackupError::InUse(journal.clone()));
        }
        place::finish_locked(journal).map_err(failed)?;
        if locked.read().map_err(failed)? == Reading::Accept {
            // That was said of another journal.
            locked.forget().map_err(failed)?;
        }
        let staged = self.stage(journal, at, &mut progress)?;
        let aside = staged.put_in_place(journal, &mut progress).map_err(failed)?;
        Ok(Restored { journal: journal.clone(), aside })
    }

    /// Copies everything next to the place, where it changes nothing yet.
    fn stage(
        &self,
        journal: &Path,
        at: Timestamp,
        progress: &mut impl FnMut(Progress),
    ) -> Result<Staged, BackupError> {
        let staged =
            Staged::begin(journal, at).map_err(|source| BackupError::io("write next to", journal, source))?;
        let (mut done, total) = (0, self.bytes());
        for mark in &self.manifest.files {
            let mut told = |count| {
                done += count as u64;
                progress(Stage::Copying.at(done, total));
            };
            let from = mark.path(&self.folder);
            let to = match (mark.name.as_str(), mark.former_content()) {
                (_, Some(name)) => {
                    add_former_content(mark, &from, &with_ending(journal, ".backups"), name, &mut told)?;
                    continue;
                }
                (LEDGER, None) => staged.file(""),
                (KEY, None) if !is_there(mark, &SigningKey::path(journal)) => staged.file(".key"),
                // The anchor of a place is never taken from elsewhere.
                _ => continue,
            };
            let (bytes, sha256) =
                copy(&from, &to, &mut told).map_err(|source| BackupError::io("write", &to, source))?;
            mark.check(bytes, &sha256)?;
        }
        Ok(staged)
    }
}

/// Adds the former content of a file, unless it is there. Contents are found by their digest, so more of them do no
/// harm.
fn add_former_content(
    mark: &FileMark,
    from: &Path,
    folder: &Path,
    name: &Path,
    told: &mut impl FnMut(usize),
) -> Result<(), BackupError> {
    let to = folder.join(name);
    let failed = |source| BackupError::io("write", &to, source);
    if is_there(mark, &to) {
        return Ok(());
    }
    create_folder(folder).map_err(failed)?;
    let new = folder.join("tmp-restored");
    match fs::remove_file(&new) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(failed(error)),
        Ok(()) | Err(_) => {}
    }
    let (bytes, sha256) = copy(from, &new, told).map_err(failed)?;
    mark.check(bytes, &sha256)?;
    fs::rename(&new, &to).and_then(|()| sync_folder(folder)).map_err(failed)
}

/// Whether a file is the one of the backup.
fn is_there(mark: &FileMark, path: &Path) -> bool {
    let found = File::open(path).and_then(|mut file| digest(&mut file, |_| Ok(())));
    found.is_ok_and(|(bytes, sha256)| mark.check(bytes, &sha256).is_ok())
}

/// How many calls a ledger has entries of from one on. Nobody misses the figure where it cannot be read.
fn calls_from(journal: &Path, first: i64) -> Option<u64> {
    let db = Audit::open(journal).ok()?.connect().ok()?;
    let count: i64 = db
        .query_one(
            "SELECT count(DISTINCT call_id) FROM entries WHERE seq >= ?1 AND call_id <> ''",
            params![first],
            |row| row.get(0),
        )
        .ok()?;
    u64::try_from(count).ok()
}

fn unreadable(mark: &FileMark, path: &Path, source: io::Error) -> BackupError {
    match source.kind() {
        io::ErrorKind::NotFound => BackupError::damaged(&mark.name, "it is gone"),
        _ => BackupError::io("read", path, source),
    }
}
