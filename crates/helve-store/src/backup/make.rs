//! Making a backup.
//!
//! SQLite's online backup, and not `VACUUM INTO`: it copies pages, so it needs no memory for rows, keeps the file as it
//! is, damage included, which the check then finds, and can tell how far it is. By itself it would begin anew
//! at each write; a read transaction around all of it holds the moment instead. Writers go on
//! meanwhile; only the log next to the database cannot shrink until the copy is made.

use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use jiff::Timestamp;
use rusqlite::backup::StepResult;
use rusqlite::{Connection, OpenFlags};

use super::manifest::{FILES, FORMAT, FileMark, HEAD, KEY, LEDGER, MANIFEST, Manifest};
use super::{Backup, BackupError, Progress, Stage, copy, digest, sync_folder, with_ending};
use crate::anchor::Anchor;
use crate::audit::{Audit, Head, SigningKey, open_to_read};
use crate::error::StoreError;
use crate::owners::create_folder;
use crate::quarantine::Quarantine;
use crate::schema;
use helve_ledger::chain::Position;

/// Pages that are copied between two looks at how far it is.
const PAGES_AT_ONCE: i32 = 256;

/// Pause where a page cannot be copied yet.
const BUSY_PAUSE: Duration = Duration::from_millis(5);

impl Backup {
    /// Copies the ledger at `journal` into the new folder `to`, also while others use it. Everything that was acknowledged
    /// before is in it. Where anything fails, or the process dies, there is no folder of that name.
    pub fn make(
        journal: &Path,
        to: &Path,
        made_at: Timestamp,
        mut progress: impl FnMut(Progress),
    ) -> Result<Self, BackupError> {
        if !journal.exists() {
            return Err(StoreError::Missing(journal.to_owned()).into());
        }
        if to.symlink_metadata().is_ok() {
            return Err(BackupError::Exists(to.to_owned()));
        }
        if let Some(trouble) = Quarantine::of(journal)? {
            return Err(BackupError::Quarantined(Box::new(trouble)));
        }
        let part = Part::begin(to)?;
        let position = copy_ledger(journal, &part.file(LEDGER), &mut progress)?;
        // Former contents after the ledger: an entry that names one was written after it.
        copy_files(journal, &part)?;
        write_anchor(&part.file(LEDGER), position)?;
        let mut files = vec![HEAD.to_owned(), LEDGER.to_owned()];
        files.extend(copy_key(journal, &part)?);
        check_chain(&part.file(LEDGER), &mut progress)?;
        files.extend(former_contents(&part)?);
        let files = mark(&part, files, &mut progress)?;
        let made_by = env!("CARGO_PKG_VERSION").to_owned();
        let manifest = Manifest { format: FORMAT, made_at, made_by, head: Head::at(position), files };
        part.finish(to, &manifest)?;
        Ok(Self { folder: to.to_owned(), manifest })
    }
}

/// Copies the database as it is now, without a log next to it. Returns how far its chain has come.
fn copy_ledger(
    journal: &Path,
    to: &Path,
    progress: &mut impl FnMut(Progress),
) -> Result<Position, BackupError> {
    let reading = |source| StoreError::sqlite(journal, source);
    let from = open_to_read(journal).map_err(reading)?;
    schema::format(&from, journal)?;
    let from = from.unchecked_transaction().map_err(reading)?;
    // The first read begins the transaction: this is the moment.
    let position = schema::position(&from).map_err(reading)?;
    let page_bytes: u32 = from.query_one("PRAGMA page_size", [], |row| row.get(0)).map_err(reading)?;

    let writing = |source| BackupError::Copy { path: to.to_owned(), source };
    schema::create_file(to).map_err(|source| BackupError::io("create", to, source))?;
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let mut into = Connection::open_with_flags(to, flags).map_err(writing)?;
    {
        let copying = rusqlite::backup::Backup::new(&from, &mut into).map_err(writing)?;
        loop {
            let step = copying.step(PAGES_AT_ONCE).map_err(writing)?;
            let far = copying.progress();
            let bytes = |pages: i32| u64::try_from(pages).unwrap_or(0) * u64::from(page_bytes);
            progress(Stage::Copying.at(bytes(far.pagecount - far.remaining), bytes(far.pagecount)));
            match step {
                StepResult::Done => break,
                StepResult::Busy | StepResult::Locked => std::thread::sleep(BUSY_PAUSE),
                _ => {}
            }
        }
    }
    // One file that stands for itself: reading it makes no others.
    into.pragma_update(None, "journal_mode", "delete").map_err(writing)?;
    into.close().map_err(|(_, source)| writing(source))?;
    File::open(to).and_then(|file| file.sync_all()).map_err(|source| BackupError::io("sync", to, source))?;
    Ok(position)
}

fn write_anchor(ledger: &Path, position: Position) -> Result<(), BackupError> {
    let written = Anchor::open(ledger).and_then(|mut anchor| anchor.lock()?.create(position));
    written.map_err(|source| BackupError::io("write the anchor of", ledger, source))
}

