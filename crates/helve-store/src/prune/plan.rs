//! How far a journal can be cut.

use helve_core::CallId;
use jiff::{SignedDuration, Timestamp};
use rusqlite::{Connection, OptionalExtension, params};

use super::{Hold, HoldReason, PrunePlan, Retention, made_ms};
use crate::anchor::{self, Reading};
use helve_ledger::audit::costs::{COST_MARK, begun_from};

use crate::audit::Audit;
use crate::error::StoreError;
use crate::schema;

/// What a row takes besides head and payload: hashes, ids and its place in indexes.
const ROW_BYTES: i64 = 220;

impl Audit {
    /// What would go, and what keeps the rest.
    pub fn prune_plan(&self, retention: &Retention) -> Result<PrunePlan, StoreError> {
        // First: the anchor may lag behind the database, and nothing that it knows of goes.
        let anchored = match anchor::read(self.path()) {
            Ok(Reading::At(position)) => position.seq,
            Ok(Reading::Absent | Reading::Accept | Reading::Damaged) => 0,
            Err(error) => return Err(StoreError::io("read the anchor of", self.path(), error)),
        };
        let db = self.connect()?;
        plan(&db, retention, anchored).map_err(|source| self.error(source))
    }
}

fn plan(db: &Connection, retention: &Retention, anchored: i64) -> rusqlite::Result<PrunePlan> {
    let first: i64 = db.query_one("SELECT ifnull(min(seq), 0) FROM entries", [], |row| row.get(0))?;
    let by_age = retention.before.map(|before| older_than(db, before)).transpose()?.unwrap_or(0);
    let by_size = retention.bytes_max.map(|bytes| beyond(db, bytes)).transpose()?.unwrap_or(0);
    // The last entry stays, and so does what the anchor knows.
    let end = schema::position(db)?.seq.min(anchored) - 1;
    let wanted = by_age.max(by_size).min(end);
    let held = match wanted >= first {
        true => first_that_stays(db, retention)?.filter(|hold| hold.seq <= wanted),
        false => None,
    };
    let last = held.as_ref().map_or(wanted, |hold| hold.seq - 1);
    let bytes: i64 = db.query_one(
        "SELECT ifnull(sum(length(CAST(head AS BLOB)) + ifnull(length(CAST(payload AS BLOB)), 0) + ?2), 0) \
         FROM entries WHERE seq <= ?1",
        params![last, ROW_BYTES],
        |row| row.get(0),
    )?;
    let reads_last = retention.reads_before.map(|before| older_than(db, before)).transpose()?.unwrap_or(0);
    Ok(PrunePlan { first, last, bytes: bytes.unsigned_abs(), reads_last: reads_last.min(end), held })
}

/// The last entry before the first one of a call from `before` on.
fn older_than(db: &Connection, before: Timestamp) -> rusqlite::Result<i64> {
    let younger: Option<i64> =
        db.query_one("SELECT min(seq) FROM entries WHERE made_ms >= ?1", [before.as_millisecond()], |row| {
            row.get(0)
        })?;
    match younger {
        Some(younger) => Ok(younger - 1),
        None => Ok(schema::position(db)?.seq),
    }
}

/// The last of the oldest entries that are too many for a journal of so many bytes.
fn beyond(db: &Connection, bytes_max: u64) -> rusqlite::Result<i64> {
    let number = |sql: &str| db.query_one(sql, [], |row| row.get::<_, i64>(0));
    let pages = number("PRAGMA page_count")? - number("PRAGMA freelist_count")?;
    let too_many = pages * number("PRAGMA page_size")? - i64::try_from(bytes_max).unwrap_or(i64::MAX);
    if too_many <= 0 {
        return Ok(0);
    }
    let mut select = db.prepare(
        "SELECT seq, length(CAST(head AS BLOB)) + ifnull(length(CAST(payload AS BLOB)), 0) + ?1 \
         FROM entries ORDER BY seq",
    )?;
    let mut rows = select.query([ROW_BYTES])?;
    let (mut seq, mut sum) = (0, 0);
    while sum < too_many
        && let Some(row) = rows.next()?
    {
        seq = row.get(0)?;
        sum += row.get::<_, i64>(1)?;
    }
    Ok(seq)
}

/// The first entry that must stay.
fn first_that_stays(db: &Connection, retention: &Retention) -> rusqlite::Result<Option<Hold>> {
    // A caller that repeats a call under its idempotency key gets its answer for a day at least.
    let undo_from = retention.undo_from.min(ago(24));
    let counted = retention.costs_from.map(|since| counted_from(db, since)).transpose()?.flatten();
    let holds = [open_from(db)?, untold_from(db, undo_from)?, undoable_from(db, undo_from)?, counted];
    Ok(holds.into_iter().flatten().min_by_key(|hold| hold.seq))
}

