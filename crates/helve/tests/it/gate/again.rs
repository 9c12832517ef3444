//! Somebody is waited for, and meanwhile the call is forbidden: it does not run, whatever they say.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use helve::approvals::{Decider, Decision, Vouch};
use helve::gate::{PolicyRequest, Stance, Vote};
use helve::hook::{HookContext, HookEvent, HookFailure, HookInput, HookOutput};
use helve::hooks::{HookSet, Matcher};
use helve::label::{Label, LabelSet, Taint};
use helve::permission::{PermissionResult, PermissionUpdate};
use helve::permissions::PermissionQuestion;
use helve::ports::{Policy, Sessions};
use helve::session::{SessionChange, SessionKey};
use helve::sessions::WhenMet;
use helve::{ApprovalQuery, ApprovalState, Call, CallId, Caller, Runtime, RuntimeBuilder, Settings};
use jiff::Timestamp;
use serde_json::json;
use tokio::sync::Semaphore;

use super::{Bench, bot, word};

/// What happens while somebody is waited for.
#[derive(Debug, Clone, Copy)]
enum Meanwhile {
    Nothing,
    SessionEnds,
    PolicyForbids,
    RuleDenies,
    LabelsMeet,
}

const ALL: [Meanwhile; 5] = [
    Meanwhile::Nothing,
    Meanwhile::SessionEnds,
    Meanwhile::PolicyForbids,
    Meanwhile::RuleDenies,
    Meanwhile::LabelsMeet,
];

/// A policy that forbids everything once it is told to.
#[derive(Clone, Default)]
struct Switch(Arc<AtomicBool>);

impl Policy for Switch {
    fn rule(&self, _: &PolicyRequest<'_>) -> Vote {
        match self.0.load(Ordering::SeqCst) {
            true => Vote::policy("none", Stance::Deny),
            false => Vote::policy("all", Stance::Allow),
        }
    }
}

fn bench(policy: &Switch, set: impl FnOnce(RuntimeBuilder) -> RuntimeBuilder) -> Arc<Bench> {
    let mut settings = Settings::default();
    settings.labels.when_met = WhenMet::Deny;
    let policy = Arc::new(policy.clone());
    Arc::new(Bench::with_settings(settings, |builder| set(builder.policy(policy))))
}

/// Calls what needs a yes, and waits for it.
fn calling(bench: &Arc<Bench>) -> tokio::task::JoinHandle<helve::Outcome> {
    let bench = Arc::clone(bench);
    let call = Call::new("risky", json!({})).by(bot()).wait_for_approval(Duration::from_secs(60));
    tokio::spawn(async move { bench.runtime.call(call).await })
}

impl Meanwhile {
    /// From another process over the same ledger, where that can be.
    async fn happen(self, bench: &Bench, policy: &Switch) {
        match self {
            Self::Nothing => {}
            Self::SessionEnds => {
                let other = Runtime::builder().ledger(bench.ledger.clone()).build();
                other.end_session(&bot(), Arc::new(Caller::principal("ada"))).await.unwrap();
            }
            Self::PolicyForbids => policy.0.store(true, Ordering::SeqCst),
            Self::RuleDenies => {
                let deny: PermissionUpdate = serde_json::from_value(json!({ "type": "addRules",
                    "rules": [{ "toolName": "risky" }], "behavior": "deny", "destination": "cliArg" }))
                .unwrap();
                bench.runtime.change_permissions(&bot(), &[deny]).await.unwrap();
            }
            Self::LabelsMeet => {
                let labels = [Label::Private, Label::Untrusted].into_iter().collect::<LabelSet>();
                let now = Timestamp::now();
                let taint = Taint { labels, tool: "page".into(), call_id: CallId::new(now), at: now };
                let (key, raise) = (SessionKey::of(&bot()), Box::new(SessionChange::Raise(taint)));
                bench.ledger.change_session(key, raise, now, Timestamp::MIN).await.unwrap();
            }
        }
    }

