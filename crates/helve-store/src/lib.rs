//! Helve's ledger on SQLite: one file that keeps what became of every call, which runs are
//! unfinished, what people were asked, and what agents remember.
//!
//! [`Store`] is the durable [`Ledger`](helve_core::ports::Ledger). One thread writes whatever is
//! queued in one transaction and only then acknowledges. Entries form a hash chain; [`Audit`] is
//! the read side, which also checks the chain.
//!
//! Next to the database `journal.db` stand `journal.db.head`, the anchor that gives away a cut
//! end, `journal.db.reserve`, which is given up for the ends of calls when the disk is full, and
//! `journal.db.owners/`, where each living process holds a lock. [`Backup`] copies a ledger that is in use.

mod store;

pub mod office;

mod approvals;
mod figures;
mod glance;
mod identity;
mod journal;
mod keys;
mod memory;
mod readers;
mod runs;
mod sessions;
mod writer;

mod anchor;
mod blocked;
mod migrations;
mod owners;
mod prune;
mod quarantine;
mod reserve;
mod schema;
mod vouch;

mod audit;
mod backup;
mod error;
mod status;

pub use audit::{Audit, Checkpoint, CheckpointError, SigningKey, VerifyingKey};
pub use backup::{Backup, BackupError, Comparison, FileMark, Manifest, Progress, Restored, Stage};
pub use blocked::Blocker;
pub use error::StoreError;
pub use glance::Glance;
pub use helve_ledger::audit::query::{Among, AuditQuery, Shown};
pub use helve_ledger::audit::record::{CallRecord, CallStatus, ChainLink, StepRecord};
pub use helve_ledger::audit::verification::{Anchored, Concern, Head, Problem, PrunedUpTo, Verification};
pub use prune::{Cut, Hold, HoldReason, PruneError, PrunePlan, PruneReport, Range, Retention};
pub use quarantine::{Quarantine, Trouble};
pub use status::StoreStatus;
pub use store::{Store, StoreOptions};
