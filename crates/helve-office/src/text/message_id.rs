//! Message-IDs, by which mails are threaded and found again.

use std::fmt;

use super::refusal::{Problem, Refusal};

const BYTES_MAX: usize = 250;

/// A Message-ID with its angle brackets: printable ASCII, so that it fits a header as it is.
///
/// Other people's IDs break RFC 5322 in every way that stays on a line, and a reply must name them byte by byte.
/// So nothing more than that is asked.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct MessageId(Box<str>);

impl MessageId {
    /// Checks an ID. The angle brackets may be missing.
    pub fn new(text: &str) -> Result<Self, Refusal> {
        let refuse = |problem| Err(Refusal::new("message id", problem));
        let text = text.trim_matches(' ');
        let inner = text.strip_prefix('<').and_then(|rest| rest.strip_suffix('>')).unwrap_or(text);
        if inner.is_empty() {
            return refuse(Problem::Empty);
        }
        if inner.len() > BYTES_MAX {
            return refuse(Problem::TooLong { found: inner.len(), max: BYTES_MAX, unit: "bytes" });
        }
        match inner.bytes().all(|byte| byte.is_ascii_graphic() && !matches!(byte, b'<' | b'>')) {
            true => Ok(Self(format!("<{inner}>").into())),
            false => refuse(Problem::Malformed(
                "is no Message-ID: it has spaces, angle brackets, controls or letters beyond ASCII inside",
            )),
        }
    }

    /// The ID with its angle brackets.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for MessageId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
