//! What is known of unfinished runs.

use std::sync::Arc;

use helve_core::ports::{Adoption, Holder, KeyClaim, Ledger, OpenRun};
use helve_core::record::Entry;
use helve_core::run::{EffectReport, EffectState, Finding, StepKind, WaitingFor};
use helve_core::{ApprovalId, ApprovalState, CallId, ErrorCode, RuleId};
use serde_json::json;

use super::{Setup, within};
use crate::entries::{SampleCall, claim, done_status, raw};

/// Runs every check, each on a new ledger.
pub async fn check_runs(new_ledger: &impl Fn(Setup) -> Arc<dyn Ledger>) {
    let new = || new_ledger(Setup::new().0);
    a_run_is_open_from_its_start_to_its_end(&*new()).await;
    calls_that_only_read_and_parts_open_no_run(&*new()).await;
    a_run_that_waits_can_be_adopted_once(&*new()).await;
    a_run_under_a_key_is_adopted_with_it(&*new()).await;
    who_calls_again_under_the_key_of_a_run_in_doubt_is_told_so(&*new()).await;
    open_runs_come_in_pages_oldest_first(&*new()).await;
    a_request_to_stop_reaches_whoever_is_at_the_run(&*new()).await;
    history_is_what_was_written_in_order(&*new()).await;
    history_waits_for_what_is_queued(&*new()).await;
}

async fn a_run_is_open_from_its_start_to_its_end(ledger: &dyn Ledger) {
    let call = SampleCall::new("mail/send");
    assert_eq!(adopt(ledger, &call).await, Adoption::NotOpen);
    commit(ledger, call.started()).await;
    let run = OpenRun { run: call.id(), holder: Holder::Us, cancel_requested: false };
    assert_eq!(open_runs(ledger).await, [run]);
    assert_eq!(adopt(ledger, &call).await, Adoption::Ours);
    commit(ledger, Entry::Step(call.step(StepKind::Executed { withheld: false }))).await;
    assert_eq!(holder(ledger, &call).await, Some(Holder::Us));
    commit(ledger, call.done(json!(1))).await;
    assert_eq!(holder(ledger, &call).await, None);
    assert_eq!(adopt(ledger, &call).await, Adoption::NotOpen);

    // The same in one piece, and by a failure.
    let call = SampleCall::new("mail/send");
    let entries = vec![call.started(), call.failed(ErrorCode::Timeout)];
    within(ledger.commit_all(entries)).await.expect("all are committed");
    assert_eq!(open_runs(ledger).await, []);
}

async fn calls_that_only_read_and_parts_open_no_run(ledger: &dyn Ledger) {
    commit(ledger, SampleCall::new("clock/now").done(json!(1))).await;
    let run = SampleCall::new("mail/send");
    commit(ledger, run.started()).await;
    let part = SampleCall::new("file/write").part_of(&run, "write");
    commit(ledger, part.started()).await;
    assert_eq!(holder(ledger, &part).await, None);
    commit(ledger, part.done(json!(1))).await;
    assert_eq!(holder(ledger, &run).await, Some(Holder::Us), "the end of a part does not end its run");
}

async fn a_run_that_waits_can_be_adopted_once(ledger: &dyn Ledger) {
    let run = SampleCall::new("mail/send");
    commit(ledger, run.started()).await;
    let part = SampleCall::new("file/write").part_of(&run, "write");
    let waiting = |reason| StepKind::Waiting { reason, approval_id: None };
    for step in [run.step(waiting(WaitingFor::Decision)), part.step(waiting(WaitingFor::UnknownOutcome))] {
        commit(ledger, Entry::Step(step)).await;
        assert_eq!(holder(ledger, &run).await, Some(Holder::Person));
        assert_eq!(adopt(ledger, &run).await, Adoption::Adopted);
        assert_eq!(holder(ledger, &run).await, Some(Holder::Us));
        assert_eq!(adopt(ledger, &run).await, Adoption::Ours);
    }
    commit(ledger, run.done(json!(1))).await;
    assert_eq!(adopt(ledger, &run).await, Adoption::NotOpen);
}

async fn a_run_under_a_key_is_adopted_with_it(ledger: &dyn Ledger) {
    let run = SampleCall::new("mail/send");
    let key = KeyClaim { repeatable: true, ..claim(1, 1) };
    let begun = within(ledger.begin(run.start(), key.clone())).await.expect("the ledger works");
    assert!(matches!(begun, helve_core::ports::Begun::Fresh), "{begun:?}");
    assert_eq!(holder(ledger, &run).await, Some(Holder::Us));
    let waiting = StepKind::Waiting { reason: WaitingFor::Decision, approval_id: None };
    commit(ledger, Entry::Step(run.step(waiting))).await;
    assert_eq!(adopt(ledger, &run).await, Adoption::Adopted);
    within(ledger.finish(run.done(json!(7)), key.clone(), done_status(json!(7)))).await.expect("kept");
    assert_eq!(holder(ledger, &run).await, None);
    let begun = within(ledger.begin(SampleCall::new("mail/send").start(), key)).await.expect("works");
    let helve_core::ports::Begun::Finished { call_id, .. } = begun else { panic!("{begun:?}") };
    assert_eq!(call_id, run.id());
}

