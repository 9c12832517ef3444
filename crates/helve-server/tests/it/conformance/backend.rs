//! What the suite expects to find, as Helve's tools besides a few resources and prompts.

use std::sync::Arc;

use futures_util::stream::{self, BoxStream, StreamExt};
use helve::ports::Question;
use helve::{Registry, Runtime};
use helve_mcp::message::{RpcError, raw};
use helve_mcp::server::{
    Backend, Capabilities, Change, Definitions, FoundTool, Incoming, Kind, QUESTION_KEY, Reply,
    RuntimeBackend, TaskSupport, ToolAnswer, ToolCall, Visitor, no_resource,
};
use serde_json::value::RawValue;
use serde_json::{Value, json};
use tokio::sync::broadcast;

use super::tools::{self, PNG};

pub(super) struct Fixture {
    tools: Arc<RuntimeBackend>,
    prompts_changed: broadcast::Sender<Change>,
}

impl Fixture {
    pub(super) fn new() -> Self {
        let registry = Registry::default();
        let (prompts_changed, _) = broadcast::channel(16);
        tools::register(&registry, &prompts_changed);
        let runtime = Runtime::builder().registry(registry).build();
        Self { tools: Arc::new(RuntimeBackend::new(runtime)), prompts_changed }
    }
}

fn definitions(entries: &[Value]) -> Definitions {
    entries.iter().map(|entry| Arc::<RawValue>::from(raw(entry))).collect()
}

impl Backend for Fixture {
    fn capabilities(&self, visitor: &Visitor) -> Capabilities {
        let tools = self.tools.capabilities(visitor);
        Capabilities { resources: true, subscribe: true, prompts: true, completions: true, ..tools }
    }

    fn instructions(&self, _visitor: &Visitor) -> Option<String> {
        Some("Everything that the suite looks for.".to_owned())
    }

    fn list(self: Arc<Self>, kind: Kind, visitor: Visitor) -> Reply<Definitions> {
        match kind {
            Kind::Tools => Arc::clone(&self.tools).list(kind, visitor),
            Kind::Resources => Box::pin(async {
                Ok(definitions(&[
                    json!({ "uri": "test://static-text", "name": "static-text", "description": "A text.", "mimeType": "text/plain" }),
                    json!({ "uri": "test://static-binary", "name": "static-binary", "description": "An image.", "mimeType": "image/png" }),
                    json!({ "uri": "test://watched-resource", "name": "watched", "description": "A text that changes.", "mimeType": "text/plain" }),
                ]))
            }),
            Kind::ResourceTemplates => Box::pin(async {
                Ok(definitions(&[
                    json!({ "uriTemplate": "test://template/{id}/data", "name": "template", "description": "Data by id.", "mimeType": "application/json" }),
                ]))
            }),
            Kind::Prompts => Box::pin(async {
                let argument = |name: &str| json!({ "name": name, "description": name, "required": true });
                Ok(definitions(&[
                    json!({ "name": "test_simple_prompt", "description": "A prompt." }),
                    json!({ "name": "test_prompt_with_arguments", "description": "A prompt.", "arguments": [argument("arg1"), argument("arg2")] }),
                    json!({ "name": "test_prompt_with_embedded_resource", "description": "A prompt.", "arguments": [argument("resourceUri")] }),
                    json!({ "name": "test_prompt_with_image", "description": "A prompt." }),
                    json!({ "name": "test_input_required_result_prompt", "description": "A prompt that asks." }),
                ]))
            }),
        }
    }

    fn call_tool(self: Arc<Self>, call: ToolCall, incoming: Incoming) -> Reply<ToolAnswer> {
        if call.name == "protocol_error_job" {
            return Box::pin(async { Err(RpcError::new(RpcError::INTERNAL, "it broke")) });
        }
        Arc::clone(&self.tools).call_tool(call, incoming)
    }

    fn find_tool(&self, name: &str) -> Option<FoundTool> {
        let task_support = match name {
            "slow_compute" | "confirm_delete" | "multi_input" | "protocol_error_job" => TaskSupport::Optional,
            "failing_job" | "test_tool_with_task" => TaskSupport::Required,
            _ => TaskSupport::Forbidden,
        };
        Some(FoundTool { task_support, ..self.tools.find_tool(name)? })
    }

