use helve_core::ports::{Journal, LedgerFigures};
use helve_core::record::Entry;
use helve_core::run::{StepKind, WaitingFor};
use helve_store::Store;
use helve_testkit::entries::SampleCall;

use crate::support::Place;

async fn figures(store: &Store) -> LedgerFigures {
    store.figures().await.unwrap().expect("the store keeps figures")
}

fn waits(call: &SampleCall, reason: WaitingFor) -> Entry {
    Entry::Step(call.step(StepKind::Waiting { reason, approval_id: None }))
}

#[tokio::test]
async fn open_runs_are_counted_by_what_they_do() {
    let place = Place::new();
    let dead = place.open();
    dead.commit(SampleCall::new("mail/send").started()).await.unwrap();
    drop(dead);
    let store = place.open();
    for (reason, count) in [(WaitingFor::Approval, 1), (WaitingFor::UnknownOutcome, 2)] {
        for _ in 0..count {
            let run = SampleCall::new("mail/send");
            store.commit_all(vec![run.started(), waits(&run, reason)]).await.unwrap();
        }
    }
    for _ in 0..3 {
        store.commit(SampleCall::new("mail/send").started()).await.unwrap();
    }
    let runs = figures(&store).await.runs;
    assert_eq!((runs.running, runs.cut_short, runs.waiting, runs.in_doubt), (3, 1, 1, 2));
}

#[tokio::test]
async fn the_journal_is_measured() {
    let place = Place::new();
    let store = place.open();
    let before = figures(&store).await;
    assert_eq!((before.entries, before.anchored, before.queued), (0, Some(0), 0));
    for _ in 0..3 {
        store.commit(SampleCall::new("mail/send").started()).await.unwrap();
    }
    let after = figures(&store).await;
    assert_eq!(after.entries, 3);
    assert!(after.bytes > 0 && after.log_bytes > 0, "{after:?}");
    assert_eq!(after.commits.counts.iter().sum::<u64>(), 3, "each was a group of its own");
    assert!(after.commits.sum_us > 0);
    std::fs::write(place.anchor(), "nonsense").unwrap();
    assert_eq!(figures(&store).await.anchored, None);
}
