//! Content lines: folding and unfolding on octets.

use std::borrow::Cow;

use bytes::Bytes;

use super::property::Property;

/// How many octets a line may have before it is folded, without its end (RFC 5545 3.1).
const OCTETS_MAX: usize = 75;

/// How lines end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Eol {
    /// Carriage return and line feed, as the standards want it.
    Crlf,
    /// A line feed alone, as files on disk often have it.
    Lf,
}

impl Eol {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Crlf => "\r\n",
            Self::Lf => "\n",
        }
    }
}

/// One content line as the bytes it came in, with its folds and its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    raw: Bytes,
}

impl Line {
    pub(super) fn from_raw(raw: Bytes) -> Self {
        Self { raw }
    }

    /// A new line, folded so that no character is split.
    pub(super) fn fold(text: &str, eol: Eol) -> Self {
        let mut raw = String::with_capacity(text.len() + text.len() / 24 + 2);
        let mut rest = text;
        let mut room = OCTETS_MAX;
        while rest.len() > room {
            let at = rest.floor_char_boundary(room);
            raw.push_str(&rest[..at]);
            raw.push_str(eol.as_str());
            raw.push(' ');
            rest = &rest[at..];
            room = OCTETS_MAX - 1;
        }
        raw.push_str(rest);
        raw.push_str(eol.as_str());
        Self { raw: raw.into() }
    }

    /// The bytes, folds and end included.
    pub fn raw(&self) -> &[u8] {
        &self.raw
    }

    /// The property on this line, or `None` where the line is blank or has no `:`.
    pub fn property(&self) -> Option<Property<'_>> {
        Property::read(self.text())
    }

    /// What the line says, unfolded. Bytes that are no UTF-8 are shown as `U+FFFD`; they stay as they are in
    /// [`raw`](Self::raw).
    pub fn text(&self) -> Cow<'_, str> {
        match self.unfolded() {
            Cow::Borrowed(bytes) => String::from_utf8_lossy(bytes),
            Cow::Owned(bytes) => Cow::Owned(
                String::from_utf8(bytes)
                    .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned()),
            ),
        }
    }

    /// Whether this is a property of that name, in capitals or not. Cheaper than to read the property.
    pub(super) fn is_named(&self, name: &str) -> bool {
        let raw = without_mark(&self.raw);
        let first = &raw[..memchr::memchr(b'\n', raw).unwrap_or(raw.len())];
        // A name that a fold splits is legal, and never seen.
        match first.iter().position(|byte| matches!(byte, b':' | b';')) {
            None => self.property().is_some_and(|property| property.is_named(name)),
            Some(end) => {
                let full = &first[..end];
                let bare = full.iter().rposition(|byte| *byte == b'.').map_or(full, |dot| &full[dot + 1..]);
                bare.eq_ignore_ascii_case(name.as_bytes())
            }
        }
    }

    fn unfolded(&self) -> Cow<'_, [u8]> {
        let content = without_end(without_mark(&self.raw));
        let Some(first) = memchr::memchr(b'\n', content) else { return Cow::Borrowed(content) };
        let mut plain = Vec::with_capacity(content.len());
        let mut rest = content;
        let mut next = Some(first);
        while let Some(at) = next {
            plain.extend_from_slice(without_end(&rest[..=at]));
            // Behind each break inside a line stands the one white space that made it a fold.
            rest = &rest[(at + 2).min(rest.len())..];
            next = memchr::memchr(b'\n', rest);
        }
        plain.extend_from_slice(rest);
        Cow::Owned(plain)
    }
}

/// How many bytes the first content line of these takes, folds and end included.
pub(super) fn first_line(bytes: &[u8]) -> usize {
    let mut at = 0;
    while let Some(end) = memchr::memchr(b'\n', &bytes[at..]) {
        at += end + 1;
        if !matches!(bytes.get(at), Some(b' ' | b'\t')) {
            return at;
        }
    }
    bytes.len()
}

/// Without the byte order mark that some exports begin with.
fn without_mark(bytes: &[u8]) -> &[u8] {
    bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes)
}

fn without_end(bytes: &[u8]) -> &[u8] {
    let bytes = bytes.strip_suffix(b"\n").unwrap_or(bytes);
    bytes.strip_suffix(b"\r").unwrap_or(bytes)
}
