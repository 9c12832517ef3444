//! Sessions within a group.

use std::collections::BTreeMap;

use helve_core::ports::JournalError;
use helve_core::session::{SessionChange, SessionKey, SessionState};
use helve_ledger::entry::unwritable;
use helve_ledger::vouch::{self, Voucher};
use jiff::Timestamp;
use tokio_postgres::{Client, Row};

use super::Stop;
use super::group::Group;
use crate::sql::{findable, params};
use crate::vouched::{self, told_of};

/// How long a session that does not change is remembered: 90 days.
const KEEP_MS: i64 = 90 * 24 * 3_600_000;

/// How many of long ago are forgotten with a change.
const FORGOTTEN_MAX: i64 = 100;

/// How a session is found: principals and ids may hold anything, and absent is not empty.
pub(crate) fn digest(key: &SessionKey) -> String {
    let names = [key.principal.as_deref(), key.session.as_deref()].map(|name| name.map(str::as_bytes));
    vouch::digest("session", &[], &names)
}

/// Makes a place for each session that is new, and locks all of them, in order.
pub(super) async fn lock(db: &Client, sessions: &BTreeMap<String, SessionKey>) -> Result<(), Stop> {
    if sessions.is_empty() {
        return Ok(());
    }
    let keys: Vec<&str> = sessions.keys().map(String::as_str).collect();
    let name = |name: &Option<std::sync::Arc<str>>| name.as_deref().map(findable);
    db.execute_typed(
        "INSERT INTO helve.sessions (key, principal, session, changed_ms) \
         SELECT key, principal, session, 0 FROM unnest($1::text[], $2::text[], $3::text[]) \
             AS named (key, principal, session) ORDER BY key \
         ON CONFLICT (key) DO NOTHING",
        params![
            keys,
            sessions.values().map(|key| name(&key.principal)).collect::<Vec<_>>(),
            sessions.values().map(|key| name(&key.session)).collect::<Vec<_>>()
        ],
    )
    .await?;
    let locked = "SELECT 1 FROM helve.sessions WHERE key = ANY($1) ORDER BY key FOR UPDATE";
    db.query_typed(locked, params![keys]).await?;
    Ok(())
}

impl Group<'_> {
    /// Makes a change, and says how the session is now. A refusal leaves it as it was.
    pub(super) async fn change_session(
        &mut self,
        key: &SessionKey,
        change: &SessionChange,
        now: Timestamp,
        forget_before: Timestamp,
    ) -> Result<SessionState, Stop> {
        // What vouches for it may be among the entries that wait.
        self.flush_others().await?;
        let row = self.db.query_typed_one(FIND_SESSION, params![digest(key)]).await?;
        let found = match (session_of_row(key, &row, now), change) {
            (Ok(found), _) => found,
            // Whatever it was, it ends.
            (Err(_), SessionChange::End { .. }) => None,
            (Err(error), SessionChange::Raise(_) | SessionChange::Permit(_)) => return Err(error.into()),
        };
        let found = found.filter(|state| state.changed_at >= forget_before);
        let mut state = found.unwrap_or_else(|| SessionState::new(now));
        state.apply(change, now).map_err(|error| Stop::refused(error.to_string()))?;
        let body = serde_json::to_string(&state).map_err(|error| unwritable("session", error))?;
        let changed_ms = match state.ended_at {
            Some(_) => -now.as_millisecond(),
            None => now.as_millisecond(),
        };
        self.db
            .execute_typed(
                "UPDATE helve.sessions SET changed_ms = $2, body = $3 WHERE key = $1",
                params![digest(key), changed_ms, body],
            )
            .await?;
        self.vouch(voucher(key, changed_ms, &body), now)?;
        // Those of long ago make room. A session that another replica changes just now is skipped.
        self.db
            .execute_typed(
                "DELETE FROM helve.sessions WHERE key IN (SELECT key FROM helve.sessions \
                 WHERE changed_ms BETWEEN 0 AND $1 AND key <> $2 ORDER BY changed_ms LIMIT $3 \
                 FOR UPDATE SKIP LOCKED)",
                params![now.as_millisecond() - KEEP_MS, digest(key), FORGOTTEN_MAX],
            )
            .await?;
        Ok(state)
    }
}

/// The row of a session, or none, with the last entry about it.
pub(crate) const FIND_SESSION: &str = concat!(
    "SELECT s.body, s.changed_ms, ",
    told_of!("'sessions/' || $1"),
    " FROM (SELECT 1) AS one LEFT JOIN helve.sessions s ON s.key = $1 AND s.body IS NOT NULL"
);

/// A session that is as the journal tells.
pub(crate) fn session_of_row(
    key: &SessionKey,
    row: &Row,
    now: Timestamp,
) -> Result<Option<SessionState>, JournalError> {
    let (body, told): (Option<&str>, Option<&str>) = (row.get(0), row.get(2));
    let what = match body {
        Some(body) if voucher(key, row.get(1), body).seal == vouched::seal(told) => {
            let unreadable = |error| JournalError::new(format!("a session cannot be read: {error}"));
            return serde_json::from_str(body).map(Some).map_err(unreadable);
        }
        Some(_) => "was changed",
        None if vouched::is_due(told, now.as_microsecond()) => "was removed",
        None => return Ok(None),
    };
    Err(JournalError::new(format!(
        "what is remembered of this session {what}; begin another, and run verify"
    )))
}

/// What [`session_seal_of_row`] reads, after what comes before.
pub(crate) const SEALED_SESSION: &str = "t.changed_ms, t.body";

/// The digest of a row as it stands. None: it is being made.
pub(crate) fn session_seal_of_row(row: &Row, first: usize) -> Option<String> {
    let body: Option<&str> = row.get(first + 1);
    Some(seal(row.get(first), body?))
}

fn seal(changed_ms: i64, body: &str) -> String {
    vouch::digest(TABLE, &[], &[Some(&changed_ms.to_le_bytes()), Some(body.as_bytes())])
}

/// What the journal is to tell of a session.
fn voucher(key: &SessionKey, changed_ms: i64, body: &str) -> Voucher {
    let seal = seal(changed_ms, body);
    // Below zero: it was ended, and is never forgotten.
    let until_us = (changed_ms >= 0).then_some((changed_ms + KEEP_MS).saturating_mul(1_000));
    Voucher { row: row_name(key), seal: Some(seal), until_us }
}

const TABLE: &str = "sessions";

/// How entries name a session.
fn row_name(key: &SessionKey) -> String {
    format!("{TABLE}/{}", digest(key))
}
