//! A varied set of tools: every shape of name and schema that the formats must carry.

use helve::{Example, Parameter, ParameterType, Risk, Tool, ToolBuilder};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// The one that snapshots show.
pub(crate) fn representative() -> Tool {
    Tool::builder("mail/send")
        .description("Sends a mail.")
        .when_to_use("Only when the user explicitly asks to send.")
        .example(Example::Text("User: \"Draft a mail\" → not this tool".to_owned()))
        .example(Example::Arguments {
            user: Some("Tell Ada I am late".to_owned()),
            arguments: json!({ "to": ["ada@example.com"], "body": "I am late." }),
        })
        .input_schema(json!({
            "type": "object",
            "properties": {
                "to": { "type": "array", "items": { "type": "string", "format": "email" }, "minItems": 1 },
                "body": { "type": "string", "description": "Plain text" },
                "priority": { "type": "string", "enum": ["low", "high"], "default": "low" },
            },
            "required": ["to", "body"],
        }))
        .output_schema(json!({ "type": "object", "properties": { "sent": { "type": "boolean" } } }))
        .risk(Risk::High)
        .handler(|_, _| async { Ok(json!({ "sent": true })) })
        .build()
        .unwrap()
}

/// Tools of every sort.
pub(crate) fn varied() -> Vec<Tool> {
    let long = format!("org/{}/{}", "n".repeat(50), "t".repeat(60));
    let schemas = [
        ("ping", json!({ "type": "object", "additionalProperties": false })),
        ("plain_open", json!({ "type": "object" })),
        ("nested/address.set", nested()),
        ("union", union()),
        ("tree", tree()),
        ("with.dots", optional()),
        (long.as_str(), optional()),
        ("top-level-choice", top_level_choice()),
        ("bounded", bounded()),
        ("2fa", json!({ "type": "object", "properties": { "list": { "type": "array" } } })),
    ];
    let mut tools: Vec<_> = schemas.into_iter().map(|(name, schema)| with_schema(name, schema)).collect();
    tools.push(representative());
    tools.push(typed().build().unwrap());
    tools.push(parameters());
    tools
}

pub(crate) fn with_schema(name: &str, schema: Value) -> Tool {
    Tool::builder(name)
        .description("Does what its name says.")
        .input_schema(schema)
        .handler(|_, _| async { Ok(json!({})) })
        .build()
        .unwrap()
}

fn nested() -> Value {
    json!({ "type": "object", "additionalProperties": false, "required": ["address"], "properties": {
        "address": { "type": "object", "required": ["city"], "properties": {
            "city": { "type": "string" },
            "geo": { "type": "object", "properties": { "lat": { "type": "number" }, "lon": { "type": "number" } } },
        }},
        "tags": { "type": "array", "items": { "type": "string" } },
    }})
}

fn union() -> Value {
    json!({ "type": "object", "required": ["target"], "properties": {
        "target": { "oneOf": [
            { "type": "object", "properties": { "kind": { "const": "file" }, "path": { "type": "string" } },
              "required": ["kind", "path"], "additionalProperties": false },
            { "type": "object", "properties": { "kind": { "const": "url" }, "url": { "type": "string" },
              "depth": { "type": "integer" } }, "required": ["kind", "url"], "additionalProperties": false },
        ]},
        "level": { "enum": ["info", "warn", null] },
        "count": { "type": ["integer", "null"] },
    }})
}

fn tree() -> Value {
    json!({ "type": "object", "required": ["root"], "properties": { "root": { "$ref": "#/$defs/node" } },
    "$defs": { "node": { "type": "object", "required": ["label"], "properties": {
        "label": { "type": "string", "description": "Its name" },
        "children": { "type": "array", "items": { "$ref": "#/$defs/node" } },
        "parent": { "$ref": "#/$defs/node", "description": "The one above" },
    }}}})
}

fn optional() -> Value {
    json!({ "type": "object", "properties": {
        "a": { "type": "string" }, "b": { "type": "integer", "default": 3 }, "c": { "type": "boolean" } } })
}

fn top_level_choice() -> Value {
    json!({ "type": "object", "properties": { "note": { "type": "string" } }, "anyOf": [
        { "properties": { "id": { "type": "integer" } }, "required": ["id"] },
        { "properties": { "id": { "type": "string" }, "name": { "type": "string" } }, "required": ["name"] },
    ]})
}

fn bounded() -> Value {
    json!({ "type": "object", "required": ["q"], "properties": {
        "q": { "type": "string", "minLength": 1 },
        "n": { "type": "integer", "minimum": 1, "maximum": 50 },
        "at": { "type": "string", "format": "uri-reference" },
    }})
}

#[derive(Deserialize, JsonSchema)]
#[expect(dead_code, reason = "only its schema matters")]
struct Order {
    /// What to order.
    item: String,
    quantity: u32,
    size: Option<Size>,
    notes: Option<Vec<String>>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Size {
    /// As little as fits.
    Small,
    /// As much as fits.
    Large,
}

#[derive(Serialize, JsonSchema)]
struct Receipt {
    id: u64,
}

fn typed() -> ToolBuilder {
    Tool::function("order", "Orders a thing.", |_: Order, _| async { Ok(Receipt { id: 1 }) })
}

fn parameters() -> Tool {
    Tool::builder("web-search")
        .description("Search the web.")
        .parameter(Parameter::required("query", ParameterType::String, "Search query"))
        .parameter(
            Parameter::optional("maxResults", ParameterType::Number, "Max results").default_value(json!(5)),
        )
        .parameter(Parameter::optional("filters", ParameterType::Object, "Anything"))
        .read_only()
        .handler(|_, _| async { Ok(json!([])) })
        .build()
        .unwrap()
}
