//! Helve inside a program, with a `helve.toml`: its tools, rules, limits, trust and journal, and a tool of the
//! program's own beside them.
//!
//! `cargo run -p helve-examples --example embed`

use std::time::Duration;

use helve::{Call, Context, Layer, Tool, ToolError};
use helve_host::{Host, Options};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

/// A folder as somebody may have cloned it. What reaches beyond the folder waits for its user.
const HELVE_TOML: &str = r#"
[office]
enabled = false

[rules]
deny = ["text-stats"]

[[tool.program]]
name = "deploy"
description = "Deploys what is here."
command = "./deploy.sh"
confined = false
"#;

#[derive(Deserialize, JsonSchema)]
struct Order {
    /// The number of the order.
    number: u32,
}

async fn order(input: Order, _context: Context) -> Result<Value, ToolError> {
    Ok(json!({ "number": input.number, "state": "shipped" }))
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = tempfile::tempdir()?;
    std::fs::write(folder.path().join("helve.toml"), HELVE_TOML)?;

    let helve = Host::open(Options::in_folder(folder.path())).await?;
    let own = Tool::function("order-status", "Says where an order is.", order);
    helve.runtime().registry().register(Layer::Org, own.build()?)?;
    for one in helve.waiting()? {
        println!("the {} `{}` waits for `helve trust`", one.kind, one.name);
    }
    let calls = [
        ("math-eval", json!({ "expression": "0.17 * 4250" })),
        ("order-status", json!({ "number": "7" })),
        ("text-stats", json!({ "text": "hello" })),
        ("deploy", json!({})),
    ];
    for (tool, arguments) in calls {
        let outcome = helve.runtime().call(Call::new(tool, arguments)).await;
        println!("{tool}: {}", serde_json::to_string(&outcome.status)?);
    }
    helve.close(Duration::from_secs(5)).await?;
    Ok(())
}
