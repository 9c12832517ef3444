//! Writes that are refused in the middle of a run: a disk that is full with and without a reserve,
//! one that can no longer be written at all, and single failures.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use helve::ports::{Clock, JournalError, Ledger, SystemClock};
use helve_store::{Store, StoreOptions};
use helve_testkit::{Boundary, FaultyLedger};

use super::Place;
use super::child::{Report, recover};
use super::driver::{Aftermath, executor};
use super::scenario::{Bench, Scenario};
use super::service::{Remote, World};

/// What goes wrong from a boundary on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Trouble {
    /// The disk is full; what has happened still fits into the reserve.
    Full,
    /// The disk is full, and there is no reserve.
    FullWithoutReserve,
    /// Nothing can be written any more.
    ReadOnly,
    /// One write fails, and the next one works again. At a boundary after the write, it is on disk
    /// and told to have failed.
    Hiccup,
}

/// Who resumes what was left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum By {
    /// The next process.
    Another,
    /// The same one, once there is room again.
    Itself,
}

fn survives(scenario: Scenario, trouble: Trouble, by: By) {
    let executor = executor();
    let mut at = 0;
    while is_survived(&executor, scenario, trouble, by, at) {
        at += 1;
    }
    assert!(at > 8, "only {at} boundaries were tried");
}

/// Returns whether there was such a boundary.
fn is_survived(
    executor: &tokio::runtime::Runtime,
    scenario: Scenario,
    trouble: Trouble,
    by: By,
    at: u64,
) -> bool {
    let (place, world) = (Place::new(), World::default());
    let remote = Remote(world.serve(executor.handle()));
    let mut options = StoreOptions::default();
    if trouble == Trouble::FullWithoutReserve {
        options.reserve_bytes = 0;
    }
    let store = Arc::new(Store::open(&place.database(), options).unwrap());
    let passed = Arc::new(AtomicU64::new(0));
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let faulty = troubled(&store, trouble, at, Arc::clone(&passed));
    let bench = Bench { ledger: faulty, remote, folder: place.0.path(), clock };
    let runtime = bench.runtime(&[scenario]);
    let outcome = executor.block_on(runtime.call(scenario.call(0)));
    let happened = passed.load(Ordering::SeqCst) > at;
    let was_told = Report::of_outcome(&outcome);
    // There is room again, and everything can be written.
    passed.store(u64::MAX / 2, Ordering::SeqCst);
    store.limit_pages(None);
    executor.block_on(async {
        while helve::ports::Journal::check(&*store).is_err() {
            let _ = helve::ports::Journal::flush(&*store).await;
        }
    });
    let mut reports = vec![was_told];
    let began = store_has_begun(executor, &store);
    if by == By::Itself {
        reports.extend(executor.block_on(recover(&runtime, &*bench.ledger, remote)));
    }
    // The process goes.
    store.close().unwrap();
    drop((runtime, bench, store));
    if by == By::Another {
        let ledger: Arc<dyn Ledger> = Arc::new(place.open());
        let bench = Bench { ledger, remote, folder: place.0.path(), clock: Arc::new(SystemClock) };
        let runtime = bench.runtime(&[scenario]);
        reports.extend(executor.block_on(recover(&runtime, &*bench.ledger, remote)));
    }
    let context = format!("{scenario:?}: {trouble:?} at {at}, resumed by {by:?}");
    let aftermath = Aftermath { context, place: &place, world: &world, executor };
    // A run whose start was refused has ended, and has done nothing.
    let began = began && !world.deeds().is_empty();
    aftermath.check(scenario, 0, began, &reports);
    happened
}

fn store_has_begun(executor: &tokio::runtime::Runtime, store: &Store) -> bool {
    executor.block_on(helve::ports::Journal::flush(store)).unwrap();
    store.audit().verify(|_| {}).unwrap().entries > 0
}

fn troubled(store: &Arc<Store>, trouble: Trouble, at: u64, passed: Arc<AtomicU64>) -> Arc<dyn Ledger> {
    let disk = Arc::clone(store);
    let fault = move |boundary: Boundary| {
        let number = passed.fetch_add(1, Ordering::SeqCst);
        let refused = || Err(JournalError::new("the disk cannot be written"));
        match trouble {
            Trouble::Full | Trouble::FullWithoutReserve => {
                if number == at {
                    disk.limit_pages(Some(1));
                }
                Ok(())
            }
            Trouble::ReadOnly if number >= at && number < u64::MAX / 2 && boundary == Boundary::Before => {
                refused()
            }
            Trouble::Hiccup if number == at => refused(),
            Trouble::ReadOnly | Trouble::Hiccup => Ok(()),
        }
    };
    Arc::new(FaultyLedger::new(Arc::clone(store) as _, Arc::new(fault)))
}

#[test]
fn a_full_disk_in_the_middle_of_a_run_is_survived() {
    survives(Scenario::Sequence, Trouble::Full, By::Another);
    survives(Scenario::Undone, Trouble::Full, By::Another);
}

#[test]
fn a_full_disk_without_a_reserve_is_survived() {
    survives(Scenario::Sequence, Trouble::FullWithoutReserve, By::Another);
    survives(Scenario::Undone, Trouble::FullWithoutReserve, By::Another);
}

#[test]
fn a_disk_that_cannot_be_written_any_more_is_survived() {
    for scenario in [Scenario::Sequence, Scenario::Undone, Scenario::CascadeFails, Scenario::Parallel] {
        survives(scenario, Trouble::ReadOnly, By::Another);
    }
}

#[test]
fn a_single_write_that_fails_leaves_nothing_half_done() {
    // Those that the next test does not have.
    let scenarios = [
        Scenario::Saga,
        Scenario::NestedUndone,
        Scenario::ParallelUndone,
        Scenario::Map,
        Scenario::RollBack,
        Scenario::Recall,
    ];
    for scenario in scenarios {
        survives(scenario, Trouble::Hiccup, By::Another);
    }
}

#[test]
fn a_process_takes_up_by_itself_what_its_disk_had_refused() {
    for scenario in [Scenario::Sequence, Scenario::Undone, Scenario::CascadeFails, Scenario::Parallel] {
        survives(scenario, Trouble::Hiccup, By::Itself);
    }
}
