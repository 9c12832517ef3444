//! Which characters cannot be seen, or make a text look like what it is not: one table for every
//! place that shows text from outside, takes something out of it or warns of it.
//!
//! It is the union of Unicode's `Default_Ignorable_Code_Point`, direction, control, private use and
//! the spaces that are not a space. Line feeds and tabs are part of text. In addition, letters of one script
//! that pass for those of another are found by the words that they stand in.

mod joiners;
mod look_alikes;

use std::borrow::Cow;

pub use joiners::belongs;

/// What kind of thing a hidden character is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// Acts on the terminal, or breaks the line.
    Control,
    /// Changes the direction of the text around it.
    Direction,
    /// Has no width: zero-width spaces, joiners, fillers, variation selectors.
    Invisible,
    /// A tag: invisible, and each stands for an ASCII letter, so they spell whole orders.
    Tag,
    /// Has no public meaning.
    PrivateUse,
    /// Looks like a space and is another character. Honest text has them, so they are shown where the
    /// exact characters matter and taken out nowhere.
    Space,
}

/// What a character hides, or `None` for one that can be read as it is.
///
/// Joiners and variation selectors are [`Kind::Invisible`] by themselves; [`belongs`] knows those that a
/// script or an emoji needs.
pub fn kind(c: char) -> Option<Kind> {
    look_up(c).map(|(kind, _)| kind)
}

/// What a hidden character is, in words for a person.
pub fn name(c: char) -> Option<&'static str> {
    look_up(c).map(|(_, name)| name)
}

/// What a letter is that [`deceptive`] finds by the letters next to it.
pub const LOOK_ALIKE: &str = "letter of another script that looks like a plain one";

/// Where characters stand that hide or pass for others, in bytes and in order, with what each is in words
/// for a person.
///
/// ```
/// use helve_core::hidden::{LOOK_ALIKE, deceptive};
/// assert_eq!(deceptive("a\u{202e}b"), [(1, "right-to-left override")]);
/// assert_eq!(deceptive("p\u{430}ypal.com"), [(1, LOOK_ALIKE)]);
/// assert!(deceptive("она и я").is_empty());
/// ```
pub fn deceptive(text: &str) -> Vec<(usize, &'static str)> {
    let hidden = text.char_indices().filter_map(|(at, c)| Some((at, name(c)?)));
    let mut found: Vec<_> = hidden.collect();
    let look_alikes = look_alikes::find(text);
    if !look_alikes.is_empty() {
        found.extend(look_alikes.into_iter().map(|at| (at, LOOK_ALIKE)));
        found.sort_unstable_by_key(|(at, _)| *at);
    }
    found
}

/// Text that may span lines, with what hides in it or passes for something else written as `\u{…}`.
///
/// ```
/// use helve_core::hidden::visible;
/// assert_eq!(visible("a\u{202e}b\n"), "a\\u{202e}b\n");
/// ```
pub fn visible(text: &str) -> Cow<'_, str> {
    let deceptive = deceptive(text);
    if deceptive.is_empty() {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 16);
    let mut from = 0;
    for (at, _) in deceptive {
        shown.push_str(&text[from..at]);
        let mut rest = text[at..].chars();
        shown.extend(rest.next().into_iter().flat_map(char::escape_unicode));
        from = text.len() - rest.as_str().len();
    }
    shown.push_str(&text[from..]);
    Cow::Owned(shown)
}

/// A text as one short line: line breaks and tabs become a space, what hides or passes for something else
/// is written as `\u{…}`, and what is too long is cut.
pub fn one_line(text: &str, chars_max: usize) -> String {
    let end = text.char_indices().nth(chars_max).map_or(text.len(), |(at, _)| at);
    let is_break = |c: char| matches!(c, '\n' | '\r' | '\t');
    let mut line = match text[..end].contains(is_break) {
        true => visible(&text[..end].replace(is_break, " ")).into_owned(),
        false => visible(&text[..end]).into_owned(),
    };
    if end < text.len() {
        line.push('…');
    }
    line
}

