//! Agents' memory, as the runtime sees it.

pub(crate) mod effects;
pub(crate) mod values;

use std::sync::Arc;

use helve_core::BoxFuture;
use helve_core::memory::{
    Changed, MemoryChange, MemoryError, MemoryLimits, MemoryPlace, MemoryScope, Remembered,
};
use helve_core::ports::{Clock, EffectId, JournalError, Memory};
use helve_core::run::Step;
use jiff::Timestamp;

use crate::store::Store;
use helve_ledger::request::Request;

/// What memory needs of its surroundings.
#[derive(Clone)]
pub(crate) struct Settings {
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) limits: MemoryLimits,
}

impl Settings {
    /// Now, as precisely as it is stored.
    pub(crate) fn now(&self) -> Timestamp {
        let now = self.clock.now();
        Timestamp::from_microsecond(now.as_microsecond()).unwrap_or(now)
    }
}

/// Why a value could not be read or changed: by itself, or with everything else.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ValueError {
    #[error(transparent)]
    Sqlite(#[from] rusqlite::Error),
    #[error(transparent)]
    Memory(#[from] MemoryError),
}

impl ValueError {
    fn damaged(place: &MemoryPlace) -> Self {
        let what = format!("what is remembered as `{}` is damaged", place.key);
        Self::Memory(JournalError::new(what).into())
    }

    fn forged(place: &MemoryPlace) -> Self {
        let what = format!(
            "what is remembered as `{}` is not what was written: it was changed outside of Helve; set it anew or delete it, and \
             run `helve audit verify`",
            place.key
        );
        Self::Memory(JournalError::new(what).into())
    }

    /// A value that is refused concerns one job; anything else fails the group.
    pub(crate) fn apart<T>(result: Result<T, Self>) -> rusqlite::Result<Result<T, MemoryError>> {
        match result {
            Ok(value) => Ok(Ok(value)),
            Err(Self::Memory(error)) => Ok(Err(error)),
            Err(Self::Sqlite(error)) => Err(error),
        }
    }
}

impl Memory for Store {
    fn read(&self, place: MemoryPlace) -> BoxFuture<'_, Result<Option<Remembered>, MemoryError>> {
        Box::pin(async move {
            self.check_place(&place)?;
            let now = self.memory.now();
            self.readers.read(move |db| ValueError::apart(values::read(db, &place, now))).await?
        })
    }

    fn list(
        &self,
        scope: MemoryScope,
        owner: String,
        prefix: String,
        limit: usize,
    ) -> BoxFuture<'_, Result<Vec<(String, Remembered)>, MemoryError>> {
        Box::pin(async move {
            check_scope(scope)?;
            let now = self.memory.now();
            let list = move |db: &_| ValueError::apart(values::list(db, scope, owner, &prefix, limit, now));
            self.readers.read(list).await?
        })
    }

    fn change(
        &self,
        place: MemoryPlace,
        change: MemoryChange,
    ) -> BoxFuture<'_, Result<Changed, MemoryError>> {
        Box::pin(async move {
            self.check_place(&place)?;
            self.queue.request(|reply| Request::Change { place, change, reply }).await?
        })
    }

    fn apply(
        &self,
        effect: EffectId,
        place: MemoryPlace,
        change: MemoryChange,
        step: Box<Step>,
    ) -> BoxFuture<'_, Result<(), MemoryError>> {
        Box::pin(async move {
            self.check_place(&place)?;
            self.queue.request(|reply| Request::Apply { effect, place, change, step, reply }).await?
        })
    }

    fn undo(&self, effect: EffectId, step: Box<Step>) -> BoxFuture<'_, Result<(), MemoryError>> {
        Box::pin(async move { self.queue.request(|reply| Request::Undo { effect, step, reply }).await? })
    }
}

impl Store {
    fn check_place(&self, place: &MemoryPlace) -> Result<(), MemoryError> {
        check_scope(place.scope)?;
        self.memory.limits.check_key(&place.key)
    }
}

/// Working memory ends with its process, and so is none of ours.
fn check_scope(scope: MemoryScope) -> Result<(), MemoryError> {
    match scope {
        MemoryScope::Working => {
            Err(JournalError::new("working memory is kept by the process, not by the store").into())
        }
        MemoryScope::ShortTerm | MemoryScope::LongTerm => Ok(()),
    }
}
