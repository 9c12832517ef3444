//! Kills at every boundary of the journal, one after the other.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use helve::ports::Runs;
use tokio::runtime::Runtime as Executor;

use super::Place;
use super::child::{Ended, Order, Report, Task};
use super::scenario::{Scenario, count};
use super::service::{Deed, World};

/// How many children run at once.
const AT_ONCE: usize = 2;

/// Kills a process at each boundary of a run, and checks what there is after it was resumed.
fn survives(scenario: Scenario, boundaries_min: u64) {
    survives_with(scenario, boundaries_min, 0);
}

/// The same, where the clock of the process that resumes it is off.
pub(super) fn survives_with(scenario: Scenario, boundaries_min: u64, clock_off_s: i64) {
    let executor = executor();
    let (next, ended) = (AtomicU64::new(0), AtomicBool::new(false));
    std::thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                while !ended.load(Ordering::SeqCst) {
                    let at = next.fetch_add(1, Ordering::SeqCst);
                    if !is_survived(&executor, scenario, at, clock_off_s) {
                        ended.store(true, Ordering::SeqCst);
                    }
                }
            });
        }
    });
    let passed = next.into_inner();
    assert!(passed > boundaries_min, "only {passed} boundaries were tried");
}

/// Returns whether there was such a boundary.
fn is_survived(executor: &Executor, scenario: Scenario, at: u64, clock_off_s: i64) -> bool {
    let (place, world) = (Place::new(), World::default());
    let mut order = Order {
        task: Task::Run { from: 0, to: 1, at_once: 1 },
        scenarios: vec![scenario],
        database: place.database(),
        world: world.serve(executor.handle()),
        kill_at: Some(at),
        clock_off_s: 0,
    };
    let killed = order.carry_out() == Ended::Killed;
    let began = place.verify() > 0;
    order.kill_at = None;
    order.clock_off_s = clock_off_s;
    order.task = Task::Recover;
    let Ended::ByItself(reports) = order.carry_out() else { panic!("nobody killed it") };
    let context = format!("{scenario:?} killed at {at}: {killed}");
    Aftermath { context, place: &place, world: &world, executor }.check(scenario, 0, began, &reports);
    if scenario == Scenario::Keyed {
        order.task = Task::Run { from: 0, to: 1, at_once: 1 };
        assert!(matches!(order.carry_out(), Ended::ByItself(reports) if reports[0].code.is_none()));
        let after = world.deeds().len();
        assert_eq!(after, 4, "boundary {at}: the same key again does nothing again");
    }
    killed
}

pub(super) fn executor() -> Executor {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap()
}

/// What there is when everything has been resumed.
pub(super) struct Aftermath<'a> {
    /// What happened, for the reader of a failure.
    pub(super) context: String,
    pub(super) place: &'a Place,
    pub(super) world: &'a World,
    pub(super) executor: &'a Executor,
}

impl Aftermath<'_> {
    /// Checks one run.
    pub(super) fn check(&self, scenario: Scenario, number: u64, began: bool, reports: &[Report]) {
        self.check_journal();
        let store = self.place.open();
        let counted = self.executor.block_on(count(&store, number));
        let deeds: Vec<_> = self.world.deeds().into_iter().filter(|deed| deed.number == number).collect();
        self.check_run(scenario, &deeds, counted, began, reports);
        let file = self.place.0.path().join(format!("note-{number}"));
        assert!(!file.exists(), "{}: a file stands", self.context);
    }

    /// The journal is sound, and nothing is left.
    pub(super) fn check_journal(&self) {
        self.place.verify();
        let open = self.executor.block_on(self.place.open().open_runs(None, 10_000)).unwrap();
        assert!(open.is_empty(), "{}: {} runs are left: {open:?}", self.context, open.len());
    }

    pub(super) fn check_run(
        &self,
        scenario: Scenario,
        deeds: &[Deed],
        counted: i64,
        began: bool,
        reports: &[Report],
    ) {
        let context = format!("{}: {scenario:?}: {reports:?}: {deeds:#?}", self.context);
        let keys: BTreeSet<_> = deeds.iter().map(|deed| &deed.key).collect();
        assert_eq!(keys.len(), deeds.len(), "something was done twice: {context}");
        if !began {
            assert!(deeds.is_empty(), "done without a record: {context}");
            return;
        }
        let (expected, expected_count) = scenario.expected();
        let mut done: Vec<_> = deeds.iter().map(|deed| &*deed.what).collect();
        let mut expected = expected.to_vec();
        if !scenario.is_ordered() {
            done.sort_unstable();
            expected.sort_unstable();
        }
        if done == expected {
            assert_eq!(counted, expected_count, "{context}");
            return;
        }
        assert_eq!(scenario, Scenario::RollBack, "{context}");
        assert_eq!(counted, 0, "an effect stands: {context}");
        let unknown: BTreeSet<_> = reports.iter().flat_map(|report| &report.unknown).collect();
        for deed in deeds.iter().filter(|deed| !deed.what.starts_with("un")) {
            let undo = format!("un{}", deed.what);
            let undone = done.iter().filter(|what| **what == undo).count();
            let is_known = !unknown.contains(&deed.key);
            assert!(undone == 1 || (undone == 0 && !is_known), "{} stands: {context}", deed.what);
        }
    }
}

#[test]
fn a_sequence_with_effects_survives_a_kill_at_any_boundary() {
    survives(Scenario::Sequence, 24);
}

#[test]
fn a_failed_sequence_is_undone_after_a_kill_at_any_boundary() {
    survives(Scenario::Undone, 40);
}

#[test]
fn a_saga_of_file_and_request_is_undone_after_a_kill_at_any_boundary() {
    survives(Scenario::Saga, 12);
}

#[test]
fn effects_and_cascades_survive_a_kill_at_any_boundary() {
    survives(Scenario::Cascade, 10);
}

#[test]
fn effects_are_taken_back_after_a_kill_at_any_boundary() {
    survives(Scenario::CascadeFails, 16);
}

#[test]
fn compositions_five_deep_survive_a_kill_at_any_boundary() {
    survives(Scenario::Nested, 28);
}

#[test]
fn compositions_five_deep_are_undone_after_a_kill_at_any_boundary() {
    survives(Scenario::NestedUndone, 50);
}

#[test]
fn four_at_once_survive_a_kill_at_any_boundary() {
    survives(Scenario::Parallel, 24);
}

#[test]
fn what_was_done_at_once_is_undone_after_a_kill_at_any_boundary() {
    survives(Scenario::ParallelUndone, 50);
}

#[test]
fn a_map_survives_a_kill_at_any_boundary() {
    survives(Scenario::Map, 24);
}

#[test]
fn a_run_that_is_to_be_rolled_back_is_after_a_kill_at_any_boundary() {
    survives(Scenario::RollBack, 24);
}

#[test]
fn tools_that_can_be_asked_leave_nothing_unknown() {
    survives(Scenario::Recall, 24);
}

#[test]
fn a_call_with_a_key_is_answered_and_not_run_again_after_a_kill_at_any_boundary() {
    survives(Scenario::Keyed, 24);
}

#[test]
fn approvals_are_neither_lost_nor_used_twice_after_a_kill_at_any_boundary() {
    survives(Scenario::Approved, 36);
}
