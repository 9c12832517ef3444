//! Refuses a configuration that is wrong: in one layer, in what waits for trust, or as a whole.

use std::cell::LazyCell;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use helve::{Layer, Schema};
use serde_json::{Value, json};

use super::asked::AskedSettings;
use super::document::{Document, at};
use super::overrides::{self, Override};
use super::parts::{self, Problem, problems_of};
use super::pointer::dotted;
use super::{Config, Origin};
use crate::error::HostError;
use crate::words::count;

/// The typed whole. Its shape was checked before; here a value can still be wrong in itself, such
/// as a host that is none.
pub(super) fn typed(merged: &Value, origins: &HashMap<String, Origin>) -> Result<Config, HostError> {
    serde_json::from_value(merged.clone()).map_err(|error| {
        let culprits = origins.iter().filter_map(|(pointer, origin)| {
            let mut alone = json!({});
            overrides::put(&mut alone, pointer, merged.pointer(pointer)?.clone());
            let why = serde_json::from_value::<Config>(alone).err()?;
            Some(format!("{}  `{}`: {why}", at(origin), dotted(pointer)))
        });
        let mut lines: Vec<_> = culprits.collect();
        lines.sort();
        if lines.is_empty() {
            lines.push(error.to_string());
        }
        HostError::usage(format!("the configuration has {}", count(lines.len(), "problem"))).details(lines)
    })
}

/// What waits must be right as well: trust changes what counts, not what can be read.
pub(super) fn check_waiting(
    settings: &AskedSettings,
    merged: &Value,
    origins: &HashMap<String, Origin>,
) -> Result<(), HostError> {
    if settings.asked.is_empty() {
        return Ok(());
    }
    let (mut merged, mut origins) = (merged.clone(), origins.clone());
    for asked in &settings.asked {
        overrides::put(&mut merged, &asked.pointer, asked.value.clone());
        origins.insert(asked.pointer.clone(), asked.origin.clone());
    }
    typed(&merged, &origins).map(drop)
}

/// Checks each layer by itself, so that every problem has a place. Gives what is wrong with parts of the
/// files, by the pointer of the part, each file in the order of `documents`.
pub(super) fn check(
    documents: &[(Layer, Arc<Document>)],
    overrides: &[Override],
    schema: &LazyCell<Schema>,
) -> Result<Vec<BTreeMap<String, Vec<Problem>>>, HostError> {
    let judged: Vec<_> = documents.iter().map(|(_, document)| parts::judge(document, schema)).collect();
    let mut is_whole = judged.iter().all(|wrong| wrong.whole.is_empty());
    let mut of_overrides = Vec::new();
    for one in overrides {
        let mut overlay = json!({});
        overrides::put(&mut overlay, &one.pointer, one.value.clone());
        let errors = schema.validate(&overlay).err().unwrap_or_default();
        of_overrides.extend(errors.iter().map(|error| Problem::new(error, one.origin.clone(), schema)));
    }
    is_whole &= of_overrides.is_empty();
    if is_whole {
        return Ok(judged.into_iter().map(|wrong| wrong.parts).collect());
    }
    let of_files = documents.iter().flat_map(|(_, document)| problems_of(document, schema));
    let lines: Vec<_> = of_files.chain(of_overrides).map(|problem| problem.line()).collect();
    Err(HostError::usage(format!("the configuration has {}", count(lines.len(), "problem")))
        .details(lines)
        .hint("`helve config keys` lists every key"))
}

/// What no single value can be blamed for.
pub(super) fn check_together(config: &Config, origins: &HashMap<String, Origin>) -> Result<(), HostError> {
    let useless =
        config.limits.calls.iter().enumerate().find_map(|(index, rule)| Some((index, rule.problem()?)));
    if let Some((index, problem)) = useless {
        let origin = origins.get("/limits/calls").cloned().unwrap_or(Origin::Default);
        return Err(HostError::usage("a rule on calls makes no sense")
            .detail(format!("{}  `limits.calls[{index}]`: {problem}", at(&origin))));
    }
    let execution = &config.execution;
    if execution.default_timeout_ms > execution.max_timeout_ms {
        let origin = |pointer: &str| origins.get(pointer).cloned().unwrap_or(Origin::Default);
        let line = |key: &str, value: u64| {
            format!("execution.{key} = {value}  ({})", at(&origin(&format!("/execution/{key}"))))
        };
        return Err(HostError::usage("the default timeout is longer than the longest one allowed")
            .detail(line("default_timeout_ms", execution.default_timeout_ms))
            .detail(line("max_timeout_ms", execution.max_timeout_ms)));
    }
    Ok(())
}
