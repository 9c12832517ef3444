//! API keys within a group: each change with the entry that tells of it.

use std::sync::Arc;

use helve_core::KeyId;
use helve_core::identity::{Key, Purpose};
use helve_core::ports::{KEYS_MAX, too_many_keys};
use helve_ledger::entry::unwritable;
use helve_ledger::request::KeyChange;
use helve_ledger::vouch::{self, Voucher};
use jiff::{SignedDuration, Timestamp};
use tokio_postgres::{Client, Row};

use super::Stop;
use super::group::Group;
use crate::error::PostgresError;
use crate::sql::params;
use crate::vouched::{self, told_of};

/// How long a sign-in code is kept once it is no longer good.
const KEEP_CODES: SignedDuration = SignedDuration::from_hours(24);

impl Group<'_> {
    pub(super) async fn change_keys(&mut self, change: &KeyChange) -> Result<Option<Key>, Stop> {
        // What vouches for a key may be among the entries that wait.
        self.flush_others().await?;
        match change {
            KeyChange::Create { key, by } => {
                forget_codes(self.db, key.made_at).await?;
                if !has_room(self.db, key).await? {
                    return Err(too_many_keys(key).into());
                }
                self.write_key(key, "keys create", Arc::clone(by), key.made_at).await?;
                changed(self.db).await?;
                Ok(Some(Key::clone(key)))
            }
            KeyChange::Revoke { id, by, at } => {
                let Some(mut key) = find(self.db, *id).await? else { return Ok(None) };
                if key.revoke(by, *at) {
                    self.write_key(&key, "keys revoke", Arc::clone(by), *at).await?;
                    changed(self.db).await?;
                }
                Ok(Some(key))
            }
            KeyChange::Redeem { id, at } => {
                let Some(mut key) = find(self.db, *id).await? else { return Ok(None) };
                if !key.redeem(*at) {
                    return Ok(None);
                }
                let by = Arc::new(key.caller());
                self.write_key(&key, "keys sign-in", by, *at).await?;
                Ok(Some(key))
            }
            KeyChange::Touch { used } => touch(self.db, used).await.map(|()| None),
        }
    }

    /// The entry first: where it cannot be written, nothing changes.
    async fn write_key(
        &mut self,
        key: &Key,
        deed: &str,
        by: Arc<helve_core::Caller>,
        at: Timestamp,
    ) -> Result<(), Stop> {
        self.record(&key.record(deed, by, at)).await?;
        keep(self.db, key).await?;
        self.vouch(voucher(key)?, at)
    }
}

/// What lasts of a key. Its last use is left out, except of a code, which is good once.
fn lasting(key: &Key) -> Result<String, Stop> {
    let mut lasting = key.clone();
    if key.purpose != Purpose::SignIn {
        lasting.used_at = None;
    }
    serde_json::to_string(&lasting).map_err(|error| unwritable("key", error).into())
}

fn voucher(key: &Key) -> Result<Voucher, Stop> {
    let seal = seal(&lasting(key)?);
    // Codes are forgotten.
    let until_us = (key.purpose == Purpose::SignIn).then(|| key.made_at.as_microsecond());
    Ok(Voucher { row: row_name(&key.id), seal: Some(seal), until_us })
}

/// The digest of a key as it is kept.
pub(crate) fn seal(body: &str) -> String {
    vouch::digest("api_keys", &[], &[Some(body.as_bytes())])
}

/// How entries name a key.
fn row_name(id: &KeyId) -> String {
    format!("api_keys/{id}")
}

/// Writes a key as it is now.
async fn keep(db: &Client, key: &Key) -> Result<(), Stop> {
    let is_live = key.revoked_at.is_none() && !(key.purpose == Purpose::SignIn && key.used_at.is_some());
    db.execute_typed(
        "INSERT INTO helve.api_keys (id, purpose, is_live, only_question, expires_ms, body) \
         VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT (id) DO UPDATE SET \
             is_live = excluded.is_live, expires_ms = excluded.expires_ms, body = excluded.body",
        params![
            key.id.to_string(),
            key.purpose.as_str(),
            is_live,
            key.only.map(|id| id.to_string()),
            key.expires_at.map(Timestamp::as_millisecond),
            lasting(key)?,
        ],
    )
    .await?;
    Ok(())
}

