//! What is remembered, and what effects do to it.

use std::sync::Arc;
use std::time::Duration;

use helve_core::Caller;
use helve_core::memory::{
    Changed, MemoryChange, MemoryError, MemoryLimits, MemoryPlace, MemoryScope, Operation, Remembered,
};
use helve_core::ports::{Clock, EffectId, Ledger};
use helve_core::record::Entry;
use helve_core::run::StepKind;
use jiff::SignedDuration;
use serde_json::{Number, Value, json};

use super::{Setup, within};
use crate::clock::ManualClock;
use crate::entries::SampleCall;

/// Runs every check, each on a new ledger.
pub async fn check_memory(new_ledger: &impl Fn(Setup) -> Arc<dyn Ledger>) {
    let new = || new_ledger(Setup::new().0);
    values_are_written_updated_counted_and_deleted(&*new()).await;
    a_change_for_another_version_is_a_conflict(&*new()).await;
    versions_never_repeat(&*new()).await;
    no_increment_of_64_tasks_is_lost(new()).await;
    owners_and_scopes_are_apart(&*new()).await;
    values_are_listed_by_prefix(&*new()).await;
    what_has_expired_is_gone(new_ledger).await;
    limits_hold(new_ledger).await;
    expired_values_make_room(new_ledger).await;
    an_effect_is_applied_once_with_its_step(&*new()).await;
    a_refused_effect_leaves_nothing(&*new()).await;
    an_effect_is_undone_once(&*new()).await;
    what_somebody_else_changed_is_left_alone(&*new()).await;
    what_was_added_is_subtracted(&*new()).await;
    what_has_expired_by_itself_is_undone_too(new_ledger).await;
}

async fn values_are_written_updated_counted_and_deleted(ledger: &dyn Ledger) {
    let place = place("browser.error");
    assert_eq!(read(ledger, &place).await, None);
    let missing = try_change(ledger, &place, update(json!(1))).await;
    assert!(matches!(missing, Err(MemoryError::Missing)), "{missing:?}");
    let nothing = change(ledger, &place, delete()).await;
    assert_eq!(nothing, Changed { before: None, after: None });
    let value = json!({ "text": "ü\u{0}\n", "list": [1.5, null, true] });
    let written = change(ledger, &place, write(value.clone())).await;
    assert_eq!(written.before, None);
    let after = written.after.expect("there is a value now");
    assert_eq!((&after.value, after.expires_at), (&value, None));
    assert_eq!(read(ledger, &place).await.as_ref(), Some(&after));
    let updated = change(ledger, &place, update(json!(40))).await;
    assert_eq!(updated.before, Some(after));
    let counted = change(ledger, &place, add(2)).await;
    assert_eq!(counted.after.as_ref().map(|after| &after.value), Some(&json!(42)));
    let deleted = change(ledger, &place, delete()).await;
    assert_eq!((deleted.before, deleted.after), (counted.after, None));
    assert_eq!(read(ledger, &place).await, None);
    change(ledger, &place, write(json!("text"))).await;
    let refused = try_change(ledger, &place, add(1)).await;
    assert!(matches!(refused, Err(MemoryError::NotANumber)), "{refused:?}");
}

async fn a_change_for_another_version_is_a_conflict(ledger: &dyn Ledger) {
    let place = place("count");
    let first = change(ledger, &place, write(json!(1)).if_version(0)).await.after.expect("written").version;
    let conflict = |result| matches!(result, Err(MemoryError::Conflict { found, .. }) if found == first);
    assert!(conflict(try_change(ledger, &place, write(json!(2)).if_version(0)).await));
    assert!(conflict(try_change(ledger, &place, delete().if_version(first + 1)).await));
    change(ledger, &place, update(json!(2)).if_version(first)).await;
    change(ledger, &place, delete()).await;
    let gone = try_change(ledger, &place, write(json!(3)).if_version(first)).await;
    assert!(matches!(gone, Err(MemoryError::Conflict { found: 0, .. })), "{gone:?}");
}

