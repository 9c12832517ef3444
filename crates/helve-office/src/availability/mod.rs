//! Who is free when. The answer has three values, and *unknown* is never *free*.
//!
//! A [`Person`] is what could be seen of a person: their calendars, each [seen](Sight::Seen) or not. From these comes a
//! [`Timeline`] that covers a range without a gap and says [`State`] for every part of it. A calendar that could not be
//! read, an event whose times cannot be known, or a person without any calendar make time unknown.
//!
//! What an event means for a person ([`weigh`]): cancelled, transparent or declined by them leaves them free; tentative,
//! or not yet answered by them, makes them tentative; anything else busy. An all-day event counts on the clock of the
//! person, by its transparency like every other: programs write `TRANSPARENT` for birthdays and holidays.

mod hours;
mod person;
mod slots;
mod timeline;
mod weigh;

pub use hours::{DayHours, WorkingHours};
pub use person::{Calendar, Person, Sight};
pub use slots::{Slot, Slots, find_slots};
pub use timeline::{Interval, Part, State, Timeline};
pub use weigh::{Weight, freebusy, weigh};
