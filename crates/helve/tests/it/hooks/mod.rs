//! Hooks: which see what, what their answers come to, and that a broken one denies.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

mod after;
mod batch;
mod before;
mod person;
mod raised;
mod running;
mod together;
mod told;

use std::time::Duration;

use helve::formats::{ResultBudget, result_text};
use helve::hook::{
    HookContext, HookEvent, HookFailure, HookInput, HookOutput, OnFailure, PermissionDecision,
};
use helve::hooks::{HookEntry, HookSet, Matcher, ToolHook};
use helve::{Call, Caller, Context, ErrorCode, Source, Status, Tool, ToolBuilder, ToolError};
use proptest::prelude::*;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::support::Bench;

/// A tool that says what it was given, and counts how often it ran.
fn counting(name: &str) -> (ToolBuilder, Arc<AtomicU32>) {
    let count = Arc::new(AtomicU32::new(0));
    let counter = Arc::clone(&count);
    let tool = Tool::builder(name)
        .description("Says what it was given.")
        .input_schema(json!({ "type": "object", "additionalProperties": false, "required": ["text"],
            "properties": { "text": { "type": "string" }, "times": { "type": "integer", "maximum": 3 },
                "password": { "type": "string" } } }))
        .handler(move |arguments: Value, _: Context| {
            counter.fetch_add(1, Ordering::SeqCst);
            async move { Ok::<_, ToolError>(json!({ "said": arguments["text"] })) }
        })
        .read_only();
    (tool, count)
}

fn answering(output: HookOutput) -> impl helve::hook::Hook {
    move |_: Arc<HookInput>, _: HookContext| {
        let output = output.clone();
        async move { Ok::<_, HookFailure>(output) }
    }
}

fn from_json(event: HookEvent, answer: Value) -> HookOutput {
    HookOutput::from_value(&event, answer).unwrap()
}

fn before(specific: Value) -> HookOutput {
    from_json(HookEvent::PreToolUse, json!({ "hookSpecificOutput": specific }))
}

type Heard = Arc<Mutex<Vec<Value>>>;

/// A hook that writes down what it is told.
fn listening() -> (Heard, impl helve::hook::Hook) {
    let heard = Heard::default();
    let told = Arc::clone(&heard);
    let hook = move |input: Arc<HookInput>, _: HookContext| {
        told.lock().unwrap().push(serde_json::to_value(&*input).unwrap());
        async { Ok::<_, HookFailure>(HookOutput::none()) }
    };
    (heard, hook)
}

fn bench(tool: ToolBuilder, set: HookSet) -> Bench {
    Bench::with([tool], |builder| builder.hooks(set))
}

fn on(event: HookEvent, output: HookOutput) -> HookSet {
    HookSet::default().on(event, Matcher::all(), answering(output))
}