/// A key that the journal vouches for.
async fn find(db: &Client, id: KeyId) -> Result<Option<Key>, Stop> {
    let found = format!("{SELECT_KEY} WHERE k.id = $1");
    let row = db.query_typed_opt(&found, params![id.to_string()]).await?;
    row.map(|row| key_of_row(&row)).transpose().map(Option::flatten).map_err(Stop::Failed)
}

/// A key's columns, as [`key_of_row`] reads them.
pub(crate) const SELECT_KEY: &str =
    concat!("SELECT k.body, k.used_us, k.id, ", told_of!("'api_keys/' || k.id"), " FROM helve.api_keys k");

/// The key in a row. None: the journal does not vouch for it.
pub(crate) fn key_of_row(row: &Row) -> Result<Option<Key>, PostgresError> {
    let body: &str = row.get(0);
    let unreadable = |error| PostgresError::Damaged(format!("an API key cannot be read: {error}"));
    let mut key: Key = serde_json::from_str(body).map_err(unreadable)?;
    let is_its_own = key.id.to_string() == row.get::<_, &str>(2);
    if !is_its_own || vouched::seal(row.get(3)).as_deref() != Some(&*seal(body)) {
        tracing::error!(key = %key.id, "the journal does not vouch for this key; run verify");
        return Ok(None);
    }
    if let Some(used) = row.get::<_, Option<i64>>(1) {
        key.used_at = Timestamp::from_microsecond(used).ok();
    }
    Ok(Some(key))
}

/// Notes that who may come in has changed.
async fn changed(db: &Client) -> Result<(), Stop> {
    let changed = "UPDATE helve.meta SET value = value + 1 WHERE name = 'key_changes'";
    db.execute_typed(changed, &[]).await?;
    Ok(())
}

/// A code is used up by signing in, and not by being looked at.
async fn touch(db: &Client, used: &[(KeyId, Timestamp)]) -> Result<(), Stop> {
    let touched = "UPDATE helve.api_keys SET used_us = used.us FROM unnest($1::text[], $2::int8[]) AS used (id, us) \
                   WHERE api_keys.id = used.id AND purpose <> $3";
    let ids: Vec<String> = used.iter().map(|(id, _)| id.to_string()).collect();
    let times: Vec<i64> = used.iter().map(|(_, at)| at.as_microsecond()).collect();
    db.execute_typed(touched, params![ids, times, Purpose::SignIn.as_str()]).await?;
    Ok(())
}

/// Whether one more of the like may be kept: another link to a question, or another key.
async fn has_room(db: &Client, key: &Key) -> Result<bool, Stop> {
    let has_room = |row: &Row| usize::try_from(row.get::<_, i64>(0)).is_ok_and(|count| count < KEYS_MAX);
    // Mostly that is enough.
    if has_room(&db.query_typed_one("SELECT count(*) FROM helve.api_keys", &[]).await?) {
        return Ok(true);
    }
    // Links to questions that wait no more lead nowhere.
    db.execute_typed(
        "DELETE FROM helve.api_keys WHERE only_question IS NOT NULL AND NOT EXISTS \
         (SELECT 1 FROM helve.approvals a WHERE a.id = only_question AND a.state = 0)",
        &[],
    )
    .await?;
    let live = "SELECT count(*) FROM helve.api_keys WHERE is_live AND (expires_ms IS NULL OR expires_ms > $1) \
                AND (only_question IS NOT NULL) = $2";
    let row = db.query_typed_one(live, params![key.made_at.as_millisecond(), key.only.is_some()]).await?;
    Ok(has_room(&row))
}

/// Forgets sign-in codes that were good long ago.
async fn forget_codes(db: &Client, now: Timestamp) -> Result<(), Stop> {
    let before = now.saturating_sub(KEEP_CODES).unwrap_or(Timestamp::MIN).as_millisecond();
    let forgotten = "DELETE FROM helve.api_keys WHERE purpose = $1 AND expires_ms < $2";
    db.execute_typed(forgotten, params![Purpose::SignIn.as_str(), before]).await?;
    Ok(())
}
