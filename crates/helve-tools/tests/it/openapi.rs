//! OpenAPI documents as tools, against a real server that says what arrived.

use std::path::Path;
use std::time::{Duration, Instant};

use axum::Router;
use axum::routing::get;
use helve::{ErrorCode, Risk, Tool};
use helve_tools::openapi::{Import, ImportError, OpenApiConfig, import, load};
use serde_json::{Value, json};

use crate::http::{backend, call_tool, echo, serve};

const PETSHOP: &str = include_str!("../fixtures/petshop.yaml");

fn config(more: Value) -> OpenApiConfig {
    let mut config = json!({ "namespace": "shop", "document": "petshop.yaml" });
    config.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    serde_json::from_value(config).unwrap()
}

fn petshop(more: Value) -> Import {
    import(&config(more), PETSHOP.as_bytes(), None, &backend()).unwrap()
}

fn names(import: &Import) -> Vec<&str> {
    import.tools.iter().map(|tool| tool.name().simple()).collect()
}

fn find<'i>(import: &'i Import, name: &str) -> &'i Tool {
    import.tools.iter().find(|tool| tool.name().simple() == name).unwrap_or_else(|| panic!("no {name}"))
}

fn input(import: &Import, name: &str) -> Value {
    find(import, name).definition().input_schema.clone()
}

/// The pet shop on a real server, with credentials for all of its schemes.
async fn live_petshop() -> Import {
    let address = serve(Router::new().fallback(echo)).await;
    petshop(json!({
        "server": format!("http://{address}/v1"),
        "auth": { "bearer": "${env:TOKEN}", "basic": "ada:${env:TOKEN}", "key": "${env:TOKEN}", "queryKey": "${env:TOKEN}" },
    }))
}

#[test]
fn every_sound_operation_becomes_a_tool_and_the_others_say_why_not() {
    let import = petshop(json!({}));
    let expected = [
        "pets_list",
        "pets_create",
        "pets_get",
        "pets_replace",
        "pets_delete",
        "get_pets_petId_photos_file",
        "login",
        "families_create",
        "notes_add",
        "get_search",
    ];
    assert_eq!(names(&import), expected);
    let skipped: Vec<_> = import.skipped.iter().map(|s| format!("{}: {}", s.operation, s.reason)).collect();
    assert_eq!(
        skipped,
        [
            "PUT /pets/{petId}/photos/{file}: its content would be image/png",
            "GET /matrix/{id}: the path style `matrix` is not supported",
        ]
    );
    let delete = find(&import, "pets_delete").definition();
    assert_eq!((delete.risk, delete.annotations.destructive), (Risk::High, true));
    assert_eq!(delete.description, "Deprecated.\nDelete a pet\n(DELETE /pets/{petId})");
    assert_eq!(delete.name.as_str(), "shop/pets_delete");
    assert_eq!(find(&import, "pets_list").definition().annotations.title.as_deref(), Some("List pets"));
}

#[test]
fn schemas_become_2020_12_without_what_a_request_may_not_set() {
    let import = petshop(json!({}));
    assert_eq!(
        input(&import, "pets_create"),
        json!({
            "type": "object", "additionalProperties": false, "required": ["name"],
            "properties": {
                "X-Trace": { "type": "string" },
                "name": { "type": "string", "examples": ["Rex"] },
                "owner": { "anyOf": [{ "allOf": [{ "$ref": "#/$defs/Owner" }] }, { "type": "null" }] },
            },
            "$defs": { "Owner": { "type": "object", "properties": { "mail": { "type": "string", "format": "email" } } } },
        })
    );
    assert_eq!(
        input(&import, "pets_replace"),
        json!({
            "type": "object", "additionalProperties": false, "required": ["petId", "body_petId"],
            "properties": {
                "petId": { "type": "integer", "exclusiveMinimum": 0 },
                "body_petId": { "type": "string", "description": "The new id." },
                "note": { "type": ["string", "null"], "enum": ["a", "b", null] },
            },
        })
    );
    let family = input(&import, "families_create");
    assert_eq!(family["properties"]["body"]["$ref"], "#/$defs/Family");
    assert_eq!(family["$defs"]["Family"]["properties"]["children"]["items"]["$ref"], "#/$defs/Family");
    assert_eq!(family.get("required"), None);
    let list = input(&import, "pets_list");
    assert_eq!(
        list["properties"]["limit"],
        json!({ "type": "integer", "maximum": 100, "description": "Default: 30." })
    );
    assert!(list["properties"].get("filter_age").is_some(), "{list}");
}

