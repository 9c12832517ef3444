//! Text from outside: without what one cannot see, and no longer than allowed.

use helve_net::Url;

use crate::common::is_invisible;

/// Longest URL that is passed on.
pub(super) const URL_BYTES_MAX: usize = 2_048;

/// The text in one line: white space becomes one space, and control and invisible characters go.
pub(super) fn line(text: &str, chars_max: usize) -> String {
    let mut line = String::new();
    let mut chars = 0;
    let mut space = false;
    for c in text.chars() {
        if c.is_whitespace() || c.is_control() {
            space = !line.is_empty();
            continue;
        }
        if is_invisible(c) {
            continue;
        }
        if chars >= chars_max {
            line.push('…');
            break;
        }
        if std::mem::take(&mut space) {
            line.push(' ');
            chars += 1;
        }
        line.push(c);
        chars += 1;
    }
    line
}

/// The text with its lines: control characters other than newline and tab, and invisible ones, go.
/// Never more than one empty line in a row.
pub(super) fn block(text: &str) -> String {
    let mut block = String::with_capacity(text.len());
    let mut breaks = 2;
    for c in text.chars() {
        match c {
            '\n' => {
                breaks += 1;
                if breaks <= 2 {
                    block.truncate(block.trim_end_matches([' ', '\t']).len());
                    block.push('\n');
                }
            }
            '\t' | ' ' if breaks > 2 => {}
            '\t' => block.push('\t'),
            c if is_invisible(c) => {}
            c => {
                block.push(c);
                if c != ' ' {
                    breaks = 0;
                }
            }
        }
    }
    block.truncate(block.trim_end().len());
    block
}

/// Cuts a text at a character so that at most `bytes_max` remain, and says whether it was longer.
pub(super) fn cut(text: &mut String, bytes_max: usize) -> bool {
    if text.len() <= bytes_max {
        return false;
    }
    text.truncate(text.floor_char_boundary(bytes_max));
    true
}

/// A web address that may be shown and followed: http or https, without credentials.
pub(super) fn web_address(base: Option<&Url>, text: &str) -> Option<Url> {
    let text = text.trim();
    if text.len() > URL_BYTES_MAX {
        return None;
    }
    let url = Url::options().base_url(base).parse(text).ok()?;
    let plain = matches!(url.scheme(), "http" | "https")
        && url.has_host()
        && url.username().is_empty()
        && url.password().is_none()
        && url.as_str().len() <= URL_BYTES_MAX;
    plain.then_some(url)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_no_breaks_controls_or_hidden_characters() {
        assert_eq!(line(" a\u{200b}b\r\n\tc\u{1b}[31m d\u{202e} \u{e0041}", 50), "ab c [31m d");
        assert_eq!(line("abc def", 3), "abc…");
        assert_eq!(line("\u{200b} \n", 3), "");
    }

    #[test]
    fn a_block_keeps_its_lines_and_single_empty_ones() {
        assert_eq!(block("\n\na  \n\n\n\nb\u{0}\u{200d}\n  c\n"), "a\n\nb\n  c");
    }

    #[test]
    fn a_cut_never_splits_a_character() {
        let mut text = "aé".to_owned();
        assert!(cut(&mut text, 2));
        assert_eq!(text, "a");
        assert!(!cut(&mut text, 1));
    }

    #[test]
    fn only_plain_web_addresses_pass() {
        let base = Url::parse("https://a.example/x/").unwrap();
        assert_eq!(web_address(Some(&base), "../y#z").unwrap().as_str(), "https://a.example/y#z");
        for bad in [
            "javascript:alert(1)",
            "data:text/html,x",
            "https://u:p@b.example/",
            "ftp://b.example",
            "file:///etc",
        ] {
            assert_eq!(web_address(Some(&base), bad), None, "{bad}");
        }
        assert_eq!(web_address(None, "/y"), None);
        assert_eq!(web_address(Some(&base), &"x".repeat(3_000)), None);
    }
}
