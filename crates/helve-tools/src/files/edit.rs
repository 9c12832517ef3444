//! `file-edit`: exact text replaced, or lines put in, in a file that is text.

use std::sync::Arc;
use std::time::Duration;

use helve::{Context, Facet, Tool, ToolBuilder, ToolError};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use similar::TextDiff;

use super::asked::RequestedEncoding;
use super::atomic::Locked;
use super::change::{Change, Former, blocking, change, check_size, read_whole, spot_to_write};
use super::setup::Files;
use super::text::{Decoded, decode};
use super::write::undoable;
use crate::builtin::wrong_argument;

const EDITS_MAX: usize = 100;
/// Longest diff that is given back, in bytes.
const DIFF_BYTES_MAX: usize = 8 * 1024;
const DIFF_TIME_MAX: Duration = Duration::from_millis(500);
/// Most lines that are compared with text that was not found, and most of each.
const COMPARED_LINES_MAX: usize = 20_000;
const COMPARED_CHARS_MAX: usize = 200;
const NEAR_MAX: usize = 3;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Input {
    /// File path to edit: relative to a root, or absolute within one.
    path: String,
    /// What to change, in this order. All of it is done, or nothing.
    #[schemars(length(min = 1, max = 100))]
    edits: Vec<Edit>,
    /// The file's encoding, where it is not found out right: `shift_jis`, `gbk`, `windows-1252` and others. It
    /// is kept.
    #[serde(default)]
    encoding: RequestedEncoding,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Edit {
    /// The exact text to replace, white space and indentation included. It must be there once, unless
    /// `replace_all` is set.
    old: Option<String>,
    /// What stands there afterwards; empty to delete. With `insert_line`: the lines to put in.
    new: String,
    /// Replace every occurrence of `old`.
    #[serde(default)]
    replace_all: bool,
    /// Instead of `old`: put `new` in before this line, from 1. One more than the last line appends.
    #[schemars(range(min = 1))]
    insert_line: Option<u64>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct Output {
    #[serde(flatten)]
    change: Change,
    /// How many places were changed.
    replacements: u64,
    /// What changed, as a unified diff; shortened where it is long.
    diff: String,
    /// The file's encoding, which was kept.
    encoding: String,
}

pub(super) fn tool(files: &Arc<Files>) -> ToolBuilder {
    let shared = Arc::clone(files);
    let builder = Tool::function(
        "file-edit",
        "Changes parts of a text file: replaces exact text, or puts lines in. Several edits are done together or \
         not at all. Keeps the file's encoding and line endings. Returns a short diff. What was there before is \
         kept, so that the call can be undone.",
        move |input: Input, context: Context| {
            let files = Arc::clone(&shared);
            async move { blocking(&files, move |files| answer(files, &input, &context)).await }
        },
    )
    .alias("file:edit")
    .when_to_use(
        "To change parts of an existing text file. Read the file first, and copy `old` from it exactly, with \
         enough around it to be unique. To write a whole file, use `file-write`.",
    )
    .example_call(
        "Raise the limit to 20",
        json!({ "path": "config.toml", "edits": [{ "old": "limit = 10", "new": "limit = 20" }] }),
    )
    .example_call(
        "Rename `colour` to `color` everywhere, and put a note on top",
        json!({ "path": "style.css", "edits": [
            { "old": "colour", "new": "color", "replace_all": true },
            { "insert_line": 1, "new": "/* American spelling */" },
        ] }),
    );
    // Its diff, and what it says of text that it did not find, show what is in the file.
    undoable(builder, files, "edit").facets([Facet::ReadsPrivate, Facet::Mutates])
}

fn answer(files: &Files, input: &Input, context: &Context) -> Result<Output, ToolError> {
    if input.edits.is_empty() || input.edits.len() > EDITS_MAX {
        let received = input.edits.len().to_string();
        return Err(wrong_argument("edits", "1 to 100 edits", &received, "give from 1 to 100 edits"));
    }
    let spot = spot_to_write(files, &input.path)?;
    let locked = Locked::new(&spot, context.deadline())?;
    let (stat, bytes) = read_whole(&spot, files.config.write_bytes)?;
    let Some(bytes) = bytes else {
        check_size(files, u64::try_from(stat.st_size).unwrap_or(u64::MAX), &spot.shown)?;
        return Err(ToolError::failed(format!("`{}` is growing while it is read", spot.shown)));
    };
    let former = Former { stat, content: Some(bytes.clone()) };
    let decoded = decoded(bytes, input.encoding, &spot.shown)?;
    let endings = Endings::of(&decoded.text);
    let (mut text, mut replacements) = (decoded.text.clone(), 0);
    for (index, edit) in input.edits.iter().enumerate() {
        replacements += apply(edit, index, endings, &mut text)?;
        check_size(files, text.len() as u64, &spot.shown)?;
    }
    if let Some(alien) =
        text.chars().find(|char| input.encoding == RequestedEncoding::Ascii && !char.is_ascii())
    {
        return Err(no_place(&spot.shown, "ascii", alien));
    }
    let content = decoded.encode(&text).map_err(|alien| no_place(&spot.shown, &decoded.encoding(), alien))?;
    let diff = diff(&decoded.text, &text, &spot.shown);
    let encoding = decoded.encoding();
    change(files, &locked, Some(&former), &content, context, |change| Output {
        change,
        replacements,
        diff,
        encoding,
    })
}

/// The file's text, in the encoding that was asked for and no other.
fn decoded(bytes: Vec<u8>, asked: RequestedEncoding, shown: &str) -> Result<Decoded, ToolError> {
    let named = match asked {
        RequestedEncoding::Auto => None,
        RequestedEncoding::Ascii => match bytes.iter().position(|byte| !byte.is_ascii()) {
            Some(at) => {
                let message = format!("`{shown}` is not ASCII: byte {at} is something else");
                let found_out = "leave `encoding` out, so that it is found out";
                return Err(ToolError::failed(message).suggest(found_out));
            }
            None => Some(encoding_rs::UTF_8),
        },
        RequestedEncoding::Utf8 => Some(encoding_rs::UTF_8),
        RequestedEncoding::Named(encoding) => Some(encoding),
        RequestedEncoding::Base64 => {
            let problem = "only text is edited; name its encoding, or leave it out";
            return Err(wrong_argument("encoding", "the encoding of a text", "base64", problem));
        }
    };
    decode(bytes, named).map_err(|what| {
        ToolError::failed(format!("`{shown}` is {what}, which is not edited"))
            .suggest("use `file-write` with overwrite to replace the whole file")
    })
}

/// The file's encoding cannot write a character.
fn no_place(shown: &str, encoding: &str, alien: char) -> ToolError {
    ToolError::failed(format!("`{shown}` is {encoding}, which has no `{alien}`"))
        .suggest("write it with other characters, or replace the whole file with `file-write`")
}

/// How the lines of a file end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Endings {
    Unix,
    /// Every line ends like on Windows, so what is put in does too.
    Windows,
}

impl Endings {
    fn of(text: &str) -> Self {
        let all = memchr::memchr_iter(b'\n', text.as_bytes()).count();
        let windows = text.matches("\r\n").count();
        if windows > 0 && windows == all { Self::Windows } else { Self::Unix }
    }

    fn fit(self, text: &str) -> String {
        match self {
            Self::Unix => text.to_owned(),
            Self::Windows => text.replace("\r\n", "\n").replace('\n', "\r\n"),
        }
    }

    fn as_str(self) -> &'static str {
        match self {
            Self::Unix => "\n",
            Self::Windows => "\r\n",
        }
    }
}

