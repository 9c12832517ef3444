//! Something that works, but perhaps not as intended.

use std::fmt;

use serde::Serialize;

/// Something that should be known, and what to do about it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Remark {
    /// What was found, in words for a person.
    pub found: String,
    /// What to do about it.
    pub fix: String,
}

impl fmt::Display for Remark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}; {}", self.found, self.fix)
    }
}
