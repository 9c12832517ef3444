//! Tools over everything: what the user's office knows of a person or a thing, and which accounts there are.

mod found;
mod list_accounts;
mod people;
mod query;

use std::sync::Arc;

use helve::ToolBuilder;

use crate::Office;

/// Every tool over everything.
pub(super) fn tools(office: &Arc<Office>) -> Vec<ToolBuilder> {
    vec![query::tool(office), list_accounts::tool(office)]
}
