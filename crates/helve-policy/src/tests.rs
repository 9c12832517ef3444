//! Leaving out policies and keeping answers changes nothing.

use helve_core::ports::Policy as _;
use helve_core::{
    Action, Caller, Category, Channel, Context, Label, LabelSet, PolicyRequest, PolicyResource,
    PrincipalKind, Risk, Stance, Tool, ToolError,
};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::guard::Guard;
use crate::plan::{ChosenSets, GUARDED_BYTES_MAX};
use crate::{Policies, PolicyFile, Vocabulary};

fn tool(name: &str, risk: Risk) -> Tool {
    async fn run(_: Value, _: Context) -> Result<Value, ToolError> {
        Ok(Value::Null)
    }
    Tool::builder(name)
        .description("Does something for a test.")
        .risk(risk)
        .category(Category::Custom)
        .input_schema(json!({
            "type": "object",
            "properties": {
                "to": { "type": "string" },
                "count": { "type": "integer" },
                "flag": { "type": "boolean" },
                "tags": { "type": "array", "items": { "type": "string" } },
            },
        }))
        .handler(run)
        .build()
        .unwrap()
}

fn head(kind: &'static str) -> impl Strategy<Value = String> {
    let one = match kind {
        "principal" => vec![
            "principal",
            "principal is Agent",
            "principal == User::\"ada\"",
            "principal == Agent::\"ada\"",
            "principal in Role::\"admin\"",
            "principal is User in Role::\"ops\"",
        ],
        "action" => vec![
            "action",
            "action == Action::\"list\"",
            "action in Action::\"call\"",
            "action == Action::\"call a/x\"",
            "action in [Action::\"list\", Action::\"call b\"]",
            "action == Action::\"administer\"",
        ],
        _ => vec![
            "resource",
            "resource is Tool",
            "resource == Tool::\"a/x\"",
            "resource in Namespace::\"a\"",
            "resource is Tool in Namespace::\"a\"",
            "resource == Runtime::\"helve\"",
            "resource is Served",
        ],
    };
    proptest::sample::select(one).prop_map(str::to_owned)
}

fn condition() -> impl Strategy<Value = String> {
    proptest::sample::select(vec![
        "",
        "when { principal.anonymous }",
        "unless { context.approved }",
        "when { context.labels.contains(\"untrusted\") }",
        "when { context.channel == \"http\" }",
        "when { context.now > 1000 }",
        "when { context has session }",
        "when { context has arguments && context.arguments has to && context.arguments.to like \"*evil*\" }",
        "when { context has arguments && context.arguments has count && context.arguments.count + 1 > 5 }",
        "when { principal.roles.contains(\"ops\") }",
        "when { resource is Tool && resource.risk_level > 1 } unless { context.approved }",
        "when { resource in Namespace::\"a\" }",
        "when { action in Action::\"call\" }",
    ])
    .prop_map(str::to_owned)
}

fn policy() -> impl Strategy<Value = String> {
    (any::<bool>(), head("principal"), head("action"), head("resource"), condition(), condition()).prop_map(
        |(permit, principal, action, resource, one, two)| {
            let effect = if permit { "permit" } else { "forbid" };
            format!("{effect} ({principal}, {action}, {resource}) {one} {two};\n")
        },
    )
}

#[derive(Debug, Clone)]
struct Asked {
    caller: Caller,
    action: Action,
    resource: usize,
    arguments: Value,
    labels: LabelSet,
    second: i64,
}

