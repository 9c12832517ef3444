//! Sessions, in memory.

use std::future::ready;

use helve_core::BoxFuture;
use helve_core::ports::{JournalError, Sessions};
use helve_core::session::{SessionChange, SessionKey, SessionState};
use jiff::Timestamp;

use super::{VolatileLedger, lock};

/// Most sessions that are remembered; those that changed longest ago make room.
const SESSIONS_MAX: usize = 100_000;

impl Sessions for VolatileLedger {
    fn session(&self, key: SessionKey) -> BoxFuture<'_, Result<Option<SessionState>, JournalError>> {
        Box::pin(ready(Ok(lock(&self.sessions).get(&key).cloned())))
    }

    fn sessions(
        &self,
        principal: Option<String>,
        limit: usize,
    ) -> BoxFuture<'_, Result<Vec<(SessionKey, SessionState)>, JournalError>> {
        let sessions = lock(&self.sessions);
        let fits = |key: &SessionKey| principal.is_none() || key.principal.as_deref() == principal.as_deref();
        let mut found: Vec<_> = sessions
            .iter()
            .filter(|(key, _)| fits(key))
            .map(|(key, state)| (key.clone(), state.clone()))
            .collect();
        drop(sessions);
        found.sort_by_key(|(_, state)| std::cmp::Reverse(state.changed_at));
        found.truncate(limit);
        Box::pin(ready(Ok(found)))
    }

    fn change_session(
        &self,
        key: SessionKey,
        change: Box<SessionChange>,
        now: Timestamp,
        forget_before: Timestamp,
    ) -> BoxFuture<'_, Result<SessionState, JournalError>> {
        let mut sessions = lock(&self.sessions);
        let found = sessions.get(&key).filter(|state| state.changed_at >= forget_before);
        let mut state = found.cloned().unwrap_or_else(|| SessionState::new(now));
        if let Err(error) = state.apply(&change, now) {
            return Box::pin(ready(Err(JournalError::new(error.to_string()))));
        }
        if sessions.len() >= SESSIONS_MAX && !sessions.contains_key(&key) {
            let oldest =
                sessions.iter().min_by_key(|(_, state)| state.changed_at).map(|(key, _)| key.clone());
            oldest.map(|key| sessions.remove(&key));
        }
        sessions.insert(key.clone(), state.clone());
        drop(sessions);
        if let SessionChange::End { by } = *change {
            self.tell(vec![key.ended(by, now)]);
        }
        Box::pin(ready(Ok(state)))
    }
}
