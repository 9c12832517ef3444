//! Letters that are read as plain ones and are none: the Cyrillic `а` in `pаypal.com`.
//!
//! Honest text in any script stays as it is. A letter counts where it stands among Latin ones, or where a
//! whole word of such letters stands in an address or in a text that has nothing else of its script.

use std::collections::HashSet;

use unicode_script::{Script, UnicodeScript};
use unicode_security::skeleton;

/// Where look-alikes stand in a text, in bytes and in order.
pub(super) fn find(text: &str) -> Vec<usize> {
    if text.is_ascii() {
        return Vec::new();
    }
    let at_home = scripts_at_home(text);
    let mut found = Vec::new();
    for (start, token) in tokens(text) {
        let place = if is_address(token) { Place::Address } else { Place::Prose };
        for (at, letters) in words(token) {
            let word = Word::of(letters, place);
            let deceptive = letters.char_indices().filter(|(_, c)| word.deceives(*c, &at_home));
            found.extend(deceptive.map(|(i, _)| start + at + i));
        }
    }
    found
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    /// A path, an address or an identifier: what a machine reads letter by letter.
    Address,
    Prose,
}

/// What is known of a word as a whole, found once: words may be as long as a text.
struct Word {
    place: Place,
    /// It has Latin letters.
    is_mixed: bool,
    /// Each of its letters passes for a plain one.
    is_disguise: bool,
}

impl Word {
    fn of(letters: &str, place: Place) -> Self {
        let is_mixed = letters.chars().any(|c| c.script() == Script::Latin);
        Self { place, is_mixed, is_disguise: letters.chars().all(looks_plain) }
    }

    /// Whether a letter passes for a plain one in this word.
    fn deceives(&self, c: char, at_home: &HashSet<Script>) -> bool {
        let is_address = self.place == Place::Address;
        looks_plain(c)
            && match c.script() {
                // Turkish has a dotless `ı`, physics an `α`, Japanese wide letters: in words, not in addresses.
                Script::Latin | Script::Greek | Script::Common => is_address,
                _ if self.is_mixed => true,
                script => self.is_disguise && (is_address || !at_home.contains(&script)),
            }
    }
}

/// The scripts that a text is honestly written in: it has letters of them that pass for nothing else.
fn scripts_at_home(text: &str) -> HashSet<Script> {
    let letters = text.chars().filter(|c| c.is_alphabetic() && !c.is_ascii() && !looks_plain(*c));
    letters.map(|c| c.script()).collect()
}

/// Whether a letter that is not ASCII looks like an ASCII letter.
fn looks_plain(c: char) -> bool {
    if c.is_ascii() || !c.is_alphanumeric() {
        return false;
    }
    let mut buffer = [0; 4];
    let mut seen = skeleton(c.encode_utf8(&mut buffer));
    seen.next().is_some_and(|first| first.is_ascii_alphanumeric()) && seen.next().is_none()
}

/// Runs without white space and without what sets words apart in JSON, markup and prose.
fn tokens(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let is_between = |c: char| c.is_whitespace() || "\"'`{}[]<>(),;|".contains(c);
    pieces(text, move |c| !is_between(c))
}

/// Runs of letters and digits.
fn words(token: &str) -> impl Iterator<Item = (usize, &str)> {
    pieces(token, char::is_alphanumeric)
}

fn pieces(text: &str, is_part: impl Fn(char) -> bool) -> impl Iterator<Item = (usize, &str)> {
    text.split(move |c| !is_part(c))
        .filter(|piece| !piece.is_empty())
        .map(move |piece| (piece.as_ptr().addr() - text.as_ptr().addr(), piece))
}

fn is_address(token: &str) -> bool {
    let token = token.trim_end_matches(['.', ':', '!', '?', '…']);
    token.chars().any(|c| "@./:_\\=".contains(c) || c.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> String {
        find(text).into_iter().filter_map(|at| text[at..].chars().next()).collect()
    }

    #[test]
    fn letters_that_pass_for_others_are_found() {
        assert_eq!(found("https://p\u{430}ypal.com/x"), "\u{430}");
        assert_eq!(found("{\"to\":\"\u{430}da@example.com\"}"), "\u{430}");
        assert_eq!(found("write to the \u{430}dmin"), "\u{430}");
        assert_eq!(found("cd \u{441}\u{43e}\u{440}e"), "\u{441}\u{43e}\u{440}");
        assert_eq!(found("run \u{441}\u{43e}\u{440}\u{435} now"), "\u{441}\u{43e}\u{440}\u{435}");
        assert_eq!(found("\u{440}\u{430}\u{440}\u{430}.com"), "\u{440}\u{430}\u{440}\u{430}");
        assert_eq!(found("g\u{131}thub.com"), "\u{131}");
        assert_eq!(found("exampl\u{435}.org in Россия"), "\u{435}");
        assert_eq!(found("\u{ff41}b.example"), "\u{ff41}");
    }

    #[test]
    fn honest_text_of_any_script_is_left_alone() {
        for text in [
            "plain text, naïve façade, Łódź, Straße",
            "Она сказала: а с утра я в Москве и в Осло.",
            "привет/пока, дом.рф, Кировоград",
            "Ελλάδα, αβγ, TNFα, 5 µm, Ω",
            "ısı ve ışık",
            "日本語のテキスト、ＡＢＣ。",
            "한국어 텍스트",
            "עברית וערבית العربية",
            "हिन्दी पाठ",
        ] {
            assert_eq!(found(text), "", "{text}");
        }
    }
}
