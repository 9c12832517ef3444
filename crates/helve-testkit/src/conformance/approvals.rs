//! Questions to people: asked once, decided once, used once.

use std::sync::Arc;
use std::time::Duration;

use helve_core::approval::{
    Approval, ApprovalQuery, ApprovalState, Ask, Asked, Decided, Grant, Mark, Rule, Ruling, Same, Spent,
    Verdict,
};
use helve_core::ports::{Begun, Clock, Ledger};
use helve_core::record::Entry;
use helve_core::run::StepKind;
use helve_core::{ApprovalId, Caller, RuleId};
use jiff::{SignedDuration, Timestamp};
use serde_json::json;

use super::{Setup, within};
use crate::clock::ManualClock;
use crate::entries::{SampleCall, claim, done_status, raw};

/// Runs every check, each on a new ledger.
pub async fn check_approvals(new_ledger: &impl Fn(Setup) -> Arc<dyn Ledger>) {
    let new = || {
        let (setup, clock) = Setup::new();
        (new_ledger(setup), clock)
    };
    the_same_question_is_put_once(new()).await;
    a_question_reads_back_as_it_was_put(new()).await;
    a_question_about_what_has_changed_replaces_the_last(new()).await;
    of_two_who_decide_one_does_and_the_other_is_told(new()).await;
    an_approval_is_used_by_the_start_that_carries_it_and_once(new()).await;
    what_does_not_fit_starts_nothing_and_burns_nothing(new()).await;
    a_key_that_has_its_answer_uses_nothing(new()).await;
    a_denial_is_told_and_holds_for_a_while(new()).await;
    what_nobody_decides_runs_out(new()).await;
    a_clock_that_jumps_lengthens_and_revives_nothing(new()).await;
    no_more_questions_are_put_than_may_be_pending(new()).await;
    nobody_takes_the_places_of_others(new()).await;
    lists_are_newest_first_filtered_and_in_pages(new()).await;
    changes_are_told_in_order(new()).await;
    rules_come_with_a_decision_and_are_taken_back(new()).await;
    the_first_use_is_marked(new()).await;
}

type Bench = (Arc<dyn Ledger>, Arc<ManualClock>);

/// Asks the way the gate does: as one call, about what `binding` stands for.
fn question(clock: &ManualClock, binding: &str) -> Ask {
    let now = clock.now();
    let call = SampleCall::at("mail/send", now);
    let mut approval = Approval::new(ApprovalId::new(now), "mail/send", "5a4d", call.id());
    approval.caller = Arc::clone(&call.facts.caller);
    approval.arguments = raw(&json!({ "to": "ada" }));
    approval.reasons = vec!["it is of high risk".to_owned()];
    approval.created_at = now;
    approval.expires_at = now + SignedDuration::from_secs(100);
    approval.binding = binding.to_owned();
    approval.fingerprint = Some("v1".to_owned());
    Ask {
        approval,
        denied_for: SignedDuration::from_secs(10),
        insist: false,
        pending_max: 1_000,
        pending_share: 1_000,
    }
}

async fn ask(ledger: &dyn Ledger, ask: Ask) -> Asked {
    within(ledger.ask(Box::new(ask))).await.expect("the ledger works")
}

async fn new_question(ledger: &dyn Ledger, clock: &ManualClock, binding: &str) -> Approval {
    match ask(ledger, question(clock, binding)).await {
        Asked::New(approval) => approval,
        other => panic!("{other:?}"),
    }
}

fn verdict(state: ApprovalState, at: Timestamp, by: &str, granted: &str) -> Verdict {
    let granted = (state == ApprovalState::Approved).then(|| granted.to_owned());
    Verdict { state, ruling: Ruling::new(by, at), granted, use_by: None, rule: None }
}

async fn decide(ledger: &dyn Ledger, id: ApprovalId, verdict: Verdict) -> Decided {
    within(ledger.decide(id, Box::new(verdict))).await.expect("the ledger works")
}

