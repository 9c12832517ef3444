//! What differs between two JSON values, for a person who must decide on it.

use std::time::Duration;

use serde_json::Value;
use similar::{Algorithm, TextDiff};

use crate::text::visible;

/// Most lines of a difference that are shown.
const LINES_MAX: usize = 400;
/// Longest line that is shown.
const CHARS_MAX: usize = 2_000;
/// How long the search for a short difference may go on; then a longer one will do.
const SEARCH: Duration = Duration::from_millis(200);

/// The difference as lines of a unified diff, with hidden characters made visible. What is too long
/// is cut, and says so.
pub(crate) fn diff_lines(was: &Value, now: &Value) -> Vec<String> {
    let (was, now) = (pretty(was), pretty(now));
    let diff = TextDiff::configure().algorithm(Algorithm::Myers).timeout(SEARCH).diff_lines(&was, &now);
    let text = diff.unified_diff().context_radius(3).to_string();
    let total = text.lines().count();
    let mut lines: Vec<String> = text.lines().take(LINES_MAX).map(cut).collect();
    if total > LINES_MAX {
        lines.push(format!("… and {} more lines", total - LINES_MAX));
    }
    lines
}

/// Keys sorted, and texts of several lines written as several: a change in a long description
/// should be seen where it is.
fn pretty(value: &Value) -> String {
    let mut text = String::new();
    write(value, 0, &mut text);
    text.push('\n');
    visible(&text).into_owned()
}

fn write(value: &Value, depth: usize, text: &mut String) {
    let indent = |text: &mut String, depth: usize| text.extend(std::iter::repeat_n("  ", depth));
    match value {
        Value::Object(fields) if !fields.is_empty() => {
            let mut sorted: Vec<_> = fields.iter().collect();
            sorted.sort_unstable_by_key(|(key, _)| *key);
            text.push_str("{\n");
            for (key, item) in sorted {
                indent(text, depth + 1);
                text.push_str(&Value::from(key.as_str()).to_string());
                text.push_str(": ");
                write(item, depth + 1, text);
                text.push('\n');
            }
            indent(text, depth);
            text.push('}');
        }
        Value::Array(items) if !items.is_empty() => {
            text.push_str("[\n");
            for item in items {
                indent(text, depth + 1);
                write(item, depth + 1, text);
                text.push('\n');
            }
            indent(text, depth);
            text.push(']');
        }
        Value::String(string) if string.contains('\n') => {
            text.push('|');
            for line in string.split('\n') {
                text.push('\n');
                indent(text, depth + 1);
                // Quoted like any other text, so that no line of it passes for a part of the JSON.
                text.push_str(&Value::from(line).to_string());
            }
        }
        other => text.push_str(&other.to_string()),
    }
}

fn cut(line: &str) -> String {
    match line.char_indices().nth(CHARS_MAX) {
        None => line.to_owned(),
        Some((end, _)) => {
            format!("{}… and {} more characters", &line[..end], line[end..].chars().count())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_change_is_shown_where_it_is() {
        let was = json!({ "b": "one\ntwo\nthree", "a": [1, {}], "c": null });
        let now = json!({ "a": [1, {}], "b": "one\n2\nthree", "c": "\u{200b}" });
        let lines = diff_lines(&was, &now);
        assert!(lines.contains(&"-    \"two\"".to_owned()), "{lines:#?}");
        assert!(lines.contains(&"+    \"2\"".to_owned()), "{lines:#?}");
        assert!(lines.contains(&"+  \"c\": \"\\u{200b}\"".to_owned()), "{lines:#?}");
        assert!(diff_lines(&was, &was).is_empty());
    }

    #[test]
    fn a_hostile_change_is_cut_and_says_so() {
        let long: Vec<String> = (0..20_000).map(|n| n.to_string()).collect();
        let lines = diff_lines(&json!(["x".repeat(100_000)]), &json!(long));
        assert!(lines.len() <= LINES_MAX + 1);
        assert!(lines.last().unwrap().contains("more lines"));
        assert!(lines.iter().all(|line| line.chars().count() < CHARS_MAX + 100));
        assert!(lines.iter().any(|line| line.contains("more characters")));
    }
}
