//! API keys, as the runtime sees them.

use std::sync::Arc;

use helve_core::identity::Key;
use helve_core::ports::{JournalError, Keys};
use helve_core::{BoxFuture, Caller, KeyId};
use helve_ledger::request::{KeyChange, Request};
use jiff::Timestamp;

use crate::error::PostgresError;
use crate::ledger::PostgresLedger;
use crate::sql::params;
use crate::writer::{SELECT_KEY, key_of_row};

impl Keys for PostgresLedger {
    fn create_key(&self, key: Box<Key>, by: Arc<Caller>) -> BoxFuture<'_, Result<(), JournalError>> {
        Box::pin(async move { self.change_keys(KeyChange::Create { key, by }).await.map(drop) })
    }

    fn key(&self, id: KeyId) -> BoxFuture<'_, Result<Option<Key>, JournalError>> {
        Box::pin(async move {
            let found = format!("{SELECT_KEY} WHERE k.id = $1");
            let row = self.readers.query_opt(&found, params![id.to_string()]).await?;
            Ok(row.map(|row| key_of_row(&row)).transpose()?.flatten())
        })
    }

    fn keys(&self) -> BoxFuture<'_, Result<Vec<Key>, JournalError>> {
        Box::pin(async move {
            let all = format!("{SELECT_KEY} ORDER BY k.id DESC");
            let keys = self.readers.query(&all, params![]).await?;
            let keys: Result<Vec<_>, PostgresError> = keys.iter().map(key_of_row).collect();
            Ok(keys?.into_iter().flatten().collect())
        })
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
        Box::pin(async move {
            let changes = "SELECT value FROM helve.meta WHERE name = 'key_changes'";
            let row = self.readers.query_opt(changes, params![]).await?;
            Ok(row.map_or(0, |row| row.get::<_, i64>(0).unsigned_abs()))
        })
    }
}

impl PostgresLedger {
    async fn change_keys(&self, change: KeyChange) -> Result<Option<Key>, JournalError> {
        self.queue.request(|reply| Request::Keys { change, reply }).await
    }
}
