//! Checking that nothing was changed, removed, added or cut off.

use helve_core::CallId;
use helve_core::json::hex;
use rusqlite::{Connection, OptionalExtension, Row, Rows, Statement};

use super::pruned::{self, Gone};
use super::{Audit, Opened, key_file};
use crate::anchor::{self, Reading};
use crate::approvals::table as approvals;
use crate::error::StoreError;
use crate::identity::verify as identity;
use crate::keys::{self, Disagreement, KeyError};
use crate::memory::{effects, values};
use crate::migrations::Migrated;
use crate::runs::table as runs;
use crate::schema;
use crate::sessions::verify as sessions;
use helve_ledger::audit::verification::{Anchored, Concern, Head, Problem, Verification};
use helve_ledger::chain::{Kind, Link, Position, commit_to};

/// How often `progress` is told, in entries.
const PROGRESS_EVERY: i64 = 1_000;

/// How many calls there are. By time, so that never more than one millisecond's are remembered.
pub(crate) const CALLS: &str = "
    SELECT ifnull(sum(calls), 0) FROM (
        SELECT count(DISTINCT call_id) AS calls FROM entries WHERE call_id <> '' GROUP BY made_ms)";

/// Why a check stopped.
enum Stop {
    /// Something is wrong with the journal.
    Found(Concern, Problem),
    /// The journal could not be checked.
    Failed(StoreError),
}

impl Audit {
    /// Checks every entry against the chain, the chain against the anchor, the file's structure and tables, and
    /// whatever decides against the entries: idempotency keys, open runs, questions, rules, API keys, sessions,
    /// memory, what effects would restore, and the key that signs. Reads the file a few times and keeps little of it
    /// in memory: the digests of what is remembered. `progress` is told from time to time how many entries were checked.
    pub fn verify(&self, progress: impl FnMut(i64)) -> Result<Verification, StoreError> {
        // Before the database is looked at: the anchor may lag behind it, never the other way.
        let reading = anchor::read(&self.path)
            .map_err(|error| StoreError::io("read the anchor of", &self.path, error))?;
        let mut walk = Walk {
            position: Position::START,
            stood_at: None,
            anchor: reading,
            unanchored_at: None,
            accepted_at: 0,
            format: None,
            format_1_until: 0,
            least_format: 1,
            gone: Gone::default(),
            calls: 0,
            progress,
        };
        let (concern, first_problem) = match self.check(&mut walk) {
            Ok(()) => (None, None),
            Err(Stop::Found(concern, problem)) => (Some(concern), Some(problem)),
            Err(Stop::Failed(error)) => (Some(Concern::Database), Some(finding(error, walk.position.seq)?)),
        };
        // What stands in a copy after that is the migration's.
        let sound =
            walk.stood_at.filter(|stood_at| stood_at.seq < walk.position.seq).unwrap_or(walk.position);
        Ok(Verification {
            entries: sound.seq,
            calls: walk.calls,
            head: Head::at(sound),
            anchored: if reading == Reading::Absent { Anchored::No } else { Anchored::Yes },
            first_problem,
            concern,
            pruned: walk.gone.cut,
            chains: Vec::new(),
        })
    }

