//! Where a value came from.

use std::fmt;
use std::path::PathBuf;

use serde::Serialize;

/// Where a value came from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum Origin {
    /// Nobody said anything.
    Default,
    /// A line of a file.
    File {
        /// The path of the file.
        path: PathBuf,
        /// The line, counted from 1.
        line: usize,
        /// From 1, in characters.
        column: usize,
    },
    /// An environment variable.
    Env {
        /// The name of the variable.
        variable: String,
    },
    /// A `--set` on the command line.
    Flag {
        /// What followed it.
        text: String,
    },
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::File { path, line, column: _ } => write!(f, "{}:{line}", short(path)),
            Self::Env { variable } => f.write_str(variable),
            Self::Flag { text } => write!(f, "--set {text}"),
        }
    }
}

/// A path as people write it: from here where it is below, from `~` where it is at home.
pub fn short(path: &std::path::Path) -> String {
    let below = |base: PathBuf| path.strip_prefix(base).ok().map(std::path::Path::to_path_buf);
    let home = std::env::home_dir();
    let here = std::env::current_dir().ok().filter(|here| Some(here) != home.as_ref());
    if let Some(rest) = here.and_then(below) {
        return rest.display().to_string();
    }
    match home.and_then(below) {
        Some(rest) => format!("~/{}", rest.display()),
        None => path.display().to_string(),
    }
}
