//! Everyday rules, modes, changes of them, and the program that is asked.

use std::sync::{Arc, Mutex};

use helve::gate::Stance;
use helve::permission::{Destination, PermissionResult, PermissionSet, PermissionUpdate};
use helve::permissions::{PermissionKeeper, PermissionOptions, PermissionQuestion};
use helve::{BoxFuture, Caller};
use serde_json::{Value, json};

use super::{Bench, bot, word};

pub(super) fn user(set: Value) -> PermissionOptions {
    PermissionOptions { places: vec![(Destination::UserSettings, read(set))], ..PermissionOptions::default() }
}

fn read(set: Value) -> PermissionSet {
    serde_json::from_value(set).unwrap()
}

fn update(update: Value) -> PermissionUpdate {
    serde_json::from_value(update).unwrap()
}

#[tokio::test]
async fn the_strictest_rule_wins_wherever_it_stands() {
    let bench = Bench::new(|builder| {
        let options = PermissionOptions {
            places: vec![
                (
                    Destination::UserSettings,
                    read(json!({ "deny": ["change(secret/*)"], "allow": ["risky"] })),
                ),
                (Destination::ProjectSettings, read(json!({ "allow": ["*"], "ask": ["look(path=ask)"] }))),
            ],
            ..PermissionOptions::default()
        };
        builder.permissions(options)
    });
    assert_eq!(word(&bench.call("risky", json!({})).await), "done", "a rule takes back what risk asks");
    assert_eq!(&*bench.gate().by[0], "rule allow risky");
    assert_eq!(word(&bench.call("change", json!({ "path": "secret/a" })).await), "permission_denied");
    assert_eq!(word(&bench.call("change", json!({ "path": "x/../secret/a" })).await), "permission_denied");
    assert_eq!(bench.gate().said, Stance::Deny);
    assert_eq!(word(&bench.call("look", json!({ "path": "ask" })).await), "pending");
    assert_eq!(word(&bench.call("look", json!({ "path": "free" })).await), "done");
    assert_eq!(bench.witness.ran(), ["risky", "look"]);
}

#[tokio::test]
async fn modes_say_what_happens_where_no_rule_does() {
    for (mode, looks, changes, risks, writes) in [
        ("default", "done", "done", "pending", "pending"),
        ("auto", "done", "done", "pending", "pending"),
        ("plan", "done", "permission_denied", "permission_denied", "permission_denied"),
        ("dontAsk", "done", "done", "permission_denied", "permission_denied"),
        ("bypassPermissions", "done", "done", "done", "done"),
        ("acceptEdits", "done", "done", "pending", "done"),
    ] {
        let bench = Bench::new(|builder| builder.permissions(user(json!({ "mode": mode }))));
        for (tool, expected) in [("look", looks), ("change", changes), ("risky", risks), ("write", writes)] {
            let outcome = bench.call(tool, json!({ "path": "a" })).await;
            assert_eq!(word(&outcome), expected, "{mode} {tool}");
            assert_eq!(bench.witness.ran().contains(&tool.to_owned()), expected == "done", "{mode} {tool}");
        }
    }
}

#[tokio::test]
async fn bypassing_does_not_bypass_rules() {
    let set = json!({ "mode": "bypassPermissions", "deny": ["risky"], "ask": ["write"] });
    let bench = Bench::new(|builder| builder.permissions(user(set)));
    assert_eq!(word(&bench.call("risky", json!({})).await), "permission_denied");
    assert_eq!(word(&bench.call("write", json!({})).await), "pending");
    assert!(bench.witness.ran().is_empty());
}

#[tokio::test]
async fn edits_are_accepted_below_the_folders_alone() {
    let set = json!({ "mode": "acceptEdits", "directories": ["notes"] });
    let bench = Bench::new(|builder| builder.permissions(user(set)));
    for (path, expected) in [
        ("notes/a", "done"),
        ("./notes/b", "done"),
        ("other", "pending"),
        ("notes/../other", "pending"),
        ("notesx/a", "pending"),
    ] {
        assert_eq!(word(&bench.call("write", json!({ "path": path })).await), expected, "{path}");
    }
}

#[tokio::test]
async fn a_change_for_a_session_holds_there_alone() {
    let bench = Bench::new(|builder| builder);
    let allow = update(
        json!({ "type": "addRules", "rules": [{ "toolName": "risky" }], "behavior": "allow", "destination": "session" }),
    );
    bench.runtime.change_permissions(&bot(), &[allow]).await.unwrap();
    assert_eq!(word(&bench.call("risky", json!({})).await), "done");
    let other = Caller::agent("bot").session("s-2");
    assert_eq!(word(&bench.runtime.call(helve::Call::new("risky", json!({})).by(other)).await), "pending");
    let eve = Caller::agent("eve").session("s-1");
    assert_eq!(word(&bench.runtime.call(helve::Call::new("risky", json!({})).by(eve)).await), "pending");
    let plan = update(json!({ "type": "setMode", "mode": "plan", "destination": "session" }));
    bench.runtime.change_permissions(&bot(), &[plan]).await.unwrap();
    assert_eq!(word(&bench.call("change", json!({})).await), "permission_denied");
}

