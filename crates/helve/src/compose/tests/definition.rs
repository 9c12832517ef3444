use std::time::Duration;

use helve_core::effect::{Change, Effect, TellOn};
use helve_core::precondition::{Condition, DependencyStatus, Precondition};
use helve_core::{Annotations, Category, Facet, Risk, Tool, ToolBuilder, ToolError};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::super::{
    Branch, Composition, OnError, Step, conditional, effects_of_parts, map, parallel, sequence,
};
use super::{host, host_with};

fn tool(name: &str) -> ToolBuilder {
    Tool::builder(name)
        .input_schema(json!({ "type": "object" }))
        .handler(|arguments, _| async move { Ok(arguments) })
}

fn closed(name: &str, properties: Value, required: Value) -> ToolBuilder {
    tool(name).input_schema(json!({ "type": "object", "properties": properties, "required": required,
        "additionalProperties": false }))
}

#[test]
fn the_strictest_part_decides() {
    let pure = || Annotations::pure();
    let host = host_with(vec![
        tool("look").risk(Risk::Low).annotations(pure()).category(Category::Search),
        tool("set")
            .risk(Risk::Medium)
            .annotations(Annotations { read_only: false, ..pure() })
            .category(Category::Search),
        tool("pay").risk(Risk::High).category(Category::External),
    ]);
    let looks = host.built(sequence("looks").step(Step::of("look")).step(Step::of("look")));
    assert_eq!(looks.definition().annotations, pure());
    assert_eq!((looks.definition().risk, looks.definition().category), (Risk::Low, Category::Search));
    let sets = host.built(parallel("sets").step(Step::of("look")).step(Step::of("set")));
    let hints = &sets.definition().annotations;
    assert!(!hints.read_only && hints.idempotent && !hints.destructive && !hints.open_world);
    let pays = host.built(sequence("pays").step(Step::of("set")).step(Step::of("pay")));
    let hints = &pays.definition().annotations;
    assert!(!hints.idempotent && hints.destructive && hints.open_world);
    assert_eq!((pays.definition().risk, pays.definition().category), (Risk::High, Category::Custom));
    assert!(!pays.definition().requires_approval);

    let given = host.built(
        sequence("raised")
            .step(Step::of("look"))
            .risk(Risk::Critical)
            .given(|given| given.read_only = Some(false)),
    );
    assert_eq!(given.definition().risk, Risk::Critical);
    assert!(!given.definition().annotations.read_only);
    let lowered = sequence("lowered")
        .description("d")
        .step(Step::of("pay"))
        .risk(Risk::Low)
        .given(|given| given.read_only = Some(true));
    let error = lowered.build(&host.registry).unwrap_err();
    insta::assert_snapshot!(error, @"tool `lowered` is refused: risk: `low` is less than the risk of its part `pay`, which is high; annotations/read_only: its part `pay` may change things");
}

#[test]
fn facets_add_up_and_one_unknown_part_makes_the_whole_unknown() {
    let host = host_with(vec![
        tool("look").facets([Facet::ReadsPrivate]),
        tool("send").facets([Facet::Egress]),
        tool("silent"),
    ]);
    let known = host.built(sequence("known").step(Step::of("look")).step(Step::of("send")));
    assert_eq!(known.definition().facets, Some([Facet::ReadsPrivate, Facet::Egress].into()));
    assert!(!known.definition().has_facet(Facet::Mutates));
    let unknown = host.built(sequence("unknown").step(Step::of("look")).step(Step::of("silent")));
    assert!(Facet::ALL.iter().all(|facet| unknown.definition().has_facet(*facet)));
}

#[test]
fn time_adds_up_or_runs_side_by_side() {
    let ms = Duration::from_millis;
    let host =
        host_with(vec![tool("ten").timeout(ms(10_000)), tool("five").timeout(ms(5_000)), tool("silent")]);
    let timeout = |tool: Tool| tool.definition().timeout_ms.unwrap();
    let steps = || [Step::of("ten"), Step::of("five"), Step::of("silent").timeout(ms(1_000))];
    let [a, b, c] = steps();
    assert_eq!(timeout(host.built(sequence("s").step(a).step(b).step(c))), 16_000);
    let [a, b, c] = steps();
    assert_eq!(timeout(host.built(parallel("p").step(a).step(b).step(c))), 10_000);
    let [a, b, c] = steps();
    assert_eq!(timeout(host.built(parallel("p").step(a).step(b).step(c).concurrency(2))), 20_000);
    let [a, b, c] = steps();
    let branches = conditional("c").decide(c).branch(Branch::when("true").step(a).step(b)).otherwise([]);
    assert_eq!(timeout(host.built(branches)), 16_000);
    assert_eq!(timeout(host.built(map("m", "five", "input.x").concurrency(10))), 500_000);
    assert_eq!(timeout(host.built(sequence("d").step(Step::of("silent")))), 30_000, "the runtime's default");
    assert_eq!(timeout(host.built(sequence("g").step(Step::of("ten")).timeout(ms(3_000)))), 3_000);
}

