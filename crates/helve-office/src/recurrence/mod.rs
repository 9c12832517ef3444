//! When the events of a series happen, and edits of one, some or all of them.
//!
//! [`Series::read_all`] takes the events of a document apart, by UID; [`Series::expand`] says what happens in a range.
//!
//! | question | answer |
//! |---|---|
//! | `DTSTART` that its rule does not pick | is the first occurrence all the same, and `COUNT` counts it |
//! | `DTEND` over a change of the clock | every occurrence has the same exact length (RFC 5545 3.8.5.3) |
//! | `DURATION` over a change of the clock | days follow the calendar, hours the clock |
//! | neither | a day where it is all-day, else no time at all |
//! | `UNTIL` as a date, of a series with times | its whole day counts, on the clock of the series |
//! | `UNTIL` in UTC, of an all-day series | its date counts |
//! | `EXDATE` as a date, of a series with times | every occurrence that starts on that day is out |
//! | `RECURRENCE-ID` in another zone or in UTC | the same instant is meant |
//! | an override that fits no occurrence | is shown: another program made it, and to hide it would lose it |
//! | an override of an occurrence that `EXDATE` takes out | is out |
//! | `RANGE=THISANDFUTURE` | moves all later occurrences by as much as its own; their own overrides win |
//! | `STATUS:CANCELLED` | the occurrence is there and says so; the caller decides |
//!
//! [`edit`] changes a stored series without touching any line that it does not name.

pub mod edit;
mod event;
mod exceptions;
mod expand;
mod id;
mod occurrence;
mod series;
mod span;

pub use event::{Event, Length, Start, Status};
pub use id::RecurrenceId;
pub use occurrence::{Occurrence, Range, Source, When};
pub use series::{Override, Scope, Series, Unreadable};
