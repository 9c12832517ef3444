//! The program of `docs/quickstart-rust.md`: a function as a tool, and an agent's loop around it.
//!
//! `cargo run -p helve-examples --example quickstart`

use helve::formats::Format;
use helve::{Caller, Context, Runtime, Tool, ToolError};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

#[derive(Deserialize, JsonSchema)]
struct Percentage {
    /// How much of it, in percent.
    percent: f64,
    /// The number that it is a share of.
    of: f64,
}

async fn percentage(input: Percentage, _context: Context) -> Result<Value, ToolError> {
    Ok(json!(input.percent * input.of / 100.0))
}

/// Where a real agent asks its provider. This model calls the tool once, and then says what it read.
fn ask_model(_tools: &Value, messages: &[Value]) -> Value {
    match messages {
        [_] => json!({ "role": "assistant", "content": [
            { "type": "tool_use", "id": "toolu_1", "name": "percentage", "input": { "percent": 17, "of": "4250" } } ] }),
        [.., last] => json!({ "role": "assistant", "content": [
            { "type": "text", "text": format!("It is {}.", last["content"][0]["content"].as_str().unwrap_or("lost")) } ] }),
        [] => json!(null),
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let tool = Tool::function("percentage", "Works out a percentage.", percentage);
    let runtime = Runtime::builder().tool(tool)?.build();
    let tools = runtime.registry().export(Format::Anthropic);
    let mut messages = vec![json!({ "role": "user", "content": "What is 17% of 4,250?" })];
    loop {
        let said = ask_model(&tools, &messages);
        let results =
            runtime.answer(Format::Anthropic, &said, Caller::agent("reviewer").session("s-1")).await?;
        if results.is_empty() {
            println!("{}", said["content"][0]["text"].as_str().unwrap_or_default());
            return Ok(());
        }
        messages.push(said);
        messages.extend(results);
    }
}
