//! Compositions on a host that runs registered tools directly and remembers what was called.

mod conditional;
mod definition;
mod map;
mod model;
mod parallel;
mod refusals;
mod sequence;

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use helve_core::ports::{Memory, ToolHost};
use helve_core::run::{Part, Progress};
use helve_core::{
    BoxFuture, Call, CallId, Caller, Context, ContextParts, ErrorCode, Layer, Outcome, Output, Parameter,
    ParameterType, Pending, Status, Tool, ToolBuilder, ToolError,
};
use serde_json::{Value, json};

use super::{ComposedBuilder, Composition};
use crate::registry::Registry;
use crate::volatile::VolatileLedger;

/// Runs tools directly, and remembers.
#[derive(Default)]
struct FakeHost {
    registry: Registry,
    /// Path, tool and arguments of each part, in the order of their starts.
    calls: Mutex<Vec<(String, String, Value)>>,
    /// How each part ended, in the order of their ends.
    ends: Mutex<Vec<(String, Status)>>,
    reports: Mutex<Vec<Progress>>,
    /// Outcomes from a record, by path: such a part is not run.
    record: HashMap<String, Status>,
    running: AtomicUsize,
    running_max: AtomicUsize,
    memory: VolatileLedger,
}

impl ToolHost for FakeHost {
    fn call_part(
        self: Arc<Self>,
        context: &Context,
        step: Arc<str>,
        call: Box<Call>,
    ) -> BoxFuture<'static, Outcome> {
        let context = context.clone();
        Box::pin(async move {
            let path =
                context.part().map_or_else(|| step.to_string(), |part| format!("{}/{step}", part.path));
            self.calls.lock().unwrap().push((path.clone(), call.tool.clone(), call.arguments.clone()));
            let running = self.running.fetch_add(1, Ordering::SeqCst) + 1;
            self.running_max.fetch_max(running, Ordering::SeqCst);
            let tool = call.tool.clone();
            let status = match self.record.get(&path) {
                Some(status) => status.clone(),
                None => Arc::clone(&self).execute(&context, path.clone(), *call).await,
            };
            self.running.fetch_sub(1, Ordering::SeqCst);
            self.ends.lock().unwrap().push((path, status.clone()));
            Outcome::new(CallId::new(jiff::Timestamp::UNIX_EPOCH), tool, status)
        })
    }

    fn memory(&self) -> &dyn Memory {
        &self.memory
    }

    fn is_heard(&self, _context: &Context) -> bool {
        true
    }

    fn report(&self, _context: &Context, progress: Progress) {
        self.reports.lock().unwrap().push(progress);
    }
}

impl FakeHost {
    async fn execute(self: Arc<Self>, context: &Context, path: String, call: Call) -> Status {
        let Some(tool) = self.registry.tool(&call.tool) else {
            return Status::Failed(ToolError::new(ErrorCode::ToolNotFound, "no such tool"));
        };
        if tool.definition().requires_approval {
            return Status::Pending(Pending {
                approval_id: helve_core::ApprovalId::new(jiff::Timestamp::UNIX_EPOCH),
                reasons: vec!["it asks".to_owned()],
                binding: String::new(),
            });
        }
        let mut arguments = call.arguments;
        tool.input().apply_defaults(&mut arguments);
        if let Err(errors) = tool.input().validate(&arguments) {
            return Status::Failed(ToolError::new(ErrorCode::ValidationFailed, errors[0].message.clone()));
        }
        let token = call.cancellation.unwrap_or_else(|| context.cancellation().child_token());
        let part = Part { run: context.run(), path: path.into() };
        let known = self.context_parts(&tool);
        let inner = ContextParts { part: Some(part), cancellation: Some(token.clone()), ..known }.into();
        let deadline = call.timeout.unwrap_or(Duration::from_secs(3600));
        tokio::select! {
            biased;
            result = tool.handler().call(arguments, inner) => match result {
                Ok(value) => Status::Done(Output::success(value)),
                Err(error) if tool.definition().failure_mode == helve_core::FailureMode::Return => {
                    Status::Done(Output::failure(&error))
                }
                Err(error) => Status::Failed(error),
            },
            () = token.cancelled() => Status::Failed(ToolError::new(ErrorCode::Cancelled, "taken back")),
            () = tokio::time::sleep(deadline) => Status::Failed(ToolError::new(ErrorCode::Timeout, "too slow")),
        }
    }

    fn context(self: &Arc<Self>, tool: &Tool) -> Context {
        self.context_parts(tool).into()
    }

