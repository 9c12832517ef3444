//! CSS selectors, matched in one pass over a page.
//!
//! By hand, because the crates for it (`selectors`, `cssparser`, and what is built on them) are
//! under the MPL, which deny.toml does not list. A selector is a chain of compounds; each element
//! remembers which beginnings of the chain end at it, so that the work is elements times compounds,
//! and no selector makes a page slow.

use super::dom::{Dom, Element, Id};

const SELECTOR_BYTES_MAX: usize = 500;
/// Most compounds in one chain; each has a bit.
const COMPOUNDS_MAX: usize = 32;
const NESTING_MAX: usize = 3;
const HELP: &str = "supported are names, `*`, `#id`, `.class`, `[attribute]` with `=`, `~=`, `|=`, `^=`, `$=`, \
                    `*=`, the combinators space, `>`, `+`, `~`, lists with `,`, and `:first-child`, \
                    `:last-child`, `:only-child`, `:nth-child()`, `:empty`, `:not()`, `:is()`";

/// A list of chains: it matches what one of them matches.
#[derive(Debug)]
pub(super) struct Selector(Vec<Chain>);

#[derive(Debug)]
struct Chain(Vec<(Combinator, Vec<Test>)>);

/// How a compound relates to the one before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Combinator {
    Start,
    Descendant,
    Child,
    Next,
    Later,
}

/// A condition on one element.
#[derive(Debug)]
enum Test {
    Name(String),
    Id(String),
    Class(String),
    Attribute { name: String, relation: Relation, value: String, any_case: bool },
    FirstChild,
    LastChild,
    NthChild { step: i64, offset: i64 },
    Empty,
    Not(Vec<Vec<Test>>),
    Is(Vec<Vec<Test>>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Relation {
    Exists,
    Equals,
    Word,
    Language,
    Starts,
    Ends,
    Contains,
}

impl Selector {
    /// Reads a selector, or says what is wrong with it.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        if text.len() > SELECTOR_BYTES_MAX {
            return Err("it is longer than 500 bytes".to_owned());
        }
        let mut reader = Reader { text, at: 0 };
        reader.list().map(Self).map_err(|problem| format!("position {}: {problem}; {HELP}", reader.at + 1))
    }

    /// The elements below the document that match, in the order of the page, at most `max`.
    pub(super) fn select(&self, dom: &Dom, max: usize) -> Vec<Id> {
        let mut found = Vec::new();
        let mut states: Vec<Level> = vec![Level::new(self.0.len())];
        let mut open: Vec<Id> = vec![Dom::ROOT];
        for (id, element) in dom.elements(Dom::ROOT) {
            while open.last().copied() != dom.parent(id) && open.len() > 1 {
                open.pop();
                states.pop();
            }
            let Some(level) = states.last_mut() else { return found };
            level.index += 1;
            let place = Place { dom, id, index: level.index };
            let mut inside = Level::new(self.0.len());
            let mut matches = false;
            for (number, chain) in self.0.iter().enumerate() {
                let (bits, whole) = chain.advance(&level.chains[number], element, &place);
                matches |= whole;
                let state = &mut level.chains[number];
                (state.previous, state.earlier) = (bits, state.earlier | bits);
                inside.chains[number].parent = bits;
                inside.chains[number].above = state.above | bits;
            }
            if matches {
                found.push(id);
                if found.len() == max {
                    return found;
                }
            }
            open.push(id);
            states.push(inside);
        }
        found
    }
}

/// What is known among the children of one element.
struct Level {
    chains: Vec<State>,
    /// How many elements there were so far.
    index: i64,
}

/// Beginnings of a chain that end at relatives of the next element; one bit each.
#[derive(Clone, Default)]
struct State {
    parent: u32,
    above: u32,
    previous: u32,
    earlier: u32,
}

impl Level {
    fn new(chains: usize) -> Self {
        Self { chains: vec![State::default(); chains], index: 0 }
    }
}

/// Where an element stands.
struct Place<'d> {
    dom: &'d Dom,
    id: Id,
    /// Its number among its siblings, from 1.
    index: i64,
}

impl Chain {
    /// The beginnings that end at this element, and whether the whole chain does.
    fn advance(&self, state: &State, element: &Element, place: &Place<'_>) -> (u32, bool) {
        let mut bits = 0;
        for (number, (combinator, tests)) in self.0.iter().enumerate() {
            let before = |bits: u32| number > 0 && bits & (1 << (number - 1)) != 0;
            let related = match combinator {
                Combinator::Start => true,
                Combinator::Descendant => before(state.above),
                Combinator::Child => before(state.parent),
                Combinator::Next => before(state.previous),
                Combinator::Later => before(state.earlier),
            };
            if related && all_hold(tests, element, place) {
                bits |= 1 << number;
            }
        }
        (bits, bits & (1 << (self.0.len() - 1)) != 0)
    }
}

