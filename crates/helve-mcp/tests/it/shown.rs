//! What clients are shown of a runtime's tools, and what reaches the user besides the model.

use std::sync::Arc;

use helve::hook::{HookEvent, HookOutput};
use helve::hooks::Matcher;
use helve::ports::Connected;
use helve::{Caller, Runtime, Tool};
use helve_mcp::server::{McpServer, RuntimeBackend, ServerOptions};
use serde_json::{Value, json};

use crate::behind::request;
use crate::clients::Client;

fn tool(name: &str) -> helve::ToolBuilder {
    Tool::builder(name)
        .description("Works.")
        .input_schema(json!({ "type": "object" }))
        .read_only()
        .handler(|_, _| async { Ok(json!({ "done": true })) })
}

async fn client(runtime: Runtime) -> Client {
    let server = McpServer::new(Arc::new(RuntimeBackend::new(runtime)), ServerOptions::default());
    Client::of(&server, Caller::principal("ada")).await
}

fn called(name: &str) -> Value {
    request("tools/call", json!({ "name": name, "arguments": {} }))
}

#[tokio::test]
async fn a_tool_whose_integration_is_not_connected_is_not_listed_and_says_what_is_missing() {
    let builder = Runtime::builder().integrations(Arc::new(Connected::new(["calendar"])));
    let builder = builder.tool(tool("plain")).unwrap().tool(tool("mail").integration("mail")).unwrap();
    let runtime = builder.tool(tool("events").integration("calendar")).unwrap().build();
    let mut client = client(runtime).await;
    let listed = client.ask(request("tools/list", json!({}))).await;
    let tools = listed["result"]["tools"].as_array().unwrap();
    let names: Vec<_> = tools.iter().map(|tool| tool["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["events", "plain"]);
    let answer = client.ask(called("mail")).await;
    assert_eq!(answer["result"]["_meta"]["helve/error"]["code"], "integration_missing");
    let near = client.ask(called("plane")).await;
    assert_eq!(near["error"]["message"], "Unknown tool: plane; did you mean `plain`?");
}

#[tokio::test]
async fn a_system_message_reaches_the_user_and_not_the_model() {
    let said = json!({
        "systemMessage": "the backup is old",
        "suppressOutput": true,
        "hookSpecificOutput": { "hookEventName": "PostToolUse", "additionalContext": "read slowly" },
    });
    let text = said.to_string();
    let hook = move |_, _| {
        let output = HookOutput::from_json(&HookEvent::PostToolUse, text.as_bytes()).unwrap();
        async move { Ok(output) }
    };
    let builder = Runtime::builder().hook(HookEvent::PostToolUse, Matcher::all(), hook);
    let mut client = client(builder.tool(tool("plain")).unwrap().build()).await;
    client.ask(request("logging/setLevel", json!({ "level": "debug" }))).await;
    let answer = client.ask(called("plain")).await.to_string();
    assert!(answer.contains("read slowly") && !answer.contains("the backup is old"), "{answer}");
    let told = client.told("notifications/message").await;
    assert_eq!(
        (&told["params"]["data"], &told["params"]["logger"]),
        (&json!("the backup is old"), &json!("helve"))
    );
    let said: Vec<_> = client.heard.iter().map(Value::to_string).collect();
    assert!(said.iter().all(|one| !one.contains("read slowly")), "its own output is suppressed: {said:?}");
}
