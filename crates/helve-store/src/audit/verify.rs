//! Checking that nothing was changed, removed, added or cut off.

use helve_core::json::hex;
use rusqlite::{Connection, OptionalExtension, Row, Rows, Statement};
use serde::Serialize;

use super::Audit;
use crate::anchor::{self, Reading};
use crate::chain::{Kind, Link, Position, commit_to};
use crate::error::StoreError;
use crate::keys::{self, KeyError};

/// How often `progress` is told, in entries.
const PROGRESS_EVERY: i64 = 1_000;

/// What a check of the whole journal found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Verification {
    /// How many entries are sound, from the first one on.
    pub entries: i64,
    /// How many calls they are about. Only counted where nothing is wrong.
    pub calls: i64,
    /// The last sound entry.
    pub head: Option<Head>,
    /// Whether the end of the chain was checked too.
    pub anchored: Anchored,
    /// The first thing that is wrong.
    pub first_problem: Option<Problem>,
}

impl Verification {
    /// Whether nothing is wrong.
    pub fn is_sound(&self) -> bool {
        self.first_problem.is_none()
    }
}

/// The last entry of a chain. Whoever keeps it elsewhere can tell later whether it is still there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Head {
    /// Its number.
    pub seq: i64,
    /// Its hash in hexadecimal.
    pub hash: String,
}

/// Whether the chain could be compared with the anchor next to the database.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Anchored {
    /// It was compared.
    Yes,
    /// There is no anchor, so that a cut end would go unnoticed.
    No,
}

/// Something that is wrong with a journal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Problem {
    /// The first entry concerned. Absent: it is not about an entry.
    pub seq: Option<i64>,
    /// What is wrong, in words.
    pub what: String,
}

/// Why a check stopped.
enum Stop {
    /// Something is wrong with the journal.
    Found(Problem),
    /// The journal could not be checked.
    Failed(StoreError),
}

impl Audit {
    /// Checks every entry against the chain, the chain against the anchor, and the file's own
    /// structure. Reads the file twice and keeps little of it in memory. `progress` is told from
    /// time to time how many entries were checked.
    pub fn verify(&self, progress: impl FnMut(i64)) -> Result<Verification, StoreError> {
        // Before the database is looked at: the anchor may lag behind it, never the other way.
        let reading = anchor::read(&self.path)
            .map_err(|error| StoreError::io("read the anchor of", &self.path, error))?;
        let mut walk = Walk { position: Position::START, anchor: reading, calls: 0, progress };
        let first_problem = match self.check(&mut walk) {
            Ok(()) => None,
            Err(Stop::Found(problem)) => Some(problem),
            Err(Stop::Failed(error)) => Some(finding(error, walk.position.seq)?),
        };
        let Position { seq, hash } = walk.position;
        Ok(Verification {
            entries: seq,
            calls: walk.calls,
            head: (seq > 0).then(|| Head { seq, hash: hex(&hash) }),
            anchored: if reading == Reading::Absent { Anchored::No } else { Anchored::Yes },
            first_problem,
        })
    }

    /// The head that the chain had when entry `seq` was its last. Where the chain is sound, an equal
    /// head that was kept elsewhere proves everything up to it.
    pub fn head_at(&self, seq: i64) -> Result<Option<Head>, StoreError> {
        let hash: Option<Vec<u8>> = self
            .connect()?
            .query_one("SELECT hash FROM entries WHERE seq = ?1", [seq], |row| row.get(0))
            .optional()
            .map_err(|source| self.error(source))?;
        Ok(hash.map(|hash| Head { seq, hash: hex(&hash) }))
    }

    fn check<P: FnMut(i64)>(&self, walk: &mut Walk<P>) -> Result<(), Stop> {
        let db = self.connect().map_err(Stop::Failed)?;
        let failed = |source| Stop::Failed(self.error(source));
        // One transaction, so that all of it is about the same moment.
        let db = db.unchecked_transaction().map_err(failed)?;
        self.check_chain(&db, walk)?;
        walk.check_end()?;
        check_structure(&db).map_err(failed)?.map_or(Ok(()), |what| problem(None, what))?;
        match keys::verify(&db) {
            Ok(()) => {}
            Err(KeyError::Damaged(error)) => return problem(None, error.to_string()),
            Err(KeyError::Sqlite(source)) => return Err(failed(source)),
        }
        walk.calls = db
            .query_one("SELECT count(*) FROM (SELECT DISTINCT call_id FROM entries)", [], |row| row.get(0))
            .map_err(failed)?;
        Ok(())
    }

    fn check_chain<P: FnMut(i64)>(&self, db: &Connection, walk: &mut Walk<P>) -> Result<(), Stop> {
        let failed = |source| Stop::Failed(self.error(source));
        let mut select = db
            .prepare(
                "SELECT seq, kind, call_id, hash, commitment, salt, head, payload FROM entries ORDER BY seq",
            )
            .map_err(failed)?;
        let mut erasure = db
            .prepare("SELECT 1 FROM entries WHERE call_id = CAST(?1 AS TEXT) AND kind = 2 AND seq > ?2")
            .map_err(failed)?;
        let mut rows: Rows<'_> = select.query([]).map_err(failed)?;
        while let Some(row) = rows.next().map_err(failed)? {
            walk.check_entry(row, &mut erasure)?;
        }
        Ok(())
    }
}

