//! Formats of earlier versions, and how a file is brought from one to the next.
//!
//! | format | what it has |
//! |---|---|
//! | 1 | entries and idempotency keys |
//! | 2 | runs, memory and effects; later also approvals, sessions and API keys, under the same number |
//! | 3 | all of these, an entry that vouches for each row that decides, and an index of runs |
//!
//! A file is migrated when it is opened for writing. A copy is put next to it first; then one transaction changes
//! the tables, appends an entry that says from which format to which, and sets the number. So a crash leaves the
//! old file or the new one. Entries are never rewritten: their hashes hold over the step.
//!
//! A process that only reads an older file reads a private copy of it that was migrated; the file stays as it is.
//!
//! To add a format: raise [`schema::VERSION`], add a line to [`MIGRATIONS`] and to the table above, and add a
//! ledger of the format before to `tests/fixtures/formats/`. A table that changes is made anew, not altered,
//! since `verify` compares the text that made it.

mod copy;
mod one_to_two;
mod tail;
mod two_to_three;
mod vouch;

use std::path::Path;
use std::time::Duration;

use helve_core::json::hex;
use jiff::Timestamp;
use rusqlite::{Connection, OptionalExtension, Transaction, TransactionBehavior};
use serde::{Deserialize, Serialize};

use self::tail::Tail;
use crate::anchor::Reading;
use crate::audit::{Head, open_to_read};
use crate::error::StoreError;
use crate::owners;
use crate::quarantine::{self, Quarantine, Standing};
use crate::schema::{self, VERSION};
use helve_ledger::chain::{Kind, Position};

/// How long to wait for a process of an earlier version that is just writing.
const BUSY_TIMEOUT: Duration = Duration::from_secs(30);

/// One step between formats. It changes tables and rows; tables that are missing are made after the last one.
struct Migration {
    from: i64,
    to: i64,
    apply: fn(&Transaction<'_>) -> rusqlite::Result<()>,
}

const MIGRATIONS: [Migration; 2] = [
    Migration { from: 1, to: 2, apply: one_to_two::apply },
    Migration { from: 2, to: 3, apply: two_to_three::apply },
];

/// The head of the entry that tells of a migration.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Migrated {
    at: Timestamp,
    /// The format that all entries before it have.
    pub(crate) from: i64,
    pub(crate) to: i64,
    /// Where the chain stood.
    stood_at: Head,
}

impl Migrated {
    /// What an entry tells that stands after `before`. None: nobody migrated like that.
    pub(crate) fn read(head: &[u8], before: Position) -> Option<Self> {
        let told: Self = serde_json::from_slice(head).ok()?;
        let stood_here = told.stood_at.seq == before.seq && told.stood_at.hash == hex(&before.hash);
        (stood_here && told.from < told.to && told.to <= VERSION).then_some(told)
    }
}

/// Brings the file at `path` to this version's format, where it has an earlier one and is the file that its
/// anchor, which nobody moves meanwhile, knows. `pages_max`: most pages that it may take, 0 for any number.
pub(crate) fn bring_up_to_date(path: &Path, anchor: Reading, pages_max: u32) -> Result<(), StoreError> {
    let sqlite = |source| StoreError::sqlite(path, source);
    let mut db = schema::connect(path, BUSY_TIMEOUT)?;
    let Some(from) = older(&db, path)? else { return Ok(()) };
    let not_migrated = |source| StoreError::NotMigrated {
        path: path.to_owned(),
        found: from,
        known: VERSION,
        source: Box::new(source),
    };
    schema::configure(&db).map_err(sqlite).map_err(not_migrated)?;
    limit_pages(&db, pages_max).map_err(sqlite).map_err(not_migrated)?;
    // From here on nobody else writes; what others wrote is there.
    let tx =
        db.transaction_with_behavior(TransactionBehavior::Immediate).map_err(sqlite).map_err(not_migrated)?;
    let Some(from) = older(&tx, path)? else { return Ok(()) };
    refuse_other(&tx, path, from, anchor)?;
    refuse_disguised(&tx, path, from)?;
    let io = |error| StoreError::io("look who has open", path, error);
    if owners::any_older_alive(path).map_err(io)? {
        return Err(StoreError::OlderInUse { path: path.to_owned(), found: from, known: VERSION });
    }
    let kept = copy::make(&tx, path, from, anchor, pages_max).map_err(not_migrated)?;
    migrate(&tx, from).and_then(|()| tx.commit()).map_err(sqlite).map_err(not_migrated)?;
    tracing::info!(
        path = %path.display(), from, to = VERSION, copy = %kept.display(),
        "the journal was brought to a new format; the copy is as it was"
    );
    Ok(())
}

/// The format of a file that has an earlier one.
fn older(db: &Connection, path: &Path) -> Result<Option<i64>, StoreError> {
    Ok(schema::format(db, path)?.filter(|found| *found < VERSION))
}