fn asked() -> impl Strategy<Value = Asked> {
    let caller = (
        proptest::option::of(proptest::sample::select(vec!["ada", "bob"])),
        proptest::sample::select(PrincipalKind::ALL.to_vec()),
        proptest::sample::subsequence(vec!["admin", "ops"], 0..=2),
        proptest::sample::select(vec![Channel::Http, Channel::Cli]),
        proptest::option::of(Just("s-1".to_owned())),
    )
        .prop_map(|(name, kind, roles, channel, session)| {
            let mut caller = name
                .map_or_else(Caller::anonymous, Caller::principal)
                .kind(kind)
                .roles(roles)
                .channel(channel);
            caller.session = session;
            caller
        });
    let arguments = proptest::sample::select(vec![
        json!({}),
        json!({ "to": "evil@x" }),
        json!({ "to": "ada", "count": 9 }),
        json!({ "count": i64::MAX }),
        json!({ "to": null }),
    ]);
    (
        caller,
        proptest::sample::select(vec![Action::List, Action::Call, Action::Administer, Action::ReadResource]),
        0usize..4,
        arguments,
        any::<bool>().prop_map(|is| if is { LabelSet::NONE.with(Label::Untrusted) } else { LabelSet::NONE }),
        proptest::sample::select(vec![5i64, 5000]),
    )
        .prop_map(|(caller, action, resource, arguments, labels, second)| Asked {
            caller,
            action,
            resource,
            arguments,
            labels,
            second,
        })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn index_and_cache_change_nothing(
        deciding in proptest::collection::vec(policy(), 0..8),
        narrowing in proptest::collection::vec(policy(), 0..3),
        requests in proptest::collection::vec(asked(), 1..12),
    ) {
        let tools = [tool("a/x", Risk::Low), tool("b", Risk::Critical)];
        let files = [PolicyFile::new("one", deciding.concat()), PolicyFile::narrowing("two", narrowing.concat())];
        // Some of these policies can never apply, which the check refuses; here they must do no harm.
        let policies = Policies::unchecked(&files, &tools);
        let loaded = policies.state.as_ref().unwrap();
        for asked in &requests {
            let request = PolicyRequest {
                caller: &asked.caller,
                action: asked.action,
                resource: match asked.resource {
                    // Only tools are called.
                    index if asked.action == Action::Call => PolicyResource::Tool(&tools[index % 2]),
                    0 | 1 => PolicyResource::Tool(&tools[asked.resource]),
                    2 => PolicyResource::Served { server: "s", name: "n" },
                    _ => PolicyResource::Runtime,
                },
                arguments: (asked.action == Action::Call).then_some(&asked.arguments),
                labels: asked.labels,
                now: jiff::Timestamp::from_second(asked.second).unwrap(),
            };
            let plain = loaded.answer(&loaded.open_with(&request, |_, _| true).unwrap(), &request);
            for _ in 0..2 {
                prop_assert_eq!(&policies.rule(&request), &plain, "{:?}", asked);
            }
        }
    }
}

