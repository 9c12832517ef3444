//! Edits of a stored series: one occurrence, this and the following, or all. Lines that an edit does not name stay
//! as they are, byte by byte.
//!
//! - **One**: an override, made from the event as it stands, with the `RECURRENCE-ID` in the form of its `DTSTART`.
//! - **This and following**: the series is split. The old one gets an `UNTIL`, and a new one with its own UID begins at
//!   the occurrence and takes the later exceptions and overrides along. Google, Apple, Outlook and Thunderbird do it
//!   this way; `RANGE=THISANDFUTURE`, which the standard offers instead, is ignored by most of them.
//! - **All**: the event, and those overrides that had the same value as the event. Where the time moves, exceptions
//!   and the ids of overrides move with it: left behind they would bring back what was taken out, and show
//!   occurrences twice.
//!
//! Every edit counts `SEQUENCE` up where RFC 5546 wants it, and renews `DTSTAMP` and `LAST-MODIFIED`.

mod all;
mod changes;
mod following;
mod one;
mod range;
mod times;
mod zone;

pub use all::{Changed, change_all};
pub use changes::{Changes, NewTime, SeriesEditError};
pub use following::{Split, change_following, remove_following};
pub use one::{change_one, remove_one};
pub use zone::define_zone;
