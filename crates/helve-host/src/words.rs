//! Words for people.

use std::fmt::Display;

/// A number with its noun: `1 tool`, `2 tools`, `3 entries`.
pub fn count<N: Display + PartialEq + From<u8>>(number: N, noun: &str) -> String {
    match noun.strip_suffix('y') {
        _ if number == N::from(1) => format!("{number} {noun}"),
        Some(stem) => format!("{number} {stem}ies"),
        None => format!("{number} {noun}s"),
    }
}