async fn approve(ledger: &dyn Ledger, clock: &ManualClock, approval: &Approval) {
    let approved = verdict(ApprovalState::Approved, clock.now(), "ada", &approval.binding);
    assert!(matches!(decide(ledger, approval.id, approved).await, Decided::Now(_)));
}

async fn get(ledger: &dyn Ledger, id: ApprovalId) -> Approval {
    within(ledger.approval(id)).await.expect("the ledger works").expect("it is there")
}

/// The start of a call that would use an approval up.
fn start(clock: &ManualClock, approval: &Approval) -> (SampleCall, Entry) {
    let call = SampleCall::at("mail/send", clock.now());
    let mut started = call.start();
    let (approval_id, binding) = (approval.id, approval.binding.clone());
    let fingerprint = approval.fingerprint.clone();
    started.grant = Some(Grant { approval_id, binding, asked: None, fingerprint });
    (call, Entry::Started(started))
}

async fn the_same_question_is_put_once((ledger, clock): Bench) {
    let first = new_question(&*ledger, &clock, "a").await;
    clock.advance(Duration::from_secs(1));
    match ask(&*ledger, question(&clock, "a")).await {
        Asked::Standing(same) => assert_eq!((same.id, same.created_at), (first.id, first.created_at)),
        other => panic!("{other:?}"),
    }
    assert_ne!(new_question(&*ledger, &clock, "b").await.id, first.id);
    approve(&*ledger, &clock, &first).await;
    let answer = ask(&*ledger, question(&clock, "a")).await;
    assert!(matches!(&answer, Asked::Approved(same) if same.id == first.id), "{answer:?}");
}

async fn a_question_about_what_has_changed_replaces_the_last((ledger, clock): Bench) {
    let first = new_question(&*ledger, &clock, "a").await;
    clock.advance(Duration::from_secs(1));
    let mut changed = question(&clock, "a");
    changed.approval.fingerprint = Some("v2".to_owned());
    let Asked::New(second) = ask(&*ledger, changed).await else { panic!("it is new") };
    assert_ne!(second.id, first.id);
    assert_eq!(get(&*ledger, first.id).await.state, ApprovalState::Withdrawn);
    let late = verdict(ApprovalState::Approved, clock.now(), "ada", "a");
    assert!(matches!(decide(&*ledger, first.id, late).await, Decided::Before(_)));
    // The journal tells of it, once.
    let history = within(ledger.history(first.call_id)).await.expect("the ledger works");
    let kind = StepKind::Decided {
        approval_id: first.id,
        decision: ApprovalState::Withdrawn,
        by: Some("the same call, made again".to_owned()),
    };
    let told = history.iter().filter(|entry| matches!(entry, Entry::Step(step) if step.kind == kind));
    assert_eq!(told.count(), 1, "{history:?}");
    // What was said is kept of both.
    let history = within(ledger.history(second.call_id)).await.expect("the ledger works");
    let said = |entry: &Entry| matches!(entry, Entry::Step(step) if step.kind == StepKind::Asked { approval_id: second.id } && step.payload.is_some());
    assert!(history.iter().any(said), "{history:?}");
    approve(&*ledger, &clock, &second).await;
    within(ledger.commit(start(&clock, &second).1)).await.expect("it is used");
}

async fn a_question_reads_back_as_it_was_put((ledger, clock): Bench) {
    let mut ask = question(&clock, "a");
    ask.approval.preview = Some("- \"a\"\n+ \u{202e}".to_owned());
    ask.approval.withheld = true;
    ask.approval.idempotency_key = Some("k".into());
    ask.approval.marks = vec![Mark::Egress];
    let run = SampleCall::at("trip/book", clock.now());
    ask.approval.part = Some(helve_core::run::Part { run: run.id(), path: "a/b".into() });
    let Asked::New(put) = self::ask(&*ledger, ask).await else { panic!("it is new") };
    let found = get(&*ledger, put.id).await;
    assert_eq!(format!("{found:#?}"), format!("{put:#?}"));
    assert_eq!(found.marks, [Mark::FirstUse, Mark::Egress]);
    assert_eq!(found.run(), run.id());
    let history = within(ledger.history(run.id())).await.expect("the ledger works");
    let told = |entry: &Entry| matches!(entry, Entry::Step(step) if step.kind == StepKind::Asked { approval_id: put.id });
    assert!(history.iter().any(told), "{history:?}");
    assert!(within(ledger.approval(ApprovalId::new(clock.now()))).await.expect("it works").is_none());
}

