//! Checking one chain: every entry, from the first to the end that its writer's row tells.

use helve_core::CallId;
use helve_ledger::audit::verification::{ChainFound, Head, Problem};
use helve_ledger::chain::{HASH_BYTES, Kind, Link, Position, commit_to};
use tokio_postgres::Row;

use super::PAGE;
use crate::error::PostgresError;
use crate::replica::{Replica, label};
use crate::server::Readers;
use crate::sql::params;

/// One life of a replica, and the end of its chain.
#[derive(Debug, Clone)]
pub(crate) struct Writer {
    pub(crate) id: i64,
    pub(crate) label: String,
    pub(crate) begin: Position,
    pub(crate) end: Position,
}

/// All chains, in the order in which they began.
pub(crate) async fn writers(readers: &Readers) -> Result<Vec<Writer>, PostgresError> {
    let all = "SELECT id, name, epoch, seq, hash FROM helve.writers ORDER BY id";
    readers.query(all, params![]).await?.iter().map(writer).collect()
}

fn writer(row: &Row) -> Result<Writer, PostgresError> {
    let (name, epoch): (&str, i64) = (row.get(1), row.get(2));
    let label = label(name, epoch);
    let hash: &[u8] = row.get(4);
    let hash = hash.try_into();
    let hash =
        hash.map_err(|_| PostgresError::Damaged(format!("the end of the chain of {label} is no digest")))?;
    let begin = Position { seq: 0, hash: Replica::genesis(name, epoch) };
    Ok(Writer { id: row.get(0), label, begin, end: Position { seq: row.get(3), hash } })
}

/// What [`check_link`] reads.
const LINK: &str = "seq, kind, call_id, run_id, head, commitment, hash, made_ms, about, fenced";

const ENTRIES: &str = "
    SELECT seq, kind, call_id, run_id, head, commitment, hash, made_ms, about, fenced, salt, payload,
           payload IS NULL AND EXISTS (SELECT 1 FROM helve.entries x
               WHERE x.made_ms = e.made_ms AND x.call_id = e.call_id AND x.kind = 2 AND x.id > e.id)
    FROM helve.entries e WHERE writer = $1 AND seq > $2 ORDER BY seq LIMIT $3";

/// Checks a chain. `progress` is told after each page how many more entries are sound.
pub(super) async fn check(
    readers: &Readers,
    writer: &Writer,
    mut progress: impl FnMut(usize),
) -> Result<ChainFound, PostgresError> {
    let mut position = writer.begin;
    let mut problem = None;
    while problem.is_none() {
        let page = readers.query(ENTRIES, params![writer.id, position.seq, PAGE]).await?;
        for row in &page {
            match check_entry(row, position) {
                Ok(next) => position = next,
                Err(what) => {
                    problem = Some(Problem { seq: Some(position.seq + 1), what });
                    break;
                }
            }
        }
        progress(page.len());
        if page.len() < usize::try_from(PAGE).unwrap_or(usize::MAX) {
            break;
        }
    }
    let problem = problem.or_else(|| check_end(writer, position));
    Ok(ChainFound {
        writer: writer.label.clone(),
        entries: position.seq,
        head: Head::at(position),
        problem: problem.map(|found| Problem {
            what: format!("in the chain of {}: {}", writer.label, found.what),
            ..found
        }),
    })
}

/// Checks that entries fit the chain from a place in it to its end, but for what was said in them. Inside: what is wrong,
/// in words.
pub(crate) async fn check_links(
    readers: &Readers,
    writer: &Writer,
    begin: Position,
) -> Result<Result<Position, String>, PostgresError> {
    let links =
        format!("SELECT {LINK} FROM helve.entries WHERE writer = $1 AND seq > $2 ORDER BY seq LIMIT $3");
    let mut position = begin;
    loop {
        let page = readers.query(&links, params![writer.id, position.seq, PAGE]).await?;
        for row in &page {
            match check_link(row, position) {
                Ok(next) => position = next,
                Err(what) => {
                    return Ok(Err(format!(
                        "in the chain of {}, at entry {}: {what}",
                        writer.label,
                        position.seq + 1
                    )));
                }
            }
        }
        if page.len() < usize::try_from(PAGE).unwrap_or(usize::MAX) {
            break;
        }
    }
    Ok(match check_end(writer, position) {
        Some(Problem { what, .. }) => Err(format!("in the chain of {}: {what}", writer.label)),
        None => Ok(position),
    })
}

