//! What several tests need.

use std::sync::Arc;
use std::time::{Duration, Instant};

use helve_core::ports::{Holder, Ledger};
use helve_postgres::{PostgresLedger, PostgresOptions};
use helve_testkit::conformance::Setup;
use helve_testkit::entries::SampleCall;

/// A lease that runs out within a test.
pub(crate) const SHORT: Duration = Duration::from_millis(800);

/// A ledger on a database, from a runtime with several threads.
pub(crate) fn open(options: PostgresOptions) -> PostgresLedger {
    tokio::task::block_in_place(|| {
        tokio::runtime::Handle::current().block_on(PostgresLedger::open(options)).unwrap()
    })
}

/// The same, as the conformance suite wants it.
pub(crate) fn set_up(url: String, setup: Setup) -> Arc<PostgresLedger> {
    let mut options = PostgresOptions::new(url);
    options.memory = setup.limits;
    options.clock = Some(setup.clock);
    Arc::new(open(options))
}

/// A replica with a name.
pub(crate) async fn replica(url: &str, name: &str, lease: Duration) -> Arc<PostgresLedger> {
    let mut options = PostgresOptions::new(url);
    (options.replica, options.lease) = (name.to_owned(), lease);
    Arc::new(PostgresLedger::open(options).await.unwrap())
}

/// Who is at a run. None: it is not open.
pub(crate) async fn holder(ledger: &dyn Ledger, run: &SampleCall) -> Option<Holder> {
    let open = ledger.open_runs(None, 1_000).await.unwrap();
    open.into_iter().find(|open| open.run == run.id()).map(|open| open.holder)
}

/// Waits until a condition holds.
pub(crate) async fn wait_until(what: &str, mut condition: impl AsyncFnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(30);
    while !condition().await {
        assert!(Instant::now() < deadline, "waited in vain: {what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}