async fn of_two_who_decide_one_does_and_the_other_is_told((ledger, clock): Bench) {
    for _ in 0..20 {
        clock.advance(Duration::from_secs(1));
        let binding = clock.now().to_string();
        let asked = new_question(&*ledger, &clock, &binding).await;
        let race = [(ApprovalState::Approved, "ada"), (ApprovalState::Denied, "eve")].map(|(state, by)| {
            let (ledger, verdict) = (Arc::clone(&ledger), verdict(state, clock.now(), by, &binding));
            tokio::spawn(async move { ledger.decide(asked.id, Box::new(verdict)).await })
        });
        let (mut won, mut lost) = (Vec::new(), Vec::new());
        for racer in race {
            match within(racer).await.expect("it ends").expect("the ledger works") {
                Decided::Now(approval) => won.push(approval),
                Decided::Before(approval) => lost.push(approval),
                Decided::NotFound => panic!("it is there"),
            }
        }
        assert_eq!((won.len(), lost.len()), (1, 1));
        let by = |approval: &Approval| approval.ruling.as_ref().map(|ruling| ruling.by.clone());
        assert_eq!((won[0].state, by(&won[0])), (lost[0].state, by(&lost[0])));
        assert_eq!(get(&*ledger, asked.id).await.state, won[0].state);
        let history = within(ledger.history(asked.call_id)).await.expect("the ledger works");
        let decisions = history.iter().filter(
            |entry| matches!(entry, Entry::Step(step) if matches!(step.kind, StepKind::Decided { .. })),
        );
        assert_eq!(decisions.count(), 1);
    }
    let nothing = verdict(ApprovalState::Denied, clock.now(), "ada", "");
    assert!(matches!(decide(&*ledger, ApprovalId::new(clock.now()), nothing).await, Decided::NotFound));
}

async fn an_approval_is_used_by_the_start_that_carries_it_and_once((ledger, clock): Bench) {
    let asked = new_question(&*ledger, &clock, "a").await;
    approve(&*ledger, &clock, &asked).await;
    // Many at once: exactly one of them starts.
    let racers: Vec<_> = (0..8)
        .map(|_| {
            let (ledger, (call, entry)) = (Arc::clone(&ledger), start(&clock, &asked));
            tokio::spawn(async move { (call.id(), ledger.commit(entry).await) })
        })
        .collect();
    let mut started = Vec::new();
    for racer in racers {
        match within(racer).await.expect("it ends") {
            (call_id, Ok(())) => started.push(call_id),
            (_, Err(error)) => {
                assert_eq!(error.is_spent(), Some(&Spent::Is(ApprovalState::Used)), "{error}");
            }
        }
    }
    assert_eq!(started.len(), 1);
    let open = within(ledger.open_runs(None, 100)).await.expect("the ledger works");
    assert_eq!(open.iter().map(|open| open.run).collect::<Vec<_>>(), started);
    let used = get(&*ledger, asked.id).await;
    assert_eq!((used.state, used.used_by), (ApprovalState::Used, Some(started[0])));
    // The start says what it used.
    let history = within(ledger.history(started[0])).await.expect("the ledger works");
    let grant = |entry: &Entry| match entry {
        Entry::Started(started) => started.grant.clone(),
        Entry::Step(_) | Entry::Finished(_) => None,
    };
    let grant = history.iter().find_map(grant).expect("it carries one");
    assert_eq!((grant.approval_id, grant.fingerprint), (asked.id, asked.fingerprint));
    // A new question about the same is a new question.
    assert_ne!(new_question(&*ledger, &clock, "a").await.id, asked.id);
}

