//! Removing the oldest entries, within a group.

use std::collections::HashSet;

use helve_core::identity::KeyState;
use helve_core::ports::JournalError;
use helve_core::{CallId, RuleId};
use jiff::Timestamp;
use rusqlite::{OptionalExtension, params};
use serde::Serialize;

use super::ledger::Group;
use crate::approvals::{seal, table as approvals};
use crate::audit::key_file;
use crate::identity::table as identity;
use crate::memory::{effects, values};
use crate::prune::{self, Cut, EraseStep, PruneStep, PrunedHead, Range, STEP_ENTRIES};
use crate::schema;
use crate::sessions::table as sessions;
use crate::vouch::{self, Voucher};
use helve_ledger::chain::{Kind, Position};
use helve_ledger::entry::Note;

/// The head of an entry that vouches for a rule whose first entries go.
#[derive(Serialize)]
struct VouchedRule {
    at: Timestamp,
    rule_id: RuleId,
    rule_seal: String,
}

impl Group<'_> {
    /// Removes a few thousand of the oldest entries, up to `through`. None: something holds the first one.
    pub(super) fn prune(&mut self, step: &PruneStep) -> rusqlite::Result<Result<Option<Cut>, JournalError>> {
        // What is about to be removed may be among the rows that wait.
        self.rows.flush(self.tx)?;
        let first: i64 = self.tx.query_one("SELECT min(seq) FROM entries", [], |row| row.get(0))?;
        let last = step.through.min(first + STEP_ENTRIES - 1).min(self.position().seq - 1);
        // A run that was resumed meanwhile, or a question that was asked about an old call.
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
        let format = prune::format_up_to(self.tx, last)?;
        let head =
            PrunedHead { at: step.at, by: step.by.clone(), cut: Some(cut.clone()), format, erased: None };
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
        let head =
            PrunedHead { at: step.at, by: step.by.clone(), cut: None, format: None, erased: Some(erased) };
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
        // The first format did not name keys.
        self.tx.execute(
            "DELETE FROM keys WHERE call_id IN (SELECT call_id FROM entries \
             WHERE seq <= ?1 AND kind IN (0, 1) AND head ->> 'key' IS NULL)",
            [last],
        )?;
        self.tx.execute(
            "DELETE FROM approvals WHERE state >= 2 AND id IN (SELECT head ->> 'approval_id' FROM entries \
             WHERE seq <= ?1 AND kind = 6 AND head ->> 'step' = 'asked')",
            [last],
        )?;
        effects::forget_up_to(self.tx, last)
    }

    /// Vouches for what lives longer than the entries that vouch for it so far.
    fn vouch_beyond(&mut self, last: i64, at: Timestamp) -> rusqlite::Result<Result<(), JournalError>> {
        for row in self.rows_beyond(last, at)? {
            self.vouch(Some(row), at)?;
        }
        if let Some((_, key)) = key_file::told(self.tx)?.filter(|(seq, _)| *seq <= last) {
            self.note(Kind::Keyed, None, &Note { key: Some(key), ..Note::default() })?;
        }
        for (call_id, head) in self.rules_beyond(last, at)? {
            if let Err(error) = self.tell_note(Kind::Vouched, Some(call_id), &head)? {
                return Ok(Err(error));
            }
        }
        Ok(Ok(()))
    }

    /// What entries that go tell of rows, and no later one does. It is told again as it was: if a row is not like
    /// that, this is found afterwards as before.
    fn rows_beyond(&self, last: i64, at: Timestamp) -> rusqlite::Result<Vec<Voucher>> {
        let accepted_at = schema::accepted_at(self.tx)?;
        let (mut beyond, mut doubtful) = (Vec::new(), Vec::new());
        for (seq, voucher) in vouch::told_up_to(self.tx, last)? {
            match identity::find_named(self.tx, &voucher.row)? {
                Some(key) if key.state_at(at) != KeyState::Live => identity::forget(self.tx, key.id)?,
                None if seq <= accepted_at || !voucher.is_due(at.as_microsecond()) => doubtful.push(voucher),
                Some(_) | None => beyond.push(voucher),
            }
        }
        if !doubtful.is_empty() {
            // These may be gone: they ran out, or a person accepted the journal without them.
            let (values, sessions) = (values::row_names(self.tx)?, sessions::row_names(self.tx)?);
            let there: HashSet<String> =
                values.into_iter().chain(sessions).chain(identity::row_names(self.tx)?).collect();
            beyond.extend(doubtful.into_iter().filter(|voucher| there.contains(&voucher.row)));
        }
        Ok(beyond)
    }

    fn rules_beyond(&self, last: i64, at: Timestamp) -> rusqlite::Result<Vec<(CallId, VouchedRule)>> {
        let mut vouched = Vec::new();
        for rule in approvals::rules(self.tx, None, usize::MAX)? {
            let rule_seal = seal::of_rule(&rule)?;
            let told: Option<i64> = self.tx.query_one(
                "SELECT max(seq) FROM entries WHERE made_ms = ?1 AND call_id = ?2 AND head ->> 'rule_seal' = ?3",
                params![rule.call_id.made_at_ms(), rule.call_id.to_string(), rule_seal],
                |row| row.get(0),
            )?;
            if told.is_none_or(|told| told > last) {
                continue;
            }
            if rule.revoked_at.is_some() || rule.expires_at <= at {
                self.tx.execute("DELETE FROM approval_rules WHERE id = ?1", [rule.id.to_string()])?;
                continue;
            }
            vouched.push((rule.call_id, VouchedRule { at, rule_id: rule.id, rule_seal }));
        }
        Ok(vouched)
    }

    pub(super) fn tell_note(
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
