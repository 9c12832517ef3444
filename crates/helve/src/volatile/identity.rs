//! API keys, in memory.

use std::collections::BTreeMap;
use std::future::ready;
use std::sync::Arc;

use helve_core::identity::Key;
use helve_core::ports::{JournalError, KEYS_MAX, Keys};
use helve_core::{BoxFuture, Caller, KeyId};
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
            return Box::pin(ready(Err(JournalError::new("there are too many keys"))));
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
