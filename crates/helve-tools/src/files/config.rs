//! Which folders file tools may use, and how much of them at once.

use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What the file tools may touch.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct FilesConfig {
    /// Folders that file tools may use: a path, or `{ path = "…", read_only = true }`. A relative
    /// path starts at the folder of the file that names it. A model's relative path is looked for in
    /// each of them in order. None: there are no file tools.
    pub roots: Vec<RootConfig>,
    /// Most bytes of a file that are read at once.
    #[schemars(range(min = 1024, max = 268_435_456))]
    pub read_bytes: u64,
    /// Largest file that is written or edited, in bytes.
    #[schemars(range(min = 1024, max = 268_435_456))]
    pub write_bytes: u64,
    /// How many bytes of former content are kept to undo changes. The oldest goes first.
    #[schemars(range(max = 1_099_511_627_776_u64))]
    pub backup_bytes: u64,
}

impl Default for FilesConfig {
    fn default() -> Self {
        Self {
            roots: vec![RootConfig::Path(PathBuf::from("."))],
            read_bytes: 2 << 20,
            write_bytes: 10 << 20,
            backup_bytes: 256 << 20,
        }
    }
}

impl FilesConfig {
    /// The same, with roots that start at `folder` where they are relative.
    pub fn relative_to(mut self, folder: &Path) -> Self {
        for root in &mut self.roots {
            let (RootConfig::Path(path) | RootConfig::Detailed(RootDetail { path, .. })) = root;
            *path = folder.join(&path);
        }
        self
    }
}

/// A folder that file tools may use.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged, expecting = "a path, or `{ path = \"…\", read_only = true }`")]
pub enum RootConfig {
    /// A folder to read and write in.
    Path(PathBuf),
    /// A folder, and what may be done in it.
    Detailed(RootDetail),
}

/// A folder that file tools may use, and what may be done in it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RootDetail {
    /// Where the folder is.
    pub path: PathBuf,
    /// Whether nothing may be changed in it.
    #[serde(default)]
    pub read_only: bool,
}

impl RootConfig {
    /// Where the folder is.
    pub fn path(&self) -> &Path {
        match self {
            Self::Path(path) => path,
            Self::Detailed(detail) => &detail.path,
        }
    }

    /// Whether nothing may be changed in it.
    pub fn is_read_only(&self) -> bool {
        match self {
            Self::Path(_) => false,
            Self::Detailed(detail) => detail.read_only,
        }
    }
}
