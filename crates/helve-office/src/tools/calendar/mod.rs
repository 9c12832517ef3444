//! Tools for calendars and tasks.

use std::sync::Arc;

use helve::ToolBuilder;

use crate::Office;

/// Every tool for calendars and tasks.
pub(super) fn tools(_office: &Arc<Office>) -> Vec<ToolBuilder> {
    Vec::new()
}
