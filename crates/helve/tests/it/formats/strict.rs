//! Strict schemas: what is refused and why, and that nothing slips in through a rewritten one.

use helve::Schema;
use helve::formats::{ExportOptions, Format, Strictness, drop_absent, export_one, strict_refusal};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use serde_json::{Map, Value, json};

use super::tools::{varied, with_schema};

#[test]
fn each_refusal_has_its_reason() {
    let field = |field: Value| json!({ "type": "object", "properties": { "f": field } });
    let cases = [
        (json!({ "type": "object" }), "the top level: an object with fields of any name"),
        (json!({ "type": "object", "properties": {}, "allOf": [{}] }), "`allOf`"),
        (json!({ "type": "object", "properties": { "f": { "type": "null" } }, "not": {} }), "`not`"),
        (field(json!({})), "`/properties/f`: no type"),
        (field(json!(true)), "only true or false"),
        (field(json!({ "type": ["string", "integer"] })), "several types"),
        (field(json!({ "type": "string", "minLength": 2 })), "`minLength`"),
        (field(json!({ "type": "string", "format": "uri" })), "the format `uri`"),
        (field(json!({ "type": "string", "pattern": "^(?=a)b" })), "looks around"),
        (field(json!({ "type": "string", "pattern": r"(a)\1" })), "looks around"),
        (field(json!({ "type": "array" })), "says nothing of its items"),
        (
            field(json!({ "type": "array", "items": { "type": "string" }, "uniqueItems": true })),
            "`uniqueItems`",
        ),
        (
            field(json!({ "type": "object", "additionalProperties": { "type": "string" } })),
            "fields of any name",
        ),
        (
            field(json!({ "type": "object", "properties": {}, "patternProperties": {} })),
            "`patternProperties`",
        ),
        (field(json!({ "anyOf": [{ "type": "string" }], "type": "string" })), "`type` next to `anyOf`"),
        (field(json!({ "oneOf": [{ "type": "number" }, { "type": "integer" }] })), "branches may overlap"),
        (field(json!({ "$ref": "#/properties/g" })), "which points to no definition"),
        (field(json!({ "enum": [["a"]] })), "several types"),
        (
            field(
                json!({ "type": "object", "properties": {}, "required": ["x"], "additionalProperties": false }),
            ),
            "the required field `x`",
        ),
    ];
    for (schema, expected) in cases {
        let reason = strict_refusal(Format::OpenAi, &schema).unwrap_or_else(|| panic!("accepted: {schema}"));
        assert!(reason.contains(expected), "{schema}: {reason}");
    }
}

#[test]
fn limits_are_counted() {
    let many: Map<_, _> = (0..5_001).map(|n| (format!("f{n}"), json!({ "type": "null" }))).collect();
    let mut deep = json!({ "type": "string" });
    for _ in 0..10 {
        deep = json!({ "type": "object", "properties": { "d": deep } });
    }
    let enumerated: Vec<_> = (0..1_001).map(|n| n.to_string()).collect();
    let long: Vec<_> = (0..251).map(|n| format!("{n:061}")).collect();
    let field = |field: Value| json!({ "type": "object", "properties": { "f": field } });
    for (schema, expected) in [
        (json!({ "type": "object", "properties": many }), "5001 fields"),
        (field(deep.clone()), "11 levels"),
        (field(json!({ "enum": enumerated })), "1001 enum values"),
        (field(json!({ "enum": long })), "more than 15000 characters"),
        (
            json!({ "type": "object", "properties": { "x".repeat(120_001): { "type": "null" } } }),
            "characters in names",
        ),
    ] {
        let reason = strict_refusal(Format::OpenAi, &schema).unwrap();
        assert!(reason.contains(expected), "{reason}");
    }
    assert_eq!(strict_refusal(Format::OpenAi, &deep), None);
}

#[test]
fn recursion_is_for_openai_alone() {
    let tree = json!({ "type": "object", "properties": { "children": { "type": "array", "items": { "$ref": "#" } } } });
    assert_eq!(strict_refusal(Format::OpenAi, &tree), None);
    assert!(strict_refusal(Format::Anthropic, &tree).unwrap().contains("refers to itself"));
    let indirect = json!({ "type": "object", "properties": { "a": { "$ref": "#/$defs/a" } }, "$defs": {
        "a": { "type": "object", "properties": { "b": { "$ref": "#/$defs/b" } } },
        "b": { "type": "array", "items": { "$ref": "#/$defs/a" } } } });
    assert!(strict_refusal(Format::Anthropic, &indirect).unwrap().contains("refers to itself"));
    let twice = json!({ "type": "object", "properties": { "a": { "$ref": "#/$defs/c" }, "b": { "$ref": "#/$defs/c" } },
        "$defs": { "c": { "type": "string" } } });
    assert_eq!(strict_refusal(Format::Anthropic, &twice), None);
}

