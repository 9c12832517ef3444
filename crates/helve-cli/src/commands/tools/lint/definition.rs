//! Checks JSON definitions: one object, or a list of them.

use std::path::Path;

use helve::json::{JsonLimits, parse};
use helve::{Annotations, Category, DefinitionError, Problem, Risk, Tool, ToolError};
use helve_tools::common::{ToolCommon, ToolDefaults};
use serde::Deserialize;
use serde_json::Value;

use super::{Finding, Report};

/// What every tool says of itself, and nothing else.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct JsonDefinition {
    #[serde(flatten)]
    common: ToolCommon,
}

pub(super) fn check(file: &Path, text: &str) -> Report {
    let limits = JsonLimits { depth: 100, ..JsonLimits::default() };
    let value = match parse(text.as_bytes(), limits) {
        Ok(value) => value,
        Err(error) => return Report::refused(Finding::error(file, error.to_string())),
    };
    let definitions = match value {
        Value::Array(items) => items,
        other => vec![other],
    };
    let mut report = Report::default();
    for definition in definitions {
        report.take(file, build(definition));
    }
    report
}

fn build(definition: Value) -> Result<Tool, DefinitionError> {
    let name = definition.get("name").and_then(Value::as_str).unwrap_or("(no name)").to_owned();
    let JsonDefinition { common } = serde_json::from_value(definition).map_err(|error| DefinitionError {
        tool: name,
        problems: vec![Problem { at: String::new(), message: error.to_string() }],
    })?;
    let defaults =
        ToolDefaults { category: Category::Custom, risk: Risk::Medium, annotations: Annotations::default() };
    // A definition alone has nothing that runs, and checking runs nothing.
    common
        .into_builder(defaults)
        .handler(|_, _| async { Err(ToolError::failed("only a definition")) })
        .build()
}
