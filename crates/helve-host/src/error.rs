//! Why something could not be done, in words for a person: what happened, the details, what to do next.

use std::error::Error;

/// Why Helve could not be set up, or could not do what it was asked.
///
/// It displays as one line that says what happened. What is wrong and where is its source, and one by one in
/// [`lines`](Self::lines).
#[derive(Debug, Clone, thiserror::Error)]
#[error("{message}")]
pub struct HostError {
    /// Whose turn it is.
    pub kind: HostErrorKind,
    /// What happened, in one line.
    pub message: String,
    #[source]
    details: Option<Details>,
    /// What to do next, a line each.
    pub hints: Vec<String>,
}

/// Whose turn it is after an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HostErrorKind {
    /// Helve was used wrongly, or the configuration is wrong.
    Usage,
    /// What was asked was right, and failed.
    Failed,
    /// It is forbidden, until a person allows it.
    Denied,
}

/// What is wrong and where, a line each.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{}", .0.join("; "))]
struct Details(Vec<String>);

impl HostError {
    /// Helve was used wrongly, or the configuration is wrong.
    pub fn usage(message: impl Into<String>) -> Self {
        Self::new(HostErrorKind::Usage, message)
    }

    /// What was asked was right, and failed.
    pub fn failed(message: impl Into<String>) -> Self {
        Self::new(HostErrorKind::Failed, message)
    }

    /// It is forbidden, until a person allows it.
    pub fn denied(message: impl Into<String>) -> Self {
        Self::new(HostErrorKind::Denied, message)
    }

    fn new(kind: HostErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), details: None, hints: Vec::new() }
    }

    /// What is wrong and where, a line each.
    pub fn lines(&self) -> &[String] {
        self.details.as_ref().map_or(&[], |details| &details.0)
    }

    /// Adds a line on what is wrong and where.
    pub fn detail(self, line: impl Into<String>) -> Self {
        self.details([line.into()])
    }

    /// Adds several such lines.
    pub fn details(mut self, lines: impl IntoIterator<Item = String>) -> Self {
        let mut all = self.details.map_or_else(Vec::new, |details| details.0);
        all.extend(lines);
        self.details = (!all.is_empty()).then_some(Details(all));
        self
    }

    /// Adds what to do next.
    pub fn hint(mut self, line: impl Into<String>) -> Self {
        self.hints.push(line.into());
        self
    }

    /// Adds the causes of an error as details.
    pub fn because(self, error: &(dyn Error + 'static)) -> Self {
        let mut causes = vec![error.to_string()];
        let mut next = error.source();
        while let Some(cause) = next {
            causes.push(cause.to_string());
            next = cause.source();
        }
        causes.dedup();
        self.details(causes)
    }
}
