//! Where sessions are remembered.

use jiff::Timestamp;

use crate::BoxFuture;
use crate::ports::JournalError;
use crate::session::{SessionChange, SessionKey, SessionState};

/// Remembers sessions. What an answer of this port says would survive a power cut.
pub trait Sessions: Send + Sync + 'static {
    /// What is remembered of a session.
    fn session(&self, key: SessionKey) -> BoxFuture<'_, Result<Option<SessionState>, JournalError>>;

    /// Sessions of a principal, or of all, last changed first, at most `limit`.
    fn sessions(
        &self,
        principal: Option<String>,
        limit: usize,
    ) -> BoxFuture<'_, Result<Vec<(SessionKey, SessionState)>, JournalError>>;

    /// Changes a session, and says how it is now. One that last changed before `forget_before`
    /// starts anew.
    fn change_session(
        &self,
        key: SessionKey,
        change: Box<SessionChange>,
        now: Timestamp,
        forget_before: Timestamp,
    ) -> BoxFuture<'_, Result<SessionState, JournalError>>;
}