async fn what_does_not_fit_starts_nothing_and_burns_nothing((ledger, clock): Bench) {
    let asked = new_question(&*ledger, &clock, "a").await;
    let refused = async |entries: Vec<Entry>, why: Spent| {
        let count = entries.len();
        let error = within(ledger.commit_all(entries)).await.expect_err("it is refused");
        assert_eq!(error.is_spent(), Some(&why), "{count}");
        assert!(within(ledger.open_runs(None, 100)).await.expect("it works").is_empty());
    };
    refused(vec![start(&clock, &asked).1], Spent::Is(ApprovalState::Pending)).await;
    approve(&*ledger, &clock, &asked).await;
    let mut other = asked.clone();
    other.binding = "b".to_owned();
    refused(vec![start(&clock, &other).1], Spent::DoesNotFit).await;
    for unseen in [None, Some("v2".to_owned())] {
        let mut other = asked.clone();
        other.fingerprint = unseen;
        refused(vec![start(&clock, &other).1], Spent::DoesNotFit).await;
    }
    let mut unknown = asked.clone();
    unknown.id = ApprovalId::new(clock.now());
    refused(vec![start(&clock, &unknown).1], Spent::NotFound).await;
    // All or none: what stands next to it does not start either.
    let beside = SampleCall::at("mail/send", clock.now()).started();
    refused(vec![beside, start(&clock, &other).1], Spent::DoesNotFit).await;
    let twice = vec![start(&clock, &asked).1, start(&clock, &asked).1];
    refused(twice, Spent::Is(ApprovalState::Used)).await;
    assert_eq!(get(&*ledger, asked.id).await.state, ApprovalState::Approved);
    within(ledger.commit(start(&clock, &asked).1)).await.expect("it still fits");
}

async fn a_key_that_has_its_answer_uses_nothing((ledger, clock): Bench) {
    let asked = new_question(&*ledger, &clock, "a").await;
    let begin = async |approval: &Approval| {
        let (call, Entry::Started(started)) = start(&clock, approval) else { unreachable!("it is a start") };
        (call, within(ledger.begin(started, claim(1, 1))).await)
    };
    let (_, refused) = begin(&asked).await;
    assert_eq!(refused.expect_err("it is refused").is_spent(), Some(&Spent::Is(ApprovalState::Pending)));
    approve(&*ledger, &clock, &asked).await;
    // The key was given back with the refusal.
    let (call, begun) = begin(&asked).await;
    assert!(matches!(begun, Ok(Begun::Fresh)), "{begun:?}");
    let end = ledger.finish(call.done(json!(1)), claim(1, 1), done_status(json!(1)));
    within(end).await.expect("it ends");
    let (_, replayed) = begin(&asked).await;
    assert!(matches!(replayed, Ok(Begun::Finished { call_id, .. }) if call_id == call.id()), "{replayed:?}");
    let (_, refused) = {
        let (call, Entry::Started(started)) = start(&clock, &asked) else { unreachable!("it is a start") };
        (call, within(ledger.begin(started, claim(2, 2))).await)
    };
    assert_eq!(refused.expect_err("it is used").is_spent(), Some(&Spent::Is(ApprovalState::Used)));
}

async fn a_denial_is_told_and_holds_for_a_while((ledger, clock): Bench) {
    let asked = new_question(&*ledger, &clock, "a").await;
    let denied = verdict(ApprovalState::Denied, clock.now(), "ada", "");
    assert!(matches!(decide(&*ledger, asked.id, denied).await, Decided::Now(_)));
    clock.advance(Duration::from_secs(1_000));
    assert!(matches!(ask(&*ledger, question(&clock, "a")).await, Asked::Denied(_)));
    clock.advance(Duration::from_secs(9));
    assert!(matches!(ask(&*ledger, question(&clock, "a")).await, Asked::Denied(_)));
    clock.advance(Duration::from_secs(1));
    let again = new_question(&*ledger, &clock, "a").await;
    let denied = verdict(ApprovalState::Denied, clock.now(), "ada", "");
    decide(&*ledger, again.id, denied).await;
    let insisting = Ask { insist: true, ..question(&clock, "a") };
    assert!(matches!(ask(&*ledger, insisting).await, Asked::New(_)));
}

