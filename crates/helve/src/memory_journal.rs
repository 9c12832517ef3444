//! A journal in memory: for tests, and for programs that keep their own records.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use helve_core::ports::{Begun, Journal, JournalError, KeyClaim};
use helve_core::record::{Entry, Started};
use helve_core::{BoxFuture, CallId, Status};
use tokio::sync::watch;

/// Most entries that are kept; older ones make room.
const ENTRIES_MAX: usize = 10_000;

/// Most idempotency keys that are remembered. Beyond it new keys are refused: forgetting one
/// would let a call run twice.
const KEYS_MAX: usize = 100_000;

/// A journal in memory. It survives nothing; the durable one is in the crate `helve-store`.
#[derive(Default)]
pub struct MemoryJournal {
    entries: Mutex<VecDeque<Entry>>,
    keys: Mutex<HashMap<[u8; 32], Key>>,
}

struct Key {
    call_id: CallId,
    fingerprint: [u8; 32],
    ended: watch::Sender<Option<Arc<Status>>>,
}

impl MemoryJournal {
    /// What is kept, oldest first.
    pub fn entries(&self) -> Vec<Entry> {
        lock(&self.entries).iter().cloned().collect()
    }

    fn push(&self, entry: Entry) {
        let mut entries = lock(&self.entries);
        if entries.len() == ENTRIES_MAX {
            entries.pop_front();
        }
        entries.push_back(entry);
    }

    /// Claims the key, or tells how the earlier claim ended, or how to learn of it.
    fn claim(&self, started: Box<Started>, claim: &KeyClaim) -> Result<Claimed, JournalError> {
        let mut keys = lock(&self.keys);
        if let Some(key) = keys.get(&claim.scoped_key) {
            let call_id = key.call_id;
            if key.fingerprint != claim.fingerprint {
                return Ok(Claimed::Settled(Begun::Conflict { call_id }));
            }
            return Ok(Claimed::Earlier(call_id, key.ended.subscribe()));
        }
        if keys.len() == KEYS_MAX {
            return Err(JournalError::new(format!("it remembers {KEYS_MAX} idempotency keys, its limit")));
        }
        let key = Key {
            call_id: started.facts.call_id,
            fingerprint: claim.fingerprint,
            ended: watch::Sender::new(None),
        };
        keys.insert(claim.scoped_key, key);
        drop(keys);
        self.push(Entry::Started(started));
        Ok(Claimed::Settled(Begun::Fresh))
    }
}

enum Claimed {
    Settled(Begun),
    Earlier(CallId, watch::Receiver<Option<Arc<Status>>>),
}

impl Journal for MemoryJournal {
    fn check(&self) -> Result<(), JournalError> {
        Ok(())
    }

    fn append(&self, entry: Entry) -> Result<(), JournalError> {
        self.push(entry);
        Ok(())
    }

    fn commit(&self, entry: Entry) -> BoxFuture<'_, Result<(), JournalError>> {
        self.push(entry);
        Box::pin(std::future::ready(Ok(())))
    }

    fn begin(&self, started: Box<Started>, claim: KeyClaim) -> BoxFuture<'_, Result<Begun, JournalError>> {
        Box::pin(async move {
            let (call_id, mut ended) = match self.claim(started, &claim)? {
                Claimed::Settled(begun) => return Ok(begun),
                Claimed::Earlier(call_id, ended) => (call_id, ended),
            };
            let status = ended.wait_for(Option::is_some).await.ok().and_then(|status| status.clone());
            Ok(match status {
                Some(status) => Begun::Finished { call_id, status },
                None => Begun::Unknown { call_id },
            })
        })
    }

    fn finish(
        &self,
        entry: Entry,
        claim: KeyClaim,
        status: Arc<Status>,
    ) -> BoxFuture<'_, Result<(), JournalError>> {
        self.push(entry);
        if let Some(key) = lock(&self.keys).get(&claim.scoped_key) {
            key.ended.send_replace(Some(status));
        }
        Box::pin(std::future::ready(Ok(())))
    }

    fn flush(&self) -> BoxFuture<'_, Result<(), JournalError>> {
        Box::pin(std::future::ready(Ok(())))
    }
}

/// Nothing panics while holding these locks; were it so, what they guard would still be whole.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
