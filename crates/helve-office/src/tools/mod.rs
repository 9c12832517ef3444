//! The office tools.

use std::sync::Arc;

use helve::Tool;

use crate::Office;

mod allowed;
mod calendar;
mod context;
mod mail;

/// Every office tool. A runtime that has them needs the office as its integrations too, which know what is connected.
pub fn office_tools(office: &Arc<Office>) -> Vec<Tool> {
    let builders =
        context::tools(office).into_iter().chain(mail::tools(office)).chain(calendar::tools(office));
    builders.map(|builder| builder.build().expect("a test builds every office tool")).collect()
}
