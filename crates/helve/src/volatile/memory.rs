//! Memory in memory.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::future::ready;

use helve_core::BoxFuture;
use helve_core::memory::{
    Changed, MemoryChange, MemoryError, MemoryLimits, MemoryPlace, MemoryScope, Operation, Remembered,
    negated,
};
use helve_core::ports::{EffectId, Memory};
use helve_core::record::Entry;
use helve_core::run::Step;
use jiff::Timestamp;

use super::{VolatileLedger, lock};

/// Most effects that can still be undone; older ones stand. Without a bound, a process that runs
/// for months would keep the past of every value.
const EFFECTS_MAX: usize = 10_000;

/// Values under their keys, within limits.
pub(crate) struct MemoryTable {
    limits: MemoryLimits,
    values: BTreeMap<MemoryPlace, Remembered>,
    sizes: HashMap<(MemoryScope, String), Size>,
    effects: HashMap<EffectId, Undo>,
    /// In the order of their application; some may have been undone.
    effects_applied: VecDeque<EffectId>,
    version: u64,
}

#[derive(Default)]
struct Size {
    values: usize,
    bytes: usize,
}

/// What it takes to undo an effect.
struct Undo {
    place: MemoryPlace,
    operation: Operation,
    before: Option<Remembered>,
    /// The version that the effect left; 0 where it left no value.
    left: u64,
    /// When what it left was forgotten by itself.
    left_until: Option<Timestamp>,
}

impl MemoryTable {
    pub(crate) fn new(limits: MemoryLimits) -> Self {
        Self {
            limits,
            values: BTreeMap::new(),
            sizes: HashMap::new(),
            effects: HashMap::new(),
            effects_applied: VecDeque::new(),
            version: 0,
        }
    }

    /// All values together, as JSON.
    pub(crate) fn bytes(&self) -> usize {
        self.sizes.values().map(|size| size.bytes).sum()
    }

    /// Whether there is an effect that can be undone.
    pub(crate) fn has_effect(&self, effect: EffectId) -> bool {
        self.effects.contains_key(&effect)
    }

    /// Forgets all that an owner has in a scope.
    pub(crate) fn forget(&mut self, scope: MemoryScope, owner: &str) {
        let first = MemoryPlace { scope, owner: owner.to_owned(), key: String::new() };
        let ours = |place: &MemoryPlace| place.scope == scope && place.owner == owner;
        let values = self.values.range(first..).take_while(|(place, _)| ours(place));
        let places: Vec<_> = values.map(|(place, _)| place.clone()).collect();
        places.into_iter().for_each(|place| self.set(place, None));
        self.effects.retain(|_, undo| !ours(&undo.place));
    }

    pub(crate) fn read(&self, place: &MemoryPlace, now: Timestamp) -> Option<&Remembered> {
        self.values.get(place).filter(|value| value.is_alive(now))
    }

    pub(crate) fn list(
        &self,
        scope: MemoryScope,
        owner: String,
        prefix: String,
        limit: usize,
        now: Timestamp,
    ) -> Vec<(String, Remembered)> {
        let first = MemoryPlace { scope, owner, key: prefix };
        let ours = |place: &MemoryPlace| {
            place.scope == first.scope && place.owner == first.owner && place.key.starts_with(&first.key)
        };
        self.values
            .range(first.clone()..)
            .take_while(|(place, _)| ours(place))
            .filter(|(_, value)| value.is_alive(now))
            .take(limit)
            .map(|(place, value)| (place.key.clone(), value.clone()))
            .collect()
    }

    pub(crate) fn change(
        &mut self,
        place: MemoryPlace,
        change: &MemoryChange,
        now: Timestamp,
    ) -> Result<Changed, MemoryError> {
        self.limits.check_key(&place.key)?;
        if self.values.get(&place).is_some_and(|value| !value.is_alive(now)) {
            self.set(place.clone(), None);
        }
        let before = self.values.get(&place).cloned();
        let value = change.evaluate(before.as_ref())?;
        let after = value.map(|value| {
            let lives = change.time_to_live.map(|time| now.saturating_add(time).unwrap_or(Timestamp::MAX));
            Remembered { value, version: self.version + 1, changed_at: now, expires_at: lives }
        });
        if let Some(after) = &after {
            self.check_room(&place, before.as_ref(), after, now)?;
        }
        self.version += 1;
        self.set(place, after.clone());
        Ok(Changed { before, after })
    }

    /// As an effect: once, and so that it can be undone.
    pub(crate) fn apply(
        &mut self,
        effect: EffectId,
        place: MemoryPlace,
        change: MemoryChange,
        now: Timestamp,
    ) -> Result<Applied, MemoryError> {
        if self.effects.contains_key(&effect) {
            return Ok(Applied::Before);
        }
        let changed = self.change(place.clone(), &change, now)?;
        let left = changed.after.as_ref().map_or(0, |after| after.version);
        let left_until = changed.after.and_then(|after| after.expires_at);
        let undo = Undo { place, operation: change.operation, before: changed.before, left, left_until };
        self.effects.insert(effect, undo);
        self.effects_applied.push_back(effect);
        if self.effects_applied.len() > EFFECTS_MAX
            && let Some(oldest) = self.effects_applied.pop_front()
        {
            self.effects.remove(&oldest);
        }
        Ok(Applied::Now)
    }

