//! `file-write`: a file made or replaced, whole or not at all.

use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use helve::effect::{Change as Declared, Effect, TellOn};
use helve::retry::RetryPolicy;
use helve::template::Template;
use helve::{Context, Facet, Risk, Tool, ToolBuilder, ToolError};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use super::atomic::{Locked, file_exists};
use super::change::{self, Change, Former, blocking, change, check_size, spot_to_write};
use super::fault::not_written;
use super::root::Access;
use super::setup::{Files, writes};
use crate::builtin::wrong_argument;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Input {
    /// File path to write to: relative to a root, or absolute within one.
    path: String,
    /// Content to write. It becomes the whole file.
    content: String,
    /// How `content` becomes bytes: `utf-8` as it stands, `ascii` the same and nothing beyond ASCII,
    /// `base64` for binary data.
    #[serde(default)]
    encoding: Encoding,
    /// Overwrite an existing file. Without it, an existing file is an error.
    #[serde(default)]
    overwrite: bool,
    /// Make the folders above the file where they are missing.
    #[serde(default)]
    create_dirs: bool,
}

#[derive(Debug, Clone, Copy, Default, Deserialize, JsonSchema)]
enum Encoding {
    #[default]
    #[serde(rename = "utf-8")]
    Utf8,
    #[serde(rename = "ascii")]
    Ascii,
    #[serde(rename = "base64")]
    Base64,
}

pub(super) fn tool(files: &Arc<Files>) -> ToolBuilder {
    let shared = Arc::clone(files);
    let builder = Tool::function(
        "file-write",
        "Writes a file: makes a new one, or replaces an existing one with `overwrite`. The file changes as a \
         whole or not at all. Returns the path, how many bytes were written, and the hash of the content. What \
         was there before is kept, so that the call can be undone.",
        move |input: Input, context: Context| {
            let files = Arc::clone(&shared);
            async move {
                blocking(&files, move |files| answer(files, &input, &context).map_err(not_written)).await
            }
        },
    )
    .alias("file:write")
    .when_to_use(
        "To make a new file, or to replace one whose whole new content you have. To change parts of a file, use \
         `file-edit`: it is safer and shorter.",
    )
    .example_call(
        "Save this as notes/today.md",
        json!({ "path": "notes/today.md", "content": "# Today\n", "create_dirs": true }),
    )
    .example_call(
        "Replace the greeting",
        json!({ "path": "greeting.txt", "content": "Hello!\n", "overwrite": true }),
    );
    undoable(builder, files, "write").facets([Facet::Mutates])
}

/// What tools that change a file have in common.
pub(super) fn undoable(builder: ToolBuilder, files: &Arc<Files>, action: &str) -> ToolBuilder {
    let payload = Template::parse(json!({ "path": "{{ result.path }}", "action": action }));
    let payload = payload.expect("a constant template that a test parses");
    let changed = Declared::Notification {
        event: "file:changed".to_owned(),
        on: TellOn::Success,
        payload: Some(payload),
    };
    let (for_undo, for_recall) = (Arc::clone(files), Arc::clone(files));
    builder
        .risk(Risk::Medium)
        .annotations(writes())
        .timeout(Duration::from_secs(10))
        .retry(RetryPolicy::quick())
        .effect(Effect::new("Notify on file change", changed))
        .undo_handled(move |_: Value, result: Value, context: Context| {
            let files = Arc::clone(&for_undo);
            async move { blocking(&files, move |files| change::undo(files, result, &context)).await }
        })
        .recall_handled(move |_: Value, context: Context| {
            let files = Arc::clone(&for_recall);
            async move { blocking(&files, move |files| change::recall(files, &context)).await }
        })
}

fn answer(files: &Files, input: &Input, context: &Context) -> Result<Change, ToolError> {
    let content = content(input)?;
    check_size(files, content.len() as u64, &input.path)?;
    if input.create_dirs {
        files.roots.make_folders(&files.roots.find_file(&input.path, Access::Write)?)?;
    }
    let spot = spot_to_write(files, &input.path).map_err(|error| match input.create_dirs {
        false if error.message().starts_with("there is no folder") => {
            error.suggest("set create_dirs: true to make it")
        }
        true | false => error,
    })?;
    let locked = Locked::new(&spot, context.deadline())?;
    let former = match (input.overwrite, locked.stat()?) {
        (true, _) => Former::read(&locked, files)?,
        (false, None) => None,
        (false, Some(stat)) => {
            super::root::regular(&stat, &spot.shown)?;
            return Err(file_exists(&spot.shown));
        }
    };
    change(files, &locked, former.as_ref(), &content, context, |change| change)
}

fn content(input: &Input) -> Result<Vec<u8>, ToolError> {
    let text = &input.content;
    match input.encoding {
        Encoding::Utf8 => Ok(text.clone().into_bytes()),
        Encoding::Ascii if text.is_ascii() => Ok(text.clone().into_bytes()),
        Encoding::Ascii => {
            let alien = text.chars().find(|char| !char.is_ascii()).unwrap_or_default();
            let problem = format!("`{alien}` is not ASCII; use the encoding `utf-8`, or write it otherwise");
            Err(wrong_argument("content", "ASCII text", "", &problem))
        }
        Encoding::Base64 => {
            let compact: String = text.split_ascii_whitespace().collect();
            STANDARD.decode(compact).map_err(|error| {
                let problem = format!("it is not base64: {}", error.to_string().to_lowercase());
                wrong_argument("content", "standard base64 with padding", "", &problem)
            })
        }
    }
}