async fn versions_never_repeat(ledger: &dyn Ledger) {
    let (place, other) = (place("count"), place("other"));
    let mut last = 0;
    for _ in 0..5 {
        change(ledger, &other, write(json!(0))).await;
        for operation in [write(json!(1)), add(1)] {
            let version = change(ledger, &place, operation).await.after.expect("written").version;
            assert!(version > last, "{version} after {last}");
            last = version;
        }
        change(ledger, &place, delete()).await;
    }
}

async fn no_increment_of_64_tasks_is_lost(ledger: Arc<dyn Ledger>) {
    const TASKS: u64 = 64;
    let tasks: Vec<_> = (0..TASKS)
        .map(|_| {
            let ledger = Arc::clone(&ledger);
            tokio::spawn(async move {
                let place = place("count");
                loop {
                    let before = read(&*ledger, &place).await;
                    let (value, version) =
                        before.map_or((0, 0), |before| (before.value.as_u64().unwrap_or(0), before.version));
                    match try_change(&*ledger, &place, write(json!(value + 1)).if_version(version)).await {
                        Ok(_) => return,
                        Err(MemoryError::Conflict { .. }) => {}
                        Err(error) => panic!("{error}"),
                    }
                }
            })
        })
        .collect();
    for task in tasks {
        within(task).await.expect("the task ends well");
    }
    let count = read(&*ledger, &place("count")).await.expect("there is a count");
    assert_eq!(count.value, json!(TASKS));
}

async fn owners_and_scopes_are_apart(ledger: &dyn Ledger) {
    let callers = [
        Caller::principal("ada").session("s-1"),
        Caller::principal("ada").session("s-2"),
        Caller::principal("bob").session("s-1"),
    ];
    for (number, caller) in callers.iter().enumerate() {
        let place = MemoryPlace::of(caller, MemoryScope::ShortTerm, "name");
        assert_eq!(read(ledger, &place).await, None, "{number}");
        change(ledger, &place, write(json!(number))).await;
    }
    for (number, caller) in callers.iter().enumerate() {
        let place = MemoryPlace::of(caller, MemoryScope::ShortTerm, "name");
        assert_eq!(value(ledger, &place).await, Some(json!(number)));
        let listed = list(ledger, &place, "", 10).await;
        assert_eq!(listed.len(), 1, "{listed:?}");
    }
    // The same owner's long memory is another one.
    let mut long = place("name");
    change(ledger, &long, write(json!("short"))).await;
    long.scope = MemoryScope::LongTerm;
    assert_eq!(read(ledger, &long).await, None);
}

async fn values_are_listed_by_prefix(ledger: &dyn Ledger) {
    for key in ["api.b", "api.a", "api", "apj", "API.c", "api.ü", "api.%", "z"] {
        change(ledger, &place(key), write(json!(key))).await;
    }
    let keys = |listed: Vec<(String, Remembered)>| {
        listed.into_iter().map(|(key, remembered)| {
            assert_eq!(remembered.value, json!(key));
            key
        })
    };
    let found: Vec<_> = keys(list(ledger, &place("x"), "api.", 10).await).collect();
    assert_eq!(found, ["api.%", "api.a", "api.b", "api.ü"]);
    let found: Vec<_> = keys(list(ledger, &place("x"), "", 3).await).collect();
    assert_eq!(found, ["API.c", "api", "api.%"]);
    assert!(list(ledger, &place("x"), "nothing", 10).await.is_empty());
    assert!(list(ledger, &place("x"), "", 0).await.is_empty());
}

