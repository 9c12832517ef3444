//! The suite's tools, as Helve's.

use std::sync::Arc;
use std::time::Duration;

use helve::ports::{AskError, Question};
use helve::run::Progress;
use helve::{Context, Layer, Registry, Tool, ToolError};
use helve_mcp::message::raw;
use helve_mcp::server::{Change, QUESTION_KEY};
use serde_json::{Value, json};
use tokio::sync::broadcast;

/// One red pixel.
pub(super) const PNG: &str =
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg==";
/// A WAV file without a sound.
const WAV: &str = "UklGRiQAAABXQVZFZm10IBAAAAABAAEAQB8AAEAfAAABAAgAZGF0YQAAAAA=";

type Result = std::result::Result<Value, ToolError>;

pub(super) fn register(registry: &Registry, prompts_changed: &broadcast::Sender<Change>) {
    let mut tools = vec![
        tool("test_simple_text", |_, context| async move {
            text(&context, "This is a simple text response for testing.")
        }),
        tool("test_image_content", |_, context| async move { content(&context, json!([image()])) }),
        tool("test_audio_content", |_, context| async move {
            content(&context, json!([{ "type": "audio", "data": WAV, "mimeType": "audio/wav" }]))
        }),
        tool("test_embedded_resource", |_, context| async move {
            let resource = json!({ "uri": "test://embedded-resource", "mimeType": "text/plain", "text": "This is an embedded resource content." });
            content(&context, json!([{ "type": "resource", "resource": resource }]))
        }),
        tool("test_multiple_content_types", |_, context| async move {
            let resource = json!({ "uri": "test://mixed-content-resource", "mimeType": "application/json", "text": r#"{"test":"data","value":123}"# });
            let words = json!({ "type": "text", "text": "Multiple content types test:" });
            content(&context, json!([words, image(), { "type": "resource", "resource": resource }]))
        }),
        tool("test_error_handling", |_, _| async {
            Err(ToolError::failed("This tool intentionally returns an error for testing"))
        }),
        tool("test_tool_with_logging", logging),
        tool("test_logging_tool", logging),
        tool("test_tool_with_progress", |_, context| async move {
            for done in [0.0, 50.0, 100.0] {
                context.report(Progress { done, total: Some(100.0), message: None });
                pause().await;
            }
            text(&context, "Done.")
        }),
        tool("test_streaming_elicitation", |_, context| async move {
            let answer = ask(&context, Question::FillForm, form("go_on", "Go on?", "ok", "boolean")).await?;
            text(&context, &answer.to_string())
        }),
        tool("test_missing_capability", |_, context| async move {
            let answer = ask(&context, Question::Sample, sampling("sample", "Hello")).await?;
            text(&context, &answer.to_string())
        }),
        takes("test_sampling", "prompt", |arguments, context| async move {
            let prompt = arguments["prompt"].as_str().unwrap_or_default();
            let answer = ask(&context, Question::Sample, sampling("sample", prompt)).await?;
            text(&context, &format!("LLM response: {}", answer["content"]["text"]))
        }),
        takes("test_elicitation", "message", |arguments, context| async move {
            let property = |description: &str| json!({ "type": "string", "description": description });
            let schema = json!({
                "type": "object",
                "properties": { "username": property("User's response"), "email": property("User's email address") },
                "required": ["username", "email"],
            });
            let form = json!({ "message": arguments["message"], "requestedSchema": schema });
            let answer = ask(&context, Question::FillForm, form).await?;
            text(
                &context,
                &format!("User response: action={}, content={}", answer["action"], answer["content"]),
            )
        }),
        tool("test_elicitation_sep1034_defaults", |_, context| async move {
            let schema = json!({
                "type": "object",
                "properties": {
                    "name": { "type": "string", "default": "John Doe" },
                    "age": { "type": "integer", "default": 30 },
                    "score": { "type": "number", "default": 95.5 },
                    "status": { "type": "string", "enum": ["active", "inactive", "pending"], "default": "active" },
                    "verified": { "type": "boolean", "default": true },
                },
            });
            elicited(&context, schema).await
        }),
        tool("test_elicitation_sep1330_enums", |_, context| async move {
            let titled = |name: &str| {
                let option = |number: &str, word: &str| json!({ "const": format!("value{number}"), "title": format!("{word} {name}") });
                json!([option("1", "First"), option("2", "Second"), option("3", "Third")])
            };
            let plain = json!(["option1", "option2", "option3"]);
            let schema = json!({
                "type": "object",
                "properties": {
                    "untitledSingle": { "type": "string", "enum": plain },
                    "titledSingle": { "type": "string", "oneOf": titled("Option") },
                    "legacyEnum": { "type": "string", "enum": ["opt1", "opt2", "opt3"], "enumNames": ["Option One", "Option Two", "Option Three"] },
                    "untitledMulti": { "type": "array", "items": { "type": "string", "enum": plain } },
                    "titledMulti": { "type": "array", "items": { "anyOf": titled("Choice") } },
                },
            });
            elicited(&context, schema).await
        }),
    ];
    tools.extend(input_required());
    tools.extend(tasks());
    tools.extend(triggers(registry, prompts_changed));
    tools.push(json_schema());
    tools.push(headers());
    registry.register_many(Layer::Project, tools).unwrap();
}

fn input_required() -> Vec<Tool> {
    vec![
        tool("test_input_required_result_elicitation", |_, context| async move {
            let answer =
                ask(&context, Question::FillForm, form("user_name", "What is your name?", "name", "string"))
                    .await?;
            text(&context, &format!("Hello, {}!", answer["content"]["name"]))
        }),
        tool("test_input_required_result_sampling", |_, context| async move {
            let answer =
                ask(&context, Question::Sample, sampling("capital", "What is the capital of France?"))
                    .await?;
            text(&context, &format!("It said {}", answer["content"]["text"]))
        }),
        tool("test_input_required_result_list_roots", |_, context| async move {
            let answer = ask(&context, Question::ListRoots, roots()).await?;
            text(&context, &format!("Roots: {}", answer["roots"]))
        }),
        tool("test_input_required_result_request_state", confirmed),
        tool("test_input_required_result_tampered_state", confirmed),
        tool("test_input_required_result_multiple_inputs", |_, context| async move {
            let (name, greeting, roots) = tokio::join!(
                ask(&context, Question::FillForm, form("user_name", "What is your name?", "name", "string")),
                ask(&context, Question::Sample, sampling("greeting", "Generate a greeting")),
                ask(&context, Question::ListRoots, roots()),
            );
            text(&context, &format!("{} {} {}", name?, greeting?, roots?))
        }),
        tool("test_input_required_result_multi_round", |_, context| async move {
            let name = ask(
                &context,
                Question::FillForm,
                form("step1", "Step 1: What is your name?", "name", "string"),
            )
            .await?;
            let color = ask(
                &context,
                Question::FillForm,
                form("step2", "Step 2: What is your favorite color?", "color", "string"),
            )
            .await?;
            text(&context, &format!("{name} {color}"))
        }),
        tool("test_input_required_result_capabilities", |_, context| async move {
            let client = context.client().expect("there is a client");
            let asked = if client.can(Question::FillForm) {
                ask(&context, Question::FillForm, form("user_name", "What is your name?", "name", "string"))
                    .await?
            } else {
                ask(&context, Question::Sample, sampling("greeting", "Generate a greeting")).await?
            };
            text(&context, &asked.to_string())
        }),
    ]
}

fn tasks() -> Vec<Tool> {
    vec![
        tool("greet", |arguments, context| async move {
            text(&context, &format!("Hello, {}!", arguments["name"].as_str().unwrap_or("you")))
        }),
        tool("slow_compute", |arguments, context| async move {
            let seconds = arguments["seconds"].as_f64().unwrap_or(1.0);
            tokio::select! {
                () = tokio::time::sleep(Duration::from_secs_f64(seconds)) => text(&context, "computed"),
                () = context.cancelled() => Err(ToolError::failed("cancelled")),
            }
        }),
        // How long these take is what the official suite expects of them: it looks at tasks that are under way.
        tool("failing_job", |_, _| async {
            tokio::time::sleep(Duration::from_secs(1)).await;
            Err(ToolError::failed("the job failed"))
        }),
        tool("protocol_error_job", |_, _| async { Err(ToolError::failed("the backend answers for it")) }),
        tool("confirm_delete", |_, context| async move {
            let answer =
                ask(&context, Question::FillForm, form("confirm", "Delete it?", "confirm", "boolean"))
                    .await?;
            text(&context, &format!("Deleted: {}", answer["action"]))
        }),
        tool("multi_input", |_, context| async move {
            let (first, second) = tokio::join!(
                ask(&context, Question::FillForm, form("first", "First?", "value", "string")),
                ask(&context, Question::FillForm, form("second", "Second?", "value", "string")),
            );
            text(&context, &format!("{} {}", first?, second?))
        }),
        tool("test_tool_with_task", |_, context| async move {
            let answer =
                ask(&context, Question::FillForm, form("user_name", "What is your name?", "name", "string"))
                    .await?;
            tokio::time::sleep(Duration::from_millis(300)).await;
            text(&context, &format!("Hello, {}!", answer["content"]))
        }),
    ]
}

fn triggers(registry: &Registry, prompts_changed: &broadcast::Sender<Change>) -> [Tool; 2] {
    let (registry, prompts_changed) = (registry.clone(), prompts_changed.clone());
    let change_tools = move |_, context: Context| {
        let registry = registry.clone();
        async move {
            let extra = || tool("test_extra_tool", |_, context| async move { text(&context, "extra") });
            if registry.unregister(Layer::Project, "test_extra_tool").is_err() {
                registry.register(Layer::Project, extra()).expect("the name is free");
            }
            text(&context, "The tools have changed.")
        }
    };
    let change_prompts = move |_, context: Context| {
        let prompts_changed = prompts_changed.clone();
        async move {
            // Nobody may listen.
            let _ = prompts_changed.send(Change::Prompts);
            text(&context, "The prompts have changed.")
        }
    };
    [tool("test_trigger_tool_change", change_tools), tool("test_trigger_prompt_change", change_prompts)]
}

fn json_schema() -> Tool {
    let schema = json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "$defs": {
            "address": {
                "$anchor": "addressDef",
                "type": "object",
                "properties": { "street": { "type": "string" }, "city": { "type": "string" } },
            },
        },
        "properties": {
            "name": { "type": "string" },
            "address": { "$ref": "#/$defs/address" },
            "contactMethod": { "type": "string", "enum": ["phone", "email"] },
            "phone": { "type": "string" },
            "email": { "type": "string" },
        },
        "allOf": [{ "anyOf": [{ "required": ["phone"] }, { "required": ["email"] }] }],
        "if": { "properties": { "contactMethod": { "const": "phone" } }, "required": ["contactMethod"] },
        "then": { "required": ["phone"] },
        "else": { "required": ["email"] },
        "additionalProperties": false,
    });
    let builder =
        Tool::builder("json_schema_2020_12_tool").description("Tool with JSON Schema 2020-12 features");
    builder.input_schema(schema).read_only().handler(|_, _| async { Ok(json!("ok")) }).build().unwrap()
}

