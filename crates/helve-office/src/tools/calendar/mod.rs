//! Tools for calendars and tasks.

use std::sync::Arc;

use helve::ToolBuilder;

use crate::Office;

mod change;
mod event;
mod event_edit;
mod facts;
mod fault;
mod fields;
mod reach;
mod shown;
mod task;
mod time;

mod check_availability;
mod create_event;
mod create_task;
mod list_events;
mod list_tasks;
mod update_event;
mod update_task;

/// Every tool for calendars and tasks.
pub(super) fn tools(office: &Arc<Office>) -> Vec<ToolBuilder> {
    vec![
        list_events::tool(office),
        check_availability::tool(office),
        list_tasks::tool(office),
        create_task::tool(office),
        update_task::tool(office),
        create_event::tool(office),
        update_event::tool(office),
    ]
}
