//! Takes out of a text what a model or a terminal would obey instead of read.

use std::borrow::Cow;

use helve_core::hidden::{self, Kind};
use serde_json::Value;

/// Removes terminal escape sequences, control characters other than newline and tab, and the
/// invisible characters that can hide or reorder text.
pub(super) fn clean(text: &str) -> Cow<'_, str> {
    if !text.chars().any(is_unwanted) {
        return Cow::Borrowed(text);
    }
    let mut kept = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        rest = match c {
            '\u{1b}' => skip_escape(&rest[1..]),
            '\u{2028}' | '\u{2029}' => {
                kept.push('\n');
                &rest[c.len_utf8()..]
            }
            '\r' => {
                kept.push('\n');
                rest[1..].strip_prefix('\n').unwrap_or(&rest[1..])
            }
            _ => {
                if !is_unwanted(c) {
                    kept.push(c);
                }
                &rest[c.len_utf8()..]
            }
        };
    }
    Cow::Owned(kept)
}

/// A value without what a model or a terminal would obey instead of read: terminal escapes, control characters,
/// characters that hide or reorder text, in keys as in texts. A clean one is not copied.
pub fn cleaned(value: &Value) -> Cow<'_, Value> {
    if is_clean(value) { Cow::Borrowed(value) } else { Cow::Owned(rewritten(value)) }
}

fn is_clean(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => true,
        Value::String(text) => !text.chars().any(is_unwanted),
        Value::Array(items) => items.iter().all(is_clean),
        Value::Object(fields) => {
            fields.iter().all(|(key, item)| !key.chars().any(is_unwanted) && is_clean(item))
        }
    }
}

fn rewritten(value: &Value) -> Value {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
        Value::String(text) => clean(text).into(),
        Value::Array(items) => items.iter().map(rewritten).collect(),
        Value::Object(fields) => {
            fields.iter().map(|(key, item)| (clean(key).into_owned(), rewritten(item))).collect()
        }
    }
}

fn is_unwanted(c: char) -> bool {
    match hidden::kind(c) {
        // Text that reads otherwise than it is stored, or is invisible to people and plain letters to models.
        Some(Kind::Control | Kind::Direction | Kind::Tag) => true,
        // Joiners and selectors are part of many scripts and of emoji.
        Some(Kind::Invisible | Kind::PrivateUse | Kind::Space) | None => false,
    }
}

/// What follows an escape sequence whose escape character is already consumed.
fn skip_escape(rest: &str) -> &str {
    let mut chars = rest.chars();
    match chars.next() {
        Some('[') => {
            let body = chars.as_str().trim_start_matches(|c: char| matches!(c, ' '..='?'));
            body.strip_prefix(|c: char| matches!(c, '@'..='~')).unwrap_or(body)
        }
        Some(']' | 'P' | '^' | '_' | 'X') => skip_string(chars.as_str()),
        Some(' '..='/') => {
            let body = chars.as_str();
            body.strip_prefix(|c: char| matches!(c, '0'..='~')).unwrap_or(body)
        }
        Some('0'..='~') => chars.as_str(),
        _ => rest,
    }
}

/// What follows a control string, as in a title or a link. One that does not end on its line is
/// taken for text, so that it cannot swallow the rest.
fn skip_string(rest: &str) -> &str {
    match rest.find(['\u{7}', '\u{1b}', '\u{9c}', '\n']) {
        Some(end) if !rest[end..].starts_with('\n') => {
            let after = &rest[end..];
            let terminator = after.chars().next().map_or(0, char::len_utf8);
            match after.strip_prefix('\u{1b}') {
                Some(next) => next.strip_prefix('\\').unwrap_or(after),
                None => &after[terminator..],
            }
        }
        _ => rest,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn escapes_and_controls_go_and_text_stays() {
        let cases = [
            ("plain ä 漢\n\ttext", "plain ä 漢\n\ttext"),
            ("\u{1b}[1;31mred\u{1b}[0m", "red"),
            ("\u{1b}]8;;https://x\u{7}link\u{1b}]8;;\u{1b}\\!", "link!"),
            ("\u{1b}]0;never ends\nnext", "0;never ends\nnext"),
            ("a\r\nb\rc", "a\nb\nc"),
            ("x\u{0}\u{8}\u{9b}31my", "x31my"),
            ("\u{202e}evil\u{2066}", "evil"),
            ("hi\u{e0041}\u{e0042}", "hi"),
            ("\u{1b}(Bok\u{1b}", "ok"),
            ("👩\u{200d}🔬", "👩\u{200d}🔬"),
        ];
        for (dirty, expected) in cases {
            assert_eq!(clean(dirty), expected, "{dirty:?}");
        }
    }

    proptest! {
        #[test]
        fn cleaning_twice_is_cleaning_once(text in "([\u{1b}\\[\\]0-9;a-zä\\\\\u{7}\r\n\u{9c}]|\\PC){0,40}") {
            let once = clean(&text).into_owned();
            prop_assert!(!once.chars().any(is_unwanted));
            prop_assert_eq!(clean(&once).into_owned(), once.clone());
        }
    }
}