/// Makes one edit; gives the number of places.
fn apply(edit: &Edit, index: usize, endings: Endings, text: &mut String) -> Result<u64, ToolError> {
    let new = endings.fit(&edit.new);
    let field = |name: &str| format!("edits/{index}/{name}");
    match (&edit.old, edit.insert_line) {
        (Some(old), None) => {
            let old = endings.fit(old);
            if old.is_empty() {
                let problem = "it is empty; to put text in, give `insert_line` instead";
                return Err(wrong_argument(&field("old"), "text of the file", "", problem));
            }
            if old == new {
                return Err(wrong_argument(
                    &field("new"),
                    "another text",
                    &edit.new,
                    "it is the same as `old`",
                ));
            }
            let found = text.matches(old.as_str()).count();
            match (found, edit.replace_all) {
                (0, _) => return Err(not_found(&field("old"), &old, text)),
                (1, _) | (_, true) => *text = text.replace(old.as_str(), &new),
                (_, false) => return Err(not_unique(&field("old"), &old, found, text)),
            }
            Ok(found as u64)
        }
        (None, Some(line)) => insert(line, &new, endings, text).map(|()| 1).map_err(|problem| {
            wrong_argument(&field("insert_line"), "a line of the file", &line.to_string(), &problem)
        }),
        (Some(_), Some(_)) | (None, None) => {
            let problem = "give `old` to replace text, or `insert_line` to put lines in: one of them";
            Err(wrong_argument(&format!("edits/{index}"), "`old` or `insert_line`", "", problem))
        }
    }
}

