//! `/v1/openapi.json`: the API as an OpenAPI 3.1 document, made from the routes and the types that
//! they take.

use std::collections::HashMap;
use std::sync::LazyLock;

use bytes::Bytes;
use schemars::SchemaGenerator;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};

use super::reply::Document;
use super::routes::routes;
use super::signature::{Content, Operation, Shape};
use crate::problem::Details;

static DOCUMENT: LazyLock<Bytes> = LazyLock::new(|| Bytes::from(openapi().to_string()));

pub(super) async fn document() -> Document {
    Document(DOCUMENT.clone())
}

/// The HTTP API as an OpenAPI 3.1 document: what `GET /v1/openapi.json` answers.
///
/// ```
/// let document = helve_server::openapi();
/// assert_eq!(document["paths"]["/v1/calls"]["post"]["operationId"], "call");
/// ```
pub fn openapi() -> Value {
    let mut shapes = Shapes::new();
    let problem = shapes.given(|generator| generator.subschema_for::<Details>());
    let mut paths: Map<String, Value> = Map::new();
    for operation in &routes().operations {
        let path = operation.path.replace("{*", "{");
        let item = paths.entry(path.clone()).or_insert_with(|| json!({}));
        item[operation.method] = describe(operation, &path, &problem, &mut shapes);
    }
    let mut document = json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Helve",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "Tools for agents, governed. Errors are `application/problem+json`.",
            "license": { "name": "Apache-2.0 OR MIT", "identifier": "Apache-2.0 OR MIT" },
        },
        "paths": paths,
        "components": {
            "securitySchemes": {
                "bearer": { "type": "http", "scheme": "bearer" },
                "cookie": {
                    "type": "apiKey", "in": "cookie", "name": "helve_session",
                    "description": "Counts only on paths that begin with the `place` of the sign-in: `PLACE/v1/me`.",
                },
            },
        },
        "security": [{ "bearer": [] }, { "cookie": [] }],
    });
    shapes.define(&mut document);
    document
}

/// Types as schemas. What is sent here and what is sent from here differ: a field with a default may be left
/// out of a request, and stands in every answer.
struct Shapes {
    taken: SchemaGenerator,
    given: SchemaGenerator,
}

/// Where types that answers hold are defined, and where those of requests are until all are known.
const GIVEN: &str = "/components/schemas";
const TAKEN: &str = "/components/taken";

impl Shapes {
    fn new() -> Self {
        // 3.1 takes JSON Schema of 2020-12 as it is.
        let at = |path: &'static str| {
            SchemaSettings::draft2020_12().with(|settings| settings.definitions_path = path.into())
        };
        Self { taken: at(TAKEN).into_generator(), given: at(GIVEN).for_serialize().into_generator() }
    }

    fn taken(&mut self, shape: Shape) -> Value {
        shape(&mut self.taken).to_value()
    }

    fn given(&mut self, shape: Shape) -> Value {
        shape(&mut self.given).to_value()
    }

    /// Adds all named types to the document that refers to them. One that looks different in requests and in
    /// answers is called `…Input` in requests.
    fn define(mut self, document: &mut Value) {
        let mut all = self.given.take_definitions(true);
        let mut names = HashMap::new();
        for (name, schema) in self.taken.take_definitions(true) {
            let is_same = |given: &Value| without_place(given) == without_place(&schema);
            let own = match all.get(&name) {
                Some(given) if !is_same(given) => format!("{name}Input"),
                Some(_) | None => name.clone(),
            };
            all.entry(own.clone()).or_insert(schema);
            names.insert(format!("#{TAKEN}/{name}"), format!("#{GIVEN}/{own}"));
        }
        document["components"]["schemas"] = all.into();
        refer(document, &names);
    }
}

/// A schema as text, whichever place its references lead to.
fn without_place(schema: &Value) -> String {
    schema.to_string().replace(TAKEN, GIVEN)
}

