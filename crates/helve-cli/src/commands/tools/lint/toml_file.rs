//! Checks a helve.toml: its keys, then each tool in it.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use helve::{DefinitionError, Layer, Problem, Registry, Tool};
use helve_host::config::document::Document;
use helve_host::config::{Config, ToolEntry, ToolKind, problems_of, schema, tool_entries};
use helve_host::wire::{
    InOrder, Made, Maker, builtin_as_shipped, in_order, is_of_server, parts, web, wrongly_named,
};
use helve_mcp::config::McpConfig;
use helve_sandbox::Sandbox;
use helve_tools::WebConfig;
use serde_json::Value;

use super::{Finding, Level, Report, fields, named, openapi};

pub(super) fn check(file: &Path) -> Report {
    let document = match Document::read(file) {
        Ok(document) => Arc::new(document),
        Err(failure) => return Report::refused(Finding::error(file, failure.lines().join("; "))),
    };
    let mut report = Report::default();
    let problems = problems_of(&document, &schema::compiled());
    report
        .findings
        .extend(problems.into_iter().map(|one| Finding::error(file, one.message).placed(&one.origin)));
    if !report.findings.is_empty() {
        // Its tools cannot be read before its keys are right.
        report.is_cut = true;
        return report;
    }
    let maker = Maker::new(&Config::default(), Sandbox::default());
    let longest = document.value.pointer("/execution/max_timeout_ms").and_then(Value::as_u64);
    let longest = longest.unwrap_or_else(|| Config::default().execution.max_timeout_ms);
    // Composed tools are made of the built-in ones and of those in the file.
    let registry = Registry::with_limit(usize::MAX);
    let mut builtin = builtin_as_shipped();
    match web::checked(&web_config(&document.value)) {
        Ok(tools) => builtin.extend(tools),
        Err(error) => {
            let origin = document.origin(&web::pointer(&error));
            report.findings.push(Finding::error(file, error.to_string()).placed(&origin));
        }
    }
    report.findings.extend(servers(file, &document));
    let builtin = registry.register_many(Layer::BuiltIn, builtin);
    report.findings.extend(builtin.err().map(|error| Finding::error(file, error.to_string())));
    let entries = tool_entries(Layer::Project, &document, &BTreeMap::new());
    let InOrder { entries: in_order, circles } = in_order(&entries);
    for (entry, error) in circles {
        refused(file, entry, error, &mut report);
    }
    let remote: Vec<_> = entries.iter().filter(|one| one.remote_document().is_some()).collect();
    let mut made = Vec::new();
    for entry in in_order {
        match parts(entry).into_iter().find(|part| !registry.has(part) && is_of(part, &remote)) {
            Some(part) => {
                let message = format!("not checked: its part `{part}` is of an API that is not fetched here");
                let finding = Finding { level: Level::Warning, ..Finding::error(file, message) };
                report.findings.push(finding.placed(&entry.origin()));
            }
            None => {
                let tools = check_entry(file, entry, &maker, &registry, &mut report);
                made.extend(tools.into_iter().map(|tool| (entry, tool)));
            }
        }
        report.findings.extend(check_timeout(file, entry, longest));
    }
    // Once all are known: tools may name those that come later.
    for (entry, tool) in made {
        let is_elsewhere = |name: &str| is_of(name, &remote) || of_server(name, &document.value);
        let mut wrong = wrongly_named(&tool, &registry, is_elsewhere);
        wrong.extend(named::refused_arguments(&entry.value, &registry));
        let mut doubtful = named::never_met(&tool, &entry.value, &document.value, &registry, is_elsewhere);
        match entry.kind {
            ToolKind::Program => doubtful.extend(fields::missing_program(&entry.value, file)),
            ToolKind::Composed(_) => wrong.extend(fields::unknown_fields(&tool, &entry.value, &registry)),
            ToolKind::Http | ToolKind::OpenApi => {}
        }
        let wrong = wrong.into_iter().map(|problem| (Level::Error, problem));
        let all = wrong.chain(doubtful.into_iter().map(|problem| (Level::Warning, problem)));
        report.findings.extend(all.map(|(level, problem)| {
            let origin = entry.origin_of(&problem.at);
            Finding::of_tool(level, file, tool.name().as_str(), problem).placed(&origin)
        }));
    }
    report.findings.sort_by_key(|finding| (finding.line, finding.column));
    report
}

