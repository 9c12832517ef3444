//! `text-stats`: counts of a text.

use std::collections::HashMap;

use helve::{Context, Tool, ToolBuilder, ToolError};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use unicode_segmentation::UnicodeSegmentation;

use super::wrong_argument;

/// Longest text; keeps a call within some tens of milliseconds.
const TEXT_BYTES_MAX: usize = 500_000;
/// Longest word shown in full.
const WORD_CHARS_MAX: usize = 100;
/// Silent reading of English prose by adults (Brysbaert 2019).
const WORDS_PER_MINUTE: usize = 238;
/// The rule of thumb for today's tokenizers: a token is four bytes of UTF-8. That is a quarter of
/// a token for an ASCII letter, half for a Cyrillic one, three quarters for a Chinese character.
const BYTES_PER_TOKEN: usize = 4;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Input {
    /// The text to measure; at most 500,000 bytes.
    #[schemars(length(max = 500_000))]
    text: String,
    /// How many of the most frequent words to list, up to 50.
    #[serde(default = "default_top")]
    #[schemars(range(max = 50))]
    top: u8,
    /// Leave words shorter than this many characters out of that list, such as `a` and `the`.
    #[serde(default = "default_min_length")]
    min_length: u8,
}

fn default_top() -> u8 {
    10
}

fn default_min_length() -> u8 {
    1
}

#[derive(Debug, Serialize, JsonSchema)]
struct Output {
    /// Characters as people see them: an emoji or an accented letter counts once.
    characters: usize,
    /// Characters that are not white space.
    characters_without_spaces: usize,
    /// Words, by the Unicode rules of text segmentation.
    words: usize,
    /// Different words, whatever their case.
    unique_words: usize,
    /// Sentences, by the Unicode rules of text segmentation.
    sentences: usize,
    /// Lines, with or without a line break at the end.
    lines: usize,
    /// Blocks of lines with an empty line between them.
    paragraphs: usize,
    /// Bytes in UTF-8.
    bytes: usize,
    /// Time to read it silently, at 238 words a minute.
    reading_seconds: usize,
    /// Tokens for a language model, estimated as a quarter of the bytes.
    estimated_tokens: usize,
    /// The longest word; the first of several.
    #[serde(skip_serializing_if = "Option::is_none")]
    longest_word: Option<String>,
    /// The most frequent words in lower case, most frequent first.
    frequent_words: Vec<WordCount>,
}

#[derive(Debug, PartialEq, Serialize, JsonSchema)]
struct WordCount {
    /// The word, in lower case.
    word: String,
    /// How often it stands in the text.
    count: usize,
}

pub(super) fn tool() -> ToolBuilder {
    Tool::function(
        "text-stats",
        "Counts the characters, words, sentences, lines, paragraphs and bytes of a text; gives reading time, \
         an estimate of its tokens, the longest word and the most frequent ones.",
        |input: Input, _: Context| async move { measure(&input) },
    )
    .when_to_use("To check the length of a text against a limit, or to see which words it repeats. Do not count by yourself.")
    .example_call("How many words are in \"The quick brown fox\"?", json!({ "text": "The quick brown fox" }))
    .example_call(
        "Which longer word do I repeat most? to be or not to be that is the question",
        json!({ "text": "to be or not to be that is the question", "top": 1, "min_length": 4 }),
    )
}

fn measure(input: &Input) -> Result<Output, ToolError> {
    let text = input.text.as_str();
    if text.len() > TEXT_BYTES_MAX {
        let received = format!("{} bytes", text.len());
        let problem = "it is longer than 500,000 bytes; measure it in parts";
        return Err(wrong_argument("text", "a text of at most 500,000 bytes", &received, problem));
    }
    let words: Vec<&str> = text.unicode_words().collect();
    let mut counts: HashMap<String, usize> = HashMap::new();
    for word in &words {
        *counts.entry(word.to_lowercase()).or_default() += 1;
    }
    let (mut characters, mut characters_without_spaces) = (0, 0);
    for character in text.graphemes(true) {
        characters += 1;
        characters_without_spaces += usize::from(!character.trim().is_empty());
    }
    Ok(Output {
        characters,
        characters_without_spaces,
        words: words.len(),
        unique_words: counts.len(),
        sentences: text.unicode_sentences().count(),
        lines: text.lines().count(),
        paragraphs: paragraphs(text),
        bytes: text.len(),
        reading_seconds: (words.len() * 60).div_ceil(WORDS_PER_MINUTE),
        estimated_tokens: text.len().div_ceil(BYTES_PER_TOKEN),
        longest_word: longest(&words),
        frequent_words: most_frequent(counts, usize::from(input.top), usize::from(input.min_length)),
    })
}

