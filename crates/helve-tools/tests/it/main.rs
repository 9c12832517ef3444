//! Tools from configuration and built-in tools, against the real thing.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod builtin;
mod code;
#[cfg(unix)]
mod faults;
#[cfg(unix)]
mod files;
mod hooks;
mod http;
mod openapi;
mod program;
mod web;

use std::time::{Duration, Instant};

use helve::{CallId, Caller, Context, Tool, ToolError};
use serde_json::Value;

/// The context of a call with time enough.
fn context(tool: &Tool) -> Context {
    let deadline = Instant::now() + Duration::from_secs(30);
    Context::new(CallId::new(jiff::Timestamp::now()), tool.name().clone(), Caller::local(), deadline)
}

/// Calls a tool as the pipeline does, with checked arguments and a checked answer.
async fn call(tool: &Tool, arguments: Value) -> Result<Value, ToolError> {
    tool.input().validate(&arguments).expect("the arguments fit");
    let answer = tool.handler().call(arguments, context(tool)).await?;
    if let Some(schema) = tool.output() {
        schema.validate(&answer).expect("the answer fits");
    }
    Ok(answer)
}
