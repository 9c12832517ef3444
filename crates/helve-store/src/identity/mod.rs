//! API keys, as the runtime sees them.

pub(crate) mod table;
pub(crate) mod verify;

use std::sync::Arc;

use helve_core::identity::Key;
use helve_core::ports::{JournalError, Keys};
use helve_core::{BoxFuture, Caller, KeyId};
use jiff::Timestamp;

use crate::queue::{Job, Reply};
use crate::request::Request;
use crate::store::Store;

/// A change of keys, on its way to the writer.
pub(crate) enum KeyChange {
    /// Keep a new one.
    Create { key: Box<Key>, by: Arc<Caller> },
    /// Take one back.
    Revoke { id: KeyId, by: Arc<Caller>, at: Timestamp },
    /// Use up a sign-in code.
    Redeem { id: KeyId, at: Timestamp },
    /// Note when some were last used.
    Touch { used: Vec<(KeyId, Timestamp)> },
}

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
        let request = |reply: Reply<Option<Key>>| Request::Keys { change, reply };
        Store::ask(self, |reply| Job::Ask(Box::new(request(reply)))).await
    }
}
