//! Everything the binary says: one door to standard output and standard error.
//!
//! [`Ui`] writes, [`escape`] makes untrusted text harmless, [`table`] and [`json`] give it form.

pub(crate) mod escape;
pub(crate) mod json;
pub(crate) mod log;
pub(crate) mod paint;
pub(crate) mod table;
mod writer;

use std::fmt::Display;

/// A number with its noun: `1 tool`, `2 tools`, `3 entries`.
pub(crate) fn count<N: Display + PartialEq + From<u8>>(number: N, noun: &str) -> String {
    match noun.strip_suffix('y') {
        _ if number == N::from(1) => format!("{number} {noun}"),
        Some(stem) => format!("{number} {stem}ies"),
        None => format!("{number} {noun}s"),
    }
}

pub(crate) use paint::Paint;
pub(crate) use table::Table;
pub(crate) use writer::{Colour, Detail, Format, Ui, unwritten};
