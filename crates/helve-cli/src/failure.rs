//! Why a command could not do what it was asked, in words for a person: what happened, the
//! details, what to do next.

use std::fmt;

use helve_host::{HostError, HostErrorKind};
use serde::Serialize;

use crate::exit::Exit;

/// Why a command could not do what it was asked.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Failure {
    #[serde(skip)]
    pub(crate) exit: Exit,
    pub(crate) message: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) details: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) hints: Vec<String>,
}

impl Failure {
    /// The command was used wrongly, or the configuration is wrong.
    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self::new(Exit::Usage, message)
    }

    /// The command was right and failed.
    pub(crate) fn failed(message: impl Into<String>) -> Self {
        Self::new(Exit::Failed, message)
    }

    /// It is forbidden, until a person allows it.
    pub(crate) fn denied(message: impl Into<String>) -> Self {
        Self::new(Exit::Denied, message)
    }

    fn new(exit: Exit, message: impl Into<String>) -> Self {
        Self { exit, message: message.into(), details: Vec::new(), hints: Vec::new() }
    }

    /// Adds a line on what is wrong and where.
    pub(crate) fn detail(mut self, line: impl Into<String>) -> Self {
        self.details.push(line.into());
        self
    }

    /// Adds several such lines.
    pub(crate) fn details(mut self, lines: impl IntoIterator<Item = String>) -> Self {
        self.details.extend(lines);
        self
    }

    /// Adds what to do next.
    pub(crate) fn hint(mut self, line: impl Into<String>) -> Self {
        self.hints.push(line.into());
        self
    }

    /// Adds the causes of an error as details.
    pub(crate) fn because(self, error: &(dyn std::error::Error + 'static)) -> Self {
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

impl From<HostError> for Failure {
    fn from(error: HostError) -> Self {
        let exit = match error.kind {
            HostErrorKind::Usage => Exit::Usage,
            HostErrorKind::Failed => Exit::Failed,
            HostErrorKind::Denied => Exit::Denied,
        };
        let details = error.lines().to_vec();
        Self { exit, message: error.message, details, hints: error.hints }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Failure {}
