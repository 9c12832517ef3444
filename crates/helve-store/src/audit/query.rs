//! Finds calls in the journal by what a reader asks of them.

use std::io::Write;
use std::ops::ControlFlow;

use helve_core::approval::{Approval, Rule};
use helve_core::{ApprovalId, CallId, RuleId};
use helve_ledger::audit::glance::may_fit;
use helve_ledger::audit::query::{Among, AuditQuery, Bounds, ID_PREFIX, Prefix, Shown};
use helve_ledger::audit::record::{self, CallRecord};
use helve_ledger::audit::stored::StoredEntry;
use jiff::Timestamp;
use rusqlite::{Connection, params};

use super::rows::{COLUMNS, HEADS, each_call, load_payload, read};
use super::{Audit, runs};
use crate::approvals::table as approvals;
use crate::error::StoreError;
use crate::schema;

/// How many runs are looked for in one go.
const RUNS_PAGE: usize = 500;

/// How many ids an ambiguous prefix is answered with.
const CANDIDATES_MAX: usize = 10;

impl Audit {
    /// Calls that fit, newest first.
    pub fn list(&self, query: &AuditQuery) -> Result<Vec<CallRecord>, StoreError> {
        let mut found = Vec::new();
        if query.limit == 0 {
            return Ok(found);
        }
        let db = self.connect()?;
        self.check_filled(&db)?;
        match query.among {
            Among::Calls => self.look_at_calls(&db, query, &mut found)?,
            Among::Runs => self.look_at_runs(&db, query, &mut found)?,
        }
        Ok(found)
    }

    /// Another process may just be making the file.
    pub(super) fn check_filled(&self, db: &Connection) -> Result<(), StoreError> {
        match schema::table_exists(db, "entries").map_err(|source| self.error(source))? {
            true => Ok(()),
            false => Err(self.absent()),
        }
    }

    fn look_at_calls(
        &self,
        db: &Connection,
        query: &AuditQuery,
        found: &mut Vec<CallRecord>,
    ) -> Result<(), StoreError> {
        let Bounds { made_ms, before } = query.bounds();
        let sql = format!(
            "SELECT {HEADS} FROM entries \
             WHERE made_ms >= ?1 AND made_ms < ?2 AND call_id >= ?3 AND call_id < ?4 \
             ORDER BY made_ms DESC, call_id DESC, seq DESC"
        );
        let mut select = db.prepare(&sql).map_err(|source| self.error(source))?;
        let rows = select
            .query(params![made_ms.start, made_ms.end, ID_PREFIX, before])
            .map_err(|source| self.error(source))?;
        each_call(self, rows, |entries| {
            found.extend(self.fitting(db, query, entries)?);
            Ok(if found.len() < query.limit { ControlFlow::Continue(()) } else { ControlFlow::Break(()) })
        })
    }

    fn look_at_runs(
        &self,
        db: &Connection,
        query: &AuditQuery,
        found: &mut Vec<CallRecord>,
    ) -> Result<(), StoreError> {
        let Bounds { made_ms, .. } = query.bounds();
        let mut before = query.before;
        loop {
            let page = runs::runs(db, before, RUNS_PAGE).map_err(|source| self.error(source))?;
            let Some(last) = page.last() else { return Ok(()) };
            before = Some(*last);
            for run in page {
                if run.made_at_ms() < made_ms.start {
                    return Ok(());
                }
                if run.made_at_ms() >= made_ms.end {
                    continue;
                }
                let mut entries = read_heads(db, run).map_err(|source| self.error(source))?;
                found.extend(self.fitting(db, query, &mut entries)?);
                if found.len() == query.limit {
                    return Ok(());
                }
            }
        }
    }

    /// The record of the call with these entries, if it fits. What was said is read only then.
    fn fitting(
        &self,
        db: &Connection,
        query: &AuditQuery,
        entries: &mut [StoredEntry],
    ) -> Result<Option<CallRecord>, StoreError> {
        if query.looks_at_heads() && !may_fit(query, entries) {
            return Ok(None);
        }
        let Some(mut record) = record::merge(entries).filter(|record| query.fits(record)) else {
            return Ok(None);
        };
        let loaded = entries.iter_mut().try_for_each(|entry| load_payload(entry, db));
        loaded.map_err(|source| self.error(source))?;
        record::fill(&mut record, entries);
        Ok(Some(record))
    }