#[test]
fn a_refused_schema_is_exported_as_it_is() {
    for tool in varied() {
        let schema = &tool.definition().input_schema;
        let entry = export_one(&tool, Format::OpenAi, &ExportOptions::default());
        assert_eq!(entry["strict"], strict_refusal(Format::OpenAi, schema).is_none(), "{}", tool.name());
    }
    let bounded = json!({ "type": "object", "properties": { "q": { "type": "string", "minLength": 1 } } });
    let entry = export_one(&with_schema("x", bounded.clone()), Format::OpenAi, &ExportOptions::default());
    assert_eq!(entry["parameters"], bounded);
}

#[test]
fn strict_schemas_say_what_they_lose() {
    let schema = json!({ "type": "object", "required": ["to"], "definitions": { "geo": { "type": "object",
        "properties": { "lat": { "type": "number" } }, "required": ["lat"] } },
    "properties": {
        "to": { "type": "string", "format": "email", "title": "To" },
        "count": { "type": "integer", "format": "uint32", "minimum": 0, "default": 3, "description": "How many" },
        "at": { "$ref": "#/definitions/geo", "description": "Where" },
        "mode": { "oneOf": [{ "const": "a", "description": "First" }, { "const": "b" }] },
    }});
    let entry = export_one(&with_schema("x", schema), Format::OpenAi, &ExportOptions::default());
    insta::assert_json_snapshot!(entry["parameters"], @r##"
    {
      "required": [
        "to",
        "count",
        "at",
        "mode"
      ],
      "properties": {
        "to": {
          "format": "email",
          "type": "string"
        },
        "count": {
          "description": "How many (default: 3)",
          "minimum": 0,
          "type": [
            "integer",
            "null"
          ]
        },
        "at": {
          "anyOf": [
            {
              "$ref": "#/$defs/geo"
            },
            {
              "type": "null"
            }
          ],
          "description": "Where"
        },
        "mode": {
          "anyOf": [
            {
              "description": "First",
              "enum": [
                "a"
              ],
              "type": "string"
            },
            {
              "enum": [
                "b"
              ],
              "type": "string"
            },
            {
              "type": "null"
            }
          ]
        }
      },
      "additionalProperties": false,
      "type": "object",
      "$defs": {
        "geo": {
          "required": [
            "lat"
          ],
          "properties": {
            "lat": {
              "type": "number"
            }
          },
          "additionalProperties": false,
          "type": "object"
        }
      }
    }
    "##);
}

/// Schemas that are mostly within the strict subset.
fn fields() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(json!({ "type": "string" })),
        Just(json!({ "type": "string", "format": "date" })),
        Just(json!({ "type": "integer", "minimum": 0, "maximum": 9 })),
        Just(json!({ "type": ["boolean", "null"], "description": "Maybe" })),
        Just(json!({ "type": "string", "enum": ["a", "b"], "default": "a" })),
        Just(json!({ "enum": ["x", 1, null] })),
        Just(json!({ "const": 7 })),
        Just(json!({ "$ref": "#/$defs/leaf" })),
        Just(json!({ "$ref": "#/$defs/tree", "description": "A tree" })),
        Just(json!({ "$ref": "#" })),
        Just(json!({ "type": "string", "minLength": 1 })),
        Just(json!({ "type": "object" })),
    ];
    leaf.prop_recursive(3, 24, 4, |inner| {
        prop_oneof![
            (inner.clone(), 0u8..3)
                .prop_map(|(items, min)| json!({ "type": "array", "items": items, "minItems": min })),
            objects(inner.clone()),
            proptest::collection::vec(inner.clone(), 1..4).prop_map(|options| json!({ "anyOf": options })),
            (objects(inner.clone()), objects(inner))
                .prop_map(|(a, b)| json!({ "oneOf": [tagged(a, "a"), tagged(b, "b")] })),
        ]
    })
}

fn objects(field: impl Strategy<Value = Value>) -> impl Strategy<Value = Value> {
    (proptest::collection::btree_map("[a-d]", (field, any::<bool>()), 0..4), any::<bool>()).prop_map(
        |(fields, closed)| {
            let required: Vec<_> =
                fields.iter().filter(|(_, (_, required))| *required).map(|(name, _)| name.clone()).collect();
            let properties: Map<_, _> = fields.into_iter().map(|(name, (field, _))| (name, field)).collect();
            let mut object = json!({ "type": "object", "properties": properties, "required": required });
            if closed {
                object["additionalProperties"] = false.into();
            }
            object
        },
    )
}

