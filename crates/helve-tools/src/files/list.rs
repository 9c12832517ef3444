//! `file-list`: what is in a folder.

use std::sync::Arc;
use std::time::Duration;

use helve::{Context, ErrorCode, Facet, Risk, Tool, ToolBuilder, ToolError};
use jiff::Timestamp;
use rustix::fs::{AtFlags, FileType, Stat, readlinkat, statat};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::change::blocking;
use super::fault::failed;
use super::root::Access;
use super::setup::{Files, reads};
use super::walk::{Entry, Filter, Folder, Walk};

const ENTRIES_MAX: usize = 10_000;
const DEPTH_MAX: usize = 64;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Input {
    /// The folder: relative to a root, or absolute within one. Without it: the first root.
    #[serde(default = "here")]
    path: String,
    /// How many levels to list: 1 for the folder alone.
    #[serde(default = "one")]
    #[schemars(range(min = 1, max = 64))]
    depth: usize,
    /// Only entries that match, such as `*.rs` or `src/**/*.toml`. One without a slash holds at every
    /// level; one that begins with `!` leaves out.
    glob: Option<String>,
    /// List names that begin with a dot too.
    #[serde(default)]
    hidden: bool,
    /// Leave out what `.gitignore` and `.ignore` files name, and `.git`.
    #[serde(default = "yes")]
    gitignore: bool,
    /// Most entries to list.
    #[serde(default = "some")]
    #[schemars(range(min = 1, max = 10_000))]
    max_entries: usize,
}

fn here() -> String {
    ".".to_owned()
}

fn one() -> usize {
    1
}

fn yes() -> bool {
    true
}

fn some() -> usize {
    500
}

#[derive(Debug, Serialize, JsonSchema)]
struct Output {
    /// The folder that was listed.
    path: String,
    /// What is in it, sorted by path.
    entries: Vec<Listed>,
    /// Whether there is more than was listed.
    truncated: bool,
    /// Other folders that file tools may use, by absolute path; told with the first root.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    other_roots: Vec<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct Listed {
    /// The path, from the folder that was listed.
    path: String,
    /// What it is.
    kind: Kind,
    /// Bytes of a file.
    #[serde(skip_serializing_if = "Option::is_none")]
    size: Option<u64>,
    /// When it was last changed, in UTC.
    #[serde(skip_serializing_if = "Option::is_none")]
    modified: Option<String>,
    /// Where a link points to. It is not followed.
    #[serde(skip_serializing_if = "Option::is_none")]
    target: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Kind {
    File,
    Folder,
    Link,
    Other,
}

pub(super) fn tool(files: &Arc<Files>) -> ToolBuilder {
    let shared = Arc::clone(files);
    Tool::function(
        "file-list",
        "Lists what is in a folder, and below it with `depth`: path, kind, size and time of change. Sorted, and \
         bounded. Links are shown and not followed.",
        move |input: Input, context: Context| {
            let files = Arc::clone(&shared);
            async move { blocking(&files, move |files| answer(files, &input, &context)).await }
        },
    )
    .alias("file:list")
    .when_to_use(
        "To see which files and folders there are, or to find files by name. To find text in files, use \
         `file-search`.",
    )
    .example_call("What is in this project?", json!({ "depth": 2 }))
    .example_call("Which Rust files are in src?", json!({ "path": "src", "depth": 10, "glob": "*.rs" }))
    .risk(Risk::Low)
    .annotations(reads())
    .facets([Facet::ReadsPrivate])
    .timeout(Duration::from_secs(15))
}

fn answer(files: &Files, input: &Input, context: &Context) -> Result<Output, ToolError> {
    let globs: Vec<_> = input.glob.iter().cloned().collect();
    let filter =
        Filter { hidden: input.hidden, gitignore: input.gitignore, globs: Filter::globs(&globs, "glob")? };
    let place = files.roots.find(&input.path, Access::Read)?;
    let (walk, mut folder) = Walk::new(&files.roots, &place, filter)?;
    let mut listing = Listing {
        walk,
        context,
        entries: Vec::new(),
        entries_max: input.max_entries.min(ENTRIES_MAX),
        depth_max: input.depth.min(DEPTH_MAX),
        truncated: false,
    };
    listing.list(&mut folder).map_err(|error| match error {
        Stopped::Cancelled => ToolError::new(ErrorCode::Cancelled, "the call was taken back"),
        Stopped::Failed(error) => failed("list", &place.shown, error),
    })?;
    let Listing { entries, truncated, .. } = listing;
    let other_roots = if place.shown == "." { files.roots.others() } else { Vec::new() };
    Ok(Output { path: place.shown, entries, truncated, other_roots })
}

struct Listing<'c> {
    walk: Walk,
    context: &'c Context,
    entries: Vec<Listed>,
    entries_max: usize,
    depth_max: usize,
    truncated: bool,
}

enum Stopped {
    Cancelled,
    Failed(rustix::io::Errno),
}

impl Listing<'_> {
    fn list(&mut self, folder: &mut Folder) -> Result<(), Stopped> {
        if self.context.is_cancelled() {
            return Err(Stopped::Cancelled);
        }
        let (mut entries, complete) = match self.walk.entries(folder) {
            Ok(read) => read,
            // One folder that cannot be read does not hide the others.
            Err(error) if folder.depth == 0 => return Err(Stopped::Failed(error)),
            Err(_) => return Ok(()),
        };
        self.truncated |= !complete;
        entries.sort_by(|a, b| a.name.cmp(&b.name));
        for entry in entries {
            if self.entries.len() >= self.entries_max {
                self.truncated = true;
                return Ok(());
            }
            let below = match entry.kind == FileType::Directory && folder.depth + 1 < self.depth_max {
                true => self.walk.enter(folder, &entry.name),
                false => None,
            };
            if entry.wanted {
                self.entries.extend(describe(&self.walk, folder, &entry));
            }
            if let Some(mut below) = below {
                self.list(&mut below)?;
            }
        }
        Ok(())
    }
}

/// Nothing where it is gone meanwhile, or Helve's own.
fn describe(walk: &Walk, folder: &Folder, entry: &Entry) -> Option<Listed> {
    let stat = statat(&folder.fd, &entry.name, AtFlags::SYMLINK_NOFOLLOW).ok()?;
    if walk.is_private(&stat) {
        return None;
    }
    let kind = match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => Kind::File,
        FileType::Directory => Kind::Folder,
        FileType::Symlink => Kind::Link,
        FileType::Fifo
        | FileType::Socket
        | FileType::CharacterDevice
        | FileType::BlockDevice
        | FileType::Unknown => Kind::Other,
    };
    let target = (kind == Kind::Link)
        .then(|| readlinkat(&folder.fd, &entry.name, Vec::new()).ok())
        .flatten()
        .map(|target| target.to_string_lossy().into_owned());
    Some(Listed {
        path: folder.path.join(&entry.name).display().to_string(),
        kind,
        size: (kind == Kind::File).then(|| u64::try_from(stat.st_size).unwrap_or(0)),
        modified: modified(&stat),
        target,
    })
}

#[expect(clippy::useless_conversion, reason = "other systems have other types")]
fn modified(stat: &Stat) -> Option<String> {
    Timestamp::from_second(i64::try_from(stat.st_mtime).ok()?).ok().map(|time| time.to_string())
}
