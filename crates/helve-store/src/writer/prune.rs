//! Removing the oldest entries, within a group.

use std::collections::BTreeSet;

use helve_core::identity::{Key, KeyState, Purpose};
use helve_core::json::{canonical, sha256_hex};
use helve_core::label::LabelSet;
use helve_core::ports::JournalError;
use helve_core::session::SessionKey;
use helve_core::{CallId, KeyId, RuleId};
use jiff::Timestamp;
use rusqlite::{OptionalExtension, params};
use serde::Serialize;

use super::ledger::Group;
use crate::approvals::{seal, table as approvals};
use crate::chain::{Kind, Position};
use crate::identity::table as identity;
use crate::prune::{self, Cut, EraseStep, PruneStep, PrunedHead, Range, STEP_ENTRIES};
use crate::schema;
use crate::sessions::table as sessions;

/// The head of an entry that vouches for a row whose first entries go.
#[derive(Default, Serialize)]
struct Vouched {
    at: Timestamp,
    #[serde(skip_serializing_if = "Option::is_none")]
    rule_id: Option<RuleId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    rule_seal: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    key_id: Option<KeyId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    key_seal: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    session: Option<SessionKey>,
    #[serde(skip_serializing_if = "Option::is_none")]
    labels: Option<LabelSet>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    ended: bool,
}

/// The digest of an API key, by which a row is known again.
pub(crate) fn key_seal(key: &Key) -> String {
    sha256_hex(format!("helve api key v1 {}", canonical(&key.told())).as_bytes())
}