/// A condition of several, many of which are about arguments and some of which fail.
fn conjunction() -> impl Strategy<Value = String> {
    let one = proptest::sample::select(vec![
        "context has arguments",
        "context.arguments has to",
        "context.arguments has count",
        "context.arguments has flag",
        "context.arguments has to.deep",
        "context.arguments.to == \"ada\"",
        "\"ada\" == context.arguments.to",
        "context.arguments.to == \"\"",
        "context.arguments.to == User::\"ada\"",
        "context.arguments.count == 9",
        "context.arguments.count == \"9\"",
        "context.arguments.flag == true",
        "context.arguments.tags == \"ada\"",
        "context.arguments.to == context.arguments.to",
        "context.arguments.to like \"*a\"",
        "context.arguments.count + 1 > 5",
        "context.arguments.flag",
        "context.arguments.to",
        "context.approved",
        "\"a\" == \"b\"",
    ]);
    let many = proptest::collection::vec(one, 1..5).prop_map(|all| all.join(" && "));
    // Brackets on the right, something that is not a conjunction, and the other kind of clause.
    (many.clone(), many, 0..6).prop_map(|(one, two, form)| match form {
        0 | 1 => format!("when {{ {one} }}"),
        2 => format!("when {{ {one} && ({two}) }}"),
        3 => format!("when {{ ({one}) || {two} }}"),
        4 => format!("when {{ {one} }} unless {{ {two} }}"),
        _ => format!("unless {{ {one} }} when {{ {two} }}"),
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn leaving_out_policies_by_their_guards_changes_nothing(
        conditions in proptest::collection::vec((any::<bool>(), any::<bool>(), conjunction()), 1..6),
        has_permit in any::<bool>(),
        requests in proptest::collection::vec(
            proptest::sample::select(vec![
                json!({}),
                json!({ "to": "ada" }),
                json!({ "to": "", "count": 9 }),
                json!({ "to": "ada", "count": 9.0, "flag": true }),
                json!({ "to": null, "count": i64::MAX, "flag": false }),
                json!({ "to": "ada", "count": 9.5 }),
                json!({ "tags": ["ada"], "to": "ada", "flag": true }),
                json!([]),
            ]),
            1..6,
        ),
    ) {
        let tools = [tool("a/x", Risk::Low)];
        let policy = |(permits, calls, condition): &(bool, bool, String)| {
            let effect = if *permits { "permit" } else { "forbid" };
            let action = if *calls { "action in Action::\"call\"" } else { "action" };
            format!("{effect} (principal, {action}, resource) {condition};\n")
        };
        let mut text: String = conditions.iter().map(policy).collect();
        if has_permit {
            text.push_str("permit (principal, action, resource);");
        }
        let files = [PolicyFile::new("one", text)];
        let (guarded, mut plain) = (Policies::unchecked(&files, &tools), Policies::unchecked(&files, &tools));
        for parsed in &mut plain.state.as_mut().unwrap().policies {
            parsed.guard = Guard::default();
        }
        let caller = Caller::principal("ada");
        for arguments in &requests {
            for action in [Action::Call, Action::List] {
                let request = PolicyRequest {
                    caller: &caller,
                    action,
                    resource: PolicyResource::Tool(&tools[0]),
                    arguments: (action == Action::Call).then_some(arguments),
                    labels: LabelSet::NONE,
                    now: jiff::Timestamp::UNIX_EPOCH,
                };
                prop_assert_eq!(guarded.rule(&request), plain.rule(&request), "{}", arguments);
            }
        }
    }
}

#[test]
fn of_many_policies_on_arguments_cedar_is_asked_about_those_that_may_apply() {
    let forbid = |article: usize| {
        format!(
            "forbid (principal, action in Action::\"call\", resource) \
             when {{ context.arguments has to && context.arguments.to == \"b-{article}\" }};\n"
        )
    };
    let text: String =
        (0..50).map(forbid).chain(["permit (principal, action, resource);".to_owned()]).collect();
    let tools = [tool("a/x", Risk::Low)];
    let policies = Policies::unchecked(&[PolicyFile::new("one", text)], &tools);
    let caller = Caller::principal("ada");
    for (to, stance) in
        [("a", Stance::Allow), ("b-7", Stance::Deny), ("b-8", Stance::Deny), ("c", Stance::Allow)]
    {
        let request = PolicyRequest {
            caller: &caller,
            action: Action::Call,
            resource: PolicyResource::Tool(&tools[0]),
            arguments: Some(&json!({ "to": to })),
            labels: LabelSet::NONE,
            now: jiff::Timestamp::UNIX_EPOCH,
        };
        assert_eq!(policies.rule(&request).stance, stance, "{to}");
    }
    let mut sizes = policies.state.as_ref().unwrap().guarded.sizes();
    sizes.sort_unstable();
    assert_eq!(sizes, [1, 2, 2]);
}

/// What sets were made for calls with these arguments.
fn asked_with<'p>(policies: &'p Policies, tool: &Tool, given: impl Iterator<Item = Value>) -> &'p ChosenSets {
    let caller = Caller::principal("ada");
    for arguments in given {
        let request = PolicyRequest {
            caller: &caller,
            action: Action::Call,
            resource: PolicyResource::Tool(tool),
            arguments: Some(&arguments),
            labels: LabelSet::NONE,
            now: jiff::Timestamp::UNIX_EPOCH,
        };
        assert_eq!(policies.rule(&request).stance, Stance::Allow, "{arguments}");
    }
    &policies.state.as_ref().unwrap().guarded
}

