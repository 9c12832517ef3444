//! The default policy.

use helve_core::{Action, Caller, PolicyResource, PrincipalKind, Stance};
use helve_policy::{DEFAULT_POLICY, Policies, PolicyFile, Vocabulary};
use serde_json::json;

use crate::support::{ask, call, said, tools};

#[test]
fn it_passes_its_own_check() {
    let tools = tools();
    for known in [Vocabulary::default(), Vocabulary::tools(&tools)] {
        assert_eq!(Policies::check(&[PolicyFile::new("default.cedar", DEFAULT_POLICY)], known), []);
    }
    assert!(Policies::default_policy().is_broken().is_none());
}

#[test]
fn named_callers_use_everything_and_critical_tools_ask() {
    let policies = Policies::default_policy();
    let tools = tools();
    for kind in PrincipalKind::ALL {
        let caller = Caller::principal("ada").kind(kind);
        assert_eq!(
            said(&call(&policies, &caller, &tools[0], &json!({ "to": "x" }))),
            "allow by policy named-callers"
        );
        assert_eq!(
            said(&call(&policies, &caller, &tools[2], &json!({}))),
            "ask by policy critical-tools-ask: a call of critical risk cannot be undone"
        );
        let list = ask(&policies, &caller, Action::List, PolicyResource::Tool(&tools[2]), None);
        assert_eq!(list.stance, Stance::Allow);
        for action in [Action::ReadResource, Action::GetPrompt] {
            let served = PolicyResource::Served { server: "docs", name: "file:///x" };
            assert_eq!(ask(&policies, &caller, action, served, None).stance, Stance::Allow);
        }
    }
}

#[test]
fn nobody_anonymous_does_anything() {
    let policies = Policies::default_policy();
    let caller = Caller::anonymous().roles(["admin", "approver", "auditor"]);
    for action in Action::ALL {
        for resource in [PolicyResource::Tool(&tools()[0]), PolicyResource::Tool(&tools()[2])] {
            let vote = ask(&policies, &caller, action, resource, Some(&json!({ "to": "x" })));
            assert_eq!((vote.stance, &*vote.by), (Stance::Deny, "policy no-anonymous"), "{action:?}");
        }
    }
}

#[test]
fn the_rest_takes_a_role() {
    let policies = Policies::default_policy();
    let may = |role: &str, action: Action| {
        let caller = Caller::principal("ada").roles([role]);
        ask(&policies, &caller, action, PolicyResource::Runtime, None).stance == Stance::Allow
    };
    let actions = [Action::Approve, Action::Inspect, Action::Administer];
    for (role, expected) in [
        ("approver", [true, true, false]),
        ("auditor", [false, true, false]),
        ("admin", [false, true, true]),
        ("user", [false, false, false]),
    ] {
        assert_eq!(actions.map(|action| may(role, action)), expected, "{role}");
    }
}
