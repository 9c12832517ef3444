//! `file-search`: text in files, by the libraries of ripgrep.

mod crew;
mod matches;

use std::sync::Arc;
use std::time::Duration;

use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use helve::regexp::steps;
use helve::{Context, Facet, Risk, Tool, ToolBuilder, ToolError};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::change::blocking;
use super::root::Access;
use super::setup::{Files, reads};
use super::walk::{Filter, Walk};
use crate::builtin::wrong_argument;
use crew::Crew;

const PATTERN_BYTES_MAX: usize = 10_000;
const MATCHES_MAX: usize = 5_000;
const CONTEXT_MAX: usize = 20;
/// What a pattern may cost in memory, compiled and while it runs.
const REGEX_BYTES_MAX: usize = 10 << 20;
/// Most steps that a pattern may take for a byte of text: a search cannot be stopped in the middle of a line.
const STEPS_MAX: u64 = 4_000;
/// What is left of the call's time to put the answer together.
const RESERVE: Duration = Duration::from_millis(500);

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Input {
    /// What to look for in each line: a regular expression (Rust's syntax, without look-around and
    /// backreferences), or plain text with `literal`.
    #[schemars(length(min = 1, max = 10_000))]
    pattern: String,
    /// Where: a folder, or one file. Without it: the first root.
    #[serde(default = "here")]
    path: String,
    /// Take the pattern as plain text.
    #[serde(default)]
    literal: bool,
    /// Whether upper and lower case differ. `smart`: only where the pattern has upper case.
    #[serde(default)]
    case: Case,
    /// Lines to show before and after each match.
    #[serde(default)]
    #[schemars(range(max = 20))]
    context: usize,
    /// Only files that match one of these, such as `*.rs` or `src/**/*.toml`; one that begins with `!`
    /// leaves out.
    #[serde(default)]
    globs: Vec<String>,
    /// Search files and folders whose names begin with a dot too.
    #[serde(default)]
    hidden: bool,
    /// Leave out what `.gitignore` and `.ignore` files name, and `.git`.
    #[serde(default = "yes")]
    gitignore: bool,
    /// Only say which files match.
    #[serde(default)]
    files_only: bool,
    /// Most matches to return.
    #[serde(default = "some")]
    #[schemars(range(min = 1, max = 5_000))]
    max_matches: usize,
}

fn here() -> String {
    ".".to_owned()
}

fn yes() -> bool {
    true
}

fn some() -> usize {
    100
}

#[derive(Debug, Clone, Copy, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Case {
    #[default]
    Sensitive,
    Insensitive,
    Smart,
}

#[derive(Debug, Serialize, JsonSchema)]
struct Output {
    /// The lines that match, by path and line. Left out with `files_only`.
    #[serde(skip_serializing_if = "Option::is_none")]
    matches: Option<Vec<Hit>>,
    /// The files that match, with `files_only`.
    #[serde(skip_serializing_if = "Option::is_none")]
    files: Option<Vec<String>>,
    /// How many files were searched.
    files_searched: u64,
    /// How many of them match.
    files_matched: u64,
    /// Whether there is more than was returned.
    truncated: bool,
    /// Why it is not all.
    #[serde(skip_serializing_if = "Option::is_none")]
    why: Option<String>,
}

/// A line that matches.
#[derive(Debug, Serialize, JsonSchema)]
struct Hit {
    /// The file, as `file-read` takes it.
    path: String,
    /// The line, from 1.
    line: u64,
    /// Where in the line the first match begins, in bytes from 1.
    column: u64,
    /// The line, shortened where it is long.
    text: String,
    /// Lines before it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    before: Vec<String>,
    /// Lines after it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    after: Vec<String>,
}

