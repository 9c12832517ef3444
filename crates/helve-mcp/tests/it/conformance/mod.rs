//! The protocol's conformance suite from the client's side, both sets of requirements. The suite
//! starts this test binary again, as `client::program`.

mod client;

use std::path::Path;

use helve_testkit::peers::{home, script};
use serde_json::Value;

/// Scenarios of extensions that Helve has not; the suite runs them and does not score them.
const EXTENSIONS: [&str; 4] =
    ["auth/client-credentials-", "auth/dpop", "auth/enterprise-managed-authorization", "auth/wif-jwt-bearer"];

/// Runs one set, and returns what every check said that did not pass.
#[expect(clippy::disallowed_methods, reason = "a test starts a program that others wrote")]
async fn failures(requirements: &str) -> (usize, Vec<String>) {
    let out = tempfile::tempdir().unwrap();
    let program = std::env::current_exe().unwrap();
    let command = format!("{} --exact conformance::client::program --nocapture", program.display());
    let run = tokio::process::Command::new("sh")
        .arg(script("conformance.sh"))
        .args(["client", "--command", &command, "--requirements", requirements, "--timeout", "60000", "-o"])
        .arg(out.path())
        .env("HELVE_MCP_PEERS", home())
        .output()
        .await
        .unwrap();
    let said = String::from_utf8_lossy(&run.stdout).into_owned() + &String::from_utf8_lossy(&run.stderr);
    let (mut count, mut failures) = (0, Vec::new());
    read(out.path(), &mut count, &mut failures);
    failures.sort();
    assert!(count > 0, "the suite checked nothing: {said}");
    if !run.status.success() {
        let end = said.len().saturating_sub(4_000);
        failures.push(format!("the suite is not satisfied: {}", &said[said.ceil_char_boundary(end)..]));
    }
    (count, failures)
}

fn read(folder: &Path, count: &mut usize, failures: &mut Vec<String>) {
    for path in std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
        if path.is_dir() {
            read(&path, count, failures);
        }
        if path.file_name().is_none_or(|name| name != "checks.json") {
            continue;
        }
        let scenario = folder.display().to_string();
        if EXTENSIONS.iter().any(|name| scenario.contains(name)) {
            continue;
        }
        let checks: Vec<Value> = serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
        for check in checks {
            *count += 1;
            if matches!(check["status"].as_str(), Some("FAILURE" | "WARNING")) {
                let (status, id, why) = (&check["status"], &check["id"], &check["errorMessage"]);
                failures.push(format!("{scenario}: {status} {id}: {why}"));
            }
        }
    }
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
