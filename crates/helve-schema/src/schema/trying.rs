//! Patterns that are matched by trying.
//!
//! Most patterns are matched in one pass over a text. One that looks around or back, or that is possessive,
//! is tried at every place of it, in every way that leads on, and each attempt may go through all that follows.

use regex_syntax::ast::parse::Parser;
use regex_syntax::ast::{
    AssertionKind, Ast, ErrorKind, GroupKind, Repetition, RepetitionKind, RepetitionRange,
};

use crate::regexp::steps;

/// Most attempts at one text. A match that does not end within them is given up.
pub(super) const ATTEMPTS_MAX: usize = 4_096;

/// Most memory that a pattern may take compiled, in bytes.
pub(super) const COMPILED_BYTES_MAX: usize = 1 << 20;

/// Fewer attempts than these are not told apart.
const ATTEMPTS_MIN: usize = 128;

/// Most places in a pattern at which it looks around or back: it is read once more for each.
const MARKS_MAX: usize = 100;

/// What groups are called that stand for look-around and for references back.
const MARK: &str = "helve_mark_";

/// A pattern as the validator reads it.
pub(super) struct Read {
    translated: String,
    shape: Shape,
    looks: bool,
}

/// Why a pattern is not read.
pub(super) enum Unread {
    /// It is none, which the validator will say.
    NoPattern,
    /// Nobody knows how long it would take.
    Immeasurable,
}

impl Read {
    pub(super) fn of(pattern: &str) -> Result<Self, Unread> {
        let translated = jsonschema_regex::to_rust_regex(pattern).map_err(|()| Unread::NoPattern)?;
        let (ast, marks) = mark(&translated).ok_or(Unread::Immeasurable)?;
        let within = Within { looks_back: marks.back > 0, cut: false };
        let shape = Shape::of(&ast, within);
        Ok(Self { translated: translated.into_owned(), shape, looks: marks.around + marks.back > 0 })
    }

    /// How many steps it takes for a byte of text in one pass.
    pub(super) fn steps(&self) -> usize {
        let steps = steps(&self.translated).map(|steps| usize::try_from(steps).unwrap_or(usize::MAX));
        steps.unwrap_or(self.shape.steps)
    }

    /// Whether it can be matched by trying only.
    pub(super) fn must_be_tried(&self) -> bool {
        self.looks || self.shape.is_possessive
    }

    /// Whether it would be tried where one next to it has to be: boundaries of words are no part of one pass then.
    pub(super) fn may_be_tried(&self) -> bool {
        self.shape.is_tried
    }

    /// How it is tried.
    pub(super) fn tried(&self) -> Tried {
        let matcher = fancy_regex::RegexBuilder::new(&self.translated)
            .backtrack_limit(ATTEMPTS_MAX)
            .delegate_size_limit(COMPILED_BYTES_MAX)
            .build();
        Tried { steps: self.shape.steps, rounds: self.shape.rounds, matcher: matcher.ok() }
    }
}

/// Where in a pattern an expression stands.
#[derive(Clone, Copy)]
struct Within {
    /// The pattern refers back, so that groups have to be tried.
    looks_back: bool,
    /// An attempt, once it succeeded, keeps no place to go back to. What is repeated here costs none of the
    /// attempts that are counted.
    cut: bool,
}

/// What there is in an expression to be tried. Taken from what is written: an expression that says little
/// may be gone through often, such as `(?:\b){1000000}`.
#[derive(Default)]
struct Shape {
    /// How long it is, written out.
    steps: usize,
    is_tried: bool,
    /// It repeats a repetition, such as `a*+`: to who tries that means that nothing is given back.
    is_possessive: bool,
    /// How many loops within each other go through a text without being counted.
    rounds: u32,
}

impl Shape {
    fn of(ast: &Ast, within: Within) -> Self {
        let one = Self { steps: 1, ..Self::default() };
        match ast {
            Ast::Literal(literal) => Self { steps: literal.c.len_utf8(), ..one },
            Ast::Empty(_)
            | Ast::Flags(_)
            | Ast::Dot(_)
            | Ast::ClassUnicode(_)
            | Ast::ClassPerl(_)
            | Ast::ClassBracketed(_) => one,
            Ast::Assertion(assertion) => Self { is_tried: is_of_words(&assertion.kind), ..one },
            Ast::Group(group) => {
                let is_mark =
                    matches!(&group.kind, GroupKind::CaptureName { name, .. } if name.name.starts_with(MARK));
                let shape = Self::of(&group.ast, Within { cut: within.cut || is_mark, ..within });
                Self { is_tried: shape.is_tried || is_mark || within.looks_back, ..shape }
            }
            Ast::Repetition(repeated) => Self::repeated(repeated, within),
            Ast::Alternation(parts) => Self::all(&parts.asts, within),
            Ast::Concat(parts) => Self::all(&parts.asts, within),
        }
    }

