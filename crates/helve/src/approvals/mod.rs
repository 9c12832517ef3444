//! Questions to people: what is asked, who may decide, and how callers go on.
//!
//! The gate (`pipeline/decide.rs`) puts a question, the ledger keeps it, a person decides through
//! [`Approvals`], and the same call, or the run that waits, goes on and uses the approval up.

mod bind;
mod decide;
mod flight;
mod follow;
mod outside;
mod repeat;
mod standing;
mod waiting;

use std::time::Duration;

pub(crate) use bind::{binding, binding_of};
pub use decide::{Approvals, DecideError, Decider, Decision, Remember, Vouch};
pub(crate) use flight::SingleFlights;
pub(crate) use follow::{go_on, pending};
pub(crate) use outside::leads_outside;
pub(crate) use repeat::outcome_of_repeated;
pub use standing::{Ready, Standing};
pub use waiting::Changes;
pub(crate) use waiting::{ApprovalFeed, until_decided};

/// How questions to people are handled. The defaults are safe.
#[derive(Debug, Clone)]
pub struct ApprovalSettings {
    /// How long a question can be decided, and then how long its approval can be used.
    pub ttl: Duration,
    /// How long calls wait for a person that do not say so themselves. Zero: not at all.
    pub wait: Duration,
    /// How long a denial answers the same call again without anybody being asked.
    pub denied_for: Duration,
    /// How long “always for this session” holds at most, where the person does not say.
    pub rule_ttl: Duration,
    /// Most questions that may be pending at a time.
    pub pending_max: usize,
    /// Most of them that the calls of one principal may have put.
    pub pending_share: usize,
    /// How long questions that came to an end can still be listed. The journal keeps them anyway.
    pub keep: Duration,
    /// Domains that are the operator's own. Arguments that name an address elsewhere are marked.
    pub own_domains: Vec<String>,
}

impl Default for ApprovalSettings {
    fn default() -> Self {
        const HOUR: Duration = Duration::from_secs(3_600);
        Self {
            ttl: 24 * HOUR,
            wait: Duration::ZERO,
            denied_for: HOUR / 6,
            rule_ttl: 8 * HOUR,
            pending_max: 10_000,
            pending_share: 1_000,
            keep: 90 * 24 * HOUR,
            own_domains: Vec::new(),
        }
    }
}
