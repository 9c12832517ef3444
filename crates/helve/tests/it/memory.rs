use std::sync::Arc;
use std::time::Duration;

use helve::memory::{
    MemoryChange, MemoryError, MemoryLimits, MemoryPlace, MemoryScope, Operation, Remembered,
};
use helve::ports::{EffectId, Memory};
use helve::record::Entry;
use helve::run::{Step, StepKind};
use helve::{CallId, Caller, Runtime, VolatileLedger};
use helve_testkit::ManualClock;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use MemoryScope::{LongTerm, ShortTerm, Working};

/// A runtime whose time stands still.
struct Bench {
    runtime: Runtime,
    ledger: Arc<VolatileLedger>,
    clock: Arc<ManualClock>,
}

impl Bench {
    fn new() -> Self {
        Self::limited(MemoryLimits::default())
    }

    fn limited(limits: MemoryLimits) -> Self {
        let clock = Arc::new(ManualClock::default());
        let ledger = Arc::new(VolatileLedger::new(clock.clone(), limits));
        Self::on(ledger, clock)
    }

    fn on(ledger: Arc<VolatileLedger>, clock: Arc<ManualClock>) -> Self {
        let runtime = Runtime::builder().ledger(ledger.clone()).clock(clock.clone()).build();
        Self { runtime, ledger, clock }
    }

    async fn read(&self, scope: MemoryScope, key: &str) -> Option<Remembered> {
        self.runtime.memory().read(MemoryPlace::of(&me(), scope, key)).await.unwrap()
    }

    async fn value(&self, scope: MemoryScope, key: &str) -> Option<Value> {
        self.read(scope, key).await.map(|remembered| remembered.value)
    }

    async fn change(&self, scope: MemoryScope, key: &str, change: MemoryChange) -> Result<u64, MemoryError> {
        let changed = self.runtime.memory().change(MemoryPlace::of(&me(), scope, key), change).await?;
        Ok(changed.after.map_or(0, |after| after.version))
    }

    async fn write(&self, scope: MemoryScope, key: &str, value: Value) -> Result<u64, MemoryError> {
        self.change(scope, key, write(value)).await
    }

    async fn keys(&self, scope: MemoryScope, prefix: &str, limit: usize) -> Vec<String> {
        let memory = self.runtime.memory();
        let listed = memory.list(scope, scope.owner(&me()), prefix.to_owned(), limit).await.unwrap();
        listed.into_iter().map(|(key, _)| key).collect()
    }
}

fn me() -> Caller {
    Caller::agent("a").session("s").loop_id("l")
}

fn write(value: Value) -> MemoryChange {
    MemoryChange::new(Operation::Write(value))
}

#[tokio::test]
async fn values_are_written_read_updated_and_deleted_in_every_scope() {
    let bench = Bench::new();
    for scope in MemoryScope::ALL {
        assert_eq!(bench.read(scope, "k").await, None);
        let update = MemoryChange::new(Operation::Update(json!(2)));
        assert!(matches!(bench.change(scope, "k", update.clone()).await, Err(MemoryError::Missing)));
        let first = bench.write(scope, "k", json!({ "a": 1 })).await.unwrap();
        assert_eq!(bench.value(scope, "k").await, Some(json!({ "a": 1 })));
        // Compare and swap.
        let stale = bench.change(scope, "k", update.clone().if_version(first + 1)).await;
        assert!(matches!(stale, Err(MemoryError::Conflict { found, .. }) if found == first));
        let second = bench.change(scope, "k", update.if_version(first)).await.unwrap();
        assert!(second > first);
        assert_eq!(bench.value(scope, "k").await, Some(json!(2)));
        bench.change(scope, "k", MemoryChange::new(Operation::Delete)).await.unwrap();
        assert_eq!(bench.read(scope, "k").await, None);
        // A version is never used twice, also not after a deletion.
        let third = bench.change(scope, "k", write(json!(3)).if_version(0)).await.unwrap();
        assert!(third > second);
    }
}

