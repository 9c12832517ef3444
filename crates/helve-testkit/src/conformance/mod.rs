//! What every ledger must do, whatever it is made of.
//!
//! ```no_run
//! # use std::sync::Arc;
//! # use helve_core::ports::Ledger;
//! # use helve_testkit::conformance::{self, Setup};
//! # async fn test(new_ledger: impl Fn(Setup) -> Arc<dyn Ledger>) {
//! conformance::check_ledger(new_ledger).await;
//! # }
//! ```

pub mod approvals;
pub mod identity;
pub mod journal;
pub mod memory;
pub mod runs;
pub mod sessions;

use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use helve_core::memory::MemoryLimits;
use helve_core::ports::{Clock, Journal, Ledger};

use crate::clock::ManualClock;

/// Longest that anything may take before a check calls it hanging.
const PATIENCE: Duration = Duration::from_secs(20);

/// What a new ledger is made from.
#[derive(Clone)]
pub struct Setup {
    /// The clock that the ledger reads.
    pub clock: Arc<dyn Clock>,
    /// How much may be remembered.
    pub limits: MemoryLimits,
}

impl Setup {
    /// A setup with a clock that stands still, and the usual limits.
    fn new() -> (Self, Arc<ManualClock>) {
        let clock = Arc::new(ManualClock::default());
        (Self { clock: Arc::<ManualClock>::clone(&clock), limits: MemoryLimits::default() }, clock)
    }
}

/// Runs every check, each on a new ledger. Panics at the first that fails. Needs a runtime with
/// several threads.
pub async fn check_ledger(new_ledger: impl Fn(Setup) -> Arc<dyn Ledger>) {
    journal::check_journal(|| -> Arc<dyn Journal> { new_ledger(Setup::new().0) }).await;
    runs::check_runs(&new_ledger).await;
    memory::check_memory(&new_ledger).await;
    approvals::check_approvals(&new_ledger).await;
    identity::check_identity(&new_ledger).await;
    sessions::check_sessions(&new_ledger).await;
}

/// Polls a future once and tells whether it still waits.
pub async fn is_pending<T>(future: &mut (impl Future<Output = T> + Unpin)) -> bool {
    std::future::poll_fn(|context| Poll::Ready(Pin::new(&mut *future).poll(context).is_pending())).await
}

async fn within<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, future).await.expect("the ledger answers in time")
}