async fn what_has_expired_is_gone(new_ledger: &impl Fn(Setup) -> Arc<dyn Ledger>) {
    let (setup, clock) = Setup::new();
    let ledger = &*new_ledger(setup);
    let (place, stays) = (place("token"), place("name"));
    change(ledger, &stays, write(json!("ada"))).await;
    let short = || write(json!("secret")).for_time(SignedDuration::from_secs(60));
    let first = change(ledger, &place, short()).await.after.expect("written");
    assert!(first.expires_at.is_some());
    clock.advance(Duration::from_secs(59));
    assert_eq!(read(ledger, &place).await.as_ref(), Some(&first));
    clock.advance(Duration::from_secs(1));
    assert_eq!(read(ledger, &place).await, None);
    assert_eq!(list(ledger, &place, "", 10).await.len(), 1);
    let missing = try_change(ledger, &place, update(json!(1))).await;
    assert!(matches!(missing, Err(MemoryError::Missing)), "{missing:?}");
    let gone = try_change(ledger, &place, write(json!(1)).if_version(first.version)).await;
    assert!(matches!(gone, Err(MemoryError::Conflict { found: 0, .. })), "{gone:?}");
    let again = change(ledger, &place, short().if_version(0)).await;
    assert_eq!(again.before, None);
    assert!(again.after.expect("written").version > first.version);
    // A change without an end makes it last.
    change(ledger, &place, write(json!("public"))).await;
    clock.advance(Duration::from_secs(3_600));
    assert_eq!(value(ledger, &place).await, Some(json!("public")));
}

fn small() -> MemoryLimits {
    MemoryLimits { key_bytes_max: 8, value_bytes_max: 20, values_max: 3, bytes_max: 40 }
}

async fn limits_hold(new_ledger: &impl Fn(Setup) -> Arc<dyn Ledger>) {
    let ledger = &*new_ledger(Setup { limits: small(), ..Setup::new().0 });
    let try_write = |key: &str, bytes: usize| {
        let (place, change) = (place(key), write(json!("x".repeat(bytes - 2))));
        async move { try_change(ledger, &place, change).await }
    };
    for key in ["", "far too long", "a\nb"] {
        let refused = try_write(key, 2).await;
        assert!(matches!(refused, Err(MemoryError::BadKey { bytes_max: 8 })), "{key:?}: {refused:?}");
    }
    let full = |result: &Result<Changed, MemoryError>| matches!(result, Err(MemoryError::Full { .. }));
    assert!(full(&try_write("a", 21).await), "one value is too large");
    try_write("a", 20).await.expect("this much is allowed");
    try_write("b", 15).await.expect("this much is allowed");
    assert!(full(&try_write("c", 6).await), "all values together are too large");
    try_write("c", 5).await.expect("this much is allowed");
    assert!(full(&try_write("c", 6).await), "all values together are too large");
    try_write("a", 10).await.expect("less than before is allowed");
    assert!(full(&try_write("d", 2).await), "there are too many values");
    change(ledger, &place("b"), delete()).await;
    try_write("d", 20).await.expect("there is room again");
    // Another caller has its own limits.
    let other = MemoryPlace::of(&Caller::principal("bob"), MemoryScope::ShortTerm, "a");
    change(ledger, &other, write(json!("x".repeat(18)))).await;
}

async fn expired_values_make_room(new_ledger: &impl Fn(Setup) -> Arc<dyn Ledger>) {
    let (setup, clock) = Setup::new();
    let ledger = &*new_ledger(Setup { limits: small(), ..setup });
    for _ in 0..5 {
        for key in ["a", "b", "c"] {
            let short = write(json!("x".repeat(11))).for_time(SignedDuration::from_secs(1));
            change(ledger, &place(key), short).await;
        }
        assert!(matches!(
            try_change(ledger, &place("d"), write(json!(1))).await,
            Err(MemoryError::Full { .. })
        ));
        clock.advance(Duration::from_secs(1));
        change(ledger, &place("d"), write(json!(1))).await;
        change(ledger, &place("d"), delete()).await;
    }
}

/// An effect of a call, and the memory that it changes.
struct Effect {
    call: SampleCall,
    id: EffectId,
    place: MemoryPlace,
}

