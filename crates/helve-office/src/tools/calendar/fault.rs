//! Errors that all calendar tools share.

use helve::{ErrorCode, FieldError, ToolError};
use helve_store::office::OfficeError;

use super::super::mail::LOOK_UP;
use crate::text::{NO_AT, Problem, Refusal};

/// An argument that fits the schema and cannot be used all the same.
pub(in crate::tools) fn wrong(field: &str, expected: &str, problem: impl AsRef<str>) -> ToolError {
    let message = format!("`{field}` cannot be used: {}", problem.as_ref());
    let at = FieldError {
        path: format!("/{}", field.replace('.', "/")),
        expected: expected.to_owned(),
        received: String::new(),
        message: message.clone(),
    };
    ToolError::new(ErrorCode::ValidationFailed, message).with_fields(vec![at]).nothing_done()
}

/// A text that was refused, under the name of its field.
pub(in crate::tools) fn refused(field: &str, refusal: Refusal) -> ToolError {
    if refusal.problem == Problem::Malformed(NO_AT) {
        let expected = "an address such as `ada@example.org` or `Ada <ada@example.org>`";
        return wrong(field, expected, refusal.problem.to_string()).suggest(LOOK_UP);
    }
    wrong(
        field,
        "text without control, bidi or invisible characters, within its limit",
        refusal.problem.to_string(),
    )
}

/// The office file does not work.
pub(in crate::tools) fn broken(error: OfficeError) -> ToolError {
    ToolError::failed("the office file could not be read or written").retryable(true).with_source(error)
}

/// An object that is not there, or not for this caller: who asks learns no difference.
pub(in crate::tools) fn not_found(what: &str) -> ToolError {
    ToolError::recoverable("NOT_FOUND", format!("there is no such {what}, or not any more"))
        .nothing_done()
        .suggest(format!("list {what}s again to see what there is"))
}
