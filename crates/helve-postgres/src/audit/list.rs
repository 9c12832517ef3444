//! Finding calls, of all chains together.

use std::collections::BTreeSet;
use std::io::Write;

use helve_core::CallId;
use helve_ledger::audit::glance::may_fit;
use helve_ledger::audit::query::{Among, AuditQuery, Bounds, ID_END, ID_PREFIX, Prefix, Shown};
use helve_ledger::audit::record::{self, CallRecord};
use helve_ledger::audit::runs::tells_of_a_run;
use helve_ledger::audit::stored::StoredEntry;
use helve_ledger::audit::trail::{Progress, TrailError};
use helve_ledger::chain::Kind;
use jiff::Timestamp;

use crate::error::PostgresError;
use crate::read::{COLUMNS, HEADS, stored};
use crate::server::Readers;
use crate::sql::{limit, params};

/// How many calls are looked at in one go.
const PAGE: usize = 200;

/// How many ids an ambiguous prefix is answered with.
const CANDIDATES_MAX: usize = 10;

/// A call by what its entries are found by.
type Key = (i64, String);

/// Calls that fit, newest first.
pub(super) async fn list(readers: &Readers, query: &AuditQuery) -> Result<Vec<CallRecord>, PostgresError> {
    let Bounds { made_ms, before } = query.bounds();
    let (mut found, mut last) = (Vec::new(), None::<CallId>);
    let mut next: Key = (made_ms.end - 1, before);
    while found.len() < query.limit {
        let page = match query.among {
            Among::Calls => newest(readers, made_ms.start, &next).await?,
            Among::Runs => runs(readers, last.or(query.before), PAGE)
                .await?
                .into_iter()
                .map(|run| (run.made_at_ms(), run.to_string()))
                .collect(),
        };
        let Some(end) = page.last() else { break };
        (next, last) = (end.clone(), end.1.parse().ok());
        let fits = |key: &Key| made_ms.contains(&key.0);
        let (is_last, is_past) = (page.len() < PAGE, end.0 < made_ms.start);
        let page: Vec<Key> = page.into_iter().filter(fits).collect();
        add_fitting(readers, query, &page, &mut found).await?;
        if is_last || is_past {
            break;
        }
    }
    found.truncate(query.limit);
    Ok(found)
}

/// Calls before one, newest first.
async fn newest(readers: &Readers, from_ms: i64, before: &Key) -> Result<Vec<Key>, PostgresError> {
    let page = "SELECT made_ms, call_id FROM helve.entries \
                WHERE made_ms >= $1 AND (made_ms, call_id) < ($2, $3) AND call_id >= $4 AND call_id < $5 \
                GROUP BY made_ms, call_id ORDER BY made_ms DESC, call_id DESC LIMIT $6";
    // The bound on ids is one on times too, as far as it goes.
    let end = (before.0, if before.0 == i64::MAX - 1 { ID_END } else { &*before.1 });
    keys(
        readers.query(page, params![from_ms, end.0, end.1, ID_PREFIX, &*before.1, limit(PAGE)]).await?.iter(),
    )
}

/// Calls after one, oldest first.
async fn oldest(readers: &Readers, after: &Key) -> Result<Vec<Key>, PostgresError> {
    let page = "SELECT made_ms, call_id FROM helve.entries WHERE (made_ms, call_id) > ($1, $2) AND call_id <> '' \
                GROUP BY made_ms, call_id ORDER BY made_ms, call_id LIMIT $3";
    keys(readers.query(page, params![after.0, &*after.1, limit(PAGE)]).await?.iter())
}

fn keys<'r>(rows: impl Iterator<Item = &'r tokio_postgres::Row>) -> Result<Vec<Key>, PostgresError> {
    Ok(rows.map(|row| (row.get(0), row.get(1))).collect())
}

/// The entries of calls, those of each together and in order.
async fn entries(
    readers: &Readers,
    columns: &str,
    calls: &[Key],
) -> Result<Vec<Vec<StoredEntry>>, PostgresError> {
    let entries = format!(
        "SELECT {columns}, asked.place FROM unnest($1::int8[], $2::text[]) WITH ORDINALITY AS asked (ms, call, place) \
         JOIN helve.entries e ON e.made_ms = asked.ms AND e.call_id = asked.call ORDER BY asked.place, e.id"
    );
    let times: Vec<i64> = calls.iter().map(|(ms, _)| *ms).collect();
    let ids: Vec<&str> = calls.iter().map(|(_, id)| &**id).collect();
    let mut found: Vec<Vec<StoredEntry>> = calls.iter().map(|_| Vec::new()).collect();
    for row in readers.query(&entries, params![times, ids]).await? {
        let place = usize::try_from(row.get::<_, i64>(8) - 1).unwrap_or(usize::MAX);
        if let Some(call) = found.get_mut(place) {
            call.push(stored(&row));
        }
    }
    Ok(found)
}

