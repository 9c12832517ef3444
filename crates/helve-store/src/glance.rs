//! A look at a journal that changes nothing, not even a file next to it.

use std::path::Path;

use helve_core::ports::OpenRun;
use jiff::Timestamp;
use rusqlite::{Connection, OpenFlags};

use crate::approvals::table as approvals;
use crate::audit::{has_log, immutable_uri, open_to_read, ready};
use crate::error::StoreError;
use crate::owners::Peers;
use crate::quarantine::Quarantine;
use crate::runs::table as runs;
use crate::schema;

/// Most that is counted.
const COUNT_MAX: usize = 10_000;

/// What can be said of a journal without changing anything in its folder.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Glance {
    /// Why nothing is done with it until a person accepts it.
    pub quarantine: Option<Quarantine>,
    /// Runs that have not ended, oldest first.
    pub open_runs: Vec<OpenRun>,
    /// Questions that are undecided and can still be decided.
    pub pending_approvals: usize,
    /// When the newest call in it was made. None: nothing was ever recorded.
    pub newest_call: Option<Timestamp>,
}

impl Glance {
    /// Looks at the journal at `path`. None: there is none.
    pub fn at(path: &Path) -> Result<Option<Self>, StoreError> {
        if path.is_dir() {
            return Err(StoreError::IsDirectory(path.to_owned()));
        }
        if !path.exists() {
            // One that was removed is told from one that was never made.
            return Ok(Quarantine::of(path)?.map(|quarantine| Self::empty(Some(quarantine))));
        }
        let sqlite = |source| StoreError::sqlite(path, source);
        let db = open(path).map_err(sqlite)?;
        schema::check_version(&db, path)?;
        let quarantine = Quarantine::read(path, &db)?;
        if schema::is_empty(&db).map_err(sqlite)? {
            return Ok(Some(Self::empty(quarantine)));
        }
        let look = || {
            Ok(Self {
                open_runs: runs::list(&db, &Peers::of(path), None, COUNT_MAX)?,
                pending_approvals: approvals::pending(&db, Timestamp::now(), COUNT_MAX)?,
                newest_call: newest_call(&db)?,
                quarantine,
            })
        };
        look().map(Some).map_err(sqlite)
    }

    fn empty(quarantine: Option<Quarantine>) -> Self {
        Self { quarantine, open_runs: Vec::new(), pending_approvals: 0, newest_call: None }
    }
}

fn newest_call(db: &Connection) -> rusqlite::Result<Option<Timestamp>> {
    let made_ms: Option<i64> = db.query_one("SELECT max(made_ms) FROM entries", [], |row| row.get(0))?;
    // Entries without a call have none.
    Ok(made_ms.filter(|made_ms| *made_ms > 0).and_then(|made_ms| Timestamp::from_millisecond(made_ms).ok()))
}

/// Where all is in the database file itself, SQLite is told not to look next to it: else it would make its helper files.
fn open(path: &Path) -> rusqlite::Result<Connection> {
    if has_log(path) {
        return open_to_read(path);
    }
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    Connection::open_with_flags(immutable_uri(path), flags | OpenFlags::SQLITE_OPEN_URI).and_then(ready)
}
