//! The audit trail: the journal's read side.
//!
//! Every query opens its own connection that can only read, so that none waits for the
//! writer or for another, and a copy of the file on a read-only disk will do.

mod checkpoint;
mod costs;
mod history;
pub(crate) mod key_file;
mod pruned;
mod query;
mod rows;
mod runs;
mod stretch;
mod trail;
mod verify;

use std::path::{Path, PathBuf};

use helve_core::identity::Key;
pub(crate) use helve_ledger::audit::record::step_kind;
pub(crate) use helve_ledger::audit::stored::Damage;
pub(crate) use helve_ledger::audit::verification::{Head, Problem};
use rusqlite::ffi::SQLITE_IOERR_SHMSIZE;
use rusqlite::{Connection, ErrorCode, OpenFlags};

pub use self::checkpoint::{Checkpoint, CheckpointError, SigningKey, VerifyingKey};
pub(crate) use self::costs::read_spending;
pub(crate) use self::history::{Payloads, read_history};
pub(crate) use self::stretch::{Stretch, check as check_stretch};
pub(crate) use self::verify::CALLS;
use crate::anchor::{self, Reading};
use crate::error::StoreError;
use crate::identity::table as identity;
use crate::{migrations, schema};
use helve_ledger::chain::Position;

/// Reads a journal.
#[derive(Debug, Clone)]
pub struct Audit {
    path: PathBuf,
}

/// A journal, open to be read.
struct Opened {
    db: Connection,
    /// The end of the chain, where this is a copy of a file of an earlier format.
    stood_at: Option<Position>,
}

impl Audit {
    /// Reads the journal at `path`, which must exist. It is not written, not even by SQLite.
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        if path.is_dir() {
            return Err(StoreError::IsDirectory(path.to_owned()));
        }
        let audit = Self::of(path);
        audit.check_exists()?;
        Ok(audit)
    }

    pub(crate) fn of(path: &Path) -> Self {
        Self { path: path.to_owned() }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    fn check_exists(&self) -> Result<(), StoreError> {
        if self.path.exists() { Ok(()) } else { Err(self.absent()) }
    }

    /// A journal that was never made is told from one that was removed.
    fn absent(&self) -> StoreError {
        let path = self.path.clone();
        match anchor::read(&self.path) {
            Ok(Reading::At(Position { seq: entries @ 1.., .. })) => StoreError::Gone { path, entries },
            Ok(Reading::At(_) | Reading::Absent | Reading::Accept | Reading::Damaged) | Err(_) => {
                StoreError::Missing(path)
            }
        }
    }

    /// A connection to read by. A file of an earlier format is read by way of a copy in ours.
    pub(crate) fn connect(&self) -> Result<Connection, StoreError> {
        self.open_any().map(|opened| opened.db)
    }

    fn open_any(&self) -> Result<Opened, StoreError> {
        self.check_exists()?;
        let db = open_to_read(&self.path).map_err(|source| self.error(source))?;
        match schema::format(&db, &self.path)? {
            Some(found) if found < schema::VERSION => {
                let copied = migrations::migrated_copy(&db).map_err(|source| self.error(source))?;
                Ok(Opened { db: copied.0, stood_at: Some(copied.1) })
            }
            Some(_) | None => Ok(Opened { db, stood_at: None }),
        }
    }

    /// The API keys that it has.
    pub fn keys(&self) -> Result<Vec<Key>, StoreError> {
        let db = self.connect()?;
        self.check_filled(&db)?;
        identity::list_vouched(&db).map_err(|source| self.error(source))
    }

    pub(crate) fn error(&self, source: rusqlite::Error) -> StoreError {
        StoreError::sqlite(&self.path, source)
    }
}

pub(crate) fn open_to_read(path: &Path) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let opened = Connection::open_with_flags(path, flags).and_then(ready);
    match opened {
        Err(error) if is_unwritable(&error) && !has_log(path) => {
            // Reading in WAL mode needs a helper file next to the database. Where that cannot be
            // created, on a full disk or a read-only one, nobody else can write either, so the file
            // will not change under us.
            Connection::open_with_flags(immutable_uri(path), flags | OpenFlags::SQLITE_OPEN_URI)
                .and_then(ready)
        }
        other => other,
    }
}

pub(crate) fn ready(db: Connection) -> rusqlite::Result<Connection> {
    db.busy_timeout(std::time::Duration::from_secs(5))?;
    // SQLite opens files late; this makes it.
    db.query_one("SELECT count(*) FROM sqlite_schema", [], |_| Ok(()))?;
    Ok(db)
}

fn is_unwritable(error: &rusqlite::Error) -> bool {
    matches!(error.sqlite_error_code(), Some(ErrorCode::CannotOpen | ErrorCode::ReadOnly))
        || error.sqlite_error().is_some_and(|error| error.extended_code == SQLITE_IOERR_SHMSIZE)
}

pub(crate) fn has_log(path: &Path) -> bool {
    let mut log = path.as_os_str().to_owned();
    log.push("-wal");
    std::fs::metadata(log).is_ok_and(|log| log.len() > 0)
}

pub(crate) fn immutable_uri(path: &Path) -> String {
    let mut uri = "file:".to_owned();
    for character in path.to_string_lossy().chars() {
        match character {
            '%' => uri.push_str("%25"),
            '?' => uri.push_str("%3f"),
            '#' => uri.push_str("%23"),
            other => uri.push(other),
        }
    }
    uri.push_str("?immutable=1");
    uri
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn odd_paths_survive_as_uris() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a?b#c%20.db");
        Connection::open(&path).unwrap().execute_batch("CREATE TABLE t (x)").unwrap();
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI;
        Connection::open_with_flags(immutable_uri(&path), flags).and_then(ready).unwrap();
    }
}
