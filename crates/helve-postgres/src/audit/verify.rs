//! Checking everything: all chains at once, and then what decides against them.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use futures_util::StreamExt as _;
use futures_util::stream;
use helve_ledger::audit::trail::Progress;
use helve_ledger::audit::verification::{Anchored, ChainFound, Concern, Problem, Verification};

use super::{chain, tables};
use crate::error::PostgresError;
use crate::server::Readers;
use crate::sql::params;

/// How many chains are checked at once.
const AT_ONCE: usize = 4;

/// Checks every chain, then the tables against them. Writers go on meanwhile: what they add after a look at the ends is
/// not missed.
pub(super) async fn verify(readers: &Readers, progress: Progress) -> Result<Verification, PostgresError> {
    let writers = chain::writers(readers).await?;
    let (checked, progress) = (AtomicU64::new(0), Mutex::new(progress));
    let count = |more: usize| {
        let so_far = checked.fetch_add(more as u64, Ordering::Relaxed) + more as u64;
        (progress.lock().unwrap_or_else(PoisonError::into_inner))(so_far);
    };
    let mut checks = Vec::with_capacity(writers.len());
    for writer in &writers {
        checks.push(chain::check(readers, writer, &count));
    }
    let found: Vec<_> = stream::iter(checks).buffered(AT_ONCE).collect().await;
    let chains = found.into_iter().collect::<Result<Vec<ChainFound>, _>>()?;

    let broken = chains.iter().find_map(|chain| chain.problem.clone());
    let stray = match broken {
        Some(_) => None,
        None => stray(readers).await?,
    };
    let (concern, first_problem) = match broken.or(stray) {
        Some(problem) => (Some(Concern::Entries), Some(problem)),
        None => tables::check(readers)
            .await?
            .map_or((None, None), |(concern, problem)| (Some(concern), Some(problem))),
    };
    let calls = match first_problem {
        Some(_) => 0,
        None => calls(readers).await?,
    };
    Ok(Verification {
        entries: chains.iter().map(|chain| chain.entries).sum(),
        calls,
        head: None,
        anchored: Anchored::No,
        first_problem,
        concern,
        pruned: None,
        chains,
    })
}

/// Entries of a writer that has no row: its row was removed, or they were added.
async fn stray(readers: &Readers) -> Result<Option<Problem>, PostgresError> {
    let stray = "SELECT e.seq, e.writer FROM helve.entries e \
                 WHERE NOT EXISTS (SELECT 1 FROM helve.writers w WHERE w.id = e.writer) LIMIT 1";
    let found = readers.query_opt(stray, params![]).await?;
    Ok(found.map(|row| {
        let what = format!(
            "there are entries of a writer {} that is not in the table `writers`",
            row.get::<_, i64>(1)
        );
        Problem { seq: Some(row.get(0)), what }
    }))
}

async fn calls(readers: &Readers) -> Result<i64, PostgresError> {
    let calls = "SELECT count(*) FROM (SELECT DISTINCT made_ms, call_id FROM helve.entries WHERE call_id <> '') AS calls";
    Ok(readers.query_opt(calls, params![]).await?.map_or(0, |row| row.get(0)))
}
