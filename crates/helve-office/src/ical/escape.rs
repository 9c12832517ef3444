//! Backslashes in values (RFC 5545 3.3.11) and carets in parameters (RFC 6868).

/// Text as a value: backslash, comma, semicolon and line feed are escaped.
///
/// ```
/// use helve_office::ical::{escape, unescape};
/// assert_eq!(escape("a, b;\nc\\"), "a\\, b\\;\\nc\\\\");
/// assert_eq!(unescape("a\\, b\\;\\Nc\\\\"), "a, b;\nc\\");
/// ```
pub fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        match c {
            '\n' => escaped.push_str("\\n"),
            '\\' | ',' | ';' => escaped.extend(['\\', c]),
            c => escaped.push(c),
        }
    }
    escaped
}

/// A value as text. A backslash before a letter that it does not escape stays, as in paths of Windows.
pub fn unescape(value: &str) -> String {
    if !value.contains('\\') {
        return value.to_owned();
    }
    let mut plain = String::with_capacity(value.len());
    let mut rest = value.chars();
    while let Some(c) = rest.next() {
        if c != '\\' {
            plain.push(c);
            continue;
        }
        match rest.next() {
            Some('n' | 'N') => plain.push('\n'),
            Some(c @ ('\\' | ',' | ';' | ':' | '"')) => plain.push(c),
            Some(c) => plain.extend(['\\', c]),
            None => plain.push('\\'),
        }
    }
    plain
}

/// The items of a value that is a list, such as `CATEGORIES` or `EXDATE`, still escaped.
pub fn split_list(value: &str) -> impl Iterator<Item = &str> {
    let mut escaped = false;
    value.split(move |c: char| {
        let separates = c == ',' && !escaped;
        escaped = c == '\\' && !escaped;
        separates
    })
}

/// One value of a parameter as text.
pub(super) fn decode_param(value: &str) -> String {
    let value = value.trim_matches('"');
    if !value.contains('^') {
        return value.to_owned();
    }
    let mut plain = String::with_capacity(value.len());
    let mut rest = value.chars().peekable();
    while let Some(c) = rest.next() {
        let decoded = match (c, rest.peek()) {
            ('^', Some('n')) => Some('\n'),
            ('^', Some('\'')) => Some('"'),
            ('^', Some('^')) => Some('^'),
            _ => None,
        };
        plain.push(decoded.unwrap_or(c));
        if decoded.is_some() {
            rest.next();
        }
    }
    plain
}

/// Text as one value of a parameter, quoted where it has to be.
pub(super) fn encode_param(text: &str) -> String {
    let encoded = text.replace('^', "^^").replace('\n', "^n").replace('"', "^'");
    match encoded.contains([':', ';', ',']) {
        true => format!("\"{encoded}\""),
        false => encoded,
    }
}
