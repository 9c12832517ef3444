//! Sessions, as the runtime sees them.

use std::sync::Arc;

use helve_core::BoxFuture;
use helve_core::ports::{JournalError, Sessions};
use helve_core::session::{SessionChange, SessionKey, SessionState};
use helve_ledger::request::Request;
use jiff::Timestamp;

use crate::error::PostgresError;
use crate::ledger::PostgresLedger;
use crate::sql::{findable, limit, params};
use crate::writer::{FIND_SESSION, session_digest, session_of_row};

impl Sessions for PostgresLedger {
    fn session(&self, key: SessionKey) -> BoxFuture<'_, Result<Option<SessionState>, JournalError>> {
        Box::pin(async move {
            let row = self.readers.query_opt(FIND_SESSION, params![session_digest(&key)]).await?;
            let now = self.settings.clock.now();
            row.map_or(Ok(None), |row| session_of_row(&key, &row, now))
        })
    }

    fn sessions(
        &self,
        principal: Option<String>,
        max: usize,
    ) -> BoxFuture<'_, Result<Vec<(SessionKey, SessionState)>, JournalError>> {
        Box::pin(async move {
            let listed = "SELECT principal, session, body FROM helve.sessions \
                          WHERE body IS NOT NULL AND ($1::text IS NULL OR principal = $1) \
                          ORDER BY changed_ms DESC LIMIT $2";
            let rows =
                self.readers.query(listed, params![principal.as_deref().map(findable), limit(max)]).await?;
            let read = |row: &tokio_postgres::Row| {
                let name = |index| row.get::<_, Option<&str>>(index).map(Arc::from);
                Ok((SessionKey { principal: name(0), session: name(1) }, state(row.get(2))?))
            };
            Ok(rows.iter().map(read).collect::<Result<_, PostgresError>>()?)
        })
    }

    fn change_session(
        &self,
        key: SessionKey,
        change: Box<SessionChange>,
        now: Timestamp,
        forget_before: Timestamp,
    ) -> BoxFuture<'_, Result<SessionState, JournalError>> {
        let request = move |reply| Request::ChangeSession { key, change, now, forget_before, reply };
        Box::pin(self.queue.request(request))
    }
}

fn state(body: &str) -> Result<SessionState, PostgresError> {
    serde_json::from_str(body)
        .map_err(|error| PostgresError::Damaged(format!("a session cannot be read: {error}")))
}
