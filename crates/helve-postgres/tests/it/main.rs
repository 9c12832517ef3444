//! The ledger against a real PostgreSQL, and against one behind pgbouncer in transaction mode.
//!
//! - `conformance`: the ports' contract
//! - `replicas`: several replicas on one database: leases, fences, approvals and keys between them
//! - `faults`: servers that die, connections that are cut at the worst moment, pools that are exhausted
//! - `audit`: reading back, and noticing what was changed behind the replicas' backs
//! - `schema`: tables that are made once, and versions that do not fit

#![expect(clippy::unwrap_used, reason = "a test that cannot go on should stop")]

mod audit;
mod conformance;
mod faults;
mod proxy;
mod replicas;
mod schema;
mod support;
