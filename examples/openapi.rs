//! An HTTP API described by an OpenAPI document becomes tools, one an operation.
//!
//! The API and its document are served on loopback by this program, so it runs with no network.
//!
//! `cargo run -p helve-examples --example openapi`

use std::path::Path;
use std::sync::Arc;

use axum::extract::Path as Segment;
use axum::routing::get;
use axum::{Json, Router};
use helve::{Call, Filter, Layer, Registry, Runtime};
use helve_net::{Client, NetPolicy};
use helve_tools::http::Backend;
use helve_tools::openapi::{OpenApiConfig, load};
use serde_json::{Value, json};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let address = serve_library().await?;

    // Loopback is forbidden unless the operator says otherwise.
    let client = Client::new(NetPolicy::allowing([address.as_str()])?)?;
    let config = OpenApiConfig::new("library", format!("http://{address}/openapi.json"));
    let import = load(&config, Path::new("."), &Backend::new(Arc::new(client))).await?;

    let registry = Registry::default();
    registry.register_many(Layer::Project, import.tools)?;
    let runtime = Runtime::builder().registry(registry).build();
    for registered in runtime.registry().list(&Filter::default()) {
        let definition = registered.tool.definition();
        println!("{:<20} {:<7} {}", definition.name, definition.risk, definition.description);
    }

    let outcome = runtime.call(Call::new("library/getBook", json!({ "id": 1 }))).await;
    println!("found:   {}", outcome.into_result()?);
    let outcome =
        runtime.call(Call::new("library/listBooks", json!({ "author": "Ursula K. Le Guin" }))).await;
    println!("listed:  {}", outcome.into_result()?);
    let outcome = runtime.call(Call::new("library/getBook", json!({ "id": 99 }))).await;
    println!("missing: {}", outcome.into_result().expect_err("there is no such book"));
    Ok(())
}

/// Serves a small library and its document; returns where.
async fn serve_library() -> Result<String, std::io::Error> {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?.to_string();
    let app = Router::new()
        .route("/openapi.json", get(|| async { Json(document()) }))
        .route("/books", get(list_books))
        .route("/books/{id}", get(get_book));
    tokio::spawn(async move { axum::serve(listener, app).await });
    Ok(address)
}

fn books() -> Vec<Value> {
    vec![
        json!({ "id": 1, "title": "The Dispossessed", "author": "Ursula K. Le Guin" }),
        json!({ "id": 2, "title": "Invisible Cities", "author": "Italo Calvino" }),
    ]
}

async fn list_books(
    query: axum::extract::Query<std::collections::HashMap<String, String>>,
) -> Json<Vec<Value>> {
    let wanted = query.get("author");
    Json(books().into_iter().filter(|book| wanted.is_none_or(|author| book["author"] == **author)).collect())
}

async fn get_book(Segment(id): Segment<u64>) -> Result<Json<Value>, axum::http::StatusCode> {
    let found = books().into_iter().find(|book| book["id"] == id);
    found.map(Json).ok_or(axum::http::StatusCode::NOT_FOUND)
}

fn document() -> Value {
    let book = json!({ "type": "object", "properties": {
        "id": { "type": "integer" }, "title": { "type": "string" }, "author": { "type": "string" } } });
    json!({
        "openapi": "3.1.0",
        "info": { "title": "Library", "version": "1" },
        "paths": {
            "/books": { "get": {
                "operationId": "listBooks", "summary": "Lists the books of the library.",
                "parameters": [{ "name": "author", "in": "query", "description": "Only books by this author.",
                    "schema": { "type": "string" } }],
                "responses": { "200": { "description": "Books", "content": { "application/json": {
                    "schema": { "type": "array", "items": { "$ref": "#/components/schemas/Book" } } } } } } } },
            "/books/{id}": { "get": {
                "operationId": "getBook", "summary": "Finds one book by its number.",
                "parameters": [{ "name": "id", "in": "path", "required": true, "schema": { "type": "integer" } }],
                "responses": { "200": { "description": "A book", "content": { "application/json": {
                    "schema": { "$ref": "#/components/schemas/Book" } } } } } } },
        },
        "components": { "schemas": { "Book": book } },
    })
}
