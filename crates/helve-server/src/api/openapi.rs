//! `/v1/openapi.json`: the API as an OpenAPI 3.1 document, made from the routes and the types that
//! they take.

use std::sync::LazyLock;

use axum::body::Body;
use axum::http::{Response, StatusCode};
use bytes::Bytes;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};

use super::routes::{Answer, Operation, routes};
use crate::guard::json_response;
use crate::problem::Details;

static DOCUMENT: LazyLock<Bytes> = LazyLock::new(|| Bytes::from(make().to_string()));

pub(super) async fn document() -> Response<Body> {
    let mut response = json_response(StatusCode::OK, String::new());
    *response.body_mut() = Body::from(DOCUMENT.clone());
    response
}

/// The whole document.
fn make() -> Value {
    // 3.1 takes JSON Schema of 2020-12 as it is.
    let mut generator = SchemaSettings::draft2020_12()
        .with(|settings| settings.definitions_path = "/components/schemas".into())
        .into_generator();
    let problem = generator.subschema_for::<Details>();
    let mut paths: Map<String, Value> = Map::new();
    for operation in &routes().operations {
        let path = operation.path.replace("{*", "{");
        let item = paths.entry(path.clone()).or_insert_with(|| json!({}));
        item[operation.method] = describe(operation, &path, &problem, &mut generator);
    }
    let schemas = generator.take_definitions(true);
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Helve",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "Tools for agents, governed. Errors are `application/problem+json`.",
            "license": { "name": "Apache-2.0 OR MIT", "identifier": "Apache-2.0 OR MIT" },
        },
        "paths": paths,
        "components": {
            "schemas": schemas,
            "securitySchemes": {
                "bearer": { "type": "http", "scheme": "bearer" },
                "cookie": {
                    "type": "apiKey", "in": "cookie", "name": "helve_session",
                    "description": "Counts only on paths that begin with the `place` of the sign-in: `PLACE/v1/me`.",
                },
            },
        },
        "security": [{ "bearer": [] }, { "cookie": [] }],
    })
}

fn describe(
    operation: &Operation,
    path: &str,
    problem: &schemars::Schema,
    generator: &mut schemars::SchemaGenerator,
) -> Value {
    let named = path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'));
    let mut parameters: Vec<Value> = named
        .map(|name| json!({ "name": name, "in": "path", "required": true, "schema": { "type": "string" } }))
        .collect();
    if let Some(query) = operation.query {
        parameters.extend(query_parameters(query(generator), generator));
    }
    let content = |media: &str, schema: Value| json!({ media: { "schema": schema } });
    let answer = match &operation.answer {
        Answer::Json(shape) => {
            json!({ "description": "Done", "content": content("application/json", shape(generator).to_value()) })
        }
        Answer::Text(media) => {
            json!({ "description": "Done", "content": content(media, json!({ "type": "string" })) })
        }
        Answer::Nothing => json!({ "description": "Done" }),
    };
    let status = if matches!(operation.answer, Answer::Nothing) { "204" } else { "200" };
    let mut responses = json!({
        status: answer,
        "default": {
            "description": "A problem",
            "content": content("application/problem+json", problem.clone().to_value()),
        },
    });
    if let Some((status, summary)) = operation.also {
        responses[status.to_string()] = json!({ "description": summary });
    }
    let mut described = json!({
        "operationId": operation.id, "summary": operation.summary, "responses": responses,
    });
    if !parameters.is_empty() {
        described["parameters"] = parameters.into();
    }
    if let Some(body) = operation.body {
        let body = content("application/json", body(generator).to_value());
        described["requestBody"] = json!({ "required": true, "content": body });
    }
    if operation.open {
        described["security"] = json!([]);
    }
    described
}

/// The fields of a query as parameters.
fn query_parameters(shape: schemars::Schema, generator: &schemars::SchemaGenerator) -> Vec<Value> {
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
        let document = make();
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
