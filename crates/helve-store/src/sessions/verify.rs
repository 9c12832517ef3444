//! Comparing the table of sessions with the chain.
//!
//! A step tells of every label that rose. A session whose row has lost one would be let do what it
//! must not, so that is found; a row may have more, since it is written first. The end of a session is
//! an entry, and one that seems open again is found too.

use helve_core::CallId;
use helve_core::label::LabelSet;
use helve_core::session::{SessionKey, SessionState};
use jiff::Timestamp;
use rusqlite::{Connection, Row};
use serde::de::DeserializeOwned;

use super::table::{self, KEEP_MS};
use crate::keys::Disagreement;

/// Every label that rose, and whose session it was: the call's own entry says it.
const RISES: &str = "
    SELECT rise.seq, rise.call_id, rise.head -> '$.labels', rise.head -> '$.at',
           (SELECT head -> '$.facts.caller' FROM entries
            WHERE made_ms = rise.made_ms AND call_id = rise.call_id AND kind IN (0, 1) LIMIT 1)
    FROM entries AS rise
    WHERE kind = 6 AND head ->> 'step' = 'labelled' AND seq > ?1 ORDER BY seq";

/// Compares sessions and chain, which must be sound, from the entry after `accepted_at` on. Returns
/// the first difference.
pub(crate) fn verify(db: &Connection, accepted_at: i64) -> rusqlite::Result<Option<Disagreement>> {
    if let Some(what) = unreadable(db)? {
        return Ok(Some(Disagreement { seq: None, what }));
    }
    if let Some(found) = reopened(db)? {
        return Ok(Some(found));
    }
    let mut select = db.prepare(RISES)?;
    let mut rows = select.query([accepted_at])?;
    while let Some(row) = rows.next()? {
        let labels: Option<LabelSet> = json(row, 2)?;
        let (at, key): (Option<Timestamp>, Option<SessionKey>) = (json(row, 3)?, json(row, 4)?);
        // A call without its own entry is still running, or was cut short.
        let (Some(labels), Some(at), Some(key)) = (labels, at, key) else { continue };
        let state = table::find(db, &key)?;
        let what = match &state {
            Some(state) if state.since <= at => match labels.without(state.labels()) {
                lost if lost.is_empty() => continue,
                lost => format!("has lost the label {}", words(lost)),
            },
            _ if may_be_forgotten(&key, at) => continue,
            Some(_) => "begins after that".to_owned(),
            None => "is gone".to_owned(),
        };
        let call: String = row.get(1)?;
        let call = call.parse::<CallId>().map_or(call, |id| id.to_string());
        let what = format!(
            "{} became {} with the call {call}, and in the table `sessions` it {what}",
            name(&key),
            words(labels)
        );
        return Ok(Some(Disagreement { seq: Some(row.get(0)?), what }));
    }
    unvouched(db, accepted_at)
}

/// Every session that was ended. No call of a tool ends well under such a name.
const ENDS: &str = "
    SELECT seq, payload -> '$.arguments' FROM entries
    WHERE kind = 1 AND head ->> '$.facts.tool' = 'session end'
      AND head ->> '$.facts.resolved' = 0 AND head ->> '$.ending.status' = 'done' ORDER BY seq";

/// A session that was ended and seems open.
fn reopened(db: &Connection) -> rusqlite::Result<Option<Disagreement>> {
    let mut select = db.prepare(ENDS)?;
    let mut rows = select.query([])?;
    while let Some(row) = rows.next()? {
        // Whose it was may have been erased.
        let Some(key) = json::<SessionKey>(row, 1)? else { continue };
        if table::find(db, &key)?.is_none_or(|state| state.ended_at.is_none()) {
            let what = format!("{} was ended, and seems open in the table `sessions`", name(&key));
            return Ok(Some(Disagreement { seq: Some(row.get(0)?), what }));
        }
    }
    Ok(None)
}

/// A session that is not as the journal tells: it was allowed more, say.
fn unvouched(db: &Connection, accepted_at: i64) -> rusqlite::Result<Option<Disagreement>> {
    let now = Timestamp::now();
    let sessions = table::list(db, None, usize::MAX)?;
    let mut told = table::told(db)?;
    for (key, _) in sessions {
        told.take(&table::row_name(&key));
        if let Some((seq, what)) = table::difference(db, &key, now)? {
            let what = format!("the row of {} in the table `sessions` {what}", name(&key));
            return Ok(Some(Disagreement { seq, what }));
        }
    }
    Ok(told.missed(accepted_at).map(|seq| {
        let what = "a session was removed from the table `sessions`".to_owned();
        Disagreement { seq: Some(seq), what }
    }))
}

/// Whether what a session was at a time may be forgotten: long ago, or without an id, where labels
/// are the principal's for a while only.
fn may_be_forgotten(key: &SessionKey, at: Timestamp) -> bool {
    key.session.is_none() || Timestamp::now().as_millisecond() - at.as_millisecond() > KEEP_MS
}

/// A row that cannot be read.
fn unreadable(db: &Connection) -> rusqlite::Result<Option<String>> {
    let mut select = db.prepare("SELECT principal, session, body FROM sessions")?;
    let mut rows = select.query([])?;
    while let Some(row) = rows.next()? {
        if serde_json::from_str::<SessionState>(&row.get::<_, String>(2)?).is_err() {
            let text = |index| row.get::<_, Option<String>>(index).map(|text| text.map(Into::into));
            let key = SessionKey { principal: text(0)?, session: text(1)? };
            return Ok(Some(format!(
                "the row of {} in the table `sessions` cannot be read: it was changed",
                name(&key)
            )));
        }
    }
    Ok(None)
}

fn json<T: DeserializeOwned>(row: &Row<'_>, index: usize) -> rusqlite::Result<Option<T>> {
    let text: Option<String> = row.get(index)?;
    Ok(text.and_then(|text| serde_json::from_str(&text).ok()))
}

fn words(labels: LabelSet) -> String {
    labels.iter().map(|label| format!("`{label}`")).collect::<Vec<_>>().join(" and ")
}

fn name(key: &SessionKey) -> String {
    let of = key.principal.as_deref().unwrap_or("an unnamed caller");
    match &key.session {
        Some(session) => format!("the session `{session}` of `{of}`"),
        None => format!("what `{of}` does"),
    }
}
