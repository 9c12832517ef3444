//! What is found when policies are loaded.

use helve_policy::{Policies, PolicyFile, Severity, Vocabulary, limits, schema};

use crate::support::{load, tools, wrong};

fn when(condition: &str) -> String {
    format!("permit (principal, action == Action::\"call mail/send\", resource)\nwhen {{ {condition} }};")
}

#[test]
fn typos_are_found_with_their_place_and_what_was_meant() {
    let found: Vec<_> = [
        "permit (principal, action == Action::\"lst\", resource);".to_owned(),
        "permit (principal, action in Action::\"call mail/sned\", resource);".to_owned(),
        "permit (principal, action == Action::\"call\", resource);".to_owned(),
        "permit (principal, action, resource == Tool::\"mail/snd\");".to_owned(),
        "permit (principal, action, resource in Namespace::\"mial\");".to_owned(),
        "permit (principal == Usr::\"ada\", action, resource);".to_owned(),
        "permit (principal, action == Action::\"list\", resource)\nwhen { resource.riks == \"low\" };"
            .to_owned(),
        "permit (principal, action == Action::\"list\", resource) when { resource has riks };".to_owned(),
        "permit (principal, action == Action::\"list\", resource) when { resource.risk == \"lwo\" };"
            .to_owned(),
        "permit (principal, action, resource) when { context.labels.contains(\"untrusted text\") };"
            .to_owned(),
        "permit (principal, action, resource) when { context.aproved };".to_owned(),
        when("context.arguments.too == \"x\""),
        when("context.arguments has too"),
        when("context.arguments.copies > 3"),
        when("context.arguments.to > 3"),
        when("context.arguments.price == 3"),
        when("context.arguments has options && context.arguments.options has mod"),
        "permit (principal, action, resource) wen { true };".to_owned(),
        "permit (principal, action, resource)".to_owned(),
        "permit (principal == ?principal, action, resource);".to_owned(),
        "@id(\"x\") permit (principal, action, resource);\n@id(\"x\") forbid (principal, action, resource);"
            .to_owned(),
        "forbid (principal, action == Action::\"administer\", resource is Tool);".to_owned(),
    ]
    .iter()
    .map(|text| format!("{text}\n    => {}", wrong(text).replace('\n', "\n    => ")))
    .collect();
    insta::assert_snapshot!(found.join("\n"));
}

#[test]
fn a_misspelt_annotation_is_a_warning() {
    let policies = load("@resaon(\"x\") permit (principal, action, resource);").unwrap();
    let said: Vec<_> =
        policies.warnings().iter().map(|finding| (finding.severity, finding.to_string())).collect();
    assert_eq!(
        said,
        [(Severity::Warning, "p.cedar:1:1  `@resaon` means nothing here; did you mean `reason`?".to_owned())]
    );
}

#[test]
fn there_are_limits() {
    let long = format!("// {}\n", "x".repeat(limits::BYTES_MAX));
    assert!(wrong(&long).contains("longer than"));
    let many = "permit (principal, action, resource);\n".repeat(limits::POLICIES_MAX + 1);
    assert!(wrong(&many).contains("more than 10000 policies"));
    let brackets = format!(
        "permit (principal, action, resource) when {{ {}true{} }};",
        "(1 == 1 && ".repeat(60),
        ")".repeat(60)
    );
    assert!(wrong(&brackets).contains("brackets are nested deeper than 50 levels"));
    let chain = |count: usize| {
        format!("permit (principal, action, resource) when {{ true{} }};", " && true".repeat(count))
    };
    assert!(wrong(&chain(300)).contains("nested deeper than 200 levels"));
    assert!(wrong(&chain(3000)).contains("more than 2000 operators"));
    assert!(load(&chain(150)).is_ok());
}

#[test]
fn the_schema_is_one_that_cedar_reads() {
    let text = schema(&tools());
    insta::assert_snapshot!(text.split_once("action call;\n").unwrap().1);
    // What a policy that passes needs stands in it.
    assert!(text.contains("action call;"));
}

#[test]
fn policies_on_arguments_of_all_tools_are_checked_with_each() {
    let text = "forbid (principal, action in Action::\"call\", resource) when { context.arguments has tags && context.arguments.tags == \"x\" };";
    assert!(wrong(text).contains("are not compatible"), "{}", wrong(text));
    let text =
        "forbid (principal, action in Action::\"call\", resource) when { context.arguments.to == \"x\" };";
    let said = wrong(text);
    assert!(said.contains("`arguments.to`") && said.contains("not every tool has it"), "{said}");
}

#[test]
fn awaited_namespaces_are_warnings_and_others_errors() {
    let file = [PolicyFile::new(
        "p.cedar",
        "permit (principal, action == Action::\"call crm/find\", resource in Namespace::\"crm\");",
    )];
    let awaited = ["crm".to_owned()];
    let findings = Policies::check(&file, Vocabulary { tools: &[], awaited: &awaited });
    assert_eq!(findings.iter().map(|one| one.severity).collect::<Vec<_>>(), [Severity::Warning]);
    let findings = Policies::check(&file, Vocabulary::default());
    assert!(
        findings.iter().all(|one| one.severity == Severity::Error) && findings.len() == 2,
        "{findings:?}"
    );
}