#[test]
fn sets_that_callers_choose_take_little_memory() {
    let fields = |count: usize, set: usize| {
        (0..count).filter(move |n| set >> n & 1 == 1).map(|n| (format!("f{n}"), json!("x")))
    };
    let long = "x".repeat(400_000);
    let forbid = |n: usize| {
        format!(
            "@note(\"{long}\") forbid (principal, action in Action::\"call\", resource) \
             when {{ context.arguments has f{n} && context.arguments.f{n} == \"no\" }};\n\
             @note(\"{long}\") forbid (principal, action in Action::\"call\", resource) \
             when {{ context.arguments has f{n} && context.arguments.f{n} == \"x\" && context.approved }};\n"
        )
    };
    let text: String =
        (0..6).map(forbid).chain(["permit (principal, action, resource);".to_owned()]).collect();
    let properties: serde_json::Map<_, _> =
        (0..6).map(|n| (format!("f{n}"), json!({ "type": "string" }))).collect();
    let tool = Tool::builder("a/x")
        .description("Does something for a test.")
        .input_schema(json!({ "type": "object", "properties": properties }))
        .handler(|_, _| std::future::ready(Ok(Value::Null)))
        .build()
        .unwrap();
    let policies = Policies::unchecked(&[PolicyFile::new("one", text)], std::slice::from_ref(&tool));
    let given = (0..64).map(|set| Value::Object(fields(6, set).collect()));
    let sets = asked_with(&policies, &tool, given);
    assert!(sets.bytes() > 400_000 && sets.bytes() <= GUARDED_BYTES_MAX, "{}", sets.bytes());
    assert!(sets.sizes().iter().sum::<usize>() * 400_000 <= 2 * GUARDED_BYTES_MAX, "{:?}", sets.sizes());
}

#[test]
fn no_set_is_made_that_leaves_out_few() {
    let forbid = |condition: String| {
        format!("forbid (principal, action in Action::\"call\", resource) when {{ {condition} }};\n")
    };
    let always = (0..50).map(|_| forbid("context.arguments has tags && context.approved".to_owned()));
    let some = (0..40).map(|n| {
        forbid(format!("context.arguments has count && context.arguments.count == {n} && context.approved"))
    });
    let text: String =
        always.chain(some).chain(["permit (principal, action, resource);".to_owned()]).collect();
    let tools = [tool("a/x", Risk::Low)];
    let policies = Policies::unchecked(&[PolicyFile::new("one", text)], &tools);
    let given = (0..40).map(|n| json!({ "count": n, "tags": [] }));
    let sizes = asked_with(&policies, &tools[0], given).sizes();
    assert!(sizes.is_empty(), "{sizes:?}");
}

#[test]
fn the_cache_is_bounded_and_never_mixes_requests() {
    let policies = Policies::load(
        &[PolicyFile::new("p", "permit (principal == User::\"u7\", action, resource) when { context.labels.contains(\"secret\") };")],
        Vocabulary::default(),
    )
    .unwrap();
    let tool = tool("a/x", Risk::Low);
    for index in 0..20_000 {
        let caller = Caller::principal(format!("u{index}"));
        for labels in [LabelSet::NONE, LabelSet::NONE.with(Label::Secret)] {
            let request = PolicyRequest {
                caller: &caller,
                action: Action::List,
                resource: PolicyResource::Tool(&tool),
                arguments: None,
                labels,
                now: jiff::Timestamp::UNIX_EPOCH,
            };
            let allowed = policies.rule(&request).stance == helve_core::Stance::Allow;
            assert_eq!(allowed, index == 7 && !labels.is_empty(), "u{index}");
        }
    }
    assert!(policies.state.as_ref().unwrap().cache.len() <= 8192);
}
