//! JSON for people and programs. Characters that act on a terminal are escaped, which leaves the
//! value as it is.

use std::io::{self, Write};

use serde::Serialize;
use serde_json::ser::{CompactFormatter, Formatter, PrettyFormatter, Serializer};

use super::escape::is_hostile;

/// On one line.
pub(crate) fn compact(value: &impl Serialize) -> serde_json::Result<String> {
    write(value, CompactFormatter)
}

/// Indented.
pub(crate) fn pretty(value: &impl Serialize) -> serde_json::Result<String> {
    write(value, PrettyFormatter::new())
}

fn write<F: Formatter>(value: &impl Serialize, formatter: F) -> serde_json::Result<String> {
    let mut bytes = Vec::new();
    value.serialize(&mut Serializer::with_formatter(&mut bytes, Harmless(formatter)))?;
    String::from_utf8(bytes).map_err(serde::ser::Error::custom)
}

/// Another formatter, with hostile characters in strings escaped.
struct Harmless<F>(F);

macro_rules! pass_on {
    ($($name:ident($($argument:ident: $kind:ty),*);)*) => {
        $(fn $name<W: ?Sized + Write>(&mut self, writer: &mut W $(, $argument: $kind)*) -> io::Result<()> {
            self.0.$name(writer $(, $argument)*)
        })*
    };
}

impl<F: Formatter> Formatter for Harmless<F> {
    fn write_string_fragment<W: ?Sized + Write>(&mut self, writer: &mut W, text: &str) -> io::Result<()> {
        let mut rest = text;
        while let Some((at, c)) = rest.char_indices().find(|(_, c)| is_hostile(*c)) {
            self.0.write_string_fragment(writer, &rest[..at])?;
            for unit in c.encode_utf16(&mut [0; 2]) {
                write!(writer, "\\u{unit:04x}")?;
            }
            rest = &rest[at + c.len_utf8()..];
        }
        self.0.write_string_fragment(writer, rest)
    }

    pass_on! {
        begin_array();
        end_array();
        begin_array_value(first: bool);
        end_array_value();
        begin_object();
        end_object();
        begin_object_key(first: bool);
        end_object_key();
        begin_object_value();
        end_object_value();
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    #[test]
    fn hostile_characters_are_escaped_and_read_back_the_same() {
        let value = json!({ "a\u{202e}": ["\u{9b}x\u{7f}\n\u{e0041}", 1, {}], "b": "日本" });
        for text in [super::compact(&value).unwrap(), super::pretty(&value).unwrap()] {
            assert!(!text.chars().any(|c| c != '\n' && super::is_hostile(c)), "{text}");
            assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), value);
        }
    }
}