async fn who_calls_again_under_the_key_of_a_run_in_doubt_is_told_so(ledger: &dyn Ledger) {
    use helve_core::ports::Begun;
    let (run, key) = (SampleCall::new("mail/send"), claim(1, 1));
    let begun = within(ledger.begin(run.start(), key.clone())).await.expect("the ledger works");
    assert!(matches!(begun, Begun::Fresh), "{begun:?}");
    let again = || ledger.begin(SampleCall::new("mail/send").start(), key.clone());
    let waiting = |reason| Entry::Step(run.step(StepKind::Waiting { reason, approval_id: None }));
    commit(ledger, waiting(WaitingFor::Approval)).await;
    let kept = tokio::time::timeout(std::time::Duration::from_millis(100), again()).await;
    assert!(kept.is_err(), "where a person is asked, the answer is waited for: {kept:?}");
    commit(ledger, waiting(WaitingFor::UnknownOutcome)).await;
    let begun = within(again()).await.expect("the ledger works");
    assert!(matches!(begun, Begun::Unknown { call_id } if call_id == run.id()), "{begun:?}");
    // Once a person has said what became of it, the key has its answer.
    assert_eq!(adopt(ledger, &run).await, Adoption::Adopted);
    within(ledger.finish(run.done(json!(7)), key.clone(), done_status(json!(7)))).await.expect("kept");
    let begun = within(again()).await.expect("the ledger works");
    assert!(matches!(begun, Begun::Finished { call_id, .. } if call_id == run.id()), "{begun:?}");
}

async fn open_runs_come_in_pages_oldest_first(ledger: &dyn Ledger) {
    let start = jiff::Timestamp::from_second(1_800_000_000).expect("a time in range");
    let mut runs: Vec<_> = (0..7)
        .map(|number| SampleCall::at("mail/send", start + jiff::SignedDuration::from_secs(number)))
        .collect();
    for run in runs.iter().rev() {
        commit(ledger, run.started()).await;
    }
    runs.sort_by_key(SampleCall::id);
    let mut found: Vec<CallId> = Vec::new();
    loop {
        let page = within(ledger.open_runs(found.last().copied(), 3)).await.expect("the ledger works");
        assert!(page.len() <= 3);
        if page.is_empty() {
            break;
        }
        found.extend(page.iter().map(|run| run.run));
    }
    assert_eq!(found, runs.iter().map(SampleCall::id).collect::<Vec<_>>());
}

async fn a_request_to_stop_reaches_whoever_is_at_the_run(ledger: &dyn Ledger) {
    let (run, other) = (SampleCall::new("mail/send"), SampleCall::new("mail/send"));
    assert!(!within(ledger.request_cancel(run.id())).await.expect("the ledger works"));
    commit(ledger, run.started()).await;
    commit(ledger, other.started()).await;
    assert_eq!(cancel_requests(ledger).await, []);
    // Asking twice is asking once.
    for _ in 0..2 {
        assert!(within(ledger.request_cancel(run.id())).await.expect("the ledger works"));
    }
    assert_eq!(cancel_requests(ledger).await, [run.id()]);
    let flags: Vec<_> =
        open_runs(ledger).await.iter().map(|open| (open.run == run.id(), open.cancel_requested)).collect();
    assert!(flags.iter().all(|(is_it, requested)| is_it == requested), "{flags:?}");
    let told = |entry: &&Entry| matches!(entry, Entry::Step(step) if step.kind == StepKind::CancelRequested);
    assert_eq!(history(ledger, &run).await.iter().filter(told).count(), 1);

    // A run that waits is nobody's to stop, until a process resumes it.
    let waiting = StepKind::Waiting { reason: WaitingFor::Decision, approval_id: None };
    commit(ledger, Entry::Step(run.step(waiting))).await;
    assert_eq!(cancel_requests(ledger).await, []);
    assert_eq!(adopt(ledger, &run).await, Adoption::Adopted);
    assert_eq!(cancel_requests(ledger).await, [run.id()]);
    commit(ledger, run.failed(ErrorCode::Cancelled)).await;
    assert_eq!(cancel_requests(ledger).await, []);
    assert!(!within(ledger.request_cancel(run.id())).await.expect("the ledger works"));
}