fn headers() -> Tool {
    let schema = json!({
        "type": "object",
        "properties": { "region": { "type": "string", "x-mcp-header": "Region" }, "query": { "type": "string" } },
        "required": ["region"],
    });
    let builder = Tool::builder("test_headers").description("Takes an argument that stands in a header too.");
    builder
        .input_schema(schema)
        .read_only()
        .handler(|_, context| async move { text(&context, "ok") })
        .build()
        .unwrap()
}

fn tool<F, R>(name: &str, run: F) -> Tool
where
    F: Fn(Value, Context) -> R + Send + Sync + 'static,
    R: Future<Output = Result> + Send + 'static,
{
    let builder = Tool::builder(name).description(format!("The suite's `{name}`.")).read_only();
    builder.input_schema(json!({ "type": "object" })).handler(run).build().unwrap()
}

fn takes<F, R>(name: &str, argument: &str, run: F) -> Tool
where
    F: Fn(Value, Context) -> R + Send + Sync + 'static,
    R: Future<Output = Result> + Send + 'static,
{
    let schema =
        json!({ "type": "object", "properties": { argument: { "type": "string" } }, "required": [argument] });
    let builder = Tool::builder(name).description(format!("The suite's `{name}`.")).read_only();
    builder.input_schema(schema).handler(run).build().unwrap()
}

