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

use std::sync::Arc;
use std::time::Duration;

use helve_core::ports::{Clock, Ledger};

pub(crate) use bind::{binding, binding_of};
pub use decide::{Approvals, DecideError, Decider, Decision, Remember, Vouch};
use flight::SingleFlights;
pub(crate) use follow::{go_on, pending};
pub(crate) use outside::leads_outside;
pub(crate) use repeat::outcome_of_repeated;
pub use standing::{Ready, Standing};
use waiting::ApprovalFeed;
pub use waiting::Changes;

/// Questions to people, while a caller waits for an answer.
pub(crate) struct Questions {
    /// Tells what was decided.
    pub(crate) feed: Arc<ApprovalFeed>,
    /// What runs because a caller came back for it.
    flights: Arc<SingleFlights>,
}

impl Questions {
    pub(crate) fn new(ledger: Arc<dyn Ledger>, clock: Arc<dyn Clock>, keep: Duration) -> Self {
        Self { feed: Arc::new(ApprovalFeed::new(ledger, clock, keep)), flights: Arc::default() }
    }
}

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
