//! Names and texts from a document, made fit for ours.

use std::collections::{HashMap, HashSet};

use crate::common::is_invisible;

/// Keeps what both names of tools and model providers accept; at most `chars_max` characters.
pub(super) fn sanitised(text: &str, chars_max: usize) -> String {
    let mut name = String::new();
    for c in text.chars().take(chars_max * 2) {
        // Providers refuse a dot, and two underscores stand for a slash in their names.
        let c = if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' };
        if c != '_' || !name.ends_with('_') {
            name.push(c);
        }
    }
    let mut name = name.trim_matches(['_', '-']).to_owned();
    name.truncate(chars_max);
    name.trim_end_matches(['_', '-']).to_owned()
}

/// Names that are taken, so that none is given twice.
#[derive(Default)]
pub(super) struct Names {
    taken: HashSet<String>,
    /// The first number behind a name that may be free. A document may name everything alike, and then
    /// to count from the beginning each time takes for ever.
    next: HashMap<String, u32>,
}

impl Names {
    pub(super) fn has(&self, name: &str) -> bool {
        self.taken.contains(name)
    }

    pub(super) fn take(&mut self, name: &str) {
        self.taken.insert(name.to_owned());
    }

    /// The first of `wanted`, `wanted_2`, `wanted_3`, … that is free; `fallback` for an empty name.
    pub(super) fn free(&mut self, wanted: &str, fallback: &str) -> String {
        let wanted = if wanted.is_empty() { fallback } else { wanted };
        if !self.has(wanted) {
            return wanted.to_owned();
        }
        let mut number = self.next.get(wanted).copied().unwrap_or(2);
        loop {
            let name = format!("{wanted}_{number}");
            if !self.has(&name) {
                self.next.insert(wanted.to_owned(), number);
                return name;
            }
            number += 1;
        }
    }
}

/// Text for a model: no control or invisible characters, and bounded.
pub(super) fn prose(text: &str, chars_max: usize) -> String {
    let visible = |c: &char| *c != '\t' && !is_invisible(*c);
    let mut short: String = text.chars().filter(visible).take(chars_max + 1).collect();
    if short.chars().count() > chars_max {
        short.pop();
        short.truncate(short.trim_end().len());
        short.push('…');
    }
    short.trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_cleaned_and_made_unique() {
        for (text, expected) in [
            ("repos/list-for-org", "repos_list-for-org"),
            ("getPet", "getPet"),
            ("filter[status]", "filter_status"),
            ("__a..b__", "a_b"),
            ("ünïcode", "n_code"),
            ("../..", ""),
            ("abcdefghijk", "abcdefgh"),
        ] {
            assert_eq!(sanitised(text, 8.max(expected.len())), expected);
        }
        let mut names = Names::default();
        for (wanted, expected) in [("a", "a"), ("a_2", "a_2"), ("a", "a_3"), ("", "x"), ("a", "a_4")] {
            assert_eq!(names.free(wanted, "x"), expected);
            assert_eq!(names.free(wanted, "x"), expected, "as long as nobody takes it");
            names.take(expected);
        }
    }

    #[test]
    fn prose_loses_what_hides_and_what_is_too_much() {
        assert_eq!(prose("a\u{202e}b\u{e0041}c\0\r\n d ", 50), "abc\n d");
        assert_eq!(prose(&"x".repeat(20), 5), "xxxxx…");
    }
}
