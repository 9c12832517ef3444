//! API keys, as the runtime sees them.

pub(crate) mod table;
pub(crate) mod verify;

use std::sync::Arc;

use helve_core::identity::Key;
use helve_core::ports::{JournalError, Keys};
use helve_core::{BoxFuture, Caller, KeyId};
use helve_ledger::request::{KeyChange, Request};
use jiff::Timestamp;

use crate::store::Store;

impl Keys for Store {
    fn create_key(&self, key: Box<Key>, by: Arc<Caller>) -> BoxFuture<'_, Result<(), JournalError>> {
        Box::pin(async move { self.change_keys(KeyChange::Create { key, by }).await.map(drop) })
    }

    fn key(&self, id: KeyId) -> BoxFuture<'_, Result<Option<Key>, JournalError>> {
        Box::pin(self.readers.read(move |db| table::find_vouched(db, id)))
    }

    fn keys(&self) -> BoxFuture<'_, Result<Vec<Key>, JournalError>> {
        Box::pin(self.readers.read(table::list_vouched))
    }

    fn revoke_key(
        &self,
        id: KeyId,
        by: Arc<Caller>,
        at: Timestamp,
    ) -> BoxFuture<'_, Result<Option<Key>, JournalError>> {
        Box::pin(self.change_keys(KeyChange::Revoke { id, by, at }))
    }

    fn redeem_code(&self, id: KeyId, at: Timestamp) -> BoxFuture<'_, Result<Option<Key>, JournalError>> {
        Box::pin(self.change_keys(KeyChange::Redeem { id, at }))
    }

    fn touch_keys(&self, used: Vec<(KeyId, Timestamp)>) -> BoxFuture<'_, Result<(), JournalError>> {
        Box::pin(async move { self.change_keys(KeyChange::Touch { used }).await.map(drop) })
    }

    fn key_changes(&self) -> BoxFuture<'_, Result<u64, JournalError>> {
        Box::pin(self.readers.read(table::changes))
    }
}

impl Store {
    async fn change_keys(&self, change: KeyChange) -> Result<Option<Key>, JournalError> {
        self.queue.request(|reply| Request::Keys { change, reply }).await
    }
}
