//! Tools for mails.
//!
//! Every tool begins at a [`Desk`](desk::Desk): the accounts that its caller may use. What is not on it is not there,
//! whatever id a caller names. `plan` makes the mail that is drafted or sent; `outgoing` sends one, once.

mod desk;
mod draft;
mod list_drafts;
mod outgoing;
mod plan;
mod preview;
mod read;
mod search;
mod send;
pub(super) mod shown;
pub(in crate::tools) use shown::LOOK_UP;

use std::sync::Arc;

use helve::ToolBuilder;

use crate::Office;

/// Every tool for mails.
pub(super) fn tools(office: &Arc<Office>) -> Vec<ToolBuilder> {
    vec![
        search::tool(office),
        read::tool(office),
        list_drafts::tool(office),
        draft::tool(office),
        send::tool(office),
    ]
}