/// The name of the key, where there is one.
fn copy_key(journal: &Path, part: &Part) -> Result<Option<String>, BackupError> {
    let key = SigningKey::path(journal);
    match copy(&key, &part.file(KEY), |_| {}) {
        Ok(_) => Ok(Some(KEY.to_owned())),
        Err(error) if error.kind() == io::ErrorKind::NotFound && !key.exists() => {
            fs::remove_file(part.file(KEY)).map_err(|source| BackupError::io("remove", &key, source))?;
            Ok(None)
        }
        Err(source) => Err(BackupError::io("copy", &key, source)),
    }
}

/// Copies the former contents of files.
fn copy_files(journal: &Path, part: &Part) -> Result<(), BackupError> {
    let (from, to) = (with_ending(journal, ".backups"), part.file(FILES));
    let failed = |source| BackupError::io("copy", &from, source);
    let found = match fs::read_dir(&from) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        found => found.map_err(failed)?,
    };
    create_folder(&to).map_err(failed)?;
    for file in found {
        let file = file.map_err(failed)?;
        // What is half written has such a name, and nothing refers to it yet.
        let is_ours = file.file_name().to_str().is_some_and(|name| !name.starts_with("tmp-"));
        if !is_ours || !file.file_type().is_ok_and(|kind| kind.is_file()) {
            continue;
        }
        let copied = to.join(file.file_name());
        match copy(&file.path(), &copied, |_| {}) {
            Ok(_) => {}
            // The oldest make room for others, and then cannot be undone any more.
            Err(error) if error.kind() == io::ErrorKind::NotFound && !file.path().exists() => {
                fs::remove_file(&copied).map_err(failed)?;
            }
            Err(source) => return Err(failed(source)),
        }
    }
    sync_folder(&to).map_err(failed)
}

fn former_contents(part: &Part) -> Result<Vec<String>, BackupError> {
    let folder = part.file(FILES);
    let found = match fs::read_dir(&folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        found => found.map_err(|source| BackupError::io("read", &folder, source))?,
    };
    let mut names: Vec<String> =
        found.flatten().filter_map(|file| Some(format!("{FILES}/{}", file.file_name().to_str()?))).collect();
    names.sort_unstable();
    Ok(names)
}

/// Proves the copy, as `helve audit verify` proves a ledger.
pub(super) fn check_chain(
    ledger: &Path,
    progress: &mut impl FnMut(Progress),
) -> Result<Option<Head>, BackupError> {
    let checked = Audit::of(ledger)
        .verify(|entries| progress(Stage::Checking.at(u64::try_from(entries).unwrap_or(0), 0)))?;
    match checked.first_problem {
        Some(problem) => Err(BackupError::Unsound(problem)),
        None => Ok(checked.head),
    }
}

/// Reads every file as it is on disk now, and marks it.
fn mark(
    part: &Part,
    names: Vec<String>,
    progress: &mut impl FnMut(Progress),
) -> Result<Vec<FileMark>, BackupError> {
    let total = names.len() as u64;
    let mut files = Vec::with_capacity(names.len());
    for name in names {
        let path = part.file(&name);
        let read = File::open(&path).and_then(|mut file| digest(&mut file, |_| Ok(())));
        let (bytes, sha256) = read.map_err(|source| BackupError::io("read", &path, source))?;
        files.push(FileMark { name, bytes, sha256 });
        progress(Stage::Comparing.at(files.len() as u64, total));
    }
    Ok(files)
}

/// A backup in the making, next to where it will be. Its lock tells it from what a killed process left.
struct Part {
    folder: PathBuf,
    lock: Option<File>,
}

const LOCK: &str = "lock";

impl Part {
    fn begin(to: &Path) -> Result<Self, BackupError> {
        let folder = with_ending(to, ".part");
        let failed = |source| BackupError::io("create", &folder, source);
        if let Ok(left) = File::open(folder.join(LOCK)) {
            match left.try_lock() {
                Err(TryLockError::WouldBlock) => return Err(BackupError::Busy(folder)),
                Ok(()) | Err(TryLockError::Error(_)) => {}
            }
        }
        match fs::remove_dir_all(&folder) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(failed(error)),
            Ok(()) | Err(_) => {}
        }
        create_folder(&folder).map_err(failed)?;
        let lock = super::create(&folder.join(LOCK)).map_err(|source| match source.kind() {
            io::ErrorKind::AlreadyExists => BackupError::Busy(folder.clone()),
            _ => failed(source),
        })?;
        lock.lock().map_err(failed)?;
        Ok(Self { folder, lock: Some(lock) })
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// Gives it its name, once all of it is on disk.
    fn finish(mut self, to: &Path, manifest: &Manifest) -> Result<(), BackupError> {
        let failed = |source| BackupError::io("write", &self.file(MANIFEST), source);
        manifest.write(&self.folder).map_err(failed)?;
        fs::remove_file(self.file(LOCK)).map_err(failed)?;
        sync_folder(&self.folder).map_err(failed)?;
        fs::rename(&self.folder, to).map_err(|source| match source.kind() {
            io::ErrorKind::DirectoryNotEmpty | io::ErrorKind::AlreadyExists => {
                BackupError::Exists(to.to_owned())
            }
            _ => BackupError::io("create", to, source),
        })?;
        self.lock = None;
        let parent = to.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        sync_folder(parent).map_err(|source| BackupError::io("sync", parent, source))
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        if self.lock.is_some() {
            // What stays is swept by the next backup of this name.
            let _ = fs::remove_dir_all(&self.folder);
        }
    }
}
