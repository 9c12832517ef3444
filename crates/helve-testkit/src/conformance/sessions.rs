//! Sessions: labels only rise, permissions are kept, and nobody's session is another's.

use std::sync::Arc;

use helve_core::gate::Stance;
use helve_core::label::{Label, LabelSet, Taint};
use helve_core::permission::{Destination, PermissionUpdate, RuleValue};
use helve_core::ports::{Clock, Ledger};
use helve_core::session::{SessionChange, SessionKey};
use helve_core::{CallId, Caller};
use jiff::{SignedDuration, Timestamp};

use super::{Setup, within};
use crate::clock::ManualClock;

/// Runs every check, each on a new ledger.
pub async fn check_sessions(new_ledger: &impl Fn(Setup) -> Arc<dyn Ledger>) {
    let new = || {
        let (setup, clock) = Setup::new();
        (new_ledger(setup), clock)
    };
    labels_only_rise_and_say_where_they_came_from(new()).await;
    sessions_are_told_apart(new()).await;
    what_is_too_old_starts_anew(new()).await;
    what_is_touched_again_lasts_from_then(new()).await;
    a_change_that_cannot_be_made_changes_nothing(new()).await;
    what_was_ended_stays_ended(new()).await;
}

type New = (Arc<dyn Ledger>, Arc<ManualClock>);

fn key(principal: &str, session: Option<&str>) -> SessionKey {
    let caller = Caller::principal(principal);
    SessionKey::of(&match session {
        Some(session) => caller.session(session),
        None => caller,
    })
}

fn raise(label: Label, tool: &str, now: Timestamp) -> Box<SessionChange> {
    let labels = LabelSet::NONE.with(label);
    Box::new(SessionChange::Raise(Taint { labels, tool: tool.into(), call_id: CallId::new(now), at: now }))
}

fn allow(tool: &str) -> Box<SessionChange> {
    Box::new(SessionChange::Permit(PermissionUpdate::AddRules {
        rules: vec![RuleValue { tool_name: tool.to_owned(), rule_content: None }],
        behavior: Stance::Allow,
        destination: Destination::Session,
    }))
}

async fn labels_only_rise_and_say_where_they_came_from((ledger, clock): New) {
    let (key, now) = (key("ada", Some("s")), clock.now());
    let change = |change| within(ledger.change_session(key.clone(), change, now, Timestamp::MIN));
    change(raise(Label::Untrusted, "page", now)).await.expect("the ledger answers");
    change(raise(Label::Untrusted, "other", now)).await.expect("the ledger answers");
    change(allow("send")).await.expect("the ledger answers");
    let state = change(raise(Label::Private, "diary", now)).await.expect("the ledger answers");
    assert_eq!(within(ledger.session(key.clone())).await.expect("the ledger answers"), Some(state.clone()));
    let tools: Vec<_> = state.taints.iter().map(|taint| &*taint.tool).collect();
    assert_eq!(tools, ["page", "diary"], "the first that brought a label is named");
    assert!(state.labels().has_met());
    assert_eq!(state.permissions.allow.len(), 1);
}

async fn sessions_are_told_apart((ledger, clock): New) {
    let now = clock.now();
    let keys = [
        key("ada", Some("s")),
        key("ada", Some("")),
        key("ada", None),
        key("eve", Some("s")),
        SessionKey { principal: None, session: Some("s".into()) },
        SessionKey { principal: None, session: None },
    ];
    for (index, key) in keys.iter().enumerate() {
        assert_eq!(within(ledger.session(key.clone())).await.expect("the ledger answers"), None, "{key:?}");
        let raised = raise(Label::Untrusted, &format!("tool-{index}"), now);
        within(ledger.change_session(key.clone(), raised, now, Timestamp::MIN))
            .await
            .expect("the ledger answers");
    }
    for (index, key) in keys.iter().enumerate() {
        let state = within(ledger.session(key.clone()))
            .await
            .expect("the ledger answers")
            .expect("the ledger answers");
        assert_eq!(*state.taints[0].tool, *format!("tool-{index}"), "{key:?}");
    }
    assert_eq!(
        within(ledger.sessions(Some("ada".to_owned()), 10)).await.expect("the ledger answers").len(),
        3
    );
    assert_eq!(within(ledger.sessions(None, 10)).await.expect("the ledger answers").len(), keys.len());
    assert_eq!(within(ledger.sessions(None, 2)).await.expect("the ledger answers").len(), 2);
}

async fn what_is_too_old_starts_anew((ledger, clock): New) {
    let (key, first) = (key("ada", None), clock.now());
    let raised = raise(Label::Untrusted, "page", first);
    within(ledger.change_session(key.clone(), raised, first, Timestamp::MIN))
        .await
        .expect("the ledger answers");
    let later = first + SignedDuration::from_hours(2);
    let raised = raise(Label::Private, "diary", later);
    let oldest = first + SignedDuration::from_hours(1);
    let state = within(ledger.change_session(key, raised, later, oldest)).await.expect("the ledger answers");
    assert!(!state.labels().has(Label::Untrusted) && state.labels().has(Label::Private));
    assert_eq!(state.since, later);
}

async fn what_is_touched_again_lasts_from_then((ledger, clock): New) {
    let (key, first) = (key("ada", None), clock.now());
    let change = |now| {
        let raised = raise(Label::Untrusted, "page", now);
        within(ledger.change_session(key.clone(), raised, now, Timestamp::MIN))
    };
    change(first).await.expect("the ledger answers");
    let later = first + SignedDuration::from_hours(2);
    let state = change(later).await.expect("the ledger answers");
    assert_eq!((state.since, state.changed_at, state.taints.len()), (first, later, 1));
}

async fn a_change_that_cannot_be_made_changes_nothing((ledger, clock): New) {
    let (key, now) = (key("ada", Some("s")), clock.now());
    within(ledger.change_session(key.clone(), allow("send"), now, Timestamp::MIN))
        .await
        .expect("the ledger answers");
    let refused = within(ledger.change_session(key.clone(), allow("broken("), now, Timestamp::MIN)).await;
    assert!(refused.is_err());
    assert_eq!(
        within(ledger.session(key))
            .await
            .expect("the ledger answers")
            .expect("the ledger answers")
            .permissions
            .allow
            .len(),
        1
    );
}

async fn what_was_ended_stays_ended((ledger, clock): New) {
    let (key, now) = (key("ada", Some("s")), clock.now());
    let change = |change, now| within(ledger.change_session(key.clone(), change, now, Timestamp::MIN));
    change(raise(Label::Private, "diary", now), now).await.expect("the ledger answers");
    change(allow("send"), now).await.expect("the ledger answers");
    let end = || Box::new(SessionChange::End { by: Caller::local() });
    let ended = change(end(), now).await.expect("the ledger answers");
    assert!(ended.ended_at == Some(now) && ended.permissions.is_empty());
    assert!(ended.labels().has(Label::Private), "what was read stays read");
    change(allow("send"), now).await.expect_err("nothing is allowed any more");
    // However long ago: others come and go, and its id stays closed.
    let later = now + SignedDuration::from_hours(24 * 400);
    for session in ["t", "u"] {
        let other = self::key("ada", Some(session));
        let raised =
            ledger.change_session(other, raise(Label::Private, "diary", later), later, Timestamp::MIN);
        within(raised).await.expect("the ledger answers");
    }
    let again = change(end(), later).await.expect("the ledger answers");
    assert_eq!(again.ended_at, Some(now));
    assert_eq!(within(ledger.session(key.clone())).await.expect("the ledger answers"), Some(again));
}