async fn what_nobody_decides_runs_out((ledger, clock): Bench) {
    let ids = [
        new_question(&*ledger, &clock, "swept").await.id,
        new_question(&*ledger, &clock, "asked").await.id,
        new_question(&*ledger, &clock, "decided").await.id,
    ];
    let approved = new_question(&*ledger, &clock, "approved").await;
    approve(&*ledger, &clock, &approved).await;
    clock.advance(Duration::from_secs(100));
    let late = verdict(ApprovalState::Approved, clock.now(), "ada", "decided");
    let answer = decide(&*ledger, ids[2], late).await;
    assert!(matches!(&answer, Decided::Before(found) if found.state == ApprovalState::Expired), "{answer:?}");
    assert!(matches!(ask(&*ledger, question(&clock, "asked")).await, Asked::Expired(_)));
    let error = within(ledger.commit(start(&clock, &approved).1)).await.expect_err("it came too late");
    assert_eq!(error.is_spent(), Some(&Spent::Is(ApprovalState::Expired)));
    let swept = within(ledger.sweep_approvals(clock.now(), Timestamp::MIN, 100)).await;
    assert_eq!(swept.expect("the ledger works"), 2);
    for id in ids.into_iter().chain([approved.id]) {
        let found = get(&*ledger, id).await;
        assert_eq!(found.state, ApprovalState::Expired);
        let history = within(ledger.history(found.call_id)).await.expect("the ledger works");
        let told = history.iter().filter(|entry| {
            matches!(entry, Entry::Step(step) if matches!(step.kind,
                StepKind::Decided { decision: ApprovalState::Expired, .. }))
        });
        assert_eq!(told.count(), 1);
    }
    // Told once, and then asked anew.
    assert!(matches!(ask(&*ledger, question(&clock, "asked")).await, Asked::New(_)));
    clock.advance(Duration::from_secs(1));
    let before = clock.now();
    within(ledger.sweep_approvals(clock.now(), before, 100)).await.expect("the ledger works");
    let left = within(ledger.approvals(ApprovalQuery::default())).await.expect("the ledger works");
    assert_eq!(left.len(), 1, "what came to an end is forgotten");
}

async fn a_clock_that_jumps_lengthens_and_revives_nothing((ledger, clock): Bench) {
    const DAY: Duration = Duration::from_secs(86_400);
    let began = clock.now();
    let pending = new_question(&*ledger, &clock, "pending").await;
    let approved = new_question(&*ledger, &clock, "approved").await;
    approve(&*ledger, &clock, &approved).await;

    // Back: neither is decided nor used at a time before it was put.
    clock.set(began - DAY);
    let early = verdict(ApprovalState::Approved, clock.now(), "ada", "pending");
    let answer = decide(&*ledger, pending.id, early).await;
    assert!(matches!(&answer, Decided::Before(found) if found.state == ApprovalState::Expired), "{answer:?}");
    let error = within(ledger.commit(start(&clock, &approved).1)).await.expect_err("the clock was set back");
    assert_eq!(error.is_spent(), Some(&Spent::Is(ApprovalState::Expired)));
    // The caller is told, then asks anew, and that question is the one that counts.
    assert!(matches!(ask(&*ledger, question(&clock, "pending")).await, Asked::Expired(_)));
    let anew = new_question(&*ledger, &clock, "pending").await;
    approve(&*ledger, &clock, &anew).await;
    match ask(&*ledger, question(&clock, "pending")).await {
        Asked::Approved(found) => assert_eq!(found.id, anew.id),
        other => panic!("{other:?}"),
    }

    // Forward, and back again: what has run out stays so.
    clock.set(began + DAY);
    let late = verdict(ApprovalState::Approved, clock.now(), "ada", "pending");
    assert!(matches!(decide(&*ledger, anew.id, late).await, Decided::Before(_)));
    within(ledger.sweep_approvals(clock.now(), Timestamp::MIN, 100)).await.expect("the ledger works");
    clock.set(began);
    for old in [&pending, &approved, &anew] {
        let again = verdict(ApprovalState::Approved, clock.now(), "ada", &old.binding);
        assert!(matches!(decide(&*ledger, old.id, again).await, Decided::Before(_)));
        within(ledger.commit(start(&clock, old).1)).await.expect_err("it has run out");
        assert_eq!(get(&*ledger, old.id).await.state, ApprovalState::Expired);
    }
}

