//! The JSON Schema of `helve.toml`, made from the types.

use helve::Schema;
use serde_json::{Value, json};

use super::Config;

/// The schema as editors use it.
pub fn json() -> Value {
    let mut schema = schemars::schema_for!(Config).to_value();
    schema["$id"] = json!("https://helve.dev/schemas/helve.toml.json");
    schema["title"] = json!("helve.toml");
    schema
}

/// The schema, compiled.
pub fn compiled() -> Schema {
    let schema = schemars::schema_for!(Config).to_value();
    Schema::compile(schema).expect("the schema of our own types compiles; a test holds it in place")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_schema_compiles_and_accepts_the_defaults() {
        let defaults = serde_json::to_value(Config::default()).unwrap();
        assert_eq!(compiled().validate(&defaults), Ok(()));
    }
}
