//! Files that go into the box and come out of it.

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use helve::{ErrorCode, FieldError, ToolError};
use helve_sandbox::{FileIn, FileOut};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::language::OWN_DIR;

/// How the content of a file is written.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub(super) enum Encoding {
    /// As text in UTF-8.
    #[default]
    #[serde(rename = "utf-8")]
    Utf8,
    /// As base64, for content that is not text.
    #[serde(rename = "base64")]
    Base64,
}

/// A file that lies in the work directory when the code starts.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Given {
    /// Where, relative to the work directory: `data/in.csv`.
    path: String,
    /// What the file holds, in that encoding.
    content: String,
    /// `utf-8`, or `base64` for content that is not text.
    #[serde(default)]
    encoding: Encoding,
}

/// A file that the code has left.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub(super) struct Artifact {
    /// Where, relative to the work directory.
    path: String,
    /// How large the file is.
    bytes: u64,
    /// How the content is written.
    #[serde(skip_serializing_if = "Option::is_none")]
    encoding: Option<Encoding>,
    /// Its content; absent where it is too large.
    #[serde(skip_serializing_if = "Option::is_none")]
    content: Option<String>,
}

/// Reads the files of a call.
pub(super) fn read(given: Vec<Given>) -> Result<Vec<FileIn>, ToolError> {
    given.into_iter().enumerate().map(|(at, file)| read_one(at, file)).collect()
}

fn read_one(at: usize, file: Given) -> Result<FileIn, ToolError> {
    let path = Path::new(&file.path);
    let plain = !file.path.is_empty() && path.components().all(|part| matches!(part, Component::Normal(_)));
    if !plain || file.path.contains('\0') || path.starts_with(OWN_DIR) {
        let expected = "a path below the work directory, without `..`";
        return Err(wrong(&format!("/files/{at}/path"), expected, &file.path));
    }
    let content = match file.encoding {
        Encoding::Utf8 => file.content.into_bytes(),
        Encoding::Base64 => BASE64_STANDARD
            .decode(file.content.trim())
            .map_err(|_| wrong(&format!("/files/{at}/content"), "base64", "something else"))?,
    };
    Ok(FileIn { path: path.to_owned(), content, executable: false })
}

fn wrong(path: &str, expected: &str, received: &str) -> ToolError {
    let message = format!("it must be {expected}");
    let received = received.chars().take(60).collect();
    ToolError::new(ErrorCode::ValidationFailed, format!("`{path}` cannot be used: {message}")).with_fields(
        vec![FieldError { path: path.to_owned(), expected: expected.to_owned(), received, message }],
    )
}

/// Digests of files, by which those that were changed are told from those that were not.
pub(super) fn digests(files: &[FileIn]) -> BTreeMap<PathBuf, [u8; 32]> {
    files.iter().map(|file| (file.path.clone(), digest(&file.content))).collect()
}

fn digest(content: &[u8]) -> [u8; 32] {
    Sha256::digest(content).into()
}

/// What the code made or changed, for its caller.
pub(super) fn artifacts(
    files: &[FileOut],
    before: &BTreeMap<PathBuf, [u8; 32]>,
    limits: &Limits,
) -> Vec<Artifact> {
    let changed = files.iter().filter(|file| {
        let known = before.get(&file.path);
        known.is_none() || file.content.as_ref().is_none_or(|content| Some(&digest(content)) != known)
    });
    let mut left = limits.total_bytes;
    changed
        .take(limits.files)
        .map(|file| {
            let fits = |content: &&Vec<u8>| content.len() as u64 <= limits.file_bytes.min(left);
            let written = file.content.as_ref().filter(fits).map(|content| write(content));
            left -= written.as_ref().map_or(0, |_| file.bytes);
            let (encoding, content) = written.unzip();
            Artifact { path: file.path.to_string_lossy().into_owned(), bytes: file.bytes, encoding, content }
        })
        .collect()
}

/// How much comes out of a box.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limits {
    pub(super) files: usize,
    pub(super) file_bytes: u64,
    pub(super) total_bytes: u64,
}

fn write(content: &[u8]) -> (Encoding, String) {
    match std::str::from_utf8(content) {
        Ok(text) => (Encoding::Utf8, text.to_owned()),
        Err(_) => (Encoding::Base64, BASE64_STANDARD.encode(content)),
    }
}
