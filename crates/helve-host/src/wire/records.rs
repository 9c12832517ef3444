//! The record of calls, as the HTTP server asks for it.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use helve::event::EventKind;
use helve::ports::JournalError;
use helve::{BoxFuture, CallId, Runtime};
use helve_ledger::audit::trail::{AuditTrail, TrailError};
use helve_server::records::{self, Pruned, Record, RecordError, RecordQuery, Records, Verified};
use helve_store::{Among, AuditQuery, CallRecord, CallStatus, PruneReport, Retention, Shown, SigningKey};
use jiff::Timestamp;

use super::OpenLedger;
use crate::config::Config;

/// When a new process first checks the whole journal: not while everything else starts.
const VERIFY_FIRST: Duration = Duration::from_secs(60);

/// The journal's read side.
pub struct AuditRecords {
    ledger: OpenLedger,
    verified: Mutex<Option<Verified>>,
    pruned: Mutex<Option<Pruned>>,
}

impl Records for AuditRecords {
    fn list(&self, query: RecordQuery) -> BoxFuture<'_, Result<Vec<Record>, RecordError>> {
        Box::pin(async move {
            let query = resolve(query)?;
            let found = self.audit().await?.list(query).await.map_err(unreadable)?;
            found.iter().map(record).collect()
        })
    }

    fn show(&self, id: CallId) -> BoxFuture<'_, Result<Option<Record>, RecordError>> {
        Box::pin(async move {
            match self.audit().await?.show(id.to_string()).await.map_err(unreadable)? {
                Shown::Call(call) => record(&call).map(Some),
                Shown::Ambiguous(_) | Shown::Nothing => Ok(None),
            }
        })
    }

    fn verified(&self) -> Option<Verified> {
        *self.verified.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn pruned(&self) -> Option<Pruned> {
        *self.pruned.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl AuditRecords {
    pub fn new(ledger: OpenLedger) -> Self {
        Self { ledger, verified: Mutex::new(None), pruned: Mutex::new(None) }
    }

    /// Checks the whole journal every so often, and tells the listeners what was found. Never ends.
    pub async fn keep_verifying(&self, every_s: u64, runtime: &Runtime) {
        if every_s == 0 {
            return std::future::pending().await;
        }
        let every = Duration::from_secs(every_s);
        tokio::time::sleep(VERIFY_FIRST.min(every)).await;
        loop {
            self.verify(runtime).await;
            tokio::time::sleep(every).await;
        }
    }

    async fn verify(&self, runtime: &Runtime) {
        let checked = async { self.audit().await?.verify(Box::new(|_| {})).await.map_err(unreadable) };
        let found = match checked.await {
            Ok(found) => found,
            // Readiness and every call report a journal that cannot be read.
            Err(error) => return tracing::warn!(%error, "the journal could not be checked"),
        };
        let problem = found.first_problem.map(|problem| problem.what);
        if let Some(problem) = &problem {
            tracing::error!(problem, "the journal is not sound; run `helve audit verify`");
        }
        let (entries, sound) = (u64::try_from(found.entries).unwrap_or_default(), problem.is_none());
        let verified = Verified { at: Timestamp::now(), entries, sound };
        *self.verified.lock().unwrap_or_else(PoisonError::into_inner) = Some(verified);
        runtime.registry().announce(|| EventKind::AuditVerified { entries, problem });
    }

    /// Prunes the journal every so often, as the configuration says, and tells the listeners. Never ends.
    pub async fn keep_pruning(&self, config: &Config, runtime: &Runtime) {
        let retention = &config.journal.retention;
        if retention.every_s == 0 || !retention.is_set() {
            return std::future::pending().await;
        }
        let every = Duration::from_secs(retention.every_s);
        tokio::time::sleep(VERIFY_FIRST.min(every)).await;
        loop {
            self.prune(config, runtime).await;
            tokio::time::sleep(every).await;
        }
    }

    async fn prune(&self, config: &Config, runtime: &Runtime) {
        let now = Timestamp::now();
        let asked = config.journal.retention.at(&config.limits.calls, now, "[journal.retention]");
        let (report, problem) = match self.try_prune(&asked, now).await {
            Ok((report, held)) => (report, held),
            Err(problem) => (PruneReport::default(), Some(problem)),
        };
        if let Some(problem) = &problem {
            tracing::warn!(problem, "the journal could not be pruned as `[journal.retention]` says");
        }
        let count = |count: i64| u64::try_from(count).unwrap_or_default();
        let (entries, erased) = (count(report.entries), count(report.erased));
        let total = self.pruned().map_or(0, |before| before.entries) + entries;
        let pruned = Pruned { at: Timestamp::now(), entries: total, done: problem.is_none() };
        *self.pruned.lock().unwrap_or_else(PoisonError::into_inner) = Some(pruned);
        runtime.registry().announce(|| EventKind::AuditPruned { entries, erased, problem });
    }

    /// What went, and what held the rest; or why nothing went.
    async fn try_prune(
        &self,
        retention: &Retention,
        now: Timestamp,
    ) -> Result<(PruneReport, Option<String>), String> {
        let OpenLedger::File(store) = &self.ledger else {
            return Err("helve does not prune a PostgreSQL database yet".to_owned());
        };
        let key = SigningKey::open(store.path()).map_err(|error| error.to_string())?;
        let pruned = store.prune(retention, &Arc::new(key), now, |_| {}).await;
        let report = pruned.map_err(|error| error.to_string())?;
        let (asked, audit) = (retention.clone(), store.audit());
        let planned = tokio::task::spawn_blocking(move || audit.prune_plan(&asked)).await;
        let plan = planned.map_err(|error| error.to_string())?.map_err(|error| error.to_string())?;
        Ok((report, plan.held.map(|hold| hold.to_string())))
    }

    /// The read side, after what is queued is on disk: a caller finds the call that it has just made.
    async fn audit(&self) -> Result<Arc<dyn AuditTrail>, JournalError> {
        self.ledger.flush().await?;
        Ok(self.ledger.audit())
    }
}

fn unreadable(error: TrailError) -> JournalError {
    JournalError::new("the journal cannot be read").with_source(error)
}

fn resolve(asked: RecordQuery) -> Result<AuditQuery, RecordError> {
    let status = match asked.status {
        None => None,
        Some(word) => {
            let found = CallStatus::ALL.into_iter().find(|status| status.as_str() == word);
            let known = CallStatus::ALL.map(CallStatus::as_str).join("`, `");
            Some(found.ok_or_else(|| RecordError::Query(format!("`status` is one of `{known}`")))?)
        }
    };
    let mut query = AuditQuery::default();
    query.among = match asked.among {
        records::Among::Calls => Among::Calls,
        records::Among::Runs => Among::Runs,
    };
    query.tool = asked.tool;
    query.status = status;
    query.code = asked.code;
    query.principal = asked.principal;
    query.session = asked.session;
    query.agent = asked.agent;
    query.said = asked.said;
    query.by = asked.by;
    query.risk = asked.risk;
    query.since = asked.since;
    query.until = asked.until;
    query.before = asked.before;
    query.limit = asked.limit.unwrap_or(query.limit);
    Ok(query)
}

fn record(call: &CallRecord) -> Result<Record, RecordError> {
    let body = serde_json::value::to_raw_value(call)
        .map_err(|error| JournalError::new("a record cannot be written as JSON").with_source(error))?;
    Ok(Record { id: call.facts.call_id, principal: call.facts.caller.principal.clone(), body })
}
