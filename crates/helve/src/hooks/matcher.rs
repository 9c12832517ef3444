//! Which tools, or what else, a hook sees.

use std::fmt;

use regex::{Regex, RegexBuilder};

/// Longest matcher that is compiled.
const TEXT_BYTES_MAX: usize = 2_000;
/// Largest compiled expression.
const REGEX_BYTES_MAX: usize = 1 << 20;

/// Which tools, or what else, a hook sees.
///
/// Absent, empty or `*`: all. Only letters, digits, `_`, `-`, spaces, commas and `|`: these names
/// exactly. Anything else: a regular expression that may match anywhere in a name.
///
/// ```
/// use helve::hooks::Matcher;
/// assert!(Matcher::new("Edit|Write")?.matches("Write"));
/// assert!(!Matcher::new("mcp__memory")?.matches("mcp__memory__store"));
/// assert!(Matcher::new("mcp__memory__.*")?.matches("mcp__memory__store"));
/// # Ok::<(), helve::hooks::MatcherError>(())
/// ```
#[derive(Debug, Clone)]
pub struct Matcher {
    text: Box<str>,
    form: Form,
}

#[derive(Debug, Clone)]
enum Form {
    All,
    Names(Vec<Box<str>>),
    Expression(Regex),
}

/// A matcher that is none.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is no matcher: {reason}")]
pub struct MatcherError {
    text: String,
    reason: String,
}

impl Matcher {
    /// A matcher that fits every tool.
    pub fn all() -> Self {
        Self { text: "*".into(), form: Form::All }
    }

    /// Reads a matcher.
    pub fn new(text: &str) -> Result<Self, MatcherError> {
        let refuse = |reason: String| MatcherError { text: text.chars().take(80).collect(), reason };
        if text.len() > TEXT_BYTES_MAX {
            return Err(refuse(format!("it is longer than {TEXT_BYTES_MAX} bytes")));
        }
        let is_plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b' ' | b',' | b'|');
        let form = if text.trim().is_empty() || text == "*" {
            Form::All
        } else if text.bytes().all(is_plain) {
            let names = text.split(['|', ',']).map(str::trim).filter(|name| !name.is_empty());
            Form::Names(names.map(Box::from).collect())
        } else {
            let built = RegexBuilder::new(text).size_limit(REGEX_BYTES_MAX).build();
            Form::Expression(built.map_err(|error| refuse(reason(&error)))?)
        };
        Ok(Self { text: text.into(), form })
    }

    /// Whether a name is meant.
    pub fn matches(&self, name: &str) -> bool {
        match &self.form {
            Form::All => true,
            Form::Names(names) => names.iter().any(|one| **one == *name),
            Form::Expression(expression) => expression.is_match(name),
        }
    }

    /// Whether everything is meant.
    pub fn is_all(&self) -> bool {
        matches!(self.form, Form::All)
    }
}

impl Default for Matcher {
    fn default() -> Self {
        Self::all()
    }
}

impl fmt::Display for Matcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(if self.is_all() { "*" } else { &self.text })
    }
}

/// The last line of a syntax error is the one that says what is wrong.
fn reason(error: &regex::Error) -> String {
    let text = error.to_string();
    let last = text.lines().last().unwrap_or_default();
    last.trim_start_matches("error: ").to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn matchers_mean_what_the_reference_says() {
        for (matcher, name, expected) in [
            ("", "anything", true),
            ("*", "anything", true),
            (" ", "anything", true),
            ("Bash", "Bash", true),
            ("Bash", "BashOutput", false),
            ("bash", "Bash", false),
            ("Edit|Write", "Write", true),
            ("Edit | Write", "Edit", true),
            ("Edit, Write", "Write", true),
            ("Edit|Write", "MultiEdit", false),
            ("file-read", "file-read", true),
            ("mcp__memory", "mcp__memory__store", false),
            ("mcp__memory__.*", "mcp__memory__store", true),
            ("mcp__.*__write.*", "mcp__files__write_all", true),
            ("^Edit$", "MultiEdit", false),
            ("Edit.*", "NotebookEdit", true),
            ("mail/send", "mail/send", true),
            (".*", "x", true),
            ("|", "x", false),
        ] {
            assert_eq!(Matcher::new(matcher).unwrap().matches(name), expected, "{matcher:?} {name:?}");
        }
    }

    #[test]
    fn hostile_matchers_are_refused_and_none_hangs() {
        for bad in ["(", "[z-a]", "^(?!Read).*", r"(a{1000}){1000}", &"(x)".repeat(1_000)] {
            let error = Matcher::new(bad).unwrap_err().to_string();
            assert!(error.len() < 400, "{error}");
        }
        let slow = Matcher::new("(a+)+$").unwrap();
        assert!(!slow.matches(&format!("{}b", "a".repeat(100_000))));
    }
}
