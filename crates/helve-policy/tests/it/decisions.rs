//! Who may do what, asks, errors, arguments.

use helve_core::ports::Policy as _;
use helve_core::{
    Action, Caller, Channel, Label, LabelSet, PolicyRequest, PolicyResource, Risk, Stance, Tool,
};
use helve_policy::{Policies, PolicyFile, Vocabulary};
use serde_json::{Value, json};

use crate::support::{ask, call, load, said, tool, tools};

const ALL: &str = "@id(\"all\") permit (principal, action, resource);\n";

/// What is said to a mail by somebody, when one more policy stands next to a permit for all.
fn mail(policy: &str, arguments: Value) -> String {
    let policies = load(&format!("{ALL}@id(\"p\") {policy}")).unwrap();
    said(&call(&policies, &Caller::agent("ada"), &tools()[0], &arguments))
}

#[test]
fn what_nobody_permits_is_denied() {
    let policies = load("").unwrap();
    let vote = call(&policies, &Caller::agent("ada"), &tools()[0], &json!({ "to": "x" }));
    assert_eq!(said(&vote), "deny by policy: no policy permits it");
}

#[test]
fn roles_kinds_and_names() {
    let text = "permit (principal in Role::\"mailer\", action in Action::\"call\", resource in Namespace::\"mail\");\n\
                permit (principal == Service::\"cron\", action in Action::\"call\", resource);\n\
                permit (principal is User, action == Action::\"list\", resource == Tool::\"mail/inbox/read\");";
    let policies = load(text).unwrap();
    let tools = tools();
    let may_call =
        |caller: &Caller, tool: usize| call(&policies, caller, &tools[tool], &json!({ "to": "x" })).stance;
    let mailer = Caller::agent("ada").roles(["mailer"]);
    assert_eq!([0, 1, 2].map(|tool| may_call(&mailer, tool)), [Stance::Allow, Stance::Allow, Stance::Deny]);
    let cron = Caller::principal("cron").kind(helve_core::PrincipalKind::Service);
    assert_eq!(may_call(&cron, 2), Stance::Allow);
    assert_eq!(may_call(&Caller::agent("cron"), 2), Stance::Deny);
    let list = |caller: Caller, tool: usize| {
        ask(&policies, &caller, Action::List, PolicyResource::Tool(&tools[tool]), None).stance
    };
    assert_eq!(list(Caller::principal("ada"), 1), Stance::Allow);
    assert_eq!(list(Caller::principal("ada"), 0), Stance::Deny);
    assert_eq!(list(Caller::agent("ada"), 1), Stance::Deny);
}

#[test]
fn a_forbid_that_approval_lifts_asks() {
    let text = "@reason(\"mail leaves the house\") forbid (principal, action == Action::\"call mail/send\", resource) unless { context.approved };";
    assert_eq!(mail(text, json!({ "to": "x" })), "ask by policy p: mail leaves the house");
    // A permit that takes an approval asks as well.
    let policies = load(
        "@id(\"q\") permit (principal, action in Action::\"call\", resource) when { context.approved };",
    )
    .unwrap();
    assert_eq!(
        said(&call(&policies, &Caller::agent("ada"), &tools()[0], &json!({ "to": "x" }))),
        "ask by policy q"
    );
    // Another forbid stays, and is the named one.
    let both =
        format!("{ALL}{text} @id(\"never\") forbid (principal, action in Action::\"call\", resource);");
    let vote = call(&load(&both).unwrap(), &Caller::agent("ada"), &tools()[0], &json!({ "to": "x" }));
    assert_eq!(said(&vote), "deny by policy never");
    // Nobody can be asked about the rest.
    let policies =
        load("permit (principal, action == Action::\"administer\", resource) when { context.approved };")
            .unwrap();
    assert_eq!(
        ask(&policies, &Caller::agent("ada"), Action::Administer, PolicyResource::Runtime, None).stance,
        Stance::Deny
    );
}