    /// One call, by its id or by any beginning of it that no other call shares.
    pub fn show(&self, id: &str) -> Result<Shown, StoreError> {
        let Prefix { text: prefix, made_ms } =
            Prefix::of(id).ok_or_else(|| StoreError::NotAnId(id.to_owned()))?;
        let db = self.connect()?;
        let Some(made_ms) = made_ms else { return Ok(Shown::Nothing) };
        let sql = format!(
            "SELECT {COLUMNS} FROM entries \
             WHERE made_ms >= ?1 AND made_ms < ?2 AND call_id >= ?3 AND call_id < ?4 \
             ORDER BY made_ms, call_id, seq"
        );
        let mut select = db.prepare(&sql).map_err(|source| self.error(source))?;
        let rows = select
            .query(params![made_ms.start, made_ms.end, prefix, format!("{prefix}~")])
            .map_err(|source| self.error(source))?;
        let mut found = Vec::new();
        each_call(self, rows, |entries| {
            if let Some(mut record) = record::merge(entries) {
                record::fill(&mut record, entries);
                found.push(record);
            }
            let full = found.len() >= CANDIDATES_MAX;
            Ok(if full { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
        })?;
        Ok(match found.len() {
            0 => Shown::Nothing,
            1 => Shown::Call(Box::new(found.remove(0))),
            _ => Shown::Ambiguous(found.iter().map(|record| record.facts.call_id).collect()),
        })
    }

    /// A question that was put to a person. None: there is no such question, or it was forgotten.
    pub fn approval(&self, id: ApprovalId) -> Result<Option<Approval>, StoreError> {
        let db = self.connect()?;
        approvals::find(&db, &id.to_string()).map_err(|source| self.error(source))
    }

    /// A rule that a person made of an approval. None: there is no such rule, or it was forgotten.
    pub fn approval_rule(&self, id: RuleId) -> Result<Option<Rule>, StoreError> {
        let db = self.connect()?;
        approvals::rule(&db, &id.to_string()).map_err(|source| self.error(source))
    }

    /// Writes every call as one line of JSON, oldest first, and returns how many: those that came at `since` or
    /// later, where that is given. `progress` is told after each. Of a damaged file, all calls up to the damage
    /// are written before this fails.
    pub fn export(
        &self,
        since: Option<Timestamp>,
        mut out: impl Write,
        mut progress: impl FnMut(u64),
    ) -> Result<u64, StoreError> {
        let db = self.connect()?;
        let sql = format!("SELECT {COLUMNS} FROM entries WHERE made_ms >= ?1 ORDER BY made_ms, call_id, seq");
        let mut select = db.prepare(&sql).map_err(|source| self.error(source))?;
        let from_ms = since.map_or(i64::MIN, Timestamp::as_millisecond);
        let rows = select.query([from_ms]).map_err(|source| self.error(source))?;
        let mut calls = 0;
        let read = each_call(self, rows, |entries| {
            if let Some(mut record) = record::merge(entries) {
                record::fill(&mut record, entries);
                let line = serde_json::to_writer(&mut out, &record).map_err(std::io::Error::from);
                line.and_then(|()| out.write_all(b"\n")).map_err(StoreError::Output)?;
                calls += 1;
                progress(calls);
            }
            Ok(ControlFlow::Continue(()))
        });
        out.flush().map_err(StoreError::Output)?;
        read.map(|()| calls)
    }
}

/// The entries of one call, without what was said.
fn read_heads(db: &Connection, call: CallId) -> rusqlite::Result<Vec<StoredEntry>> {
    let sql = format!("SELECT {HEADS} FROM entries WHERE made_ms = ?1 AND call_id = ?2 ORDER BY seq");
    let mut select = db.prepare_cached(&sql)?;
    let rows = select.query_map(params![call.made_at_ms(), call.to_string()], |row| Ok(read(row)))?;
    rows.collect()
}