fn paragraphs(text: &str) -> usize {
    let mut count = 0;
    let mut inside = false;
    for line in text.lines() {
        let blank = line.trim().is_empty();
        count += usize::from(!blank && !inside);
        inside = !blank;
    }
    count
}

fn longest(words: &[&str]) -> Option<String> {
    // `max_by_key` keeps the last of several; the reverse makes that the first.
    let word = words.iter().rev().max_by_key(|word| word.chars().count())?;
    Some(word.chars().take(WORD_CHARS_MAX).collect())
}

fn most_frequent(counts: HashMap<String, usize>, top: usize, min_length: usize) -> Vec<WordCount> {
    let mut words: Vec<WordCount> = counts
        .into_iter()
        .filter(|(word, _)| word.chars().count() >= min_length)
        .map(|(word, count)| WordCount { word, count })
        .collect();
    words.sort_unstable_by(|a, b| b.count.cmp(&a.count).then_with(|| a.word.cmp(&b.word)));
    words.truncate(top);
    for entry in &mut words {
        entry.word = entry.word.chars().take(WORD_CHARS_MAX).collect();
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn stats(text: &str) -> Output {
        measure(&Input { text: text.to_owned(), top: 2, min_length: 1 }).unwrap()
    }

    #[test]
    fn a_small_text_is_measured_in_every_way() {
        let text = "Ada's cat sat. The cat didn't move!\nWhy?\n\n  \nÉté à Москва 👩‍👩‍👧 你好\n";
        insta::assert_json_snapshot!(stats(text), @r#"
        {
          "characters": 63,
          "characters_without_spaces": 46,
          "words": 13,
          "unique_words": 12,
          "sentences": 4,
          "lines": 5,
          "paragraphs": 2,
          "bytes": 93,
          "reading_seconds": 4,
          "estimated_tokens": 24,
          "longest_word": "didn't",
          "frequent_words": [
            {
              "word": "cat",
              "count": 2
            },
            {
              "word": "ada's",
              "count": 1
            }
          ]
        }
        "#);
    }

    #[test]
    fn nothing_is_nothing() {
        for text in ["", "   \n\n  "] {
            let stats = stats(text);
            assert_eq!((stats.words, stats.paragraphs, stats.sentences), (0, 0, 0));
            assert_eq!((stats.longest_word, stats.frequent_words), (None, vec![]));
        }
    }

    #[test]
    fn short_words_can_be_left_out_of_the_frequent_ones() {
        let input = Input { text: "a a a the the house".to_owned(), top: 10, min_length: 4 };
        assert_eq!(measure(&input).unwrap().frequent_words, [WordCount { word: "house".into(), count: 1 }]);
    }

    #[test]
    fn a_text_beyond_the_limit_is_refused_and_one_long_word_is_cut() {
        let huge = Input { text: "x".repeat(TEXT_BYTES_MAX + 1), top: 1, min_length: 1 };
        assert!(measure(&huge).unwrap_err().message().contains("measure it in parts"));
        let stats = stats(&"x".repeat(TEXT_BYTES_MAX));
        assert_eq!(stats.longest_word.unwrap().len(), WORD_CHARS_MAX);
        assert_eq!(stats.frequent_words[0].word.len(), WORD_CHARS_MAX);
    }

    proptest! {
        #[test]
        fn counts_never_contradict_each_other(text in "\\PC{0,200}") {
            let stats = stats(&text);
            prop_assert!(stats.characters_without_spaces <= stats.characters);
            prop_assert!(stats.characters <= stats.bytes);
            prop_assert!(stats.unique_words <= stats.words);
            prop_assert!(stats.frequent_words.len() <= 2);
        }
    }
}
