//! Steps side by side.

use std::sync::Arc;

use helve_core::ToolError;
use serde_json::{Map, Value};

use super::plan::{Arguments, Make, Part};
use super::run::{Run, as_result, named_fields, unreadable};
use super::sequence::Trail;
use super::window::{Job, Slot, gather};

pub(super) async fn run_parallel(
    run: &Run<'_>,
    parts: &[Part],
    concurrency: usize,
    output: Option<&Make>,
) -> Result<Value, ToolError> {
    let job = |index: usize| {
        let part: &Part = &parts[index];
        Job { part, path: Arc::clone(&part.path), arguments: prepare(run, part) }
    };
    let slots = gather(run, parts.len(), concurrency, job).await?;
    if let Some(output) = output {
        let mut trail = Trail::new(parts.len());
        for (part, slot) in parts.iter().zip(slots) {
            match slot {
                Slot::Done(result) => trail.add_result(&part.name, result),
                Slot::Failed(error) => trail.add_error(&part.name, &error),
                Slot::Skipped => {}
            }
        }
        return trail.output(run, output);
    }
    let results = parts.iter().zip(slots).filter_map(|(part, slot)| {
        let value = match slot {
            Slot::Done(result) => result,
            Slot::Failed(error) => as_result(&error),
            Slot::Skipped => return None,
        };
        Some((part.name.clone(), value))
    });
    Ok(Value::Object(results.collect::<Map<_, _>>()))
}

fn prepare(run: &Run<'_>, part: &Part) -> Result<Option<Value>, ToolError> {
    let scope = run.scope();
    if let Some(when) = &part.when
        && !when.holds(&scope)?
    {
        return Ok(None);
    }
    Ok(Some(match &part.arguments {
        Arguments::Template(template) => template.render(&scope).map_err(unreadable)?,
        Arguments::Code(transform) => transform.make(&Value::Null, run.input)?,
        Arguments::Passed => named_fields(part, run.input),
    }))
}
