//! The protocol's conformance suite, both sets of requirements.

mod backend;
mod tools;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use helve::Caller;
use helve_mcp::server::{McpServer, ServerOptions};
use helve_server::{Door, HttpOptions, HttpServer};
use serde_json::Value;
use tokio::process::Command;

use backend::Fixture;
use helve_mcp::config::ServerConfig as Upstream;

use crate::gateway::gateway;

/// Serves the suite's fixtures, and returns where.
async fn serve() -> String {
    let options = ServerOptions { task_after: Duration::ZERO, ..ServerOptions::default() };
    let mcp = McpServer::new(Arc::new(Fixture::new()), options);
    let door = Door::Open(Caller::local());
    let address = "127.0.0.1:0".parse().unwrap();
    let server = HttpServer::bind(address, HttpOptions::new(mcp, door)).await.unwrap();
    let url = format!("http://{}/mcp", server.address().unwrap());
    tokio::spawn(server.run(std::future::pending()));
    url
}

fn script() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../helve-mcp/tests/peers/conformance.sh")
}

/// Runs one set, and returns what every check said that did not pass.
#[expect(clippy::disallowed_methods, reason = "a test starts a program that others wrote")]
async fn failures_at(url: &str, requirements: &str) -> (usize, Vec<String>) {
    let out = tempfile::tempdir().unwrap();
    let run = Command::new("sh")
        .arg(script())
        .args(["server", "--url", url, "--requirements", requirements, "--timeout", "60000", "-o"])
        .arg(out.path())
        .output()
        .await
        .unwrap();
    let said = String::from_utf8_lossy(&run.stdout).into_owned() + &String::from_utf8_lossy(&run.stderr);
    let mut failures = Vec::new();
    let mut count = 0;
    for folder in std::fs::read_dir(out.path()).unwrap().map(|entry| entry.unwrap().path()) {
        let Ok(text) = std::fs::read_to_string(folder.join("checks.json")) else { continue };
        let scenario = folder.file_name().unwrap().to_string_lossy().into_owned();
        let checks: Vec<Value> = serde_json::from_str(&text).unwrap();
        for check in checks {
            count += 1;
            if matches!(check["status"].as_str(), Some("FAILURE" | "WARNING")) {
                failures.push(format!(
                    "{scenario}: {} {}: {}",
                    check["status"], check["id"], check["errorMessage"]
                ));
            }
        }
    }
    failures.sort();
    assert!(count > 0, "the suite checked nothing: {said}");
    if !run.status.success() {
        failures.push(format!("the suite is not satisfied: {said}"));
    }
    (count, failures)
}

async fn failures(requirements: &str) -> (usize, Vec<String>) {
    failures_at(&serve().await, requirements).await
}

#[tokio::test(flavor = "multi_thread")]
async fn the_session_era_passes() {
    let (count, failures) = failures("2025-11-25").await;
    assert!(failures.is_empty(), "of {count} checks: {failures:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_stateless_era_passes() {
    let (count, failures) = failures("2026-07-28").await;
    assert!(failures.is_empty(), "of {count} checks: {failures:#?}");
}

/// The same through a gateway: nothing that the suite looks at is lost on the way.
#[tokio::test(flavor = "multi_thread")]
async fn both_eras_pass_through_a_gateway() {
    let upstream = serve().await;
    let config = Upstream { namespace: Some(String::new()), sampling: true, ..Upstream::remote(upstream) };
    let (url, _servers) = gateway(&[("fixture", config)], ServerOptions::default()).await;
    for requirements in ["2025-11-25", "2026-07-28"] {
        let (count, mut failures) = failures_at(&url, requirements).await;
        // When a call becomes a task is a matter of each server's own patience, and not scored.
        failures.retain(|failure| !failure.starts_with("server-tasks"));
        assert!(failures.is_empty(), "{requirements}, of {count} checks: {failures:#?}");
    }
}