/// Gives references their final names.
fn refer(value: &mut Value, names: &HashMap<String, String>) {
    match value {
        Value::Object(fields) => {
            if let Some(Value::String(place)) = fields.get_mut("$ref")
                && let Some(name) = names.get(place)
            {
                place.clone_from(name);
            }
            fields.values_mut().for_each(|value| refer(value, names));
        }
        Value::Array(items) => items.iter_mut().for_each(|item| refer(item, names)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn describe(operation: &Operation, path: &str, problem: &Value, shapes: &mut Shapes) -> Value {
    let named = path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'));
    let mut parameters: Vec<Value> = named
        .map(|name| json!({ "name": name, "in": "path", "required": true, "schema": { "type": "string" } }))
        .collect();
    if let Some(query) = operation.query {
        parameters.extend(query_parameters(query(&mut shapes.taken), &shapes.taken));
    }
    let mut described = json!({
        "operationId": operation.id, "summary": operation.summary,
        "responses": responses(operation, problem, shapes),
    });
    if !parameters.is_empty() {
        described["parameters"] = parameters.into();
    }
    if let Some(body) = operation.body {
        described["requestBody"] =
            json!({ "required": true, "content": { "application/json": { "schema": shapes.taken(body) } } });
    }
    if operation.open {
        described["security"] = json!([]);
    }
    described
}

fn responses(operation: &Operation, problem: &Value, shapes: &mut Shapes) -> Map<String, Value> {
    let problem = json!({ "application/problem+json": { "schema": problem } });
    let mut responses = Map::new();
    for answer in &operation.answers {
        let mut response = json!({ "description": answer.summary });
        match &answer.content {
            Content::Json(shape) => {
                response["content"] = json!({ "application/json": { "schema": shapes.given(*shape) } });
            }
            Content::Text(media) => {
                response["content"] = json!({ *media: { "schema": { "type": "string" } } });
            }
            Content::Events(event, missed) => {
                response["content"] = json!({ "text/event-stream": { "schema": { "type": "string" } } });
                response["x-events"] = events(*event, *missed, shapes);
            }
            Content::Nothing => {}
        }
        responses.insert(answer.status.to_string(), response);
    }
    for (status, summary) in &operation.fails {
        responses.insert(status.to_string(), json!({ "description": summary, "content": problem }));
    }
    responses.insert("default".to_owned(), json!({ "description": "A problem", "content": problem }));
    responses
}

/// Every event by its name, with what stands in its `data`. OpenAPI 3.1 has no words for the events of a stream.
fn events(event: Shape, missed: Shape, shapes: &mut Shapes) -> Value {
    let reference = shapes.given(event);
    let missed = shapes.given(missed);
    let name = reference["$ref"].as_str().and_then(|path| path.rsplit('/').next()).unwrap_or_default();
    let whole = shapes.given.definitions().get(name).cloned().unwrap_or_default();
    let kinds = whole["oneOf"].as_array().cloned().unwrap_or_default();
    let mut events: Map<String, Value> = kinds
        .into_iter()
        .filter_map(|kind| {
            let name = kind["properties"]["type"]["const"].as_str()?.to_owned();
            let summary = kind["description"].clone();
            Some((name, json!({ "summary": summary, "data": { "allOf": [reference.clone(), kind] } })))
        })
        .collect();
    events.insert(
        "missed".to_owned(),
        json!({ "summary": "You were too slow for some events", "data": missed }),
    );
    events.into()
}

/// The fields of a query as parameters.
fn query_parameters(shape: schemars::Schema, generator: &SchemaGenerator) -> Vec<Value> {
    let mut shape = shape.to_value();
    if let Some(name) = shape["$ref"].as_str().and_then(|path| path.rsplit('/').next()) {
        shape = generator.definitions().get(name).cloned().unwrap_or_default();
    }
    let fields = shape["properties"].as_object().cloned().unwrap_or_default();
    let parameter = |(name, mut schema): (String, Value)| {
        let description = schema.as_object_mut().and_then(|schema| schema.remove("description"));
        json!({
            "name": name, "in": "query", "required": false, "schema": schema,
            "description": description.unwrap_or_default(),
        })
    };
    fields.into_iter().map(parameter).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn every_reference_leads_somewhere_and_every_operation_has_its_own_id() {
        let document = openapi();
        let text = document.to_string();
        for reference in text.split("\"$ref\":\"#").skip(1) {
            let pointer = reference.split('"').next().unwrap();
            assert!(document.pointer(pointer).is_some(), "{pointer}");
        }
        let operations = routes().operations;
        let ids: HashSet<_> = operations.iter().map(|operation| operation.id).collect();
        assert_eq!(ids.len(), operations.len());
        for operation in &operations {
            let path = operation.path.replace("{*", "{");
            assert!(document["paths"][&path][operation.method].is_object(), "{path}");
        }
        assert!(!text.contains("$schema"), "{text}");
    }
}
