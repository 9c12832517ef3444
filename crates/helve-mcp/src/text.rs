//! Text from outside, made fit to be read: what moves a cursor, reorders a line or hides is taken
//! out, and said.
//!
//! A model and a person must see the same text. What one of them cannot see (escape sequences,
//! invisible characters, tags) goes, for both.

use std::borrow::Cow;
use std::fmt;

use helve::hidden;
pub use helve::hidden::{one_line, visible};
use helve::json::{JsonError, JsonLimits};
use serde_json::{Map, Value};

/// Text that is safe to show, and what was taken out of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cleaned<'a> {
    /// The text. Borrowed where nothing had to be taken out.
    pub text: Cow<'a, str>,
    /// One for each kind of thing that was taken out.
    pub findings: Vec<Finding>,
}

/// A kind of thing that was taken out of a text, and how often. Its `Display` is a line for a
/// person.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Finding {
    /// What it was.
    pub kind: Hidden,
    /// How often it was there.
    pub count: usize,
}

/// What can hide in a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Hidden {
    /// A terminal's escape sequence: colours, cursor moves, links, titles.
    Escape,
    /// A control character.
    Control,
    /// A character that changes the direction of the text around it.
    Direction,
    /// A character with no width: zero-width spaces, joiners where no script needs them, fillers.
    Invisible,
    /// A tag character: invisible, and each stands for an ASCII letter, so they spell whole orders.
    Tag,
    /// A character without a public meaning.
    PrivateUse,
}

impl Hidden {
    const ALL: [Self; 6] =
        [Self::Escape, Self::Control, Self::Direction, Self::Invisible, Self::Tag, Self::PrivateUse];

    /// The word for it in logs and JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Escape => "escape",
            Self::Control => "control",
            Self::Direction => "direction",
            Self::Invisible => "invisible",
            Self::Tag => "tag",
            Self::PrivateUse => "private_use",
        }
    }

    fn words(self) -> (&'static str, &'static str) {
        match self {
            Self::Escape => ("terminal escape sequence", "which could repaint or hide what a terminal shows"),
            Self::Control => ("control character", "which could move the cursor or cut the text off"),
            Self::Direction => {
                ("direction control character", "which could make the text read differently than it is")
            }
            Self::Invisible => ("invisible character", "which could hide words or make two names look alike"),
            Self::Tag => ("tag character", "which spell out text that models read and people do not see"),
            Self::PrivateUse => ("character without a public meaning", "which could look like anything"),
        }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (what, why) = self.kind.words();
        match self.count {
            1 => write!(f, "1 {what} was taken out, {why}"),
            count if what.starts_with("character ") => {
                write!(f, "{count} characters{} were taken out, {why}", what.trim_start_matches("character"))
            }
            count => write!(f, "{count} {what}s were taken out, {why}"),
        }
    }
}

/// Takes out what acts on the reader instead of being read. Line feeds and tabs stay; other line
/// ends become line feeds. Joiners stay where a script or an emoji needs them.
///
/// ```
/// use helve_mcp::text::clean;
/// let cleaned = clean("\u{1b}[8mrm -rf\u{1b}[0m ok\u{200b}");
/// assert_eq!(cleaned.text, "rm -rf ok");
/// assert_eq!(cleaned.findings.len(), 2);
/// ```
pub fn clean(text: &str) -> Cleaned<'_> {
    if is_plain(text) {
        return Cleaned { text: Cow::Borrowed(text), findings: Vec::new() };
    }
    let mut counts = Counts::default();
    let text = Cleaner::new(text, &mut counts).run();
    Cleaned { text, findings: counts.findings() }
}

/// Cleans every text in a value, keys as well, in place. Where two keys become one the first stays.
///
/// Beyond the limits it stops with an error, and the value must not be used.
pub fn clean_json(value: &mut Value, limits: JsonLimits) -> Result<Vec<Finding>, JsonError> {
    let mut walk = Walk { limits, bytes: 0, values: 0, counts: Counts::default() };
    walk.visit(value, 0)?;
    Ok(walk.counts.findings())
}

/// Printable ASCII, line feeds and tabs: nearly every text, decided a block of bytes at a time.
fn is_plain(text: &str) -> bool {
    text.as_bytes().chunks(64).all(|block| {
        block
            .iter()
            .fold(true, |plain, byte| plain & (matches!(byte, 0x20..=0x7e) | matches!(byte, b'\n' | b'\t')))
    })
}

