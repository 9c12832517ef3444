//! What hides in text, made visible: characters that turn the direction, take no room or steer a
//! terminal. A person must see the bytes that will run, not what they pretend to be.

use helve::hidden::name;

/// A piece of a text.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Piece<'t> {
    /// What can be read as it is.
    Plain(&'t str),
    /// Something that hides.
    Hidden {
        /// What to show in its place.
        escape: String,
        /// What it is, in words.
        name: &'static str,
    },
}

/// Whether a character cannot be seen, or makes others look like what they are not.
pub(super) fn is_hidden(c: char) -> bool {
    name(c).is_some()
}

/// The pieces of a text. A JSON escape that stands for a control character is one that hides too.
pub(super) fn pieces(text: &str) -> Vec<Piece<'_>> {
    let (mut found, mut start, mut at) = (Vec::new(), 0, 0);
    while let Some(c) = text[at..].chars().next() {
        let (len, hidden) = match c {
            '\\' => match control_escape(&text[at..]) {
                Some(len) => (len, Some((text[at..at + len].to_owned(), "control character"))),
                // The next character belongs to this one, so that `\\u001b` is no escape.
                None => (1 + text[at + 1..].chars().next().map_or(0, plain_len), None),
            },
            c if is_hidden(c) => (c.len_utf8(), name(c).map(|name| (c.escape_unicode().to_string(), name))),
            c => (c.len_utf8(), None),
        };
        if let Some((escape, name)) = hidden {
            if start < at {
                found.push(Piece::Plain(&text[start..at]));
            }
            found.push(Piece::Hidden { escape, name });
            start = at + len;
        }
        at += len;
    }
    if start < text.len() {
        found.push(Piece::Plain(&text[start..]));
    }
    found
}

/// How long what follows a backslash is: a hidden character is looked at by itself.
fn plain_len(c: char) -> usize {
    if is_hidden(c) { 0 } else { c.len_utf8() }
}

/// The length of an escape like `\u001b`.
fn control_escape(text: &str) -> Option<usize> {
    let digits = text.strip_prefix("\\u")?.get(..4)?;
    let code = u32::from_str_radix(digits, 16).ok()?;
    char::from_u32(code).filter(|c| c.is_control()).map(|_| 6)
}

/// How many characters hide in a text.
pub(super) fn hidden_in(text: &str) -> usize {
    pieces(text).iter().filter(|piece| matches!(piece, Piece::Hidden { .. })).count()
}

/// JSON whose hidden characters are written as its own escapes: the same value, safe to edit.
pub(super) fn json_escaped(json: &str) -> String {
    let mut text = String::with_capacity(json.len());
    for c in json.chars() {
        match is_hidden(c) {
            true => {
                c.encode_utf16(&mut [0; 2]).iter().for_each(|unit| text.push_str(&format!("\\u{unit:04x}")))
            }
            false => text.push(c),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_hides_is_found() {
        for hidden in
            ['\u{202e}', '\u{200b}', '\u{200d}', '\u{e0041}', '\u{1b}', '\u{9b}', '\r', '\u{2066}', '\u{a0}']
        {
            let text = format!("a{hidden}b");
            let escape = hidden.escape_unicode().to_string();
            let found = pieces(&text);
            assert!(
                matches!(&found[1], Piece::Hidden { escape: own, .. } if *own == escape) && found.len() == 3,
                "{found:?}"
            );
        }
        assert_eq!(hidden_in("plain, naïve, 日本 – “quoted”\n\t"), 0);
    }

    #[test]
    fn json_escapes_of_control_characters_are_found_and_others_are_not() {
        assert_eq!(hidden_in(r#"{"a":"\u001b[31m"}"#), 1);
        assert_eq!(hidden_in(r#"{"a":"\\u001b \" \n"}"#), 0);
        assert_eq!(hidden_in("\\\u{202e}"), 1);
        assert_eq!(hidden_in("\\"), 0);
        assert_eq!(hidden_in("\\u00é"), 0);
    }

    #[test]
    fn escaped_json_is_the_same_value() {
        let value = serde_json::json!({ "a": "x\u{202e}\u{e0041}y" });
        let text = json_escaped(&value.to_string());
        assert_eq!(text, r#"{"a":"x\u202e\udb40\udc41y"}"#);
        assert_eq!(serde_json::from_str::<serde_json::Value>(&text).unwrap(), value);
    }
}