pub(super) fn tool(files: &Arc<Files>) -> ToolBuilder {
    let shared = Arc::clone(files);
    Tool::function(
        "file-search",
        "Searches the text of files below a folder, line by line, for a regular expression or plain text. Returns \
         path, line, column and text of each match, with context lines where asked for. Binary files are skipped, \
         and links are not followed.",
        move |input: Input, context: Context| {
            let files = Arc::clone(&shared);
            async move { blocking(&files, move |files| answer(files, &input, &context)).await }
        },
    )
    .alias("file:search")
    .when_to_use(
        "To find where something is written, in many files at once. To find files by name, use `file-list`; to \
         read around a match, `file-read` with `start_line`.",
    )
    .example_call("Where is `parse_config` called?", json!({ "pattern": "parse_config\\(", "globs": ["*.rs"] }))
    .example_call(
        "Find all TODOs, whatever their case",
        json!({ "pattern": "TODO", "literal": true, "case": "insensitive", "context": 2 }),
    )
    .risk(Risk::Low)
    .annotations(reads())
    .facets([Facet::ReadsPrivate])
    .timeout(Duration::from_secs(30))
}

fn answer(files: &Files, input: &Input, context: &Context) -> Result<Output, ToolError> {
    let matcher = matcher(input)?;
    let filter = Filter {
        hidden: input.hidden,
        gitignore: input.gitignore,
        globs: Filter::globs(&input.globs, "globs")?,
    };
    let place = files.roots.find(&input.path, Access::Read)?;
    let crew = Crew {
        matcher,
        context_lines: input.context.min(CONTEXT_MAX),
        files_only: input.files_only,
        matches_max: input.max_matches.min(MATCHES_MAX),
        until: context.deadline().checked_sub(RESERVE).unwrap_or_else(|| context.deadline()),
        context: context.clone(),
        prefix: if place.shown == "." { String::new() } else { place.shown.clone() },
    };
    let is_file = files.roots.is_file(&place);
    let found = if is_file {
        let spot = files.roots.spot(&files.roots.find_file(&input.path, Access::Read)?, Access::Read)?;
        crew.search_one(&spot)?
    } else {
        let (walk, folder) = Walk::new(&files.roots, &place, filter)?;
        crew.search(&walk, folder)
    };
    let matches::SearchTotals { mut hits, mut paths, searched, matched, why } = found;
    hits.sort_by(|a, b| (&a.path, a.line).cmp(&(&b.path, b.line)));
    paths.sort();
    Ok(Output {
        matches: (!input.files_only).then_some(hits),
        files: input.files_only.then_some(paths),
        files_searched: searched,
        files_matched: matched,
        truncated: why.is_some(),
        why: why.map(|why| why.as_str().to_owned()),
    })
}

fn matcher(input: &Input) -> Result<RegexMatcher, ToolError> {
    let refuse = |problem: &str| wrong_argument("pattern", "a regular expression", &input.pattern, problem);
    if input.pattern.is_empty() || input.pattern.len() > PATTERN_BYTES_MAX {
        return Err(refuse("give from 1 to 10,000 bytes"));
    }
    if input.pattern.contains('\n') {
        return Err(refuse("each line is searched by itself, so it cannot contain a line break"));
    }
    // What is no pattern is refused below, with the reason.
    if !input.literal && steps(&input.pattern).is_some_and(|steps| steps > STEPS_MAX) {
        return Err(refuse(
            "it would take too long, because it repeats too much; use smaller numbers in `{…}`",
        ));
    }
    let mut builder = RegexMatcherBuilder::new();
    builder
        .line_terminator(Some(b'\n'))
        .size_limit(REGEX_BYTES_MAX)
        .dfa_size_limit(REGEX_BYTES_MAX)
        .fixed_strings(input.literal);
    match input.case {
        Case::Sensitive => {}
        Case::Insensitive => drop(builder.case_insensitive(true)),
        Case::Smart => drop(builder.case_smart(true)),
    }
    builder.build(&input.pattern).map_err(|error| {
        let reason = error.to_string();
        let reason = reason.lines().last().unwrap_or_default().trim_start_matches("error: ");
        refuse(reason).suggest("set literal: true to look for the text as it stands")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ordinary_patterns_are_short_enough() {
        for ordinary in [
            r"\b[0-9a-f]{8}-([0-9a-f]{4}-){3}[0-9a-f]{12}\b",
            r"^\s*(pub(\(.*\))?\s+)?(async\s+)?fn\s+\w{1,64}",
            r"(\d{1,3}\.){3}\d{1,3}",
            r".{1,500}TODO.{1,500}",
        ] {
            assert!(steps(ordinary).unwrap() < STEPS_MAX, "{ordinary}");
        }
    }
}
