//! Expressions cut into words, where the library that reads them does not tell what is in them.

/// What an expression is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Word<'t> {
    /// A name, a number or an operator such as `and`.
    Plain(&'t str),
    /// What stands between quotes.
    Quoted(&'t str),
    /// Any other character but a space.
    Mark(char),
}

/// The words of a text, each with where it begins. What is quoted and never ends is no word.
pub(crate) fn words(text: &str) -> impl Iterator<Item = (usize, Word<'_>)> {
    let mut at = 0;
    std::iter::from_fn(move || {
        at += text[at..].find(|c: char| !c.is_whitespace())?;
        let (start, rest) = (at, &text[at..]);
        let first = rest.chars().next()?;
        let is_plain = |c: char| c.is_alphanumeric() || c == '_';
        let word = match first {
            '\'' | '"' => {
                let length = quoted_bytes(&rest[1..], first)?;
                at += length + 2;
                Word::Quoted(&rest[1..=length])
            }
            first if is_plain(first) => {
                let length = rest.find(|c| !is_plain(c)).unwrap_or(rest.len());
                at += length;
                Word::Plain(&rest[..length])
            }
            first => {
                at += first.len_utf8();
                Word::Mark(first)
            }
        };
        Some((start, word))
    })
}

/// How long a quoted text is, up to the mark that ends it.
fn quoted_bytes(text: &str, mark: char) -> Option<usize> {
    let mut is_escaped = false;
    text.find(|c| {
        let ends = c == mark && !is_escaped;
        is_escaped = c == '\\' && !is_escaped;
        ends
    })
}

/// Where the `}}` begins that ends the expression at the beginning of a text: not one within quotes,
/// and not one of braces that the expression opened itself.
pub(crate) fn end_of_expression(text: &str) -> Option<usize> {
    let mut open = 0_usize;
    for (at, word) in words(text) {
        match word {
            Word::Mark('}') if open == 0 && text[at..].starts_with("}}") => return Some(at),
            Word::Mark('{' | '[' | '(') => open += 1,
            Word::Mark('}' | ']' | ')') => open = open.saturating_sub(1),
            Word::Mark(_) | Word::Plain(_) | Word::Quoted(_) => {}
        }
    }
    None
}

/// A filter or a test, by the name that an expression gives it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Used<'t> {
    Filter(&'t str),
    Test(&'t str),
}

/// The filters and tests that an expression uses.
pub(crate) fn used(text: &str) -> Vec<Used<'_>> {
    let words: Vec<_> = words(text).collect();
    let mut found = Vec::new();
    for at in 0..words.len() {
        let is_field = at > 0 && words[at - 1].1 == Word::Mark('.');
        match &words[at..] {
            [(_, Word::Mark('|')), rest @ ..] => {
                if let Some((filter, rest)) = name(text, rest) {
                    found.push(Used::Filter(filter));
                    found.extend(given(filter, rest));
                }
            }
            [(_, Word::Plain("is")), (_, Word::Plain("not")), rest @ ..]
            | [(_, Word::Plain("is")), rest @ ..]
                if !is_field =>
            {
                found.extend(name(text, rest).map(|(test, _)| Used::Test(test)));
            }
            _ => {}
        }
    }
    found
}

/// The name of a filter or a test, with its dots, and what follows it.
fn name<'t, 'w>(text: &'t str, words: &'w [(usize, Word<'t>)]) -> Option<(&'t str, &'w [(usize, Word<'t>)])> {
    let [(start, Word::Plain(first)), rest @ ..] = words else { return None };
    let (mut end, mut rest) = (start + first.len(), rest);
    while let [(_, Word::Mark('.')), (at, Word::Plain(part)), after @ ..] = rest {
        (end, rest) = (at + part.len(), after);
    }
    Some((&text[*start..end], rest))
}

/// The filter or test that a filter is given to apply to each item.
fn given<'t>(filter: &str, rest: &[(usize, Word<'t>)]) -> Option<Used<'t>> {
    let mut rest = rest.iter().map(|(_, word)| *word);
    let mut next = || rest.next();
    match (filter, [next(), next(), next(), next()]) {
        ("map", [Some(Word::Mark('(')), Some(Word::Quoted(name)), ..]) => Some(Used::Filter(name)),
        ("select" | "reject", [Some(Word::Mark('(')), Some(Word::Quoted(name)), ..]) => {
            Some(Used::Test(name))
        }
        (
            "selectattr" | "rejectattr",
            [Some(Word::Mark('(')), Some(Word::Quoted(_)), Some(Word::Mark(',')), Some(Word::Quoted(name))],
        ) => Some(Used::Test(name)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_expression_ends_where_its_braces_and_quotes_do() {
        for (text, expected) in [
            (" a }} b }}", Some(" a ")),
            (" {'x': {'y': a}} }} z", Some(" {'x': {'y': a}} ")),
            (" {'x': {'y': a}}}}", Some(" {'x': {'y': a}}")),
            (" '}}' + \"}\\\"}\" }}", Some(" '}}' + \"}\\\"}\" ")),
            (" it's }}", None),
            (" {a }}", None),
            (" ü[ 'ß' ] }}", Some(" ü[ 'ß' ] ")),
            ("", None),
        ] {
            assert_eq!(end_of_expression(text).map(|end| &text[..end]), expected, "{text}");
        }
    }

    #[test]
    fn filters_and_tests_are_found_wherever_they_stand() {
        use Used::{Filter, Test};
        for (text, expected) in [
            ("a | merge(b|first) | join(',')", &[Filter("merge"), Filter("first"), Filter("join")][..]),
            ("a is odd and b is not nosuch", &[Test("odd"), Test("nosuch")]),
            ("a.is > 1 and ' | x is y'", &[]),
            ("a | map('upper') | map(attribute='x')", &[Filter("map"), Filter("upper"), Filter("map")]),
            ("a | selectattr('x', 'odd')", &[Filter("selectattr"), Test("odd")]),
            ("a | reject('odd')", &[Filter("reject"), Test("odd")]),
            ("a | default.foo(b) and a is odd.x", &[Filter("default.foo"), Test("odd.x")]),
        ] {
            assert_eq!(used(text), expected, "{text}");
        }
    }
}
