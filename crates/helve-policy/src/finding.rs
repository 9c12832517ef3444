//! What is wrong with a file of policies, and where.

use std::fmt;

use serde::Serialize;

/// How bad it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// It works, and may not mean what its author thinks.
    Warning,
    /// The policies cannot be used: every request is denied until it is mended.
    Error,
}

/// Something wrong, with its place.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// How bad it is.
    pub severity: Severity,
    /// The file that has the mistake.
    pub file: String,
    /// The line, from 1.
    pub line: usize,
    /// The column, from 1, in characters.
    pub column: usize,
    /// The policy, where it is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub policy: Option<String>,
    /// What is wrong.
    pub message: String,
    /// What to do about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub help: Option<String>,
}

impl Finding {
    pub(crate) fn error(place: Place, message: impl Into<String>) -> Self {
        let Place { file, line, column } = place;
        let message = message.into();
        Self { severity: Severity::Error, file, line, column, policy: None, message, help: None }
    }

    pub(crate) fn warning(place: Place, message: impl Into<String>) -> Self {
        Self { severity: Severity::Warning, ..Self::error(place, message) }
    }

    pub(crate) fn of(mut self, policy: &str) -> Self {
        self.policy = Some(policy.to_owned());
        self
    }

    pub(crate) fn help(mut self, help: Option<String>) -> Self {
        self.help = help;
        self
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}  {}", self.file, self.line, self.column, self.message)?;
        match &self.help {
            Some(help) => write!(f, "; {help}"),
            None => Ok(()),
        }
    }
}

/// Where something stands.
#[derive(Debug, Clone)]
pub(crate) struct Place {
    pub(crate) file: String,
    pub(crate) line: usize,
    pub(crate) column: usize,
}

impl Place {
    /// The place of a byte of a text.
    pub(crate) fn of(file: &str, text: &str, offset: usize) -> Self {
        let mut offset = offset.min(text.len());
        while !text.is_char_boundary(offset) {
            offset -= 1;
        }
        let before = &text[..offset];
        let line_start = before.rfind('\n').map_or(0, |at| at + 1);
        Self {
            file: file.to_owned(),
            line: before.matches('\n').count() + 1,
            column: before[line_start..].chars().count() + 1,
        }
    }
}

/// `did you mean …?`, where one of `known` is near enough.
pub(crate) fn did_you_mean<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<String> {
    const ENOUGH: f64 = 0.8;
    // Comparing is quadratic, and a file may hold anything.
    let word: String = word.chars().take(128).collect();
    let near = known
        .into_iter()
        .map(|candidate| (strsim::jaro_winkler(&word, candidate), candidate))
        .filter(|(score, _)| *score >= ENOUGH)
        .max_by(|(a, _), (b, _)| a.total_cmp(b));
    near.map(|(_, candidate)| format!("did you mean `{candidate}`?"))
}
