//! Memory as the runtime has it: working memory in the process, all other in the ledger.

use std::collections::HashMap;
use std::future::ready;
use std::sync::{Arc, Mutex};

use helve_core::BoxFuture;
use helve_core::memory::{
    Changed, MemoryChange, MemoryError, MemoryLimits, MemoryPlace, MemoryScope, Operation, RESERVED_PREFIX,
    Remembered,
};
use helve_core::ports::{Clock, EffectId, Ledger, Memory};
use helve_core::record::Entry;
use helve_core::run::Step;
use jiff::{SignedDuration, Timestamp};

use crate::volatile::{Applied, MemoryTable, lock};

/// How long the working memory of a loop is kept when nobody uses it.
const UNUSED_MAX: SignedDuration = SignedDuration::from_hours(1);
/// Most loops with working memory. Beyond it new ones are refused: to drop another's memory could
/// make a condition hold that does not.
const LOOPS_MAX: usize = 1_000;
/// The working memory of all loops together, as JSON.
const BYTES_MAX: usize = 256 << 20;
/// Bounds on the working memory of one loop.
const LIMITS: MemoryLimits =
    MemoryLimits { key_bytes_max: 256, value_bytes_max: 1 << 20, values_max: 1_000, bytes_max: 16 << 20 };

/// The memory of all callers of a runtime.
///
/// Working memory is in the process and gone with it; all other is in the runtime's ledger. Keys
/// that begin with [`RESERVED_PREFIX`] are the runtime's own: changes of them are refused, and lists
/// leave them out.
pub struct RuntimeMemory {
    ledger: Arc<dyn Ledger>,
    clock: Arc<dyn Clock>,
    working: Mutex<Working>,
}

/// The working memory of every loop.
struct Working {
    table: MemoryTable,
    /// When each loop last used its own.
    used: HashMap<String, Timestamp>,
}

impl Working {
    fn read(&mut self, place: &MemoryPlace, now: Timestamp) -> Option<Remembered> {
        self.touch(&place.owner, now);
        self.table.read(place, now).cloned()
    }

    /// Makes sure that a loop may change its working memory.
    fn admit(&mut self, owner: &str, change: &MemoryChange, now: Timestamp) -> Result<(), MemoryError> {
        self.touch(owner, now);
        if !self.used.contains_key(owner) {
            self.forget_unused(now);
            if self.used.len() >= LOOPS_MAX {
                let what = "the number of loops with working memory";
                return Err(MemoryError::Full { what, max: LOOPS_MAX });
            }
            self.used.insert(owner.to_owned(), now);
        }
        if change.operation != Operation::Delete && self.table.bytes() >= BYTES_MAX {
            let what = "the bytes of all working memory";
            return Err(MemoryError::Full { what, max: BYTES_MAX });
        }
        Ok(())
    }

    /// Notes that a loop uses its memory, unless that was forgotten meanwhile.
    fn touch(&mut self, owner: &str, now: Timestamp) {
        match self.used.get_mut(owner) {
            Some(last) if is_recent(*last, now) => *last = now,
            Some(_) => {
                self.used.remove(owner);
                self.table.forget(MemoryScope::Working, owner);
            }
            None => {}
        }
    }

    fn forget_unused(&mut self, now: Timestamp) {
        let Self { table, used } = self;
        used.retain(|owner, last| {
            let keep = is_recent(*last, now);
            if !keep {
                table.forget(MemoryScope::Working, owner);
            }
            keep
        });
    }
}

fn is_recent(last: Timestamp, now: Timestamp) -> bool {
    now.duration_since(last) < UNUSED_MAX
}

impl RuntimeMemory {
    pub(crate) fn new(ledger: Arc<dyn Ledger>, clock: Arc<dyn Clock>) -> Self {
        let working = Working { table: MemoryTable::new(LIMITS), used: HashMap::new() };
        Self { ledger, clock, working: Mutex::new(working) }
    }

    /// Writes one of the runtime's own keys, which [`Memory::change`] refuses.
    pub(crate) async fn note(&self, place: MemoryPlace, change: MemoryChange) -> Result<(), MemoryError> {
        self.ledger.change(place, change).await.map(drop)
    }