    fn context_parts(self: &Arc<Self>, tool: &Tool) -> ContextParts {
        let caller = Caller::agent("bot").session("s-1");
        let deadline = Instant::now() + Duration::from_secs(3600);
        let id = CallId::new(jiff::Timestamp::UNIX_EPOCH);
        let known = ContextParts::new(id, tool.name().clone(), Arc::new(caller), deadline);
        ContextParts { host: Some(Arc::clone(self) as Arc<dyn ToolHost>), ..known }
    }

    /// Calls a tool as the pipeline would.
    async fn call(self: &Arc<Self>, tool: &Tool, mut arguments: Value) -> Result<Value, ToolError> {
        tool.input().apply_defaults(&mut arguments);
        if let Err(errors) = tool.input().validate(&arguments) {
            panic!("the arguments do not fit: {}", errors[0].message);
        }
        let result = tool.handler().call(arguments, self.context(tool)).await?;
        if let Some(output) = tool.output() {
            assert_eq!(output.validate(&result), Ok(()), "{result}");
        }
        Ok(result)
    }

    fn paths(&self) -> Vec<String> {
        self.calls.lock().unwrap().iter().map(|(path, ..)| path.clone()).collect()
    }

    fn arguments(&self, path: &str) -> Value {
        let calls = self.calls.lock().unwrap();
        calls.iter().find(|(one, ..)| one == path).unwrap_or_else(|| panic!("no call `{path}`")).2.clone()
    }
}

/// Tools to put together.
fn tools() -> Vec<ToolBuilder> {
    let number = |name: &str| Parameter::required(name, ParameterType::Number, "A number.");
    let text = |name: &str| Parameter::required(name, ParameterType::String, "Some text.");
    vec![
        Tool::builder("math/add")
            .parameter(number("a"))
            .parameter(number("b"))
            .output_schema(json!({ "type": "object", "properties": { "sum": { "type": "number" } },
                "required": ["sum"] }))
            .handler(|arguments, _| async move {
                let of = |name: &str| arguments[name].as_f64().unwrap_or_default();
                Ok(json!({ "sum": of("a") + of("b") }))
            })
            .read_only(),
        Tool::builder("echo")
            .input_schema(json!({ "type": "object" }))
            .handler(|arguments, _| async move { Ok(arguments) })
            .read_only(),
        Tool::builder("text/upper")
            .parameter(text("text"))
            .handler(|arguments, _| async move {
                Ok(json!({ "text": arguments["text"].as_str().unwrap_or_default().to_uppercase() }))
            })
            .read_only(),
        Tool::builder("wait")
            .parameter(number("ms"))
            .handler(|arguments, _| async move {
                tokio::time::sleep(Duration::from_millis(arguments["ms"].as_u64().unwrap_or_default())).await;
                Ok(json!({ "waited": arguments["ms"] }))
            })
            .read_only(),
        Tool::builder("fail").input_schema(json!({ "type": "object" })).handler(|_, _| async {
            Err(ToolError::new(ErrorCode::Network, "the line is dead").suggest("wait"))
        }),
        Tool::builder("fail-softly")
            .input_schema(json!({ "type": "object" }))
            .failure_mode(helve_core::FailureMode::Return)
            .handler(|_, _| async { Err(ToolError::failed("not today")) }),
        Tool::builder("ask")
            .input_schema(json!({ "type": "object" }))
            .requires_approval()
            .handler(|arguments, _| async move { Ok(arguments) }),
    ]
}

fn host_with(more: Vec<ToolBuilder>) -> Arc<FakeHost> {
    let host = FakeHost::default();
    for tool in tools().into_iter().chain(more) {
        let tool = tool.description("Is put together with others.").build().unwrap();
        host.registry.register(Layer::Project, tool).unwrap();
    }
    Arc::new(host)
}

fn host() -> Arc<FakeHost> {
    host_with(Vec::new())
}

/// A host with the same tools, on which parts answer from a record.
fn host_on_record(of: &FakeHost) -> Arc<FakeHost> {
    let record = of.ends.lock().unwrap().iter().cloned().collect();
    Arc::new(FakeHost { registry: of.registry.clone(), record, ..FakeHost::default() })
}

impl FakeHost {
    /// Builds a composed tool.
    fn built<S: Into<Composition>>(&self, tool: ComposedBuilder<S>) -> Tool {
        tool.description("Puts tools together.").build(&self.registry).unwrap()
    }

    /// Builds a composed tool and registers it.
    fn registered<S: Into<Composition>>(&self, tool: ComposedBuilder<S>) -> Tool {
        let tool = self.built(tool);
        self.registry.register(Layer::Project, tool.clone()).unwrap();
        tool
    }

    /// What is wrong with a composition.
    fn refusal(&self, name: &str, composition: Value) -> String {
        let composition: Composition = serde_json::from_value(composition).unwrap();
        composition.build(name, "Puts tools together.", &self.registry).unwrap_err().to_string()
    }
}
