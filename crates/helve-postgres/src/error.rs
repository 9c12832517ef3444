//! What can be wrong with the database.

use helve_core::ports::JournalError;
use tokio_postgres::error::SqlState;

/// The ledger cannot be opened, read or written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PostgresError {
    /// The address cannot be used.
    #[error(
        "this is no address of a PostgreSQL database: {0}; it looks like `postgres://user@host/database`"
    )]
    Url(String),
    /// A replica cannot be called that.
    #[error("`{0}` is no name for a replica: letters, digits and `-_.:`, at most 100")]
    Name(String),
    /// Something of this process could not be started.
    #[error("cannot {action} the database at {at}")]
    Process {
        /// What was tried.
        action: &'static str,
        /// Where the database is, without secrets.
        at: String,
        /// Why it failed.
        #[source]
        source: std::io::Error,
    },
    /// The certificates that are to be trusted cannot be used.
    #[error("TLS cannot be set up: {0}")]
    Tls(String),
    /// The server cannot be reached, or was lost.
    #[error("the database at {at} cannot be reached")]
    Unreachable {
        /// Where it is, without secrets.
        at: String,
        /// What the connection says.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// Nothing answered in time.
    #[error("the database at {at} does not answer; waited {seconds} s")]
    Slow {
        /// Where it is, without secrets.
        at: String,
        /// For how long.
        seconds: u64,
    },
    /// All connections are in use.
    #[error(
        "all {max} connections for reading are in use; raise `connections_max`, or look for what keeps them busy"
    )]
    Exhausted {
        /// How many there may be.
        max: usize,
    },
    /// The server is too old.
    #[error("the database at {at} is PostgreSQL {found}; helve needs 15 or later")]
    TooOld {
        /// Where it is, without secrets.
        at: String,
        /// Its version.
        found: String,
    },
    /// The server only reads.
    #[error("the database at {at} is a standby, which cannot be written; name the primary")]
    Standby {
        /// Where it is, without secrets.
        at: String,
    },
    /// The server loses what it has acknowledged.
    #[error(
        "the database at {at} runs with `fsync = off` and would lose what it has acknowledged; turn it on"
    )]
    NotDurable {
        /// Where it is, without secrets.
        at: String,
    },
    /// A later version of Helve has migrated the database.
    #[error(
        "the ledger has schema {found}, and this version of helve knows {known}; update helve on this replica"
    )]
    Newer {
        /// The database's schema.
        found: i64,
        /// The newest that this Helve knows.
        known: i64,
    },
    /// There is no ledger yet.
    #[error("there is no ledger in the database at {at} yet; `helve up` makes it")]
    Missing {
        /// Where it is, without secrets.
        at: String,
    },
    /// There is something else where the ledger should be.
    #[error("the schema `helve` of this database is not Helve's; use another database")]
    Foreign,
    /// The chain is not where this replica left it.
    #[error(
        "the chain of {replica} ends at entry {found}, and this replica has written {known}: the database was put back, \
         or another process writes as this replica; restart it, and run `helve audit verify`"
    )]
    Moved {
        /// The replica and its epoch.
        replica: String,
        /// The end that is there.
        found: i64,
        /// The end that this replica knows.
        known: i64,
    },
    /// The server refused.
    #[error("the database refused")]
    Refused(#[source] tokio_postgres::Error),
    /// A row cannot be read.
    #[error("{0}; check the ledger with `helve audit verify`")]
    Damaged(String),
    /// Something of ours cannot be written.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// The ledger was closed while entries could not be written.
    #[error("{entries} entries could not be written before closing: {reason}")]
    Unwritten {
        /// How many are lost.
        entries: usize,
        /// Why they could not be written.
        reason: String,
    },
}

impl PostgresError {
    /// The error and all its causes in one line.
    pub(crate) fn chain(&self) -> String {
        let mut line = self.to_string();
        let mut cause = std::error::Error::source(self);
        while let Some(error) = cause {
            line.push_str(": ");
            line.push_str(&error.to_string());
            cause = error.source();
        }
        line
    }
}

impl From<PostgresError> for JournalError {
    fn from(error: PostgresError) -> Self {
        match error {
            PostgresError::Journal(error) => error,
            error => Self::new(error.chain()),
        }
    }
}

/// Whether the same statements may do better another time: they stood in the way of another's.
pub(crate) fn is_in_the_way(error: &tokio_postgres::Error) -> bool {
    matches!(error.code(), Some(&SqlState::T_R_DEADLOCK_DETECTED | &SqlState::T_R_SERIALIZATION_FAILURE))
}

/// Whether the connection is lost, or the server is going away: what became of the last statement is unknown.
pub(crate) fn is_lost(error: &tokio_postgres::Error) -> bool {
    let Some(code) = error.code() else { return true };
    let code = code.code();
    // 08: connection; 57P: the server or an administrator ends it; 53: it has no room for more; 25P03: idle for too long.
    code.starts_with("08") || code.starts_with("57P") || code == "25P03"
}
