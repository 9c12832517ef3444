//! A complete agent loop in each provider's message format.
//!
//! The model is scripted, so that this runs with no network: it reads the messages it gets and
//! answers in the provider's own format. Everything else is what a real loop does: export the
//! tools, run the calls in each answer, send the results back, until the model is done.
//!
//! `cargo run -p helve-examples --example agent-loop`

use std::sync::Arc;

use helve::formats::Format;
use helve::{Caller, Layer, Registry, Runtime};
use serde_json::{Value, json};

const TURNS_MAX: usize = 8;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let registry = Registry::default();
    registry.register_many(Layer::BuiltIn, helve_tools::builtin_tools())?;
    let runtime = Runtime::builder().registry(registry).build();
    for format in [Format::Anthropic, Format::OpenAi, Format::OpenAiChat, Format::Gemini] {
        println!("== {format}");
        run_agent(&runtime, format).await?;
    }
    Ok(())
}

async fn run_agent(runtime: &Runtime, format: Format) -> Result<(), Box<dyn std::error::Error>> {
    let tools = runtime.registry().export(format);
    let mut model = ScriptedModel { format, turn: 0 };
    let mut messages = vec![json!({ "role": "user", "content": "What is 17% of 4,250?" })];
    let caller = Arc::new(Caller::agent("example").session(format.to_string()));
    for _ in 0..TURNS_MAX {
        let answer = model.answer(&tools, &messages);
        let results = runtime.answer(format, &answer, caller.clone()).await?;
        if results.is_empty() {
            println!("model:  {}", text_of(&answer));
            return Ok(());
        }
        messages.push(answer);
        for result in results {
            println!("result: {result}");
            messages.push(result);
        }
    }
    Err("the model did not come to an end".into())
}

/// A model that makes a mistake, reads the error, corrects itself and answers.
struct ScriptedModel {
    format: Format,
    turn: usize,
}

impl ScriptedModel {
    fn answer(&mut self, tools: &Value, messages: &[Value]) -> Value {
        assert!(tools.to_string().contains("math-eval"), "the model sees the tools");
        self.turn += 1;
        let last = messages.last().map(Value::to_string).unwrap_or_default();
        match self.turn {
            // A field that the tool does not have.
            1 => self.call(json!({ "formula": "4250 * 0.17" })),
            2 => {
                assert!(last.contains("expression"), "the error names the right field: {last}");
                self.call(json!({ "expression": "4250 * 0.17" }))
            }
            _ => {
                assert!(last.contains("722.5"), "the result came back: {last}");
                self.say("17% of 4,250 is 722.5.")
            }
        }
    }

    fn call(&self, arguments: Value) -> Value {
        let (id, name) = (format!("call_{}", self.turn), "math-eval");
        match self.format {
            Format::Anthropic => json!({ "role": "assistant", "content": [
                { "type": "text", "text": "Let me work that out." },
                { "type": "tool_use", "id": id, "name": name, "input": arguments } ] }),
            Format::OpenAi => json!({ "type": "function_call", "call_id": id, "name": name,
                "arguments": arguments.to_string() }),
            Format::OpenAiChat => json!({ "role": "assistant", "tool_calls": [
                { "id": id, "type": "function", "function": { "name": name, "arguments": arguments.to_string() } } ] }),
            Format::Gemini => json!({ "role": "model", "parts": [
                { "functionCall": { "id": id, "name": name, "args": arguments } } ] }),
            Format::Mcp | Format::Llm => unreachable!("not a model's format"),
        }
    }

    fn say(&self, text: &str) -> Value {
        match self.format {
            Format::Anthropic => {
                json!({ "role": "assistant", "content": [{ "type": "text", "text": text }] })
            }
            Format::OpenAi => json!({ "type": "message", "role": "assistant",
                "content": [{ "type": "output_text", "text": text }] }),
            Format::OpenAiChat => json!({ "role": "assistant", "content": text }),
            Format::Gemini => json!({ "role": "model", "parts": [{ "text": text }] }),
            Format::Mcp | Format::Llm => unreachable!("not a model's format"),
        }
    }
}

/// Where each provider puts what the model says.
fn text_of(answer: &Value) -> &str {
    let places = ["/content/0/text", "/parts/0/text", "/content"];
    places.iter().find_map(|place| answer.pointer(place)?.as_str()).unwrap_or_default()
}
