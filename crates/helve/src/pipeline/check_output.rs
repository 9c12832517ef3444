//! Schema and size of the answer.

use helve_core::json::{SizeBounds, size, size_bounds};
use helve_core::{ErrorCode, FailureMode, Output, Status, Tool, ToolError};
use serde_json::Value;
use serde_json::value::{RawValue, to_raw_value};

use super::execute::Answer;
use super::record::OpenRecord;
use crate::runtime::Parts;

pub(super) fn check(parts: &Parts, answer: Answer, record: &mut OpenRecord<'_>) -> Result<Status, ToolError> {
    let Answer { tool, result, deed: _ } = answer;
    match result {
        Ok(value) => {
            // Its size first: a schema may take long with what would be refused anyway.
            let measured = measure(parts, &tool, &value, record.kept_bytes_max())?;
            check_schema(&tool, &value)?;
            match measured {
                Measured::Text(text) => record.keep_result(&value, text),
                Measured::Long { least } => record.keep_size(&value, least),
            }
            Ok(Status::Done(Output::success(value)))
        }
        Err(error) if returns_failure(&tool, &error) => {
            let output = Output::failure(&error);
            record.returned(error);
            Ok(Status::Done(output))
        }
        Err(error) => Err(error),
    }
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
    /// As JSON.
    Text(Box<RawValue>),
    /// It has a text that is too long to be kept, and at least so many bytes.
    Long { least: usize },
}

fn measure(parts: &Parts, tool: &Tool, value: &Value, kept_bytes_max: usize) -> Result<Measured, ToolError> {
    let bytes_max = parts.settings.result_bytes_max;
    let check = |bytes: usize| {
        if bytes <= bytes_max {
            return Ok(());
        }
        let message = format!("`{}` answered {bytes} bytes; at most {bytes_max} are allowed", tool.name());
        Err(ToolError::new(ErrorCode::OutputTooLarge, message).suggest("ask for less at once"))
    };
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
