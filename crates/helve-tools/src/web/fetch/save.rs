//! Saves an answer to a file.

use std::path::{Component, Path};
use std::sync::Arc;

use cap_std::fs::{File, OpenOptions};
use helve::json::hex;
use helve::{ErrorCode, ToolError};
use helve_net::StreamingResponse;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use tokio::io::AsyncWriteExt as _;

use crate::builtin::wrong_argument;
use crate::http::answer::network_error;
use crate::http::secrets::Secrets;
use crate::web::{Downloads, WebBackend};

/// Where it lies it would say which tools there are, to a user who starts Helve there.
const NEVER_SAVED: &str = "helve.toml";

/// A file with an answer in it.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub(super) struct Saved {
    /// Its path within the folder for downloads.
    path: String,
    /// How large the file is.
    pub(super) bytes: usize,
    /// The SHA-256 of its content, in hex.
    sha256: String,
}

/// A new, empty file that is ours. Unless it is written to the end, it goes away.
pub(super) struct Reserved {
    folder: Arc<Downloads>,
    path: String,
    /// Until it is written to.
    file: Option<File>,
    kept: bool,
}

impl Reserved {
    /// Takes a name that nobody has. No path and no link leads out of the folder.
    pub(super) fn new(backend: &WebBackend, path: &str) -> Result<Self, ToolError> {
        let folder = backend.downloads.as_ref().ok_or_else(|| no_folder(backend.no_downloads.as_deref()))?;
        let refuse = |problem: &str| {
            wrong_argument("save_as", "a relative path to a file that does not exist", path, problem)
        };
        let plain = Path::new(path).components().all(|part| matches!(part, Component::Normal(_)));
        if !plain || path.ends_with('/') || path.chars().any(char::is_control) {
            return Err(refuse("it must be a plain relative path, without `..`"));
        }
        if Path::new(path).file_name().is_some_and(|name| name.eq_ignore_ascii_case(NEVER_SAVED)) {
            return Err(refuse("it is the name of Helve's own configuration"));
        }
        let dir = folder.to_save().map_err(|error| {
            let message = format!("nothing can be saved in the folder for downloads: {error}");
            ToolError::new(ErrorCode::PermissionDenied, message)
                .suggest("tell the user to name a folder of its own in `web.http.downloads` of helve.toml")
                .with_source(error)
        })?;
        let failed = |error: std::io::Error| match error.kind() {
            std::io::ErrorKind::AlreadyExists => refuse("there is such a file already; choose another name"),
            _ => ToolError::failed(format!("`{path}` cannot be written; choose another name"))
                .with_source(error),
        };
        if let Some(parent) = Path::new(path).parent().filter(|parent| !parent.as_os_str().is_empty()) {
            dir.create_dir_all(parent).map_err(failed)?;
        }
        let file = dir.open_with(path, OpenOptions::new().write(true).create_new(true)).map_err(failed)?;
        Ok(Self { folder: Arc::clone(folder), path: path.to_owned(), file: Some(file), kept: false })
    }

    /// Writes the content as it comes, and keeps the file if all of it came.
    pub(super) async fn receive(
        mut self,
        mut response: StreamingResponse,
        secrets: &Secrets,
    ) -> Result<Saved, ToolError> {
        let failed = |error: std::io::Error| {
            ToolError::failed("the answer cannot be written; nothing was saved").with_source(error)
        };
        let file = self.file.take().ok_or_else(|| failed(std::io::ErrorKind::NotFound.into()))?;
        let mut file = tokio::fs::File::from_std(file.into_std());
        let (mut bytes, mut digest) = (0, Sha256::new());
        // The end of what came before: a secret may stand across two parts.
        let mut seen: Vec<u8> = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(network_error)? {
            seen.extend_from_slice(&chunk);
            if secrets.found_in(&seen) {
                return Err(ToolError::failed(
                    "the answer repeats a secret of the request, so it is not saved",
                ));
            }
            seen.drain(..seen.len().saturating_sub(secrets.bytes_max()));
            file.write_all(&chunk).await.map_err(failed)?;
            digest.update(&chunk);
            bytes += chunk.len();
        }
        file.sync_all().await.map_err(failed)?;
        self.kept = true;
        Ok(Saved { path: self.path.clone(), bytes, sha256: hex(&digest.finalize()) })
    }
}

/// Nothing can be saved: nobody named a folder, or the one that was named cannot be used.
fn no_folder(why: Option<&str>) -> ToolError {
    match why {
        Some(why) => ToolError::new(ErrorCode::IntegrationMissing, why).suggest(
            "tell the user to make that folder or name another in `web.http.downloads` of helve.toml",
        ),
        None => {
            ToolError::new(ErrorCode::IntegrationMissing, "there is no folder that answers can be saved in")
                .suggest("tell the user to add `[web.http]` with `downloads = \"FOLDER\"` to helve.toml")
        }
    }
}

impl Drop for Reserved {
    fn drop(&mut self) {
        if !self.kept
            && let Err(error) = self.folder.dir().remove_file(&self.path)
        {
            tracing::warn!(%error, path = self.path, "an unused file stays behind");
        }
    }
}