/// What a character is by itself, if it must not stay. Joiners and variation selectors may stay in
/// the right company, and spaces of every kind do.
fn kind(c: char) -> Option<Hidden> {
    match hidden::kind(c)? {
        hidden::Kind::Control => Some(Hidden::Control),
        hidden::Kind::Direction => Some(Hidden::Direction),
        hidden::Kind::Invisible => Some(Hidden::Invisible),
        hidden::Kind::Tag => Some(Hidden::Tag),
        hidden::Kind::PrivateUse => Some(Hidden::PrivateUse),
        hidden::Kind::Space => None,
    }
}

#[derive(Default)]
struct Counts([usize; Hidden::ALL.len()]);

impl Counts {
    fn add(&mut self, kind: Hidden) {
        self.0[kind as usize] += 1;
    }

    fn findings(&self) -> Vec<Finding> {
        Hidden::ALL
            .into_iter()
            .zip(self.0)
            .filter(|(_, count)| *count > 0)
            .map(|(kind, count)| Finding { kind, count })
            .collect()
    }
}

/// One pass over a text. What stays is copied in stretches, and only once something has to go.
struct Cleaner<'a, 'c> {
    text: &'a str,
    /// Where the next character begins.
    at: usize,
    /// Where the stretch that stays begins.
    kept_from: usize,
    out: String,
    /// Nothing ahead ends a terminal's string: known after the first search that failed.
    no_end_ahead: bool,
    counts: &'c mut Counts,
}

impl<'a, 'c> Cleaner<'a, 'c> {
    fn new(text: &'a str, counts: &'c mut Counts) -> Self {
        Self { text, at: 0, kept_from: 0, out: String::new(), no_end_ahead: false, counts }
    }

    fn run(mut self) -> Cow<'a, str> {
        loop {
            self.at = skip_harmless(self.text.as_bytes(), self.at);
            let Some(c) = self.peek(self.at) else { break };
            let Some(kind) = kind(c).filter(|_| !self.belongs(c)) else {
                self.at += c.len_utf8();
                continue;
            };
            self.out.push_str(&self.text[self.kept_from..self.at]);
            self.remove(c, kind);
            self.kept_from = self.at;
        }
        if self.kept_from == 0 {
            return Cow::Borrowed(self.text);
        }
        self.out.push_str(&self.text[self.kept_from..]);
        Cow::Owned(self.out)
    }

    fn peek(&self, at: usize) -> Option<char> {
        self.text[at..].chars().next()
    }

    /// The last character that stayed.
    fn last(&self) -> Option<char> {
        self.text[self.kept_from..self.at].chars().next_back().or_else(|| self.out.chars().next_back())
    }

    /// Steps over something that goes, and notes it.
    fn remove(&mut self, c: char, kind: Hidden) {
        let after = self.at + c.len_utf8();
        let end = self.sequence_end(c, after);
        self.at = end.unwrap_or(after);
        match c {
            // A line end of Windows is honest.
            '\r' if self.peek(after) == Some('\n') => {}
            '\u{2028}' | '\u{2029}' => {
                self.counts.add(kind);
                self.out.push('\n');
            }
            _ => self.counts.add(if end.is_some() { Hidden::Escape } else { kind }),
        }
    }

    /// Where the escape sequence that `c` begins ends, if it begins one.
    fn sequence_end(&mut self, c: char, after: usize) -> Option<usize> {
        let bytes = self.text.as_bytes();
        let (introducer, from) = match c {
            '\u{1b}' => match bytes.get(after) {
                Some(b'[') => (b'[', after + 1),
                Some(b']' | b'P' | b'X' | b'^' | b'_') => (b']', after + 1),
                Some(0x20..=0x7e) => {
                    let end = skip(bytes, after, 0x20..=0x2f);
                    let is_final = matches!(bytes.get(end), Some(0x30..=0x7e));
                    return Some(end + usize::from(is_final));
                }
                _ => return Some(after),
            },
            '\u{9b}' => (b'[', after),
            '\u{90}' | '\u{98}' | '\u{9d}'..='\u{9f}' => (b']', after),
            _ => return None,
        };
        if introducer == b'[' {
            let end = skip(bytes, skip(bytes, from, 0x30..=0x3f), 0x20..=0x2f);
            let is_final = matches!(bytes.get(end), Some(0x40..=0x7e));
            return Some(end + usize::from(is_final));
        }
        // A string that never ends would take the rest of the text along: then only its start goes.
        Some(self.string_end(from).unwrap_or(from))
    }

    fn string_end(&mut self, from: usize) -> Option<usize> {
        if self.no_end_ahead {
            return None;
        }
        let rest = &self.text[from..];
        let end = rest.char_indices().find_map(|(at, c)| match c {
            '\u{7}' | '\u{9c}' => Some(at + c.len_utf8()),
            '\u{1b}' if rest[at + 1..].starts_with('\\') => Some(at + 2),
            _ => None,
        });
        self.no_end_ahead = end.is_none();
        end.map(|end| from + end)
    }

    /// Whether a character that is invisible by itself is part of what is seen here.
    fn belongs(&self, c: char) -> bool {
        hidden::belongs(c, self.last(), self.peek(self.at + c.len_utf8()))
    }
}

