//! The ways to read a text of a call's arguments.
//!
//! A rule that forbids is held against each of them, so that the same thing written otherwise does not slip
//! past it. One that allows is held against the text itself, and only where that can mean one thing.

use serde_json::Value;

use crate::definition::Category;
use crate::tool::Tool;

/// Longest path that Linux takes. What is longer is none.
const PATH_BYTES_MAX: usize = 4_095;
/// Most words before a command that are looked past.
const LEADING_MAX: usize = 32;
/// What ends one command of a shell and begins another.
const BETWEEN_COMMANDS: [char; 10] = [';', '&', '|', '\n', '\r', '(', ')', '{', '}', '`'];
/// Words that a command may stand behind.
const BEFORE_COMMANDS: [&str; 14] = [
    "!", "if", "then", "elif", "else", "while", "until", "do", "time", "command", "exec", "env", "nohup",
    "sudo",
];

/// The name of the argument that says most of what a call does.
pub(super) fn main_name(tool: &Tool) -> Option<&str> {
    const USUAL: [&str; 8] = ["path", "file_path", "command", "code", "url", "query", "paths", "pattern"];
    let properties = tool.input().json().get("properties")?;
    if let Some(usual) = USUAL.into_iter().find(|name| properties.get(*name).is_some()) {
        return Some(usual);
    }
    let required = tool.input().json().get("required")?.as_array()?;
    let is_text = |name: &&str| properties.get(*name).is_some_and(|schema| schema["type"] == "string");
    let mut texts = required.iter().filter_map(Value::as_str).filter(is_text);
    match (texts.next(), texts.next()) {
        (Some(sole), None) => Some(sole),
        (Some(_), Some(_)) | (None, _) => None,
    }
}

/// Whether a text is what it looks like: no way up in a path, nothing after a command.
pub(super) fn is_plain(text: &str, tool: &Tool) -> bool {
    let leads_away = text.split(['/', '\\']).any(|segment| segment == "..");
    let goes_on = runs_code(tool)
        && text.contains([';', '|', '&', '$', '`', '<', '>', '(', ')', '{', '}', '\n', '\r', '\\']);
    !leads_away && !goes_on && !text.chars().any(char::is_control)
}

/// Whether a text fits a pattern in one of the ways to read it.
pub(super) fn any(text: &str, tool: &Tool, pattern: &str, fits: &dyn Fn(&str) -> bool) -> bool {
    // `*/a` is about places in a folder, and not about those above it that a path from `/` has too.
    let is_alike = |spelling: &String| pattern.starts_with('/') || !spelling.starts_with('/');
    fits(text)
        || shortest(text).is_some_and(|path| fits(&path))
        || (runs_code(tool) && a_command(text, fits))
        || match tool.spellings(text) {
            Some(spellings) => spellings.iter().any(|spelling| is_alike(spelling) && fits(spelling)),
            // What its paths start at is not known, so each end of one could be meant.
            None => tool.definition().category == Category::File && an_end(text, fits),
        }
}

/// Whether what it is given is code: by its category, or because it says so itself, as tools of MCP servers do,
/// which have no category.
fn runs_code(tool: &Tool) -> bool {
    tool.definition().category == Category::Code || matches!(main_name(tool), Some("command" | "code"))
}

/// A path without detours, where it has some.
fn shortest(text: &str) -> Option<String> {
    let has_detours = ["./", "//", "/."].into_iter().any(|detour| text.contains(detour));
    if !has_detours && !text.ends_with('/') {
        return None;
    }
    let mut segments: Vec<&str> = Vec::new();
    for segment in text.split('/') {
        match segment {
            "" | "." => {}
            ".." => drop(segments.pop()),
            name => segments.push(name),
        }
    }
    let root = if text.starts_with('/') { "/" } else { "" };
    Some(format!("{root}{}", segments.join("/")))
}

/// Whether what follows one of an absolute path's slashes fits.
fn an_end(text: &str, fits: &dyn Fn(&str) -> bool) -> bool {
    if !text.starts_with('/') || text.len() > PATH_BYTES_MAX {
        return false;
    }
    let path = shortest(text).unwrap_or_else(|| text.to_owned());
    path.match_indices('/').any(|(at, _)| fits(&path[at + 1..]))
}

/// Whether one of the commands that a shell would find fits. This finds what is written plainly and no more:
/// there is no end of ways to have a program run.
fn a_command(code: &str, fits: &dyn Fn(&str) -> bool) -> bool {
    let code = code.replace("\\\n", " ");
    code.split(BETWEEN_COMMANDS).any(|piece| {
        let words: Vec<&str> = piece.split_whitespace().collect();
        let starts = starts(&words);
        starts.len() > LEADING_MAX || starts.into_iter().any(|start| fits(&words[start..].join(" ")))
    })
}

/// Where a command may start: at the first word, and behind each that only leads to it.
fn starts(words: &[&str]) -> Vec<usize> {
    let mut starts = Vec::new();
    let mut start = 0;
    while start < words.len() && starts.len() <= LEADING_MAX {
        starts.push(start);
        start = match words[start] {
            word if BEFORE_COMMANDS.contains(&word) => start + 1,
            word => match assigned(word) {
                Some(value) => start + 1 + quoted_words(value, &words[start + 1..]),
                None => break,
            },
        };
    }
    starts
}

/// The value of `NAME=value`.
fn assigned(word: &str) -> Option<&str> {
    let (name, value) = word.split_once('=')?;
    let is_name = !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    is_name.then_some(value)
}

/// How many of the following words belong to a value whose quote is still open.
fn quoted_words(value: &str, following: &[&str]) -> usize {
    let odd = |word: &str, quote: char| word.matches(quote).count() % 2 == 1;
    let Some(quote) = ['"', '\''].into_iter().find(|quote| odd(value, *quote)) else { return 0 };
    following.iter().position(|word| odd(word, quote)).map_or(0, |end| end + 1)
}
