//! A journal that is not the one its anchor knows is read, and not worked with.
//!
//! An older copy that was put back still shows runs as open that have ended, approvals as unused that
//! were used, and keys as good that were taken back. Whatever goes on from there does deeds again. So
//! nothing is written, and hence nothing runs, until a person has seen what is missing.

use std::fmt;
use std::path::Path;

use rusqlite::Connection;
use serde::Serialize;

use crate::anchor::{self, Anchor, Reading};
use crate::audit::{Audit, Head, open_to_read};
use crate::error::StoreError;
use crate::writer::Ledger;
use crate::{migrations, schema};
use helve_ledger::chain::Position;

/// Why nothing is done with a journal until a person accepts it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Quarantine {
    /// What is wrong.
    pub trouble: Trouble,
    /// The last entry that the anchor knows of.
    pub anchor: Option<Head>,
    /// The last entry that is there.
    pub found: Option<Head>,
}

/// How a journal differs from its anchor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Trouble {
    /// Entries were written and are gone: the end was cut off, or an older copy was put in place.
    Missing {
        /// The first of them.
        first: i64,
        /// The last that is known of. There may have been more.
        last: i64,
    },
    /// The entry that the anchor knows is another one: a copy was put in place and continued.
    Other {
        /// Its number. From somewhere before it on, entries are missing.
        seq: i64,
    },
    /// There are entries, and no anchor: nobody can tell whether some are missing.
    NoAnchor,
    /// The anchor cannot be read: nobody can tell whether some are missing.
    DamagedAnchor,
}

impl fmt::Display for Quarantine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the journal does not match its anchor: ")?;
        match self.trouble {
            Trouble::Missing { first, last } if first == last => {
                write!(f, "entry {first} was written and is gone")
            }
            Trouble::Missing { first, last } => {
                write!(f, "entries {first} to {last} were written and are gone")
            }
            Trouble::Other { seq } => {
                write!(f, "entry {seq} is not the one that was written, so entries before it are gone too")
            }
            Trouble::NoAnchor => f.write_str("the `.head` file is gone, so entries may be missing"),
            Trouble::DamagedAnchor => f.write_str("the `.head` file is damaged, so entries may be missing"),
        }?;
        f.write_str("; no call runs until you put the files back, or look at it with `helve audit accept`")
    }
}

impl Quarantine {
    /// What is wrong with the journal at `path`, which is not opened for writing. None: it is the one that
    /// its anchor knows, or there is none.
    pub fn of(path: &Path) -> Result<Option<Self>, StoreError> {
        Self::compare(anchor_of(path)?, |seen| Audit::of(path).position(seen))
    }

    /// The same for a database that a process has open.
    pub(crate) fn read(path: &Path, db: &Connection) -> Result<Option<Self>, StoreError> {
        let sqlite = |source| StoreError::sqlite(path, source);
        Self::compare(anchor_of(path)?, |seen| position(db, seen).map_err(sqlite))
    }

    /// What would be wrong with the journal at `copy`, if it stood at `path`, whose anchor it is compared with.
    pub(crate) fn of_copy(copy: &Path, path: &Path) -> Result<Option<Self>, StoreError> {
        let reading = match anchor_of(path)? {
            // A person accepts another journal.
            Reading::Accept => Reading::Absent,
            reading => reading,
        };
        Self::compare(reading, |seen| Audit::of(copy).position(seen))
    }

    /// `reading` comes first: the anchor may lag behind the database, never the other way.
    fn compare(
        reading: Reading,
        position: impl FnOnce(Position) -> Result<(Position, bool), StoreError>,
    ) -> Result<Option<Self>, StoreError> {
        let seen = match reading {
            Reading::At(seen) => seen,
            Reading::Absent | Reading::Accept | Reading::Damaged => Position::START,
        };
        let (found, passed) = position(seen)?;
        Ok(match standing(reading, found, passed) {
            Standing::Wrong(quarantine) => Some(*quarantine),
            Standing::Known | Standing::New | Standing::Accepted => None,
        })
    }
}