#[tokio::test]
async fn lists_go_by_prefix_key_and_limit() {
    let bench = Bench::new();
    for scope in MemoryScope::ALL {
        for key in ["b/2", "a", "b/1", "c", "b/3"] {
            bench.write(scope, key, json!(key)).await.unwrap();
        }
        assert_eq!(bench.keys(scope, "", 10).await, ["a", "b/1", "b/2", "b/3", "c"]);
        assert_eq!(bench.keys(scope, "b/", 2).await, ["b/1", "b/2"]);
        assert!(bench.keys(scope, "d", 10).await.is_empty() && bench.keys(scope, "", 0).await.is_empty());
    }
}

#[tokio::test]
async fn what_has_expired_is_gone() {
    let bench = Bench::new();
    for scope in MemoryScope::ALL {
        let minute = SignedDuration::from_mins(1);
        bench.change(scope, "k", write(json!(1)).for_time(minute)).await.unwrap();
        bench.clock.advance(Duration::from_secs(59));
        assert_eq!(bench.value(scope, "k").await, Some(json!(1)));
        bench.clock.advance(Duration::from_secs(1));
        assert_eq!(bench.value(scope, "k").await, None);
        assert!(bench.keys(scope, "", 10).await.is_empty());
        assert!(bench.change(scope, "k", write(json!(2)).if_version(0)).await.is_ok());
    }
}

#[tokio::test]
async fn limits_hold_and_the_expired_make_room() {
    let bench =
        Bench::limited(MemoryLimits { key_bytes_max: 8, value_bytes_max: 20, values_max: 2, bytes_max: 30 });
    let full = |result: Result<u64, MemoryError>| matches!(result, Err(MemoryError::Full { .. }));
    for scope in [ShortTerm, LongTerm] {
        for key in ["", "123456789", "a\nb"] {
            assert!(
                matches!(bench.write(scope, key, json!(1)).await, Err(MemoryError::BadKey { .. })),
                "{key}"
            );
        }
        assert!(full(bench.write(scope, "big", json!("x".repeat(20))).await));
        bench
            .change(scope, "a", write(json!("x".repeat(15))).for_time(SignedDuration::from_secs(5)))
            .await
            .unwrap();
        bench.write(scope, "b", json!(1)).await.unwrap();
        assert!(full(bench.write(scope, "c", json!(1)).await));
        assert!(full(bench.write(scope, "b", json!("x".repeat(18))).await));
        bench.clock.advance(Duration::from_secs(5));
        bench.write(scope, "c", json!(1)).await.unwrap();
    }
    // Working memory has limits of its own.
    let bench = Bench::new();
    assert!(full(bench.write(Working, "big", json!("x".repeat(1 << 20))).await));
    for index in 0..1_000 {
        bench.write(Working, &format!("k{index}"), json!(1)).await.unwrap();
    }
    assert!(full(bench.write(Working, "more", json!(1)).await));
}

#[tokio::test]
async fn scopes_and_owners_are_apart() {
    let bench = Bench::new();
    let memory = bench.runtime.memory();
    let mine = me();
    for scope in MemoryScope::ALL {
        bench.write(scope, "k", json!(scope.as_str())).await.unwrap();
    }
    let read = async |caller: &Caller, scope| {
        memory.read(MemoryPlace::of(caller, scope, "k")).await.unwrap().map(|found| found.value)
    };
    for scope in MemoryScope::ALL {
        assert_eq!(read(&mine, scope).await, Some(json!(scope.as_str())));
    }
    // Who shares what: another loop, another session, another agent, another principal.
    let another = |change: fn(&mut Caller)| {
        let mut caller = me();
        change(&mut caller);
        caller
    };
    for (caller, sees) in [
        (another(|one| one.loop_id = Some("m".into())), [false, true, true]),
        (another(|one| one.session = Some("t".into())), [false, false, true]),
        (another(|one| one.agent = Some("b".into())), [false, true, false]),
        (another(|one| one.principal = Some("b".into())), [false, false, false]),
    ] {
        for (scope, sees) in MemoryScope::ALL.into_iter().zip(sees) {
            assert_eq!(read(&caller, scope).await.is_some(), sees, "{caller:?} {scope:?}");
        }
    }
}

