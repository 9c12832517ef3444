//! Makes untrusted text harmless on a terminal: what could move the cursor, reorder the line or
//! hide is made visible instead.

use std::borrow::Cow;

/// Text that may span lines: line feeds and tabs stay.
pub(crate) fn visible(text: &str) -> Cow<'_, str> {
    replace(text, |c| c != '\n' && c != '\t' && is_hostile(c))
}

/// Text for one line: line breaks become a space as well, and what is too long is cut.
pub(crate) fn one_line(text: &str, chars_max: usize) -> String {
    let mut line = String::new();
    for (count, c) in text.chars().enumerate() {
        if count == chars_max {
            line.push('…');
            break;
        }
        match c {
            '\n' | '\r' | '\t' => line.push(' '),
            c if is_hostile(c) => line.extend(c.escape_unicode()),
            c => line.push(c),
        }
    }
    line
}

/// Whether a character acts on the terminal, or on the reader's trust, instead of being read.
pub(crate) fn is_hostile(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' // direction
            | '\u{ad}' | '\u{180e}' | '\u{200b}' | '\u{2060}'..='\u{2064}' | '\u{feff}' // invisible
            | '\u{2028}' | '\u{2029}' // other line breaks
            | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e0fff}') // annotations, tags
}

fn replace(text: &str, hostile: impl Fn(char) -> bool) -> Cow<'_, str> {
    if !text.chars().any(&hostile) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        if hostile(c) {
            shown.extend(c.escape_unicode());
        } else {
            shown.push(c);
        }
    }
    Cow::Owned(shown)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escape_sequences_and_bidi_marks_become_visible() {
        assert_eq!(visible("a\u{1b}[31mred\u{202e}b\n"), "a\\u{1b}[31mred\\u{202e}b\n");
        assert_eq!(visible("\u{9b}31m"), "\\u{9b}31m");
        assert_eq!(visible("hidden\u{e0041}"), "hidden\\u{e0041}");
        assert!(matches!(visible("plain, naïve, 日本"), Cow::Borrowed(_)));
    }

    #[test]
    fn one_line_is_one_line_and_short() {
        assert_eq!(one_line("a\r\nb\tc", 80), "a  b c");
        assert_eq!(one_line(&"x".repeat(100), 3), "xxx…");
    }
}
