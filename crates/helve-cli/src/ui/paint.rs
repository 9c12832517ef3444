//! Colour, or none.

use std::fmt::Display;

use anstyle::{AnsiColor, Style};

/// Paints text, or leaves it plain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Paint {
    /// With escape sequences.
    Colour,
    /// As it is.
    Plain,
}

impl Paint {
    pub(crate) fn bold(self, text: impl Display) -> String {
        self.with(Style::new().bold(), text)
    }

    pub(crate) fn dim(self, text: impl Display) -> String {
        self.with(Style::new().dimmed(), text)
    }

    pub(crate) fn good(self, text: impl Display) -> String {
        self.with(AnsiColor::Green.on_default(), text)
    }

    pub(crate) fn warn(self, text: impl Display) -> String {
        self.with(AnsiColor::Yellow.on_default(), text)
    }

    pub(crate) fn bad(self, text: impl Display) -> String {
        self.with(AnsiColor::Red.on_default().bold(), text)
    }

    pub(crate) fn accent(self, text: impl Display) -> String {
        self.with(AnsiColor::Cyan.on_default(), text)
    }

    fn with(self, style: Style, text: impl Display) -> String {
        match self {
            Self::Colour => format!("{style}{text}{style:#}"),
            Self::Plain => text.to_string(),
        }
    }
}
