//! Saves an answer to a file.

use std::io::Write as _;
use std::path::{Component, Path};
use std::sync::Arc;

use cap_std::fs::{Dir, File, OpenOptions};
use helve::json::sha256_hex;
use helve::{ErrorCode, ToolError};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::builtin::wrong_argument;

/// A file with an answer in it.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub(super) struct Saved {
    /// Its path within the folder for downloads.
    path: String,
    /// Its size.
    bytes: usize,
    /// The SHA-256 of its content, in hex.
    sha256: String,
}

/// A new, empty file that is ours. Dropped without [`Reserved::keep`], it goes away.
pub(super) struct Reserved {
    folder: Arc<Dir>,
    path: String,
    file: Option<File>,
}

impl Reserved {
    /// Takes a name that nobody has. The folder is a handle, so no path and no link leads out of it.
    pub(super) fn new(folder: Option<&Arc<Dir>>, path: &str) -> Result<Self, ToolError> {
        let folder = folder.ok_or_else(|| {
            ToolError::new(ErrorCode::IntegrationMissing, "there is no folder that answers can be saved in")
                .suggest("tell the user to add `[web.http]` with `downloads = \"FOLDER\"` to helve.toml")
        })?;
        let refuse = |problem: &str| {
            wrong_argument("save_as", "a relative path to a file that does not exist", path, problem)
        };
        let plain = Path::new(path).components().all(|part| matches!(part, Component::Normal(_)));
        if !plain || path.ends_with('/') || path.chars().any(char::is_control) {
            return Err(refuse("it must be a plain relative path, without `..`"));
        }
        let failed = |error: std::io::Error| match error.kind() {
            std::io::ErrorKind::AlreadyExists => refuse("there is such a file already; choose another name"),
            _ => ToolError::failed(format!("`{path}` cannot be written; choose another name"))
                .with_source(error),
        };
        if let Some(parent) = Path::new(path).parent().filter(|parent| !parent.as_os_str().is_empty()) {
            folder.create_dir_all(parent).map_err(failed)?;
        }
        let file = folder.open_with(path, OpenOptions::new().write(true).create_new(true)).map_err(failed)?;
        Ok(Self { folder: Arc::clone(folder), path: path.to_owned(), file: Some(file) })
    }

    /// Writes the content and keeps the file.
    pub(super) async fn keep(self, content: Vec<u8>) -> Result<Saved, ToolError> {
        let path = self.path.clone();
        let written = tokio::task::spawn_blocking(move || self.write(&content)).await;
        written.unwrap_or_else(|error| Err(std::io::Error::other(error))).map_err(|error| {
            ToolError::failed(format!("`{path}` cannot be written; nothing was saved")).with_source(error)
        })
    }

    fn write(mut self, content: &[u8]) -> std::io::Result<Saved> {
        // Put back unless all of it is written, so that `drop` removes the file.
        let mut file = self.file.take().ok_or(std::io::ErrorKind::NotFound)?;
        let written = file.write_all(content).and_then(|()| file.sync_all());
        if let Err(error) = written {
            self.file = Some(file);
            return Err(error);
        }
        Ok(Saved { path: std::mem::take(&mut self.path), bytes: content.len(), sha256: sha256_hex(content) })
    }
}

impl Drop for Reserved {
    fn drop(&mut self) {
        if self.file.take().is_some()
            && let Err(error) = self.folder.remove_file(&self.path)
        {
            tracing::warn!(%error, path = self.path, "an unused file stays behind");
        }
    }
}
