//! Where API keys are kept.

use std::sync::Arc;

use jiff::Timestamp;

use super::JournalError;
use crate::BoxFuture;
use crate::caller::Caller;
use crate::id::KeyId;
use crate::identity::Key;

/// Most keys that are good at a time, and most links to questions that wait. Each is counted apart: every
/// caller can have questions put, and nobody's questions may keep a key from being made.
pub const KEYS_MAX: usize = 10_000;

/// Why a ledger does not keep one more of the like.
pub fn too_many_keys(key: &Key) -> JournalError {
    JournalError::new(match key.only {
        Some(_) => format!(
            "there are links to {KEYS_MAX} questions that wait; decide some of them (`helve approvals list`)"
        ),
        None => format!(
            "there are {KEYS_MAX} keys; revoke those that are not used (`helve keys list`, `helve keys revoke`)"
        ),
    })
}

/// Where API keys are kept. Making one, taking one back and using up a code stand in the journal,
/// each written together with its entry.
pub trait Keys: Send + Sync + 'static {
    /// Keeps a new key.
    fn create_key(&self, key: Box<Key>, by: Arc<Caller>) -> BoxFuture<'_, Result<(), JournalError>>;

    /// One key by its id, revoked ones too. None: there is none.
    fn key(&self, id: KeyId) -> BoxFuture<'_, Result<Option<Key>, JournalError>>;

    /// All keys, newest first, also those that can no longer be used.
    fn keys(&self) -> BoxFuture<'_, Result<Vec<Key>, JournalError>>;

    /// Takes a key back. None: there is no such key.
    fn revoke_key(
        &self,
        id: KeyId,
        by: Arc<Caller>,
        at: Timestamp,
    ) -> BoxFuture<'_, Result<Option<Key>, JournalError>>;

    /// Uses up a sign-in code whose secret was shown. None: it is none, or no longer good.
    fn redeem_code(&self, id: KeyId, at: Timestamp) -> BoxFuture<'_, Result<Option<Key>, JournalError>>;

    /// Notes when keys were last used. No entry tells of it.
    fn touch_keys(&self, used: Vec<(KeyId, Timestamp)>) -> BoxFuture<'_, Result<(), JournalError>>;

    /// A number that grows whenever a key is made or taken back, by whatever process.
    fn key_changes(&self) -> BoxFuture<'_, Result<u64, JournalError>>;
}