/// Where the check has come to. `position` is the last entry that is known to be sound.
struct Walk<P> {
    position: Position,
    anchor: Reading,
    calls: i64,
    progress: P,
}

impl<P: FnMut(i64)> Walk<P> {
    fn check_entry(&mut self, row: &Row<'_>, erasure: &mut Statement<'_>) -> Result<(), Stop> {
        let expected = self.position.seq + 1;
        let Ok(entry) = EntryBytes::read(row) else {
            return problem(Some(expected), "the entry cannot be read: it was changed");
        };
        if entry.seq > expected {
            let last = entry.seq - 1;
            return problem(Some(expected), format!("entries {expected} to {last} are missing"));
        }
        if entry.seq < expected {
            return problem(Some(entry.seq), "the entry was added before the first one");
        }
        let next = self.position.next(&entry.link);
        if next.hash != entry.hash {
            return problem(
                Some(expected),
                "the entry does not fit the chain: it, or the hash before it, was changed, moved or added",
            );
        }
        entry.check_payload(erasure).or_else(|what| problem(Some(expected), what))?;
        if let Reading::At(anchor) = self.anchor
            && anchor.seq == next.seq
            && anchor != next
        {
            return problem(
                Some(expected),
                "the entry is not the one that was once written here: an older copy was put in place and continued",
            );
        }
        self.position = next;
        if next.seq % PROGRESS_EVERY == 0 {
            (self.progress)(next.seq);
        }
        Ok(())
    }

    fn check_end(&self) -> Result<(), Stop> {
        let seq = self.position.seq;
        match self.anchor {
            Reading::At(anchor) if anchor.seq > seq => problem(
                Some(seq + 1),
                format!(
                    "entries {} to {} were written and are gone: the end was cut off or an older copy was put \
                     in place (if on purpose, remove the `.head` file)",
                    seq + 1,
                    anchor.seq
                ),
            ),
            Reading::Damaged => problem(None, "the anchor, the `.head` file next to the journal, is damaged"),
            Reading::At(_) | Reading::Absent => Ok(()),
        }
    }
}

/// A row's columns, as the bytes that were hashed.
struct EntryBytes<'a> {
    seq: i64,
    link: Link<'a>,
    hash: &'a [u8],
    salt: Option<&'a [u8]>,
    payload: Option<&'a [u8]>,
}

impl<'a> EntryBytes<'a> {
    fn read(row: &'a Row<'_>) -> Result<Self, Box<dyn std::error::Error>> {
        let kind = Kind::from_number(row.get(1)?).ok_or("no such kind")?;
        let call_id = row.get_ref(2)?.as_bytes()?;
        let commitment = row.get_ref(4)?.as_bytes()?;
        let head = row.get_ref(6)?.as_bytes()?;
        Ok(Self {
            seq: row.get(0)?,
            link: Link { kind, call_id, head, commitment },
            hash: row.get_ref(3)?.as_bytes()?,
            salt: row.get_ref(5)?.as_bytes_or_null()?,
            payload: row.get_ref(7)?.as_bytes_or_null()?,
        })
    }

    fn check_payload(&self, erasure: &mut Statement<'_>) -> Result<(), &'static str> {
        match (self.link.kind, self.salt, self.payload) {
            (Kind::Started | Kind::Finished, Some(salt), Some(payload)) => {
                let sound = commit_to(salt, payload).as_slice() == self.link.commitment;
                if sound { Ok(()) } else { Err("the payload was changed") }
            }
            (Kind::Started | Kind::Finished, None, None) => {
                let recorded = erasure.exists(rusqlite::params![self.link.call_id, self.seq]);
                match recorded {
                    Ok(true) => Ok(()),
                    Ok(false) => Err("the payload was removed, and no erasure is recorded"),
                    Err(_) => Err("the payload is missing, and its erasure cannot be looked up"),
                }
            }
            (Kind::Erased, None, None) => Ok(()),
            (Kind::Started | Kind::Finished | Kind::Erased, _, _) => {
                Err("the payload or its salt was removed or added")
            }
        }
    }
}

/// What SQLite finds wrong with pages and indexes, which the chain does not cover.
fn check_structure(db: &Connection) -> rusqlite::Result<Option<String>> {
    let answer: String = db.query_one("PRAGMA integrity_check(1)", [], |row| row.get(0))?;
    Ok((answer != "ok").then(|| format!("the file's structure is damaged: {answer}")))
}

fn problem<T>(seq: Option<i64>, what: impl Into<String>) -> Result<T, Stop> {
    Err(Stop::Found(Problem { seq, what: what.into() }))
}

/// Damage is a finding; what only keeps us from looking is an error.
fn finding(error: StoreError, sound: i64) -> Result<Problem, StoreError> {
    match &error {
        StoreError::Corrupt { .. }
        | StoreError::NotADatabase { .. }
        | StoreError::Foreign(_)
        | StoreError::Sqlite { .. }
        | StoreError::Unreadable { .. } => Ok(Problem { seq: Some(sound + 1), what: error.chain() }),
        StoreError::IsDirectory(_)
        | StoreError::Missing(_)
        | StoreError::Io { .. }
        | StoreError::ReadOnly { .. }
        | StoreError::Newer { .. }
        | StoreError::Replaced(_)
        | StoreError::DiskFull { .. }
        | StoreError::Busy { .. }
        | StoreError::NotAnId(_)
        | StoreError::Output(_)
        | StoreError::Unwritten { .. }
        | StoreError::Journal(_) => Err(error),
    }
}
