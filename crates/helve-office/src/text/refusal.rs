//! Why a text is refused, in words that a model can act on.

use std::borrow::Cow;

/// A text that was refused: which field, and what is wrong with it. Its `Display` says what to change, and
/// never repeats the text itself, so that an answer cannot be made to carry it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{field} {problem}")]
pub struct Refusal {
    /// The field as the caller knows it: `subject`, `to[3]`.
    pub field: Cow<'static, str>,
    /// What is wrong.
    pub problem: Problem,
}

impl Refusal {
    pub(crate) fn new(field: &'static str, problem: Problem) -> Self {
        Self { field: Cow::Borrowed(field), problem }
    }

    /// The same refusal under the name by which the caller knows the field.
    #[must_use]
    pub fn named(self, field: impl Into<Cow<'static, str>>) -> Self {
        Self { field: field.into(), problem: self.problem }
    }
}

/// What is wrong with a text.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// Nothing but space.
    #[error("is empty; give at least one character")]
    Empty,
    /// Longer than the field may be.
    #[error("has {found} {unit}; the limit is {max}")]
    TooLong {
        /// How long it is.
        found: usize,
        /// How long it may be.
        max: usize,
        /// What is counted: `bytes`, `characters`.
        unit: &'static str,
    },
    /// More items than the field may have.
    #[error("has {found} {unit}; the limit is {max}")]
    TooMany {
        /// How many there are.
        found: usize,
        /// How many there may be.
        max: usize,
        /// What is counted: `addresses`, `words`.
        unit: &'static str,
    },
    /// A line break where only one line fits.
    #[error("has a line break at character {at}; write it on one line")]
    LineBreak {
        /// Which character it is, counted from one.
        at: usize,
    },
    /// A character that acts on its reader instead of being read.
    #[error("has a {name} (U+{:04X}) at character {at}; remove it", u32::from(*.c))]
    Hidden {
        /// The character that was found.
        c: char,
        /// What it is, in words.
        name: &'static str,
        /// Which character it is, counted from one.
        at: usize,
    },
    /// Not of the form that the field has.
    #[error("{0}")]
    Malformed(&'static str),
}