impl Effect {
    fn new(key: &str) -> Self {
        // At the time of the setup's clock: what is old cannot be undone.
        let call = SampleCall::at("mail/send", ManualClock::default().now());
        let id = EffectId { call_id: call.id(), index: 1 };
        Self { call, id, place: place(key) }
    }

    async fn apply(&self, ledger: &dyn Ledger, change: MemoryChange) -> Result<(), MemoryError> {
        let step = self.call.step(StepKind::EffectApplied { index: 1 });
        within(ledger.apply(self.id, self.place.clone(), change, step)).await
    }

    async fn undo(&self, ledger: &dyn Ledger) -> Result<(), MemoryError> {
        let step = self.call.step(StepKind::EffectRolledBack { index: 1 });
        within(ledger.undo(self.id, step)).await
    }

    /// How often the journal says that it was applied, and that it was taken back.
    async fn told(&self, ledger: &dyn Ledger) -> [usize; 2] {
        let history = within(ledger.history(self.call.id())).await.expect("the ledger works");
        [StepKind::EffectApplied { index: 1 }, StepKind::EffectRolledBack { index: 1 }].map(|kind| {
            history.iter().filter(|entry| matches!(entry, Entry::Step(step) if step.kind == kind)).count()
        })
    }
}

async fn an_effect_is_applied_once_with_its_step(ledger: &dyn Ledger) {
    let effect = Effect::new("count");
    for _ in 0..3 {
        effect.apply(ledger, add(5)).await.expect("it is applied, now or before");
    }
    assert_eq!(value(ledger, &effect.place).await, Some(json!(5)));
    assert_eq!(effect.told(ledger).await, [1, 0]);
    // Another one of the same call is another one.
    let another = EffectId { index: 2, ..effect.id };
    let step = effect.call.step(StepKind::EffectApplied { index: 2 });
    within(ledger.apply(another, effect.place.clone(), add(5), step)).await.expect("it is applied");
    assert_eq!(value(ledger, &effect.place).await, Some(json!(10)));
}

async fn a_refused_effect_leaves_nothing(ledger: &dyn Ledger) {
    let effect = Effect::new("count");
    let refused = effect.apply(ledger, update(json!(1))).await;
    assert!(matches!(refused, Err(MemoryError::Missing)), "{refused:?}");
    assert_eq!(effect.told(ledger).await, [0, 0]);
    let refused = effect.undo(ledger).await;
    assert!(matches!(refused, Err(MemoryError::NothingToUndo)), "{refused:?}");
    assert_eq!(effect.told(ledger).await, [0, 0]);
    effect.apply(ledger, write(json!(1))).await.expect("it may be applied later");
}

async fn an_effect_is_undone_once(ledger: &dyn Ledger) {
    let cases = [
        (None, write(json!("new"))),
        (Some(json!("old")), write(json!("new"))),
        (Some(json!("old")), update(json!("new"))),
        (Some(json!("old")), delete()),
    ];
    for (number, (before, operation)) in cases.into_iter().enumerate() {
        let effect = Effect::new(&format!("key.{number}"));
        let mut version = 0;
        if let Some(before) = &before {
            let written = change(ledger, &effect.place, write(before.clone())).await;
            version = written.after.expect("written").version;
        }
        effect.apply(ledger, operation).await.expect("it is applied");
        effect.undo(ledger).await.expect("it is undone");
        let restored = read(ledger, &effect.place).await;
        assert_eq!(restored.as_ref().map(|restored| restored.value.clone()), before);
        assert!(restored.is_none_or(|restored| restored.version > version));
        let again = effect.undo(ledger).await;
        assert!(matches!(again, Err(MemoryError::NothingToUndo)), "{again:?}");
        assert_eq!(effect.told(ledger).await, [1, 1]);
    }
}