async fn no_more_questions_are_put_than_may_be_pending((ledger, clock): Bench) {
    let few = |binding: &str| Ask { pending_max: 2, ..question(&clock, binding) };
    for binding in ["a", "b"] {
        assert!(matches!(ask(&*ledger, few(binding)).await, Asked::New(_)));
    }
    assert!(matches!(ask(&*ledger, few("c")).await, Asked::TooMany));
    assert!(matches!(ask(&*ledger, few("a")).await, Asked::Standing(_)));
    let all = within(ledger.approvals(ApprovalQuery::pending())).await.expect("the ledger works");
    assert_eq!(all.len(), 2);
    // What has run out takes no place, whether or not anybody has written that down.
    clock.advance(Duration::from_secs(100));
    assert!(matches!(ask(&*ledger, few("c")).await, Asked::New(_)));
}

async fn nobody_takes_the_places_of_others((ledger, clock): Bench) {
    let few = |binding: &str, principal: &str| {
        let mut ask = Ask { pending_max: 3, pending_share: 2, ..question(&clock, binding) };
        ask.approval.caller = Arc::new(Caller::principal(principal));
        ask
    };
    for binding in ["a", "b"] {
        assert!(matches!(ask(&*ledger, few(binding, "ada")).await, Asked::New(_)));
    }
    assert!(matches!(ask(&*ledger, few("c", "ada")).await, Asked::ShareUsed));
    assert!(matches!(ask(&*ledger, few("a", "ada")).await, Asked::Standing(_)));
    assert!(matches!(ask(&*ledger, few("d", "bob")).await, Asked::New(_)));
    assert!(matches!(ask(&*ledger, few("e", "bob")).await, Asked::TooMany));
    clock.advance(Duration::from_secs(100));
    assert!(matches!(ask(&*ledger, few("c", "ada")).await, Asked::New(_)));
}

async fn lists_are_newest_first_filtered_and_in_pages((ledger, clock): Bench) {
    let mut ids = Vec::new();
    for number in 0..7 {
        clock.advance(Duration::from_secs(1));
        let mut ask = question(&clock, &number.to_string());
        if number % 2 == 0 {
            ask.approval.caller = Arc::new(Caller::principal("eve").session("s-2"));
            ask.approval.tool = "file/write".into();
            ask.approval.outer = Some("whole".to_owned());
        }
        let Asked::New(approval) = self::ask(&*ledger, ask).await else { panic!("it is new") };
        ids.insert(0, approval.id);
    }
    let list = async |query: ApprovalQuery| -> Vec<ApprovalId> {
        let found = within(ledger.approvals(query)).await.expect("the ledger works");
        found.into_iter().map(|found| found.id).collect()
    };
    let query = |change: &dyn Fn(&mut ApprovalQuery)| {
        let mut query = ApprovalQuery::default();
        change(&mut query);
        query
    };
    assert_eq!(list(ApprovalQuery::pending()).await, ids);
    assert_eq!(list(query(&|query| query.limit = 3)).await, ids[..3]);
    assert_eq!(list(query(&|query| (query.limit, query.before) = (3, Some(ids[2])))).await, ids[3..6]);
    let odd: Vec<_> = ids.iter().step_by(2).copied().collect();
    assert_eq!(list(query(&|query| query.tool = Some("file/write".to_owned()))).await, odd);
    assert_eq!(list(query(&|query| query.principal = Some("eve".to_owned()))).await, odd);
    assert_eq!(list(query(&|query| query.session = Some("s-2".to_owned()))).await, odd);
    assert_eq!(list(query(&|query| query.outer = Some("whole".to_owned()))).await, odd);
    assert_eq!(list(query(&|query| query.outer = Some("other".to_owned()))).await, []);
    assert_eq!(list(query(&|query| query.state = Some(ApprovalState::Used))).await, []);
}

