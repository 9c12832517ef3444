//! Schema and size of the answer.
//!
//! A tool may attach its answer in MCP's own form, with images and links, and that is what MCP clients get. Value and
//! attachment are one output: both are measured, and what is hidden is taken out of both.

use std::borrow::Cow;
use std::sync::Arc;

use helve_core::json::{SizeBounds, size, size_bounds};
use helve_core::{ErrorCode, FailureMode, Output, Status, Tool, ToolError};
use serde_json::Value;
use serde_json::value::{RawValue, to_raw_value};

use super::execute::UncheckedAnswer;
use super::record::{AfterWork, ResultRecord};
use crate::formats::cleaned;
use crate::runtime::Settings;

/// Checks the answer, and keeps of it what is recorded.
pub(super) fn check(
    settings: &Settings,
    answer: UncheckedAnswer,
    record: &mut AfterWork<'_, '_>,
) -> Result<Status, ToolError> {
    let AfterWork { result: record, scrubber, kept_bytes_max, .. } = record;
    let kept_bytes_max = *kept_bytes_max;
    let UncheckedAnswer { tool, result } = answer;
    let result = result.map_err(|error| bounded(settings, &tool, error));
    let attached = check_attached(settings, &tool, record);
    match result {
        Ok(value) => {
            attached?;
            // Its size first: a schema may take long with what would be refused anyway.
            let measured = measure(settings, &tool, &value, kept_bytes_max)?;
            check_schema(&tool, &value)?;
            match measured {
                Measured::Text(text) => record.keep(&value, text, kept_bytes_max, scrubber),
                Measured::Long { least } => record.keep_size(&value, least, scrubber),
            }
            Ok(Status::Done(Output { value, is_failure: record.fails_with_result() }))
        }
        Err(error) if returns_failure(&tool, &error) => {
            let output = Output::failure(&error);
            record.keep_returned(&error, scrubber);
            Ok(Status::Done(output))
        }
        Err(error) => Err(error),
    }
}

/// Cleans and measures what was attached. What cannot be passed on is not there afterwards: a failure has its message
/// all the same.
fn check_attached(settings: &Settings, tool: &Tool, record: &mut ResultRecord) -> Result<(), ToolError> {
    let Some(content) = record.attached().cloned() else { return Ok(()) };
    record.attach(None);
    check_size(settings, tool, content.get().len())?;
    if let Some(content) = cleaned_text(content) {
        record.attach(Some(&content));
    }
    Ok(())
}

/// The same JSON without hidden characters. None where it nests too deeply to be looked through.
fn cleaned_text(content: Arc<RawValue>) -> Option<Arc<RawValue>> {
    if is_plain(content.get()) {
        return Some(content);
    }
    let value: Value = serde_json::from_str(content.get()).ok()?;
    match cleaned(&value) {
        Cow::Borrowed(_) => Some(content),
        Cow::Owned(clean) => Some(Arc::from(to_raw_value(&clean).ok()?)),
    }
}

/// Whether JSON text can hold no hidden character: all of it is printable ASCII, and no escape stands for one.
fn is_plain(json: &str) -> bool {
    let stands_for_one = |pair: &[u8]| matches!(pair, [b'\\', b'u' | b'b' | b'f' | b'r'] | [_, 0x7f]);
    json.is_ascii() && !json.as_bytes().windows(2).any(stands_for_one)
}

/// A failure that says no more than any answer may.
fn bounded(settings: &Settings, tool: &Tool, error: ToolError) -> ToolError {
    let bytes = error.message().len() + error.suggestions().iter().map(String::len).sum::<usize>();
    match check_size(settings, tool, bytes) {
        Ok(()) => error,
        Err(too_large) => too_large,
    }
}

fn check_size(settings: &Settings, tool: &Tool, bytes: usize) -> Result<(), ToolError> {
    let bytes_max = settings.result_bytes_max;
    if bytes <= bytes_max {
        return Ok(());
    }
    let message = format!("`{}` answered {bytes} bytes; at most {bytes_max} are allowed", tool.name());
    Err(ToolError::new(ErrorCode::OutputTooLarge, message).suggest("ask for less at once"))
}

/// A cancelled call has nobody to return a result to.
fn returns_failure(tool: &Tool, error: &ToolError) -> bool {
    tool.definition().failure_mode == FailureMode::Return && error.code() != ErrorCode::Cancelled
}

fn check_schema(tool: &Tool, value: &Value) -> Result<(), ToolError> {
    let Some(schema) = tool.output() else { return Ok(()) };
    if schema.accepts(value) {
        return Ok(());
    }
    let fields = schema.validate(value).err().unwrap_or_default();
    let first = fields
        .first()
        .map(|field| field.message.replacen("the arguments", "the result", 1))
        .unwrap_or_default();
    let message = format!("`{}` answered something else than it promises: {first}", tool.name());
    Err(ToolError::new(ErrorCode::OutputInvalid, message)
        .suggest("this is a defect in the tool; other arguments may avoid it")
        .with_fields(fields))
}

/// A result that is no larger than allowed.
enum Measured {
    /// The result as JSON.
    Text(Box<RawValue>),
    /// It has a text that is too long to be kept, and at least so many bytes.
    Long { least: usize },
}

fn measure(
    settings: &Settings,
    tool: &Tool,
    value: &Value,
    kept_bytes_max: usize,
) -> Result<Measured, ToolError> {
    let bytes_max = settings.result_bytes_max;
    let check = |bytes: usize| check_size(settings, tool, bytes);
    // Even to look at a long text takes about as long as to read the file that it is from. Of one that is
    // too long to be kept, the size is told without what escapes add, which matters only near the limit.
    if has_text_beyond(value, kept_bytes_max) {
        let SizeBounds { least, most } = size_bounds(value);
        if most > bytes_max {
            check(size(value))?;
        }
        return Ok(Measured::Long { least });
    }
    let text = to_raw_value(value).map_err(|error| {
        ToolError::failed("the tool's answer cannot be written as JSON").with_source(error)
    })?;
    check(text.get().len())?;
    Ok(Measured::Text(text))
}

/// Whether a value, or a field of it, is a text of more bytes than this.
fn has_text_beyond(value: &Value, bytes: usize) -> bool {
    let is_long = |value: &Value| value.as_str().is_some_and(|text| text.len() > bytes);
    match value {
        Value::Object(fields) => fields.values().any(is_long),
        other => is_long(other),
    }
}
