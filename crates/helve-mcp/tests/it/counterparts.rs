//! Helve as a client of servers that others wrote, over each transport.

use helve::{ErrorCode, Outcome};
use helve_mcp::config::{EraChoice, ServerConfig, TransportChoice};
use helve_mcp::era::Era;
use serde_json::{Value, json};

use crate::setup::Setup;
use helve_testkit::peers::{Peer, node, npm, python, script};

fn unconfined(command: String, args: &[&str]) -> ServerConfig {
    ServerConfig { confined: false, ..ServerConfig::program(command, args.iter().copied()) }
}

fn done(outcome: Outcome) -> Value {
    outcome.into_result().expect("the call succeeds")
}

/// What every echo server of tests/peers does.
async fn speaks(setup: &Setup) {
    assert_eq!(done(setup.call("echo/echo", json!({ "message": "hi" })).await), json!({ "result": "hi" }));
    assert_eq!(done(setup.call("echo/add", json!({ "a": 2, "b": 3 })).await), json!({ "total": 5 }));
    let failed = setup.call("echo/fail", json!({})).await;
    let error = failed.error().expect("it fails");
    assert_eq!(error.code(), ErrorCode::ExecutionFailed, "{error}");
    assert!(failed.content.as_ref().is_some_and(|content| content.get().contains("isError")));
}

#[tokio::test]
async fn fastmcp_over_http_in_both_eras_and_over_sse() {
    let peer = Peer::start(&python("python"), &[&script("echo_fastmcp.py"), "http", "0"], &[]);
    for (choice, era) in [
        (EraChoice::Auto, Era::Stateless),
        (EraChoice::Session, Era::Session),
        (EraChoice::Stateless, Era::Stateless),
    ] {
        let config = ServerConfig { era: choice, ..ServerConfig::remote(peer.url("/mcp")) };
        let setup = Setup::with("echo", config).await;
        let status = setup.assert_connected("echo");
        assert_eq!((status.era, status.transport), (Some(era), Some("http")));
        speaks(&setup).await;
    }
    drop(peer);
    let peer = Peer::start(&python("python"), &[&script("echo_fastmcp.py"), "sse", "0"], &[]);
    for transport in [TransportChoice::Auto, TransportChoice::Sse] {
        let config = ServerConfig { transport, ..ServerConfig::remote(peer.url("/sse")) };
        let setup = Setup::with("echo", config).await;
        assert_eq!(setup.assert_connected("echo").transport, Some("sse"));
        speaks(&setup).await;
    }
}

#[tokio::test]
async fn the_python_sdk_over_http_in_both_eras() {
    let peer = Peer::start(&python("python"), &[&script("echo_mcp.py"), "http", "0"], &[]);
    for choice in [EraChoice::Auto, EraChoice::Session] {
        let config = ServerConfig { era: choice, ..ServerConfig::remote(peer.url("/mcp")) };
        let setup = Setup::with("echo", config).await;
        setup.assert_connected("echo");
        speaks(&setup).await;
    }
}

#[tokio::test]
async fn the_python_sdk_over_websocket() {
    let peer = Peer::start(&python("python-ws"), &[&script("ws_server.py"), "0"], &[]);
    let url = format!("ws://127.0.0.1:{}/ws", peer.port);
    let setup = Setup::with("echo", ServerConfig::remote(url)).await;
    assert_eq!(setup.assert_connected("echo").transport, Some("ws"));
    let answer = done(setup.call("echo/echo", json!({ "message": "hi" })).await);
    assert!(answer.to_string().contains("hi"), "{answer}");
}

#[tokio::test]
async fn server_everything_over_each_of_its_transports() {
    let http = Peer::everything("streamableHttp");
    let sse = Peer::everything("sse");
    let index = npm("@modelcontextprotocol/server-everything/dist/index.js");
    for (config, transport) in [
        (ServerConfig::remote(http.url("/mcp")), "http"),
        (ServerConfig::remote(sse.url("/sse")), "sse"),
        (unconfined(node(), &[&index, "stdio"]), "stdio"),
    ] {
        let setup = Setup::with("all", config).await;
        let status = setup.assert_connected("all");
        assert_eq!((status.era, status.transport), (Some(Era::Session), Some(transport)));
        assert!(status.tools > 8 && status.resources > 0 && status.prompts > 0, "{status:#?}");
        assert_eq!(done(setup.call("all/echo", json!({ "message": "hi" })).await), json!("Echo: hi"));
        let image = setup.call("all/get-tiny-image", json!({})).await;
        assert!(image.content.as_ref().is_some_and(|content| content.get().contains("image/png")));
        assert!(done(image).to_string().contains("[image: image/png, "));
    }
}

#[tokio::test]
async fn programs_over_stdio() {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("a.txt"), "inside").expect("a file");
    let root = folder.path().display().to_string();
    let index = npm("@modelcontextprotocol/server-filesystem/dist/index.js");
    let setup = Setup::with("fs", unconfined(node(), &[&index, &root])).await;
    setup.assert_connected("fs");
    let read = setup.call("fs/read_text_file", json!({ "path": format!("{root}/a.txt") })).await;
    assert!(done(read).to_string().contains("inside"));

    let setup = Setup::with("time", unconfined(python("python"), &["-m", "mcp_server_time"])).await;
    setup.assert_connected("time");
    let now = setup.call("time/get_current_time", json!({ "timezone": "Europe/Berlin" })).await;
    assert!(done(now).to_string().contains("Berlin"));

    let repository = git_repository();
    let path = repository.path().display().to_string();
    let config = unconfined(python("python"), &["-m", "mcp_server_git", "--repository", &path]);
    let setup = Setup::with("git", config).await;
    setup.assert_connected("git");
    let status = setup.call("git/git_status", json!({ "repo_path": path })).await;
    assert!(done(status).to_string().contains("branch"));
}

#[expect(clippy::disallowed_methods, reason = "a test makes a repository")]
fn git_repository() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    for args in [
        &["init", "-q"][..],
        &["-c", "user.name=A", "-c", "user.email=a@example.com", "commit", "-q", "--allow-empty", "-m", "x"],
    ] {
        let run = std::process::Command::new("git").args(args).current_dir(folder.path()).status();
        assert!(run.expect("git runs").success());
    }
    folder
}
