//! Comparing the table of API keys with the chain.
//!
//! A row says who may come in, and the chain does not cover it; but making a key, taking it back and
//! using up a code are entries, so that a row that says more than they do is found.

use std::collections::HashMap;

use helve_core::identity::{Key, Purpose};
use rusqlite::Connection;
use serde_json::Value;

use super::table;
use crate::keys::Disagreement;
use crate::vouch::{Register, Voucher};

/// What the chain tells of keys. A caller may well ask for a tool of such a name, but there is none,
/// so that their call never ends well.
const STORIES: &str = "
    SELECT seq, head ->> '$.facts.tool', head ->> '$.facts.correlation_id', payload -> '$.arguments'
    FROM entries
    WHERE kind = 1 AND head ->> '$.facts.tool' IN ('keys create', 'keys revoke', 'keys sign-in')
      AND head ->> '$.facts.resolved' = 0 AND head ->> '$.ending.status' = 'done'
    ORDER BY seq";

/// What the chain tells of one key.
#[derive(Default)]
struct Story {
    made_at: Option<i64>,
    /// What it was when it was made. None where that was erased.
    told: Option<Value>,
    revoked_at: Option<i64>,
    signed_in_at: Option<i64>,
}

/// Compares keys and chain, which must be sound. Returns the first difference. A key that was missing
/// when a person accepted the journal, at entry `accepted_at`, is not missed again.
pub(crate) fn verify(db: &Connection, accepted_at: i64) -> rusqlite::Result<Option<Disagreement>> {
    let mut stories = stories(db)?;
    let mut told = Register::of(db, table::TABLE)?;
    let mut select = db.prepare("SELECT id, purpose, expires_ms, body FROM api_keys ORDER BY id")?;
    let mut rows = select.query([])?;
    while let Some(row) = rows.next()? {
        let id: String = row.get(0)?;
        let story = stories.remove(&id).unwrap_or_default();
        told.take(&format!("{}/{id}", table::TABLE));
        let key: Option<Key> = serde_json::from_str(&row.get::<_, String>(3)?).ok();
        let found = match key {
            Some(key) => {
                let columns: (String, Option<i64>) = (row.get(1)?, row.get(2)?);
                let is_found_by = key.id.to_string() == id
                    && columns.0 == key.purpose.as_str()
                    && columns.1 == key.expires_at.map(|at| at.as_millisecond());
                let vouched = is_found_by && table::is_vouched(db, &key)?;
                match story.made_at {
                    // The entry that made it was pruned: what vouches for the row is all that is left.
                    None if vouched => None,
                    made_at => story
                        .difference(&key)
                        .or_else(|| (!vouched).then_some((made_at, "its row was changed"))),
                }
            }
            None => Some((story.made_at, "its row cannot be read: it was changed")),
        };
        if let Some((seq, what)) = found {
            let what = format!("the key {id} in the table `api_keys` is not as it was made: {what}");
            return Ok(Some(Disagreement { seq, what }));
        }
    }
    let missing =
        stories.into_iter().filter_map(|(id, story)| story.missed(accepted_at).map(|seq| (seq, id)));
    if let Some((seq, id)) = missing.min() {
        let what = format!("the key {id} was removed from the table `api_keys`");
        return Ok(Some(Disagreement { seq: Some(seq), what }));
    }
    // One whose making was pruned.
    Ok(told.missed(accepted_at).map(|seq| {
        let what = "a key was removed from the table `api_keys`".to_owned();
        Disagreement { seq: Some(seq), what }
    }))
}

/// What to tell of every key that is as the chain tells, for a migration.
pub(crate) fn vouch_for_all(db: &Connection) -> rusqlite::Result<Vec<Voucher>> {
    let mut stories = stories(db)?;
    let bodies: Vec<(String, String)> = db
        .prepare("SELECT id, body FROM api_keys ORDER BY id")?
        .query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?
        .collect::<rusqlite::Result<_>>()?;
    let mut vouchers = Vec::new();
    for (id, body) in bodies {
        let story = stories.remove(&id).unwrap_or_default();
        if let Ok(key) = serde_json::from_str::<Key>(&body)
            && key.id.to_string() == id
            && story.difference(&key).is_none()
        {
            vouchers.push(table::voucher(&key)?);
        }
    }
    Ok(vouchers)
}

fn stories(db: &Connection) -> rusqlite::Result<HashMap<String, Story>> {
    let mut stories = HashMap::<String, Story>::new();
    let mut select = db.prepare(STORIES)?;
    let mut rows = select.query([])?;
    while let Some(row) = rows.next()? {
        let (seq, what): (i64, String) = (row.get(0)?, row.get(1)?);
        let story = stories.entry(row.get::<_, Option<String>>(2)?.unwrap_or_default()).or_default();
        match what.as_str() {
            "keys create" => {
                let told: Option<String> = row.get(3)?;
                (story.made_at, story.told) =
                    (Some(seq), told.and_then(|told| serde_json::from_str(&told).ok()));
            }
            "keys revoke" => story.revoked_at = Some(seq),
            _ => story.signed_in_at = Some(seq),
        }
    }
    Ok(stories)
}

impl Story {
    /// What a row says that the chain does not, and the entry that tells otherwise.
    fn difference(&self, key: &Key) -> Option<(Option<i64>, &'static str)> {
        let is_used = key.purpose == Purpose::SignIn && key.used_at.is_some();
        match (self.revoked_at, key.revoked_at) {
            (Some(seq), None) => return Some((Some(seq), "it was taken back, and seems good again")),
            (None, Some(_)) => return Some((self.made_at, "nobody took it back")),
            // However it came here, it is good for nothing.
            (Some(_), Some(_)) if self.made_at.is_none() => return None,
            (Some(_), Some(_)) | (None, None) => {}
        }
        match self.made_at {
            None => Some((None, "nobody made it; take it back with `helve keys revoke`")),
            Some(seq) if !self.is_as_told(key) => Some((Some(seq), "its row was changed")),
            Some(_) => match self.signed_in_at {
                Some(seq) if !is_used => Some((Some(seq), "it was used up, and seems unused")),
                _ => None,
            },
        }
    }

    fn is_as_told(&self, key: &Key) -> bool {
        let Some(told) = self.told.as_ref().and_then(Value::as_object) else { return true };
        let now = key.told();
        told.iter().all(|(field, value)| now[field] == *value)
    }

    /// The entry that made it, where its row should be there. Codes are forgotten after a while.
    fn missed(&self, accepted_at: i64) -> Option<i64> {
        let sign_in = serde_json::json!(Purpose::SignIn);
        let is_code = self.told.as_ref().is_none_or(|told| told["purpose"] == sign_in);
        self.made_at.filter(|seq| *seq > accepted_at && !is_code)
    }
}
