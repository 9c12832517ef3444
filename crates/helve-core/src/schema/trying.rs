//! Patterns that are matched by trying.
//!
//! Most patterns are matched in one pass over a text. One that looks around or back, or that is possessive,
//! is tried at every place of it, in every way that leads on, and each attempt may go through all that follows.

use regex_syntax::ast::{self, Ast, ErrorKind, Visitor, parse::Parser};
use regex_syntax::hir::translate::TranslatorBuilder;
use regex_syntax::hir::{Hir, HirKind};

use crate::regexp::written_out;

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

/// A pattern as the validator reads it, with a group in place of whatever is matched only by trying.
pub(super) struct Read {
    translated: String,
    hir: Hir,
    looks_back: bool,
    is_possessive: bool,
    /// It can be matched by trying only.
    pub(super) must_be_tried: bool,
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
        let (marked, ast, marks) = mark(&translated).ok_or(Unread::Immeasurable)?;
        let hir = TranslatorBuilder::new().utf8(false).build().translate(&marked, &ast);
        let hir = hir.map_err(|_| if marks.any() { Unread::Immeasurable } else { Unread::NoPattern })?;
        let is_possessive = is_possessive(&ast);
        let must_be_tried = marks.any() || is_possessive;
        let looks_back = marks.back > 0;
        Ok(Self { translated: translated.into_owned(), hir, looks_back, is_possessive, must_be_tried })
    }

    /// How many steps it takes for a byte of text in one pass.
    pub(super) fn steps(&self) -> usize {
        usize::try_from(written_out(&self.hir)).unwrap_or(usize::MAX)
    }

    /// Whether it would be tried where one beside it has to be: boundaries of words are no part of one pass then.
    pub(super) fn may_be_tried(&self) -> bool {
        self.must_be_tried || self.hir.properties().look_set().contains_word()
    }

    /// How it is tried.
    pub(super) fn tried(&self) -> Tried {
        let matcher = fancy_regex::RegexBuilder::new(&self.translated)
            .backtrack_limit(ATTEMPTS_MAX)
            .delegate_size_limit(COMPILED_BYTES_MAX)
            .build();
        // What is possessive keeps no place to go back to, and the tree no longer says where it stands.
        let Shape { rounds, .. } = self.shape(&self.hir, self.is_possessive);
        Tried { steps: self.steps(), rounds, matcher: matcher.ok() }
    }

    /// What there is in an expression to be tried; `cut` where an attempt, once it succeeded, keeps no place to go
    /// back to. Then what is repeated in it costs no attempts of those that are counted.
    fn shape(&self, hir: &Hir, cut: bool) -> Shape {
        match hir.kind() {
            HirKind::Empty | HirKind::Literal(_) | HirKind::Class(_) => Shape::default(),
            HirKind::Look(_) => {
                let is_tried = hir.properties().look_set().contains_word();
                Shape { is_tried, ..Shape::default() }
            }
            HirKind::Capture(group) => {
                let is_mark = group.name.as_ref().is_some_and(|name| name.starts_with(MARK));
                let within = self.shape(&group.sub, cut || is_mark);
                Shape { is_tried: within.is_tried || is_mark || self.looks_back, ..within }
            }
            HirKind::Repetition(repeated) => {
                let within = self.shape(&repeated.sub, cut);
                let is_loop = cut && within.is_tried && repeated.max.is_none();
                Shape {
                    is_tried: within.is_tried || self.is_possessive,
                    rounds: within.rounds + u32::from(is_loop),
                }
            }
            HirKind::Concat(parts) | HirKind::Alternation(parts) => {
                parts.iter().map(|part| self.shape(part, cut)).fold(Shape::default(), Shape::and)
            }
        }
    }
}

/// What there is in an expression to be tried.
#[derive(Default)]
struct Shape {
    is_tried: bool,
    /// How many loops within each other go through a text without being counted.
    rounds: u32,
}

impl Shape {
    fn and(self, other: Self) -> Self {
        Self { is_tried: self.is_tried || other.is_tried, rounds: self.rounds.max(other.rounds) }
    }
}

/// A pattern that is tried at every place of a text.
pub(super) struct Tried {
    /// How many steps one attempt takes for a byte.
    steps: usize,
    /// How often an attempt may go through the text beside that, as a power of its length.
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

impl Marks {
    fn any(&self) -> bool {
        self.around + self.back > 0
    }
}

/// Puts a group in place of whatever the parser does not know, as often as it stops there. None where it is
/// something else than look-around or a reference back.
fn mark(pattern: &str) -> Option<(String, Ast, Marks)> {
    let (mut pattern, mut marks) = (pattern.to_owned(), Marks::default());
    loop {
        let error = match Parser::new().parse(&pattern) {
            Ok(ast) => return Some((pattern, ast, marks)),
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

/// Whether something is repeated that is a repetition itself, such as `a*+`. In one pass that means nothing
/// else; to who tries, it means that nothing is given back.
fn is_possessive(ast: &Ast) -> bool {
    struct Finds(bool);
    impl Visitor for Finds {
        type Output = bool;
        type Err = std::convert::Infallible;
        fn finish(self) -> Result<bool, Self::Err> {
            Ok(self.0)
        }
        fn visit_pre(&mut self, ast: &Ast) -> Result<(), Self::Err> {
            self.0 |= matches!(ast, Ast::Repetition(outer) if matches!(*outer.ast, Ast::Repetition(_)));
            Ok(())
        }
    }
    ast::visit(ast, Finds(false)).unwrap_or_else(|never| match never {})
}
