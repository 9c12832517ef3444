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

impl TryFrom<String> for RequestedEncoding {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        Ok(match text.to_ascii_lowercase().as_str() {
            "auto" => Self::Auto,
            "ascii" => Self::Ascii,
            "base64" => Self::Base64,
            other => match encoding_rs::Encoding::for_label(other.as_bytes()) {
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
        for wrong in
            ["", "klingon", "replacement", "x-user-defined", "utf-7", "hz-gb-2312", &"a".repeat(10_000)]
        {
            let error = read(wrong).unwrap_err();
            assert!(error.contains("no encoding is called") && error.len() < 400, "{error}");
        }
    }
}
