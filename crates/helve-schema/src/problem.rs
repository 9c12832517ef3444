//! What is wrong with a schema or with a value, and what was mended.

use std::fmt;

use serde::{Deserialize, Serialize};

/// One thing wrong with a definition.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Problem {
    /// Where in the definition, as in `input_schema/properties/to`.
    pub at: String,
    /// What is wrong and what to do.
    pub message: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.at, self.message)
    }
}

/// One thing wrong with one argument.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct FieldError {
    /// JSON Pointer to the value; empty for the arguments as a whole.
    pub path: String,
    /// What the schema asks for.
    pub expected: String,
    /// What came, shortened. Never the value of a secret field.
    pub received: String,
    /// One line for the model.
    pub message: String,
}

/// Something that was mended in the arguments before the call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Repair {
    /// JSON Pointer to what was mended.
    pub path: String,
    /// What was done.
    pub detail: String,
}
