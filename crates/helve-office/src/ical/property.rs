//! A property as it is read from a line: name, parameters, value.

use std::borrow::Cow;

use super::escape::{decode_param, unescape};

/// A property of a component, borrowed from its line.
#[derive(Debug, Clone)]
pub struct Property<'a> {
    text: Cow<'a, str>,
    name_at: usize,
    name_end: usize,
    value_at: usize,
}

impl<'a> Property<'a> {
    pub(super) fn read(text: Cow<'a, str>) -> Option<Self> {
        let name_end = text.find([':', ';'])?;
        let name_at = text[..name_end].rfind('.').map_or(0, |dot| dot + 1);
        if name_at == name_end {
            return None;
        }
        let value_at = value_at(&text, name_end)?;
        Some(Self { name_at, name_end, value_at, text })
    }

    /// The name as it was written. Compare it with [`is_named`](Self::is_named).
    pub fn name(&self) -> &str {
        &self.text[self.name_at..self.name_end]
    }

    /// The group before a vCard's name: `item1` in `item1.EMAIL`.
    pub fn group(&self) -> Option<&str> {
        self.name_at.checked_sub(1).map(|end| &self.text[..end])
    }

    /// Whether it has that name, in capitals or not.
    pub fn is_named(&self, name: &str) -> bool {
        self.name().eq_ignore_ascii_case(name)
    }

    /// The value as it was written.
    pub fn value(&self) -> &str {
        &self.text[self.value_at..]
    }

    /// The value as text: its backslashes are read, so it may have lines.
    pub fn text_value(&self) -> String {
        unescape(self.value())
    }

    /// Everything before the value, unfolded and without the colon.
    pub(super) fn head(&self) -> &str {
        &self.text[..self.value_at - 1]
    }

    /// The same as [`head`](Self::head) without some parameters.
    pub(super) fn head_without(&self, goes: impl Fn(&str) -> bool) -> String {
        let mut parts = split_quoted(self.head(), ';');
        let mut written = parts.next().unwrap_or_default().to_owned();
        let kept = parts.filter(|part| !part.split('=').next().is_some_and(&goes));
        written.extend(kept.flat_map(|kept| [";", kept]));
        written
    }

    /// The same as [`head`](Self::head) with one parameter written anew, or without it.
    pub(super) fn head_with(&self, param: &str, new: Option<&str>) -> String {
        let head = self.head();
        let mut parts = split_quoted(head, ';');
        let mut written = parts.next().unwrap_or_default().to_owned();
        let mut new = new;
        for part in parts {
            let is_it = part.split('=').next().is_some_and(|name| name.eq_ignore_ascii_case(param));
            let kept = if is_it { new.take() } else { Some(part) };
            written.extend(kept.into_iter().flat_map(|kept| [";", kept]));
        }
        written.extend(new.into_iter().flat_map(|new| [";", new]));
        written
    }

    /// The parameters in their order.
    pub fn params(&self) -> impl Iterator<Item = Param<'_>> {
        let text = &self.text[self.name_end..self.value_at - 1];
        split_quoted(text.strip_prefix(';').unwrap_or(text), ';').filter(|part| !part.is_empty()).map(
            |part| match part.split_once('=') {
                Some((name, values)) => Param { name, values },
                None => Param { name: part, values: "" },
            },
        )
    }

    /// The values of a parameter joined by commas, decoded, or `None` where it is not there. Most parameters have
    /// one value; a zone's name may have a comma that nobody quoted.
    pub fn param(&self, name: &str) -> Option<String> {
        let param = self.params().find(|param| param.name.eq_ignore_ascii_case(name))?;
        Some(param.values().collect::<Vec<_>>().join(","))
    }
}

/// A parameter of a property.
#[derive(Debug, Clone, Copy)]
pub struct Param<'a> {
    name: &'a str,
    values: &'a str,
}

impl<'a> Param<'a> {
    /// The name as it was written.
    pub fn name(&self) -> &'a str {
        self.name
    }

    /// Its values, without quotes, decoded by RFC 6868.
    pub fn values(&self) -> impl Iterator<Item = String> + 'a {
        split_quoted(self.values, ',').map(decode_param)
    }
}

/// Where the value begins: behind the first colon outside of quotes. A quote that is never closed is a letter.
fn value_at(text: &str, from: usize) -> Option<usize> {
    let mut quoted = false;
    let outside = text[from..].bytes().position(|byte| {
        quoted ^= byte == b'"';
        byte == b':' && !quoted
    });
    Some(from + outside.or_else(|| text[from..].find(':'))? + 1)
}

/// Splits at a separator outside of quotes.
fn split_quoted(text: &str, separator: char) -> impl Iterator<Item = &str> {
    let mut quoted = false;
    text.split(move |c: char| {
        quoted ^= c == '"';
        c == separator && !quoted
    })
}
