//! What several tests need.

use std::sync::Arc;
use std::time::Duration;

use helve_postgres::{PostgresLedger, PostgresOptions};
use helve_testkit::conformance::Setup;

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
    options.lease = Duration::from_secs(5);
    Arc::new(open(options))
}