#[test]
fn an_output_schema_is_attached_only_on_request() {
    assert!(find(&petshop(json!({})), "pets_list").output().is_none());
    let import = petshop(json!({ "output_schemas": true }));
    let output = find(&import, "pets_list").output().unwrap();
    assert!(output.accepts(&json!([{ "id": 1, "name": "Rex", "owner": null, "more": true }])));
    assert!(!output.accepts(&json!([{ "id": 1 }])));
}

#[test]
fn filters_pick_by_id_path_method_and_tag() {
    for (filter, expected) in [
        (json!({ "include": [{ "tag": "pets" }] }), vec!["pets_list", "pets_create", "pets_get"]),
        (
            json!({ "include": [{ "operation_id": "pets/*", "method": "get" }] }),
            vec!["pets_list", "pets_get", "get_search"],
        ),
        (
            json!({ "include": [{ "path": "/pets*" }], "exclude": [{ "method": "PUT" }, { "method": "DELETE" }], "read_only_only": true }),
            vec!["pets_list", "pets_get", "get_pets_petId_photos_file"],
        ),
        (json!({ "include": [{ "tag": "none" }] }), vec![]),
    ] {
        assert_eq!(names(&petshop(filter.clone())), expected, "{filter}");
    }
}

#[test]
fn selectors_that_pick_nothing_are_told_of_and_methods_that_are_none_refused() {
    let unmatched = |filter: Value| -> Vec<String> {
        petshop(filter).unmatched.into_iter().map(|problem| problem.at).collect()
    };
    assert_eq!(
        unmatched(json!({
            "include": [{ "path": "/nothing*" }, { "tag": "pets" }],
            "exclude": [{ "method": "DELETE" }, { "operation_id": "*delte*" }],
        })),
        ["include/0", "exclude/1"]
    );
    assert_eq!(unmatched(json!({ "exclude": [{ "method": "trace" }] })), ["exclude/0"]);
    assert_eq!(unmatched(json!({})), [""; 0]);
    let wrong = config(json!({ "exclude": [{ "path": "/pets*" }, { "method": "DELTE" }] }));
    let error = import(&wrong, PETSHOP.as_bytes(), None, &backend()).unwrap_err().to_string();
    assert!(error.contains("`exclude[1].method`: `DELTE` is no method; there are GET"), "{error}");
}

#[test]
fn the_limit_counts_what_is_wanted() {
    let paths: serde_json::Map<_, _> =
        (0..5_010).map(|n| (format!("/{n}"), json!({ "get": { "operationId": format!("o{n}") } }))).collect();
    let document = json!({ "openapi": "3.0.0", "paths": paths }).to_string();
    let made = |filter: Value| {
        let mut config = config(filter);
        config.server = Some("http://localhost".to_owned());
        import(&config, document.as_bytes(), None, &backend()).unwrap()
    };
    let last = made(json!({ "include": [{ "path": "/500?" }] }));
    assert_eq!((last.tools.len(), last.skipped.len()), (10, 0));
    let all = made(json!({}));
    assert_eq!((all.tools.len(), all.skipped.len()), (5_000, 10));
    assert!(all.skipped[0].reason.contains("choose with `include`"), "{:?}", all.skipped[0]);
}

/// Stripe's document has such a body on every operation, also on those that read.
#[tokio::test]
async fn an_optional_form_without_fields_is_no_content() {
    let address = serve(Router::new().fallback(echo)).await;
    let form = |schema: Value, required: bool| {
        let body = json!({ "required": required, "content": { "application/x-www-form-urlencoded": { "schema": schema } } });
        let document = json!({ "openapi": "3.0.0", "servers": [{ "url": format!("http://{address}") }],
            "paths": { "/x": { "get": { "operationId": "x", "requestBody": body } } } });
        import(&OpenApiConfig::new("s", "d"), document.to_string().as_bytes(), None, &backend()).unwrap()
    };
    let empty = json!({ "type": "object", "properties": {} });
    let made = form(empty.clone(), false);
    assert_eq!((names(&made), made.reduced.len()), (vec!["x"], 0));
    let sent = call_tool(find(&made, "x"), json!({})).await.unwrap();
    assert_eq!((&sent["body"], &sent["content-type"]), (&json!(""), &Value::Null), "{sent}");
    for (schema, required) in [
        (empty, true),
        (json!({ "type": "object", "properties": {}, "additionalProperties": { "type": "string" } }), false),
    ] {
        assert_eq!(names(&form(schema.clone(), required)), [""; 0], "{schema}");
    }
}

