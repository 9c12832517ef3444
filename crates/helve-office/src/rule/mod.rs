//! Recurrence rules (`RRULE`, RFC 5545 3.3.10) on a clock without zones.
//!
//! [`Rule::parse`] reads one, [`Rule::expand`] says when it fires between two local times. Zones, exceptions and
//! overrides are the concern of [`recurrence`](crate::recurrence).
//!
//! Written by hand because the grammar is closed and the work has to be bounded: a rule without `COUNT` is entered
//! at the window and not at its start, rules below a day jump over days, hours and minutes that cannot match, and
//! every candidate is taken from a [`Budget`]. A rule that never fires ends with its window.

mod budget;
mod days;
mod expand;
mod parse;
mod print;
mod times;

pub use budget::{Budget, OverBudget};
pub use expand::{First, Window};
pub(crate) use expand::{local_time, naive_seconds};
pub use parse::{Frequency, NthWeekday, Rule, RuleError};
pub use print::{End, with_end};