    /// Reads on until there are enough keys that are not the runtime's own.
    async fn list_without_reserved(
        &self,
        scope: MemoryScope,
        owner: String,
        prefix: String,
        limit: usize,
    ) -> Result<Vec<(String, Remembered)>, MemoryError> {
        let mut asked = limit;
        loop {
            let mut found = self.ledger.list(scope, owner.clone(), prefix.clone(), asked).await?;
            let is_all = found.len() < asked;
            found.retain(|(key, _)| !is_reserved(key));
            if is_all || found.len() >= limit {
                found.truncate(limit);
                return Ok(found);
            }
            asked = asked.saturating_mul(2);
        }
    }
}

fn is_reserved(key: &str) -> bool {
    key.starts_with(RESERVED_PREFIX)
}

fn refused<'a, T: Send + 'a>(error: MemoryError) -> BoxFuture<'a, Result<T, MemoryError>> {
    Box::pin(ready(Err(error)))
}

impl Memory for RuntimeMemory {
    fn read(&self, place: MemoryPlace) -> BoxFuture<'_, Result<Option<Remembered>, MemoryError>> {
        match place.scope {
            MemoryScope::Working => Box::pin(ready(Ok(lock(&self.working).read(&place, self.clock.now())))),
            MemoryScope::ShortTerm | MemoryScope::LongTerm => self.ledger.read(place),
        }
    }

    fn list(
        &self,
        scope: MemoryScope,
        owner: String,
        prefix: String,
        limit: usize,
    ) -> BoxFuture<'_, Result<Vec<(String, Remembered)>, MemoryError>> {
        if is_reserved(&prefix) || limit == 0 {
            return Box::pin(ready(Ok(Vec::new())));
        }
        match scope {
            MemoryScope::Working => {
                let now = self.clock.now();
                let mut working = lock(&self.working);
                working.touch(&owner, now);
                Box::pin(ready(Ok(working.table.list(scope, owner, prefix, limit, now))))
            }
            MemoryScope::ShortTerm | MemoryScope::LongTerm => {
                Box::pin(self.list_without_reserved(scope, owner, prefix, limit))
            }
        }
    }

    fn change(
        &self,
        place: MemoryPlace,
        change: MemoryChange,
    ) -> BoxFuture<'_, Result<Changed, MemoryError>> {
        if is_reserved(&place.key) {
            return refused(MemoryError::Reserved);
        }
        match place.scope {
            MemoryScope::Working => {
                let now = self.clock.now();
                let mut working = lock(&self.working);
                let admitted = working.admit(&place.owner, &change, now);
                Box::pin(ready(admitted.and_then(|()| working.table.change(place, &change, now))))
            }
            MemoryScope::ShortTerm | MemoryScope::LongTerm => self.ledger.change(place, change),
        }
    }

    fn apply(
        &self,
        effect: EffectId,
        place: MemoryPlace,
        change: MemoryChange,
        step: Box<Step>,
    ) -> BoxFuture<'_, Result<(), MemoryError>> {
        if is_reserved(&place.key) {
            return refused(MemoryError::Reserved);
        }
        if place.scope != MemoryScope::Working {
            return self.ledger.apply(effect, place, change, step);
        }
        let now = self.clock.now();
        let mut working = lock(&self.working);
        let admitted = working.admit(&place.owner, &change, now);
        let applied = admitted.and_then(|()| working.table.apply(effect, place, change, now));
        let written = applied.and_then(|applied| match applied {
            Applied::Before => Ok(()),
            // No step, no effect.
            Applied::Now => self.ledger.append(Entry::Step(step)).map_err(|error| {
                let _ = working.table.undo(effect, now);
                MemoryError::Unavailable(error)
            }),
        });
        Box::pin(ready(written))
    }

    fn undo(&self, effect: EffectId, step: Box<Step>) -> BoxFuture<'_, Result<(), MemoryError>> {
        let mut working = lock(&self.working);
        if !working.table.has_effect(effect) {
            drop(working);
            return self.ledger.undo(effect, step);
        }
        let undone = working.table.undo(effect, self.clock.now());
        let written = undone.and_then(|()| Ok(self.ledger.append(Entry::Step(step))?));
        Box::pin(ready(written))
    }
}
