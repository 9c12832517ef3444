//! Checks an OpenAPI document: each operation becomes a tool, or says why not.

use std::path::Path;
use std::sync::Arc;

use helve_net::{Client, NetPolicy};
use helve_tools::http::Backend;
use helve_tools::openapi::{Import, OpenApiConfig, Skipped, import};

use super::{Finding, Level, Report};

/// Whether a text names itself an OpenAPI document, as JSON or as YAML.
pub(super) fn looks_like_one(text: &str) -> bool {
    let key = |line: &str| {
        let line = line.trim_start().trim_start_matches('{').trim_start().trim_start_matches(['"', '\'']);
        line.starts_with("openapi") || line.starts_with("swagger")
    };
    text.lines().take(50).any(key) || text.trim_start().starts_with("{\"openapi\"")
}

pub(super) fn check(file: &Path, text: &str) -> Report {
    let backend = match Client::new(NetPolicy::default()) {
        Ok(client) => Backend::new(Arc::new(client)),
        Err(error) => return Report::refused(Finding::error(file, error.to_string())),
    };
    // A stand-in for the server, where the document names none: only the operations are checked.
    let mut config = OpenApiConfig::new("lint", file.display().to_string());
    config.server = Some("https://api.example.com".to_owned());
    let Import { tools, skipped: left_out, reduced: in_part, .. } =
        match import(&config, text.as_bytes(), None, &backend) {
            Ok(import) => import,
            Err(error) => return Report::refused(Finding::error(file, error.to_string())),
        };
    let mut report = Report::default();
    report.findings.extend(skipped(file, left_out));
    report.findings.extend(reduced(file, in_part));
    for tool in tools {
        report.take(file, Ok(tool));
    }
    // Names begin with the stand-in for a namespace, so nothing can be said of them.
    report.findings.retain(|finding| finding.at != "name");
    report
}

/// Operations that have no tool, as findings.
pub(super) fn skipped(file: &Path, operations: Vec<Skipped>) -> impl Iterator<Item = Finding> {
    operations.into_iter().map(|Skipped { operation, reason, .. }| Finding {
        tool: Some(operation),
        ..Finding::error(file, reason)
    })
}

/// Operations whose tool lacks a part of them, as findings.
pub(super) fn reduced(file: &Path, operations: Vec<Skipped>) -> impl Iterator<Item = Finding> {
    skipped(file, operations).map(|finding| Finding { level: Level::Warning, ..finding })
}
