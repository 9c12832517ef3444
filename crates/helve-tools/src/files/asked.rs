//! The encoding that a call asks for.

use std::borrow::Cow;

use encoding_rs::{REPLACEMENT, UTF_8, X_USER_DEFINED};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Deserialize;

/// How bytes become text.
#[derive(Debug, Clone, Copy, Default, PartialEq, Deserialize)]
#[serde(try_from = "String")]
pub(super) enum RequestedEncoding {
    /// As is found out.
    #[default]
    Auto,
    /// UTF-8 and nothing else.
    Utf8,
    /// The same, and nothing beyond ASCII.
    Ascii,
    /// Bytes as they are, written as base64.
    Base64,
    /// An encoding by its name, such as `shift_jis`.
    Named(&'static encoding_rs::Encoding),
}

/// What Python, editors and people call encodings that the web calls otherwise, and what it calls them.
const OTHERWISE_CALLED: [(&str, &str); 16] = [
    ("latin-1", "latin1"),
    ("iso-latin-1", "latin1"),
    ("ansi", "windows-1252"),
    ("cp932", "shift_jis"),
    ("ms932", "shift_jis"),
    ("shift-jisx0213", "shift_jis"),
    ("cp936", "gbk"),
    ("cp949", "euc-kr"),
    ("cp950", "big5"),
    ("eucjp", "euc-jp"),
    ("euckr", "euc-kr"),
    ("koi8r", "koi8-r"),
    ("mac-roman", "macintosh"),
    ("utf16", "utf-16"),
    ("utf-8-sig", "utf-8"),
    ("cp65001", "utf-8"),
];

/// The encoding of this name, with `_` or `-` or neither between its parts.
fn encoding(name: &str) -> Option<&'static encoding_rs::Encoding> {
    let by_label = |name: &str| encoding_rs::Encoding::for_label(name.as_bytes());
    let dashed: String = name.chars().take(40).map(|c| if c == '_' || c == ' ' { '-' } else { c }).collect();
    let called = OTHERWISE_CALLED.iter().find(|(other, _)| *other == dashed).map(|(_, name)| *name);
    // `utf-16-le`, `windows-1252` written as `utf16le`, `windows1252`.
    let joined = dashed.replace('-', "");
    let wide = joined.strip_prefix("utf16").map(|order| format!("utf-16{order}"));
    let windows = joined.strip_prefix("windows").map(|page| format!("windows-{page}"));
    let again = [called.map(str::to_owned), Some(dashed), wide, windows];
    by_label(name).or_else(|| again.into_iter().flatten().find_map(|name| by_label(&name)))
}

impl TryFrom<String> for RequestedEncoding {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        Ok(match text.to_ascii_lowercase().as_str() {
            "auto" => Self::Auto,
            "ascii" | "us-ascii" | "us_ascii" => Self::Ascii,
            "base64" => Self::Base64,
            other => match encoding(other) {
                Some(encoding) if encoding == UTF_8 => Self::Utf8,
                // The web's words for what is no text, and for bytes as they are.
                Some(encoding) if encoding != REPLACEMENT && encoding != X_USER_DEFINED => {
                    Self::Named(encoding)
                }
                Some(_) | None => {
                    let shown: String = text.chars().take(40).collect();
                    return Err(format!(
                        "no encoding is called `{}`; leave it out to have it found out, or name one: `utf-8`, \
                         `utf-16le`, `windows-1252`, `shift_jis`, `gbk`, `big5`, `euc-kr`, `koi8-r`",
                        shown.escape_debug()
                    ));
                }
            },
        })
    }
}

impl JsonSchema for RequestedEncoding {
    fn schema_name() -> Cow<'static, str> {
        "Encoding".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "maxLength": 40 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn encodings_are_named_as_the_web_names_them() {
        let read = |text: &str| RequestedEncoding::try_from(text.to_owned());
        for (text, name) in [
            ("Shift_JIS", "Shift_JIS"),
            ("sjis", "Shift_JIS"),
            ("latin1", "windows-1252"),
            ("cp1251", "windows-1251"),
            ("latin-1", "windows-1252"),
            ("cp1252", "windows-1252"),
            ("windows_1252", "windows-1252"),
            ("iso_8859_15", "ISO-8859-15"),
            ("cp932", "Shift_JIS"),
            ("euc_jp", "EUC-JP"),
            ("utf_16_be", "UTF-16BE"),
            ("UTF16LE", "UTF-16LE"),
            ("mac_roman", "macintosh"),
            ("GB2312", "GBK"),
            ("utf-16", "UTF-16LE"),
            ("iso-2022-jp", "ISO-2022-JP"),
        ] {
            assert!(
                matches!(read(text), Ok(RequestedEncoding::Named(encoding)) if encoding.name() == name),
                "{text}"
            );
        }
        assert_eq!((read("UTF8"), read("auto")), (Ok(RequestedEncoding::Utf8), Ok(RequestedEncoding::Auto)));
        assert_eq!(
            (read("utf_8"), read("US-ASCII")),
            (Ok(RequestedEncoding::Utf8), Ok(RequestedEncoding::Ascii))
        );
        for wrong in
            ["", "klingon", "replacement", "x-user-defined", "utf-7", "hz-gb-2312", &"a".repeat(10_000)]
        {
            let error = read(wrong).unwrap_err();
            assert!(error.contains("no encoding is called") && error.len() < 400, "{error}");
        }
    }
}