fn insert(line: u64, new: &str, endings: Endings, text: &mut String) -> Result<(), String> {
    let ends: Vec<_> = memchr::memchr_iter(b'\n', text.as_bytes()).map(|end| end + 1).collect();
    let has_last_end = text.is_empty() || text.ends_with('\n');
    let lines = ends.len() as u64 + u64::from(!has_last_end);
    if line == 0 || line > lines + 1 {
        return Err(format!("the file has {lines} lines, so a line from 1 to {} can be named", lines + 1));
    }
    let before = usize::try_from(line - 1).unwrap_or(usize::MAX);
    let at = if before == 0 { 0 } else { ends.get(before - 1).copied().unwrap_or(text.len()) };
    let mut lines = String::new();
    if at == text.len() && !has_last_end {
        lines.push_str(endings.as_str());
        lines.push_str(new.strip_suffix(endings.as_str()).unwrap_or(new));
    } else {
        lines.push_str(new);
        if !new.ends_with('\n') {
            lines.push_str(endings.as_str());
        }
    }
    text.insert_str(at, &lines);
    Ok(())
}

fn line_at(text: &str, offset: usize) -> usize {
    memchr::memchr_iter(b'\n', &text.as_bytes()[..offset]).count() + 1
}

fn not_unique(field: &str, old: &str, found: usize, text: &str) -> ToolError {
    const SHOWN_MAX: usize = 5;
    let lines: Vec<_> =
        text.match_indices(old).take(SHOWN_MAX).map(|(at, _)| line_at(text, at).to_string()).collect();
    let more = if found > SHOWN_MAX { ", …" } else { "" };
    let problem = format!("it is there {found} times, in lines {}{more}", lines.join(", "));
    wrong_argument(field, "text that is there once", old, &problem)
        .suggest("add more of what stands around it, so that it is unique")
        .suggest("set replace_all: true to replace all of them")
}

fn not_found(field: &str, old: &str, text: &str) -> ToolError {
    let error = |problem: &str| wrong_argument(field, "text of the file", old, problem);
    if let Some(line) = found_but_for_space(old, text) {
        return error(&format!("it is not in the file; but for white space it is, at line {line}"))
            .suggest(format!("read the file from line {line}, and copy `old` with its exact white space"));
    }
    let near = near_lines(old, text);
    if near.is_empty() {
        return error("it is not in the file, and nothing like it").suggest("read the file first");
    }
    let near: Vec<_> = near.into_iter().map(|(line, text)| format!("line {line}: `{text}`")).collect();
    error("it is not in the file").suggest(format!("similar: {}", near.join("; ")))
}

/// The line where the text would be if white space did not count.
fn found_but_for_space(old: &str, text: &str) -> Option<usize> {
    let wanted: Vec<_> = old.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let lines = text.lines().enumerate().map(|(index, line)| (index + 1, line.trim()));
    let lines: Vec<_> = lines.filter(|(_, line)| !line.is_empty()).take(COMPARED_LINES_MAX).collect();
    if wanted.is_empty() || wanted.len() > 200 {
        return None;
    }
    let same = |window: &&[(usize, &str)]| window.iter().map(|(_, line)| line).eq(wanted.iter());
    lines.windows(wanted.len()).find(same).map(|window| window[0].0)
}