#[test]
fn conditions_on_arguments() {
    let forbid = |condition: &str| {
        format!("forbid (principal, action == Action::\"call mail/send\", resource) when {{ {condition} }};")
    };
    let cases: [(&str, Value, Value); 7] = [
        (
            "context.arguments.to like \"*@evil.org\"",
            json!({ "to": "a@evil.org" }),
            json!({ "to": "a@good.org" }),
        ),
        (
            "context.arguments has cc && context.arguments.cc == \"eve\"",
            json!({ "to": "x", "cc": "eve" }),
            json!({ "to": "x", "cc": null }),
        ),
        (
            "context.arguments has copies && context.arguments.copies > 3",
            json!({ "to": "x", "copies": 4.0 }),
            json!({ "to": "x", "copies": 3 }),
        ),
        (
            "context.arguments has urgent && context.arguments.urgent",
            json!({ "to": "x", "urgent": true }),
            json!({ "to": "x", "urgent": false }),
        ),
        (
            "context.arguments has tags && context.arguments.tags.contains(\"all\")",
            json!({ "to": "x", "tags": ["b", "all"] }),
            json!({ "to": "x", "tags": [] }),
        ),
        (
            "context.arguments has options && context.arguments.options has mode && context.arguments.options.mode == \"fast\"",
            json!({ "to": "x", "options": { "mode": "fast", "weight": 0.5 } }),
            json!({ "to": "x", "options": { "mode": "slow", "weight": 0.5 } }),
        ),
        (
            "context.arguments has options.mode && context.arguments.options.mode == \"fast\"",
            json!({ "to": "x", "options": { "mode": "fast" } }),
            json!({ "to": "x", "options": {} }),
        ),
    ];
    for (condition, forbidden, fine) in cases {
        assert_eq!(mail(&forbid(condition), forbidden), "deny by policy p", "{condition}");
        assert_eq!(mail(&forbid(condition), fine), "allow by policy all", "{condition}");
    }
}

#[test]
fn circumstances_count_and_are_not_mixed_up() {
    let text = format!(
        "{ALL}@id(\"labels\") forbid (principal, action, resource) when {{ context.labels.contains(\"untrusted\") }};\n\
         @id(\"late\") forbid (principal, action, resource) when {{ context.now > 2000 }};\n\
         @id(\"web\") forbid (principal, action, resource) when {{ context.channel == \"http\" }};\n\
         @id(\"session\") forbid (principal, action, resource) when {{ context has session && context.session == \"s-1\" }};"
    );
    let policies = load(&text).unwrap();
    let tools = tools();
    let rule = |caller: Caller, labels: LabelSet, second: i64| {
        let now = helve_core_now(second);
        let request = PolicyRequest {
            caller: &caller,
            action: Action::List,
            resource: PolicyResource::Tool(&tools[0]),
            arguments: None,
            labels,
            now,
        };
        policies.rule(&request).by.to_string()
    };
    // Twice, so that the second round finds what the first one kept.
    for _ in 0..2 {
        let ada = || Caller::agent("ada");
        assert_eq!(rule(ada(), LabelSet::NONE, 1000), "policy all");
        assert_eq!(rule(ada(), LabelSet::NONE.with(Label::Untrusted), 1000), "policy labels");
        assert_eq!(rule(ada(), LabelSet::NONE.with(Label::Private), 1000), "policy all");
        assert_eq!(rule(ada(), LabelSet::NONE, 3000), "policy late");
        assert_eq!(rule(ada().channel(Channel::Http), LabelSet::NONE, 1000), "policy web");
        assert_eq!(rule(ada().session("s-1"), LabelSet::NONE, 1000), "policy session");
        assert_eq!(rule(ada().session("s-2"), LabelSet::NONE, 1000), "policy all");
    }
}

fn helve_core_now(second: i64) -> jiff::Timestamp {
    jiff::Timestamp::from_second(second).unwrap()
}

#[test]
fn a_policy_that_fails_denies() {
    let overflow = "forbid (principal, action == Action::\"call mail/send\", resource) when { context.arguments has copies && context.arguments.copies * 2 > 10 };";
    let said = mail(overflow, json!({ "to": "x", "copies": i64::MAX }));
    assert!(
        said.starts_with("deny by policy p: the policy failed, and a policy that fails denies: "),
        "{said}"
    );
    // A failing permit denies too, though another one would permit.
    let said = mail(&overflow.replace("forbid", "permit"), json!({ "to": "x", "copies": i64::MAX }));
    assert!(said.starts_with("deny by policy p: the policy failed"), "{said}");
}

