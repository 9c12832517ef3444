//! What every journal must do.

use std::sync::Arc;

use helve_core::ports::{Begun, Journal, KeyClaim};
use helve_core::{CallId, ErrorCode, Status, ToolError};
use serde_json::json;

use super::{is_pending, within};
use crate::entries::{SampleCall, claim, done_status};

/// Runs every check, each on a new journal. Panics at the first that fails.
pub async fn check_journal(new_journal: impl Fn() -> Arc<dyn Journal>) {
    takes_entries_of_every_kind(&*new_journal()).await;
    flush_waits_for_appends(&*new_journal()).await;
    a_new_key_is_fresh_and_its_end_is_replayed(&*new_journal()).await;
    failures_are_replayed_too(&*new_journal()).await;
    an_end_that_did_nothing_gives_its_key_back(&*new_journal()).await;
    who_waits_for_a_key_that_is_given_back_runs(new_journal()).await;
    a_key_with_other_arguments_is_a_conflict(new_journal()).await;
    keys_do_not_mix(&*new_journal()).await;
    a_second_call_waits_for_the_first(new_journal()).await;
    of_many_claims_one_is_fresh(new_journal()).await;
    entries_are_committed_together(&*new_journal()).await;
}

async fn takes_entries_of_every_kind(journal: &dyn Journal) {
    journal.check().expect("a new journal can be written");
    let call = SampleCall::new("mail/send");
    within(journal.commit(call.started())).await.expect("a start is committed");
    within(journal.commit(call.done(json!("sent")))).await.expect("an end is committed");
    let refused = SampleCall::new("mail/sned").failed(ErrorCode::ToolNotFound);
    journal.append(refused).expect("an entry is queued");
    journal.check().expect("the journal can still be written");
}

async fn flush_waits_for_appends(journal: &dyn Journal) {
    within(journal.flush()).await.expect("there may be nothing to flush");
    for number in 0..100 {
        journal.append(SampleCall::new("clock/now").done(json!(number))).expect("an entry is queued");
    }
    within(journal.flush()).await.expect("everything is written");
}

async fn a_new_key_is_fresh_and_its_end_is_replayed(journal: &dyn Journal) {
    let call = SampleCall::new("mail/send");
    let key = claim(1, 1);
    expect_fresh(&begin(journal, &call, &key).await);
    let status = done_status(json!({ "id": 17 }));
    within(journal.finish(call.done(json!({ "id": 17 })), key.clone(), status))
        .await
        .expect("an end is kept");
    for _ in 0..2 {
        let begun = begin(journal, &SampleCall::new("mail/send"), &key).await;
        let Begun::Finished { call_id, status } = begun else { panic!("not replayed: {begun:?}") };
        assert_eq!(call_id, call.id());
        assert!(
            matches!(&*status, Status::Done(output) if output.value == json!({ "id": 17 })),
            "{status:?}"
        );
    }
}

async fn failures_are_replayed_too(journal: &dyn Journal) {
    let call = SampleCall::new("mail/send");
    let key = claim(1, 1);
    expect_fresh(&begin(journal, &call, &key).await);
    let status = Arc::new(Status::Failed(ToolError::failed("no such mailbox")));
    within(journal.finish(call.failed(ErrorCode::ExecutionFailed), key.clone(), status))
        .await
        .expect("an end is kept");
    let begun = begin(journal, &SampleCall::new("mail/send"), &key).await;
    let Begun::Finished { status, .. } = begun else { panic!("not replayed: {begun:?}") };
    assert!(matches!(&*status, Status::Failed(error) if error.message() == "no such mailbox"), "{status:?}");
}

fn turned_away() -> Arc<Status> {
    Arc::new(Status::Failed(ToolError::new(ErrorCode::RateLimit, "too many")))
}

async fn an_end_that_did_nothing_gives_its_key_back(journal: &dyn Journal) {
    let key = claim(1, 1);
    for _ in 0..2 {
        let call = SampleCall::new("mail/send");
        expect_fresh(&begin(journal, &call, &key).await);
        assert_eq!(holder(journal, &key).await, Some((call.id(), true)));
        within(journal.finish(call.failed(ErrorCode::RateLimit), key.clone(), turned_away()))
            .await
            .expect("an end is kept");
        assert_eq!(holder(journal, &key).await, None, "it was given back");
    }
    let call = SampleCall::new("mail/send");
    expect_fresh(&begin(journal, &call, &key).await);
    within(journal.finish(call.done(json!(1)), key.clone(), done_status(json!(1))))
        .await
        .expect("it is kept");
    let begun = begin(journal, &SampleCall::new("mail/send"), &key).await;
    assert!(matches!(begun, Begun::Finished { call_id, .. } if call_id == call.id()), "{begun:?}");
}