/// Adds the records of the calls that fit. What was said is read of these alone.
async fn add_fitting(
    readers: &Readers,
    query: &AuditQuery,
    calls: &[Key],
    found: &mut Vec<CallRecord>,
) -> Result<(), PostgresError> {
    let heads = entries(readers, HEADS, calls).await?;
    let mut wanted = Vec::new();
    for (key, entries) in calls.iter().zip(&heads) {
        let is_out = query.looks_at_heads() && !may_fit(query, entries);
        if !is_out && record::merge(entries).is_some_and(|record| query.fits(&record)) {
            wanted.push(key.clone());
        }
    }
    wanted.truncate(query.limit.saturating_sub(found.len()));
    found.extend(records(readers, &wanted).await?);
    Ok(())
}

async fn records(readers: &Readers, calls: &[Key]) -> Result<Vec<CallRecord>, PostgresError> {
    let whole = entries(readers, COLUMNS, calls).await?;
    let filled = whole.iter().filter_map(|entries| {
        let mut record = record::merge(entries)?;
        record::fill(&mut record, entries);
        Some(record)
    });
    Ok(filled.collect())
}

/// One call, by the beginning of its id.
pub(super) async fn show(readers: &Readers, id: String) -> Result<Shown, TrailError> {
    let Some(Prefix { text, made_ms }) = Prefix::of(&id) else { return Err(TrailError::NotAnId(id)) };
    let Some(made_ms) = made_ms else { return Ok(Shown::Nothing) };
    let candidates = "SELECT made_ms, call_id FROM helve.entries \
                      WHERE made_ms >= $1 AND made_ms < $2 AND call_id >= $3 AND call_id < $4 \
                      GROUP BY made_ms, call_id ORDER BY made_ms, call_id LIMIT $5";
    let end = format!("{text}~");
    let calls = keys(
        readers
            .query(candidates, params![made_ms.start, made_ms.end, text, end, limit(CANDIDATES_MAX)])
            .await?
            .iter(),
    )?;
    let mut found = records(readers, &calls).await?;
    Ok(match found.len() {
        0 => Shown::Nothing,
        1 => Shown::Call(Box::new(found.remove(0))),
        _ => Shown::Ambiguous(found.iter().map(|record| record.facts.call_id).collect()),
    })
}

/// Writes every call as one line of JSON, oldest first.
pub(super) async fn export(
    readers: &Readers,
    since: Option<Timestamp>,
    mut out: Box<dyn Write + Send>,
    mut progress: Progress,
) -> Result<u64, TrailError> {
    let mut after: Key = (since.map_or(0, |since| since.as_millisecond().max(0)) - 1, ID_END.to_owned());
    let mut calls = 0;
    loop {
        let page = oldest(readers, &after).await?;
        let Some(last) = page.last() else { break };
        after = last.clone();
        for record in records(readers, &page).await? {
            let line = serde_json::to_writer(&mut out, &record).map_err(std::io::Error::from);
            line.and_then(|()| out.write_all(b"\n")).map_err(TrailError::Output)?;
            calls += 1;
            progress(calls);
        }
    }
    out.flush().map_err(TrailError::Output)?;
    Ok(calls)
}

/// Runs that are older than `before`, newest first.
pub(super) async fn runs(
    readers: &Readers,
    before: Option<CallId>,
    max: usize,
) -> Result<Vec<CallId>, PostgresError> {
    let mut found: BTreeSet<CallId> = begun(readers, before, max).await?;
    let end = before.map_or_else(|| ID_END.to_owned(), |id| id.to_string());
    let composed = "SELECT DISTINCT run_id FROM helve.entries WHERE run_id IS NOT NULL AND run_id < $1 \
                    ORDER BY run_id DESC LIMIT $2";
    let rows = readers.query(composed, params![end, limit(max)]).await?;
    found.extend(rows.iter().filter_map(|row| row.get::<_, &str>(0).parse::<CallId>().ok()));
    Ok(found.into_iter().rev().take(max).collect())
}

/// Calls whose own starts and steps tell that they are runs.
async fn begun(
    readers: &Readers,
    before: Option<CallId>,
    max: usize,
) -> Result<BTreeSet<CallId>, PostgresError> {
    let page = "SELECT call_id, kind, head, made_ms FROM helve.entries \
                WHERE run_id IS NULL AND kind IN (0, 6) AND (made_ms, call_id) < ($1, $2) \
                ORDER BY made_ms DESC, call_id DESC LIMIT $3";
    let mut next: Key = before.map_or((i64::MAX, ID_END.to_owned()), |id| (id.made_at_ms(), id.to_string()));
    let mut found = BTreeSet::new();
    while found.len() < max {
        let rows = readers.query(page, params![next.0, &*next.1, limit(PAGE * 4)]).await?;
        for row in &rows {
            let kind = Kind::from_number(row.get::<_, i16>(1).into());
            let call = row.get::<_, &str>(0).parse::<CallId>();
            if tells_of_a_run(kind, row.get::<_, &str>(2).as_bytes()) {
                found.extend(call);
            }
        }
        match rows.last() {
            // The rest of the last call's entries tells nothing more but where none of them told anything.
            Some(last) if rows.len() == PAGE * 4 => next = (last.get(3), last.get(0)),
            Some(_) | None => break,
        }
    }
    Ok(found)
}
