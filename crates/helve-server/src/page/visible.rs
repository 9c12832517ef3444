//! What hides in text, made visible: characters that turn the direction, take no room, steer a terminal or
//! pass for another letter. A person must see the bytes that will run, not what they pretend to be.

use helve::hidden::deceptive;

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

/// The pieces of a text. A JSON escape that stands for a control character is one that hides too.
pub(super) fn pieces(text: &str) -> Vec<Piece<'_>> {
    let (mut found, mut start, mut at) = (Vec::new(), 0, 0);
    let mut deceptive = deceptive(text).into_iter().peekable();
    while let Some(c) = text[at..].chars().next() {
        let (len, hidden) = match deceptive.next_if(|(place, _)| *place == at) {
            Some((_, name)) => (c.len_utf8(), Some((c.escape_unicode().to_string(), name))),
            None => match escape_at(&text[at..]) {
                Some((len, Escape::Control)) => {
                    (len, Some((text[at..at + len].to_owned(), "control character")))
                }
                Some((len, Escape::Other)) => (len, None),
                None => (c.len_utf8(), None),
            },
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

enum Escape {
    /// A control character, as in `\u001b`.
    Control,
    /// A backslash and what belongs to it, so that `\\u001b` is no escape.
    Other,
}

/// The length of what begins with a backslash, and what it stands for.
fn escape_at(text: &str) -> Option<(usize, Escape)> {
    let rest = text.strip_prefix('\\')?;
    Some(match control_escape(text) {
        Some(len) => (len, Escape::Control),
        // What is not ASCII is looked at by itself: it may hide.
        None => (1 + usize::from(rest.starts_with(|c: char| matches!(c, ' '..='~'))), Escape::Other),
    })
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

/// JSON whose hidden and deceptive characters are written as its own escapes: the same value, safe to edit.
pub(super) fn json_escaped(json: &str) -> String {
    let mut text = String::with_capacity(json.len());
    let mut from = 0;
    for (at, _) in deceptive(json) {
        text.push_str(&json[from..at]);
        let mut rest = json[at..].chars();
        let mut buffer = [0; 2];
        let units = rest.next().map(|c| &*c.encode_utf16(&mut buffer)).unwrap_or_default();
        units.iter().for_each(|unit| text.push_str(&format!("\\u{unit:04x}")));
        from = json.len() - rest.as_str().len();
    }
    text.push_str(&json[from..]);
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
    fn letters_that_pass_for_others_are_marked() {
        let found = pieces("{\"to\":\"p\u{430}ypal.com\"}");
        let mark = |piece: &Piece<'_>| matches!(piece, Piece::Hidden { escape, .. } if escape == "\\u{430}");
        assert!(found.len() == 3 && mark(&found[1]), "{found:?}");
        assert_eq!(hidden_in("а это просто письмо"), 0);
    }

    #[test]
    fn escaped_json_is_the_same_value() {
        let value = serde_json::json!({ "a": "x\u{202e}\u{e0041}y" });
        let text = json_escaped(&value.to_string());
        assert_eq!(text, r#"{"a":"x\u202e\udb40\udc41y"}"#);
        assert_eq!(serde_json::from_str::<serde_json::Value>(&text).unwrap(), value);
    }
}