impl Group<'_> {
    /// Removes a few thousand of the oldest entries, up to `through`. None: something holds the first one.
    pub(super) fn prune(&mut self, step: &PruneStep) -> rusqlite::Result<Result<Option<Cut>, JournalError>> {
        // What is about to be removed may be among the rows that wait.
        self.rows.flush(self.tx)?;
        let first: i64 = self.tx.query_one("SELECT min(seq) FROM entries", [], |row| row.get(0))?;
        let last = step.through.min(first + STEP_ENTRIES - 1).min(self.position().seq - 1);
        // A run that was taken up meanwhile, or a question that was asked about an old call.
        let last = prune::open_from(self.tx)?.map_or(last, |hold| last.min(hold.seq - 1));
        if last < first {
            return Ok(Ok(None));
        }
        let hash = self.tx.query_one("SELECT hash FROM entries WHERE seq = ?1", [last], |row| row.get(0))?;
        let calls = self.tx.query_one(
            "SELECT count(DISTINCT call_id) FROM entries WHERE seq <= ?1 AND call_id <> ''",
            [last],
            |row| row.get(0),
        )?;
        self.forget_with(last)?;
        if let Err(error) = self.vouch_beyond(last, step.at)? {
            return Ok(Err(error));
        }
        let cut = Cut::new(first, Position { seq: last, hash }, calls, step.at, &step.key);
        let head = PrunedHead { at: step.at, by: step.by.clone(), cut: Some(cut.clone()), erased: None };
        if let Err(error) = self.tell_note(Kind::Pruned, None, &head)? {
            return Ok(Err(error));
        }
        prune::remember(self.tx, self.position().seq)?;
        self.rows.flush(self.tx)?;
        self.tx.execute("DELETE FROM entries WHERE seq <= ?1", [last])?;
        Ok(Ok(Some(cut)))
    }

    /// Erases what was said in calls that only read, among a few thousand entries. Returns in how many.
    pub(super) fn erase_reads(&mut self, step: &EraseStep) -> rusqlite::Result<Result<i64, JournalError>> {
        self.rows.flush(self.tx)?;
        // Not the entries about keys and sessions, by which these are compared.
        let erased = self.tx.execute(
            "UPDATE entries SET payload = NULL, salt = NULL \
             WHERE seq BETWEEN ?1 AND ?2 AND kind = 1 AND run_id IS NULL AND payload IS NOT NULL \
               AND head ->> '$.facts.changes_world' = 0 \
               AND NOT (head ->> '$.facts.resolved' = 0 AND head ->> '$.ending.status' = 'done') \
               AND NOT EXISTS (SELECT 1 FROM entries AS other WHERE other.made_ms = entries.made_ms \
                               AND other.call_id = entries.call_id AND other.kind IN (0, 6))",
            params![step.first, step.last],
        )?;
        let entries = i64::try_from(erased).unwrap_or(i64::MAX);
        if entries == 0 {
            return Ok(Ok(0));
        }
        let erased = Range { first: step.first, last: step.last, entries };
        let head = PrunedHead { at: step.at, by: step.by.clone(), cut: None, erased: Some(erased) };
        Ok(self.tell_note(Kind::Pruned, None, &head)?.map(|()| entries))
    }

    /// Forgets rows that are about calls whose entries go: keys, questions that came to an end, what it took to
    /// undo effects.
    fn forget_with(&self, last: i64) -> rusqlite::Result<()> {
        let mut keys = self.tx.prepare_cached(
            "SELECT unhex(head ->> 'key'), call_id FROM entries \
             WHERE seq <= ?1 AND kind = 0 AND head ->> 'key' IS NOT NULL",
        )?;
        let mut forget = self.tx.prepare_cached("DELETE FROM keys WHERE scoped_key = ?1 AND call_id = ?2")?;
        let mut rows = keys.query([last])?;
        while let Some(row) = rows.next()? {
            forget.execute(params![row.get::<_, Option<Vec<u8>>>(0)?, row.get::<_, String>(1)?])?;
        }
        self.tx.execute(
            "DELETE FROM approvals WHERE state >= 2 AND id IN (SELECT head ->> 'approval_id' FROM entries \
             WHERE seq <= ?1 AND kind = 6 AND head ->> 'step' = 'asked')",
            [last],
        )?;
        self.tx.execute(
            "DELETE FROM effects WHERE call_id IN (SELECT call_id FROM entries \
             WHERE seq <= ?1 AND kind = 6 AND head ->> 'step' = 'effect_applied')",
            [last],
        )?;
        Ok(())
    }

    /// Vouches for what lives longer than the entries that vouch for it so far.
    fn vouch_beyond(&mut self, last: i64, at: Timestamp) -> rusqlite::Result<Result<(), JournalError>> {
        let mut vouched = self.rules_beyond(last, at)?;
        vouched.extend(self.keys_beyond(last, at)?);
        vouched.extend(self.sessions_beyond(last, at)?);
        for (call_id, head) in vouched {
            if let Err(error) = self.tell_note(Kind::Vouched, call_id, &head)? {
                return Ok(Err(error));
            }
        }
        Ok(Ok(()))
    }

    fn rules_beyond(&self, last: i64, at: Timestamp) -> rusqlite::Result<Vec<(Option<CallId>, Vouched)>> {
        let mut vouched = Vec::new();
        for rule in approvals::rules(self.tx, None, usize::MAX)? {
            let seal = seal::of_rule(&rule)?;
            let told: Option<i64> = self.tx.query_one(
                "SELECT max(seq) FROM entries WHERE made_ms = ?1 AND call_id = ?2 AND head ->> 'rule_seal' = ?3",
                params![rule.call_id.made_at_ms(), rule.call_id.to_string(), seal],
                |row| row.get(0),
            )?;
            if told.is_none_or(|told| told > last) {
                continue;
            }
            if rule.revoked_at.is_some() || rule.expires_at <= at {
                self.tx.execute("DELETE FROM approval_rules WHERE id = ?1", [rule.id.to_string()])?;
                continue;
            }
            let head = Vouched { at, rule_id: Some(rule.id), rule_seal: Some(seal), ..Vouched::default() };
            vouched.push((Some(rule.call_id), head));
        }
        Ok(vouched)
    }

    fn keys_beyond(&self, last: i64, at: Timestamp) -> rusqlite::Result<Vec<(Option<CallId>, Vouched)>> {
        let ids: BTreeSet<String> = self
            .tx
            .prepare_cached(
                "SELECT ifnull(head ->> 'key_id', head ->> '$.facts.correlation_id') FROM entries \
                 WHERE seq <= ?1 AND (kind = 8 AND head ->> 'key_id' IS NOT NULL \
                   OR kind = 1 AND head ->> '$.facts.tool' = 'keys create' AND head ->> '$.facts.resolved' = 0 \
                   AND head ->> '$.ending.status' = 'done' AND head ->> '$.facts.correlation_id' IS NOT NULL)",
            )?
            .query_map([last], |row| row.get(0))?
            .collect::<rusqlite::Result<_>>()?;
        let mut vouched = Vec::new();
        for id in ids.iter().filter_map(|id| id.parse::<KeyId>().ok()) {
            let Some(key) = identity::find(self.tx, id)? else { continue };
            if key.state_at(at) != KeyState::Live || key.purpose == Purpose::SignIn {
                self.tx.execute("DELETE FROM api_keys WHERE id = ?1", [id.to_string()])?;
                continue;
            }
            let key_seal = Some(key_seal(&key));
            vouched.push((None, Vouched { at, key_id: Some(id), key_seal, ..Vouched::default() }));
        }
        Ok(vouched)
    }

    fn sessions_beyond(&self, last: i64, at: Timestamp) -> rusqlite::Result<Vec<(Option<CallId>, Vouched)>> {
        let texts: BTreeSet<String> = self
            .tx
            .prepare_cached(
                "SELECT CASE kind WHEN 8 THEN head -> 'session' WHEN 1 THEN payload -> '$.arguments' ELSE \
                   (SELECT head -> '$.facts.caller' FROM entries WHERE made_ms = told.made_ms \
                    AND call_id = told.call_id AND kind IN (0, 1) LIMIT 1) END AS session \
                 FROM entries AS told WHERE seq <= ?1 AND session IS NOT NULL \
                   AND (kind = 8 OR kind = 6 AND head ->> 'step' = 'labelled' \
                     OR kind = 1 AND head ->> '$.facts.tool' = 'session end' AND head ->> '$.facts.resolved' = 0 \
                     AND head ->> '$.ending.status' = 'done')",
            )?
            .query_map([last], |row| row.get(0))?
            .collect::<rusqlite::Result<_>>()?;
        let keys: BTreeSet<SessionKey> =
            texts.iter().filter_map(|text| serde_json::from_str(text).ok()).collect();
        let mut vouched = Vec::new();
        for key in keys {
            let Some(state) = sessions::find(self.tx, &key)? else { continue };
            let ended = state.ended_at.is_some();
            // What a principal does without a session is remembered for a while only.
            if key.session.is_some() && (ended || !state.labels().is_empty()) {
                let labels = Some(state.labels());
                vouched.push((None, Vouched { at, session: Some(key), labels, ended, ..Vouched::default() }));
            }
        }
        Ok(vouched)
    }

    fn tell_note(
        &mut self,
        kind: Kind,
        call_id: Option<CallId>,
        head: &impl Serialize,
    ) -> rusqlite::Result<Result<(), JournalError>> {
        match self.rows.text().set_told(call_id, head) {
            Ok(()) => self.add(kind, None).map(Ok),
            Err(error) => Ok(Err(error)),
        }
    }
}

/// Whether the file gives pages back. Those of earlier versions do not, and use them again.
pub(super) fn gives_back(db: &rusqlite::Connection) -> rusqlite::Result<bool> {
    let mode: Option<i64> = db.query_one("PRAGMA auto_vacuum", [], |row| row.get(0)).optional()?;
    Ok(mode == Some(schema::AUTO_VACUUM_INCREMENTAL))
}
