//! Comparing the table of API keys with the chain.
//!
//! A row says who may come in, and the chain does not cover it; but making a key, taking it back and
//! using up a code are entries, so that a row that says more than they do is found.

use std::collections::HashMap;

use helve_core::identity::{Key, Purpose};
use rusqlite::Connection;
use serde_json::Value;

use crate::keys::Disagreement;
use crate::writer::key_seal;

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
    /// Its digest, where the entry that made it was pruned.
    seal: Option<String>,
    revoked_at: Option<i64>,
    signed_in_at: Option<i64>,
}

/// Compares keys and chain, which must be sound. Returns the first difference. A key that was missing
/// when somebody took the journal as it was, at entry `accepted_at`, is not missed again.
pub(crate) fn verify(db: &Connection, accepted_at: i64) -> rusqlite::Result<Option<Disagreement>> {
    let mut stories = stories(db)?;
    let mut select = db.prepare("SELECT id, purpose, expires_ms, body FROM api_keys ORDER BY id")?;
    let mut rows = select.query([])?;
    while let Some(row) = rows.next()? {
        let id: String = row.get(0)?;
        let story = stories.remove(&id).unwrap_or_default();
        let key: Option<Key> = serde_json::from_str(&row.get::<_, String>(3)?).ok();
        let found = match key {
            Some(key) => {
                let columns: (String, Option<i64>) = (row.get(1)?, row.get(2)?);
                let is_found_by = key.id.to_string() == id
                    && columns.0 == key.purpose.as_str()
                    && columns.1 == key.expires_at.map(|at| at.as_millisecond());
                if is_found_by {
                    story.difference(&key)
                } else {
                    Some((story.made_at, "its row was changed"))
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
    Ok(missing.min().map(|(seq, id)| {
        let what = format!("the key {id} was removed from the table `api_keys`");
        Disagreement { seq: Some(seq), what }
    }))
}

/// What vouches for keys whose first entries were pruned.
const VOUCHED: &str = "SELECT seq, head ->> 'key_id', head ->> 'key_seal' FROM entries \
    WHERE kind = 8 AND head ->> 'key_id' IS NOT NULL ORDER BY seq";

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
    let mut select = db.prepare(VOUCHED)?;
    let mut rows = select.query([])?;
    while let Some(row) = rows.next()? {
        let story = stories.entry(row.get(1)?).or_default();
        (story.made_at, story.seal) = (story.made_at.or(Some(row.get(0)?)), row.get(2)?);
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
        if self.seal.as_ref().is_some_and(|seal| *seal != key_seal(key)) {
            return false;
        }
        let Some(told) = self.told.as_ref().and_then(Value::as_object) else { return true };
        let now = key.told();
        told.iter().all(|(field, value)| now[field] == *value)
    }

    /// The entry that made it, where its row should be there. Codes are forgotten after a while.
    fn missed(&self, accepted_at: i64) -> Option<i64> {
        let sign_in = serde_json::json!(Purpose::SignIn);
        // Of codes nobody vouches anew.
        let is_code = self.told.as_ref().map_or(self.seal.is_none(), |told| told["purpose"] == sign_in);
        self.made_at.filter(|seq| *seq > accepted_at && !is_code)
    }
}