    fn repeated(repeated: &Repetition, within: Within) -> Self {
        let is_possessive = matches!(*repeated.ast, Ast::Repetition(_));
        let cut = within.cut || is_possessive;
        let shape = Self::of(&repeated.ast, Within { cut, ..within });
        let (times, has_end) = match repeated.op.kind {
            RepetitionKind::ZeroOrOne => (1, true),
            RepetitionKind::ZeroOrMore | RepetitionKind::OneOrMore => (1, false),
            RepetitionKind::Range(RepetitionRange::AtLeast(least)) => (least, false),
            RepetitionKind::Range(RepetitionRange::Exactly(most) | RepetitionRange::Bounded(_, most)) => {
                (most, true)
            }
        };
        Self {
            steps: shape.steps.saturating_mul(times.max(1) as usize),
            is_tried: shape.is_tried || is_possessive,
            is_possessive: shape.is_possessive || is_possessive,
            rounds: shape.rounds + u32::from(cut && shape.is_tried && !has_end),
        }
    }

    fn all(parts: &[Ast], within: Within) -> Self {
        parts.iter().map(|part| Self::of(part, within)).fold(Self::default(), |all, part| Self {
            steps: all.steps.saturating_add(part.steps),
            is_tried: all.is_tried || part.is_tried,
            is_possessive: all.is_possessive || part.is_possessive,
            rounds: all.rounds.max(part.rounds),
        })
    }
}

fn is_of_words(kind: &AssertionKind) -> bool {
    match kind {
        AssertionKind::StartLine
        | AssertionKind::EndLine
        | AssertionKind::StartText
        | AssertionKind::EndText => false,
        AssertionKind::WordBoundary
        | AssertionKind::NotWordBoundary
        | AssertionKind::WordBoundaryStart
        | AssertionKind::WordBoundaryEnd
        | AssertionKind::WordBoundaryStartAngle
        | AssertionKind::WordBoundaryEndAngle
        | AssertionKind::WordBoundaryStartHalf
        | AssertionKind::WordBoundaryEndHalf => true,
    }
}

/// A pattern that is tried at every place of a text.
pub(super) struct Tried {
    /// How many steps one attempt takes for a byte.
    steps: usize,
    /// How often an attempt may go through the text besides that, as a power of its length.
    rounds: u32,
    matcher: Option<fancy_regex::Regex>,
}

impl Tried {
    /// How many steps it may take for a byte of a text that is so long.
    pub(super) fn steps_for_byte_of(&self, bytes: usize) -> usize {
        let attempts = bytes.max(ATTEMPTS_MIN);
        attempts.saturating_mul(bytes.saturating_pow(self.rounds)).saturating_mul(self.steps)
    }

    /// Whether it can be found out within [`ATTEMPTS_MAX`] if it matches. Finds it out, so this takes as long as that.
    pub(super) fn comes_to_an_end(&self, text: &str) -> bool {
        // The engine below panics on some patterns: https://github.com/rust-lang/regex/issues/1344
        let tried = || self.matcher.as_ref().is_some_and(|matcher| matcher.is_match(text).is_ok());
        std::panic::catch_unwind(std::panic::AssertUnwindSafe(tried)).unwrap_or(false)
    }
}

/// How many marks a pattern got.
#[derive(Default)]
struct Marks {
    around: usize,
    back: usize,
}

/// Puts a group in place of whatever the parser does not know, as often as it stops there. None where it is
/// something else than look-around or a reference back.
fn mark(pattern: &str) -> Option<(Ast, Marks)> {
    let (mut pattern, mut marks) = (pattern.to_owned(), Marks::default());
    loop {
        let error = match Parser::new().parse(&pattern) {
            Ok(ast) => return Some((ast, marks)),
            Err(error) => error,
        };
        let name = format!("(?P<{MARK}{}>", marks.around + marks.back);
        let (start, end) = (error.span().start.offset, error.span().end.offset);
        let (end, group) = match error.kind() {
            ErrorKind::UnsupportedLookAround => {
                marks.around += 1;
                (end, name)
            }
            ErrorKind::UnsupportedBackreference => {
                marks.back += 1;
                (end, name + ")")
            }
            ErrorKind::EscapeUnrecognized if pattern[start..].starts_with(r"\k<") => {
                marks.back += 1;
                (start + pattern[start..].find('>')? + 1, name + ")")
            }
            _ => return None,
        };
        if marks.around + marks.back > MARKS_MAX {
            return None;
        }
        pattern.replace_range(start..end, &group);
    }
}
