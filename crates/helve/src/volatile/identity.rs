//! API keys, in memory.

use std::collections::BTreeMap;
use std::future::ready;
use std::sync::Arc;

use helve_core::identity::{Key, KeyState};
use helve_core::ports::{JournalError, KEYS_MAX, Keys, too_many_keys};
use helve_core::{ApprovalId, BoxFuture, Caller, KeyId};
use jiff::Timestamp;

use super::{VolatileLedger, lock};

/// Keys by their public part.
#[derive(Default)]
pub(super) struct KeyTable {
    keys: BTreeMap<KeyId, Key>,
    changes: u64,
}

impl Keys for VolatileLedger {
    fn create_key(&self, key: Box<Key>, by: Arc<Caller>) -> BoxFuture<'_, Result<(), JournalError>> {
        let mut table = lock(&self.identity);
        if table.keys.len() >= KEYS_MAX {
            let waits = |id: ApprovalId| self.is_pending(id);
            table.keys.retain(|_, one| one.only.is_none_or(waits));
            let is_like = |one: &&Key| {
                one.only.is_some() == key.only.is_some() && one.state_at(key.made_at) == KeyState::Live
            };
            if table.keys.values().filter(is_like).count() >= KEYS_MAX {
                return Box::pin(ready(Err(too_many_keys(&key))));
            }
        }
        table.changes += 1;
        let entry = key.record("keys create", by, key.made_at);
        table.keys.insert(key.id, *key);
        drop(table);
        self.tell(vec![entry]);
        Box::pin(ready(Ok(())))
    }

    fn key(&self, id: KeyId) -> BoxFuture<'_, Result<Option<Key>, JournalError>> {
        Box::pin(ready(Ok(lock(&self.identity).keys.get(&id).cloned())))
    }

    fn keys(&self) -> BoxFuture<'_, Result<Vec<Key>, JournalError>> {
        Box::pin(ready(Ok(lock(&self.identity).keys.values().rev().cloned().collect())))
    }

    fn revoke_key(
        &self,
        id: KeyId,
        by: Arc<Caller>,
        at: Timestamp,
    ) -> BoxFuture<'_, Result<Option<Key>, JournalError>> {
        let mut table = lock(&self.identity);
        let revoked = table.keys.get_mut(&id).map(|key| (key.revoke(&by, at), key.clone()));
        table.changes += u64::from(matches!(revoked, Some((true, _))));
        drop(table);
        if let Some((true, key)) = &revoked {
            self.tell(vec![key.record("keys revoke", by, at)]);
        }
        Box::pin(ready(Ok(revoked.map(|(_, key)| key))))
    }

    fn redeem_code(&self, id: KeyId, at: Timestamp) -> BoxFuture<'_, Result<Option<Key>, JournalError>> {
        let redeemed =
            lock(&self.identity).keys.get_mut(&id).and_then(|key| key.redeem(at).then(|| key.clone()));
        if let Some(key) = &redeemed {
            self.tell(vec![key.record("keys sign-in", Arc::new(key.caller()), at)]);
        }
        Box::pin(ready(Ok(redeemed)))
    }

    fn touch_keys(&self, used: Vec<(KeyId, Timestamp)>) -> BoxFuture<'_, Result<(), JournalError>> {
        let mut table = lock(&self.identity);
        for (id, at) in used {
            table.keys.get_mut(&id).into_iter().for_each(|key| key.used_at = Some(at));
        }
        Box::pin(ready(Ok(())))
    }

    fn key_changes(&self) -> BoxFuture<'_, Result<u64, JournalError>> {
        Box::pin(ready(Ok(lock(&self.identity).changes)))
    }
}

#[cfg(test)]
mod tests {
    use helve_core::identity::Purpose;

    use super::*;

    #[tokio::test]
    async fn links_and_keys_that_ended_take_no_room_from_keys() {
        let now = Timestamp::now();
        let good = || Key::generate("ci", Purpose::Call, "ada", now).0;
        let ended = || {
            let mut key = good();
            key.expires_at = Some(now);
            key
        };
        // Of a question that does not wait.
        let link = || {
            let mut link = Key::generate("ci", Purpose::SignIn, "ada", now).0;
            link.only = Some(ApprovalId::new(now));
            link
        };
        let sorts: [(&dyn Fn() -> Key, _); 3] = [(&ended, true), (&link, true), (&good, false)];
        for (sort, has_room) in sorts {
            let ledger = VolatileLedger::default();
            let keep = |key: Key| ledger.create_key(Box::new(key), Caller::local());
            for _ in 0..KEYS_MAX {
                keep(sort()).await.unwrap();
            }
            keep(link()).await.unwrap();
            let one_more = keep(good()).await;
            assert_eq!(one_more.is_ok(), has_room);
            if let Err(refused) = one_more {
                assert!(refused.to_string().contains("helve keys revoke"), "{refused}");
            }
        }
    }
}
