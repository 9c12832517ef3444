use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use helve::formats::Format;
use helve::{
    Call, Category, ErrorCode, Filter, Layer, Registry, RegistryError, Risk, Runtime, Source, Tool, Workspace,
};
use serde_json::json;

use crate::support::echo;

fn tool(name: &str) -> Tool {
    echo(name).build().unwrap()
}

fn names(found: impl IntoIterator<Item = helve::Registered>) -> Vec<String> {
    found.into_iter().map(|registered| registered.name().to_string()).collect()
}

#[test]
fn a_duplicate_is_refused_and_a_replacement_is_explicit() {
    let registry = Registry::default();
    registry.register(Layer::Project, tool("a")).unwrap();
    let refused = registry.register(Layer::Project, tool("a")).unwrap_err();
    assert!(matches!(refused, RegistryError::Duplicate { .. }), "{refused}");
    registry.replace(Layer::Project, echo("a").description("Another one.").build().unwrap()).unwrap();
    assert_eq!(registry.get("a").unwrap().tool.definition().description, "Another one.");
    assert!(matches!(registry.replace(Layer::Project, tool("b")), Err(RegistryError::NotFound { .. })));
    assert!(matches!(registry.unregister(Layer::Org, "a"), Err(RegistryError::NotFound { .. })));
    registry.unregister(Layer::Project, "a").unwrap();
    assert!(!registry.has("a") && registry.is_empty());
}

#[test]
fn no_two_tools_answer_to_one_name() {
    let registry = Registry::default();
    registry.register(Layer::Project, echo("mail/send").alias("send").build().unwrap()).unwrap();
    for taken in [
        echo("send").build().unwrap(),
        echo("other").alias("send").build().unwrap(),
        echo("other").alias("mail/send").build().unwrap(),
        echo("other").alias("mail__send").build().unwrap(),
    ] {
        let refused = registry.register(Layer::Org, taken).unwrap_err();
        assert!(matches!(refused, RegistryError::Taken { .. }), "{refused}");
    }
    // Freed with its owner.
    registry.unregister(Layer::Project, "mail/send").unwrap();
    registry.register(Layer::Project, tool("send")).unwrap();
}

#[test]
fn many_are_registered_all_or_none() {
    let registry = Registry::with_limit(3);
    assert!(registry.register_many(Layer::Project, [tool("a"), tool("b"), tool("a")]).is_err());
    assert!(registry.is_empty());
    let refused = registry.register_many(Layer::Project, ["a", "b", "c", "d"].map(tool)).unwrap_err();
    assert_eq!(refused.to_string(), "the registry holds 3 tools, its limit; raise `registry.tools_max`");
    assert!(registry.is_empty());
    registry.register_many(Layer::Project, ["a", "b", "c"].map(tool)).unwrap();
    assert_eq!(registry.len(), 3);
}

#[test]
fn the_default_limit_is_a_thousand() {
    let registry = Registry::default();
    registry.register_many(Layer::Project, (0..1_000).map(|n| tool(&format!("t{n}")))).unwrap();
    assert!(matches!(
        registry.register(Layer::Project, tool("one-more")),
        Err(RegistryError::Full { tools_max: 1_000 })
    ));
}

#[test]
fn layers_override_from_built_in_over_org_to_project() {
    let registry = Registry::default();
    let says = |text: &str| echo("who").description(text).build().unwrap();
    registry.register(Layer::Project, says("the project's")).unwrap();
    registry.register(Layer::BuiltIn, says("the built-in")).unwrap();
    registry.register(Layer::Org, says("the org's")).unwrap();
    let effective = registry.get("who").unwrap();
    assert_eq!((effective.layer, effective.overrides), (Layer::Project, vec![Layer::Org, Layer::BuiltIn]));
    assert_eq!(registry.len(), 1);
    registry.unregister(Layer::Project, "who").unwrap();
    assert_eq!(registry.get("who").unwrap().tool.definition().description, "the org's");
}

#[test]
fn a_workspace_names_its_tools_by_toolbox() {
    let workspace = Workspace::builder()
        .toolbox("mail")
        .tool(echo("send"))
        .tool(tool("read"))
        .toolbox("acme/crm")
        .tool(echo("find"))
        .done()
        .tool(echo("ping"))
        .build()
        .unwrap();
    let registry = Registry::default();
    registry.register_workspace(Layer::Org, workspace).unwrap();
    assert_eq!(names(registry.list(&Filter::default())), ["acme/crm/find", "mail/read", "mail/send", "ping"]);
    assert!(Workspace::builder().toolbox("a b").tool(echo("x")).build().is_err());
    assert!(Workspace::builder().toolbox("a/b/c").tool(echo("x")).build().is_err());
}