    pub(crate) fn undo(&mut self, effect: EffectId, now: Timestamp) -> Result<(), MemoryError> {
        let Some(undo) = self.effects.get(&effect) else { return Err(MemoryError::NothingToUndo) };
        let found = self.read(&undo.place, now).map_or(0, |value| value.version);
        let expired = found == 0 && undo.left_until.is_some_and(|until| until <= now);
        let untouched = found == undo.left || expired;
        match &undo.operation {
            // What others have added since is theirs.
            Operation::Add(number) if !untouched => {
                let change = MemoryChange::new(Operation::Add(negated(number)?));
                self.change(undo.place.clone(), &change, now)?;
            }
            _ if !untouched => {
                return Err(MemoryError::ChangedSince { key: undo.place.key.clone() });
            }
            _ => {
                self.version += 1;
                let (place, version) = (undo.place.clone(), self.version);
                let before = undo.before.clone().map(|before| Remembered { version, ..before });
                self.set(place, before);
            }
        }
        self.effects.remove(&effect);
        Ok(())
    }

    fn check_room(
        &mut self,
        place: &MemoryPlace,
        before: Option<&Remembered>,
        after: &Remembered,
        now: Timestamp,
    ) -> Result<(), MemoryError> {
        let limits = self.limits;
        let bytes = size(after);
        if bytes > limits.value_bytes_max {
            return Err(MemoryError::Full { what: "the value's bytes", max: limits.value_bytes_max });
        }
        let fits = |table: &Self| {
            let owner = (place.scope, place.owner.clone());
            let (values, all) = table.sizes.get(&owner).map_or((0, 0), |size| (size.values, size.bytes));
            if before.is_none() && values >= limits.values_max {
                return Err(MemoryError::Full { what: "the number of values", max: limits.values_max });
            }
            if all - before.map_or(0, size) + bytes > limits.bytes_max {
                return Err(MemoryError::Full { what: "the bytes of all values", max: limits.bytes_max });
            }
            Ok(())
        };
        fits(self).or_else(|_| {
            // What has expired makes room.
            let dead: Vec<_> = self
                .values
                .iter()
                .filter(|(_, value)| !value.is_alive(now))
                .map(|(place, _)| place.clone())
                .collect();
            dead.into_iter().for_each(|place| self.set(place, None));
            fits(self)
        })
    }

    fn set(&mut self, place: MemoryPlace, value: Option<Remembered>) {
        let owner = (place.scope, place.owner.clone());
        let totals = self.sizes.entry(owner.clone()).or_default();
        if let Some(value) = &value {
            totals.values += 1;
            totals.bytes += size(value);
        }
        let old = match value {
            Some(value) => self.values.insert(place, value),
            None => self.values.remove(&place),
        };
        if let Some(old) = old {
            totals.values -= 1;
            totals.bytes -= size(&old);
        }
        if totals.values == 0 {
            self.sizes.remove(&owner);
        }
    }
}

/// Whether an effect was applied by this call.
#[derive(PartialEq)]
pub(crate) enum Applied {
    Now,
    Before,
}

fn size(value: &Remembered) -> usize {
    value.value.to_string().len()
}

impl Memory for VolatileLedger {
    fn read(&self, place: MemoryPlace) -> BoxFuture<'_, Result<Option<Remembered>, MemoryError>> {
        Box::pin(ready(Ok(lock(&self.memory).read(&place, self.clock.now()).cloned())))
    }

    fn list(
        &self,
        scope: MemoryScope,
        owner: String,
        prefix: String,
        limit: usize,
    ) -> BoxFuture<'_, Result<Vec<(String, Remembered)>, MemoryError>> {
        Box::pin(ready(Ok(lock(&self.memory).list(scope, owner, prefix, limit, self.clock.now()))))
    }

    fn change(
        &self,
        place: MemoryPlace,
        change: MemoryChange,
    ) -> BoxFuture<'_, Result<Changed, MemoryError>> {
        Box::pin(ready(lock(&self.memory).change(place, &change, self.clock.now())))
    }

    fn apply(
        &self,
        effect: EffectId,
        place: MemoryPlace,
        change: MemoryChange,
        step: Box<Step>,
    ) -> BoxFuture<'_, Result<(), MemoryError>> {
        let applied = lock(&self.memory).apply(effect, place, change, self.clock.now());
        if matches!(applied, Ok(Applied::Now)) {
            lock(&self.log).push(Entry::Step(step));
        }
        Box::pin(ready(applied.map(drop)))
    }

    fn undo(&self, effect: EffectId, step: Box<Step>) -> BoxFuture<'_, Result<(), MemoryError>> {
        let undone = lock(&self.memory).undo(effect, self.clock.now());
        if undone.is_ok() {
            lock(&self.log).push(Entry::Step(step));
        }
        Box::pin(ready(undone))
    }
}