/// Every sort of step, with fields that are not their defaults.
fn every_kind() -> Vec<StepKind> {
    let code = ErrorCode::RateLimit;
    let mut kinds = vec![
        StepKind::Attempted { number: 3, code },
        StepKind::Executed { withheld: true },
        StepKind::Executed { withheld: false },
        StepKind::EffectApplied { index: 1 },
        StepKind::EffectSkipped { index: 2 },
        StepKind::EffectFailed { index: 3, code },
        StepKind::EffectRolledBack { index: 4 },
        StepKind::RollbackFailed { index: 5 },
        StepKind::UndoStarted,
        StepKind::Undone,
        StepKind::UndoFailed { code },
        StepKind::Resumed,
        StepKind::Settled { answer: Finding::Happened, by: None },
        StepKind::Settled { answer: Finding::DidNotHappen, by: Some("ada \"the\" (uid 7)".to_owned()) },
        StepKind::CancelRequested,
        StepKind::Stopped { by: "SIGTERM".to_owned() },
        StepKind::Told,
        StepKind::RuleUsed { rule_id: RuleId::new(jiff::Timestamp::now()) },
        StepKind::RuleRevoked { rule_id: RuleId::new(jiff::Timestamp::now()), by: "ada".to_owned() },
    ];
    let asked = ApprovalId::new(jiff::Timestamp::now());
    let (decision, by) = (ApprovalState::Denied, Some("ada".to_owned()));
    kinds.extend([
        StepKind::Asked { approval_id: asked },
        StepKind::Decided { approval_id: asked, decision, by },
        StepKind::Decided { approval_id: asked, decision: ApprovalState::Expired, by: None },
    ]);
    let approval_id = Some(ApprovalId::new(jiff::Timestamp::now()));
    kinds.extend([
        StepKind::Waiting { reason: WaitingFor::Approval, approval_id },
        StepKind::Waiting { reason: WaitingFor::UnknownOutcome, approval_id: None },
        StepKind::Waiting { reason: WaitingFor::Decision, approval_id: None },
    ]);
    kinds
}

async fn history_is_what_was_written_in_order(ledger: &dyn Ledger) {
    let mut run = SampleCall::new("mail/send");
    run.facts.undo_of = Some(SampleCall::new("mail/send").id());
    run.facts.idempotency_key = Some("order-17".into());
    run.facts.correlation_id = Some("trace-1".to_owned());
    let part = SampleCall::new("file/write").part_of(&run, "each/1");
    let mut started = run.start();
    started.withheld = true;
    let mut written = vec![Entry::Started(started), part.started()];
    for (index, kind) in every_kind().into_iter().enumerate() {
        let mut step = if index % 2 == 0 { run.step(kind) } else { part.step(kind) };
        step.payload = (index % 3 == 0).then(|| raw(&json!({ "step": index, "say": "\"ü\"\n" })));
        written.push(Entry::Step(step));
    }
    written.extend([part.done(json!({ "bytes": 7 })), full_end(&run)]);
    let another = SampleCall::new("mail/send");
    commit(ledger, another.started()).await;
    within(ledger.commit_all(written[..5].to_vec())).await.expect("all are committed");
    for entry in &written[5..] {
        commit(ledger, entry.clone()).await;
    }
    let found = history(ledger, &run).await;
    assert_eq!(found.len(), written.len());
    for (found, written) in found.iter().zip(&written) {
        // Entries hold text as it is, so that what they print is all that they are.
        assert_eq!(format!("{found:#?}"), format!("{written:#?}"));
    }
    assert_eq!(history(ledger, &another).await.len(), 1);
    assert_eq!(history(ledger, &SampleCall::new("mail/send")).await.len(), 0);
}

/// An end with everything that one can have.
fn full_end(run: &SampleCall) -> Entry {
    let Entry::Finished(mut end) = run.failed(ErrorCode::EffectFailed) else { unreachable!("it is an end") };
    end.ending.withheld = true;
    end.ending.degraded = vec!["the cache is cold".to_owned()];
    end.ending.effects =
        vec![EffectReport { description: "counts".to_owned(), state: EffectState::RolledBack }];
    end.ending.replay_of = Some(run.id());
    end.ending.approval_id = Some(ApprovalId::new(jiff::Timestamp::now()));
    Entry::Finished(end)
}

async fn history_waits_for_what_is_queued(ledger: &dyn Ledger) {
    let run = SampleCall::new("mail/send");
    commit(ledger, run.started()).await;
    for number in 1..=100 {
        let step = run.step(StepKind::Attempted { number, code: ErrorCode::Network });
        ledger.append(Entry::Step(step)).expect("a step is queued");
    }
    assert_eq!(history(ledger, &run).await.len(), 101);
}

async fn commit(ledger: &dyn Ledger, entry: Entry) {
    within(ledger.commit(entry)).await.expect("an entry is committed");
}

async fn adopt(ledger: &dyn Ledger, call: &SampleCall) -> Adoption {
    within(ledger.adopt(call.id())).await.expect("the ledger works")
}

async fn open_runs(ledger: &dyn Ledger) -> Vec<OpenRun> {
    within(ledger.open_runs(None, 100)).await.expect("the ledger works")
}

async fn holder(ledger: &dyn Ledger, call: &SampleCall) -> Option<Holder> {
    open_runs(ledger).await.iter().find(|open| open.run == call.id()).map(|open| open.holder)
}

async fn history(ledger: &dyn Ledger, call: &SampleCall) -> Vec<Entry> {
    within(ledger.history(call.id())).await.expect("the ledger works")
}

async fn cancel_requests(ledger: &dyn Ledger) -> Vec<CallId> {
    within(ledger.cancel_requests()).await.expect("the ledger works")
}