/// Keeps changes in memory, as a file would.
struct Kept(Mutex<PermissionSet>);

impl PermissionKeeper for Kept {
    fn keep(&self, update: &PermissionUpdate) -> BoxFuture<'_, Result<PermissionSet, String>> {
        let mut set = self.0.lock().unwrap();
        let kept = set.apply(update).map(|()| set.clone()).map_err(|error| error.to_string());
        Box::pin(std::future::ready(kept))
    }
}

/// Keeps changes one after the other, and takes longer over the first of them to say so.
#[derive(Default)]
struct Slow {
    kept: Mutex<PermissionSet>,
    has_kept: std::sync::atomic::AtomicBool,
}

impl PermissionKeeper for Slow {
    fn keep(&self, update: &PermissionUpdate) -> BoxFuture<'_, Result<PermissionSet, String>> {
        let mut set = self.kept.lock().unwrap();
        set.apply(update).unwrap();
        let (set, is_first) = (set.clone(), !self.has_kept.swap(true, std::sync::atomic::Ordering::SeqCst));
        Box::pin(async move {
            if is_first {
                tokio::time::sleep(std::time::Duration::from_millis(50)).await;
            }
            Ok(set)
        })
    }
}

#[tokio::test]
async fn of_two_changes_at_once_none_is_lost() {
    let keeper = Arc::new(Slow::default());
    let options = PermissionOptions { keeper: Some(keeper.clone()), ..PermissionOptions::default() };
    let bench = Bench::new(|builder| builder.permissions(options));
    let deny = |tool: &str| {
        let rules = json!([{ "toolName": tool }]);
        [update(
            json!({ "type": "addRules", "rules": rules, "behavior": "deny", "destination": "userSettings" }),
        )]
    };
    let (look, change) = (deny("look"), deny("change"));
    let caller = bot();
    let (first, second) = tokio::join!(
        bench.runtime.change_permissions(&caller, &look),
        bench.runtime.change_permissions(&caller, &change)
    );
    first.and(second).unwrap();
    let in_force = bench.runtime.permissions();
    assert_eq!(in_force.get(&Destination::UserSettings), Some(&*keeper.kept.lock().unwrap()));
    for tool in ["look", "change"] {
        assert_eq!(word(&bench.call(tool, json!({})).await), "permission_denied", "{tool}");
    }
}

#[tokio::test]
async fn the_program_is_asked_before_a_person_and_its_changes_are_kept() {
    let asked = Arc::new(Mutex::new(Vec::<Arc<PermissionQuestion>>::new()));
    let kept = Arc::new(Kept(Mutex::default()));
    let (seen, keeper) = (Arc::clone(&asked), Arc::clone(&kept));
    let bench = Bench::new(move |builder| {
        let options = PermissionOptions { keeper: Some(keeper), ..PermissionOptions::default() };
        builder.permissions(options).can_use_tool(move |question: Arc<PermissionQuestion>| {
            seen.lock().unwrap().push(Arc::clone(&question));
            async move {
                Ok(match question.input["to"].as_str() {
                    Some("edit") => Some(PermissionResult::Allow {
                        updated_input: Some(json!({ "to": "ada" })),
                        updated_permissions: None,
                        tool_use_id: None,
                    }),
                    Some("always") => Some(PermissionResult::Allow {
                        updated_input: None,
                        updated_permissions: Some(vec![update(json!({ "type": "addRules",
                            "rules": [{ "toolName": "write", "ruleContent": null }], "behavior": "allow", "destination": "userSettings" }))]),
                        tool_use_id: None,
                    }),
                    Some("wrong") => Some(PermissionResult::Allow {
                        updated_input: Some(json!({ "to": { "deep": [] } })),
                        updated_permissions: None,
                        tool_use_id: None,
                    }),
                    Some("no") => Some(PermissionResult::Deny {
                        message: "not today".into(),
                        interrupt: None,
                        tool_use_id: None,
                    }),
                    Some("fail") => return Err("the other side is down".to_owned()),
                    Some("panic") => panic!("it breaks"),
                    _ => None,
                })
            }
        })
    });
    for (to, expected) in [
        ("no", "permission_denied"),
        ("fail", "permission_denied"),
        ("panic", "permission_denied"),
        ("wrong", "validation_failed"),
        ("person", "pending"),
    ] {
        assert_eq!(word(&bench.call("risky", json!({ "to": to })).await), expected, "{to}");
    }
    assert!(bench.witness.ran().is_empty());
    assert_eq!(word(&bench.call("risky", json!({ "to": "edit" })).await), "done");
    assert_eq!(bench.witness.given(), [json!({ "to": "ada" })]);
    assert_eq!(word(&bench.call("write", json!({ "to": "always" })).await), "done");
    assert_eq!(kept.0.lock().unwrap().allow.len(), 1);
    let before = asked.lock().unwrap().len();
    assert_eq!(word(&bench.call("write", json!({ "to": "any" })).await), "done");
    assert_eq!(asked.lock().unwrap().len(), before, "the rule holds, and nobody is asked");
    let question = asked.lock().unwrap()[0].clone();
    let wire = serde_json::to_value(&*question).unwrap();
    assert_eq!(wire["toolName"], "risky");
    assert!(wire["toolUseID"].as_str().unwrap().starts_with("call_"));
    assert_eq!(wire["suggestions"][0]["type"], "addRules");
    // A look asks nobody.
    bench.call("look", json!({})).await;
    assert_eq!(asked.lock().unwrap().len(), before);
}

