//! What several tests need.

use std::sync::Arc;
use std::time::{Duration, Instant};

use helve_core::ApprovalId;
use helve_core::approval::{Approval, Ask};
use helve_core::ports::{Holder, Ledger};
use helve_postgres::{PostgresLedger, PostgresOptions};
use helve_testkit::conformance::Setup;
use helve_testkit::entries::{SampleCall, raw};
use jiff::{SignedDuration, Timestamp};
use serde_json::json;

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

/// A question about what `binding` stands for.
pub(crate) fn question(binding: &str) -> Ask {
    let now = Timestamp::now();
    let call = SampleCall::at("mail/send", now);
    let mut approval = Approval::new(ApprovalId::new(now), "mail/send", "5a4d", call.id());
    approval.arguments = raw(&json!({ "to": "ada" }));
    (approval.created_at, approval.expires_at) = (now, now + SignedDuration::from_secs(100));
    approval.binding = binding.to_owned();
    let denied_for = SignedDuration::from_secs(10);
    Ask { approval, denied_for, insist: false, pending_max: 1_000, pending_share: 1_000 }
}
