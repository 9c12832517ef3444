//! The copy of a file as it was before its format changed: `journal.db.format-2`, with its anchor next to it.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use rusqlite::Connection;

use crate::anchor::{Anchor, Reading};
use crate::audit::open_to_read;
use crate::error::StoreError;
use crate::schema;
use helve_ledger::chain::Position;

/// Most copies of one format that are kept apart.
const COPIES_MAX: usize = 100;

/// Makes the copy, and returns where it stands. `db` holds the lock by which nobody else writes.
///
/// A copy that stands there already is replaced where its chain ends in the same place: an earlier try
/// failed, or it was put back. Any other keeps its name, and the new one takes the next.
pub(super) fn make(
    db: &Connection,
    path: &Path,
    format: i64,
    anchor: Reading,
    pages_max: u32,
) -> Result<PathBuf, StoreError> {
    let position = schema::position(db).map_err(|source| StoreError::sqlite(path, source))?;
    let copy = place(path, format, position)?;
    check_pages(db, path, pages_max)?;
    let new = with_ending(&copy, ".new");
    let made = write(path, &new).and_then(|()| {
        let io = |error| StoreError::io("keep the old format as", &copy, error);
        keep_anchor(&copy, anchor).and_then(|()| std::fs::rename(&new, &copy)).map_err(io)?;
        sync_folder(&copy).map_err(io)
    });
    if made.is_err() {
        // What is left of it is of no use, and takes the space that is wanting.
        let _ = std::fs::remove_file(&new);
    }
    made.map(|()| copy)
}

/// Where the copy may be put.
fn place(path: &Path, format: i64, position: Position) -> Result<PathBuf, StoreError> {
    let is_free = |copy: &PathBuf| {
        let stands_at = || open_to_read(copy).and_then(|db| schema::position(&db));
        !copy.exists() || stands_at().is_ok_and(|stands_at| stands_at == position)
    };
    let endings = (1..=COPIES_MAX).map(|number| match number {
        1 => format!(".format-{format}"),
        number => format!(".format-{format}-{number}"),
    });
    let full = || StoreError::io("keep one more copy of", path, io::ErrorKind::AlreadyExists.into());
    endings.map(|ending| with_ending(path, &ending)).find(is_free).ok_or_else(full)
}

/// The rehearsed disk holds file and copy.
fn check_pages(db: &Connection, path: &Path, pages_max: u32) -> Result<(), StoreError> {
    let pages: u32 = db
        .query_one("PRAGMA page_count", [], |row| row.get(0))
        .map_err(|source| StoreError::sqlite(path, source))?;
    if pages_max > 0 && pages.saturating_mul(2) > pages_max {
        return Err(StoreError::io("copy", path, io::ErrorKind::StorageFull.into()));
    }
    Ok(())
}

/// Writes what the file holds to a new one that only this user may read, and makes sure that it is on disk.
fn write(path: &Path, new: &Path) -> Result<(), StoreError> {
    let io = |error| StoreError::io("copy to", new, error);
    // One that a crash left.
    match std::fs::remove_file(new) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(io(error)),
        Ok(()) | Err(_) => {}
    }
    // SQLite names files by text alone.
    let name = new.to_str().ok_or_else(|| io(io::ErrorKind::InvalidFilename.into()))?;
    let file = private(new).map_err(io)?;
    let source = open_to_read(path).map_err(|source| StoreError::sqlite(path, source))?;
    // SQLite takes an empty file that is there.
    let copied = source.execute("VACUUM INTO ?1", [name]);
    copied.map_err(|error| StoreError::sqlite(new, error))?;
    file.sync_all().map_err(io)
}

fn keep_anchor(copy: &Path, anchor: Reading) -> io::Result<()> {
    let Reading::At(position) = anchor else { return Ok(()) };
    let path = Anchor::path(copy);
    match std::fs::remove_file(&path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        Ok(()) | Err(_) => {}
    }
    let mut file = private(&path)?;
    file.write_all(crate::anchor::line(position).as_bytes())?;
    file.sync_all()
}

fn private(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}

/// On Unix, a new name is safe once its folder is. Elsewhere folders cannot be opened.
fn sync_folder(path: &Path) -> io::Result<()> {
    #[cfg(unix)]
    if let Some(folder) = path.parent() {
        File::open(folder)?.sync_all()?;
    }
    #[cfg(not(unix))]
    let _ = path;
    Ok(())
}

fn with_ending(path: &Path, ending: &str) -> PathBuf {
    let mut path = path.as_os_str().to_owned();
    path.push(ending);
    path.into()
}
