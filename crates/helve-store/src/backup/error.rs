//! Why a backup cannot be made or put in place.

use std::io;
use std::path::{Path, PathBuf};

use super::manifest::FORMAT;
use crate::audit::Problem;
use crate::error::StoreError;
use crate::quarantine::Quarantine;

/// A backup cannot be made, read or put in place.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BackupError {
    /// Something stands where it should go.
    #[error("`{}` is there already; name a folder that is not", .0.display())]
    Exists(PathBuf),
    /// Another process makes one there.
    #[error("another process is just making a backup in `{}`", .0.display())]
    Busy(PathBuf),
    /// The ledger is not the one that its anchor knows, and a copy would pass for a good one.
    #[error("the ledger is not backed up: {0}")]
    Quarantined(Box<Quarantine>),
    /// The copy does not prove itself.
    #[error("the copy is not sound: {}", .0.what)]
    Unsound(Problem),
    /// There is no backup.
    #[error("there is no backup in `{}`: it has no manifest.json; one that was cut short has none", .0.display())]
    NotABackup(PathBuf),
    /// A later version made it.
    #[error("the backup has format {found}, and this version of helve knows {FORMAT}; update helve")]
    Newer {
        /// The format that the manifest names.
        found: u64,
    },
    /// A file of it is not what was written.
    #[error("the backup is damaged: `{file}`: {what}; use another one")]
    Damaged {
        /// The name of the file.
        file: String,
        /// What is wrong.
        what: String,
    },
    /// A living process has the ledger open that would be replaced.
    #[error("a process has `{}` open; stop it first", .0.display())]
    InUse(PathBuf),
    /// A file cannot be used.
    #[error("cannot {action} `{}`", .path.display())]
    Io {
        /// What was tried.
        action: &'static str,
        /// With which file.
        path: PathBuf,
        /// Why it failed.
        #[source]
        source: io::Error,
    },
    /// The ledger cannot be copied.
    #[error("cannot copy the ledger to `{}`", .path.display())]
    Copy {
        /// The file that should become the copy.
        path: PathBuf,
        /// What SQLite says.
        #[source]
        source: rusqlite::Error,
    },
    /// The ledger cannot be read.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl BackupError {
    pub(super) fn io(action: &'static str, path: &Path, source: io::Error) -> Self {
        Self::Io { action, path: path.to_owned(), source }
    }

    pub(super) fn damaged(file: &str, what: impl Into<String>) -> Self {
        Self::Damaged { file: file.to_owned(), what: what.into() }
    }
}