fn anchor_of(path: &Path) -> Result<Reading, StoreError> {
    anchor::read(path).map_err(|error| StoreError::io("read the anchor of", path, error))
}

/// What a journal and its anchor say together.
pub(crate) enum Standing {
    /// The journal is the one that the anchor knows.
    Known,
    /// Both are new.
    New,
    /// A person accepts the journal.
    Accepted,
    /// It is not the one that the anchor knows.
    Wrong(Box<Quarantine>),
}

/// Compares a ledger with its anchor, which nobody moves meanwhile, and opens it where it may be worked with. One of
/// an earlier format that its anchor knows is brought up to date first.
///
/// Of one in quarantine nothing is made, changed or kept open: where its file is gone, an empty one with a log of its
/// own would destroy the one that a person puts back.
pub(crate) fn examine(
    closed: &Ledger,
    anchor: &mut Anchor,
    pages_max: u32,
) -> Result<(Option<Ledger>, Standing), StoreError> {
    let path = closed.path();
    let io = |error| StoreError::io("open the files next to", path, error);
    let mut locked = anchor.lock().map_err(io)?;
    let reading = locked.read().map_err(io)?;
    if let Some(why) = Quarantine::compare(reading, |seen| Audit::of(path).position(seen))? {
        migrations::refuse_older(path, &why)?;
        return Ok((None, Standing::Wrong(Box::new(why))));
    }
    schema::create_file(path).map_err(|error| StoreError::io("create", path, error))?;
    migrations::bring_up_to_date(path, reading, pages_max)?;
    let ledger = closed.anew()?;
    // Once more: another file may have been put there since.
    let passed = match reading {
        Reading::At(seen) => ledger.passed(seen)?,
        Reading::Absent | Reading::Accept | Reading::Damaged => true,
    };
    let standing = standing(reading, ledger.position(), passed);
    match standing {
        Standing::New => locked.create(Position::START).map_err(io)?,
        Standing::Known | Standing::Accepted => {}
        Standing::Wrong(_) => return Ok((None, standing)),
    }
    Ok((Some(ledger), standing))
}

/// What an anchor and the end of a chain say together. `passed`: the chain once stood where the anchor says.
pub(crate) fn standing(reading: Reading, found: Position, passed: bool) -> Standing {
    let (trouble, seen) = match reading {
        Reading::Accept => return Standing::Accepted,
        Reading::Absent if found == Position::START => return Standing::New,
        Reading::At(_) if passed => return Standing::Known,
        Reading::At(seen) if found.seq < seen.seq => {
            (Trouble::Missing { first: found.seq + 1, last: seen.seq }, Some(seen))
        }
        Reading::At(seen) => (Trouble::Other { seq: seen.seq }, Some(seen)),
        Reading::Absent => (Trouble::NoAnchor, None),
        Reading::Damaged => (Trouble::DamagedAnchor, None),
    };
    let anchor = seen.and_then(Head::at);
    Standing::Wrong(Box::new(Quarantine { trouble, anchor, found: Head::at(found) }))
}

impl Audit {
    /// How far the chain has come, and whether it once stood at `seen`. A file that is gone has come nowhere.
    fn position(&self, seen: Position) -> Result<(Position, bool), StoreError> {
        if !self.path().exists() {
            return Ok(nowhere(seen));
        }
        // Entries have number and hash in every format.
        let db = open_to_read(self.path()).map_err(|source| self.error(source))?;
        schema::format(&db, self.path())?;
        position(&db, seen).map_err(|source| self.error(source))
    }
}

fn position(db: &Connection, seen: Position) -> rusqlite::Result<(Position, bool)> {
    if schema::is_empty(db)? {
        return Ok(nowhere(seen));
    }
    Ok((schema::position(db)?, schema::passed(db, seen)?))
}

fn nowhere(seen: Position) -> (Position, bool) {
    (Position::START, seen == Position::START)
}
