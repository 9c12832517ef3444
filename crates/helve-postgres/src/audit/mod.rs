//! The audit trail: what is read back of all chains together, and the check of each.
//!
//! Every question is short: what is long is asked for in pages. A long read would keep the database from clearing away
//! what all replicas leave behind.

pub(crate) mod chain;
mod list;
mod tables;
mod verify;

use std::io::Write;

use helve_core::cost::Spending;
use helve_core::{BoxFuture, CallId};
use helve_ledger::audit::query::{AuditQuery, Shown};
use helve_ledger::audit::record::CallRecord;
use helve_ledger::audit::trail::{AuditTrail, Progress, TrailError};
use helve_ledger::audit::verification::{Head, Verification, WriterHead};
use jiff::Timestamp;

use crate::error::PostgresError;
use crate::ledger::PostgresLedger;
use crate::read;
use crate::schema;
use crate::server::{Readers, Server};

/// Reads a ledger on PostgreSQL, and changes nothing.
#[derive(Clone)]
pub struct PostgresAudit {
    readers: Readers,
}

impl std::fmt::Debug for PostgresAudit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PostgresAudit").finish_non_exhaustive()
    }
}

impl PostgresAudit {
    /// Reads the ledger at an address, which must be there. No replica joins for that.
    pub async fn open(url: &str, connections_max: usize) -> Result<Self, PostgresError> {
        let server = Server::parse(url, "audit")?;
        let link = server.connect().await?;
        match schema::found(&link.client).await? {
            0 => return Err(PostgresError::Missing { at: server.at().to_owned() }),
            schema::VERSION => {}
            found => return Err(PostgresError::Newer { found, known: schema::VERSION }),
        }
        Ok(Self { readers: Readers::new(server, connections_max)? })
    }
}

impl PostgresLedger {
    /// The read side. It sees what is on disk; flush first to see what is queued.
    pub fn audit(&self) -> PostgresAudit {
        PostgresAudit { readers: self.readers.clone() }
    }
}

impl AuditTrail for PostgresAudit {
    fn list(&self, query: AuditQuery) -> BoxFuture<'_, Result<Vec<CallRecord>, TrailError>> {
        Box::pin(async move { Ok(list::list(&self.readers, &query).await?) })
    }

    fn show(&self, id: String) -> BoxFuture<'_, Result<Shown, TrailError>> {
        Box::pin(list::show(&self.readers, id))
    }

    fn runs(&self, before: Option<CallId>, limit: usize) -> BoxFuture<'_, Result<Vec<CallId>, TrailError>> {
        Box::pin(async move { Ok(list::runs(&self.readers, before, limit).await?) })
    }

    fn spending(&self, since: Timestamp) -> BoxFuture<'_, Result<Vec<Spending>, TrailError>> {
        Box::pin(async move { Ok(read::spending(&self.readers, since).await?) })
    }

    fn export(
        &self,
        since: Option<Timestamp>,
        out: Box<dyn Write + Send>,
        progress: Progress,
    ) -> BoxFuture<'_, Result<u64, TrailError>> {
        Box::pin(list::export(&self.readers, since, out, progress))
    }

    fn verify(&self, progress: Progress) -> BoxFuture<'_, Result<Verification, TrailError>> {
        Box::pin(async move { Ok(verify::verify(&self.readers, progress).await?) })
    }

    fn heads(&self) -> BoxFuture<'_, Result<Vec<WriterHead>, TrailError>> {
        Box::pin(async move { Ok(heads(&self.readers).await?) })
    }
}

impl From<PostgresError> for TrailError {
    fn from(error: PostgresError) -> Self {
        Self::Ledger(Box::new(error))
    }
}

/// The ends of all chains, in the order in which the chains began.
async fn heads(readers: &Readers) -> Result<Vec<WriterHead>, PostgresError> {
    let writers = chain::writers(readers).await?;
    let head = |writer: chain::Writer| {
        let head = Head::at(writer.end)?;
        Some(WriterHead { writer: writer.label, head })
    };
    Ok(writers.into_iter().filter_map(head).collect())
}

/// How many rows are read in one go.
const PAGE: i64 = 1_000;