#[test]
fn conditions_and_accounts_are_those_of_the_parts() {
    let needs = |resource: &str| {
        Precondition::critical(
            format!("{resource} is there"),
            Condition::Resource { resource: resource.to_owned() },
        )
    };
    let after_first = Condition::Dependency { tool: "first".to_owned(), status: DependencyStatus::Completed };
    let custom = Precondition::critical("by code", Condition::Custom { id: "own".to_owned() });
    let host = host_with(vec![
        tool("first").precondition(needs("browser")).integration("mail"),
        tool("second")
            .precondition(needs("browser"))
            .precondition(Precondition::critical("first is done", after_first))
            .precondition(needs("printer"))
            .precondition_checked(custom, |_, _| async { Ok::<_, ToolError>(true) })
            .integration("mail")
            .integration("drive"),
    ]);
    let shown = |tool: &Tool| {
        let all = tool.definition().preconditions.iter();
        all.map(|one| format!("{}{}", one.description, if one.critical { "!" } else { "" }))
            .collect::<Vec<_>>()
    };
    let both = host.built(sequence("both").step(Step::of("first")).step(Step::of("second")));
    assert_eq!(shown(&both), ["browser is there!", "printer is there!"]);
    assert_eq!(both.definition().integrations, ["mail", "drive"]);
    let perhaps =
        host.built(sequence("perhaps").step(Step::of("first")).step(Step::of("second").when("input.x")));
    assert_eq!(shown(&perhaps), ["browser is there!", "printer is there"]);
    assert_eq!(perhaps.definition().integrations, ["mail"]);
    let either = host
        .built(conditional("either").branch(Branch::when("input.x").step(Step::of("second"))).otherwise([]));
    assert_eq!(shown(&either), ["browser is there", "first is done", "printer is there"]);
    assert!(either.definition().integrations.is_empty());
}