fn all_hold(tests: &[Test], element: &Element, place: &Place<'_>) -> bool {
    tests.iter().all(|test| test.holds(element, place))
}

impl Test {
    fn holds(&self, element: &Element, place: &Place<'_>) -> bool {
        match self {
            Self::Name(name) => element.name().eq_ignore_ascii_case(name),
            Self::Id(id) => element.attribute("id") == Some(id),
            Self::Class(class) => element.has_class(class),
            Self::Attribute { name, relation, value, any_case } => match element.attribute(name) {
                None => false,
                Some(found) if *any_case => relation.holds(&found.to_lowercase(), &value.to_lowercase()),
                Some(found) => relation.holds(found, value),
            },
            Self::FirstChild => place.index == 1,
            Self::LastChild => {
                let parent = place.dom.parent(place.id);
                parent.is_some_and(|parent| place.dom.last_element(parent) == Some(place.id))
            }
            Self::NthChild { step: 0, offset } => place.index == *offset,
            Self::NthChild { step, offset } => {
                let distance = place.index - offset;
                distance % step == 0 && distance / step >= 0
            }
            Self::Empty => place.dom.is_empty(place.id),
            Self::Not(compounds) => !compounds.iter().any(|tests| all_hold(tests, element, place)),
            Self::Is(compounds) => compounds.iter().any(|tests| all_hold(tests, element, place)),
        }
    }
}

impl Relation {
    fn holds(self, found: &str, value: &str) -> bool {
        match self {
            Self::Exists => true,
            Self::Equals => found == value,
            Self::Word => !value.is_empty() && found.split_ascii_whitespace().any(|word| word == value),
            Self::Language => {
                found == value || found.strip_prefix(value).is_some_and(|rest| rest.starts_with('-'))
            }
            Self::Starts => !value.is_empty() && found.starts_with(value),
            Self::Ends => !value.is_empty() && found.ends_with(value),
            Self::Contains => !value.is_empty() && found.contains(value),
        }
    }
}

/// Reads a selector from left to right.
struct Reader<'t> {
    text: &'t str,
    at: usize,
}