    /// The head that the chain has now.
    pub(super) fn head(&self) -> Result<Option<Head>, StoreError> {
        schema::position(&self.connect()?).map(Head::at).map_err(|source| self.error(source))
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
        let Opened { db, stood_at } = self.open_any().map_err(Stop::Failed)?;
        walk.stood_at = stood_at;
        let failed = |source| Stop::Failed(self.error(source));
        // One transaction, so that all of it is about the same moment.
        let db = db.unchecked_transaction().map_err(failed)?;
        if schema::is_empty(&db).map_err(failed)? {
            walk.check_end()?;
            return Err(Stop::Failed(self.absent()));
        }
        let difference = schema::difference(&db).map_err(failed)?;
        match (self.check_chain(&db, walk), &difference) {
            // Why the entries cannot be read.
            (Err(Stop::Failed(_)), Some(what)) => return problem(Concern::Database, None, what),
            (checked, _) => checked?,
        }
        walk.check_end()?;
        if let Some(what) = check_structure(&db).map_err(failed)?.or(difference) {
            return problem(Concern::Database, None, what);
        }
        match keys::verify(&db, walk.format_1_until) {
            Ok(None) => {}
            Ok(Some(Disagreement { seq, what })) => return problem(Concern::Keys, seq, what),
            Err(KeyError::Damaged(error)) => return problem(Concern::Keys, None, error.to_string()),
            Err(KeyError::Sqlite(source)) => return Err(failed(source)),
        }
        walk.check_anchor()?;
        // After the anchor: where ends were cut off, that is why runs seem open.
        if let Some(Disagreement { seq, what }) = runs::verify(&db, walk.accepted_at).map_err(failed)? {
            return problem(Concern::Runs, seq, what);
        }
        let approvals = first_of([&|| approvals::verify(&db), &|| approvals::verify_rules(&db), &|| {
            approvals::verify_none_is_gone(&db, walk.accepted_at)
        }]);
        if let Some(Disagreement { seq, what }) = approvals.map_err(failed)? {
            return problem(Concern::Approvals, seq, what);
        }
        if let Some(Disagreement { seq, what }) = identity::verify(&db, walk.accepted_at).map_err(failed)? {
            return problem(Concern::ApiKeys, seq, what);
        }
        if let Some(Disagreement { seq, what }) = sessions::verify(&db, walk.accepted_at).map_err(failed)? {
            return problem(Concern::Sessions, seq, what);
        }
        if let Some(Disagreement { seq, what }) = values::verify(&db, walk.accepted_at).map_err(failed)? {
            return problem(Concern::Memory, seq, what);
        }
        if let Some(Disagreement { seq, what }) = effects::verify(&db, walk.accepted_at).map_err(failed)? {
            return problem(Concern::Effects, seq, what);
        }
        if let Some(Disagreement { seq, what }) = key_file::verify(&db, &self.path).map_err(failed)? {
            return problem(Concern::KeyFile, seq, what);
        }
        walk.calls = db.query_one(CALLS, [], |row| row.get(0)).map_err(failed)?;
        Ok(())
    }

    fn check_chain<P: FnMut(i64)>(&self, db: &Connection, walk: &mut Walk<P>) -> Result<(), Stop> {
        let failed = |source| Stop::Failed(self.error(source));
        let mut select = db
            .prepare(
                "SELECT seq, kind, call_id, hash, commitment, salt, head, payload, made_ms, run_id \
                 FROM entries ORDER BY seq",
            )
            .map_err(failed)?;
        let mut erasure = db
            .prepare(
                "SELECT 1 FROM entries \
                 WHERE made_ms = ?1 AND call_id = CAST(?2 AS TEXT) AND kind = 2 AND seq > ?3",
            )
            .map_err(failed)?;
        match pruned::look(db, &self.path).map_err(failed)? {
            Ok((begin, gone)) => (walk.position, walk.format, walk.gone) = (begin, gone.format, gone),
            Err(problem) => return Err(Stop::Found(Concern::Entries, problem)),
        }
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
    /// The end of a file of an earlier format, of which a copy is checked.
    stood_at: Option<Position>,
    anchor: Reading,
    /// The last entry that notes a missing anchor, if nobody has accepted that since.
    unanchored_at: Option<i64>,
    /// The last entry that notes that a person accepted the journal; 0 where there is none.
    accepted_at: i64,
    /// The format of the last entry, which the last migration tells. None: there was no migration yet.
    format: Option<i64>,
    /// The last entry that was written in format 1; 0 where there is none.
    format_1_until: i64,
    /// The least format that has all entries so far.
    least_format: i64,
    /// What was pruned.
    gone: Gone,
    calls: i64,
    progress: P,
}

impl<P: FnMut(i64)> Walk<P> {
    fn check_entry(&mut self, row: &Row<'_>, erasure: &mut Statement<'_>) -> Result<(), Stop> {
        let expected = self.position.seq + 1;
        let Ok(entry) = EntryBytes::read(row) else {
            return wrong(expected, "the entry cannot be read: it was changed");
        };
        if entry.seq > expected {
            return wrong(expected, count(expected, entry.seq - 1, "is missing", "are missing"));
        }
        if entry.seq < expected {
            return wrong(entry.seq, "the entry was added before the first one");
        }
        let next = self.position.next(&entry.link);
        if next.hash != entry.hash {
            return wrong(
                expected,
                "the entry does not fit the chain: it, or the hash before it, was changed, moved or added",
            );
        }
        if !entry.stands_at_its_time() {
            return wrong(expected, "the time by which the entry is found was changed");
        }
        entry.check_payload(erasure, &self.gone).or_else(|what| wrong(expected, what))?;
        if let Reading::At(anchor) = self.anchor
            && anchor.seq == next.seq
            && anchor != next
        {
            return wrong(
                expected,
                "the entry is not the one that was once written here: an older copy was put in place and continued",
            );
        }
        if entry.link.kind == Kind::Migrated {
            self.check_migration(entry.link.head)?;
        }
        self.least_format = self.least_format.max(entry.least_format());
        self.position = next;
        match entry.link.kind {
            Kind::Unanchored => self.unanchored_at = Some(next.seq),
            Kind::Accepted => (self.unanchored_at, self.accepted_at) = (None, next.seq),
            Kind::Started | Kind::Finished | Kind::Erased | Kind::Released | Kind::Step => {}
            Kind::Migrated | Kind::Vouched | Kind::Adopted | Kind::Spent | Kind::Keyed | Kind::Pruned => {}
        }
        if next.seq % PROGRESS_EVERY == 0 {
            (self.progress)(next.seq);
        }
        Ok(())
    }

