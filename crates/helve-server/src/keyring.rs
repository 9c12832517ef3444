//! API keys in memory, and how they follow the ledger.
//!
//! All keys that are good are kept, so that neither a right key nor a wrong one costs a look at the
//! disk. Twice a second, when requests come, the ledger is asked for a number that every change of
//! keys raises; a key that was taken back is refused from then on. One that nobody knows may have been
//! made a moment ago: the ledger is asked once more before it is refused, a few times a second at most
//! however many come.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use helve::identity::KeyState;
use helve::ports::JournalError;
use helve::{Key, KeyId, KeyText, Runtime};
use jiff::Timestamp;
use tokio::sync::Mutex;

use crate::visitor::Visitor;

/// How long what is known counts as true.
const TRUE_FOR_MS: u64 = 500;
/// How far apart looks are that strangers cause, so that who guesses keys cannot keep the disk busy. Less
/// than what is known counts as true: nobody who is known waits for it.
const STRANGERS_WAIT_MS: u64 = 200;
/// Before the first look.
const NEVER: u64 = u64::MAX;

/// The keys that are good.
pub(crate) struct Keyring {
    runtime: Runtime,
    known: ArcSwap<KeyCache>,
    began: Instant,
    /// Milliseconds from the beginning to the last look.
    looked_ms: AtomicU64,
    /// One looks at a time; the others wait for what it finds.
    looking: Mutex<()>,
}

#[derive(Default)]
struct KeyCache {
    changes: Option<u64>,
    keys: HashMap<KeyId, Holder>,
}

struct Holder {
    key: Key,
    visitor: Visitor,
    /// When it was last used, in seconds since 1970; 0 where that is written down.
    used_s: AtomicI64,
}

impl Keyring {
    pub(crate) fn new(runtime: Runtime) -> Self {
        Self {
            runtime,
            known: ArcSwap::default(),
            began: Instant::now(),
            looked_ms: AtomicU64::new(NEVER),
            looking: Mutex::default(),
        }
    }

    /// Whom a key stands for, and which it is. None: it is no key, or not good.
    pub(crate) async fn find(&self, text: &str) -> Result<Option<(KeyId, Visitor)>, JournalError> {
        let Some((id, secret)) = KeyText::parse(text) else { return Ok(None) };
        let mut known = self.known().await?;
        if !known.keys.contains_key(&id) {
            known = self.known_anew().await?;
        }
        let now = Timestamp::now();
        let good = |holder: &&Holder| holder.key.state_at(now) == KeyState::Live && holder.key.fits(secret);
        Ok(known.keys.get(&id).filter(good).map(|holder| {
            holder.used_s.store(now.as_second(), Ordering::Relaxed);
            (id, holder.visitor.clone())
        }))
    }

    /// Whether a key is still good.
    pub(crate) async fn is_good(&self, id: KeyId) -> Result<bool, JournalError> {
        let known = self.known().await?;
        let now = Timestamp::now();
        Ok(known.keys.get(&id).is_some_and(|holder| holder.key.state_at(now) == KeyState::Live))
    }

    /// Uses up a sign-in code. None: it is none, or no longer good.
    pub(crate) async fn redeem(&self, text: &str) -> Result<Option<Key>, JournalError> {
        let Some((id, secret)) = KeyText::parse(text) else { return Ok(None) };
        match self.runtime.keys().key(id).await? {
            Some(key) if key.fits(secret) => self.runtime.keys().redeem_code(id, Timestamp::now()).await,
            Some(_) | None => Ok(None),
        }
    }

    /// Writes down when keys were last used.
    pub(crate) async fn note_uses(&self) {
        let known = self.known.load_full();
        let used = known.keys.values().filter_map(|holder| {
            let at = Timestamp::from_second(holder.used_s.swap(0, Ordering::Relaxed)).ok()?;
            (at > Timestamp::UNIX_EPOCH).then_some((holder.key.id, at))
        });
        let used: Vec<_> = used.collect();
        if !used.is_empty()
            && let Err(error) = self.runtime.keys().touch_keys(used).await
        {
            tracing::warn!(%error, "when keys were last used could not be written down");
        }
    }

    fn now_ms(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_millis()).unwrap_or(NEVER - 1)
    }

    fn is_fresh(&self) -> bool {
        let looked = self.looked_ms.load(Ordering::Acquire);
        looked != NEVER && self.now_ms().saturating_sub(looked) < TRUE_FOR_MS
    }

    /// What is known, no older than half a second. Where the ledger cannot say, nobody comes in.
    async fn known(&self) -> Result<Arc<KeyCache>, JournalError> {
        if !self.is_fresh() {
            let _turn = self.looking.lock().await;
            if !self.is_fresh() {
                self.look().await?;
            }
        }
        Ok(self.known.load_full())
    }

    /// What is known by a look that begins after this does. All who wait for one share it.
    async fn known_anew(&self) -> Result<Arc<KeyCache>, JournalError> {
        let came = self.now_ms();
        let _turn = self.looking.lock().await;
        let looked = self.looked_ms.load(Ordering::Acquire);
        if looked <= came {
            let wait = looked.saturating_add(STRANGERS_WAIT_MS).saturating_sub(self.now_ms());
            tokio::time::sleep(Duration::from_millis(wait)).await;
            self.look().await?;
        }
        Ok(self.known.load_full())
    }

    async fn look(&self) -> Result<(), JournalError> {
        // Taken before the look: what changes during it is found by the next.
        let now = self.now_ms();
        self.look_for_changes().await?;
        self.looked_ms.store(now, Ordering::Release);
        Ok(())
    }

    async fn look_for_changes(&self) -> Result<(), JournalError> {
        let changes = self.runtime.keys().key_changes().await?;
        if self.known.load().changes == Some(changes) {
            return Ok(());
        }
        self.note_uses().await;
        let now = Timestamp::now();
        let keys = self.runtime.keys().keys().await?.into_iter();
        let good = keys.filter(|key| key.state_at(now) == KeyState::Live);
        let held = good.filter_map(|key| {
            let visitor = Visitor::of(&key)?;
            Some((key.id, Holder { key, visitor, used_s: AtomicI64::new(0) }))
        });
        self.known.store(Arc::new(KeyCache { changes: Some(changes), keys: held.collect() }));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use futures_util::future::join_all;
    use helve::identity::Purpose;

    use super::*;

    fn stranger() -> String {
        Key::generate("x", Purpose::Call, "x", Timestamp::now()).1.reveal().to_owned()
    }

    /// Were every stranger's look its own, these would take a minute.
    #[tokio::test]
    async fn strangers_share_looks_that_are_far_apart() {
        let keyring = Keyring::new(Runtime::builder().build());
        let (text, began) = (stranger(), Instant::now());
        for _ in 0..4 {
            assert!(keyring.find(&text).await.unwrap().is_none());
        }
        assert!(began.elapsed() >= Duration::from_millis(3 * STRANGERS_WAIT_MS));
        let texts: Vec<_> = (0..300).map(|_| stranger()).collect();
        let all = join_all(texts.iter().map(|text| keyring.find(text)));
        let found = tokio::time::timeout(Duration::from_secs(30), all).await.unwrap();
        assert!(found.into_iter().all(|one| one.unwrap().is_none()));
    }
}
