//! Checking the part of the chain that a run lies in, before anybody goes on with the run.
//!
//! Resuming is running again with what the entries tell: a part whose end was removed would be done twice, and
//! changed arguments would be used. So every entry from the run's first one on must be there and fit the chain, and
//! what was said in the run must be what was written. `verify` checks all the rest.

use helve_core::CallId;
use rusqlite::{Connection, OptionalExtension, Row, params};

use crate::schema;
use helve_ledger::chain::{Kind, Link, Position, commit_to};

/// Entries that fit the chain, from one on up to a place in it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Stretch {
    first: i64,
    end: Position,
}

const FIRST: &str = "
    SELECT min(seq) FROM (SELECT seq FROM entries WHERE made_ms = ?1 AND call_id = ?2
                          UNION ALL SELECT seq FROM entries WHERE run_id = ?2)";

// Without what was said: that lies beyond the head, and is not read for other calls.
const LINKS: &str = "
    SELECT seq, kind, call_id, run_id, head, commitment, hash FROM entries WHERE seq > ?1 ORDER BY seq";

const SAID: &str = "
    SELECT seq, kind, commitment, salt, payload,
           EXISTS (SELECT 1 FROM entries AS erased WHERE erased.made_ms = said.made_ms
                   AND erased.call_id = said.call_id AND erased.kind = 2 AND erased.seq > said.seq)
    FROM entries AS said WHERE made_ms = ?1 AND call_id = ?2 OR run_id = ?2";

/// Checks the chain from a run's first entry on, but for what `known` covers, and what was said in the run. Inside: what
/// is wrong, in words.
pub(crate) fn check(
    db: &Connection,
    run: CallId,
    known: Option<Stretch>,
) -> rusqlite::Result<Result<Option<Stretch>, String>> {
    let id = params![run.made_at_ms(), run.to_string()];
    let Some(first) = db.prepare_cached(FIRST)?.query_one(id, |row| row.get::<_, Option<i64>>(0))? else {
        return Ok(Ok(known));
    };
    if let Some(what) = check_said(db, run)? {
        return Ok(Err(what));
    }
    let known = match known {
        Some(known) if known.first <= first && schema::passed(db, known.end)? => Some(known),
        Some(_) | None => None,
    };
    let begin = match known {
        Some(known) => known.end,
        None => before(db, first)?,
    };
    let first = known.map_or(first, |known| known.first);
    Ok(check_links(db, begin)?.map(|end| Some(Stretch { first, end })))
}

/// The place in the chain before an entry. Where the entries before were pruned, nothing is there to go on from, and
/// the entry's own hash is where the check begins.
fn before(db: &Connection, first: i64) -> rusqlite::Result<Position> {
    if first <= 1 {
        return Ok(Position::START);
    }
    let at = |seq: i64| {
        db.prepare_cached("SELECT seq, hash FROM entries WHERE seq = ?1")?
            .query_one([seq], |row| Ok(Position { seq: row.get(0)?, hash: row.get(1)? }))
            .optional()
    };
    match at(first - 1)? {
        Some(position) => Ok(position),
        None => at(first).map(|own| own.unwrap_or(Position::START)),
    }
}

fn check_links(db: &Connection, begin: Position) -> rusqlite::Result<Result<Position, String>> {
    let mut select = db.prepare_cached(LINKS)?;
    let mut rows = select.query([begin.seq])?;
    let mut position = begin;
    while let Some(row) = rows.next()? {
        let expected = position.seq + 1;
        let Ok((seq, next, hash)) = read_link(row, position) else {
            return Ok(Err(format!("entry {expected} cannot be read")));
        };
        if seq != expected {
            return Ok(Err(format!("entry {expected} is missing")));
        }
        if next.hash.as_slice() != hash {
            return Ok(Err(format!("entry {expected} does not fit the chain")));
        }
        position = next;
    }
    Ok(Ok(position))
}

type LinkRead<'a> = (i64, Position, &'a [u8]);

fn read_link<'a>(row: &'a Row<'_>, before: Position) -> Result<LinkRead<'a>, Box<dyn std::error::Error>> {
    let link = Link {
        kind: Kind::from_number(row.get(1)?).ok_or("no such kind")?,
        call_id: row.get_ref(2)?.as_bytes()?,
        run_id: row.get_ref(3)?.as_bytes_or_null()?,
        head: row.get_ref(4)?.as_bytes()?,
        commitment: row.get_ref(5)?.as_bytes()?,
    };
    Ok((row.get(0)?, before.next(&link), row.get_ref(6)?.as_bytes()?))
}

/// What is wrong with what was said in a run.
fn check_said(db: &Connection, run: CallId) -> rusqlite::Result<Option<String>> {
    let mut select = db.prepare_cached(SAID)?;
    let mut rows = select.query(params![run.made_at_ms(), run.to_string()])?;
    while let Some(row) = rows.next()? {
        let seq: i64 = row.get(0)?;
        let (commitment, erased): (Vec<u8>, bool) = (row.get(2)?, row.get(5)?);
        let (salt, payload) = (row.get_ref(3)?.as_bytes_or_null()?, row.get_ref(4)?.as_bytes_or_null()?);
        let is_sound = match (salt, payload) {
            (Some(salt), Some(payload)) => commit_to(salt, payload).as_slice() == commitment,
            (None, None) => commitment.is_empty() || erased,
            (Some(_), None) | (None, Some(_)) => false,
        };
        if !is_sound {
            return Ok(Some(format!("what was said in entry {seq} was changed or removed")));
        }
    }
    Ok(None)
}