fn content(context: &Context, content: Value) -> Result {
    context.attach(Arc::from(raw(&json!({ "content": content }))));
    Ok(content)
}

fn text(context: &Context, text: &str) -> Result {
    content(context, json!([{ "type": "text", "text": text }]))
}

fn image() -> Value {
    json!({ "type": "image", "data": PNG, "mimeType": "image/png" })
}

async fn pause() {
    tokio::time::sleep(Duration::from_millis(50)).await;
}

async fn logging(_: Value, context: Context) -> Result {
    let client = context.client().expect("there is a client").clone();
    for words in ["Tool execution started", "Tool processing data", "Tool execution completed"] {
        client.log(&raw(&json!({ "level": "info", "logger": "suite", "data": words })));
        pause().await;
    }
    text(&context, "Logged.")
}

async fn confirmed(_: Value, context: Context) -> Result {
    let answer =
        ask(&context, Question::FillForm, form("confirm", "Please confirm", "ok", "boolean")).await?;
    text(&context, &format!("state-ok: {}", answer["content"]))
}

async fn elicited(context: &Context, schema: Value) -> Result {
    let answer =
        ask(context, Question::FillForm, json!({ "message": "Please fill in", "requestedSchema": schema }))
            .await?;
    text(
        context,
        &format!("Elicitation completed: action={}, content={}", answer["action"], answer["content"]),
    )
}

async fn ask(context: &Context, question: Question, params: Value) -> Result {
    let client = context.client().expect("there is a client");
    let answer = client.ask(question, raw(&params)).await;
    let answer = answer.map_err(|error: AskError| ToolError::failed(error.message))?;
    Ok(serde_json::from_str(answer.get()).expect("an answer is JSON"))
}

fn form(key: &str, message: &str, field: &str, kind: &str) -> Value {
    let schema = json!({ "type": "object", "properties": { field: { "type": kind } }, "required": [field] });
    json!({ "message": message, "requestedSchema": schema, "_meta": { QUESTION_KEY: key } })
}

fn sampling(key: &str, words: &str) -> Value {
    let message = json!({ "role": "user", "content": { "type": "text", "text": words } });
    json!({ "messages": [message], "maxTokens": 100, "_meta": { QUESTION_KEY: key } })
}

fn roots() -> Value {
    json!({ "_meta": { QUESTION_KEY: "client_roots" } })
}
