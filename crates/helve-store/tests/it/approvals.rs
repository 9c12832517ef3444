use std::sync::Arc;

use helve_core::approval::{
    Approval, ApprovalQuery, ApprovalState, Ask, Asked, Decided, Grant, Rule, Ruling, Same, Spent, Verdict,
};
use helve_core::ports::{Approvals, Journal, Runs};
use helve_core::record::Entry;
use helve_core::{ApprovalId, CallId, RuleId};
use helve_store::{Concern, Store};
use helve_testkit::entries::{SampleCall, raw};
use jiff::{SignedDuration, Timestamp};
use rusqlite::Connection;
use serde_json::json;

use crate::support::{Place, export, show};

pub(crate) fn question(binding: &str) -> Box<Ask> {
    let now = Timestamp::now();
    let mut approval = Approval::new(ApprovalId::new(now), "mail/send", "5a4d", CallId::new(now));
    approval.arguments = raw(&json!({ "to": "ada@example.com" }));
    approval.preview = Some("a secret preview".to_owned());
    approval.fingerprint = Some("v1".to_owned());
    approval.created_at = now;
    approval.expires_at = now + SignedDuration::from_hours(24);
    approval.binding = binding.to_owned();
    Box::new(Ask {
        approval,
        denied_for: SignedDuration::from_secs(10),
        insist: false,
        pending_share: usize::MAX,
        pending_max: 10_000,
    })
}

pub(crate) async fn ask(store: &Store, binding: &str) -> Approval {
    match Approvals::ask(store, question(binding)).await.unwrap() {
        Asked::New(approval) | Asked::Standing(approval) | Asked::Approved(approval) => approval,
        other => panic!("{other:?}"),
    }
}

pub(crate) fn verdict(state: ApprovalState, by: &str, granted: &str) -> Box<Verdict> {
    let granted = (state == ApprovalState::Approved).then(|| granted.to_owned());
    Box::new(Verdict { state, ruling: Ruling::new(by, Timestamp::now()), granted, use_by: None, rule: None })
}

pub(crate) async fn approve(store: &Store, approval: &Approval) {
    let approved = verdict(ApprovalState::Approved, "ada", &approval.binding);
    assert!(matches!(store.decide(approval.id, approved).await.unwrap(), Decided::Now(_)));
}

