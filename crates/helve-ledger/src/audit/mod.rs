//! The audit trail: the read side of every ledger.

pub mod query;
pub mod record;
pub mod trail;
pub mod verification;

pub mod costs;
pub mod glance;
pub mod history;
pub mod runs;
pub mod stored;
