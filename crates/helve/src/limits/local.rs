//! Counts calls in this process.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::num::NonZeroU32;
use std::ops::Add;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use governor::clock::{Clock, Reference};
use governor::middleware::NoOpMiddleware;
use governor::nanos::Nanos;
use governor::state::{InMemoryState, NotKeyed};
use governor::{Quota, RateLimiter};
use helve_core::limit::Rate;
use helve_core::ports::{LimitKey, Limiter, Refusal, Slot};
use tokio::time::Instant;

/// Enough for many thousands of sessions at work, at about 200 bytes each.
const KEYS_MAX: usize = 32_768;

/// Keys are spread over so many maps, so that callers seldom wait for each other, and looking for
/// a key to forget takes only a part of them.
const SHARDS: usize = 16;

/// A full shard is looked through no more often than this, or a flood of new keys would do
/// nothing else.
const SWEEP_EVERY: Duration = Duration::from_millis(100);

/// When to ask again for a slot. Nobody knows when the calls that hold them will end.
const SLOT_WAIT: Duration = Duration::from_secs(1);

/// Counts calls in this process, under at most a fixed number of keys.
///
/// A key that has all its tokens and slots is the same as one never seen, so it may be forgotten
/// at any time. That happens when there is no room for a new one; where none can be forgotten, the
/// new one is refused.
#[derive(Debug)]
pub struct LocalLimiter {
    shards: [Mutex<Shard>; SHARDS],
    shard_keys_max: usize,
}

#[derive(Debug, Default)]
struct Shard {
    keys: HashMap<LimitKey, Count>,
    next_sweep: Option<Instant>,
}

impl Default for LocalLimiter {
    fn default() -> Self {
        Self::with_keys_max(KEYS_MAX)
    }
}

impl LocalLimiter {
    /// Counts under about so many keys, and never under more.
    pub fn with_keys_max(keys_max: usize) -> Self {
        Self { shards: Default::default(), shard_keys_max: (keys_max / SHARDS).max(1) }
    }

    /// How many keys are remembered.
    pub fn keys(&self) -> usize {
        self.shards.iter().map(|shard| lock(shard).keys.len()).sum()
    }

    fn with_count<T>(
        &self,
        key: &LimitKey,
        work: impl FnOnce(&mut Count, Instant) -> Result<T, Refusal>,
    ) -> Result<T, Refusal> {
        let now = Instant::now();
        let mut shard = lock(&self.shards[usize::from(key.as_bytes()[0]) % SHARDS]);
        shard.make_room(key, self.shard_keys_max, now);
        let full = shard.keys.len() >= self.shard_keys_max;
        match shard.keys.entry(*key) {
            Entry::Occupied(known) => work(known.into_mut(), now),
            Entry::Vacant(_) if full => Err(Refusal::Full),
            Entry::Vacant(new) => work(new.insert(Count::new(now)), now),
        }
    }
}

impl Limiter for LocalLimiter {
    fn try_take(&self, key: &LimitKey, rate: Rate) -> Result<(), Refusal> {
        self.with_count(key, |count, now| count.take(rate, now))
    }

    fn try_enter(&self, key: &LimitKey, slots: NonZeroU32) -> Result<Slot, Refusal> {
        self.with_count(key, |count, _| count.enter(slots))
    }
}

impl Shard {
    /// Forgets the idle keys, if this one needs room.
    fn make_room(&mut self, key: &LimitKey, keys_max: usize, now: Instant) {
        let too_soon = self.next_sweep.is_some_and(|next| now < next);
        if self.keys.len() < keys_max || too_soon || self.keys.contains_key(key) {
            return;
        }
        self.next_sweep = Some(now + SWEEP_EVERY);
        self.keys.retain(|_, count| !count.is_idle(now));
    }
}

/// What was taken under one key.
#[derive(Debug)]
struct Count {
    bucket: Option<Bucket>,
    /// From here on the bucket is as full as a new one.
    full_at: Instant,
    /// Calls that hold a slot. Raised under the shard's lock, lowered anywhere.
    running: Arc<AtomicU32>,
}

type Bucket = RateLimiter<NotKeyed, InMemoryState, TokioClock, NoOpMiddleware<Moment>>;

impl Count {
    fn new(now: Instant) -> Self {
        Self { bucket: None, full_at: now, running: Arc::default() }
    }