    fn header_schema(&self, tool: &str, visitor: &Visitor) -> Option<Arc<Value>> {
        self.tools.header_schema(tool, visitor)
    }

    fn read_resource(self: Arc<Self>, uri: String, _incoming: Incoming) -> Reply<Arc<RawValue>> {
        Box::pin(async move {
            let content = match uri.as_str() {
                "test://static-text" => {
                    json!({ "mimeType": "text/plain", "text": "This is the content of the static text resource." })
                }
                "test://static-binary" => json!({ "mimeType": "image/png", "blob": PNG }),
                "test://watched-resource" => json!({ "mimeType": "text/plain", "text": "Watched." }),
                uri => {
                    let id = uri.strip_prefix("test://template/").and_then(|rest| rest.strip_suffix("/data"));
                    let id = id.ok_or_else(|| no_resource(uri))?;
                    let text =
                        json!({ "id": id, "templateTest": true, "data": format!("Data for ID: {id}") });
                    json!({ "mimeType": "application/json", "text": text.to_string() })
                }
            };
            let mut content = content;
            content["uri"] = uri.into();
            Ok(raw(&json!({ "contents": [content] })).into())
        })
    }

    fn get_prompt(self: Arc<Self>, name: String, incoming: Incoming) -> Reply<Arc<RawValue>> {
        Box::pin(async move {
            let params: Value = serde_json::from_str(incoming.params.get()).unwrap();
            let argument = |name: &str| params["arguments"][name].as_str().unwrap_or_default().to_owned();
            let text = |text: String| json!({ "role": "user", "content": { "type": "text", "text": text } });
            let messages = match name.as_str() {
                "test_simple_prompt" => json!([text("This is a simple prompt for testing.".into())]),
                "test_prompt_with_arguments" => {
                    let words = format!(
                        "Prompt with arguments: arg1='{}', arg2='{}'",
                        argument("arg1"),
                        argument("arg2")
                    );
                    json!([text(words)])
                }
                "test_prompt_with_embedded_resource" => {
                    let resource = json!({ "uri": argument("resourceUri"), "mimeType": "text/plain", "text": "Embedded resource content for testing." });
                    let first =
                        json!({ "role": "user", "content": { "type": "resource", "resource": resource } });
                    json!([first, text("Please process the embedded resource above.".into())])
                }
                "test_prompt_with_image" => {
                    let image = json!({ "type": "image", "data": PNG, "mimeType": "image/png" });
                    json!([{ "role": "user", "content": image }, text("Please analyze the image above.".into())])
                }
                "test_input_required_result_prompt" => {
                    let schema = json!({ "type": "object", "properties": { "context": { "type": "string" } }, "required": ["context"] });
                    let form = json!({ "message": "What context should the prompt use?", "requestedSchema": schema, "_meta": { QUESTION_KEY: "user_context" } });
                    let answer = incoming.client.ask(Question::FillForm, raw(&form)).await?;
                    json!([text(format!("Prompt with context: {answer}"))])
                }
                name => return Err(RpcError::invalid_params(format!("no prompt named `{name}`"))),
            };
            Ok(raw(&json!({ "messages": messages })).into())
        })
    }

    fn complete(self: Arc<Self>, _incoming: Incoming) -> Reply<Arc<RawValue>> {
        let values =
            json!({ "completion": { "values": ["paris", "park", "party"], "total": 3, "hasMore": false } });
        Box::pin(async move { Ok(raw(&values).into()) })
    }

    fn subscribe(self: Arc<Self>, _uri: String, _incoming: Incoming) -> Reply<()> {
        Box::pin(async { Ok(()) })
    }

    fn changes(&self) -> BoxStream<'static, Change> {
        let prompts = stream::unfold(self.prompts_changed.subscribe(), |mut changes| async move {
            changes.recv().await.ok().map(|change| (change, changes))
        });
        stream::select(self.tools.changes(), prompts).boxed()
    }
}
