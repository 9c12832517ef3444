//! Probes of the runs: whether any waits for a person, or was cut short.

use std::sync::Arc;

use helve::ports::{Approvals as _, Holder};
use helve::runs::{Recovered, TakenUp};
use helve::{ApprovalQuery, ApprovalState};
use helve_store::Store;

use super::Check;
use crate::app::App;
use crate::commands::runs::open_runs;
use crate::config::{Loaded, load};
use crate::ui::count;
use crate::wire;

/// Nothing where every run has ended or is running.
pub(super) fn checks(loaded: &Loaded) -> Vec<Check> {
    // Where the journal cannot be used, another check says so.
    let Some((_, holders)) = open(loaded) else { return Vec::new() };
    let of = |holder| holders.iter().filter(|one| **one == holder).count() as u64;
    let waits = match of(Holder::Person) {
        0 => None,
        waits => {
            let verb = if waits == 1 { "waits" } else { "wait" };
            let found = format!("{} {verb} for a person", count(waits, "run"));
            Some(Check::warning("runs", found, "`helve runs list --waiting` says what for"))
        }
    };
    let left = match of(Holder::Nobody) {
        0 => None,
        left => {
            let verb = if left == 1 { "was" } else { "were" };
            let found = format!("{} {verb} cut short", count(left, "run"));
            Some(Check::warning("runs", found, "`helve runs resume --all` takes up what can be"))
        }
    };
    waits.into_iter().chain(left).chain(questions(loaded)).collect()
}

/// Calls that wait for approval and are no part of a run.
fn questions(loaded: &Loaded) -> Option<Check> {
    const COUNT_MAX: usize = 1_000;
    let store = wire::open_store(loaded).ok()?;
    let mut query = ApprovalQuery::pending();
    query.limit = COUNT_MAX;
    let pending = wire::block_on(async { Ok(store.approvals(query).await?) }).ok()?;
    let now = jiff::Timestamp::now();
    let pending = pending.iter().filter(|one| one.state_at(now) == ApprovalState::Pending).count() as u64;
    let verb = if pending == 1 { "waits" } else { "wait" };
    let found = format!("{} {verb} for approval", count(pending, "call"));
    (pending > 0).then(|| Check::warning("approvals", found, "`helve approvals list` says which"))
}

/// Takes up runs that were cut short, as their tools say, and those that waited for a decision which
/// has been made. Nothing where there are none.
pub(crate) fn recover(app: &App<'_>) -> Option<Check> {
    // What is wrong with configuration, journal or tools is said by the checks that follow.
    let loaded = load(&app.inputs).ok()?;
    let (store, holders) = open(&loaded)?;
    // In quarantine nothing is taken up, and the check of the journal says why.
    if store.quarantine().is_some() {
        return None;
    }
    // One that waits may have been decided meanwhile.
    if !holders.iter().any(|holder| matches!(holder, Holder::Nobody | Holder::Person)) {
        return None;
    }
    let store = Arc::new(store);
    let registry = wire::registry(&loaded).ok()?;
    let runtime = wire::runtime(&loaded, registry, store.clone(), wire::settings(&loaded.config)).ok()?;
    let recovered = wire::block_on(async {
        let recovered = runtime.recover().await;
        runtime.flush_traces(wire::TRACES_WAIT).await;
        Ok(recovered?)
    });
    if let Err(error) = store.close() {
        tracing::error!(%error, "the journal was not closed cleanly");
    }
    match recovered {
        Ok(recovered) => {
            let left = holders.contains(&Holder::Nobody);
            summary(&recovered, if left { "cut short" } else { "waiting, and is decided" })
        }
        Err(error) => {
            let found = format!("runs that were cut short could not be taken up: {error}");
            Some(Check::warning("runs", found, "`helve runs resume --all` tries again"))
        }
    }
}

fn open(loaded: &Loaded) -> Option<(Store, Vec<Holder>)> {
    wire::open_audit(loaded).ok()?.ok()?;
    let store = wire::open_store(loaded).ok()?;
    let open = wire::block_on(async { Ok(open_runs(&store).await?) }).ok()?;
    Some((store, open.into_iter().map(|open| open.holder).collect()))
}

/// What became of runs that were taken up.
fn summary(recovered: &[Recovered], why: &str) -> Option<Check> {
    let of = |fits: fn(&TakenUp) -> bool| recovered.iter().filter(|one| fits(&one.taken_up)).count();
    let done = of(|one| matches!(one, TakenUp::Ended(outcome) if outcome.is_success()));
    let failed = of(|one| matches!(one, TakenUp::Ended(outcome) if !outcome.is_success()));
    let waits = of(|one| matches!(one, TakenUp::Waits(_)));
    let left = of(|one| matches!(one, TakenUp::Failed(_)));
    let became = [
        (done, "finished now"),
        (failed, "ended without success"),
        (waits, "waiting for you"),
        (left, "could not be taken up"),
    ];
    let became: Vec<_> = became
        .iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, what)| format!("{count} {what}"))
        .collect();
    let verb = if recovered.len() == 1 { "was" } else { "were" };
    let found = format!("{} {verb} {why}: {}", count(recovered.len() as u64, "run"), became.join(", "));
    match recovered {
        [] => None,
        _ if failed + waits + left == 0 => Some(Check::good("runs", found)),
        _ => Some(Check::warning("runs", found, "`helve runs list` says what to do next")),
    }
}