async fn who_waits_for_a_key_that_is_given_back_runs(journal: Arc<dyn Journal>) {
    let (first, key) = (SampleCall::new("mail/send"), claim(1, 1));
    expect_fresh(&begin(&*journal, &first, &key).await);
    let mut second = journal.begin(SampleCall::new("mail/send").start(), key.clone());
    assert!(is_pending(&mut second).await);
    within(journal.finish(first.failed(ErrorCode::RateLimit), key, turned_away())).await.expect("it is kept");
    expect_fresh(&within(second).await.expect("the journal works"));
}

async fn a_key_with_other_arguments_is_a_conflict(journal: Arc<dyn Journal>) {
    let call = SampleCall::new("mail/send");
    expect_fresh(&begin(&*journal, &call, &claim(1, 1)).await);
    // While the first runs, and after it has ended.
    for _ in 0..2 {
        let begun = begin(&*journal, &SampleCall::new("mail/send"), &claim(1, 2)).await;
        assert!(matches!(begun, Begun::Conflict { call_id } if call_id == call.id()), "{begun:?}");
        assert_eq!(holder(&*journal, &claim(1, 1)).await, Some((call.id(), true)));
        assert_eq!(holder(&*journal, &claim(1, 2)).await, Some((call.id(), false)));
        within(journal.finish(call.done(json!(1)), claim(1, 1), done_status(json!(1))))
            .await
            .expect("an end is kept");
    }
}

async fn keys_do_not_mix(journal: &dyn Journal) {
    for key in 1..=3 {
        expect_fresh(&begin(journal, &SampleCall::new("mail/send"), &claim(key, 1)).await);
    }
}

async fn a_second_call_waits_for_the_first(journal: Arc<dyn Journal>) {
    let first = SampleCall::new("mail/send");
    let key = KeyClaim { repeatable: true, ..claim(1, 1) };
    expect_fresh(&begin(&*journal, &first, &key).await);
    let mut second = journal.begin(SampleCall::new("mail/send").start(), key.clone());
    assert!(is_pending(&mut second).await);
    // Everything queued before is done after a flush; the second call must still wait.
    within(journal.flush()).await.expect("everything is written");
    assert!(is_pending(&mut second).await);
    within(journal.finish(first.done(json!("first")), key, done_status(json!("first"))))
        .await
        .expect("an end is kept");
    let begun = within(second).await.expect("the journal works");
    assert!(matches!(begun, Begun::Finished { call_id, .. } if call_id == first.id()), "{begun:?}");
}

async fn of_many_claims_one_is_fresh(journal: Arc<dyn Journal>) {
    let key = claim(9, 9);
    let tasks: Vec<_> = (0..32)
        .map(|_| {
            let (journal, key) = (Arc::clone(&journal), key.clone());
            tokio::spawn(async move {
                let call = SampleCall::new("mail/send");
                match journal.begin(call.start(), key.clone()).await.expect("the journal works") {
                    Begun::Fresh => {
                        tokio::task::yield_now().await;
                        journal.finish(call.done(json!(1)), key, done_status(json!(1))).await.expect("kept");
                        (1, call.id())
                    }
                    Begun::Finished { call_id, .. } => (0, call_id),
                    other => panic!("neither fresh nor finished: {other:?}"),
                }
            })
        })
        .collect();
    let mut fresh = 0;
    let mut ids = Vec::new();
    for task in tasks {
        let (ran, id) = within(task).await.expect("the task ends well");
        fresh += ran;
        ids.push(id);
    }
    assert_eq!(fresh, 1, "exactly one claim may run");
    assert!(ids.iter().all(|id| *id == ids[0]), "all learn of the same call");
}

/// The call that has a key, and whether with these arguments.
async fn holder(journal: &dyn Journal, key: &KeyClaim) -> Option<(CallId, bool)> {
    let holder = within(journal.key_holder(key.clone())).await.expect("the journal works");
    holder.map(|holder| (holder.call_id, holder.same_arguments))
}

async fn begin(journal: &dyn Journal, call: &SampleCall, key: &KeyClaim) -> Begun {
    within(journal.begin(call.start(), key.clone())).await.expect("the journal works")
}

fn expect_fresh(begun: &Begun) {
    assert!(matches!(begun, Begun::Fresh), "not fresh: {begun:?}");
}

async fn entries_are_committed_together(journal: &dyn Journal) {
    within(journal.commit_all(Vec::new())).await.expect("there may be nothing to commit");
    let (one, two) = (SampleCall::new("mail/send"), SampleCall::new("mail/send"));
    let entries = vec![one.started(), one.done(json!(1)), two.started()];
    within(journal.commit_all(entries)).await.expect("all are committed");
    within(journal.commit(two.done(json!(2)))).await.expect("an end is committed");
}
