//! A clock that jumps between any two boundaries: an hour back, a day ahead.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use helve::ports::{Clock, Ledger, Runs};
use helve_store::{Store, StoreOptions};
use helve_testkit::{FaultyLedger, ManualClock};
use jiff::SignedDuration;

use super::Place;
use super::driver::{Aftermath, executor, survives_with};
use super::scenario::{Bench, Scenario};
use super::service::{Remote, World};

const JUMPS: [i64; 2] = [-3_600, 86_400];

/// Returns whether there was such a boundary.
fn is_survived(executor: &tokio::runtime::Runtime, scenario: Scenario, jump_s: i64, at: u64) -> bool {
    let (place, world) = (Place::new(), World::default());
    let remote = Remote(world.serve(executor.handle()));
    let clock = Arc::new(ManualClock::default());
    let mut options = StoreOptions::default();
    options.clock = clock.clone();
    let store = Arc::new(Store::open(&place.database(), options).unwrap());
    let passed = Arc::new(AtomicU64::new(0));
    let (jumping, seen) = (clock.clone(), passed.clone());
    let fault = move |_| {
        if seen.fetch_add(1, Ordering::SeqCst) == at {
            jumping.set(jumping.now() + SignedDuration::from_secs(jump_s));
        }
        Ok(())
    };
    let ledger: Arc<dyn Ledger> = Arc::new(FaultyLedger::new(store.clone(), Arc::new(fault)));
    let bench = Bench { ledger, remote, folder: place.0.path(), clock };
    let runtime = bench.runtime(&[scenario]);
    let outcome = executor.block_on(runtime.call(scenario.call(0)));
    assert!(outcome.duration_us < 60_000_000, "it did not take that long: {outcome:?}");
    executor.block_on(check_times(&store, outcome.call_id));
    store.close().unwrap();
    drop((runtime, bench, store));
    let context = format!("a jump of {jump_s} s at {at}");
    Aftermath { context, place: &place, world: &world, executor }.check(scenario, 0, true, &[]);
    passed.load(Ordering::SeqCst) > at
}

/// No call ends before it began, and none seems to have taken as long as the jump.
async fn check_times(store: &Store, run: helve::CallId) {
    for entry in store.history(run).await.unwrap() {
        if let helve::record::Entry::Finished(finished) = entry {
            let took = finished.at.duration_since(finished.facts.received_at);
            assert!(!took.is_negative() && took.as_secs() < 60, "{took:?}: {finished:?}");
        }
    }
}

#[test]
fn a_clock_that_jumps_at_any_boundary_changes_nothing() {
    let executor = executor();
    for scenario in [Scenario::Sequence, Scenario::Undone, Scenario::Cascade] {
        for jump_s in JUMPS {
            let mut at = 0;
            while is_survived(&executor, scenario, jump_s, at) {
                at += 1;
            }
        }
    }
}

#[test]
fn a_process_whose_clock_is_behind_takes_up_what_was_left() {
    survives_with(Scenario::Undone, 40, JUMPS[0]);
}

#[test]
fn a_process_whose_clock_is_ahead_takes_up_what_was_left() {
    survives_with(Scenario::CascadeFails, 16, JUMPS[1]);
}
