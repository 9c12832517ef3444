//! The table of open runs: which there are, who is at each, and who was asked to stop.
//!
//! The writer keeps it in the same transactions as the entries. Rows change, so the chain does not
//! cover them; but it tells which runs have started and not ended, who is at each and which wait, so that a row
//! that was removed, added or changed is noticed.

use helve_core::CallId;
use helve_core::ports::{Adoption, Holder, OpenRun};
use rusqlite::{Connection, OptionalExtension, Row, params};

use super::story;
use crate::keys::Disagreement;
use crate::owners::{Liveness, Owner, Peers};

/// Nearly empty at most times, and new rows go to its end: a row costs little to add and to remove.
pub(crate) const TABLES: &str = "
CREATE TABLE IF NOT EXISTS runs (
    run_id TEXT PRIMARY KEY,
    owner TEXT NOT NULL,
    state INTEGER NOT NULL,
    cancel_requested INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS runs_to_cancel ON runs (owner) WHERE cancel_requested = 1;
";

/// Whether a process is at a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum State {
    /// Its owner is, while that is alive.
    Running = 0,
    /// It waits for a person.
    Waiting = 1,
}

impl State {
    pub(super) fn of(number: i64) -> Self {
        // A changed number should not keep a run from being looked at.
        if number == Self::Waiting as i64 { Self::Waiting } else { Self::Running }
    }
}

/// What became of a run at the end of its call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Closing {
    /// It was open, or there was none.
    Closed,
    /// Another living process is at it, and will end it.
    Fenced,
}

struct RunRow {
    owner: String,
    state: State,
}

impl RunRow {
    /// Whether another living process is at the run.
    fn is_held_by_others(&self, owner: &Owner) -> bool {
        self.state == State::Running
            && self.owner != owner.id()
            && owner.liveness(&self.owner) == Liveness::Alive
    }
}

/// Whether there are open runs. Asked once a group, so that calls that only read cost nothing.
pub(crate) fn any(db: &Connection) -> rusqlite::Result<bool> {
    db.prepare_cached("SELECT EXISTS (SELECT 1 FROM runs)")?.query_one([], |row| row.get(0))
}

/// Opens a run that this process is at.
pub(crate) fn open(db: &Connection, owner: &Owner, run: &str) -> rusqlite::Result<()> {
    db.prepare_cached("INSERT OR IGNORE INTO runs VALUES (?1, ?2, 0, 0)")?
        .execute(params![run, owner.id()])
        .map(drop)
}

/// Closes a run, unless another living process is at it.
pub(crate) fn close(db: &Connection, owner: &Owner, run: &str) -> rusqlite::Result<Closing> {
    let ours = db
        .prepare_cached("DELETE FROM runs WHERE run_id = ?1 AND (owner = ?2 OR state = 1)")?
        .execute(params![run, owner.id()])?;
    if ours > 0 {
        return Ok(Closing::Closed);
    }
    match find(db, run)? {
        Some(row) if row.is_held_by_others(owner) => Ok(Closing::Fenced),
        Some(_) => remove(db, run).map(|()| Closing::Closed),
        None => Ok(Closing::Closed),
    }
}

/// Whether another process has taken a run over.
///
/// By its row alone, and whether or not the other one lives: who lives is told by files, which can be removed,
/// and a process that wants to go on after a dead one takes the run over first.
pub(crate) fn is_others(db: &Connection, owner: &Owner, run: CallId) -> rusqlite::Result<bool> {
    Ok(find(db, &run.to_string())?.is_some_and(|row| row.owner != owner.id()))
}

/// Whether a run is no longer open, and has an end.
pub(crate) fn has_ended(db: &Connection, run: CallId) -> rusqlite::Result<bool> {
    db.prepare_cached(
        "SELECT 1 FROM entries WHERE made_ms = ?1 AND call_id = ?2 AND kind = 1 \
         AND head ->> 'fenced' IS NULL \
         AND NOT EXISTS (SELECT 1 FROM runs WHERE run_id = ?2) LIMIT 1",
    )?
    .exists(params![run.made_at_ms(), run.to_string()])
}

/// Forgets a run that never ran.
pub(crate) fn remove(db: &Connection, run: &str) -> rusqlite::Result<()> {
    db.prepare_cached("DELETE FROM runs WHERE run_id = ?1")?.execute([run]).map(drop)
}