    /// What becomes of the call, and who the record says it was.
    fn check(self, bench: &Bench, outcome: &helve::Outcome) {
        let (expected, by) = match self {
            Self::Nothing => ("done", None),
            Self::SessionEnds => ("permission_denied", Some("session")),
            Self::PolicyForbids => ("not_authorized", Some("policy none")),
            Self::RuleDenies => ("permission_denied", Some("rule deny risky")),
            Self::LabelsMeet => ("permission_denied", Some("labels")),
        };
        assert_eq!(word(outcome), expected, "{self:?}: {outcome:?}");
        assert_eq!(bench.witness.ran().is_empty(), by.is_some(), "{self:?}");
        if let Some(by) = by {
            let (gate, last) = (bench.gate(), bench.last());
            assert_eq!((gate.said, last.facts.call_id), (Stance::Deny, outcome.call_id), "{self:?}");
            assert!(gate.by.iter().any(|one| &**one == by), "{self:?}: {gate:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn after_waiting_for_a_person_everybody_is_heard_again() {
    for meanwhile in ALL {
        let policy = Switch::default();
        let bench = bench(&policy, |builder| builder);
        let waiting = calling(&bench);
        let approvals = bench.runtime.approvals();
        let id = loop {
            match approvals.list(ApprovalQuery::pending()).await.unwrap().first() {
                Some(approval) => break approval.id,
                None => tokio::time::sleep(Duration::from_millis(2)).await,
            }
        };
        meanwhile.happen(&bench, &policy).await;
        let ada = Decider::vouched("ada", Vouch::LocalUser);
        approvals.decide(id, Decision::approve(), &ada).await.unwrap();
        meanwhile.check(&bench, &waiting.await.unwrap());
        let expected = match meanwhile {
            Meanwhile::Nothing => ApprovalState::Used,
            // Nothing has run by it.
            _ => ApprovalState::Approved,
        };
        assert_eq!(approvals.get(id).await.unwrap().unwrap().state, expected, "{meanwhile:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn after_waiting_for_a_hook_everybody_is_heard_again() {
    for meanwhile in ALL {
        let (asked, go) = (Arc::new(Semaphore::new(0)), Arc::new(Semaphore::new(0)));
        let (asks, goes) = (Arc::clone(&asked), Arc::clone(&go));
        let hook = move |_: Arc<HookInput>, _: HookContext| {
            let (asks, goes) = (Arc::clone(&asks), Arc::clone(&goes));
            async move {
                asks.add_permits(1);
                goes.acquire().await.unwrap().forget();
                let yes = json!({ "hookSpecificOutput": { "decision": { "behavior": "allow" } } });
                Ok::<_, HookFailure>(HookOutput::from_value(&HookEvent::PermissionRequest, yes).unwrap())
            }
        };
        let policy = Switch::default();
        let hooks = HookSet::default().on(HookEvent::PermissionRequest, Matcher::all(), hook);
        let bench = bench(&policy, |builder| builder.hooks(hooks));
        let waiting = calling(&bench);
        asked.acquire().await.unwrap().forget();
        meanwhile.happen(&bench, &policy).await;
        go.add_permits(1);
        meanwhile.check(&bench, &waiting.await.unwrap());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn after_waiting_for_the_program_everybody_is_heard_again() {
    for meanwhile in ALL {
        let (asked, go) = (Arc::new(Semaphore::new(0)), Arc::new(Semaphore::new(0)));
        let (asks, goes) = (Arc::clone(&asked), Arc::clone(&go));
        let program = move |_: Arc<PermissionQuestion>| {
            let (asks, goes) = (Arc::clone(&asks), Arc::clone(&goes));
            async move {
                asks.add_permits(1);
                goes.acquire().await.unwrap().forget();
                let (updated_input, updated_permissions, tool_use_id) = (None, None, None);
                Ok(Some(PermissionResult::Allow { updated_input, updated_permissions, tool_use_id }))
            }
        };
        let policy = Switch::default();
        let bench = bench(&policy, |builder| builder.can_use_tool(program));
        let waiting = calling(&bench);
        asked.acquire().await.unwrap().forget();
        meanwhile.happen(&bench, &policy).await;
        go.add_permits(1);
        meanwhile.check(&bench, &waiting.await.unwrap());
    }
}