/// Refuses a file in quarantine that has an earlier format: this version works only with its own.
pub(crate) fn refuse_older(path: &Path, why: &Quarantine) -> Result<(), StoreError> {
    if !path.exists() {
        return Ok(());
    }
    let db = open_to_read(path).map_err(|source| StoreError::sqlite(path, source))?;
    match older(&db, path)? {
        None => Ok(()),
        Some(found) => {
            let why = Box::new(why.clone());
            Err(StoreError::OlderInQuarantine { path: path.to_owned(), found, why })
        }
    }
}

/// Refuses a file that its anchor does not know: a person looks at it first, as it is.
fn refuse_other(db: &Connection, path: &Path, found: i64, anchor: Reading) -> Result<(), StoreError> {
    let sqlite = |source| StoreError::sqlite(path, source);
    let position = schema::position(db).map_err(sqlite)?;
    let passed = match anchor {
        Reading::At(seen) => schema::passed(db, seen).map_err(sqlite)?,
        Reading::Absent | Reading::Accept | Reading::Damaged => true,
    };
    match quarantine::standing(anchor, position, passed) {
        Standing::Known | Standing::New | Standing::Accepted => Ok(()),
        Standing::Wrong(why) => Err(StoreError::OlderInQuarantine { path: path.to_owned(), found, why }),
    }
}

/// An entry of a later format than the file says, where the file says 1 and where it says 2.
const LATER: [&str; 2] = [
    "SELECT seq FROM entries WHERE kind >= 6 OR kind = 0 AND head ->> 'digest' IS NOT NULL LIMIT 1",
    "SELECT seq FROM entries WHERE kind >= 7 OR kind = 0 AND head ->> 'owner' IS NOT NULL LIMIT 1",
];

/// Refuses a file whose number was lowered: a migration takes rows as it finds them, and here entries vouch for
/// other ones.
fn refuse_disguised(db: &Connection, path: &Path, from: i64) -> Result<(), StoreError> {
    let sqlite = |source| StoreError::sqlite(path, source);
    let later = usize::try_from(from - 1).ok().and_then(|index| LATER.get(index));
    let Some(later) = later else { return Err(StoreError::Foreign(path.to_owned())) };
    match db.query_one(later, [], |row| row.get::<_, i64>(0)).optional().map_err(sqlite)? {
        None => Ok(()),
        Some(seq) => Err(StoreError::DamagedEntry(format!(
            "`{}` says that it has format {from}, and entry {seq} is of a later one: the number was changed",
            path.display()
        ))),
    }
}

fn limit_pages(db: &Connection, pages_max: u32) -> rusqlite::Result<()> {
    match pages_max {
        0 => Ok(()),
        pages => db.pragma_update_and_check(None, "max_page_count", pages, |_| Ok(())),
    }
}

/// Changes tables and rows, and tells of it in the chain.
fn migrate(tx: &Transaction<'_>, from: i64) -> rusqlite::Result<()> {
    let mut format = from;
    for step in MIGRATIONS {
        if step.from == format {
            (step.apply)(tx)?;
            format = step.to;
        }
    }
    schema::create_missing(tx)?;
    let mut tail = Tail::of(tx)?;
    let stood_at = tail.position();
    let at = Timestamp::now();
    let stood_at = Head { seq: stood_at.seq, hash: hex(&stood_at.hash) };
    tail.append(Kind::Migrated, None, &Migrated { at, from, to: format, stood_at })?;
    vouch::for_what_is_open(tx, &mut tail, at)?;
    tx.execute("UPDATE meta SET value = ?1 WHERE name = 'schema_version'", [format]).map(drop)
}

/// A private copy of an older file in this version's format, which is gone once it is closed, and where the chain
/// of the file stands.
pub(crate) fn migrated_copy(db: &Connection) -> rusqlite::Result<(Connection, Position)> {
    let stood_at = schema::position(db)?;
    // Without a name: SQLite keeps it in memory, and in a file that nobody else can open where it is large.
    let mut copy = Connection::open("")?;
    rusqlite::backup::Backup::new(db, &mut copy)?.run_to_completion(1_000, Duration::ZERO, None)?;
    let tx = copy.transaction()?;
    if let Some(from) = schema::version(&tx)? {
        migrate(&tx, from)?;
    }
    tx.commit()?;
    Ok((copy, stood_at))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_earlier_format_leads_to_this_one() {
        for from in 1..VERSION {
            let step = MIGRATIONS.iter().find(|step| step.from == from);
            assert_eq!(step.map(|step| step.to), Some(from + 1), "format {from}");
        }
        assert_eq!(LATER.len() as i64, VERSION - 1, "what tells a later format from each");
    }
}
