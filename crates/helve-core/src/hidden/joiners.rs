//! Joiners and variation selectors that are part of what is seen: in an emoji, or between letters of a script
//! that needs them.

use super::{Kind, kind};

/// Whether a character that is invisible by itself is part of what is seen between its neighbours.
///
/// True only for joiners and variation selectors: the joiner in a family of emoji, the one between Persian or
/// Hindi letters, the selector that makes a heart red.
///
/// ```
/// use helve_core::hidden::belongs;
/// assert!(belongs('\u{fe0f}', Some('❤'), None));
/// assert!(!belongs('\u{200d}', Some('a'), Some('b')));
/// ```
pub fn belongs(c: char, last: Option<char>, next: Option<char>) -> bool {
    let Some(last) = last else { return false };
    match c {
        '\u{fe0e}' | '\u{fe0f}' => {
            is_pictograph(last) || (matches!(last, '0'..='9' | '#' | '*') && next == Some('\u{20e3}'))
        }
        '\u{200d}' if next.is_some_and(is_pictograph) => is_pictograph(last) || last == '\u{fe0f}',
        '\u{200c}' | '\u{200d}' => joins(last) && next.is_some_and(joins),
        _ => false,
    }
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
    matches!(kind(c), None | Some(Kind::Space))
        && matches!(c,
            '\u{620}'..='\u{7ff}' | '\u{840}'..='\u{dff}' | '\u{f40}'..='\u{109f}' | '\u{1780}'..='\u{17d3}'
            | '\u{1820}'..='\u{18af}' | '\u{1b00}'..='\u{1b7f}' | '\u{a840}'..='\u{a8ff}'
            | '\u{a980}'..='\u{a9df}' | '\u{fb50}'..='\u{fdcf}' | '\u{fe70}'..='\u{fefc}'
            | '\u{11000}'..='\u{11fff}')
}