pub(crate) fn start(approval: &Approval) -> (SampleCall, Entry) {
    let call = SampleCall::new("mail/send");
    let mut started = call.start();
    let (approval_id, binding) = (approval.id, approval.binding.clone());
    let fingerprint = approval.fingerprint.clone();
    started.grant = Some(Grant { approval_id, binding, asked: None, fingerprint });
    (call, Entry::Started(started))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_questions_are_there_after_a_restart() {
    let place = Place::new();
    let store = Arc::new(place.open());
    let asking: Vec<_> = (0..1_000)
        .map(|number| {
            let store = Arc::clone(&store);
            tokio::spawn(async move { ask(&store, &number.to_string()).await.id })
        })
        .collect();
    let mut ids = Vec::new();
    for one in asking {
        ids.push(one.await.unwrap());
    }
    store.close().unwrap();
    drop(store);
    let store = place.open();
    // In pages, newest first, each once.
    let (mut found, mut before) = (Vec::new(), None);
    loop {
        let mut query = ApprovalQuery::pending();
        (query.limit, query.before) = (150, before);
        let page = store.approvals(query).await.unwrap();
        let Some(last) = page.last() else { break };
        before = Some(last.id);
        found.extend(page.into_iter().map(|one| one.id));
    }
    ids.sort_by(|a, b| b.cmp(a));
    assert_eq!(found, ids);
    // None is asked twice, and each can be decided and used.
    let again = ask(&store, "17").await;
    assert!(ids.contains(&again.id));
    approve(&store, &again).await;
    store.commit(start(&again).1).await.unwrap();
    let now = Timestamp::now() + SignedDuration::from_hours(25);
    let mut swept = 0;
    loop {
        match store.sweep_approvals(now, Timestamp::MIN, 400).await.unwrap() {
            0 => break,
            some => swept += some,
        }
    }
    assert_eq!(swept, 999);
    assert!(store.approvals(ApprovalQuery::pending()).await.unwrap().is_empty());
    store.close().unwrap();
    assert_eq!(place.verify().first_problem, None);
}

#[tokio::test(flavor = "multi_thread")]
async fn of_two_processes_one_decides_and_one_uses() {
    let place = Place::new();
    let stores = [Arc::new(place.open()), Arc::new(place.open())];
    for number in 0..30 {
        let asked = ask(&stores[0], &number.to_string()).await;
        assert_eq!(ask(&stores[1], &number.to_string()).await.id, asked.id);
        let deciding = stores.each_ref().map(|store| {
            let (store, verdict) =
                (Arc::clone(store), verdict(ApprovalState::Approved, "ada", &asked.binding));
            tokio::spawn(async move { store.decide(asked.id, verdict).await.unwrap() })
        });
        let mut won = 0;
        for one in deciding {
            won += usize::from(matches!(one.await.unwrap(), Decided::Now(_)));
        }
        assert_eq!(won, 1);
        let using = stores.each_ref().map(|store| {
            let (store, (_, entry)) = (Arc::clone(store), start(&asked));
            tokio::spawn(async move { store.commit(entry).await })
        });
        let mut used = 0;
        for one in using {
            match one.await.unwrap() {
                Ok(()) => used += 1,
                Err(error) => assert_eq!(error.is_spent(), Some(&Spent::Is(ApprovalState::Used))),
            }
        }
        assert_eq!(used, 1);
    }
    assert_eq!(stores[0].open_runs(None, 100).await.unwrap().len(), 30);
    let [first, second] = stores;
    first.close().unwrap();
    second.close().unwrap();
    assert_eq!(place.verify().first_problem, None);
}

#[tokio::test]
async fn approvals_that_do_not_agree_with_the_entries_are_found() {
    let place = Place::new();
    let store = place.open();
    let pending = ask(&store, "pending").await;
    let denied = ask(&store, "denied").await;
    store.decide(denied.id, verdict(ApprovalState::Denied, "ada", "")).await.unwrap();
    let used = ask(&store, "used").await;
    approve(&store, &used).await;
    store.commit(start(&used).1).await.unwrap();
    store.close().unwrap();
    assert_eq!(place.verify().first_problem, None);
    let set = |state: i64, id: ApprovalId| format!("UPDATE approvals SET state = {state} WHERE id = '{id}'");
    for (sql, what) in [
        (set(1, pending.id), "nobody approved it"),
        (set(1, denied.id), "nobody approved it"),
        (set(0, denied.id), "it was decided"),
        (set(1, used.id), "it was used"),
        (format!("UPDATE approvals SET id = 'apr_x' WHERE id = '{}'", pending.id), "never asked"),
    ] {
        let copy = place.copy();
        Connection::open(copy.db()).unwrap().execute_batch(&sql).unwrap();
        let verification = copy.verify();
        let problem = verification.first_problem.unwrap_or_else(|| panic!("not noticed: {sql}"));
        assert_eq!(verification.concern, Some(Concern::Approvals), "{sql}");
        assert!(problem.what.contains(what), "{sql}: {problem:?}");
    }
}

/// An approval that nobody has used, one that waits, and a rule.
async fn with_rule() -> (Place, Approval, Approval, Rule) {
    let place = Place::new();
    let store = place.open();
    let (approved, pending) = (ask(&store, "a").await, ask(&store, "b").await);
    approve(&store, &approved).await;
    let asked = ask(&store, "c").await;
    let mut allowed = verdict(ApprovalState::Approved, "ada", "c");
    let (now, arguments) = (Timestamp::now(), json!({ "to": "ada@example.com" }));
    let until = now + SignedDuration::from_hours(1);
    let rule = Rule::new(RuleId::new(now), &asked, Same::Everything, &arguments, &allowed.ruling, until);
    allowed.rule = Some(rule.clone());
    assert!(matches!(store.decide(asked.id, allowed).await.unwrap(), Decided::Now(_)));
    store.close().unwrap();
    assert_eq!(place.verify().first_problem, None);
    (place, approved, pending, rule)
}

fn set(table: &str, id: &impl ToString, path: &str, value: &str) -> String {
    let id = id.to_string();
    format!("UPDATE {table} SET body = json_set(body, '$.{path}', {value}) WHERE id = '{id}'")
}

#[tokio::test]
async fn whatever_decides_in_an_approval_cannot_be_changed_unseen_and_does_not_count() {
    let (place, approved, pending, _) = with_rule().await;
    let late = "'2099-01-01T00:00:00Z'";
    let mut elsewhere = approved.clone();
    elsewhere.binding = "x".to_owned();
    let (mut unseen, mut unbound) = (approved.clone(), approved.clone());
    (unseen.fingerprint, unbound.fingerprint) = (Some("v2".to_owned()), None);
    let without = format!(
        "UPDATE approvals SET body = json_remove(body, '$.fingerprint') WHERE id = '{}'",
        approved.id
    );
    let of = |path: &str, value: &str| set("approvals", &approved.id, path, value);
    let moved = format!(
        "{}; {}; UPDATE approvals SET binding = 'x' WHERE id = '{}'",
        of("binding", "'x'"),
        of("granted", "'x'"),
        approved.id
    );
    let forged = format!(
        "{}; {}; UPDATE approvals SET state = 1 WHERE id = '{}'",
        set("approvals", &pending.id, "state", "'approved'"),
        set("approvals", &pending.id, "granted", "'b'"),
        pending.id
    );
    for (sql, used, what) in [
        (moved, elsewhere, "its row was changed"),
        (of("fingerprint", "'v2'"), unseen, "its row was changed"),
        (without, unbound, "its row was changed"),
        (of("expires_at", late), approved.clone(), "its row was changed"),
        (of("tool", "'mail/burn'"), approved.clone(), "its row was changed"),
        (of("digest", "'0000'"), approved.clone(), "its row was changed"),
        (of("caller.principal", "'eve'"), approved.clone(), "its row was changed"),
        (forged, pending.clone(), "nobody approved it"),
        (format!("DELETE FROM approvals WHERE id = '{}'", pending.id), pending.clone(), "was removed from"),
    ] {
        let copy = place.copy();
        Connection::open(copy.db()).unwrap().execute_batch(&sql).unwrap();
        let verification = copy.verify();
        let problem = verification.first_problem.unwrap_or_else(|| panic!("not noticed: {sql}"));
        assert_eq!(verification.concern, Some(Concern::Approvals), "{sql}");
        assert!(problem.what.contains(what), "{sql}: {problem:?}");
        let store = copy.open();
        let (call, entry) = start(&used);
        store.commit(entry.clone()).await.unwrap_err();
        store.commit_all(vec![entry, call.done(json!(1))]).await.unwrap_err();
        assert!(store.history(call.id()).await.unwrap().is_empty(), "{sql}: nothing started");
    }
    // As it was given, it is used, once.
    let store = place.open();
    store.commit(start(&approved).1).await.unwrap();
    store.commit(start(&approved).1).await.unwrap_err();
}

#[tokio::test]
async fn a_decision_and_its_use_may_reach_the_disk_together() {
    let place = Place::new();
    let store = place.open();
    let asked = ask(&store, "a").await;
    let approved = verdict(ApprovalState::Approved, "ada", "a");
    let (decided, started) = tokio::join!(store.decide(asked.id, approved), store.commit(start(&asked).1));
    assert!(matches!(decided.unwrap(), Decided::Now(_)));
    started.unwrap();
    store.close().unwrap();
    assert_eq!(place.verify().first_problem, None);
}

#[tokio::test]
async fn a_rule_that_was_widened_added_or_made_good_again_is_found_and_does_not_count() {
    let (place, _, _, rule) = with_rule().await;
    let of = |path: &str, value: &str| set("approval_rules", &rule.id, path, value);
    let check = async |place: &Place, sql: &str| {
        let copy = place.copy();
        Connection::open(copy.db()).unwrap().execute_batch(sql).unwrap();
        let verification = copy.verify();
        assert_eq!(verification.concern, Some(Concern::Approvals), "{sql}: {verification:?}");
        let store = copy.open();
        assert_eq!(store.rules(None, 9).await.unwrap().len(), 0, "{sql}");
        assert_eq!(store.rules(Some("mail/send".to_owned()), 9).await.unwrap().len(), 0, "{sql}");
    };
    let other = RuleId::new(Timestamp::now());
    for sql in [
        of("same", "json('{\"fields\": []}')"),
        of("shape", "'00'"),
        of("expires_at", "'2099-01-01T00:00:00Z'"),
        of("session", "'s-2'"),
        of("principal", "'eve'"),
        of("digest", "'0000'"),
        format!("{}; UPDATE approval_rules SET id = '{other}'", of("id", &format!("'{other}'"))),
    ] {
        check(&place, &sql).await;
    }
    let store = place.open();
    assert_eq!(store.rules(None, 9).await.unwrap().len(), 1);
    store.revoke_rule(rule.id, "ada".to_owned(), Timestamp::now()).await.unwrap().unwrap();
    store.close().unwrap();
    assert_eq!(place.verify().first_problem, None);
    check(&place, "UPDATE approval_rules SET body = json_remove(body, '$.revoked_at', '$.revoked_by')").await;
}

#[tokio::test]
async fn what_was_said_in_a_question_can_be_erased() {
    let place = Place::new();
    let store = place.open();
    let asked = ask(&store, "a").await;
    let mut denied = verdict(ApprovalState::Denied, "ada", "");
    denied.ruling.reason = Some("a secret reason".to_owned());
    store.decide(asked.id, denied).await.unwrap();
    assert_eq!(store.erase(asked.call_id, Timestamp::now()).await.unwrap(), 2);
    let left = store.approval(asked.id).await.unwrap().unwrap();
    assert_eq!((left.state, left.withheld), (ApprovalState::Denied, true));
    store.close().unwrap();
    assert_eq!(place.verify().first_problem, None);
    let all = std::fs::read(place.db()).unwrap();
    for secret in ["ada@example.com", "a secret preview", "a secret reason"] {
        let found = all.windows(secret.len()).any(|window| window == secret.as_bytes());
        assert!(!found, "{secret}");
    }
}

#[tokio::test]
async fn the_record_tells_what_was_asked_decided_and_used() {
    let place = Place::new();
    let store = place.open();
    let asked = ask(&store, "a").await;
    approve(&store, &asked).await;
    let (call, entry) = start(&asked);
    store.commit_all(vec![entry, call.done(json!(1))]).await.unwrap();
    let record = show(&store.audit(), call.id()).unwrap();
    assert_eq!(record.approval_used, Some(asked.id));
    let lines = export(&store.audit());
    assert!(lines.contains(&format!(r#""approval_used":"{}""#, asked.id)), "{lines}");
}
