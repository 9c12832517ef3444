//! The output schema of a composition, from those of its parts.

use std::collections::BTreeMap;

use helve_core::Tool;
use serde_json::{Map, Value, json};

use super::embed::embed;
use super::plan::{Kind, Part, Plan};
use super::step::OnError;

/// Most values in the schemas of parts, all together. A result is checked against them again, and
/// compositions within compositions would multiply them; beyond this anything fits.
const VALUES_MAX: usize = 2_000;

/// The schema of the result; `None` where a template shapes it.
pub(super) fn schema(plan: &Plan, tools: &BTreeMap<String, Tool>) -> Option<Value> {
    if plan.output.is_some() {
        return None;
    }
    let mut defs = Map::new();
    let mut values_left = VALUES_MAX;
    let mut of = |part: &Part| {
        let schema = tools.get(&part.tool).and_then(|tool| tool.definition().output_schema.as_ref());
        let affordable = schema.and_then(|schema| {
            values_left = values_left.checked_sub(values(schema))?;
            Some(embed(schema, schema, &mut defs))
        });
        affordable.unwrap_or_else(|| json!({}))
    };
    let mut schema = match &plan.kind {
        Kind::Sequence(parts) => {
            let results = object(parts, |part| part.when.is_none() && part.on_error != OnError::Continue, of);
            json!({ "type": "object", "properties": { "results": results, "errors": { "type": "object" } },
                "required": ["results"] })
        }
        Kind::Parallel { parts, .. } => {
            object(parts, |part| part.when.is_none(), |part| or_error(part, of(part)))
        }
        Kind::Conditional { branches, otherwise, .. } => {
            let mut names: Vec<_> = branches.iter().map(|way| way.name.as_str()).collect();
            names.extend(otherwise.as_ref().map(|_| "otherwise"));
            json!({ "type": "object",
                "properties": { "branch": { "enum": names }, "result": {}, "errors": { "type": "object" } },
                "required": ["branch", "result"] })
        }
        Kind::Map { part, .. } => json!({ "type": "array", "items": or_error(part, of(part)) }),
    };
    if !defs.is_empty() {
        schema["$defs"] = Value::Object(defs);
    }
    Some(schema)
}

fn object(parts: &[Part], sure: impl Fn(&Part) -> bool, mut of: impl FnMut(&Part) -> Value) -> Value {
    let fields: Map<_, _> = parts.iter().map(|part| (part.name.clone(), of(part))).collect();
    let required: Vec<_> = parts.iter().filter(|part| sure(part)).map(|part| part.name.as_str()).collect();
    json!({ "type": "object", "properties": fields, "required": required })
}

/// A result, or in its place the error of a part that may fail.
fn or_error(part: &Part, schema: Value) -> Value {
    if part.on_error != OnError::Continue || schema == json!({}) {
        return schema;
    }
    json!({ "anyOf": [schema, { "type": "object", "required": ["error"] }] })
}

fn values(json: &Value) -> usize {
    1 + match json {
        Value::Array(items) => items.iter().map(values).sum(),
        Value::Object(fields) => fields.values().map(values).sum(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => 0,
    }
}