#[tokio::test]
async fn working_memory_goes_with_the_runtime_and_with_time() {
    let bench = Bench::new();
    for scope in MemoryScope::ALL {
        bench.write(scope, "k", json!(1)).await.unwrap();
    }
    let next = Bench::on(bench.ledger.clone(), bench.clock.clone());
    assert_eq!(next.value(Working, "k").await, None);
    assert_eq!(next.value(ShortTerm, "k").await, Some(json!(1)));
    assert_eq!(next.value(LongTerm, "k").await, Some(json!(1)));

    for _ in 0..3 {
        bench.clock.advance(Duration::from_secs(59 * 60));
        assert!(bench.value(Working, "k").await.is_some());
    }
    bench.clock.advance(Duration::from_secs(3_600));
    assert_eq!(bench.value(Working, "k").await, None);
    assert_eq!(bench.value(ShortTerm, "k").await, Some(json!(1)));
}

#[tokio::test]
async fn there_is_working_memory_for_so_many_loops_and_no_more() {
    let bench = Bench::new();
    let memory = bench.runtime.memory();
    let place = |index: usize| MemoryPlace::of(&Caller::agent("a").loop_id(index.to_string()), Working, "k");
    for index in 0..1_000 {
        memory.change(place(index), write(json!(1))).await.unwrap();
    }
    let refused = memory.change(place(1_000), write(json!(1))).await.unwrap_err();
    assert!(refused.to_string().contains("the number of loops"), "{refused}");
    memory.change(place(7), write(json!(2))).await.unwrap();
    bench.clock.advance(Duration::from_secs(3_600));
    memory.change(place(1_000), write(json!(1))).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn of_sixty_four_that_change_one_value_none_is_lost() {
    for scope in MemoryScope::ALL {
        let runtime = Runtime::builder().build();
        let tasks = (0..64).map(|_| {
            let runtime = runtime.clone();
            tokio::spawn(async move {
                let place = MemoryPlace::of(&me(), scope, "count");
                loop {
                    let found = runtime.memory().read(place.clone()).await.unwrap();
                    let (count, version) =
                        found.map_or((0, 0), |found| (found.value.as_i64().unwrap(), found.version));
                    // Others get their turn between reading and writing.
                    tokio::task::yield_now().await;
                    let change = write(json!(count + 1)).if_version(version);
                    match runtime.memory().change(place.clone(), change).await {
                        Ok(_) => break,
                        Err(MemoryError::Conflict { .. }) => {}
                        Err(error) => panic!("{error}"),
                    }
                }
            })
        });
        for task in tasks.collect::<Vec<_>>() {
            task.await.unwrap();
        }
        let found = runtime.memory().read(MemoryPlace::of(&me(), scope, "count")).await.unwrap();
        assert_eq!(found.unwrap().value, json!(64));
    }
}

#[tokio::test]
async fn effects_in_every_scope_are_journalled_applied_once_and_undone() {
    let bench = Bench::new();
    let memory = bench.runtime.memory();
    for (index, scope) in MemoryScope::ALL.into_iter().enumerate() {
        bench.write(scope, "n", json!(5)).await.unwrap();
        let call_id = CallId::new(Timestamp::UNIX_EPOCH);
        let effect = EffectId { call_id, index: index as u32 };
        let step =
            |kind| Box::new(Step { at: Timestamp::UNIX_EPOCH, call_id, run: call_id, kind, payload: None });
        let steps = || bench.ledger.entries().iter().filter(|entry| matches!(entry, Entry::Step(_))).count();
        let before = steps();
        for _ in 0..2 {
            let change = MemoryChange::new(Operation::Add(2.into()));
            let applied = step(StepKind::EffectApplied { index: effect.index });
            memory.apply(effect, MemoryPlace::of(&me(), scope, "n"), change, applied).await.unwrap();
        }
        assert_eq!(bench.value(scope, "n").await, Some(json!(7)));
        assert_eq!(steps(), before + 1);
        memory.undo(effect, step(StepKind::EffectRolledBack { index: effect.index })).await.unwrap();
        assert_eq!(bench.value(scope, "n").await, Some(json!(5)));
        assert_eq!(steps(), before + 2);
        let again = memory.undo(effect, step(StepKind::EffectRolledBack { index: effect.index })).await;
        assert!(matches!(again, Err(MemoryError::NothingToUndo)));
        let reserved = MemoryPlace::of(&me(), scope, "helve/completed/x");
        let change = write(json!(1));
        let refused = memory.apply(effect, reserved, change, step(StepKind::Undone)).await;
        assert!(matches!(refused, Err(MemoryError::Reserved)));
    }
}
