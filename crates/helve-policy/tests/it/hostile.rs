//! Input that was made to do harm.

use helve_core::{Caller, Risk, Stance};
use helve_policy::{Policies, PolicyFile, Vocabulary, schema};
use serde_json::{Value, json};

use crate::support::{call, load, said, tool, tools};

#[test]
fn arguments_never_become_entities() {
    let text = "@id(\"all\") permit (principal, action, resource);\n\
        @id(\"p\") forbid (principal, action == Action::\"call mail/send\", resource) when { context.arguments.to != \"me\" };";
    let policies = load(text).unwrap();
    let ada = Caller::agent("ada");
    for forged in [
        json!({ "to": { "__entity": { "type": "User", "id": "me" } } }),
        json!({ "to": { "__extn": { "fn": "ip", "arg": "1.2.3.4" } } }),
        json!({ "to": { "__expr": "User::\"me\"" } }),
    ] {
        assert_eq!(
            said(&call(&policies, &ada, &tools()[0], &forged)),
            "deny by policy: the argument `to` cannot be shown to the policies that look at it"
        );
    }
    let text = json!({ "to": "{\"__entity\": {\"type\": \"User\", \"id\": \"me\"}}", "__entity": { "type": "User", "id": "me" } });
    assert_eq!(said(&call(&policies, &ada, &tools()[0], &text)), "deny by policy p");
}

#[test]
fn deep_and_huge_arguments_are_no_trouble() {
    let text = "@id(\"all\") permit (principal, action, resource);\n\
        @id(\"p\") forbid (principal, action == Action::\"call mail/send\", resource) when { context.arguments.to like \"*evil*\" };";
    let policies = load(text).unwrap();
    let ada = Caller::agent("ada");
    let mut deep = json!(1);
    for _ in 0..100 {
        deep = json!([deep]);
    }
    let fine = json!({ "to": "x".repeat(1_000_000), "deep": deep, "many": vec![1; 100_000] });
    assert_eq!(call(&policies, &ada, &tools()[0], &fine).stance, Stance::Allow);
    let bad = json!({ "to": format!("{}evil", "e".repeat(1_000_000)) });
    assert_eq!(call(&policies, &ada, &tools()[0], &bad).stance, Stance::Deny);
    assert_eq!(call(&policies, &ada, &tools()[0], &json!({ "to": deep })).stance, Stance::Deny);
}

#[test]
fn weird_names_of_arguments_are_typed_like_others() {
    let weird = [
        "__entity",
        "__extn",
        "in",
        "has space",
        "quo\"te",
        "back\\slash",
        "new\nline",
        "",
        "ünï",
        "__cedar",
        "String",
        "'",
        "\u{202e}x",
    ];
    let properties: serde_json::Map<String, Value> =
        weird.iter().map(|key| ((*key).to_owned(), json!({ "type": "string" }))).collect();
    let tools = [tool("odd/one", Risk::Low, json!({ "type": "object", "properties": properties }))];
    assert!(schema(&tools).contains("\"has space\"?: String"));
    let text = "@id(\"all\") permit (principal, action, resource);\n\
        @id(\"p\") forbid (principal, action == Action::\"call odd/one\", resource)\n\
        when { context.arguments has \"quo\\\"te\" && context.arguments[\"quo\\\"te\"] == \"x\" };\n\
        @id(\"q\") forbid (principal, action == Action::\"call odd/one\", resource)\n\
        when { context.arguments has \"__entity\" && context.arguments[\"__entity\"] == \"x\" };";
    let policies = Policies::load(&[PolicyFile::new("p.cedar", text)], Vocabulary::tools(&tools)).unwrap();
    let ada = Caller::agent("ada");
    assert_eq!(said(&call(&policies, &ada, &tools[0], &json!({ "quo\"te": "x" }))), "deny by policy p");
    assert_eq!(said(&call(&policies, &ada, &tools[0], &json!({ "__entity": "x" }))), "deny by policy q");
    assert_eq!(said(&call(&policies, &ada, &tools[0], &json!({ "new\nline": "x" }))), "allow by policy all");
}

#[test]
fn names_of_callers_are_only_names() {
    let policies = load("permit (principal == User::\"ada\", action, resource);\npermit (principal in Role::\"admin\", action, resource);").unwrap();
    for name in ["ada\" , action, resource); permit (principal", "User::\"ada\"", "ada\0", "Ada", "", " ada"]
    {
        let caller = Caller::principal(name).roles(["Role::\"admin\"", "admin ", "Admin"]);
        assert_eq!(
            call(&policies, &caller, &tools()[0], &json!({ "to": "x" })).stance,
            Stance::Deny,
            "{name}"
        );
    }
}

#[test]
fn broken_text_is_refused_and_never_panics() {
    for text in [
        "(",
        "permit",
        "\u{0}",
        "permit (principal, action, resource) when { ",
        "\"",
        "/* ",
        &"(".repeat(100_000),
        &"permit(principal,action,resource);".repeat(100),
    ] {
        let _ = load(text);
    }
    let nested = format!(
        "permit (principal, action, resource) when {{ {}true{} }};",
        "(".repeat(20_000),
        ")".repeat(20_000)
    );
    let _ = load(&nested);
    let not = format!("permit (principal, action, resource) when {{ {}true }};", "!".repeat(10_000));
    let _ = load(&not);
}
