//! A few words of what a program wrote, safe to show to a model and in a terminal.

use crate::common::is_invisible;
use crate::http::secrets::Secrets;

/// Most characters that are shown.
const EXCERPT_CHARS_MAX: usize = 500;

/// Which part of a longer text is shown.
#[derive(Debug, Clone, Copy)]
pub(super) enum Part {
    /// Where an answer goes wrong.
    Start,
    /// Where programs say what went wrong.
    End,
}

/// One line of at most [`EXCERPT_CHARS_MAX`] characters, without secrets and without characters
/// that one cannot see.
pub(super) fn excerpt(written: &[u8], part: Part, secrets: &Secrets) -> String {
    // Secrets first, while they are whole: cutting could leave half of one.
    let text = secrets.redact(String::from_utf8_lossy(written).into_owned());
    let visible: String =
        text.chars().map(|c| if c.is_control() { ' ' } else { c }).filter(|c| !is_invisible(*c)).collect();
    let words: Vec<&str> = visible.split_whitespace().collect();
    let line = words.join(" ");
    let length = line.chars().count();
    if length <= EXCERPT_CHARS_MAX {
        return line;
    }
    match part {
        Part::Start => line.chars().take(EXCERPT_CHARS_MAX).chain(['…']).collect(),
        Part::End => ['…'].into_iter().chain(line.chars().skip(length - EXCERPT_CHARS_MAX)).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hunter2() -> Secrets {
        let mut secrets = Secrets::default();
        secrets.hide("hunter2");
        secrets
    }

    #[test]
    fn secrets_control_and_invisible_characters_do_not_pass() {
        let written = b"bad\x1b[31m token\r\n hunter2 and hunter2\0 \xe2\x80\xaeevil \xff";
        let shown = excerpt(written, Part::End, &hunter2());
        assert_eq!(shown, "bad [31m token [redacted] and [redacted] evil \u{fffd}");
    }

    #[test]
    fn a_long_text_keeps_the_part_that_matters() {
        let written = format!("first {} last", "x ".repeat(5_000));
        let start = excerpt(written.as_bytes(), Part::Start, &Secrets::default());
        let end = excerpt(written.as_bytes(), Part::End, &Secrets::default());
        assert!(start.starts_with("first x") && start.ends_with('…'));
        assert!(end.starts_with('…') && end.ends_with("x last"));
        assert_eq!(start.chars().count(), EXCERPT_CHARS_MAX + 1);
    }

    #[test]
    fn a_secret_at_the_cut_is_not_halved() {
        let written = format!("{}hunter2{}", "x".repeat(100), "y".repeat(EXCERPT_CHARS_MAX - 3));
        assert!(!excerpt(written.as_bytes(), Part::End, &hunter2()).contains("ter2"));
    }
}
