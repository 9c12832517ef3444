//! Words of people as questions to the full-text tables.

/// The words of a search, each in the question that can find it.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Search {
    /// For `unicode61`: words, each as the beginning of one.
    pub(super) words: Option<String>,
    /// For `trigram`: runs of three characters and more in scripts that put no spaces between words.
    pub(super) runs: Option<String>,
    /// As a JSON list of patterns: what neither table can find, such as two characters of Chinese, or `++`.
    pub(super) parts: String,
}

impl Search {
    /// For a table that has trigrams next to it.
    pub(super) fn new(words: &[String]) -> Self {
        Self::of(words, true)
    }

    /// For a table that has none.
    pub(super) fn without_runs(words: &[String]) -> Self {
        Self::of(words, false)
    }

    fn of(words: &[String], has_runs: bool) -> Self {
        let (mut plain, mut runs, mut parts) = (Vec::new(), Vec::new(), Vec::new());
        for word in words {
            match kind(word) {
                Kind::Word => plain.push(format!("{} *", quoted(word))),
                Kind::Run if has_runs => runs.push(quoted(word)),
                Kind::Run | Kind::Part => parts.push(pattern(word)),
            }
        }
        let all = |words: Vec<String>| (!words.is_empty()).then(|| words.join(" AND "));
        Self { words: all(plain), runs: all(runs), parts: serde_json::json!(parts).to_string() }
    }
}

enum Kind {
    Word,
    Run,
    Part,
}

fn kind(word: &str) -> Kind {
    if !word.chars().any(char::is_alphanumeric) {
        return Kind::Part;
    }
    match (word.chars().any(is_unspaced), word.chars().count() >= 3) {
        (false, _) => Kind::Word,
        (true, true) => Kind::Run,
        (true, false) => Kind::Part,
    }
}

/// Whether a script puts no spaces between words: Thai to Khmer, and all of East Asia.
fn is_unspaced(c: char) -> bool {
    matches!(c, '\u{e00}'..='\u{eff}' | '\u{1000}'..='\u{109f}' | '\u{1780}'..='\u{17ff}' | '\u{2e80}'..='\u{9fff}'
        | '\u{ac00}'..='\u{d7af}' | '\u{f900}'..='\u{faff}' | '\u{ff00}'..='\u{ffef}' | '\u{20000}'..='\u{3ffff}')
}

/// A word as FTS5 takes it for nothing but a word.
fn quoted(word: &str) -> String {
    format!("\"{}\"", word.replace('"', "\"\""))
}

/// A pattern of `LIKE` that finds a text anywhere.
fn pattern(text: &str) -> String {
    let escaped = text.replace('\\', "\\\\").replace('%', "\\%").replace('_', "\\_");
    format!("%{escaped}%")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_word_goes_to_the_table_that_can_find_it() {
        let words = ["c++", "OR", "a\"b", "会議", "予算会議", "++", "50%"].map(str::to_owned);
        let search = Search::new(&words);
        assert_eq!(search.words.as_deref(), Some("\"c++\" * AND \"OR\" * AND \"a\"\"b\" * AND \"50%\" *"));
        assert_eq!(search.runs.as_deref(), Some("\"予算会議\""));
        assert_eq!(search.parts, r#"["%会議%","%++%"]"#);
        assert_eq!(Search::new(&[]), Search { parts: "[]".to_owned(), ..Search::default() });
    }
}
