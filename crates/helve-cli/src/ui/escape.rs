//! Makes untrusted text harmless on a terminal: what could move the cursor, reorder the line or
//! hide is made visible instead.

pub(crate) use helve::hidden::{one_line, visible};

/// Whether a character acts on the terminal, or on the reader's trust, instead of being read.
pub(crate) fn is_hostile(c: char) -> bool {
    helve::hidden::kind(c).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escape_sequences_and_bidi_marks_become_visible() {
        assert_eq!(visible("a\u{1b}[31mred\u{202e}b\n"), "a\\u{1b}[31mred\\u{202e}b\n");
        assert_eq!(visible("\u{9b}31m"), "\\u{9b}31m");
        assert_eq!(visible("hidden\u{e0041}\u{200d}\u{3164}"), "hidden\\u{e0041}\\u{200d}\\u{3164}");
    }

    #[test]
    fn one_line_is_one_line_and_short() {
        assert_eq!(one_line("a\r\nb\tc", 80), "a  b c");
        assert_eq!(one_line(&"x".repeat(100), 3), "xxx…");
    }
}
