//! Probes of the runs: whether any waits for a person, or was cut short.

use helve::ports::Holder;
use helve::{ApprovalQuery, ApprovalState};
use helve_host::config::Loaded;
use helve_host::wire::{self, OpenLedger};
use helve_store::Glance;

use super::{Check, Purpose};
use crate::blocking::block_on;
use crate::commands::runs::open_runs;
use crate::ui::count;

/// Nothing where every run has ended or is running.
pub(super) fn checks(loaded: &Loaded, purpose: Purpose) -> Vec<Check> {
    // Where the journal cannot be used, another check says so.
    let Some((ledger, holders)) = open(loaded) else { return Vec::new() };
    let pending = pending(&ledger).unwrap_or_default();
    found(&holders, pending, purpose)
}

/// The same from a look that changes nothing.
pub(super) fn look(glance: &Glance) -> Vec<Check> {
    let holders: Vec<_> = glance.open_runs.iter().map(|open| open.holder).collect();
    found(&holders, glance.pending_approvals as u64, Purpose::Look)
}

fn found(holders: &[Holder], pending: u64, purpose: Purpose) -> Vec<Check> {
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
            Some(match purpose {
                Purpose::Serve => Check::good("runs", format!("{found}; resumed now, in the background")),
                Purpose::Look | Purpose::Try => {
                    let fix = "`helve up` resumes what can be, and so does `helve runs resume --all`";
                    Check::warning("runs", found, fix)
                }
            })
        }
    };
    waits.into_iter().chain(left).chain(questions(pending)).collect()
}

/// Calls that wait for approval and are no part of a run.
fn questions(pending: u64) -> Option<Check> {
    let verb = if pending == 1 { "waits" } else { "wait" };
    let found = format!("{} {verb} for approval", count(pending, "call"));
    (pending > 0).then(|| Check::warning("approvals", found, "`helve approvals list` says which"))
}

fn pending(ledger: &OpenLedger) -> Option<u64> {
    const COUNT_MAX: usize = 1_000;
    let mut query = ApprovalQuery::pending();
    query.limit = COUNT_MAX;
    let pending = block_on(async { Ok(ledger.approvals(query).await?) }).ok()?;
    let now = jiff::Timestamp::now();
    Some(pending.iter().filter(|one| one.state_at(now) == ApprovalState::Pending).count() as u64)
}

fn open(loaded: &Loaded) -> Option<(OpenLedger, Vec<Holder>)> {
    wire::open_trail(loaded).ok()?.ok()?;
    let ledger = wire::open_ledger(loaded).ok()?;
    let open = block_on(async { Ok(open_runs(&ledger).await?) }).ok()?;
    Some((ledger, open.into_iter().map(|open| open.holder).collect()))
}
