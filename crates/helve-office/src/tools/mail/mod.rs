//! Tools for mails.

use std::sync::Arc;

use helve::ToolBuilder;

use crate::Office;

/// Every tool for mails.
pub(super) fn tools(_office: &Arc<Office>) -> Vec<ToolBuilder> {
    Vec::new()
}
