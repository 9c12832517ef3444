//! Text from outside, made fit to be read: what moves a cursor, reorders a line or hides is taken
//! out, and said.
//!
//! A model and a person must see the same text. What one of them cannot see (escape sequences,
//! invisible characters, tags) goes, for both.

use std::borrow::Cow;
use std::fmt;

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

/// The text with everything that [`clean`] would take out written as `\u{…}`, for those who want to
/// see it.
pub fn visible(text: &str) -> Cow<'_, str> {
    if is_plain(text) || !text.chars().any(|c| c != '\n' && c != '\t' && kind(c).is_some()) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        if c != '\n' && c != '\t' && kind(c).is_some() {
            shown.extend(c.escape_unicode());
        } else {
            shown.push(c);
        }
    }
    Cow::Owned(shown)
}

/// A text as one short line for a message: nothing hidden in it, nothing that breaks the line.
pub fn one_line(text: &str, chars_max: usize) -> String {
    let mut line = String::new();
    for (count, c) in text.chars().enumerate() {
        if count == chars_max {
            line.push('…');
            break;
        }
        match c {
            '\n' | '\r' | '\t' => line.push(' '),
            c if kind(c).is_some() => line.extend(c.escape_unicode()),
            c => line.push(c),
        }
    }
    line
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
/// the right company.
fn kind(c: char) -> Option<Hidden> {
    let point = u32::from(c);
    if point & 0xfffe == 0xfffe {
        return Some(Hidden::PrivateUse);
    }
    match c {
        '\n' | '\t' | ' '..='\u{7e}' => None,
        '\u{0}'..='\u{1f}' | '\u{7f}'..='\u{9f}' | '\u{2028}' | '\u{2029}' => Some(Hidden::Control),
        '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => {
            Some(Hidden::Direction)
        }
        // Unicode's Default_Ignorable_Code_Point, and the marks of interlinear notes.
        '\u{ad}'
        | '\u{34f}'
        | '\u{115f}'
        | '\u{1160}'
        | '\u{17b4}'
        | '\u{17b5}'
        | '\u{180b}'..='\u{180f}'
        | '\u{200b}'..='\u{200d}'
        | '\u{2060}'..='\u{2065}'
        | '\u{206a}'..='\u{206f}'
        | '\u{3164}'
        | '\u{fe00}'..='\u{fe0f}'
        | '\u{feff}'
        | '\u{ffa0}'
        | '\u{fff0}'..='\u{fffb}'
        | '\u{1bca0}'..='\u{1bca3}'
        | '\u{1d173}'..='\u{1d17a}'
        | '\u{e0080}'..='\u{e0fff}' => Some(Hidden::Invisible),
        '\u{e0000}'..='\u{e007f}' => Some(Hidden::Tag),
        '\u{e000}'..='\u{f8ff}' | '\u{fdd0}'..='\u{fdef}' | '\u{f0000}'..='\u{10ffff}' => {
            Some(Hidden::PrivateUse)
        }
        _ => None,
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
    /// The last character that stayed.
    last: Option<char>,
    /// Nothing ahead ends a terminal's string: known after the first search that failed.
    no_end_ahead: bool,
    counts: &'c mut Counts,
}

impl<'a, 'c> Cleaner<'a, 'c> {
    fn new(text: &'a str, counts: &'c mut Counts) -> Self {
        Self { text, at: 0, kept_from: 0, out: String::new(), last: None, no_end_ahead: false, counts }
    }

    fn run(mut self) -> Cow<'a, str> {
        while let Some(c) = self.peek(self.at) {
            let Some(kind) = kind(c).filter(|_| !self.belongs(c)) else {
                self.last = Some(c);
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
                self.last = Some('\n');
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
        if !matches!(c, '\u{200c}' | '\u{200d}' | '\u{fe0e}' | '\u{fe0f}') {
            return false;
        }
        let Some(last) = self.last else { return false };
        let next = self.peek(self.at + c.len_utf8());
        match c {
            '\u{fe0e}' | '\u{fe0f}' => {
                is_pictograph(last) || (matches!(last, '0'..='9' | '#' | '*') && next == Some('\u{20e3}'))
            }
            '\u{200d}' if next.is_some_and(is_pictograph) => is_pictograph(last) || last == '\u{fe0f}',
            _ => joins(last) && next.is_some_and(joins),
        }
    }
}

fn skip(bytes: &[u8], from: usize, range: std::ops::RangeInclusive<u8>) -> usize {
    bytes[from..].iter().position(|byte| !range.contains(byte)).map_or(bytes.len(), |count| from + count)
}

/// Emoji, generously: the blocks that hold them.
fn is_pictograph(c: char) -> bool {
    matches!(c,
        '\u{a9}' | '\u{ae}' | '\u{203c}' | '\u{2049}' | '\u{2122}' | '\u{2139}' | '\u{2190}'..='\u{21ff}'
        | '\u{2300}'..='\u{23ff}' | '\u{24c2}' | '\u{25a0}'..='\u{27bf}' | '\u{2934}' | '\u{2935}'
        | '\u{2b00}'..='\u{2bff}' | '\u{3030}' | '\u{303d}' | '\u{3297}' | '\u{3299}'
        | '\u{1f000}'..='\u{1faff}')
}

/// Whether a letter or mark is of a script in which joiners change what is read: Arabic and its
/// kin, the scripts of India and its neighbours, Mongolian.
fn joins(c: char) -> bool {
    kind(c).is_none()
        && matches!(c,
            '\u{620}'..='\u{7ff}' | '\u{840}'..='\u{dff}' | '\u{f40}'..='\u{109f}' | '\u{1780}'..='\u{17d3}'
            | '\u{1820}'..='\u{18af}' | '\u{1b00}'..='\u{1b7f}' | '\u{a840}'..='\u{a8ff}'
            | '\u{a980}'..='\u{a9df}' | '\u{fb50}'..='\u{fdcf}' | '\u{fe70}'..='\u{fefc}'
            | '\u{11000}'..='\u{11fff}')
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
        for (mut key, value) in std::mem::take(fields) {
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
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    fn check(text: &str, expected: &str, found: &[(Hidden, usize)]) {
        let cleaned = clean(text);
        assert_eq!(cleaned.text, expected, "{text:?}");
        let findings: Vec<_> = cleaned.findings.iter().map(|finding| (finding.kind, finding.count)).collect();
        assert_eq!(findings, found, "{text:?}");
    }

    #[test]
    fn what_hides_is_taken_out_and_said() {
        use Hidden::*;
        check("\u{1b}[31;1mred\u{1b}[0m", "red", &[(Escape, 2)]);
        check("\u{9b}31mred", "red", &[(Escape, 1)]);
        check("a\u{1b}]8;;http://evil\u{7}link\u{1b}]8;;\u{1b}\\b", "alinkb", &[(Escape, 2)]);
        check("a\u{9d}0;title\u{9c}b", "ab", &[(Escape, 1)]);
        check("a\u{1b}(0b\u{1b}cd", "abd", &[(Escape, 2)]);
        check("a\u{1b}", "a", &[(Escape, 1)]);
        check("a\u{1b}[", "a", &[(Escape, 1)]);
        check("a\u{1b}[12é", "aé", &[(Escape, 1)]);
        check("safe\rhidden", "safehidden", &[(Control, 1)]);
        check("a\0b\u{8}c\u{7f}", "abc", &[(Control, 3)]);
        check("user\u{202e}gpj.exe\u{2066}", "usergpj.exe", &[(Direction, 2)]);
        check("pay\u{200b}pal\u{feff}\u{ad}\u{3164}", "paypal", &[(Invisible, 4)]);
        check("hi\u{e0049}\u{e0067}", "hi", &[(Tag, 2)]);
        check("x\u{e0100}\u{fe00}", "x", &[(Invisible, 2)]);
        check("\u{f8ff}\u{10fffd}\u{ffff}", "", &[(PrivateUse, 3)]);
        check("one\u{2028}two", "one\ntwo", &[(Control, 1)]);
    }

    #[test]
    fn honest_text_is_untouched_and_not_copied() {
        for text in ["", "plain\n\ttext", "naïve, 日本, Ελλάδα", "👩‍👩‍👧 ❤️ 1️⃣ 🏳️‍🌈 👍🏽", "می‌خواهم", "क्‍ष", "ශ්‍රී"]
        {
            let cleaned = clean(text);
            assert!(matches!(cleaned.text, Cow::Borrowed(_)), "{text:?} became {:?}", cleaned.text);
            assert!(cleaned.findings.is_empty());
        }
        check("one\r\ntwo", "one\ntwo", &[]);
    }

    #[test]
    fn joiners_out_of_place_go() {
        check("a\u{200d}b\u{200c}c", "abc", &[(Hidden::Invisible, 2)]);
        check("می\u{200c}\u{200c}خ", "می\u{200c}خ", &[(Hidden::Invisible, 1)]);
        check("👩\u{200d}x", "👩x", &[(Hidden::Invisible, 1)]);
        check("x\u{fe0f}\u{fe0f}", "x", &[(Hidden::Invisible, 2)]);
        check("❤\u{fe0f}\u{fe0f}\u{fe0f}", "❤\u{fe0f}", &[(Hidden::Invisible, 2)]);
    }

    #[test]
    fn a_terminals_string_that_never_ends_takes_nothing_along() {
        check("a\u{1b}]0;the rest", "a0;the rest", &[(Hidden::Escape, 1)]);
        let many = "\u{1b}]x".repeat(200_000);
        assert_eq!(clean(&many).text.len(), 200_000);
    }

    #[test]
    fn findings_are_lines_for_a_person() {
        let words: Vec<_> = clean("\u{1b}[0m\u{e0041}\u{e0041}\u{e000}\u{e001}")
            .findings
            .iter()
            .map(ToString::to_string)
            .collect();
        assert_eq!(
            words,
            [
                "1 terminal escape sequence was taken out, which could repaint or hide what a terminal shows",
                "2 tag characters were taken out, which spell out text that models read and people do not see",
                "2 characters without a public meaning were taken out, which could look like anything",
            ]
        );
    }

    #[test]
    fn a_value_is_cleaned_to_its_last_key() {
        let mut value = json!({
            "description": "a\u{200b}b", "n": 1,
            "properties": { "to\u{202e}": { "enum": ["x\0"] }, "to": 1 },
        });
        let findings = clean_json(&mut value, JsonLimits::default()).unwrap();
        assert_eq!(value["description"], "ab");
        assert_eq!(value["properties"], json!({ "to": 1 }));
        assert_eq!(findings.len(), 2);
        let mut value = json!({ "a": ["x\0"] });
        assert_eq!(clean_json(&mut value, JsonLimits::default()).unwrap()[0].kind, Hidden::Control);
        assert_eq!(value, json!({ "a": ["x"] }));
    }

    #[test]
    fn a_value_beyond_the_limits_is_refused() {
        let limits = JsonLimits { bytes: 100, values: 10, depth: 3 };
        assert!(matches!(clean_json(&mut json!("x".repeat(101)), limits), Err(JsonError::TooLarge { .. })));
        assert!(matches!(
            clean_json(&mut json!({ "x".repeat(101): 1 }), limits),
            Err(JsonError::TooLarge { .. })
        ));
        assert!(matches!(
            clean_json(&mut json!([0, 0, 0, 0, 0, 0, 0, 0, 0, 0]), limits),
            Err(JsonError::TooMany { .. })
        ));
        assert!(matches!(clean_json(&mut json!([[[[0]]]]), limits), Err(JsonError::TooDeep { .. })));
    }

    #[test]
    fn hidden_characters_can_be_shown() {
        assert_eq!(visible("a\u{1b}[0m\u{200b}\n"), "a\\u{1b}[0m\\u{200b}\n");
        assert!(matches!(visible("naïve\n"), Cow::Borrowed(_)));
        assert_eq!(one_line("a\r\nb\u{202e}cdef", 5), "a  b\\u{202e}…");
    }

    fn hostile() -> impl Strategy<Value = String> {
        let pieces = prop::sample::select(vec![
            "\u{1b}",
            "[",
            "]",
            "\\",
            "0;",
            "m",
            "\u{7}",
            "\u{9b}",
            "\u{9d}",
            "\u{9c}",
            "\u{200b}",
            "\u{200c}",
            "\u{200d}",
            "\u{fe0f}",
            "\u{202e}",
            "\u{e0041}",
            "\u{e000}",
            "\r",
            "\n",
            "\u{2028}",
            "❤",
            "👩",
            "م",
            "ی",
            "क",
            "a",
            "1",
            "\u{20e3}",
            "\0",
            "é",
            "\u{180b}",
            "ᠠ",
        ]);
        prop_oneof![prop::collection::vec(pieces, 0..24).prop_map(|pieces| pieces.concat()), any::<String>(),]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2_000))]

        #[test]
        fn cleaning_twice_changes_nothing_more(text in hostile()) {
            let once = clean(&text).text.into_owned();
            let again = clean(&once);
            prop_assert_eq!(&again.text, &once);
            prop_assert!(again.findings.is_empty());
        }

        #[test]
        fn nothing_hidden_is_left_but_joiners_that_belong(text in hostile()) {
            for c in clean(&text).text.chars() {
                let joiner = matches!(c, '\u{200c}' | '\u{200d}' | '\u{fe0e}' | '\u{fe0f}');
                prop_assert!(joiner || kind(c).is_none(), "{c:?} stayed");
            }
        }

        #[test]
        fn what_is_left_stood_there_before_in_the_same_order(text in hostile()) {
            let mut before = text.chars().map(|c| if matches!(c, '\u{2028}' | '\u{2029}') { '\n' } else { c });
            for c in clean(&text).text.chars() {
                prop_assert!(before.any(|b| b == c), "{c:?} was made up");
            }
        }

        #[test]
        fn no_finding_means_no_change_but_line_ends(text in hostile()) {
            let cleaned = clean(&text);
            if cleaned.findings.is_empty() {
                prop_assert_eq!(cleaned.text, text.replace("\r\n", "\n"));
            }
        }
    }
}