fn tagged(mut object: Value, tag: &str) -> Value {
    object["properties"]["tag"] = json!({ "const": tag });
    object["required"].as_array_mut().unwrap().push(json!("tag"));
    object
}

fn inputs() -> impl Strategy<Value = Value> {
    objects(fields()).prop_map(|mut schema| {
        schema["$defs"] = json!({
            "leaf": { "type": "integer" },
            "tree": { "type": "object", "required": ["name"], "properties": {
                "name": { "type": "string" },
                "next": { "$ref": "#/$defs/tree" },
            }},
        });
        schema
    })
}

/// A value that a strict schema accepts, or nothing where recursion does not end in time.
fn sample(root: &Value, schema: &Value, random: &mut fastrand::Rng, depth: usize) -> Option<Value> {
    if depth == 0 {
        return None;
    }
    if let Some(reference) = schema["$ref"].as_str() {
        return sample(root, root.pointer(&reference[1..])?, random, depth - 1);
    }
    if let Some(options) = schema["anyOf"].as_array() {
        let start = random.usize(..options.len());
        let mut turned = options.iter().cycle().skip(start).take(options.len());
        return turned.find_map(|option| sample(root, option, random, depth - 1));
    }
    if let Some(values) = schema["enum"].as_array() {
        return Some(values[random.usize(..values.len())].clone());
    }
    let kind = match &schema["type"] {
        Value::Array(kinds) => kinds[random.usize(..kinds.len())].as_str()?,
        kind => kind.as_str()?,
    };
    Some(match kind {
        "null" => Value::Null,
        "boolean" => random.bool().into(),
        "integer" | "number" => random.i32(0..10).into(),
        "string" if schema["format"] == "date" => "2026-11-15".into(),
        "string" => random.choice(["", "a", "ä b"])?.into(),
        "array" => {
            let count = schema["minItems"].as_u64().unwrap_or(0) as usize + random.usize(..2);
            (0..count).map(|_| sample(root, &schema["items"], random, depth - 1)).collect::<Option<_>>()?
        }
        _ => {
            let fields = schema["properties"].as_object()?.iter();
            let fields =
                fields.map(|(name, field)| Some((name.clone(), sample(root, field, random, depth - 1)?)));
            Value::Object(fields.collect::<Option<_>>()?)
        }
    })
}

/// Returns whether there was anything to check.
fn strict_values_fit(schema: &Value, format: Format, at: &str, seed: u64) -> Result<bool, TestCaseError> {
    let Ok(own) = Schema::compile_object(schema.clone()) else { return Ok(false) };
    let options = ExportOptions { strictness: Strictness::WhereAllowed, ..ExportOptions::default() };
    let entry = export_one(&with_schema("t", schema.clone()), format, &options);
    if entry["strict"] != true {
        return Ok(false);
    }
    let strict = &entry[at];
    let compiled = Schema::compile_object(strict.clone()).expect("a strict schema is a schema");
    let mut random = fastrand::Rng::with_seed(seed);
    for _ in 0..8 {
        let Some(value) = sample(strict, strict, &mut random, 16) else { continue };
        prop_assert!(compiled.accepts(&value), "the sample {value} is wrong for {strict}");
        let mut dropped = value.clone();
        drop_absent(schema, &mut dropped);
        prop_assert!(own.accepts(&dropped), "{schema}\naccepts no {dropped}\nfrom {value}\nof {strict}");
    }
    Ok(true)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn what_openai_strict_accepts_the_tool_accepts(schema in inputs(), seed in any::<u64>()) {
        strict_values_fit(&schema, Format::OpenAi, "parameters", seed)?;
    }

    #[test]
    fn what_anthropic_strict_accepts_the_tool_accepts(schema in inputs(), seed in any::<u64>()) {
        strict_values_fit(&schema, Format::Anthropic, "input_schema", seed)?;
    }
}

#[test]
fn the_property_above_is_not_empty() {
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let checked = (0..200)
        .filter(|seed| {
            let schema = inputs().new_tree(&mut runner).unwrap().current();
            strict_values_fit(&schema, Format::OpenAi, "parameters", *seed).unwrap()
        })
        .count();
    assert!(checked > 50, "{checked} of 200 schemas were strict");
}
