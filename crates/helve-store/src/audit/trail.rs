//! The audit trail as every ledger has it. SQLite blocks, so each question has a thread that may.

use std::io::Write;

use helve_core::cost::Spending;
use helve_core::{BoxFuture, CallId};
use helve_ledger::audit::query::{AuditQuery, Shown};
use helve_ledger::audit::record::CallRecord;
use helve_ledger::audit::trail::{AuditTrail, Progress, TrailError};
use helve_ledger::audit::verification::{Verification, WriterHead};
use jiff::Timestamp;

use super::Audit;
use crate::error::StoreError;

/// How the one chain of a file is named among those of several replicas.
const WRITER: &str = "file";

impl AuditTrail for Audit {
    fn list(&self, query: AuditQuery) -> BoxFuture<'_, Result<Vec<CallRecord>, TrailError>> {
        self.blocking(move |audit| audit.list(&query))
    }

    fn show(&self, id: String) -> BoxFuture<'_, Result<Shown, TrailError>> {
        self.blocking(move |audit| audit.show(&id))
    }

    fn runs(&self, before: Option<CallId>, limit: usize) -> BoxFuture<'_, Result<Vec<CallId>, TrailError>> {
        self.blocking(move |audit| audit.runs(before, limit))
    }

    fn spending(&self, since: Timestamp) -> BoxFuture<'_, Result<Vec<Spending>, TrailError>> {
        self.blocking(move |audit| audit.spending(since))
    }

    fn export(
        &self,
        since: Option<Timestamp>,
        out: Box<dyn Write + Send>,
        progress: Progress,
    ) -> BoxFuture<'_, Result<u64, TrailError>> {
        self.blocking(move |audit| audit.export(since, out, progress))
    }

    fn verify(&self, mut progress: Progress) -> BoxFuture<'_, Result<Verification, TrailError>> {
        self.blocking(move |audit| audit.verify(|entries| progress(entries.unsigned_abs())))
    }

    fn heads(&self) -> BoxFuture<'_, Result<Vec<WriterHead>, TrailError>> {
        self.blocking(|audit| {
            let head = audit.head()?;
            Ok(head.map(|head| WriterHead { writer: WRITER.to_owned(), head }).into_iter().collect())
        })
    }
}

impl Audit {
    fn blocking<T: Send + 'static>(
        &self,
        read: impl FnOnce(&Self) -> Result<T, StoreError> + Send + 'static,
    ) -> BoxFuture<'_, Result<T, TrailError>> {
        let audit = self.clone();
        Box::pin(async move {
            match tokio::task::spawn_blocking(move || read(&audit)).await {
                Ok(answered) => answered.map_err(TrailError::from),
                Err(error) => Err(TrailError::Ledger(Box::new(error))),
            }
        })
    }
}

impl From<StoreError> for TrailError {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::NotAnId(id) => Self::NotAnId(id),
            StoreError::Output(error) => Self::Output(error),
            error => Self::Ledger(Box::new(error)),
        }
    }
}