/// Lines that are much like the first line of what was wanted; best first.
fn near_lines(old: &str, text: &str) -> Vec<(usize, String)> {
    const LIKENESS_MIN: f64 = 0.6;
    let short = |line: &str| line.trim().chars().take(COMPARED_CHARS_MAX).collect::<String>();
    let Some(wanted) = old.lines().map(short).find(|line| !line.is_empty()) else { return Vec::new() };
    let mut near: Vec<_> = text
        .lines()
        .take(COMPARED_LINES_MAX)
        .enumerate()
        .filter(|(_, line)| !line.trim().is_empty())
        .map(|(index, line)| (strsim::normalized_levenshtein(&wanted, &short(line)), index + 1, short(line)))
        .filter(|(likeness, _, _)| *likeness >= LIKENESS_MIN)
        .collect();
    near.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
    near.into_iter().take(NEAR_MAX).map(|(_, line, text)| (line, text)).collect()
}

fn diff(before: &str, after: &str, shown: &str) -> String {
    let diff = TextDiff::configure().timeout(DIFF_TIME_MAX).diff_lines(before, after);
    let mut text = diff.unified_diff().context_radius(2).header(shown, shown).to_string();
    if text.len() > DIFF_BYTES_MAX {
        text.truncate(text.floor_char_boundary(DIFF_BYTES_MAX));
        text.push_str("\n… the rest of the diff is left out\n");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn edit(text: &str, edit: serde_json::Value) -> Result<String, ToolError> {
        let mut text = text.to_owned();
        let edit = serde_json::from_value(edit).unwrap();
        apply(&edit, 0, Endings::of(&text), &mut text).map(|_| text)
    }

    #[test]
    fn text_is_replaced_exactly_once_or_everywhere() {
        assert_eq!(edit("a b a", json!({ "old": "b", "new": "c" })).unwrap(), "a c a");
        assert_eq!(edit("a b a", json!({ "old": "a", "new": "x", "replace_all": true })).unwrap(), "x b x");
        assert_eq!(edit("a b", json!({ "old": "a ", "new": "" })).unwrap(), "b");
        let error = edit("a\nb\na\n", json!({ "old": "a", "new": "x" })).unwrap_err();
        assert!(error.message().contains("2 times, in lines 1, 3"), "{error}");
        assert_eq!(error.field_errors()[0].path, "/edits/0/old");
    }

    #[test]
    fn lines_are_put_in_where_asked() {
        for (text, line, expected) in [
            ("a\nb\n", 1, "x\na\nb\n"),
            ("a\nb\n", 2, "a\nx\nb\n"),
            ("a\nb\n", 3, "a\nb\nx\n"),
            ("a\nb", 3, "a\nb\nx"),
            ("", 1, "x\n"),
            ("a\r\nb\r\n", 2, "a\r\nx\r\nb\r\n"),
        ] {
            assert_eq!(edit(text, json!({ "insert_line": line, "new": "x" })).unwrap(), expected);
        }
        let error = edit("a\n", json!({ "insert_line": 9, "new": "x" })).unwrap_err();
        assert!(error.message().contains("from 1 to 2"), "{error}");
    }

    #[test]
    fn windows_line_endings_stay_and_are_matched() {
        let text = edit("one\r\ntwo\r\nthree\r\n", json!({ "old": "one\ntwo", "new": "1\n2" })).unwrap();
        assert_eq!(text, "1\r\n2\r\nthree\r\n");
        assert_eq!(edit("a\r\nb\nc", json!({ "old": "b\n", "new": "x\n" })).unwrap(), "a\r\nx\nc");
    }

    #[test]
    fn text_that_is_not_there_is_answered_with_what_is() {
        let text = "fn main() {\n    println!(\"hello\");\n}\n";
        let error = edit(text, json!({ "old": "println!(\"hallo\");", "new": "x" })).unwrap_err();
        assert!(error.suggestions()[0].contains("line 2: `println!(\"hello\");`"), "{error:?}");
        let error =
            edit(text, json!({ "old": "fn main() {\n\tprintln!(\"hello\");", "new": "x" })).unwrap_err();
        assert!(error.message().contains("but for white space it is, at line 1"), "{error}");
        let error = edit(text, json!({ "old": "import numpy", "new": "x" })).unwrap_err();
        assert!(error.message().contains("nothing like it"), "{error}");
    }

    #[test]
    fn an_edit_that_says_too_little_or_too_much_is_refused() {
        for wrong in [
            json!({ "new": "x" }),
            json!({ "old": "a", "insert_line": 1, "new": "x" }),
            json!({ "old": "", "new": "x" }),
            json!({ "old": "a", "new": "a" }),
        ] {
            assert!(edit("a\n", wrong).is_err());
        }
    }
}
