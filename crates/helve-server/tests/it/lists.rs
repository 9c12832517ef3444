//! Lists: whose things they show, and how much of the journal is read for them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use helve::gate::PolicyRequest;
use helve::identity::Purpose;
use helve::ports::Policy;
use helve::{Action, Runtime, Stance, VolatileLedger, Vote};
use helve_server::ServerConfig;
use helve_testkit::FaultyLedger;
use helve_testkit::faulty::Boundary;

use crate::harness::{ADA, BOB};
use crate::identity::api_on;

/// Lets nobody look at what others have.
struct Discreet;

impl Policy for Discreet {
    fn rule(&self, request: &PolicyRequest<'_>) -> Vote {
        match request.action {
            Action::Inspect => Vote::policy("discreet", Stance::Deny),
            _ => Vote::policy("rest", Stance::Allow),
        }
    }
}

#[tokio::test]
async fn who_decides_sees_nothing_of_a_caller_of_the_same_name() {
    let api = api_on(Runtime::builder().policy(Arc::new(Discreet)), ServerConfig::default()).await;
    api.question(1).await;
    let (_, bob_decides) = api.key("bob", Purpose::Decide).await;
    for path in ["/v1/costs", "/v1/sessions", "/v1/approvals"] {
        assert_eq!(api.get(path, BOB).await.status, 200, "{path}: his own");
        let reply = api.get(path, &bob_decides).await;
        assert_eq!(reply.status, 404, "{path}: {reply:?}");
    }
    // Asking for others changes nothing.
    assert_eq!(api.get("/v1/approvals?principal=bob", ADA).await.body, "[]");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn costs_are_read_for_one_at_a_time() {
    let (is_watched, reading, most) =
        (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (watched, seen) = (Arc::clone(&is_watched), Arc::clone(&most));
    let fault = move |boundary: Boundary| {
        match boundary {
            _ if !watched.load(SeqCst) => {}
            Boundary::Before => {
                seen.fetch_max(reading.fetch_add(1, SeqCst) + 1, SeqCst);
                // Long enough for others to come in between, if they could.
                std::thread::sleep(Duration::from_millis(20));
            }
            Boundary::After => {
                reading.fetch_sub(1, SeqCst);
            }
        }
        Ok(())
    };
    let ledger = FaultyLedger::new(Arc::new(VolatileLedger::default()), Arc::new(fault));
    let api = api_on(Runtime::builder().ledger(Arc::new(ledger)), ServerConfig::default()).await;
    let api = Arc::new(api);
    is_watched.store(true, SeqCst);
    let mut asking = tokio::task::JoinSet::new();
    for _ in 0..8 {
        let api = Arc::clone(&api);
        asking.spawn(async move { api.get("/v1/costs", ADA).await.status });
    }
    assert_eq!(asking.join_all().await, [200; 8]);
    assert_eq!(most.load(SeqCst), 1);
}