/// Leaves a run to a person, unless another living process is at it. Returns whether that counts.
pub(crate) fn wait(db: &Connection, owner: &Owner, run: &str) -> rusqlite::Result<bool> {
    match find(db, run)? {
        Some(row) if !row.is_held_by_others(owner) => {
            db.prepare_cached("UPDATE runs SET state = 1 WHERE run_id = ?1")?.execute([run])?;
            Ok(true)
        }
        Some(_) => {
            tracing::error!(run, "a run that another process has taken over should wait; it does not");
            Ok(false)
        }
        None => Ok(true),
    }
}

/// Takes a run over from any holder.
pub(crate) fn take(db: &Connection, owner: &Owner, run: &str) -> rusqlite::Result<()> {
    db.prepare_cached("UPDATE runs SET owner = ?2, state = 0 WHERE run_id = ?1")?
        .execute(params![run, owner.id()])
        .map(drop)
}

/// Whether a run waits for a person.
pub(crate) fn is_waiting(db: &Connection, run: &str) -> rusqlite::Result<bool> {
    find(db, run).map(|row| row.is_some_and(|row| row.state == State::Waiting))
}

/// Takes over a run that nobody is at.
pub(crate) fn adopt(db: &Connection, owner: &Owner, run: &str) -> rusqlite::Result<Adoption> {
    let Some(row) = find(db, run)? else { return Ok(Adoption::NotOpen) };
    if row.state == State::Running && row.owner == owner.id() {
        return Ok(Adoption::Ours);
    }
    if row.is_held_by_others(owner) {
        return Ok(Adoption::Busy);
    }
    take(db, owner, run)?;
    Ok(Adoption::Adopted)
}

/// Whether a run could be asked to stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StopRequest {
    /// It was asked now.
    Now,
    /// It was asked before.
    Before,
    /// There is no such open run.
    NotOpen,
}

/// Asks the process at a run to stop.
pub(crate) fn request_cancel(db: &Connection, run: &str) -> rusqlite::Result<StopRequest> {
    let changed = db
        .prepare_cached("UPDATE runs SET cancel_requested = 1 WHERE run_id = ?1 AND cancel_requested = 0")?
        .execute([run])?;
    Ok(match changed {
        0 if find(db, run)?.is_some() => StopRequest::Before,
        0 => StopRequest::NotOpen,
        _ => StopRequest::Now,
    })
}

/// Forgets rows that name no call: nobody could ever take such a run up, or end it.
pub(crate) fn remove_unreadable(db: &Connection) -> rusqlite::Result<()> {
    let ids: Vec<String> =
        db.prepare("SELECT run_id FROM runs")?.query_map([], |row| row.get(0))?.collect::<Result<_, _>>()?;
    let mut unreadable = ids.iter().filter(|id| id.parse::<CallId>().is_err());
    unreadable.try_for_each(|id| remove(db, id))
}

/// Every open run that no other living process is at.
pub(crate) fn left(db: &Connection, owner: &Owner) -> rusqlite::Result<Vec<CallId>> {
    let mut select = db.prepare("SELECT run_id, owner, state FROM runs")?;
    let mut rows = select.query([])?;
    let mut left = Vec::new();
    while let Some(row) = rows.next()? {
        if !read(row)?.is_held_by_others(owner) {
            left.push(run_id(row)?);
        }
    }
    Ok(left)
}

/// Open runs after `after`, oldest first.
pub(crate) fn list(
    db: &Connection,
    peers: &Peers,
    after: Option<CallId>,
    limit: usize,
) -> rusqlite::Result<Vec<OpenRun>> {
    let after = after.map_or_else(String::new, |run| run.to_string());
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    // Few processes hold many runs, and each is looked at once.
    let mut known = std::collections::HashMap::<String, Holder>::new();
    let mut select = db.prepare_cached(
        "SELECT run_id, owner, state, cancel_requested FROM runs WHERE run_id > ?1 ORDER BY run_id LIMIT ?2",
    )?;
    let mut rows = select.query(params![after, limit])?;
    let mut runs = Vec::new();
    while let Some(row) = rows.next()? {
        let RunRow { owner, state } = read(row)?;
        let holder = match state {
            State::Waiting => Holder::Person,
            State::Running => *known.entry(owner).or_insert_with_key(|owner| holder(peers, owner)),
        };
        runs.push(OpenRun { run: run_id(row)?, holder, cancel_requested: row.get(3)? });
    }
    Ok(runs)
}

fn holder(peers: &Peers, owner: &str) -> Holder {
    match peers.liveness(owner) {
        Liveness::Alive if owner == peers.us() => Holder::Us,
        Liveness::Alive => Holder::Others,
        Liveness::Dead => Holder::Nobody,
    }
}