#[tokio::test]
async fn arguments_arrive_where_the_document_says() {
    let shop = live_petshop().await;
    for (tool, arguments, seen, expected) in [
        ("pets_get", json!({ "petId": 7 }), "path", json!("/v1/pets/7")),
        ("pets_list", json!({ "tags": ["a", "b&c"] }), "query", json!("tags=a&tags=b%26c")),
        ("pets_list", json!({ "ids": [1, 2] }), "query", json!("ids=1,2")),
        ("pets_list", json!({ "colours": ["red", "blue"] }), "query", json!("colours=red|blue")),
        ("pets_list", json!({ "filter_age": { "min": 3 } }), "query", json!("filter%5Bage%5D%5Bmin%5D=3")),
        ("pets_list", json!({ "where": { "a": 1 } }), "query", json!("where=%7B%22a%22%3A1%7D")),
        ("pets_list", json!({}), "query", Value::Null),
        ("pets_list", json!({ "X-Trace": "t1" }), "x-trace", json!("t1")),
        ("pets_list", json!({ "session": "a;b" }), "cookie", json!("session=a%3Bb")),
        (
            "pets_create",
            json!({ "name": "Rex", "owner": null }),
            "body",
            json!(r#"{"name":"Rex","owner":null}"#),
        ),
        ("pets_create", json!({ "name": "Rex" }), "method", json!("POST")),
        ("pets_replace", json!({ "petId": 7, "body_petId": "new" }), "path", json!("/v1/pets/7")),
        ("pets_replace", json!({ "petId": 7, "body_petId": "new" }), "body", json!(r#"{"petId":"new"}"#)),
        ("notes_add", json!({ "body": ["a"] }), "body", json!(r#"["a"]"#)),
        ("notes_add", json!({ "body": ["a"] }), "content-type", json!("application/vnd.notes+json")),
        ("families_create", json!({}), "body", json!("")),
        ("families_create", json!({ "body": { "name": "x" } }), "body", json!(r#"{"name":"x"}"#)),
        (
            "login",
            json!({ "user": "a b", "scopes": ["r", "w"] }),
            "body",
            json!("user=a%20b&scopes=r&scopes=w"),
        ),
        (
            "get_pets_petId_photos_file",
            json!({ "petId": "1", "file": "a/b" }),
            "path",
            json!("/v1/pets/1/photos/a%2Fb"),
        ),
    ] {
        let tool = find(&shop, tool);
        tool.input().validate(&arguments).unwrap_or_else(|errors| panic!("{arguments}: {errors:?}"));
        let answer = call_tool(tool, arguments.clone()).await.unwrap();
        assert_eq!(answer[seen], expected, "{} with {arguments}", tool.name());
    }
}

#[tokio::test]
async fn a_path_argument_cannot_climb() {
    let shop = live_petshop().await;
    for file in ["..", ".", "", "../../admin", "%2e%2e"] {
        let arguments = json!({ "petId": "1", "file": file });
        let error = call_tool(find(&shop, "get_pets_petId_photos_file"), arguments).await.unwrap_err();
        assert_eq!(error.code(), ErrorCode::ValidationFailed, "{file}");
    }
}

#[tokio::test]
async fn each_operation_sends_the_credentials_that_it_asks_for() {
    let shop = live_petshop().await;
    for (tool, arguments, seen, expected) in [
        ("pets_list", json!({}), "authorization", json!("Bearer [redacted]")),
        ("login", json!({ "user": "x" }), "authorization", json!("Basic [redacted]")),
        ("pets_delete", json!({ "petId": 1 }), "x-api-key", json!("[redacted]")),
        ("pets_delete", json!({ "petId": 1 }), "authorization", Value::Null),
        ("get_search", json!({}), "query", json!("key=[redacted]")),
        ("families_create", json!({}), "authorization", Value::Null),
    ] {
        let answer = call_tool(find(&shop, tool), arguments).await.unwrap();
        assert_eq!(answer[seen], expected, "{tool}");
    }
    // What the operator gives is not asked of the model.
    let nothing = json!({ "type": "object", "properties": {}, "additionalProperties": false });
    assert_eq!(input(&shop, "get_search"), nothing);
}

#[tokio::test]
async fn without_security_the_only_credential_is_sent_and_of_several_none_is_guessed() {
    let address = serve(Router::new().fallback(echo)).await;
    let document = |more: Value| {
        let schemes = json!({ "bearer": { "type": "http", "scheme": "bearer" },
            "key": { "type": "apiKey", "in": "query", "name": "api_key" } });
        let mut paths = json!({ "/a": { "get": {} } });
        paths.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        json!({ "openapi": "3.0.0", "paths": paths, "components": { "securitySchemes": schemes } })
    };
    let imported = |document: Value, auth: &[&str]| {
        let auth: serde_json::Map<_, _> =
            auth.iter().map(|name| ((*name).to_owned(), json!("${env:TOKEN}"))).collect();
        let config = config(json!({ "server": format!("http://{address}"), "auth": auth }));
        import(&config, document.to_string().as_bytes(), None, &backend()).unwrap()
    };
    let seen = async |import: &Import| {
        let answer = call_tool(find(import, "get_a"), json!({})).await.unwrap();
        (answer["authorization"].clone(), answer["query"].clone())
    };

    let one = imported(document(json!({})), &["bearer"]);
    assert_eq!(seen(&one).await, (json!("Bearer [redacted]"), Value::Null));
    let one = imported(document(json!({})), &["key"]);
    assert_eq!(seen(&one).await, (Value::Null, json!("api_key=[redacted]")));

    let several = imported(document(json!({})), &["bearer", "key"]);
    assert!(several.tools.is_empty(), "{several:?}");
    let reason = &several.skipped[0].reason;
    assert!(reason.contains("several credentials") && reason.contains("`bearer`"), "{reason}");
    // That one operation needs no credentials does not say so of the others.
    for none in [json!([]), json!([{}])] {
        let other = json!({ "/b": { "get": { "security": none } } });
        let several = imported(document(other), &["bearer", "key"]);
        assert_eq!(names(&several), ["get_b"], "{several:?}");
        assert!(several.skipped[0].reason.contains("several credentials"), "{several:?}");
    }

    // Where the document says it of others, this operation is open to everybody.
    let other = json!({ "/b": { "get": { "security": [{ "key": [] }] } } });
    let open = imported(document(other), &["bearer", "key"]);
    assert_eq!(seen(&open).await, (Value::Null, Value::Null));
    assert_eq!(call_tool(find(&open, "get_b"), json!({})).await.unwrap()["query"], "api_key=[redacted]");
}

/// An API with one form, whose fields are written as `encoding` says.
fn form(server: &str, properties: Value, encoding: Value) -> Import {
    let content = json!({ "application/x-www-form-urlencoded": {
        "schema": { "type": "object", "properties": properties }, "encoding": encoding } });
    let document = json!({ "openapi": "3.0.0", "paths": { "/f": { "post": {
        "operationId": "f", "requestBody": { "required": true, "content": content } } } } });
    import(&config(json!({ "server": server })), document.to_string().as_bytes(), None, &backend()).unwrap()
}

#[tokio::test]
async fn fields_of_a_form_are_written_as_the_document_says() {
    let server = format!("http://{}", serve(Router::new().fallback(echo)).await);
    let properties = json!({ "email": {}, "address": {}, "metadata": {} });
    let style = |style: &str, explode: bool| json!({ "style": style, "explode": explode });
    let both = |one: Value| json!({ "address": one, "metadata": one });
    let deep = both(style("deepObject", true));
    let customer = json!({ "email": "a@b", "address": { "city": "Oslo", "line": { "one": "x" } },
        "metadata": { "city": "Meta" } });
    let lists = json!({ "address": ["a", { "b": [1, 2] }], "metadata": [] });
    let plain = json!({ "address": { "a": 1, "b": 2 }, "metadata": ["x", "y z"] });
    for (encoding, arguments, expected) in [
        (&deep, &customer, "email=a@b&address[city]=Oslo&address[line][one]=x&metadata[city]=Meta"),
        (&deep, &lists, "address[0]=a&address[1][b][0]=1&address[1][b][1]=2"),
        (&json!({}), &plain, r#"address={"a":1,"b":2}&metadata=x&metadata=y z"#),
        (
            &both(json!({ "contentType": "application/json" })),
            &plain,
            r#"address={"a":1,"b":2}&metadata=["x","y z"]"#,
        ),
        (&both(style("form", true)), &plain, "a=1&b=2&metadata=x&metadata=y z"),
        (&both(style("form", false)), &plain, "address=a,1,b,2&metadata=x,y z"),
        (&both(json!({ "style": "pipeDelimited" })), &plain, "address=a|1|b|2&metadata=x|y z"),
        (&both(json!({ "style": "spaceDelimited" })), &plain, "address=a 1 b 2&metadata=x y z"),
    ] {
        let import = form(&server, properties.clone(), encoding.clone());
        let answer = call_tool(find(&import, "f"), arguments.clone()).await.unwrap();
        let body = percent_encoding::percent_decode_str(answer["body"].as_str().unwrap());
        assert_eq!(body.decode_utf8().unwrap(), expected, "{encoding}");
    }
}

#[tokio::test]
async fn a_form_never_sends_two_values_under_one_name() {
    let server = format!("http://{}", serve(Router::new().fallback(echo)).await);
    let spread = json!({ "a": { "style": "form" }, "b": { "style": "form" } });
    let city = json!({ "type": "object", "properties": { "city": {} } });
    for properties in [json!({ "a": city, "b": city }), json!({ "a": city, "city": {} })] {
        let import = form(&server, properties, spread.clone());
        assert!(import.skipped[0].reason.contains("two values as `city`"), "{import:?}");
    }
    // What is spread out has its own name for itself, and nobody else has it.
    let own = json!({ "type": "object", "properties": { "a": {}, "x": {} } });
    let import = form(&server, json!({ "a": own, "b": {} }), spread.clone());
    let tool = find(&import, "f");
    assert_eq!(call_tool(tool, json!({ "a": { "a": 1, "x": 2 } })).await.unwrap()["body"], "a=1&x=2");
    for arguments in [json!({ "a": { "x": 1 }, "b": { "a": 2 } }), json!({ "b": { "a": 2 } })] {
        let error = call_tool(tool, arguments).await.unwrap_err();
        assert!(error.to_string().contains("under that name"), "{error}");
    }
    let import = form(&server, json!({ "a": own, "b": own }), spread.clone());
    assert!(import.skipped[0].reason.contains("two values as `a`"), "{import:?}");
    // What no schema names is found when it is sent, also where the other value is absent.
    let import = form(&server, json!({ "a": {}, "b": {}, "city": {} }), spread);
    let tool = find(&import, "f");
    for arguments in [json!({ "a": { "x": 1 }, "b": { "x": 2 } }), json!({ "a": { "city": 1 } })] {
        let error = call_tool(tool, arguments).await.unwrap_err();
        assert_eq!(error.code(), ErrorCode::ValidationFailed);
        assert!(error.to_string().contains("under that name"), "{error}");
    }
    assert_eq!(
        call_tool(tool, json!({ "a": { "x": 1 }, "b": { "y": 2 } })).await.unwrap()["body"],
        "x=1&y=2"
    );
}

#[tokio::test]
async fn a_document_is_loaded_from_a_file_or_over_the_network() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures");
    assert_eq!(load(&config(json!({})), &folder, &backend()).await.unwrap().tools.len(), 10);
    let error = load(&OpenApiConfig::new("x", "absent.yaml"), &folder, &backend()).await.unwrap_err();
    assert!(matches!(error, ImportError::File { .. }), "{error}");

    let document =
        json!({ "openapi": "3.1.0", "servers": [{ "url": "/api" }], "paths": { "/ping": { "get": {} } } });
    let router = Router::new().route("/openapi.json", get(|| async { axum::Json(document) })).fallback(echo);
    let address = serve(router).await;
    let config = OpenApiConfig::new("x", format!("http://{address}/openapi.json"));
    let import = load(&config, &folder, &backend()).await.unwrap();
    let answer = call_tool(find(&import, "get_ping"), json!({})).await.unwrap();
    assert_eq!(answer["path"], "/api/ping");
    let elsewhere = OpenApiConfig::new("x", "http://10.0.0.1/openapi.json");
    let error = load(&elsewhere, &folder, &backend()).await.unwrap_err();
    assert!(matches!(error, ImportError::Fetch(_)), "{error}");
}

#[test]
fn servers_take_variables_and_credentials_stay_on_one_origin() {
    let skipped = |document: Value, more: Value| {
        let import = import(&config(more), document.to_string().as_bytes(), None, &backend()).unwrap();
        import.skipped.first().map(|skipped| skipped.reason.clone()).unwrap_or_default()
    };
    let document = |servers: Value, own: Value| json!({ "openapi": "3.0.0", "servers": servers, "paths": { "/a": { "get": { "servers": own } } } });
    let good = json!([{ "url": "https://a.example/v1" }]);
    assert_eq!(skipped(document(good.clone(), json!([{ "url": "https://a.example/v2" }])), json!({})), "");
    let other = document(good, json!([{ "url": "https://evil.example" }]));
    assert!(skipped(other.clone(), json!({})).contains("another server"));
    assert_eq!(skipped(other, json!({ "server": "https://b.example" })), "");
    for url in ["/relative", "ftp://a.example", "https://u:p@a.example", "https://{unknown}/", "${env:TOKEN}"]
    {
        let reason = skipped(document(json!([{ "url": url }]), json!([{ "url": url }])), json!({}));
        assert!(reason.contains("set `server`"), "{url}: {reason}");
    }
}

#[test]
fn unsound_configurations_are_refused() {
    for (more, hint) in [
        (json!({ "auth": { "bearer": "abc" } }), "${env:NAME}"),
        (json!({ "auth": { "baerer": "${env:TOKEN}" } }), "it has `bearer`, `basic`, `key`, `queryKey`"),
        (json!({ "headers": { "Authorization": "Bearer abc" } }), "${env:NAME}"),
        (json!({ "headers": { "X-A": "{arg}" } }), "no argument"),
        (json!({ "query": { "a": "${" } }), "env:NAME"),
    ] {
        let error = import(&config(more.clone()), PETSHOP.as_bytes(), None, &backend()).unwrap_err();
        assert!(error.to_string().contains(hint), "{more}: {error}");
    }
    assert!(
        serde_json::from_value::<OpenApiConfig>(json!({ "namespace": "x", "document": "y", "tag": 1 }))
            .is_err()
    );
}

#[test]
fn hostile_documents_are_refused_or_skipped_and_soon() {
    let started = Instant::now();
    let parse = |text: &str| import(&OpenApiConfig::new("x", "d"), text.as_bytes(), None, &backend());
    let mut bomb = "openapi: 3.0.0\npaths: {}\na0: &a0 [x,x,x,x,x,x,x,x,x]\n".to_owned();
    for level in 1..12 {
        let items = vec![format!("*a{}", level - 1); 9].join(",");
        bomb.push_str(&format!("a{level}: &a{level} [{items}]\n"));
    }
    for (name, text) in [
        ("deep json", format!("{{\"a\":{}", "[".repeat(100_000))),
        ("deep yaml", format!("a: {}", "[".repeat(100_000))),
        ("deep block yaml", (0..5_000).map(|depth| format!("{}a:\n", " ".repeat(depth))).collect()),
        ("alias bomb", bomb),
        ("empty", String::new()),
        ("a list", "[1]".to_owned()),
        ("swagger", r#"{"swagger":"2.0"}"#.to_owned()),
        ("version", r#"{"openapi":"4.0.0"}"#.to_owned()),
        ("too large", " ".repeat((32 << 20) + 1)),
    ] {
        assert!(parse(&text).is_err(), "{name}");
    }
    let document = json!({
        "openapi": "3.1.0", "servers": [{ "url": "https://a.example" }],
        "paths": {
            "/fine": { "get": { "operationId": "x" } },
            "/again": { "get": { "operationId": "x" } },
            "/loop": { "$ref": "#/paths/~1loop" },
            "/gone": { "$ref": "#/paths/~1nothing" },
            "/outside": { "$ref": "https://evil.example/x.json" },
            "/../up": { "get": {} },
            "/%2e%2E/up": { "get": {} },
            "/${env:TOKEN}": { "get": {} },
            "/open{": { "get": {} },
            "no-slash": { "get": {} },
            "/parameter-loop": { "get": { "parameters": [{ "$ref": "#/components/parameters/A" }] } },
            "/schema-loop": { "post": { "requestBody": { "required": true, "content": { "application/json": {
                "schema": { "$ref": "#/components/schemas/A" } } } } } },
            "/odd": { "get": "not an operation" },
            "/query": { "query": { "operationId": "searches" }, "additionalOperations": { "B A D": {} } },
            "/pattern": { "get": { "operationId": "pattern", "parameters": [
                { "name": "p", "in": "query", "schema": { "type": "string", "pattern": "([", "default": 7 } }] } },
        },
        "components": {
            "parameters": { "A": { "$ref": "#/components/parameters/B" }, "B": { "$ref": "#/components/parameters/A" } },
            "schemas": { "A": { "$ref": "#/components/schemas/A" } },
        },
    });
    let import = parse(&document.to_string()).unwrap();
    assert_eq!(names(&import), ["x", "get_again", "get_env_TOKEN", "get_odd", "searches", "pattern"]);
    assert_eq!(import.skipped.len(), 10, "{:#?}", import.skipped);
    let odd = find(&import, "get_env_TOKEN").definition().input_schema.clone();
    assert_eq!(odd["required"], json!(["env_TOKEN"]), "a document names no variables of ours");
    assert!(started.elapsed() < Duration::from_secs(20), "{:?}", started.elapsed());
}

/// Set `HELVE_GITHUB_OPENAPI` to `api.github.com.json` of the npm package `@octokit/openapi`.
/// GitHub's document, which `scripts/fetch-github-openapi.sh` fetches.
#[expect(clippy::disallowed_methods, reason = "a test may run the project's own script")]
fn github_document() -> Vec<u8> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let file = root.join("target/fixtures/api.github.com.json");
    let fetched =
        std::process::Command::new(root.join("scripts/fetch-github-openapi.sh")).arg(&file).status();
    assert!(fetched.unwrap().success(), "GitHub's document could not be fetched");
    std::fs::read(file).unwrap()
}

#[test]
fn a_real_document_of_a_thousand_operations_imports_nearly_whole() {
    let bytes = github_document();
    for output_schemas in [false, true] {
        let mut config = OpenApiConfig::new("github", "github");
        config.headers.insert("Authorization".to_owned(), "Bearer ${env:GITHUB_TOKEN}".to_owned());
        config.output_schemas = output_schemas;
        let import = import(&config, &bytes, None, &backend()).unwrap();
        assert_eq!(import.tools.len(), 1_222);
        // This one lives on another host than the rest, to which the token must not go.
        assert_eq!(import.skipped.len(), 1, "{:#?}", import.skipped);
        let registry = helve::Registry::with_limit(2_000);
        registry.register_many(helve::Layer::Project, import.tools).unwrap();
        let found = registry.search("create an issue", 5);
        let names: Vec<_> = found.iter().map(|hit| hit.registered.name().as_str()).collect();
        assert!(names.contains(&"github/issues_create"), "{names:?}");
    }
}

#[test]
fn many_operations_and_schemas_may_be_named_alike() {
    let (operations, schemas) = (5_000, 2_000);
    // Cut to the length of a name, all of them are the same.
    let path = |n: usize| format!("/{}/{n}", "x".repeat(70));
    let mut paths: serde_json::Map<_, _> =
        (1..operations).map(|n| (path(n), json!({ "get": { "operationId": "same" } }))).collect();
    let part = |n: usize| (format!("p{n}"), json!({ "properties": { "same": { "type": "string" } } }));
    let refer = |n: usize| {
        let reference = format!("#/components/schemas/p{n}/properties/same");
        (format!("f{n}"), json!({ "$ref": reference }))
    };
    let all: serde_json::Map<_, _> = (0..schemas).map(refer).collect();
    let body =
        json!({ "content": { "application/json": { "schema": { "type": "object", "properties": all } } } });
    paths.insert("/all".to_owned(), json!({ "post": { "operationId": "all", "requestBody": body } }));
    let parts: serde_json::Map<_, _> = (0..schemas).map(part).collect();
    let document = json!({ "openapi": "3.0.0", "paths": paths, "components": { "schemas": parts } });

    let begun = Instant::now();
    let server = json!({ "server": "http://localhost" });
    let import = import(&config(server), document.to_string().as_bytes(), None, &backend()).unwrap();
    assert_eq!(import.tools.len(), operations, "{:?}", import.skipped.first());
    assert_eq!(input(&import, "all")["$defs"].as_object().unwrap().len(), schemas);
    let names: std::collections::BTreeSet<_> = names(&import).into_iter().collect();
    assert!(names.contains("same") && names.iter().any(|name| name.ends_with("_4998")));
    assert_eq!(names.len(), operations);
    assert!(begun.elapsed() < Duration::from_secs(30), "{:?}", begun.elapsed());
}
