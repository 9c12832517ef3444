//! Addresses with names, and the lists that a mail goes to.

use std::collections::HashSet;
use std::fmt;

use super::address::Address;
use super::refusal::{Problem, Refusal};
use super::scan::{Rules, Shape};

const NAME: Rules = Rules { field: "name", shape: Shape::Line, bytes_max: 200 };

/// An address, perhaps with the name of whom it belongs to.
///
/// ```
/// use helve_office::text::Mailbox;
/// let mailbox = Mailbox::parse("\"Lovelace, Ada\" <ada@example.org>")?;
/// assert_eq!(mailbox.name(), Some("Lovelace, Ada"));
/// assert_eq!(mailbox.to_string(), "\"Lovelace, Ada\" <ada@example.org>");
/// # Ok::<(), helve_office::text::Refusal>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mailbox {
    name: Option<Box<str>>,
    address: Address,
}

impl Mailbox {
    /// An address, and a name that is checked.
    pub fn new(name: Option<&str>, address: Address) -> Result<Self, Refusal> {
        let Some(name) = name.map(trim).filter(|name| !name.is_empty()) else {
            return Ok(Self { name: None, address });
        };
        NAME.check(name)?;
        // `ceo@example.org <x@evil.example>` shows an address that the mail does not go to.
        if name.contains('@') && !name.eq_ignore_ascii_case(address.as_str()) {
            return Err(NAME.refuse(Problem::Malformed(
                "has an `@`, which makes it look like another address; leave that out",
            )));
        }
        Ok(Self { name: Some(name.into()), address })
    }

    /// Reads `ada@example.org`, `Ada <ada@example.org>` or `"Lovelace, Ada" <ada@example.org>`: one mailbox, not
    /// a list, no group and no comment.
    pub fn parse(text: &str) -> Result<Self, Refusal> {
        let text = trim(text);
        let Some(open) = text.rfind('<') else { return Self::new(None, Address::new(text)?) };
        let inner = text[open + 1..].strip_suffix('>').ok_or_else(|| {
            Refusal::new("address", Problem::Malformed("has a `<` without a `>` at its end"))
        })?;
        let name = unquote(trim(&text[..open])).map_err(|problem| NAME.refuse(problem))?;
        Self::new(Some(&name), Address::new(inner)?)
    }

    /// The name, as it is shown.
    pub fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    /// The address without the name.
    pub fn address(&self) -> &Address {
        &self.address
    }
}

/// As RFC 5322 writes it, but for letters beyond ASCII, which a header encodes.
impl fmt::Display for Mailbox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(name) = &self.name else { return self.address.fmt(f) };
        match name.chars().all(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_' | '\'')) {
            true => write!(f, "{name} <{}>", self.address),
            false => {
                write!(f, "\"{}\" <{}>", name.replace('\\', "\\\\").replace('"', "\\\""), self.address)
            }
        }
    }
}

/// Without spaces around. Line breaks are not trimmed: a text that has one is refused, wherever it stands.
fn trim(text: &str) -> &str {
    text.trim_matches(' ')
}

/// A name without its quotes and backslashes.
fn unquote(name: &str) -> Result<String, Problem> {
    let Some(inner) = name.strip_prefix('"') else {
        return match name.contains(['"', '<', '>']) {
            true => {
                Err(Problem::Malformed("has quotes or angle brackets inside; write it as \"name\" <address>"))
            }
            false => Ok(name.to_owned()),
        };
    };
    let mut plain = String::with_capacity(inner.len());
    let mut rest = inner.chars();
    while let Some(c) = rest.next() {
        match c {
            '"' if rest.as_str().is_empty() => return Ok(plain),
            '"' => return Err(Problem::Malformed("goes on behind its closing quote")),
            '\\' => plain.extend(rest.next()),
            c => plain.push(c),
        }
    }
    Err(Problem::Malformed("has a quote that is never closed"))
}

/// To, cc and bcc of one mail: at least one address, at most fifty together, each once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recipients {
    to: Vec<Mailbox>,
    cc: Vec<Mailbox>,
    bcc: Vec<Mailbox>,
}

impl Recipients {
    /// How many addresses one mail may go to.
    pub const MAX: usize = 50;

    /// Checks the three lists. An address that stands in two of them stays where it is first seen.
    pub fn new(to: &[String], cc: &[String], bcc: &[String]) -> Result<Self, Refusal> {
        let found = to.len() + cc.len() + bcc.len();
        if found == 0 {
            return Err(Refusal::new("to", Problem::Empty));
        }
        if found > Self::MAX {
            let problem = Problem::TooMany { found, max: Self::MAX, unit: "addresses in to, cc and bcc" };
            return Err(Refusal::new("to", problem));
        }
        let mut seen = HashSet::new();
        let mut read = |field: &'static str, list: &[String]| -> Result<Vec<Mailbox>, Refusal> {
            let mut read = Vec::with_capacity(list.len());
            for (i, text) in list.iter().enumerate() {
                let mailbox =
                    Mailbox::parse(text).map_err(|refusal| refusal.named(format!("{field}[{i}]")))?;
                if seen.insert(mailbox.address().as_str().to_ascii_lowercase()) {
                    read.push(mailbox);
                }
            }
            Ok(read)
        };
        Ok(Self { to: read("to", to)?, cc: read("cc", cc)?, bcc: read("bcc", bcc)? })
    }

    /// The addresses that everybody sees as those who are meant.
    pub fn to(&self) -> &[Mailbox] {
        &self.to
    }

    /// The addresses that everybody sees as those who get a copy.
    pub fn cc(&self) -> &[Mailbox] {
        &self.cc
    }

    /// The addresses that stand in the envelope alone.
    pub fn bcc(&self) -> &[Mailbox] {
        &self.bcc
    }

    /// Every address that the mail goes to.
    pub fn envelope(&self) -> impl Iterator<Item = &Address> {
        [&self.to, &self.cc, &self.bcc].into_iter().flatten().map(Mailbox::address)
    }
}