async fn what_somebody_else_changed_is_left_alone(ledger: &dyn Ledger) {
    for (number, others) in [write(json!("theirs")), delete()].into_iter().enumerate() {
        let effect = Effect::new(&format!("key.{number}"));
        change(ledger, &effect.place, write(json!("old"))).await;
        effect.apply(ledger, write(json!("ours"))).await.expect("it is applied");
        let theirs = change(ledger, &effect.place, others).await.after;
        let refused = effect.undo(ledger).await;
        assert!(
            matches!(&refused, Err(MemoryError::ChangedSince { key }) if *key == effect.place.key),
            "{refused:?}"
        );
        assert_eq!(read(ledger, &effect.place).await, theirs);
        assert_eq!(effect.told(ledger).await, [1, 0]);
    }
}

async fn what_was_added_is_subtracted(ledger: &dyn Ledger) {
    let (one, two) = (Effect::new("count"), Effect::new("count"));
    change(ledger, &one.place, write(json!(10))).await;
    one.apply(ledger, add(5)).await.expect("it is applied");
    two.apply(ledger, add(-2)).await.expect("it is applied");
    change(ledger, &one.place, add(100)).await;
    one.undo(ledger).await.expect("it is undone");
    assert_eq!(value(ledger, &one.place).await, Some(json!(108)));
    two.undo(ledger).await.expect("it is undone");
    assert_eq!(value(ledger, &one.place).await, Some(json!(110)));

    let third = Effect::new("count");
    third.apply(ledger, add(1)).await.expect("it is applied");
    change(ledger, &one.place, write(json!("no number"))).await;
    assert!(third.undo(ledger).await.is_err());
    assert_eq!(value(ledger, &one.place).await, Some(json!("no number")));
}

async fn what_has_expired_by_itself_is_undone_too(new_ledger: &impl Fn(Setup) -> Arc<dyn Ledger>) {
    let (setup, clock) = Setup::new();
    let ledger = &*new_ledger(setup);
    let effect = Effect::new("limit");
    change(ledger, &effect.place, write(json!("old"))).await;
    let short = write(json!("new")).for_time(SignedDuration::from_secs(1));
    effect.apply(ledger, short).await.expect("it is applied");
    clock.advance(Duration::from_secs(2));
    assert_eq!(read(ledger, &effect.place).await, None);
    // Some stores forget what has expired when something else changes.
    change(ledger, &place("other"), write(json!(1))).await;
    effect.undo(ledger).await.expect("it is undone");
    assert_eq!(value(ledger, &effect.place).await, Some(json!("old")));
}

fn place(key: &str) -> MemoryPlace {
    MemoryPlace::of(&Caller::principal("ada").session("s-1"), MemoryScope::ShortTerm, key)
}

fn write(value: Value) -> MemoryChange {
    MemoryChange::new(Operation::Write(value))
}

fn update(value: Value) -> MemoryChange {
    MemoryChange::new(Operation::Update(value))
}

fn add(number: i64) -> MemoryChange {
    MemoryChange::new(Operation::Add(Number::from(number)))
}

fn delete() -> MemoryChange {
    MemoryChange::new(Operation::Delete)
}

async fn try_change(
    ledger: &dyn Ledger,
    place: &MemoryPlace,
    change: MemoryChange,
) -> Result<Changed, MemoryError> {
    within(ledger.change(place.clone(), change)).await
}

async fn change(ledger: &dyn Ledger, place: &MemoryPlace, change: MemoryChange) -> Changed {
    try_change(ledger, place, change).await.expect("the value is changed")
}

async fn read(ledger: &dyn Ledger, place: &MemoryPlace) -> Option<Remembered> {
    within(ledger.read(place.clone())).await.expect("the value is read")
}

async fn value(ledger: &dyn Ledger, place: &MemoryPlace) -> Option<Value> {
    read(ledger, place).await.map(|remembered| remembered.value)
}

async fn list(
    ledger: &dyn Ledger,
    place: &MemoryPlace,
    prefix: &str,
    limit: usize,
) -> Vec<(String, Remembered)> {
    let listed = ledger.list(place.scope, place.owner.clone(), prefix.to_owned(), limit);
    within(listed).await.expect("values are listed")
}