    /// Notes up to where an earlier format's rules hold. Each migration goes on from the one before it, so that
    /// nobody can claim them for later entries.
    fn check_migration(&mut self, head: &[u8]) -> Result<(), Stop> {
        let seq = self.position.seq + 1;
        match Migrated::read(head, self.position) {
            Some(told) if self.can_be_from(told.from) => {
                if told.from == 1 {
                    self.format_1_until = seq;
                }
                self.format = Some(told.to);
                Ok(())
            }
            Some(_) | None => wrong(seq, "the entry tells of a change of format that nobody made"),
        }
    }

    fn can_be_from(&self, from: i64) -> bool {
        self.format.is_none_or(|format| format == from) && from >= self.least_format
    }

    fn check_end(&self) -> Result<(), Stop> {
        let seq = self.position.seq;
        match self.anchor {
            Reading::At(anchor) if anchor.seq > seq => {
                let gone = count(seq + 1, anchor.seq, "was written and is gone", "were written and are gone");
                wrong(
                    seq + 1,
                    format!(
                        "{gone}: the end was cut off or an older copy was put in place (if on purpose, \
                         {ACCEPT_IT})"
                    ),
                )
            }
            Reading::At(_) | Reading::Absent | Reading::Accept | Reading::Damaged => Ok(()),
        }
    }

    /// Last, because the entries that are there may be sound all the same.
    fn check_anchor(&self) -> Result<(), Stop> {
        let what = match (self.anchor, self.unanchored_at) {
            (Reading::Damaged, _) => format!(
                "the anchor, the `.head` file next to the journal, is damaged; the entries that are there are \
                 sound, but a cut end would go unnoticed; put back a copy of it, or {ACCEPT_IT}"
            ),
            (Reading::Absent, _) if self.position.seq > 0 => format!(
                "the anchor, the `.head` file next to the journal, is missing: a cut end would go unnoticed; \
                 put back a copy of it, or {ACCEPT_IT}"
            ),
            (Reading::At(_), Some(seq)) => format!(
                "the anchor, the `.head` file next to the journal, was missing when entry {seq} was written: \
                 entries before it may have been cut off; if that is known and right, {ACCEPT_IT}"
            ),
            (Reading::Accept, _) => "the journal is to be accepted as it is, which is done when it is next \
                                     opened for writing"
                .to_owned(),
            (Reading::At(_), None) | (Reading::Absent, _) => return Ok(()),
        };
        problem(Concern::Anchor, self.unanchored_at, what)
    }
}

/// One comparison of a table with the chain.
type Comparison<'a> = &'a dyn Fn() -> rusqlite::Result<Option<Disagreement>>;

/// The first difference that any of them finds.
fn first_of<const N: usize>(comparisons: [Comparison<'_>; N]) -> rusqlite::Result<Option<Disagreement>> {
    for compare in comparisons {
        if let Some(found) = compare()? {
            return Ok(Some(found));
        }
    }
    Ok(None)
}

const ACCEPT_IT: &str = "accept it: `helve audit accept`";

/// A row's columns, as the bytes that were hashed.
struct EntryBytes<'a> {
    seq: i64,
    made_ms: i64,
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
            made_ms: row.get(8)?,
            link: Link { kind, call_id, run_id: row.get_ref(9)?.as_bytes_or_null()?, head, commitment },
            hash: row.get_ref(3)?.as_bytes()?,
            salt: row.get_ref(5)?.as_bytes_or_null()?,
            payload: row.get_ref(7)?.as_bytes_or_null()?,
        })
    }

    /// Whether the index leads to it. The chain covers the id, from which the time is taken.
    fn stands_at_its_time(&self) -> bool {
        let id = str::from_utf8(self.link.call_id).ok().and_then(|id| id.parse().ok());
        id.map_or(0, CallId::made_at_ms) == self.made_ms
    }

    /// The first format that had such an entry. Starts say since format 2 which tool it was, and since format 3
    /// who is at the run.
    fn least_format(&self) -> i64 {
        let tells = |name: &[u8]| self.link.head.windows(name.len()).any(|part| part == name);
        match self.link.kind {
            Kind::Started if tells(b"\"owner\":") => 3,
            Kind::Started if tells(b"\"digest\":") => 2,
            Kind::Started | Kind::Finished | Kind::Erased => 1,
            Kind::Released | Kind::Unanchored | Kind::Accepted => 1,
            Kind::Step => 2,
            Kind::Migrated | Kind::Vouched | Kind::Adopted | Kind::Spent | Kind::Keyed | Kind::Pruned => 3,
        }
    }

    fn check_payload(&self, erasure: &mut Statement<'_>, gone: &Gone) -> Result<(), &'static str> {
        // A step may have nothing to say, and then commits to nothing.
        let has_payload = match self.link.kind {
            Kind::Started | Kind::Finished => true,
            Kind::Step => !self.link.commitment.is_empty(),
            Kind::Erased
            | Kind::Released
            | Kind::Unanchored
            | Kind::Accepted
            | Kind::Migrated
            | Kind::Vouched
            | Kind::Adopted
            | Kind::Spent
            | Kind::Keyed
            | Kind::Pruned => false,
        };
        match (has_payload, self.salt, self.payload) {
            (true, Some(salt), Some(payload)) => {
                let sound = commit_to(salt, payload).as_slice() == self.link.commitment;
                if sound { Ok(()) } else { Err("the payload was changed") }
            }
            (true, None, None)
                if gone.covers(self.seq, self.link.kind, self.link.run_id.is_some(), self.link.head) =>
            {
                Ok(())
            }
            (true, None, None) => {
                let recorded = erasure.exists(rusqlite::params![self.made_ms, self.link.call_id, self.seq]);
                match recorded {
                    Ok(true) => Ok(()),
                    Ok(false) => Err("the payload was removed, and no erasure is recorded"),
                    Err(_) => Err("the payload is missing, and its erasure cannot be looked up"),
                }
            }
            (true, _, _) => Err("the payload or its salt was removed or added"),
            (false, None, None) => Ok(()),
            (false, _, _) => Err("a payload was added"),
        }
    }
}