#[tokio::test]
async fn what_the_program_changes_meets_deny_rules_too() {
    let bench = Bench::new(|builder| {
        builder.permissions(user(json!({ "deny": ["risky(to=eve)"] }))).can_use_tool(
            |_: Arc<PermissionQuestion>| async {
                Ok(Some(PermissionResult::Allow {
                    updated_input: Some(json!({ "to": "eve" })),
                    updated_permissions: None,
                    tool_use_id: None,
                }))
            },
        )
    });
    assert_eq!(word(&bench.call("risky", json!({ "to": "ada" })).await), "permission_denied");
    assert!(bench.witness.ran().is_empty());
}

#[tokio::test]
async fn what_a_person_edits_meets_deny_rules_too() {
    use helve::approvals::{Decider, Decision, Vouch};
    let bench = Bench::new(|builder| builder.permissions(user(json!({ "deny": ["risky(to=eve)"] }))));
    let outcome = bench.call("risky", json!({ "to": "ada" })).await;
    let helve::Status::Pending(pending) = &outcome.status else { panic!("{outcome:?}") };
    let edit = Decision::Approve { edited: Some(json!({ "to": "eve" })), remember: None, reason: None };
    let ada = Decider::vouched("ada", Vouch::LocalUser);
    bench.runtime.approvals().decide(pending.approval_id, edit, &ada).await.unwrap();
    assert_eq!(word(&bench.call("risky", json!({ "to": "ada" })).await), "permission_denied");
    assert!(bench.witness.ran().is_empty());
}

#[tokio::test]
async fn hooks_are_told_the_mode_in_force() {
    use helve::hook::{HookContext, HookEvent, HookInput, HookOutput};
    use helve::hooks::{HookSet, Matcher};
    let heard = Arc::new(Mutex::new(Vec::new()));
    let kept = Arc::clone(&heard);
    let hook = move |input: Arc<HookInput>, _: HookContext| {
        kept.lock().unwrap().push(input.permission_mode.clone().unwrap_or_default().into_owned());
        async { Ok(HookOutput::none()) }
    };
    let bench = Bench::new(|builder| {
        builder.permissions(user(json!({ "mode": "acceptEdits" }))).hooks(HookSet::default().on(
            HookEvent::PreToolUse,
            Matcher::all(),
            hook,
        ))
    });
    bench.call("look", json!({})).await;
    let plan = update(json!({ "type": "setMode", "mode": "plan", "destination": "session" }));
    bench.runtime.change_permissions(&bot(), &[plan]).await.unwrap();
    bench.call("look", json!({})).await;
    bench.runtime.call(helve::Call::new("look", json!({}))).await;
    assert_eq!(*heard.lock().unwrap(), ["acceptEdits", "plan", "acceptEdits"]);
}

#[tokio::test]
async fn nothing_runs_in_a_session_that_was_ended() {
    let bench = Bench::new(|builder| builder);
    let allow = PermissionUpdate::AddRules {
        rules: vec![helve::permission::RuleValue { tool_name: "risky".to_owned(), rule_content: None }],
        behavior: Stance::Allow,
        destination: Destination::Session,
    };
    bench.runtime.change_permissions(&bot(), std::slice::from_ref(&allow)).await.unwrap();
    assert_eq!(word(&bench.call("risky", json!({})).await), "done");
    let ended = bench.runtime.end_session(&bot(), Arc::new(Caller::principal("ada"))).await.unwrap().unwrap();
    assert!(ended.ended_at.is_some() && ended.permissions.is_empty());
    assert_eq!(&*bench.last().facts.tool, "session end");
    for tool in ["look", "risky", "change"] {
        let outcome = bench.call(tool, json!({})).await;
        assert_eq!(word(&outcome), "permission_denied");
        assert!(outcome.error().unwrap().message().contains("ended"));
    }
    assert_eq!(bench.witness.ran(), ["risky"]);
    assert!(bench.runtime.change_permissions(&bot(), &[allow]).await.is_err(), "it is closed for good");
    // Another session of the same agent is another.
    let other = helve::Call::new("look", json!({})).by(Caller::agent("bot").session("s-2"));
    assert_eq!(word(&bench.runtime.call(other).await), "done");
    // What belongs to no session does not end.
    assert!(bench.runtime.end_session(&Caller::agent("bot"), Caller::local()).await.unwrap().is_none());
}
