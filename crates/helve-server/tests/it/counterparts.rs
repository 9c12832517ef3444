//! Clients that others wrote, over every transport.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use tokio::process::Command;

use crate::harness::{ADA, Server, serve};

pub(crate) fn peers() -> PathBuf {
    PathBuf::from(
        std::env::var_os("HELVE_MCP_PEERS")
            .expect("run scripts/setup-mcp.sh DIR, and set HELVE_MCP_PEERS to DIR"),
    )
}

pub(crate) fn script(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../helve-mcp/tests/peers").join(name)
}

#[expect(clippy::disallowed_methods, reason = "a test starts a program that others wrote")]
pub(crate) fn command(program: impl AsRef<std::ffi::OsStr>) -> Command {
    Command::new(program)
}

pub(crate) async fn printed(command: &mut Command) -> Value {
    let run = command.kill_on_drop(true).output().await.unwrap();
    let said = String::from_utf8_lossy(&run.stdout).into_owned();
    let start = said.find('{').unwrap_or(0);
    serde_json::from_str(&said[start..])
        .unwrap_or_else(|_| panic!("{said} {}", String::from_utf8_lossy(&run.stderr)))
}

fn names(printed: &Value) -> Vec<&str> {
    printed["tools"].as_array().unwrap().iter().map(|tool| tool["name"].as_str().unwrap()).collect()
}

const TOOLS: [&str; 6] = ["ask", "echo", "hang", "risky", "secret__echo", "slow"];

async fn npm(server: &Server, client: &str, url: &str) {
    let run = |tool: &'static str, arguments: Value| {
        let mut command = command(peers().join("bin/node"));
        command.arg(script(client)).args([url, tool, &arguments.to_string()]);
        command.env("MCP_TOKEN", ADA).env("MCP_ELICIT", r#"{"name":"Ann"}"#);
        async move { printed(&mut command).await }
    };
    let said = run("echo", json!({ "message": "hi" })).await;
    assert_eq!(names(&said), TOOLS, "{said}");
    assert_eq!(said["result"]["content"][0]["text"], "hi", "{said}");
    let said = run("ask", json!({})).await;
    assert_eq!(said["result"]["content"][0]["text"], "Hello Ann", "{said}");
    let said = run("slow", json!({})).await;
    assert_eq!(said["progress"].as_array().map(Vec::len), Some(3), "{said}");
    assert_eq!(said["result"]["structuredContent"], json!({ "slept": true }), "{said}");
    assert!(server.registry.has("echo"));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_npm_sdk_over_http() {
    let server = serve().await;
    npm(&server, "http_client.mjs", &server.url("/mcp")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_npm_sdk_over_server_sent_events() {
    let server = serve().await;
    npm(&server, "sse_client.mjs", &server.url("/mcp/sse")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_npm_sdk_over_websocket() {
    let server = serve().await;
    npm(&server, "ws_client.mjs", &server.url("/mcp/ws").replace("http:", "ws:")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_inspector_in_all_eras() {
    let server = serve().await;
    for era in ["legacy", "auto", "modern"] {
        let mut command = command("sh");
        command.arg(script("inspector.sh")).arg(server.url("/mcp"));
        command.args(["--protocol-era", era, "--method", "tools/call", "--tool-name", "echo"]);
        command.args(["--tool-arg", "message=hi", "--format", "json"]);
        command.args(["--header", &format!("Authorization: Bearer {ADA}")]);
        let said = printed(&mut command).await;
        assert!(said.to_string().contains(r#""text":"hi""#), "{era}: {said}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn fastmcp_in_both_eras() {
    let server = serve().await;
    for (mode, path) in [("legacy", "/mcp"), ("2026-07-28", "/mcp"), ("auto", "/mcp"), ("legacy", "/mcp/sse")]
    {
        for (tool, arguments, expected) in [
            ("echo", json!({ "message": "hi" }), "hi"),
            ("ask", json!({}), "Hello Ann"),
            ("slow", json!({}), "slept"),
        ] {
            let mut command = command(peers().join("python/bin/python"));
            command.arg(script("fastmcp_client.py")).args([&server.url(path), tool, &arguments.to_string()]);
            command.env("MCP_TOKEN", ADA).env("MCP_MODE", mode).env("MCP_ELICIT", r#"{"name":"Ann"}"#);
            let said = printed(&mut command).await;
            let text = said["result"]["content"][0]["text"].as_str().unwrap_or_default();
            assert!(text.contains(expected), "{mode} {path}: {said}");
            assert_eq!(names(&said), TOOLS, "{mode} {path}: {said}");
        }
    }
}