#[test]
fn the_input_of_a_sequence_is_that_of_its_first_step_and_what_templates_name() {
    let host = host();
    let plain = host.built(sequence("plain").step(Step::of("math/add")).step(Step::of("echo")));
    assert_eq!(
        plain.definition().input_schema,
        host.registry.tool("math/add").unwrap().definition().input_schema
    );
    let named = host.built(
        sequence("named")
            .step(Step::of("text/upper").arguments(json!({ "text": "{{ input.title }}" })))
            .step(
                Step::of("echo")
                    .when("input.loud")
                    .arguments(json!({ "a": "{{ input.only_sometimes }}", "b": "{{ input.n + 1 }}" })),
            )
            .step(
                Step::call("last", "echo")
                    .arguments(json!(["{{ input.list[0] }}", { "$pointer": "/input/deep/x" }])),
            ),
    );
    insta::assert_json_snapshot!(named.definition().input_schema, @r#"
    {
      "type": "object",
      "properties": {
        "title": {
          "type": "string",
          "description": "Some text."
        },
        "loud": {},
        "only_sometimes": {},
        "n": {},
        "deep": {},
        "list": {}
      },
      "required": [
        "title",
        "deep",
        "list"
      ],
      "additionalProperties": false
    }
    "#);
}

#[test]
fn the_inputs_of_parallel_parts_are_joined_or_refused() {
    let host = host_with(vec![
        closed("one", json!({ "q": { "type": "string", "description": "One." } }), json!(["q"])),
        closed(
            "two",
            json!({ "q": { "type": "string", "description": "Two." }, "n": { "type": "integer" } }),
            json!([]),
        ),
        closed("odd", json!({ "q": { "type": "number" } }), json!([])),
    ]);
    let both = host.built(parallel("both").step(Step::of("one")).step(Step::of("two")));
    assert_eq!(
        both.definition().input_schema,
        json!({ "type": "object", "required": ["q"], "additionalProperties": false,
            "properties": { "q": { "type": "string", "description": "One." }, "n": { "type": "integer" } } })
    );
    let refusal =
        host.refusal("torn", json!({ "type": "parallel", "steps": [{ "tool": "one" }, { "tool": "odd" }] }));
    assert_eq!(
        refusal,
        "tool `torn` is refused: input_schema: its parts do not agree on what `q` is; give an input schema"
    );
    let schema = json!({ "type": "object", "properties": { "q": {} } });
    let given = host
        .built(parallel("given").step(Step::of("one")).step(Step::of("odd")).input_schema(schema.clone()));
    assert_eq!(given.definition().input_schema, schema);
}

#[test]
fn a_branch_requires_only_what_every_branch_does() {
    let host = host_with(vec![
        closed("one", json!({ "id": { "type": "string" }, "a": { "type": "string" } }), json!(["id", "a"])),
        closed("two", json!({ "id": { "type": "string" }, "b": { "type": "string" } }), json!(["id", "b"])),
    ]);
    let tool = host.built(
        conditional("either")
            .branch(Branch::when("input.kind == 'a'").step(Step::of("one")))
            .otherwise([Step::of("two")]),
    );
    let schema = &tool.definition().input_schema;
    assert_eq!(schema["required"], json!(["id"]));
    let keys: Vec<_> = schema["properties"].as_object().unwrap().keys().map(String::as_str).collect();
    assert_eq!(keys, ["kind", "id", "a", "b"]);
}

#[test]
fn the_input_of_a_map_has_the_list() {
    let host = host();
    let schema = |tool: Tool| tool.definition().input_schema.clone();
    let whole = schema(host.built(map("whole", "math/add", "input.pairs")));
    assert_eq!(whole["properties"]["pairs"]["type"], "array");
    assert_eq!(whole["properties"]["pairs"]["items"]["required"], json!(["a", "b"]));
    assert_eq!(whole["required"], json!(["pairs"]));
    let field = schema(
        host.built(
            map("field", "math/add", "input.numbers")
                .arguments(json!({ "a": "{{ item }}", "b": "{{ input.b }}" })),
        ),
    );
    assert_eq!(
        field["properties"],
        json!({ "numbers": { "type": "array", "items": { "type": "number", "description": "A number." } },
            "b": { "type": "number", "description": "A number." } })
    );
}

#[derive(Deserialize, JsonSchema)]
struct Order {
    /// Where the order goes to.
    address: Address,
}

#[derive(Serialize, Deserialize, JsonSchema)]
struct Address {
    street: String,
}

#[test]
fn schemas_keep_what_they_refer_to() {
    let ship = Tool::function("ship", "Ships.", |order: Order, _| async move { Ok(vec![order.address]) });
    let host = host_with(vec![ship]);
    let tool = host.built(
        parallel("all")
            .step(Step::of("ship").on_error(OnError::Continue))
            .step(Step::of("echo").arguments(json!({ "n": "{{ input.n }}" }))),
    );
    let (input, output) = (tool.input(), tool.output().unwrap());
    assert!(input.accepts(&json!({ "address": { "street": "x" }, "n": 1 })));
    assert!(!input.accepts(&json!({ "address": { "street": 1 }, "n": 1 })));
    assert!(output.accepts(&json!({ "ship": [{ "street": "x" }], "echo": {} })));
    assert!(output.accepts(&json!({ "ship": { "error": {} }, "echo": {} })));
    assert!(!output.accepts(&json!({ "ship": [{ "street": 1 }], "echo": {} })));
}

#[test]
fn output_schemas_follow_from_the_parts() {
    let host = host();
    let output = |tool: Tool| tool.definition().output_schema.clone();
    let sums =
        output(host.built(sequence("s").step(Step::of("math/add")).step(Step::of("echo").when("previous"))));
    let sums = sums.unwrap();
    assert_eq!(sums["properties"]["results"]["properties"]["add"]["required"], json!(["sum"]));
    assert_eq!(sums["properties"]["results"]["required"], json!(["add"]));
    assert_eq!(
        output(host.built(sequence("s").step(Step::of("math/add")).output(json!("{{ previous }}")))),
        None
    );
    let list = output(host.built(map("m", "math/add", "input.x").on_error(OnError::Continue))).unwrap();
    assert_eq!(list["items"]["anyOf"].as_array().unwrap().len(), 2);
}

#[test]
fn effects_of_parts_can_be_shown_however_deep() {
    let effect = |text: &str| {
        Effect::new(
            text,
            Change::Notification { event: "told".to_owned(), on: TellOn::Success, payload: None },
        )
    };
    let host = host_with(vec![tool("notes").effect(effect("A note is kept."))]);
    host.registered(sequence("inner").step(Step::of("notes")).step(Step::call("more", "notes")));
    let outer = host
        .built(sequence("outer").step(Step::of("inner")).define(|about| about.effect(effect("Its own."))));
    assert_eq!(outer.definition().effects.len(), 1, "parts apply their own");
    assert_eq!(
        effects_of_parts(&outer, &host.registry),
        [("notes".to_owned(), "A note is kept.".to_owned())]
    );
}

#[test]
fn a_composition_is_data_that_reads_and_writes_the_same() {
    let text = r#"
        type = "conditional"
        on_error = "undo"
        otherwise = []
        [decide]
        tool = "math/add"
        [[branches]]
        name = "big"
        when = "decision.sum > 10"
        steps = [{ tool = "echo", arguments = { n = "{{ decision.sum }}" }, timeout_ms = 100 }]
    "#;
    let read: Composition = toml::from_str(text).unwrap();
    let json = serde_json::to_value(&read).unwrap();
    let again: Composition = serde_json::from_value(json.clone()).unwrap();
    assert_eq!(serde_json::to_value(again).unwrap(), json);
    let host = host();
    let tool = read.build("read", "Reads.", &host.registry).unwrap();
    assert!(tool.handler().undoes_on_error());
    let schema = schemars::schema_for!(Composition).to_value();
    let schema = helve_core::Schema::compile(schema).unwrap();
    assert!(schema.accepts(&json), "{:?}", schema.validate(&json));
}

/// Takes and gives a page of items under a field; what an item is, a definition says.
fn paged(name: &str, field: &str, item: &str) -> ToolBuilder {
    let schema = json!({ "type": "object", "properties": { field: { "$ref": "#/$defs/Page" } }, "$defs": {
        "Page": { "type": "object", "properties": { "items": { "items": { "$ref": "#/$defs/Item" } },
            "next": { "$ref": "#/$defs/Page" } } },
        "Item": { "type": item } } });
    tool(name).input_schema(schema.clone()).output_schema(schema)
}

#[test]
fn equal_words_of_two_parts_that_mean_two_things_are_not_taken_for_one() {
    let host = host_with(vec![
        paged("texts", "page", "string"),
        paged("more-texts", "page", "string"),
        paged("numbers", "page", "integer"),
        paged("other", "others", "integer"),
    ]);
    let both = host.built(parallel("both").step(Step::of("texts")).step(Step::of("other")));
    let texts = json!({ "page": { "items": ["a"], "next": { "items": ["b"] } } });
    let numbers = json!({ "others": { "items": [1] } });
    let output = both.output().unwrap();
    assert!(output.accepts(&json!({ "texts": texts, "other": numbers })));
    assert!(!output.accepts(&json!({ "texts": { "page": { "items": [1] } }, "other": numbers })));
    assert!(both.input().accepts(&json!({ "page": { "items": ["a"] }, "others": { "items": [1] } })));
    let same = host.built(parallel("same").step(Step::of("texts")).step(Step::of("more-texts")));
    let wrong = json!({ "page": { "next": { "items": [1] } } });
    let results = |more: &Value| json!({ "texts": texts, "more_texts": more });
    assert!(same.output().unwrap().accepts(&results(&texts)));
    assert!(!same.output().unwrap().accepts(&results(&wrong)));
    assert!(same.input().accepts(&texts) && !same.input().accepts(&wrong));

    let either = |name: &str, tool: &'static str| {
        conditional(name).branch(Branch::when("input.x").step(Step::of("texts"))).otherwise([Step::of(tool)])
    };
    let chosen = host.built(either("chosen", "other"));
    assert!(chosen.input().accepts(&json!({ "others": { "items": [1] } })));
    assert!(!chosen.input().accepts(&wrong));
    let error = either("apart", "numbers").description("d").build(&host.registry).unwrap_err();
    assert!(error.to_string().contains("do not agree on what `page` is"), "{error}");
}
