//! Starts of calls: each run that has not ended has its row, and so has each idempotency key that was not given back.

use std::collections::HashMap;

use helve_core::json::hex;
use helve_ledger::audit::query::ID_PREFIX;
use helve_ledger::audit::verification::Concern;
use serde::Deserialize;
use tokio_postgres::Row;

use super::{Difference, difference};
use crate::audit::PAGE;
use crate::error::PostgresError;
use crate::server::Readers;
use crate::sql::params;
use crate::writer;

const STARTS: &str = "
    SELECT e.made_ms, e.call_id, e.seq, e.head,
           EXISTS (SELECT 1 FROM helve.runs r WHERE r.run_id = e.call_id) AS is_open,
           EXISTS (SELECT 1 FROM helve.entries x WHERE x.made_ms = e.made_ms AND x.call_id = e.call_id
                   AND (x.kind = 3 OR x.kind = 1 AND NOT x.fenced)) AS has_ended,
           EXISTS (SELECT 1 FROM helve.entries x WHERE x.made_ms = e.made_ms AND x.call_id = e.call_id
                   AND x.kind = 3) AS gave_back,
           (SELECT k.state FROM helve.keys k WHERE k.call_id = e.call_id LIMIT 1) AS key_state,
           (SELECT encode(k.scoped_key, 'hex') FROM helve.keys k WHERE k.call_id = e.call_id LIMIT 1) AS key
    FROM helve.entries e
    WHERE e.run_id IS NULL AND e.kind IN (0, 6) AND e.kind = 0 AND (e.made_ms, e.call_id) > ($1, $2)
    ORDER BY e.made_ms, e.call_id LIMIT $3";

/// What of a start tells which key it claimed.
#[derive(Deserialize)]
struct StartHead {
    key: Option<String>,
}

/// Compares every start with the tables of runs and keys, and then these with the starts.
pub(super) async fn check(readers: &Readers) -> Result<Option<Difference>, PostgresError> {
    let (mut after_ms, mut after) = (-1_i64, ID_PREFIX.to_owned());
    loop {
        let page = readers.query(STARTS, params![after_ms, &*after, PAGE]).await?;
        if let Some(found) = page.iter().find_map(check_start) {
            return Ok(Some(found));
        }
        let Some(last) = page.last() else { break };
        (after_ms, after) = (last.get(0), last.get(1));
    }
    if let Some(found) = check_runs(readers).await? {
        return Ok(Some(found));
    }
    check_keys(readers).await
}

fn check_start(row: &Row) -> Option<Difference> {
    let (call, seq): (&str, i64) = (row.get(1), row.get(2));
    let (is_open, has_ended, gave_back): (bool, bool, bool) = (row.get(4), row.get(5), row.get(6));
    if has_ended == is_open {
        let what = match is_open {
            true => format!("the run {call} is open in the table `runs`, and it has ended"),
            false => format!(
                "the open run {call} was removed from the table `runs`: nobody would take it up again"
            ),
        };
        return difference(Concern::Runs, Some(seq), what);
    }
    let claimed = serde_json::from_str::<StartHead>(row.get(3)).ok()?.key?;
    let (state, key): (Option<i64>, Option<&str>) = (row.get(7), row.get(8));
    let what = match (key, state) {
        (None, _) if gave_back => return None,
        (None, _) => "was removed: the same call could run twice",
        (Some(key), _) if key != claimed => "is another one than it claimed",
        (Some(_), _) if gave_back => "was given back, and is there again",
        (Some(_), Some(0)) if has_ended => "says that the call is running, and it has ended",
        (Some(_), Some(1 | 2)) if !has_ended => "says that the call has ended, and it has not",
        (Some(_), _) => return None,
    };
    difference(Concern::Keys, Some(seq), format!("the idempotency key of {call} {what}"))
}

/// Rows of runs that never started.
async fn check_runs(readers: &Readers) -> Result<Option<Difference>, PostgresError> {
    // Ids tell the time by which entries are found, and only we can read it.
    let runs = readers.query("SELECT run_id FROM helve.runs ORDER BY run_id", params![]).await?;
    let ids: Vec<&str> = runs.iter().map(|row| row.get(0)).collect();
    let Some(run) = not_started(readers, &ids).await? else { return Ok(None) };
    // It may have ended meanwhile.
    let still = readers.query_opt("SELECT 1 FROM helve.runs WHERE run_id = $1", params![&*run]).await?;
    Ok(still.and_then(|_| {
        difference(
            Concern::Runs,
            None,
            format!("the run {run} is open in the table `runs`, and it was never started"),
        )
    }))
}

/// The first of these calls that no entry says has started.
async fn not_started(readers: &Readers, calls: &[&str]) -> Result<Option<String>, PostgresError> {
    let started = "SELECT asked.id FROM unnest($1::int8[], $2::text[]) AS asked (ms, id) \
                   WHERE NOT EXISTS (SELECT 1 FROM helve.entries e \
                                     WHERE e.made_ms = asked.ms AND e.call_id = asked.id AND e.kind = 0) LIMIT 1";
    for page in calls.chunks(usize::try_from(PAGE).unwrap_or(usize::MAX)) {
        let time = |id: &&str| id.parse().map_or(0, helve_core::CallId::made_at_ms);
        let times: Vec<i64> = page.iter().map(time).collect();
        if let Some(row) = readers.query_opt(started, params![times, page.to_vec()]).await? {
            return Ok(Some(row.get(0)));
        }
    }
    Ok(None)
}

/// Rows of keys whose seal does not fit, or that no call has claimed.
async fn check_keys(readers: &Readers) -> Result<Option<Difference>, PostgresError> {
    let page = format!("{} WHERE scoped_key > $1 ORDER BY scoped_key LIMIT $2", writer::SELECT_KEY_CLAIM);
    let mut after: Vec<u8> = Vec::new();
    loop {
        let rows = readers.query(&page, params![after, PAGE]).await?;
        let Some(last) = rows.last() else { return Ok(None) };
        after = last.get(0);
        let keys: HashMap<&str, String> = rows.iter().map(|row| (row.get(2), hex(row.get(0)))).collect();
        if let Some(row) = rows.iter().find(|row| !writer::key_is_sound(row)) {
            let key = hex(row.get(0));
            let what =
                format!("the idempotency key `{key}` in the table `keys` is damaged: its row was changed");
            return Ok(difference(Concern::Keys, None, what));
        }
        let calls: Vec<&str> = keys.keys().copied().collect();
        if let Some(call) = not_started(readers, &calls).await? {
            let key = keys.get(&*call).cloned().unwrap_or_default();
            let what = format!(
                "the idempotency key `{key}` of {call} is there, and no entry says that the call used it"
            );
            return Ok(difference(Concern::Keys, None, what));
        }
    }
}
