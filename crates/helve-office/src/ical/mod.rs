//! iCalendar (RFC 5545) and vCard (RFC 6350), read and edited without changing a byte that nobody named.
//!
//! A [`Document`] is a tree of components whose leaves are content lines, each kept as the bytes it came in:
//! folds, odd capitals, unknown properties, blank lines and lines that are no property at all. Printing gives
//! those bytes back. An edit writes new lines for the properties that it names and leaves all others alone, so
//! what another program stored survives an update by this one.
//!
//! Reading is lenient in what breaks nothing (bare line feeds, UTF-8 split by a fold, stray lines) and strict in
//! what would make the tree a guess (a component that is never ended). [`Limits`] bound bytes, lines, components
//! and depth.

mod component;
mod document;
mod escape;
mod line;
mod new_property;
mod property;
mod values;

pub use component::Component;
pub use document::{Document, Limits, ParseError};
pub use escape::{escape, split_list, unescape};
pub use line::{Eol, Line};
pub use new_property::{EditError, NewProperty};
pub use property::{Param, Property};
pub use values::{DateValue, DurationValue, PeriodEnd, PeriodValue, ValueError};