/// What SQLite finds wrong with pages and indexes, which the chain does not cover.
fn check_structure(db: &Connection) -> rusqlite::Result<Option<String>> {
    let answer: String = db.query_one("PRAGMA integrity_check(1)", [], |row| row.get(0))?;
    Ok((answer != "ok").then(|| format!("the file's structure is damaged: {answer}")))
}

fn problem<T>(concern: Concern, seq: Option<i64>, what: impl Into<String>) -> Result<T, Stop> {
    Err(Stop::Found(concern, Problem { seq, what: what.into() }))
}

/// Something is wrong with an entry.
fn wrong<T>(seq: i64, what: impl Into<String>) -> Result<T, Stop> {
    problem(Concern::Entries, Some(seq), what)
}

/// Says of one or several entries what befell them.
fn count(first: i64, last: i64, one: &str, several: &str) -> String {
    if first == last {
        format!("entry {first} {one}")
    } else {
        format!("entries {first} to {last} {several}")
    }
}

/// Damage is a finding; what only keeps us from looking is an error.
fn finding(error: StoreError, sound: i64) -> Result<Problem, StoreError> {
    match &error {
        StoreError::Corrupt { .. }
        | StoreError::NotADatabase { .. }
        | StoreError::Foreign(_)
        | StoreError::DamagedEntry(_)
        | StoreError::Sqlite { .. } => Ok(Problem { seq: Some(sound + 1), what: error.chain() }),
        StoreError::IsDirectory(_)
        | StoreError::Missing(_)
        | StoreError::Gone { .. }
        | StoreError::Io { .. }
        | StoreError::ReadOnly { .. }
        | StoreError::Newer { .. }
        | StoreError::Older { .. }
        | StoreError::OlderInQuarantine { .. }
        | StoreError::NotMigrated { .. }
        | StoreError::Replaced(_)
        | StoreError::Cut { .. }
        | StoreError::DiskFull { .. }
        | StoreError::Busy { .. }
        | StoreError::NotAnId(_)
        | StoreError::Output(_)
        | StoreError::Unwritten { .. }
        | StoreError::Held { .. }
        | StoreError::OlderInUse { .. }
        | StoreError::Journal(_) => Err(error),
    }
}
