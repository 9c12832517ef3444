//! Something that works, but not as somebody may think.

use std::fmt;

use serde::Serialize;

/// Something that should be known, and what to do about it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Remark {
    pub(crate) found: String,
    pub(crate) fix: String,
}

impl fmt::Display for Remark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}; {}", self.found, self.fix)
    }
}
