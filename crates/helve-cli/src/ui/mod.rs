//! Everything the binary says: one door to standard output and standard error.
//!
//! [`Ui`] writes, [`escape`] makes untrusted text harmless, [`table`] and [`json`] give it form.

pub(crate) mod escape;
pub(crate) mod json;
pub(crate) mod log;
pub(crate) mod paint;
pub(crate) mod table;
mod writer;

/// A number with its noun: `1 tool`, `2 tools`.
pub(crate) fn count(number: usize, noun: &str) -> String {
    format!("{number} {noun}{}", if number == 1 { "" } else { "s" })
}

pub(crate) use paint::Paint;
pub(crate) use table::Table;
pub(crate) use writer::{Colour, Detail, Format, Ui};
