//! The ledger of this configuration: a file of this machine, or a database that several replicas share.

use std::ops::Deref;
use std::sync::Arc;

use helve::ports::Ledger;
use helve_ledger::audit::trail::{AuditTrail, TrailError};
use helve_postgres::{PostgresAudit, PostgresError, PostgresLedger, PostgresOptions};
use helve_store::{Quarantine, Store, StoreError};

use super::trail::Trail;
use super::{database, journal};
use crate::config::Loaded;
use crate::error::HostError;

/// A ledger that is open. Cheap to clone.
#[derive(Clone)]
pub enum OpenLedger {
    /// One file, which the processes of this machine share.
    File(Arc<Store>),
    /// A database, which replicas on several machines share.
    Database(Arc<PostgresLedger>),
}

impl Deref for OpenLedger {
    type Target = dyn Ledger;

    fn deref(&self) -> &Self::Target {
        match self {
            Self::File(store) => &**store,
            Self::Database(ledger) => &**ledger,
        }
    }
}

impl OpenLedger {
    /// The same, as a runtime takes it.
    pub fn port(&self) -> Arc<dyn Ledger> {
        match self {
            Self::File(store) => Arc::<Store>::clone(store),
            Self::Database(ledger) => Arc::<PostgresLedger>::clone(ledger),
        }
    }

    /// The read side. Flush first to see what is queued.
    pub fn audit(&self) -> Arc<dyn AuditTrail> {
        match self {
            Self::File(store) => Arc::new(store.audit()),
            Self::Database(ledger) => Arc::new(ledger.audit()),
        }
    }

    /// The same for code that waits.
    pub fn trail(&self) -> Trail {
        match self {
            Self::File(store) => Trail::File(store.audit()),
            Self::Database(ledger) => Trail::Database(Box::new(ledger.audit())),
        }
    }

    /// Why nothing is written to a file, and so no call runs, until a person has looked at it.
    pub fn quarantine(&self) -> Option<Arc<Quarantine>> {
        match self {
            Self::File(store) => store.quarantine(),
            Self::Database(_) => None,
        }
    }

    /// Writes what is queued and lets go of it. Blocks until that is done.
    pub fn close(&self) -> Result<(), LedgerError> {
        match self {
            Self::File(store) => Ok(store.close()?),
            Self::Database(ledger) => Ok(ledger.close()?),
        }
    }
}

/// Opens the ledger, and makes it where there is none.
pub fn open_ledger(loaded: &Loaded) -> Result<OpenLedger, HostError> {
    match database::options(loaded)? {
        Some(options) => {
            journal::make_folder(loaded)?;
            Ok(OpenLedger::Database(Arc::new(open_database(options)?)))
        }
        None => Ok(OpenLedger::File(Arc::new(super::open_store(loaded)?))),
    }
}

/// The record of calls, for who only reads it.
pub fn open_trail(loaded: &Loaded) -> Result<Result<Trail, LedgerError>, HostError> {
    match database::options(loaded)? {
        Some(PostgresOptions { url, connections_max, .. }) => {
            let opened = database::wait(PostgresAudit::open(&url, connections_max));
            let opened = opened.map_err(|error| database::no_wait(&error))?;
            Ok(opened.map(|audit| Trail::Database(Box::new(audit))).map_err(LedgerError::Database))
        }
        None => Ok(super::open_audit(loaded)?.map(Trail::File).map_err(LedgerError::File)),
    }
}

fn open_database(options: PostgresOptions) -> Result<PostgresLedger, HostError> {
    let opened = database::wait(PostgresLedger::open(options));
    opened.map_err(|error| database::no_wait(&error))?.map_err(|error| {
        HostError::failed("the ledger's database cannot be used, and without a record no tool runs")
            .because(&error)
            .hint("`helve config show store` says which database it is, and where that is said")
    })
}

/// Why a ledger cannot be opened, read or closed.
#[derive(Debug, thiserror::Error)]
pub enum LedgerError {
    /// The file's own error.
    #[error(transparent)]
    File(#[from] StoreError),
    /// The database's own error.
    #[error(transparent)]
    Database(#[from] PostgresError),
    /// The database's record cannot be read.
    #[error(transparent)]
    Trail(#[from] TrailError),
    /// This machine has no thread or socket left.
    #[error("no answer can be waited for")]
    Wait(#[from] std::io::Error),
}

impl LedgerError {
    /// Whether there is no ledger yet, so that nothing was ever recorded.
    pub fn is_missing(&self) -> bool {
        match self {
            Self::File(error) => matches!(error, StoreError::Missing(_)),
            Self::Database(error) => matches!(error, PostgresError::Missing { .. }),
            Self::Trail(_) | Self::Wait(_) => false,
        }
    }

    /// Whether what was asked for is not the beginning of a call's id.
    pub fn is_not_an_id(&self) -> bool {
        match self {
            Self::File(error) => matches!(error, StoreError::NotAnId(_)),
            Self::Trail(error) => matches!(error, TrailError::NotAnId(_)),
            Self::Database(_) | Self::Wait(_) => false,
        }
    }

    /// Why what was read could not be written to where it was to go, where that is all that is wrong.
    pub fn into_output(self) -> Result<std::io::Error, Self> {
        match self {
            Self::File(StoreError::Output(cause)) | Self::Trail(TrailError::Output(cause)) => Ok(cause),
            other => Err(other),
        }
    }
}