/// What is wrong with the file's MCP servers. None is started.
fn servers(file: &Path, document: &Document) -> Vec<Finding> {
    let section = document.value.get("mcp").cloned().unwrap_or_else(|| Value::Object(Default::default()));
    let config: McpConfig = match serde_json::from_value(section) {
        Ok(config) => config,
        Err(error) => return vec![Finding::error(file, error.to_string()).placed(&document.origin("/mcp"))],
    };
    let placed = |problem: Problem| {
        let origin = document.origin(&format!("/mcp/{}", problem.at));
        Finding::error(file, format!("mcp/{problem}")).placed(&origin)
    };
    config.check().into_iter().map(placed).collect()
}

/// What the file says of the web tools. Its keys were checked before.
fn web_config(file: &Value) -> WebConfig {
    let section = file.get("web").cloned().unwrap_or_else(|| Value::Object(Default::default()));
    serde_json::from_value(section).unwrap_or_default()
}

/// Whether a tool would come out of one of these documents.
fn is_of(tool: &str, remote: &[&ToolEntry]) -> bool {
    remote.iter().any(|entry| tool.strip_prefix(entry.label()).is_some_and(|rest| rest.starts_with('/')))
}

/// Whether a tool would come from an MCP server of the file.
fn of_server(tool: &str, file: &Value) -> bool {
    let servers = file.pointer("/mcp/servers").and_then(Value::as_object);
    is_of_server(tool, servers.into_iter().flatten().map(|(name, _)| name))
}

fn refused(file: &Path, entry: &ToolEntry, error: DefinitionError, report: &mut Report) {
    report.tools += 1;
    let DefinitionError { tool, problems } = error;
    report.findings.extend(problems.into_iter().map(|problem| {
        let origin = entry.origin_of(&problem.at);
        Finding::of_tool(Level::Error, file, &tool, problem).placed(&origin)
    }));
}

/// Checks one entry; gives the tools that it makes.
fn check_entry(
    file: &Path,
    entry: &ToolEntry,
    maker: &Maker,
    registry: &Registry,
    report: &mut Report,
) -> Vec<Tool> {
    if let Some(url) = entry.remote_document() {
        let message = format!("`{url}` is not checked, because nothing is fetched here");
        let finding = Finding { level: Level::Warning, ..Finding::error(file, message) };
        report.findings.push(finding.placed(&entry.origin_of("document")));
        return Vec::new();
    }
    let placed = |level: Level, tool: &str, problem: Problem| {
        let origin = entry.origin_of(&problem.at);
        Finding::of_tool(level, file, tool, problem).placed(&origin)
    };
    match maker.make(entry, registry) {
        Ok(Made { tools, skipped, reduced, unmatched }) => {
            report.tools += tools.len();
            let left_out = openapi::skipped(file, skipped).chain(openapi::reduced(file, reduced));
            report.findings.extend(left_out.map(|one| one.placed(&entry.origin())));
            report
                .findings
                .extend(unmatched.into_iter().map(|problem| placed(Level::Warning, entry.label(), problem)));
            if let Err(error) = registry.register_many(Layer::Project, tools.iter().cloned()) {
                report.findings.push(Finding::error(file, error.to_string()).placed(&entry.origin()));
            }
            for tool in &tools {
                let warnings = tool.warnings().into_iter();
                report
                    .findings
                    .extend(warnings.map(|problem| placed(Level::Warning, tool.name().as_str(), problem)));
            }
            tools
        }
        Err(error) => {
            refused(file, entry, error, report);
            Vec::new()
        }
    }
}

/// A tool is never given more time than the longest timeout.
fn check_timeout(file: &Path, entry: &ToolEntry, longest_ms: u64) -> Option<Finding> {
    let ms = entry.value.get("timeout_ms")?.as_u64().filter(|ms| *ms > longest_ms)?;
    let message = format!("{ms} is cut to `execution.max_timeout_ms`, which is {longest_ms}");
    let problem = Problem { at: "timeout_ms".to_owned(), message };
    let origin = entry.origin_of(&problem.at);
    Some(Finding::of_tool(Level::Warning, file, entry.label(), problem).placed(&origin))
}