async fn changes_are_told_in_order((ledger, clock): Bench) {
    let changed = async |since| within(ledger.approvals_changed(since, 100)).await.expect("it works");
    let first = new_question(&*ledger, &clock, "a").await;
    let (cursor, none) = changed(None).await;
    assert!(none.is_empty());
    assert_eq!(changed(Some(cursor)).await.1.len(), 0);
    let second = new_question(&*ledger, &clock, "b").await;
    approve(&*ledger, &clock, &first).await;
    let (later, found) = changed(Some(cursor)).await;
    let states: Vec<_> = found.iter().map(|found| (found.id, found.state)).collect();
    assert_eq!(states, [(second.id, ApprovalState::Pending), (first.id, ApprovalState::Approved)]);
    // Asking again changes nothing.
    ask(&*ledger, question(&clock, "a")).await;
    let (same, none) = changed(Some(later)).await;
    assert_eq!((same, none.len()), (later, 0));
    within(ledger.commit(start(&clock, &first).1)).await.expect("it starts");
    assert_eq!(changed(Some(later)).await.1[0].state, ApprovalState::Used);
    let (all, page) = within(ledger.approvals_changed(Some(0), 1)).await.expect("it works");
    assert_eq!((page.len(), all < later + 1), (1, true));
}

async fn rules_come_with_a_decision_and_are_taken_back((ledger, clock): Bench) {
    let asked = new_question(&*ledger, &clock, "a").await;
    let rules = async |tool: Option<&str>| {
        within(ledger.rules(tool.map(str::to_owned), 10)).await.expect("the ledger works")
    };
    let mut approved = verdict(ApprovalState::Approved, clock.now(), "ada", "a");
    let until = clock.now() + SignedDuration::from_secs(50);
    let id = RuleId::new(clock.now());
    let rule = Rule::new(id, &asked, Same::Everything, &json!({ "to": "ada" }), &approved.ruling, until);
    approved.rule = Some(rule.clone());
    assert!(matches!(decide(&*ledger, asked.id, approved.clone()).await, Decided::Now(_)));
    assert_eq!(rules(None).await, std::slice::from_ref(&rule));
    assert_eq!(rules(Some("mail/send")).await, std::slice::from_ref(&rule));
    assert_eq!(rules(Some("mail/read")).await, []);
    // A decision that comes too late makes no rule.
    let mut late = rule.clone();
    late.id = RuleId::new(clock.now());
    approved.rule = Some(late);
    assert!(matches!(decide(&*ledger, asked.id, approved).await, Decided::Before(_)));
    assert_eq!(rules(None).await.len(), 1);

    let revoke =
        async |id| within(ledger.revoke_rule(id, "eve".to_owned(), clock.now())).await.expect("works");
    assert_eq!(revoke(RuleId::new(clock.now())).await, None);
    for _ in 0..2 {
        let revoked = revoke(id).await.expect("it is there");
        assert_eq!((revoked.revoked_by.as_deref(), revoked.holds(clock.now())), (Some("eve"), false));
    }
    let history = within(ledger.history(asked.call_id)).await.expect("the ledger works");
    let told = history.iter().filter(
        |entry| matches!(entry, Entry::Step(step) if matches!(step.kind, StepKind::RuleRevoked { .. })),
    );
    assert_eq!(told.count(), 1);
}

async fn the_first_use_is_marked((ledger, clock): Bench) {
    let first = new_question(&*ledger, &clock, "a").await;
    assert!(first.marks.contains(&Mark::FirstUse));
    approve(&*ledger, &clock, &first).await;
    assert!(new_question(&*ledger, &clock, "b").await.marks.contains(&Mark::FirstUse), "not used yet");
    within(ledger.commit(start(&clock, &first).1)).await.expect("it starts");
    assert!(!new_question(&*ledger, &clock, "c").await.marks.contains(&Mark::FirstUse));
    let mut other = question(&clock, "d");
    other.approval.caller = Arc::new(Caller::principal("eve"));
    let Asked::New(other) = ask(&*ledger, other).await else { panic!("it is new") };
    assert!(other.marks.contains(&Mark::FirstUse), "somebody else");
}
