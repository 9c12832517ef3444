//! The journal in memory.

use std::future::ready;
use std::sync::Arc;
use std::time::Duration;

use helve_core::cost::Spending;
use helve_core::ports::{Begun, Journal, JournalError, KeyClaim, KeyHolder};
use helve_core::record::{Entry, Started};
use helve_core::{BoxFuture, CallId, Status};
use jiff::Timestamp;
use tokio::sync::watch;

use super::{VolatileLedger, lock};

/// Most idempotency keys that are remembered. Beyond it new keys are refused: forgetting one
/// would let a call run twice.
const KEYS_MAX: usize = 100_000;

/// How often a call that waits for an earlier one under its key looks whether that one is in doubt by now.
const LOOK_EVERY: Duration = Duration::from_millis(200);

pub(super) struct Key {
    call_id: CallId,
    fingerprint: [u8; 32],
    ended: watch::Sender<Option<Arc<Status>>>,
}

enum Claimed {
    Settled(Begun),
    Earlier(CallId, watch::Receiver<Option<Arc<Status>>>, Box<Started>),
}

impl VolatileLedger {
    fn push(&self, entry: Entry) {
        lock(&self.log).push(entry);
    }

    /// Claims the key, or tells how the earlier claim ended, or how to learn of it.
    fn claim(&self, started: Box<Started>, claim: &KeyClaim) -> Result<Claimed, JournalError> {
        let mut keys = lock(&self.keys);
        if let Some(key) = keys.get(&claim.scoped_key) {
            let call_id = key.call_id;
            if key.fingerprint != claim.fingerprint {
                return Ok(Claimed::Settled(Begun::Conflict { call_id }));
            }
            return Ok(Claimed::Earlier(call_id, key.ended.subscribe(), started));
        }
        if keys.len() == KEYS_MAX {
            return Err(JournalError::new(format!("it remembers {KEYS_MAX} idempotency keys, its limit")));
        }
        self.use_up([&*started])?;
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

impl Journal for VolatileLedger {
    fn spending(&self, since: Timestamp) -> BoxFuture<'_, Result<Vec<Spending>, JournalError>> {
        let spent = self.entries().into_iter().filter_map(|entry| match entry {
            Entry::Finished(end) if end.at >= since => {
                let caller = &end.facts.caller;
                Some(Spending {
                    at: end.at,
                    tool: end.facts.tool.to_string(),
                    principal: caller.principal.clone(),
                    session: caller.session.clone(),
                    cost: *end.ending.cost?,
                })
            }
            Entry::Started(_) | Entry::Step(_) | Entry::Finished(_) => None,
        });
        Box::pin(ready(Ok(spent.collect())))
    }

    fn check(&self) -> Result<(), JournalError> {
        Ok(())
    }

    fn append(&self, entry: Entry) -> Result<(), JournalError> {
        self.push(entry);
        Ok(())
    }

    fn commit(&self, entry: Entry) -> BoxFuture<'_, Result<(), JournalError>> {
        self.commit_all(vec![entry])
    }

    fn commit_all(&self, entries: Vec<Entry>) -> BoxFuture<'_, Result<(), JournalError>> {
        let starts = entries.iter().filter_map(|entry| match entry {
            Entry::Started(started) => Some(&**started),
            Entry::Step(_) | Entry::Finished(_) => None,
        });
        let usable = self.use_up(starts);
        if usable.is_ok() {
            let mut log = lock(&self.log);
            entries.into_iter().for_each(|entry| log.push(entry));
        }
        Box::pin(ready(usable))
    }

    fn begin(
        &self,
        mut started: Box<Started>,
        claim: KeyClaim,
    ) -> BoxFuture<'_, Result<Begun, JournalError>> {
        Box::pin(async move {
            loop {
                let (call_id, mut ended) = match self.claim(started, &claim)? {
                    Claimed::Settled(begun) => return Ok(begun),
                    Claimed::Earlier(call_id, ended, back) => {
                        started = back;
                        (call_id, ended)
                    }
                };
                // A person has to find out what became of it: who calls again is told so instead of being kept.
                if lock(&self.log).is_in_doubt(call_id) {
                    return Ok(Begun::Unknown { call_id });
                }
                let Ok(ended) = tokio::time::timeout(LOOK_EVERY, ended.wait_for(Option::is_some)).await
                else {
                    continue;
                };
                // Without one the key was given back, and the next one has it.
                if let Some(status) = ended.ok().and_then(|status| status.clone()) {
                    return Ok(Begun::Finished { call_id, status });
                }
            }
        })
    }

    fn key_holder(&self, claim: KeyClaim) -> BoxFuture<'_, Result<Option<KeyHolder>, JournalError>> {
        let keys = lock(&self.keys);
        let holder = keys.get(&claim.scoped_key).map(|key| KeyHolder {
            call_id: key.call_id,
            same_arguments: key.fingerprint == claim.fingerprint,
        });
        Box::pin(ready(Ok(holder)))
    }

    fn finish(
        &self,
        entry: Entry,
        claim: KeyClaim,
        status: Arc<Status>,
    ) -> BoxFuture<'_, Result<(), JournalError>> {
        self.push(entry);
        let mut keys = lock(&self.keys);
        if status.gives_key_back() {
            keys.remove(&claim.scoped_key);
        } else if let Some(key) = keys.get(&claim.scoped_key) {
            key.ended.send_replace(Some(status));
        }
        Box::pin(ready(Ok(())))
    }

    fn flush(&self) -> BoxFuture<'_, Result<(), JournalError>> {
        Box::pin(ready(Ok(())))
    }
}
