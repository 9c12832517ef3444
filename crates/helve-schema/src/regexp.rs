//! How much work a regular expression makes of a text.
//!
//! Matching takes time in proportion to the text, and cannot be stopped in its middle. How much a byte of it
//! takes depends on the expression: `(a?){5000}a{5000}` takes half a minute for 50 kB. A class counts as one step
//! however many characters it has, as measured: those of other alphabets are no slower, byte for byte.

use regex_syntax::hir::{Hir, HirKind};

/// About how many steps an expression may take for one byte of text: how long it is, written out. None where it
/// is none, or one that looks around or back. True of engines that go through a text once, as `regex` and ripgrep's
/// do; others may take a whole text's length for every byte.
///
/// ```
/// use helve_schema::regexp::steps;
/// assert_eq!(steps("(ab){2,5}"), Some(10));
/// assert_eq!(steps("(?=a)b"), None);
/// ```
pub fn steps(pattern: &str) -> Option<u64> {
    let parsed = regex_syntax::ParserBuilder::new().utf8(false).build().parse(pattern);
    parsed.ok().map(|hir| written_out(&hir))
}

fn written_out(hir: &Hir) -> u64 {
    let sum = |parts: &[Hir]| parts.iter().map(written_out).fold(0, u64::saturating_add);
    match hir.kind() {
        HirKind::Empty | HirKind::Look(_) | HirKind::Class(_) => 1,
        HirKind::Literal(text) => text.0.len() as u64,
        HirKind::Capture(capture) => written_out(&capture.sub),
        HirKind::Concat(parts) | HirKind::Alternation(parts) => sum(parts),
        HirKind::Repetition(repeated) => {
            let times = repeated.max.unwrap_or(repeated.min).max(1);
            written_out(&repeated.sub).saturating_mul(u64::from(times))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_are_as_long_as_they_are_written_out() {
        for (pattern, expected) in [
            ("abc", Some(3)),
            ("a|b", Some(1)),
            ("(ab){3}", Some(6)),
            ("(ab){2,5}", Some(10)),
            ("x+y*", Some(2)),
            ("(a{1000}){1000}", Some(1_000_000)),
            ("(((a{1000}){1000}){1000}){1000}", Some(1_000_000_000_000)),
            ("(", None),
            (r"(a)\1", None),
        ] {
            assert_eq!(steps(pattern), expected, "{pattern}");
        }
    }
}
