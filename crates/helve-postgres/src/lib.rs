//! Helve's ledger on PostgreSQL, for several replicas at once.
//!
//! [`PostgresLedger`] is a durable [`Ledger`](helve_core::ports::Ledger) that as many processes share as like. Each has
//! one thread that writes whatever is queued in one transaction and only then acknowledges, and a hash chain of its
//! own. PostgreSQL is the one source of truth: nothing is kept anywhere else, and time is the database's.
//!
//! A replica holds its runs by a lease. A replica that dies, hangs or is cut off loses them to another; what it says
//! later is recorded as fenced and changes nothing.

mod audit;
mod ledger;

mod approvals;
mod identity;
mod journal;
mod memory;
mod runs;
mod sessions;

mod read;
mod stretch;
mod writer;

mod replica;
mod schema;
mod server;
mod sql;
mod tls;
mod vouched;

mod error;

pub use audit::PostgresAudit;
pub use error::PostgresError;
pub use ledger::{PostgresLedger, PostgresOptions};