/// Runs that this process is at and should stop.
pub(crate) fn cancel_requests(db: &Connection, peers: &Peers) -> rusqlite::Result<Vec<CallId>> {
    let flagged: Vec<CallId> = db
        .prepare_cached("SELECT run_id FROM runs WHERE cancel_requested = 1 AND owner = ?1 AND state = 0")?
        .query_map([peers.us()], run_id)?
        .collect::<rusqlite::Result<_>>()?;
    let mut asked = Vec::new();
    for run in flagged {
        if story::was_asked_to_stop(db, run)? {
            asked.push(run);
        }
    }
    Ok(asked)
}

/// Every open run that has an id, with its owner and its state, for a migration to vouch for.
pub(crate) fn all(db: &Connection) -> rusqlite::Result<Vec<(CallId, String, i64)>> {
    let rows: Vec<(String, String, i64)> = db
        .prepare("SELECT run_id, owner, state FROM runs ORDER BY run_id")?
        .query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?
        .collect::<rusqlite::Result<_>>()?;
    Ok(rows.into_iter().filter_map(|(run, owner, state)| Some((run.parse().ok()?, owner, state))).collect())
}

/// Compares runs and chain, which must be sound, both ways. Returns the first difference. What was
/// missing when a person accepted the journal, at entry `accepted_at`, is not missed again.
pub(crate) fn verify(db: &Connection, accepted_at: i64) -> rusqlite::Result<Option<Disagreement>> {
    let mut select = db.prepare("SELECT run_id FROM runs")?;
    let mut story = db.prepare(STORY_OF_RUN)?;
    let mut rows = select.query([])?;
    while let Some(row) = rows.next()? {
        let run: String = row.get(0)?;
        let made_ms = run.parse().map_or(0, CallId::made_at_ms);
        let told = story.query_one(params![made_ms, run], |told| Ok((told.get(0)?, told.get(1)?)))?;
        let (seq, what) = match told {
            (None::<i64>, _) => (None, "it was never started"),
            (Some(_), Some(ended)) => (Some(ended), "it has ended"),
            (Some(started), None) => {
                let differs = run.parse().map_or(Ok(None), |run| story::difference(db, run))?;
                let Some(what) = differs else { continue };
                let what = format!("the row of the run {run} in the table `runs` was changed: {what}");
                return Ok(Some(Disagreement { seq: Some(started), what }));
            }
        };
        let what = format!("the run {run} is open in the table `runs`, and {what}");
        return Ok(Some(Disagreement { seq, what }));
    }
    let missing = db.query_one(MISSING_RUN, [accepted_at], |row| {
        let (seq, run): (i64, String) = (row.get(0)?, row.get(1)?);
        let what =
            format!("the open run {run} was removed from the table `runs`: nobody would take it up again");
        Ok(Disagreement { seq: Some(seq), what })
    });
    missing.optional()
}

/// The start and the end of a run. An end from a process that had lost the run does not count.
const STORY_OF_RUN: &str = "
    SELECT max(seq) FILTER (WHERE kind = 0 AND run_id IS NULL),
           max(seq) FILTER (WHERE kind = 1 AND head ->> 'fenced' IS NULL)
    FROM entries WHERE made_ms = ?1 AND call_id = ?2";

/// A call that gave back its idempotency key never ran, or a later call runs in its place.
const MISSING_RUN: &str = "
    SELECT seq, call_id FROM entries AS started
    WHERE seq > ?1 AND kind = 0 AND run_id IS NULL
      AND NOT EXISTS (SELECT 1 FROM runs WHERE runs.run_id = started.call_id)
      AND NOT EXISTS (SELECT 1 FROM entries
                      WHERE made_ms = started.made_ms AND call_id = started.call_id
                        AND (kind = 3 OR kind = 1 AND head ->> 'fenced' IS NULL))
    ORDER BY seq LIMIT 1";

fn find(db: &Connection, run: &str) -> rusqlite::Result<Option<RunRow>> {
    db.prepare_cached("SELECT run_id, owner, state FROM runs WHERE run_id = ?1")?
        .query_one([run], read)
        .optional()
}

fn read(row: &Row<'_>) -> rusqlite::Result<RunRow> {
    Ok(RunRow { owner: row.get(1)?, state: State::of(row.get(2)?) })
}

fn run_id(row: &Row<'_>) -> rusqlite::Result<CallId> {
    row.get::<_, String>(0)?.parse().map_err(|error| {
        rusqlite::Error::FromSqlConversionFailure(0, rusqlite::types::Type::Text, Box::new(error))
    })
}
