//! Tools that are always there: harmless, without network, files or programs.
//!
//! Each file holds one tool: its input, its output, and a pure function from one to the other
//! whose work is bounded, whatever a model sends.

mod json_query;
mod math_eval;
mod text_stats;
mod time_now;

use helve::{Annotations, Category, ErrorCode, FieldError, Risk, Source, Tool, ToolBuilder, ToolError};

/// All built-in tools.
pub fn builtin_tools() -> Vec<Tool> {
    [time_now::tool(), math_eval::tool(), text_stats::tool(), json_query::tool()]
        .into_iter()
        .map(|builder| harmless(builder).build().expect("a test builds every built-in tool"))
        .collect()
}

/// What all of them have in common.
fn harmless(builder: ToolBuilder) -> ToolBuilder {
    builder
        .source(Source::Builtin)
        .category(Category::Data)
        .risk(Risk::Low)
        .annotations(Annotations::pure())
        .facets([])
}

/// An argument that fits the schema and is wrong all the same.
pub(crate) fn wrong_argument(field: &str, expected: &str, received: &str, problem: &str) -> ToolError {
    const RECEIVED_CHARS_MAX: usize = 60;
    let received = received.chars().take(RECEIVED_CHARS_MAX).collect();
    let message = format!("`{field}` cannot be used: {problem}");
    ToolError::new(ErrorCode::ValidationFailed, message.clone()).with_fields(vec![FieldError {
        path: format!("/{field}"),
        expected: expected.to_owned(),
        received,
        message,
    }])
}