#[test]
fn an_argument_that_cannot_be_shown_denies_only_where_it_is_looked_at() {
    let text = "forbid (principal, action == Action::\"call mail/send\", resource) when { context.arguments has copies && context.arguments.copies > 3 };";
    for huge in [json!(u64::MAX), json!(1e30)] {
        assert_eq!(
            mail(text, json!({ "to": "x", "copies": huge })),
            "deny by policy: the argument `copies` cannot be shown to the policies that look at it"
        );
    }
    assert_eq!(mail(text, json!({ "to": "x", "price": 0.5, "extra": [1] })), "allow by policy all");
    let other =
        "forbid (principal, action in Action::\"call\", resource) when { context.arguments has price };";
    // A policy for all tools may look at what one of them does not show: then that call is denied.
    let policies = load(&format!("{ALL}{other}")).unwrap();
    let vote = call(&policies, &Caller::agent("ada"), &tools()[0], &json!({ "to": "x", "price": 0.5 }));
    assert_eq!(
        said(&vote),
        "deny by policy: the argument `price` cannot be shown to the policies that look at it"
    );
    // A call without arguments yet is not let through either.
    let policies = load(&format!("{ALL}{text}")).unwrap();
    assert_eq!(
        ask(&policies, &Caller::agent("ada"), Action::Call, PolicyResource::Tool(&tools()[0]), None).stance,
        Stance::Deny
    );
}

#[test]
fn a_tool_that_came_or_changed_later_is_checked_when_it_is_called() {
    let text = format!(
        "{ALL}@id(\"p\") forbid (principal, action == Action::\"call crm/find\", resource) when {{ context.arguments.who == \"boss\" }};"
    );
    let awaited = ["crm".to_owned()];
    let policies =
        Policies::load(&[PolicyFile::new("p.cedar", text)], Vocabulary { tools: &[], awaited: &awaited })
            .unwrap();
    assert!(policies.warnings()[0].message.contains("`crm/find` is not here now"));
    let find = |kind: Value| {
        tool(
            "crm/find",
            Risk::Low,
            json!({ "type": "object", "required": ["who"], "properties": { "who": kind } }),
        )
    };
    let rule = |kind: Value, who: Value| {
        said(&call(&policies, &Caller::agent("ada"), &find(kind), &json!({ "who": who })))
    };
    assert_eq!(rule(json!({ "type": "string" }), json!("boss")), "deny by policy p");
    assert_eq!(rule(json!({ "type": "string" }), json!("me")), "allow by policy all");
    // A list is never equal to a text: without the check, the policy would silently be void.
    let changed = rule(json!({ "type": "array", "items": { "type": "string" } }), json!(["boss"]));
    assert!(
        changed.starts_with("deny by policy: a policy does not fit the tool `crm/find` as it is now"),
        "{changed}"
    );
    let hidden = rule(json!({}), json!("boss"));
    assert!(hidden.contains("policies cannot see the argument `who`"), "{hidden}");
}

/// A tool whose only argument, which it needs, is of this type.
fn of(name: &str, argument: &str, kind: Value) -> Tool {
    let schema = json!({ "type": "object", "required": [argument], "properties": { argument: kind } });
    tool(name, Risk::Low, schema)
}

