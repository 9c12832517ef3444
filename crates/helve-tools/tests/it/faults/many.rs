//! Many runs at once, killed by a seeded chance.

use std::collections::BTreeMap;

use helve::ports::Runs;

use super::Place;
use super::child::{Ended, Order, Task};
use super::driver::{Aftermath, executor};
use super::scenario::{Scenario, count};
use super::service::{Deed, World};

/// Scenarios whose end does not depend on when they were cut short.
fn scenarios() -> Vec<Scenario> {
    Scenario::ALL.into_iter().filter(|scenario| *scenario != Scenario::RollBack).collect()
}

/// The seed of the chance: given, or a fixed one, so that a failure can be had again.
fn seed() -> u64 {
    std::env::var("HELVE_FAULTS_SEED").map_or(7, |seed| seed.parse().unwrap())
}

struct Batch {
    place: Place,
    world: World,
    order: Order,
    executor: tokio::runtime::Runtime,
}

impl Batch {
    fn new() -> Self {
        let (place, world, executor) = (Place::new(), World::default(), executor());
        let order = Order {
            task: Task::Recover,
            scenarios: scenarios(),
            database: place.database(),
            world: world.serve(executor.handle()),
            kill_at: None,
            clock_off_s: 0,
        };
        Self { place, world, order, executor }
    }

    fn order(&self, task: Task, kill_at: Option<u64>) -> Order {
        Order { task, kill_at, ..self.order.clone() }
    }

    /// Checks every run that was asked for. One that left nothing in the journal never began.
    fn check(&self, context: String, numbers: std::ops::Range<u64>) {
        let aftermath =
            Aftermath { context, place: &self.place, world: &self.world, executor: &self.executor };
        aftermath.check_journal();
        let mut deeds: BTreeMap<u64, Vec<Deed>> = BTreeMap::new();
        self.world.deeds().into_iter().for_each(|deed| deeds.entry(deed.number).or_default().push(deed));
        let store = self.place.open();
        let scenarios = scenarios();
        for number in numbers {
            let scenario = scenarios[usize::try_from(number).unwrap() % scenarios.len()];
            let counted = self.executor.block_on(count(&store, number));
            let deeds = deeds.remove(&number).unwrap_or_default();
            aftermath.check_run(scenario, &deeds, counted, !deeds.is_empty(), &[]);
            assert!(!self.place.0.path().join(format!("note-{number}")).exists(), "a file stands: {number}");
        }
    }
}

#[test]
fn two_hundred_runs_at_once_are_taken_up_once_by_two_processes_that_race() {
    let mut random = fastrand::Rng::with_seed(seed());
    for round in 0..3 {
        let batch = Batch::new();
        let kill_at = random.u64(200..2_500);
        let context = format!("seed {}, round {round}, killed at {kill_at}", seed());
        let run = Task::Run { from: 0, to: 200, at_once: 200 };
        assert_eq!(batch.order(run, Some(kill_at)).carry_out(), Ended::Killed, "{context}");
        let left = batch.executor.block_on(batch.place.open().open_runs(None, 10_000)).unwrap();
        assert!(left.len() > 1, "{context}: nothing is left to be resumed");
        let recoverers = [(), ()].map(|()| batch.order(Task::Recover, None).start());
        for recoverer in recoverers {
            assert!(matches!(recoverer.wait(), Ended::ByItself(_)));
        }
        // What one of them left to a person after the other had looked.
        batch.order(Task::Recover, None).carry_out();
        batch.check(context, 0..200);
    }
}

#[test]
fn a_thousand_runs_survive_random_kills_also_of_whoever_takes_them_up() {
    let mut random = fastrand::Rng::with_seed(seed());
    for round in 0..10 {
        let batch = Batch::new();
        let mut kills = Vec::new();
        let mut begun = 0;
        while begun < 100 {
            let to = (begun + random.u64(10..60)).min(100);
            let kill_at = random.u64(0..60 * (to - begun) / 4);
            kills.push(kill_at);
            let run = Task::Run { from: begun, to, at_once: 8 };
            batch.order(run, Some(kill_at)).carry_out();
            begun = to;
            let kill_at = random.u64(0..200);
            kills.push(kill_at);
            batch.order(Task::Recover, Some(kill_at)).carry_out();
        }
        batch.order(Task::Recover, None).carry_out();
        batch.check(format!("seed {}, round {round}, kills {kills:?}", seed()), 0..100);
    }
}