/// The chain may have gone on since its end was read, and not come back.
fn check_end(writer: &Writer, found: Position) -> Option<Problem> {
    let what = match found.seq.cmp(&writer.end.seq) {
        std::cmp::Ordering::Less => {
            format!("entries {} to {} were written and are gone", found.seq + 1, writer.end.seq)
        }
        std::cmp::Ordering::Equal if found.hash != writer.end.hash => {
            "the row of its writer tells another end".to_owned()
        }
        std::cmp::Ordering::Equal | std::cmp::Ordering::Greater => return None,
    };
    Some(Problem { seq: Some(found.seq.min(writer.end.seq) + 1), what })
}

/// The place of the next entry, if that is sound.
fn check_entry(row: &Row, before: Position) -> Result<Position, String> {
    let next = check_link(row, before)?;
    check_payload(row.get(5), row.get(10), row.get(11), row.get(12)).map(|()| next)
}

/// The same without what was said.
fn check_link(row: &Row, before: Position) -> Result<Position, String> {
    let expected = before.seq + 1;
    let (seq, kind): (i64, i16) = (row.get(0), row.get(1));
    if seq != expected {
        return Err(match seq - 1 {
            last if last == expected => format!("entry {expected} is missing"),
            last => format!("entries {expected} to {last} are missing"),
        });
    }
    let kind = Kind::from_number(kind.into()).ok_or("the entry cannot be read: there is no such kind")?;
    let (call_id, run_id, head): (&str, Option<&str>, &str) = (row.get(2), row.get(3), row.get(4));
    let (commitment, hash): (&[u8], &[u8]) = (row.get(5), row.get(6));
    let link = Link {
        kind,
        call_id: call_id.as_bytes(),
        run_id: run_id.map(str::as_bytes),
        head: head.as_bytes(),
        commitment,
    };
    let next = before.next(&link);
    if next.hash.as_slice() != hash {
        return Err(
            "the entry does not fit the chain: it, or the hash before it, was changed, moved or added"
                .to_owned(),
        );
    }
    check_columns(row, call_id, head).map(|()| next)
}

/// Columns by which entries are found must say what the head says.
fn check_columns(row: &Row, call_id: &str, head: &str) -> Result<(), String> {
    let made_ms: i64 = row.get(7);
    if call_id.parse().map_or(0, CallId::made_at_ms) != made_ms {
        return Err("the time by which the entry is found was changed".to_owned());
    }
    let told: serde_json::Value =
        serde_json::from_str(head).map_err(|error| format!("the head cannot be read: {error}"))?;
    let (about, fenced): (Option<&str>, bool) = (row.get(8), row.get(9));
    if told["row"].as_str() != about {
        return Err("the row by which the entry is found was changed".to_owned());
    }
    if told["fenced"].as_bool().unwrap_or(false) != fenced {
        return Err("it was changed whether the entry counts".to_owned());
    }
    Ok(())
}

/// Whether what was said is what was written.
pub(crate) fn check_payload(
    commitment: &[u8],
    salt: Option<&[u8]>,
    payload: Option<&str>,
    is_erased: bool,
) -> Result<(), String> {
    match (commitment.len(), salt, payload) {
        (0, None, None) => Ok(()),
        (0, _, _) => Err("a payload was added".to_owned()),
        (HASH_BYTES, Some(salt), Some(payload)) => {
            match commit_to(salt, payload.as_bytes()).as_slice() == commitment {
                true => Ok(()),
                false => Err("the payload was changed".to_owned()),
            }
        }
        (HASH_BYTES, None, None) if is_erased => Ok(()),
        (HASH_BYTES, None, None) => Err("the payload was removed, and no erasure is recorded".to_owned()),
        _ => Err("the payload or its salt was removed or added".to_owned()),
    }
}