#[test]
fn a_policy_on_two_tools_that_come_later_holds_for_each() {
    let text = format!(
        "{ALL}@id(\"p\") forbid (principal, action in [Action::\"call gh/create\", Action::\"call gh/close\"], resource)\n\
         when {{ context.arguments.repo == \"x\" }};\n\
         @id(\"q\") forbid (principal, action in [Action::\"call gh/create\", Action::\"call gh/close\"], resource)\n\
         when {{ context.arguments has number && context.arguments.number == 3 }};\n\
         @id(\"r\") forbid (principal, action in Action::\"call\", resource)\n\
         when {{ action == Action::\"call gh/label\" && context.arguments.color == \"red\" }};"
    );
    let awaited = ["gh".to_owned()];
    let known = Vocabulary { tools: &[], awaited: &awaited };
    let policies = Policies::load(&[PolicyFile::new("p.cedar", text)], known).unwrap();
    let rule =
        |tool: &Tool, arguments: Value| said(&call(&policies, &Caller::agent("ada"), tool, &arguments));
    let text = || json!({ "type": "string" });
    for name in ["gh/create", "gh/close"] {
        assert_eq!(rule(&of(name, "repo", text()), json!({ "repo": "x" })), "deny by policy p", "{name}");
        assert_eq!(rule(&of(name, "repo", text()), json!({ "repo": "y" })), "allow by policy all", "{name}");
        let changed = rule(&of(name, "repo", json!({ "type": "integer" })), json!({ "repo": 1 }));
        assert!(changed.contains("a policy does not fit the tool"), "{changed}");
    }
    let both = json!({ "type": "object", "required": ["repo"],
        "properties": { "repo": { "type": "string" }, "number": { "type": "integer" } } });
    let close = tool("gh/close", Risk::Low, both);
    assert_eq!(rule(&close, json!({ "repo": "y", "number": 3 })), "deny by policy q");
    let label = of("gh/label", "color", text());
    assert_eq!(rule(&label, json!({ "color": "red" })), "deny by policy r");
    assert_eq!(rule(&label, json!({ "color": "blue" })), "allow by policy all");
}

#[test]
fn a_policy_on_a_tool_and_one_that_comes_later_is_checked_against_the_first_at_once() {
    let awaited = ["crm".to_owned()];
    let load = |kind: Value, condition: &str| {
        let text = format!(
            "{ALL}@id(\"p\") forbid (principal, action in [Action::\"call mail/send\", Action::\"call crm/find\"], resource)\n\
             when {{ {condition} }};"
        );
        let tools = [of("mail/send", "to", kind)];
        let known = Vocabulary { tools: &tools, awaited: &awaited };
        let policies = Policies::load(&[PolicyFile::new("p.cedar", text)], known);
        policies.map(|policies| (policies, tools)).map_err(|findings| findings[0].to_string())
    };
    let (text, list) =
        (json!({ "type": "string" }), json!({ "type": "array", "items": { "type": "string" } }));
    // A list is never equal to a text: unless that is found, the policy would silently be void.
    let wrong = load(list, "context.arguments.to == \"boss\"").map(|_| ()).unwrap_err();
    assert!(wrong.contains("p.cedar"), "{wrong}");

    let (policies, [send]) = load(text.clone(), "context.arguments.to == \"boss\"").unwrap();
    let rule =
        |tool: &Tool, arguments: Value| said(&call(&policies, &Caller::agent("ada"), tool, &arguments));
    assert_eq!(rule(&send, json!({ "to": "boss" })), "deny by policy p");
    assert_eq!(rule(&send, json!({ "to": "me" })), "allow by policy all");
    assert_eq!(rule(&of("crm/find", "to", text.clone()), json!({ "to": "boss" })), "deny by policy p");

    // What only the one to come has is no mistake.
    let condition = "context.arguments has who && context.arguments.who == \"boss\"";
    let (policies, [send]) = load(text.clone(), condition).unwrap();
    let rule =
        |tool: &Tool, arguments: Value| said(&call(&policies, &Caller::agent("ada"), tool, &arguments));
    assert_eq!(rule(&send, json!({ "to": "boss" })), "allow by policy all");
    assert_eq!(rule(&of("crm/find", "who", text), json!({ "who": "boss" })), "deny by policy p");
}