/// The first entry of a run that is open or of a question that can still lead to a call. Looked at again in every
/// transaction that removes entries.
pub(crate) fn open_from(db: &Connection) -> rusqlite::Result<Option<Hold>> {
    let runs = first_of(db, "SELECT run_id, run_id FROM runs", HoldReason::OpenRun)?;
    let questions = first_of(db, "SELECT call_id, id FROM approvals WHERE state < 2", HoldReason::Question)?;
    Ok([runs, questions].into_iter().flatten().min_by_key(|hold| hold.seq))
}

/// The first entry of a run that waited for a person and whose caller was not told how it ended: until then no
/// second run of the same call begins.
fn untold_from(db: &Connection, since: Timestamp) -> rusqlite::Result<Option<Hold>> {
    let since = CallId::first_at(since);
    let select = format!(
        "SELECT call_id, call_id FROM approvals WHERE state = 4 AND CASE WHEN json_valid(body) THEN \
         body ->> '$.told_at' IS NULL AND body ->> '$.used_by' >= '{since}' ELSE 1 END"
    );
    first_of(db, &select, HoldReason::Untold)
}

/// The first end of a call since then that cost something.
fn counted_from(db: &Connection, since: Timestamp) -> rusqlite::Result<Option<Hold>> {
    let mut select = db.prepare(
        "SELECT seq, call_id, head ->> 'at' FROM entries WHERE made_ms >= ?1 AND kind = 1 \
         AND instr(head, ?2) > 0 ORDER BY seq",
    )?;
    let mut rows = select.query(params![begun_from(since).as_millisecond(), COST_MARK])?;
    while let Some(row) = rows.next()? {
        let ended: Option<Timestamp> = row.get::<_, Option<String>>(2)?.and_then(|at| at.parse().ok());
        // One that does not say when stays.
        if ended.is_none_or(|ended| ended >= since) {
            return Ok(Some(Hold { seq: row.get(0)?, of: row.get(1)?, why: HoldReason::Cost }));
        }
    }
    Ok(None)
}

/// The first entry of a call that began since, or ended since, and may have changed the world.
fn undoable_from(db: &Connection, since: Timestamp) -> rusqlite::Result<Option<Hold>> {
    let ms = since.as_millisecond();
    let began: Option<(i64, String)> = db
        .query_one(
            "SELECT seq, call_id FROM entries WHERE made_ms >= ?1 AND kind = 0 ORDER BY seq LIMIT 1",
            [ms],
            |row| Ok((row.get(0)?, row.get(1)?)),
        )
        .optional()?;
    let began = began.map(|(seq, of)| Hold { seq, of, why: HoldReason::Undo });
    // Runs may have waited for long: one that ended since can be undone as one that began since.
    let younger = older_than(db, since)?;
    let ended = first_of(
        db,
        &format!(
            "SELECT call_id, call_id FROM entries AS ended WHERE seq > {younger} AND kind = 1 AND made_ms < {ms} \
             AND run_id IS NULL AND EXISTS (SELECT 1 FROM entries \
             WHERE made_ms = ended.made_ms AND call_id = ended.call_id AND kind = 0)"
        ),
        HoldReason::Undo,
    )?;
    let applied = first_of(
        db,
        &format!(
            "SELECT run_id, run_id FROM effects WHERE call_id >= '{}'",
            CallId::first_at(since.max(ago(30 * 24)))
        ),
        HoldReason::Undo,
    )?;
    Ok([began, ended, applied].into_iter().flatten().min_by_key(|hold| hold.seq))
}

fn ago(hours: i64) -> Timestamp {
    Timestamp::now().saturating_sub(SignedDuration::from_hours(hours)).unwrap_or(Timestamp::UNIX_EPOCH)
}

/// The first entry of all calls, and of the runs, that a query names, each with what to call it.
fn first_of(db: &Connection, select: &str, why: HoldReason) -> rusqlite::Result<Option<Hold>> {
    let mut first = db.prepare_cached(
        "SELECT min(seq) FROM (SELECT seq FROM entries WHERE made_ms = ?1 AND call_id = ?2 \
         UNION ALL SELECT seq FROM entries WHERE run_id = ?2)",
    )?;
    let mut select = db.prepare(select)?;
    let mut rows = select.query([])?;
    let mut found: Option<Hold> = None;
    while let Some(row) = rows.next()? {
        let (call, of): (String, String) = (row.get(0)?, row.get(1)?);
        let seq: Option<i64> = first.query_one(params![made_ms(&call), call], |row| row.get(0))?;
        if let Some(seq) = seq.filter(|seq| found.as_ref().is_none_or(|found| *seq < found.seq)) {
            found = Some(Hold { seq, of, why });
        }
    }
    Ok(found)
}