#[test]
fn lists_are_filtered_by_every_field() {
    let registry = Registry::default();
    registry.register(Layer::BuiltIn, echo("plain").source(Source::Builtin).build().unwrap()).unwrap();
    registry
        .register(Layer::Org, echo("acme/mail/send").risk(Risk::High).integration("gmail").build().unwrap())
        .unwrap();
    registry.register(Layer::Project, echo("mail/find").category(Category::Search).build().unwrap()).unwrap();
    let check =
        |filter: Filter, expected: &[&str]| assert_eq!(names(registry.list(&filter)), expected, "{filter:?}");
    let any = Filter::default;
    check(Filter { category: Some(Category::Search), ..any() }, &["mail/find"]);
    check(Filter { source: Some(Source::Builtin), ..any() }, &["plain"]);
    check(Filter { risk: Some(Risk::High), ..any() }, &["acme/mail/send"]);
    check(Filter { namespace: Some("mail".into()), ..any() }, &["mail/find"]);
    check(Filter { namespace: Some("acme".into()), ..any() }, &["acme/mail/send"]);
    check(Filter { namespace: Some("ma".into()), ..any() }, &[]);
    check(Filter { integration: Some("gmail".into()), ..any() }, &["acme/mail/send"]);
    check(Filter { layer: Some(Layer::Org), ..any() }, &["acme/mail/send"]);
    check(Filter { layer: Some(Layer::Org), risk: Some(Risk::Low), ..any() }, &[]);
}

#[test]
fn search_ranks_names_over_texts_and_knows_parameters() {
    let registry = Registry::default();
    let described = |name: &str, description: &str, when: &str, parameter: &str| {
        Tool::builder(name)
            .description(description)
            .when_to_use(when)
            .input_schema(json!({ "type": "object", "properties": { parameter: { "type": "string" } } }))
            .handler(|_, _| async { Ok(json!(null)) })
            .build()
            .unwrap()
    };
    registry
        .register_many(
            Layer::Project,
            [
                described(
                    "send_email",
                    "Delivers a message.",
                    "When the user says send.",
                    "recipientAddress",
                ),
                described(
                    "list_tasks",
                    "Lists to-dos, also those made from emails.",
                    "For chores.",
                    "assignee",
                ),
                described("weather", "Tells the forecast.", "When asked about rain.", "city"),
            ],
        )
        .unwrap();
    let search = |words: &str| names(registry.search(words, 10).into_iter().map(|hit| hit.registered));
    assert_eq!(search("email"), ["send_email", "list_tasks"]);
    assert_eq!(search("will it RAIN?"), ["weather"]);
    assert_eq!(search("recipient"), ["send_email"]);
    assert_eq!(search("emails"), search("email"));
    assert!(search("").is_empty() && search("blockchain").is_empty());
    assert_eq!(registry.search("email tasks weather", 2).len(), 2);
    assert_eq!(names(registry.matching("*_*")), ["list_tasks", "send_email"]);
}

#[test]
fn reads_never_wait_for_a_writer() {
    let registry = Registry::with_limit(100_000);
    registry.register(Layer::Project, tool("fixed")).unwrap();
    let done = Arc::new(AtomicBool::new(false));
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    // A snapshot is whole: what it lists it also finds.
                    let snapshot = registry.snapshot();
                    let listed = snapshot.sorted().len();
                    assert_eq!(listed, snapshot.len());
                    assert!(registry.has("fixed"));
                }
            });
        }
        for number in 0..300 {
            registry.register(Layer::Project, tool(&format!("t{number}"))).unwrap();
        }
        done.store(true, Ordering::Relaxed);
    });
    assert_eq!(registry.len(), 301);
}

#[test]
fn an_export_is_made_once_until_a_tool_changes() {
    let registry = Registry::default();
    registry.register(Layer::Project, tool("mail/send")).unwrap();
    for format in Format::ALL {
        let first = registry.export(format);
        assert!(Arc::ptr_eq(&first, &registry.export(format)), "{format}");
        assert!(first.to_string().contains("mail"), "{format}: {first}");
    }
    let before = registry.export(Format::Anthropic);
    registry.register(Layer::Project, tool("ping")).unwrap();
    assert_eq!(
        (before.as_array().unwrap().len(), registry.export(Format::Anthropic).as_array().unwrap().len()),
        (1, 2)
    );
}

#[tokio::test]
async fn nobody_is_told_to_call_a_broken_tool_again() {
    let runtime = Runtime::builder().build();
    let covers = helve::registry::Covers::Tool("bad".to_owned());
    let reason = "its definition cannot be used".to_owned();
    runtime.registry().set_broken(vec![helve::registry::Broken { layer: Layer::Project, covers, reason }]);
    let outcome = runtime.call(Call::new("bad", json!({}))).await;
    let error = outcome.error().unwrap();
    assert_eq!(error.code(), ErrorCode::PreconditionFailed);
    assert!(error.did_nothing() && !error.is_retryable(), "{error:?}");
}