/// Looks a character up in the one table of hidden characters.
fn look_up(c: char) -> Option<(Kind, &'static str)> {
    Some(match c {
        '\n' | '\t' | ' '..='\u{7e}' => return None,
        '\0'..='\u{1f}' | '\u{7f}'..='\u{9f}' => (Kind::Control, "control character"),
        '\u{2028}' | '\u{2029}' => (Kind::Control, "line break of another kind"),
        '\u{202a}' => (Kind::Direction, "left-to-right embedding"),
        '\u{202b}' => (Kind::Direction, "right-to-left embedding"),
        '\u{202c}' => (Kind::Direction, "end of a direction"),
        '\u{202d}' => (Kind::Direction, "left-to-right override"),
        '\u{202e}' => (Kind::Direction, "right-to-left override"),
        '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2066}'..='\u{2069}' => (Kind::Direction, "direction mark"),
        '\u{200b}'..='\u{200d}' => (Kind::Invisible, "zero-width character"),
        '\u{180b}'..='\u{180d}' | '\u{180f}' | '\u{fe00}'..='\u{fe0f}' | '\u{e0100}'..='\u{e01ef}' => {
            (Kind::Invisible, "variation selector")
        }
        '\u{fff9}'..='\u{fffb}' => (Kind::Invisible, "annotation"),
        '\u{ad}'
        | '\u{34f}'
        | '\u{115f}'
        | '\u{1160}'
        | '\u{17b4}'
        | '\u{17b5}'
        | '\u{180e}'
        | '\u{2060}'..='\u{2065}'
        | '\u{206a}'..='\u{206f}'
        | '\u{3164}'
        | '\u{feff}'
        | '\u{ffa0}'
        | '\u{fff0}'..='\u{fff8}'
        | '\u{1bca0}'..='\u{1bca3}'
        | '\u{1d173}'..='\u{1d17a}'
        | '\u{e0080}'..='\u{e00ff}'
        | '\u{e01f0}'..='\u{e0fff}' => (Kind::Invisible, "invisible character"),
        '\u{e0000}'..='\u{e007f}' => (Kind::Tag, "invisible tag"),
        '\u{e000}'..='\u{f8ff}' | '\u{fdd0}'..='\u{fdef}' | '\u{f0000}'..='\u{10ffff}' => {
            (Kind::PrivateUse, "character without a public meaning")
        }
        '\u{a0}'
        | '\u{1680}'
        | '\u{2000}'..='\u{200a}'
        | '\u{202f}'
        | '\u{205f}'
        | '\u{2800}'
        | '\u{3000}' => (Kind::Space, "space of another kind"),
        // The last two of every plane are no characters.
        c if u32::from(c) & 0xfffe == 0xfffe => (Kind::PrivateUse, "character without a public meaning"),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_is_found_at_both_ends_of_its_ranges() {
        use Kind::*;
        for (chars, expected) in [
            ("\0\u{8}\r\u{1b}\u{1f}\u{7f}\u{9b}\u{9f}\u{2028}\u{2029}", Control),
            ("\u{61c}\u{200e}\u{200f}\u{202a}\u{202e}\u{2066}\u{2069}", Direction),
            (
                "\u{ad}\u{34f}\u{115f}\u{1160}\u{17b4}\u{180b}\u{180e}\u{180f}\u{200b}\u{200d}\u{2060}",
                Invisible,
            ),
            ("\u{2065}\u{206a}\u{206f}\u{3164}\u{fe00}\u{fe0f}\u{feff}\u{ffa0}\u{fff0}\u{fffb}", Invisible),
            ("\u{1bca0}\u{1d173}\u{e0080}\u{e0100}\u{e01ef}\u{e01f0}\u{e0fff}", Invisible),
            ("\u{e0000}\u{e0041}\u{e007f}", Tag),
            ("\u{e000}\u{f8ff}\u{fdd0}\u{f0000}\u{10ffff}\u{ffff}\u{1fffe}", PrivateUse),
            ("\u{a0}\u{1680}\u{2000}\u{200a}\u{202f}\u{205f}\u{2800}\u{3000}", Space),
        ] {
            for c in chars.chars() {
                assert_eq!(kind(c), Some(expected), "{c:?}");
                assert!(name(c).is_some());
            }
        }
    }

    #[test]
    fn what_unicode_calls_a_control_or_white_space_is_known() {
        for c in '\0'..=char::MAX {
            let text = matches!(c, '\n' | '\t' | ' ');
            assert!(text || kind(c).is_some() || !(c.is_control() || c.is_whitespace()), "{c:?}");
        }
    }

    #[test]
    fn honest_text_hides_nothing() {
        let text = "plain\n\ttext, naïve, 日本, Ελλάδα – “quoted” 👍🏽";
        assert!(matches!(visible(text), Cow::Borrowed(_)));
    }

    #[test]
    fn hidden_characters_can_be_shown() {
        assert_eq!(visible("a\u{1b}[0m\u{200b}\u{a0}\u{e000}\n"), "a\\u{1b}[0m\\u{200b}\\u{a0}\\u{e000}\n");
        assert_eq!(one_line("a\r\nb\u{202e}\tcdef", 6), "a  b\\u{202e} …");
        assert_eq!(one_line("xxx", 3), "xxx");
    }
}
