//! The pass over characters that every field shares.

use helve_core::hidden::{self, Kind};

use super::refusal::{Problem, Refusal};

/// Which breaks and gaps a field may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shape {
    /// One line, no tabs.
    Line,
    /// Lines and tabs.
    Text,
}

/// How much a field may hold, and of what.
#[derive(Debug, Clone, Copy)]
pub(super) struct Rules {
    pub(super) field: &'static str,
    pub(super) shape: Shape,
    pub(super) bytes_max: usize,
}

impl Rules {
    /// Checks the length first, so that a long text costs nothing.
    pub(super) fn check(&self, text: &str) -> Result<(), Refusal> {
        self.length(text).and_then(|()| self.characters(text)).map_err(|problem| self.refuse(problem))
    }

    pub(super) fn refuse(&self, problem: Problem) -> Refusal {
        Refusal::new(self.field, problem)
    }

    fn length(&self, text: &str) -> Result<(), Problem> {
        match text.len() > self.bytes_max {
            true => Err(Problem::TooLong { found: text.len(), max: self.bytes_max, unit: "bytes" }),
            false if text.trim().is_empty() => Err(Problem::Empty),
            false => Ok(()),
        }
    }

    fn characters(&self, text: &str) -> Result<(), Problem> {
        let mut last = None;
        let mut rest = text.chars().peekable();
        let mut at = 0;
        while let Some(c) = rest.next() {
            at += 1;
            self.character(c, last, rest.peek().copied(), at)?;
            last = Some(c);
        }
        Ok(())
    }

    fn character(&self, c: char, last: Option<char>, next: Option<char>, at: usize) -> Result<(), Problem> {
        match c {
            '\n' | '\t' if self.shape == Shape::Text => return Ok(()),
            '\n' | '\r' | '\u{85}' | '\u{2028}' | '\u{2029}' if self.shape == Shape::Line => {
                return Err(Problem::LineBreak { at });
            }
            '\t' => return Err(Problem::Hidden { c, name: "tab", at }),
            _ => {}
        }
        match hidden::kind(c) {
            None | Some(Kind::Space) => Ok(()),
            Some(Kind::Invisible) if hidden::belongs(c, last, next) => Ok(()),
            Some(_) => Err(Problem::Hidden { c, name: hidden::name(c).unwrap_or("hidden character"), at }),
        }
    }
}

/// Text from outside as it is shown to a model: its lines and tabs stay, what acts on its reader goes.
///
/// ```
/// use helve_office::text::cleaned_lines;
/// assert_eq!(cleaned_lines("a\u{202e}b\r\n\tc\0\n"), "ab\n\tc\n");
/// ```
pub fn cleaned_lines(text: &str) -> String {
    let mut clean = String::with_capacity(text.len());
    let mut last = None;
    let mut rest = text.chars().peekable();
    while let Some(c) = rest.next() {
        let kept = match hidden::kind(c) {
            None | Some(Kind::Space) => Some(c),
            Some(Kind::Control) if matches!(c, '\u{85}' | '\u{2028}' | '\u{2029}') => Some('\n'),
            Some(Kind::Invisible) if hidden::belongs(c, last, rest.peek().copied()) => Some(c),
            Some(_) => None,
        };
        clean.extend(kept);
        last = kept.or(last);
    }
    clean
}

/// Text from outside as one line that every check of one line takes: what acts on its reader goes, breaks and tabs
/// become a space, and it is cut behind so many characters. For subjects and names of those who wrote to us.
///
/// ```
/// use helve_office::text::{Subject, cleaned};
/// let subject = cleaned("Hi\r\nBcc: eve@example.org\u{202e}", 100);
/// assert_eq!(subject, "Hi Bcc: eve@example.org");
/// assert!(Subject::new(&subject).is_ok());
/// ```
pub fn cleaned(text: &str, chars_max: usize) -> String {
    let mut clean = String::new();
    let mut last = None;
    let mut rest = text.chars().peekable();
    while let Some(c) = rest.next() {
        let kept = match hidden::kind(c) {
            None if matches!(c, '\n' | '\t') => Some(' '),
            None | Some(Kind::Space) => Some(c),
            Some(Kind::Control) if matches!(c, '\r' | '\u{85}' | '\u{2028}' | '\u{2029}') => Some(' '),
            Some(Kind::Invisible) if hidden::belongs(c, last, rest.peek().copied()) => Some(c),
            Some(_) => None,
        };
        // Breaks come in pairs, and a folded header has spaces besides.
        clean.extend(kept.filter(|c| *c != ' ' || !clean.ends_with(' ')));
        last = kept.or(last);
    }
    let end = clean.char_indices().nth(chars_max).map_or(clean.len(), |(at, _)| at);
    clean[..end].trim().to_owned()
}
