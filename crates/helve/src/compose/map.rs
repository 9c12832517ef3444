//! One tool for each item of a list.

use helve_core::{ErrorCode, ToolError};
use serde_json::{Value, json};

use super::plan::{Arguments, Make, Part};
use super::run::{Run, as_result, unreadable};
use super::window::{Job, Slot, gather};

/// What is mapped, and how.
pub(super) struct Mapping<'p> {
    pub(super) part: &'p Part,
    pub(super) over: &'p Make,
    pub(super) item: &'p str,
    pub(super) concurrency: usize,
    pub(super) items_max: usize,
}

pub(super) async fn run_map(
    run: &Run<'_>,
    mapping: &Mapping<'_>,
    output: Option<&Make>,
) -> Result<Value, ToolError> {
    let items = items(run, mapping)?;
    let part = mapping.part;
    let job = |index: usize| Job {
        part,
        path: format!("{}[{index}]", part.path).into(),
        arguments: prepare(run, mapping, &items[index], index).map(Some),
    };
    let slots = gather(run, items.len(), mapping.concurrency, job).await?;
    let results = slots.into_iter().map(|slot| match slot {
        Slot::Done(result) => result,
        Slot::Failed(error) => as_result(&error),
        // Every item is due.
        Slot::Skipped => Value::Null,
    });
    let results = Value::Array(results.collect());
    match output {
        Some(output) => output.value(&run.scope().with("results", &results)),
        None => Ok(results),
    }
}

fn items(run: &Run<'_>, mapping: &Mapping<'_>) -> Result<Vec<Value>, ToolError> {
    let wrong = |message: String| ToolError::new(ErrorCode::ValidationFailed, message);
    match mapping.over.value(&run.scope())? {
        Value::Array(items) if items.len() > mapping.items_max => Err(wrong(format!(
            "the list has {} items, and at most {} are allowed",
            items.len(),
            mapping.items_max
        ))
        .suggest("call with fewer items at a time")),
        Value::Array(items) => Ok(items),
        _ => Err(wrong("what should be mapped over is not a list".to_owned())),
    }
}

fn prepare(run: &Run<'_>, mapping: &Mapping<'_>, item: &Value, index: usize) -> Result<Value, ToolError> {
    match &mapping.part.arguments {
        Arguments::Template(template) => {
            let scope = run.scope().with(mapping.item, item).with_owned("index", json!(index));
            template.render(&scope).map_err(unreadable)
        }
        Arguments::Code(transform) => transform.make(item, run.input),
        Arguments::Passed => Ok(item.clone()),
    }
}