    fn take(&mut self, rate: Rate, now: Instant) -> Result<(), Refusal> {
        let bucket =
            self.bucket.get_or_insert_with(|| RateLimiter::direct_with_clock(quota(rate), TokioClock));
        bucket.check().map_err(|not_until| Refusal::Wait(not_until.wait_time_from(Moment(now))))?;
        self.full_at = self.full_at.max(now) + rate.interval();
        Ok(())
    }

    fn enter(&mut self, slots: NonZeroU32) -> Result<Slot, Refusal> {
        if self.running.load(Ordering::Acquire) >= slots.get() {
            return Err(Refusal::Wait(SLOT_WAIT));
        }
        self.running.fetch_add(1, Ordering::AcqRel);
        Ok(Slot::new(Running(Arc::clone(&self.running))))
    }

    fn is_idle(&self, now: Instant) -> bool {
        self.full_at <= now && self.running.load(Ordering::Acquire) == 0
    }
}

/// One call that runs.
struct Running(Arc<AtomicU32>);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

fn quota(rate: Rate) -> Quota {
    Quota::with_period(rate.interval())
        .unwrap_or_else(|| Quota::per_second(NonZeroU32::MIN))
        .allow_burst(rate.burst())
}

fn lock(shard: &Mutex<Shard>) -> MutexGuard<'_, Shard> {
    shard.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Tokio's time, which tests can stop and turn.
#[derive(Debug, Clone, Copy)]
struct TokioClock;

impl Clock for TokioClock {
    type Instant = Moment;

    fn now(&self) -> Moment {
        Moment(Instant::now())
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Moment(Instant);

impl Add<Nanos> for Moment {
    type Output = Self;

    fn add(self, time: Nanos) -> Self {
        Self(self.0 + Duration::from(time))
    }
}

impl Reference for Moment {
    fn duration_since(&self, earlier: Self) -> Nanos {
        self.0.saturating_duration_since(earlier.0).into()
    }

    fn saturating_sub(&self, time: Nanos) -> Self {
        Self(self.0.checked_sub(time.into()).unwrap_or(self.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(name: usize) -> LimitKey {
        LimitKey::new([name.to_string().as_str()])
    }

    #[tokio::test(start_paused = true)]
    async fn a_bucket_gives_its_burst_and_then_keeps_to_the_rate() {
        let limiter = LocalLimiter::default();
        let rate = "60/1m".parse::<Rate>().unwrap().with_burst(NonZeroU32::new(3).unwrap());
        for _ in 0..3 {
            assert_eq!(limiter.try_take(&key(1), rate), Ok(()));
        }
        assert_eq!(limiter.try_take(&key(1), rate), Err(Refusal::Wait(Duration::from_secs(1))));
        assert_eq!(limiter.try_take(&key(2), rate), Ok(()), "another key has its own");
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!(limiter.try_take(&key(1), rate), Ok(()));
        assert!(limiter.try_take(&key(1), rate).is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn only_idle_keys_are_forgotten_and_without_room_new_ones_are_refused() {
        let limiter = LocalLimiter::with_keys_max(160);
        let rate: Rate = "1/1m".parse().unwrap();
        let taken: Vec<_> = (0..1_000).filter(|name| limiter.try_take(&key(*name), rate).is_ok()).collect();
        assert!(taken.len() <= 160 && limiter.keys() == taken.len(), "{}", taken.len());
        let refused = (0..1_000).find(|name| !taken.contains(name)).unwrap();
        assert_eq!(limiter.try_take(&key(refused), rate), Err(Refusal::Full));
        // Known callers are counted on: forgetting them would give them more than their share.
        assert!(matches!(limiter.try_take(&key(taken[0]), rate), Err(Refusal::Wait(_))));
        tokio::time::advance(Duration::from_secs(60)).await;
        assert_eq!(limiter.try_take(&key(refused), rate), Ok(()));
        assert!(limiter.keys() <= 160);
    }

    #[tokio::test(start_paused = true)]
    async fn a_key_with_a_slot_in_use_is_never_forgotten() {
        let limiter = LocalLimiter::with_keys_max(1);
        let one = NonZeroU32::MIN;
        let slot = limiter.try_enter(&key(1), one).unwrap();
        for name in 2..500 {
            tokio::time::advance(SWEEP_EVERY).await;
            let _ = limiter.try_enter(&key(name), one);
        }
        assert_eq!(limiter.try_enter(&key(1), one).unwrap_err(), Refusal::Wait(SLOT_WAIT));
        drop(slot);
        assert!(limiter.try_enter(&key(1), one).is_ok());
    }
}
