//! What can be wrong with the office file.

use std::path::PathBuf;

/// The office file cannot be opened, read or written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OfficeError {
    /// The file cannot be made, or its folder is not there.
    #[error("cannot open the office file `{}`; check that its folder exists and may be written", .path.display())]
    Open {
        /// The office file.
        path: PathBuf,
        /// What SQLite says.
        #[source]
        source: rusqlite::Error,
    },
    /// A newer Helve wrote it.
    #[error("`{}` was written by a newer Helve (format {found}, this one knows {known}); update Helve", .path.display())]
    Newer {
        /// The office file.
        path: PathBuf,
        /// The format that the file has.
        found: i64,
        /// The newest format that this Helve knows.
        known: i64,
    },
    /// SQLite could not do what it was asked.
    #[error("the office file could not be read or written")]
    Sqlite(#[from] rusqlite::Error),
    /// The process is about to end.
    #[error("the process ends")]
    Ending,
}
