//! Sessions within a group.

use std::collections::BTreeMap;

use helve_core::session::{SessionChange, SessionKey, SessionState};
use helve_ledger::entry::unwritable;
use helve_ledger::vouch::{self, Voucher};
use jiff::Timestamp;
use sha2::{Digest, Sha256};
use tokio_postgres::Client;

use super::Stop;
use super::group::Group;
use crate::sql::{findable, params};

/// How long a session that does not change is remembered: 90 days.
const KEEP_MS: i64 = 90 * 24 * 3_600_000;

/// How many of long ago are forgotten with a change.
const FORGOTTEN_MAX: i64 = 100;

/// How a session is found: principals and ids may hold anything, and absent is not empty.
pub(crate) fn digest(key: &SessionKey) -> Vec<u8> {
    let mut digest = Sha256::new_with_prefix(b"helve session v1\0");
    for name in [&key.principal, &key.session] {
        digest.update([u8::from(name.is_some())]);
        let name = name.as_deref().unwrap_or_default();
        digest.update((name.len() as u64).to_le_bytes());
        digest.update(name);
    }
    digest.finalize().to_vec()
}

/// Makes a place for each session that is new, and locks all of them, in order.
pub(super) async fn lock(db: &Client, sessions: &BTreeMap<Vec<u8>, SessionKey>) -> Result<(), Stop> {
    if sessions.is_empty() {
        return Ok(());
    }
    let keys: Vec<&[u8]> = sessions.keys().map(Vec::as_slice).collect();
    let name = |name: &Option<std::sync::Arc<str>>| name.as_deref().map(findable);
    db.execute_typed(
        "INSERT INTO helve.sessions (key, principal, session, changed_ms) \
         SELECT key, principal, session, 0 FROM unnest($1::bytea[], $2::text[], $3::text[]) \
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
        let found = find(self.db, key).await?.filter(|state| state.changed_at >= forget_before);
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
        // Those of long ago make room. One that somebody else changes just now is not waited for.
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

async fn find(db: &Client, key: &SessionKey) -> Result<Option<SessionState>, Stop> {
    let found = "SELECT body FROM helve.sessions WHERE key = $1 AND body IS NOT NULL";
    let row = db.query_typed_opt(found, params![digest(key)]).await?;
    let unreadable = |error| Stop::damaged(format!("a session cannot be read: {error}"));
    row.map(|row| serde_json::from_str(row.get(0)).map_err(unreadable)).transpose()
}

/// What the journal is to tell of a session.
pub(crate) fn voucher(key: &SessionKey, changed_ms: i64, body: &str) -> Voucher {
    let seal = vouch::digest(TABLE, &[], &[Some(&changed_ms.to_le_bytes()), Some(body.as_bytes())]);
    // Below zero: it was ended, and is never forgotten.
    let until_us = (changed_ms >= 0).then_some((changed_ms + KEEP_MS).saturating_mul(1_000));
    Voucher { row: row_name(key), seal: Some(seal), until_us }
}

const TABLE: &str = "sessions";

/// How entries name a session.
pub(crate) fn row_name(key: &SessionKey) -> String {
    let names = [key.principal.as_deref(), key.session.as_deref()].map(|name| name.map(str::as_bytes));
    format!("{TABLE}/{}", vouch::digest("session", &[], &names))
}