#[test]
fn a_project_can_only_narrow() {
    let tools = tools();
    let rule = |files: &[PolicyFile], caller: &Caller, tool: usize| {
        let policies = Policies::load(files, Vocabulary::tools(&tools)).unwrap();
        said(&call(&policies, caller, &tools[tool], &json!({ "to": "x" })))
    };
    let ada = Caller::agent("ada");
    let project = |text: &str| PolicyFile::narrowing("project.cedar", text);
    let wide = project("permit (principal, action, resource);");
    // Not more than the default.
    assert_eq!(
        rule(std::slice::from_ref(&wide), &Caller::anonymous(), 0),
        "deny by policy no-anonymous: say who you are: callers without a name may do nothing"
    );
    assert!(rule(std::slice::from_ref(&wide), &ada, 2).starts_with("ask by policy critical-tools-ask"));
    // Not more than the user's own.
    let own = PolicyFile::new(
        "own.cedar",
        "permit (principal, action in Action::\"call\", resource == Tool::\"mail/send\");",
    );
    assert_eq!(rule(&[own.clone(), wide.clone()], &ada, 1), "deny by policy: no policy permits it");
    assert_eq!(rule(&[own.clone(), wide], &ada, 0), "allow by policy own.cedar:1, project.cedar:1");
    // Less: by a forbid alone, or by permitting less.
    let forbids = project(
        "@id(\"no\") forbid (principal, action in Action::\"call\", resource == Tool::\"mail/send\");",
    );
    assert_eq!(rule(std::slice::from_ref(&forbids), &ada, 0), "deny by policy no");
    assert_eq!(rule(std::slice::from_ref(&forbids), &ada, 1), "allow by policy named-callers");
    let permits = project("permit (principal, action in Action::\"call\", resource == Tool::\"mail/send\");");
    assert_eq!(rule(std::slice::from_ref(&permits), &ada, 1), "deny by policy: no policy permits it");
    assert!(rule(&[permits], &ada, 0).starts_with("allow"));
    // A copy of the policy that ships is no clash of names.
    let copy = PolicyFile::narrowing("copy.cedar", helve_policy::DEFAULT_POLICY);
    assert_eq!(rule(&[copy], &ada, 0), "allow by policy named-callers, named-callers (copy.cedar)");
}

#[test]
fn a_broken_set_denies_everything_and_says_why() {
    let policies = Policies::broken("policy.cedar cannot be read");
    for action in Action::ALL {
        let vote = ask(
            &policies,
            &Caller::local().as_ref().clone().roles(["admin"]),
            action,
            PolicyResource::Runtime,
            None,
        );
        assert_eq!(said(&vote), "deny by policy: policy.cedar cannot be read");
    }
    assert_eq!(policies.is_broken(), Some("policy.cedar cannot be read"));
}

#[test]
fn an_explanation_names_every_policy_that_applies() {
    let text = format!(
        "{ALL}@id(\"ask\") forbid (principal, action in Action::\"call\", resource) unless {{ context.approved }};\n\
        @id(\"other\") forbid (principal, action == Action::\"list\", resource);"
    );
    let policies = load(&text).unwrap();
    let tools = tools();
    let caller = Caller::agent("ada");
    let request = PolicyRequest {
        caller: &caller,
        action: Action::Call,
        resource: PolicyResource::Tool(&tools[0]),
        arguments: Some(&json!({ "to": "x" })),
        labels: LabelSet::NONE,
        now: helve_core_now(0),
    };
    let explanation = policies.explain(&request);
    let applied: Vec<_> =
        explanation.applied.iter().map(|one| (one.statement.name.as_str(), one.decided, one.asks)).collect();
    assert_eq!(applied, [("all", false, false), ("ask", true, true)]);
    assert_eq!((explanation.policies, explanation.considered, explanation.kept), (3, 2, true));
    assert!(explanation.applied[1].statement.text.contains("unless { context.approved }"));
    assert_eq!(explanation.applied[1].statement.line, 2);
}

#[test]
fn a_thousand_policies() {
    let text: String = (0..1000)
        .map(|index| format!("@id(\"p{index}\") permit (principal == Agent::\"a{index}\", action in Action::\"call\", resource) when {{ context.arguments has to }};\n"))
        .collect();
    let policies = load(&text).unwrap();
    for index in [0, 500, 999] {
        let caller = Caller::agent(format!("a{index}"));
        assert_eq!(
            said(&call(&policies, &caller, &tools()[0], &json!({ "to": "x" }))),
            format!("allow by policy p{index}")
        );
    }
    assert_eq!(call(&policies, &Caller::agent("b"), &tools()[0], &json!({ "to": "x" })).stance, Stance::Deny);
}