impl<'t> Reader<'t> {
    fn rest(&self) -> &'t str {
        &self.text[self.at..]
    }

    fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    fn take(&mut self, wanted: char) -> bool {
        let found = self.peek() == Some(wanted);
        if found {
            self.at += wanted.len_utf8();
        }
        found
    }

    fn space(&mut self) -> bool {
        let trimmed = self.rest().trim_start();
        let any = trimmed.len() < self.rest().len();
        self.at = self.text.len() - trimmed.len();
        any
    }

    fn list(&mut self) -> Result<Vec<Chain>, String> {
        let mut chains = vec![self.chain()?];
        while self.take(',') {
            chains.push(self.chain()?);
        }
        match self.peek() {
            None => Ok(chains),
            Some(other) => Err(format!("`{}` was not expected", other.escape_debug())),
        }
    }

    fn chain(&mut self) -> Result<Chain, String> {
        self.space();
        let mut compounds = vec![(Combinator::Start, self.compound(0)?)];
        loop {
            let spaced = self.space();
            let combinator = match self.peek() {
                None | Some(',') => break,
                Some('>') => Combinator::Child,
                Some('+') => Combinator::Next,
                Some('~') => Combinator::Later,
                Some(_) if spaced => Combinator::Descendant,
                Some(other) => return Err(format!("`{}` was not expected", other.escape_debug())),
            };
            if combinator != Combinator::Descendant {
                self.at += 1;
                self.space();
            }
            compounds.push((combinator, self.compound(0)?));
            if compounds.len() > COMPOUNDS_MAX {
                return Err(format!("it has more than {COMPOUNDS_MAX} parts"));
            }
        }
        Ok(Chain(compounds))
    }

    fn compound(&mut self, depth: usize) -> Result<Vec<Test>, String> {
        let mut tests = Vec::new();
        let star = self.take('*');
        if !star && self.peek().is_some_and(is_name_char) {
            tests.push(Test::Name(self.name()?));
        }
        loop {
            if self.take('#') {
                tests.push(Test::Id(self.name()?));
            } else if self.take('.') {
                tests.push(Test::Class(self.name()?));
            } else if self.take('[') {
                tests.push(self.attribute()?);
            } else if self.take(':') {
                self.pseudo(depth, &mut tests)?;
            } else if tests.is_empty() && !star {
                return Err("an element, `#id`, `.class` or `[attribute]` is missing".to_owned());
            } else {
                return Ok(tests);
            }
        }
    }

    /// A name; `\` takes the next character as it is, as in `sm\:hidden`.
    fn name(&mut self) -> Result<String, String> {
        let mut name = String::new();
        while let Some(c) = self.peek() {
            if c == '\\' {
                self.at += 1;
                let escaped = self.peek().ok_or("`\\` is followed by nothing")?;
                name.push(escaped);
                self.at += escaped.len_utf8();
            } else if is_name_char(c) {
                name.push(c);
                self.at += c.len_utf8();
            } else {
                break;
            }
        }
        if name.is_empty() { Err("a name is missing".to_owned()) } else { Ok(name) }
    }

    fn attribute(&mut self) -> Result<Test, String> {
        self.space();
        let name = self.name()?.to_ascii_lowercase();
        self.space();
        let relations = [
            ("~=", Relation::Word),
            ("|=", Relation::Language),
            ("^=", Relation::Starts),
            ("$=", Relation::Ends),
            ("*=", Relation::Contains),
            ("=", Relation::Equals),
        ];
        let found = relations.into_iter().find(|(sign, _)| self.rest().starts_with(sign));
        let (mut value, mut any_case) = (String::new(), false);
        let relation = match found {
            None => Relation::Exists,
            Some((sign, relation)) => {
                self.at += sign.len();
                self.space();
                value = match self.peek() {
                    Some(quote @ ('"' | '\'')) => self.quoted(quote)?,
                    _ => self.name()?,
                };
                self.space();
                any_case = self.take('i') || self.take('I');
                self.space();
                relation
            }
        };
        if !self.take(']') {
            return Err("`[` is never closed, or its value needs quotes".to_owned());
        }
        Ok(Test::Attribute { name, relation, value, any_case })
    }

    fn quoted(&mut self, quote: char) -> Result<String, String> {
        self.at += 1;
        let (value, _) = self.rest().split_once(quote).ok_or("a quote is never closed")?;
        self.at += value.len() + 1;
        Ok(value.to_owned())
    }

    fn pseudo(&mut self, depth: usize, tests: &mut Vec<Test>) -> Result<(), String> {
        let name =
            self.name().map_err(|_| "only `:first-child` and the like are supported, not `::`".to_owned())?;
        match name.to_ascii_lowercase().as_str() {
            "first-child" => tests.push(Test::FirstChild),
            "last-child" => tests.push(Test::LastChild),
            "only-child" => tests.extend([Test::FirstChild, Test::LastChild]),
            "empty" => tests.push(Test::Empty),
            "nth-child" => tests.push(self.nth()?),
            "not" => tests.push(Test::Not(self.nested(depth)?)),
            "is" | "where" => tests.push(Test::Is(self.nested(depth)?)),
            other => return Err(format!("`:{}` is not supported", other.escape_debug())),
        }
        Ok(())
    }

    fn nested(&mut self, depth: usize) -> Result<Vec<Vec<Test>>, String> {
        if depth >= NESTING_MAX {
            return Err("it is nested too deeply".to_owned());
        }
        if !self.take('(') {
            return Err("`(` is missing".to_owned());
        }
        let mut compounds = Vec::new();
        loop {
            self.space();
            compounds.push(self.compound(depth + 1)?);
            self.space();
            if self.take(')') {
                return Ok(compounds);
            }
            if !self.take(',') {
                return Err("`)` is missing, or there is a combinator within the parentheses".to_owned());
            }
        }
    }

    fn nth(&mut self) -> Result<Test, String> {
        const PROBLEM: &str = "write `:nth-child(2)`, `:nth-child(odd)` or `:nth-child(3n+1)`";
        let inside = self.rest().strip_prefix('(').and_then(|rest| rest.split_once(')')).ok_or(PROBLEM)?.0;
        self.at += inside.len() + 2;
        let formula: String =
            inside.chars().filter(|c| !c.is_whitespace()).collect::<String>().to_ascii_lowercase();
        let number = |text: &str| text.parse::<i32>().map(i64::from).map_err(|_| PROBLEM.to_owned());
        let (step, offset) = match formula.as_str() {
            "odd" => (2, 1),
            "even" => (2, 0),
            other => match other.split_once('n') {
                None => (0, number(other)?),
                Some((step, offset)) => {
                    let step = match step {
                        "" | "+" => 1,
                        "-" => -1,
                        step => number(step)?,
                    };
                    (step, if offset.is_empty() { 0 } else { number(offset)? })
                }
            },
        };
        Ok(Test::NthChild { step, offset })
    }
}

