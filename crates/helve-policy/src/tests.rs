//! Leaving out policies and keeping answers changes nothing.

use helve_core::ports::Policy as _;
use helve_core::{
    Action, Caller, Category, Channel, Context, Label, LabelSet, PolicyRequest, PolicyResource,
    PrincipalKind, Risk, Tool, ToolError,
};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::{Known, Policies, PolicyFile};

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
            "properties": { "to": { "type": "string" }, "count": { "type": "integer" } },
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
            let plain = loaded.answer(&loaded.open(&request, |_, _| true).unwrap(), &request);
            for _ in 0..2 {
                prop_assert_eq!(&policies.rule(&request), &plain, "{:?}", asked);
            }
        }
    }
}

#[test]
fn the_cache_is_bounded_and_never_mixes_requests() {
    let policies = Policies::load(
        &[PolicyFile::new("p", "permit (principal == User::\"u7\", action, resource) when { context.labels.contains(\"secret\") };")],
        Known::default(),
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
