//! Crates know only crates of a lower level. ARCHITECTURE.md has the table.

use std::collections::BTreeMap;

use serde_json::Value;

/// Every crate of ours with its level. A test's or an example's own crate has none: nothing may
/// depend on it.
const LEVELS: &[(&str, Option<u32>)] = &[
    ("helve-schema", Some(0)),
    ("helve-core", Some(1)),
    ("helve", Some(2)),
    ("helve-ledger", Some(2)),
    ("helve-net", Some(2)),
    ("helve-policy", Some(2)),
    ("helve-sandbox", Some(2)),
    ("helve-postgres", Some(3)),
    ("helve-store", Some(3)),
    ("helve-mcp", Some(4)),
    ("helve-office", Some(4)),
    ("helve-telemetry", Some(4)),
    ("helve-tools", Some(4)),
    ("helve-server", Some(5)),
    ("helve-host", Some(6)),
    ("helve-cli", Some(7)),
    ("helve-testkit", None),
    ("helve-benches", None),
    ("helve-examples", None),
];

#[test]
fn edges_point_only_to_a_lower_level() {
    let levels: BTreeMap<_, _> = LEVELS.iter().copied().collect();
    let mut wrong = Vec::new();
    for package in packages() {
        let name = package["name"].as_str().expect("a package has a name").to_owned();
        let Some(level) = levels.get(name.as_str()) else {
            wrong.push(format!("{name} has no level; add it to the table here and in ARCHITECTURE.md"));
            continue;
        };
        for dependency in our_dependencies(&package) {
            let below = levels.get(dependency.as_str()).copied().flatten();
            let allowed = match (level, below) {
                (Some(level), Some(below)) => below < *level,
                // A crate without a level stands above all others and below none.
                (None, Some(_)) => true,
                (_, None) => false,
            };
            if !allowed {
                wrong.push(format!("{name} depends on {dependency}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// Crates of ours that a package is built with. Tests may depend on whatever they like.
fn our_dependencies(package: &Value) -> Vec<String> {
    let dependencies = package["dependencies"].as_array().expect("a package has dependencies");
    dependencies
        .iter()
        .filter(|dependency| dependency["kind"] != "dev" && dependency["path"].is_string())
        .filter_map(|dependency| dependency["name"].as_str().map(str::to_owned))
        .collect()
}

#[expect(clippy::disallowed_methods, reason = "a test asks cargo about the workspace")]
fn packages() -> Vec<Value> {
    let output = std::process::Command::new(env!("CARGO"))
        .args(["metadata", "--format-version=1", "--no-deps", "--offline"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .expect("cargo runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: Value = serde_json::from_slice(&output.stdout).expect("metadata is JSON");
    metadata["packages"].as_array().expect("a workspace has packages").clone()
}