fn is_name_char(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '-' | '_' | '\\') || !c.is_ascii()
}

/// For the fuzz targets: how many elements of a page a selector finds, of `max` at most.
#[cfg(fuzzing)]
pub fn count_selected(selector: &str, page: &str, max: usize) -> Result<usize, String> {
    let selector = Selector::parse(selector)?;
    Ok(selector.select(&Dom::parse(page), max).len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const PAGE: &str = "<body><main id=m class='a b'><h1>T</h1><p class=x lang=en-GB>1</p><p>2<b>3</b></p>\
        <ul><li>4</li><li class='x y' data-k='Va lue'>5</li><li><a href='/z.pdf'>6</a></li></ul></main><p></p></body>";

    fn texts(selector: &str) -> Vec<String> {
        let dom = Dom::parse(PAGE);
        let found = Selector::parse(selector).unwrap().select(&dom, 100);
        found.iter().map(|id| super::super::visible::text(&dom, *id, 100).replace('\n', "/")).collect()
    }

    #[test]
    fn selectors_find_what_css_says() {
        let cases: &[(&str, &[&str])] = &[
            ("h1", &["T"]),
            ("P", &["1", "23", ""]),
            ("#m > p", &["1", "23"]),
            ("main b", &["3"]),
            ("main > b", &[]),
            (".x", &["1", "5"]),
            ("li.x.y", &["5"]),
            ("h1 + p", &["1"]),
            ("h1 ~ p", &["1", "23"]),
            ("h1, b", &["T", "3"]),
            ("[lang|=en]", &["1"]),
            ("[data-k='Va lue']", &["5"]),
            ("[data-k=\"va LUE\" i]", &["5"]),
            ("[data-k~=lue]", &["5"]),
            ("a[href$='.pdf']", &["6"]),
            ("a[href^='/z'], a[href*=pdf]", &["6"]),
            ("li:first-child", &["4"]),
            ("li:last-child > a", &["6"]),
            ("li:nth-child(2)", &["5"]),
            ("li:nth-child(odd)", &["4", "6"]),
            ("li:nth-child(-n+2)", &["4", "5"]),
            ("li:not(.x):not(:first-child)", &["6"]),
            ("main :is(h1, b)", &["T", "3"]),
            ("p:empty", &[""]),
            ("b:only-child", &["3"]),
            ("html body main ul li a", &["6"]),
            ("ul > li + li > a", &["6"]),
            ("*:not(*)", &[]),
        ];
        for (selector, expected) in cases {
            assert_eq!(texts(selector), *expected, "{selector}");
        }
    }

    #[test]
    fn what_is_no_selector_is_refused_with_help() {
        for text in [
            "",
            " ",
            ">",
            "a >",
            "a,,b",
            "p::before",
            "a:hover",
            "[a",
            "[a=b c]",
            ".",
            "#",
            "a(b)",
            "1&2",
            ":nth-child(x)",
            ":not(a b)",
            ":not(:not(:not(:not(a))))",
            "a{color:red}",
            "\\",
        ] {
            let problem = Selector::parse(text).unwrap_err();
            assert!(
                problem.starts_with("position ") && problem.contains(":nth-child()"),
                "{text}: {problem}"
            );
        }
        assert!(Selector::parse(&"a ".repeat(40)).unwrap_err().contains("more than 32"));
        assert!(Selector::parse(&"a".repeat(600)).unwrap_err().contains("500 bytes"));
    }

    #[test]
    fn a_dear_selector_on_a_large_page_ends() {
        let page = format!("{}{}", "<div class=a>".repeat(100), "<p class=a><i></i></p>".repeat(5_000));
        let dom = Dom::parse(&page);
        let selector = Selector::parse(&format!("{} b", ".a ".repeat(30))).unwrap();
        assert_eq!(selector.select(&dom, 10), Vec::<Id>::new());
        let siblings = Selector::parse("p ~ p ~ p ~ p ~ b, p:last-child").unwrap();
        assert_eq!(siblings.select(&dom, 10).len(), 1);
    }

    proptest! {
        #[test]
        fn no_text_makes_the_reader_panic(text in "\\PC{0,40}") {
            if let Ok(selector) = Selector::parse(&text) {
                selector.select(&Dom::parse(PAGE), 10);
            }
        }
    }
}
