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

/// JSON with line breaks and indentation.
pub(crate) fn pretty(value: &impl Serialize) -> serde_json::Result<String> {
    write(value, PrettyFormatter::new())
}

fn write<F: Formatter>(value: &impl Serialize, formatter: F) -> serde_json::Result<String> {
    let mut bytes = Vec::new();
    value.serialize(&mut Serializer::with_formatter(&mut bytes, Harmless(formatter)))?;
    String::from_utf8(bytes).map_err(serde::ser::Error::custom)
}

/// Writes JSON text with its hostile characters escaped. Those below DEL are left: inside strings
/// JSON has escaped them already, and outside they are white space.
fn write_harmless<W: ?Sized + Write>(writer: &mut W, text: &str) -> io::Result<()> {
    let mut rest = text;
    while let Some((at, c)) = rest.char_indices().find(|(_, c)| *c >= '\u{7f}' && is_hostile(*c)) {
        writer.write_all(&rest.as_bytes()[..at])?;
        for unit in c.encode_utf16(&mut [0; 2]) {
            write!(writer, "\\u{unit:04x}")?;
        }
        rest = &rest[at + c.len_utf8()..];
    }
    writer.write_all(rest.as_bytes())
}

/// Passes on lines of JSON with their hostile characters escaped.
pub(crate) struct HarmlessLines<W: Write> {
    out: W,
    line: Vec<u8>,
}

impl<W: Write> HarmlessLines<W> {
    pub(crate) fn new(out: W) -> Self {
        Self { out, line: Vec::new() }
    }
}

impl<W: Write> Write for HarmlessLines<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        // A character may come in two parts, a line feed is always whole.
        for part in bytes.split_inclusive(|byte| *byte == b'\n') {
            self.line.extend_from_slice(part);
            if part.ends_with(b"\n") {
                write_harmless(&mut self.out, &String::from_utf8_lossy(&self.line))?;
                self.line.clear();
            }
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
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
        write_harmless(writer, text)
    }

    fn write_raw_fragment<W: ?Sized + Write>(&mut self, writer: &mut W, text: &str) -> io::Result<()> {
        write_harmless(writer, text)
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
    use std::io::Write;

    use serde_json::value::RawValue;
    use serde_json::{Value, json};

    #[test]
    fn json_that_is_kept_as_text_is_escaped_too() {
        let raw = RawValue::from_string("{ \"a\":\n\"\u{202e}\u{9b}\" }".to_owned()).unwrap();
        let text = super::compact(&raw).unwrap();
        assert_eq!(text, "{ \"a\":\n\"\\u202e\\u009b\" }");
        let mut lines = Vec::new();
        let mut writer = super::HarmlessLines::new(&mut lines);
        // Byte by byte: the worst way in which text can be cut.
        for byte in format!("{}\n", raw.get().replace('\n', "")).as_bytes() {
            writer.write_all(&[*byte]).unwrap();
        }
        assert_eq!(lines, b"{ \"a\":\"\\u202e\\u009b\" }\n");
    }

    #[test]
    fn hostile_characters_are_escaped_and_read_back_the_same() {
        let value = json!({ "a\u{202e}": ["\u{9b}x\u{7f}\n\u{e0041}", 1, {}], "b": "日本" });
        for text in [super::compact(&value).unwrap(), super::pretty(&value).unwrap()] {
            assert!(!text.chars().any(|c| c != '\n' && super::is_hostile(c)), "{text}");
            assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), value);
        }
    }
}