/// How long the character is that a byte begins, or 0 where it may be one that hides. Most text is
/// stepped over by this alone.
const HARMLESS: [u8; 256] = {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        table[byte] = match byte as u8 {
            b'\n' | b'\t' | 0x20..=0x7e => 1,
            0xc2 | 0xcd | 0xd8 => 0,
            0xc3..=0xdf => 2,
            0xe1..=0xe3 | 0xee | 0xef => 0,
            0xe0..=0xed => 3,
            _ => 0,
        };
        byte += 1;
    }
    table
};

fn skip_harmless(bytes: &[u8], mut at: usize) -> usize {
    while let Some(byte) = bytes.get(at) {
        match HARMLESS[usize::from(*byte)] {
            0 => return at,
            length => at += usize::from(length),
        }
    }
    at
}

fn skip(bytes: &[u8], from: usize, range: std::ops::RangeInclusive<u8>) -> usize {
    bytes[from..].iter().position(|byte| !range.contains(byte)).map_or(bytes.len(), |count| from + count)
}

struct Walk {
    limits: JsonLimits,
    bytes: usize,
    values: usize,
    counts: Counts,
}

impl Walk {
    fn visit(&mut self, value: &mut Value, depth: usize) -> Result<(), JsonError> {
        self.values += 1;
        if self.values > self.limits.values {
            return Err(JsonError::TooMany { limit: self.limits.values });
        }
        if depth > self.limits.depth {
            return Err(JsonError::TooDeep { limit: self.limits.depth });
        }
        match value {
            Value::Null | Value::Bool(_) | Value::Number(_) => Ok(()),
            Value::String(text) => self.text(text),
            Value::Array(items) => items.iter_mut().try_for_each(|item| self.visit(item, depth + 1)),
            Value::Object(fields) => {
                self.keys(fields)?;
                fields.values_mut().try_for_each(|item| self.visit(item, depth + 1))
            }
        }
    }

    fn text(&mut self, text: &mut String) -> Result<(), JsonError> {
        self.charge(text)?;
        if is_plain(text) {
            return Ok(());
        }
        if let Cow::Owned(cleaned) = Cleaner::new(text, &mut self.counts).run() {
            *text = cleaned;
        }
        Ok(())
    }

    fn keys(&mut self, fields: &mut Map<String, Value>) -> Result<(), JsonError> {
        fields.keys().try_for_each(|key| self.charge(key))?;
        if fields.keys().all(|key| is_plain(key)) {
            return Ok(());
        }
        // Those that hide nothing first: what looks like one of them once it is cleaned does not take its
        // place, wherever it stood.
        let (plain, hiding): (Vec<_>, Vec<_>) =
            std::mem::take(fields).into_iter().partition(|(key, _)| is_plain(key));
        fields.extend(plain);
        for (mut key, value) in hiding {
            if let Cow::Owned(cleaned) = Cleaner::new(&key, &mut self.counts).run() {
                key = cleaned;
            }
            fields.entry(key).or_insert(value);
        }
        Ok(())
    }

    fn charge(&mut self, text: &str) -> Result<(), JsonError> {
        self.bytes += text.len();
        if self.bytes > self.limits.bytes {
            Err(JsonError::TooLarge { limit: self.limits.bytes })
        } else {
            Ok(())
        }
    }
}

#[cfg(test)]
mod tests;
