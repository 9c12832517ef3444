//! What can be wrong with the database file.

use std::io;
use std::path::{Path, PathBuf};

use rusqlite::ErrorCode;
use rusqlite::ffi::SQLITE_IOERR_SHMSIZE;

use crate::blocked::Blocker;

/// The store cannot be opened, read or closed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// A folder stands where the file should be.
    #[error("`{}` is a directory; name a file in it", .0.display())]
    IsDirectory(PathBuf),
    /// The file does not exist, and reading does not create it.
    #[error("there is no journal at `{}`", .0.display())]
    Missing(PathBuf),
    /// The file does not exist, and its anchor says that it did.
    #[error(
        "`{}` is gone, with the {entries} entries that its anchor knows of; put it back, or begin a new one with \
         `helve audit accept`",
        .path.display()
    )]
    Gone {
        /// The journal's file.
        path: PathBuf,
        /// How many entries it had, at least.
        entries: i64,
    },
    /// The file, or something next to it, cannot be created, opened or written.
    #[error("cannot {action} `{}`; check that the folder exists and may be written", .path.display())]
    Io {
        /// What was tried.
        action: &'static str,
        /// With which file.
        path: PathBuf,
        /// Why it failed.
        #[source]
        source: io::Error,
    },
    /// Another process is at work on the files as a whole, and takes long.
    #[error("`{}` is not available", .path.display())]
    Held {
        /// The journal's file.
        path: PathBuf,
        /// What it may be doing.
        #[source]
        source: io::Error,
    },
    /// The file or its folder may not be written.
    #[error("`{}` cannot be written; check the permissions of the file and its folder", .path.display())]
    ReadOnly {
        /// The journal's file.
        path: PathBuf,
        /// What SQLite says.
        #[source]
        source: rusqlite::Error,
    },
    /// The file is something else.
    #[error("`{}` is not a database; choose another path, or move the file away", .path.display())]
    NotADatabase {
        /// The file that should be a journal.
        path: PathBuf,
        /// What SQLite says.
        #[source]
        source: rusqlite::Error,
    },
    /// The file is a database of another program.
    #[error("`{}` is a database, but not a Helve journal; choose another path", .0.display())]
    Foreign(PathBuf),
    /// The file is damaged.
    #[error("`{}` is damaged; keep a copy of it, then restore a backup or move it away", .path.display())]
    Corrupt {
        /// The journal's file.
        path: PathBuf,
        /// What SQLite says.
        #[source]
        source: rusqlite::Error,
    },
    /// A later version of Helve wrote the file.
    #[error("`{}` has format {found}, and this version of helve knows {known}; update helve", .path.display())]
    Newer {
        /// The journal's file.
        path: PathBuf,
        /// The file's format.
        found: i64,
        /// The newest format that this Helve knows.
        known: i64,
    },
    /// An earlier version of Helve wrote the file, and it stands where it cannot be brought up to date.
    #[error(
        "`{}` has format {found}, and this version of helve writes {known}; restart helve, which brings it up to \
         date when it opens it", .path.display()
    )]
    Older {
        /// The journal's file.
        path: PathBuf,
        /// The file's format.
        found: i64,
        /// The newest format that this Helve knows.
        known: i64,
    },
    /// An earlier version of Helve wrote the file, and it is not the one that its anchor knows.
    #[error("`{}` has format {found} and stays as it is: {why}", .path.display())]
    OlderInQuarantine {
        /// The journal's file.
        path: PathBuf,
        /// The file's format.
        found: i64,
        /// How it differs from its anchor.
        why: Box<crate::quarantine::Quarantine>,
    },
    /// An earlier version of Helve wrote the file and still works with it: it would go on in the old format.
    #[error(
        "`{}` has format {found}, and an older Helve that is running has it open; stop that one (`helve up`, or what \
         an editor or an agent has started), then try again: the file is brought to format {known} then",
        .path.display()
    )]
    OlderInUse {
        /// The journal's file.
        path: PathBuf,
        /// The file's format.
        found: i64,
        /// The newest format that this Helve knows.
        known: i64,
    },
    /// An earlier version of Helve wrote the file, and it could not be brought up to date. It is as it was.
    #[error("`{}` has format {found} and could not be brought to {known}; nothing in it was changed", .path.display())]
    NotMigrated {
        /// The journal's file.
        path: PathBuf,
        /// The file's format.
        found: i64,
        /// The newest format that this Helve knows.
        known: i64,
        /// Why the migration failed.
        #[source]
        source: Box<StoreError>,
    },
    /// The file was deleted or replaced while it was open.
    #[error("`{}` was moved or deleted while in use; put it back, or restart and look at it with `helve audit accept`", .0.display())]
    Replaced(PathBuf),
    /// Entries that this process wrote are gone from the file.
    #[error(
        "`{}` has lost entries that were written, up to entry {seq}; put the file back, or restart and look at \
         it with `helve audit accept`", .path.display()
    )]
    Cut {
        /// The journal's file.
        path: PathBuf,
        /// The last entry that was there.
        seq: i64,
    },
    /// No space is left.
    #[error("the disk that holds `{}` is full; free some space, and writing resumes by itself", .path.display())]
    DiskFull {
        /// The file that cannot grow.
        path: PathBuf,
        /// What SQLite or the operating system says.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// Another process kept the file locked for too long.
    #[error("another process keeps `{}` locked{}", .path.display(), who(.blocker.as_ref()))]
    Busy {
        /// The journal's file.
        path: PathBuf,
        /// The process, where the system tells.
        blocker: Option<Blocker>,
        /// What SQLite says.
        #[source]
        source: rusqlite::Error,
    },
    /// SQLite refused for another reason.
    #[error("the journal `{}` failed", .path.display())]
    Sqlite {
        /// The journal's file.
        path: PathBuf,
        /// What SQLite says.
        #[source]
        source: rusqlite::Error,
    },
    /// An entry that is needed cannot be read.
    #[error("{0}; check the journal with verify")]
    DamagedEntry(String),
    /// Part of an id that fits several calls, or cannot fit any.
    #[error("`{0}` is not the beginning of a call's id; ids look like `call_01J…`")]
    NotAnId(String),
    /// The export could not be written to where it was to go.
    #[error("the export could not be written")]
    Output(#[source] io::Error),
    /// The store was closed while entries could not be written.
    #[error("{entries} entries could not be written before closing: {reason}")]
    Unwritten {
        /// How many are lost.
        entries: usize,
        /// Why they could not be written.
        reason: String,
    },
    /// The journal refused.
    #[error(transparent)]
    Journal(#[from] helve_core::ports::JournalError),
}

fn who(blocker: Option<&Blocker>) -> String {
    blocker.map_or_else(|| "; wait for it or end it".to_owned(), |blocker| format!(": {blocker}"))
}

impl StoreError {
    pub(crate) fn io(action: &'static str, path: &Path, source: io::Error) -> Self {
        match source.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                Self::DiskFull { path: path.to_owned(), source: Box::new(source) }
            }
            io::ErrorKind::TimedOut => Self::Held { path: path.to_owned(), source },
            _ => Self::Io { action, path: path.to_owned(), source },
        }
    }

    /// Says what SQLite's error means for the person who has to do something about it.
    pub(crate) fn sqlite(path: &Path, source: rusqlite::Error) -> Self {
        let path = path.to_owned();
        match source.sqlite_error_code() {
            Some(ErrorCode::NotADatabase) => Self::NotADatabase { path, source },
            Some(ErrorCode::DatabaseCorrupt) => Self::Corrupt { path, source },
            Some(ErrorCode::ReadOnly | ErrorCode::CannotOpen | ErrorCode::PermissionDenied) => {
                Self::ReadOnly { path, source }
            }
            Some(ErrorCode::DiskFull) => Self::DiskFull { path, source: Box::new(source) },
            // The file of shared memory cannot grow, which has no other cause.
            Some(ErrorCode::SystemIoFailure)
                if source.sqlite_error().is_some_and(|error| error.extended_code == SQLITE_IOERR_SHMSIZE) =>
            {
                Self::DiskFull { path, source: Box::new(source) }
            }
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
                Self::Busy { blocker: Blocker::of(&path), path, source }
            }
            _ => Self::Sqlite { path, source },
        }
    }

    /// Whether more space could help. SQLite does not tell every lack of space from a failing disk.
    pub(crate) fn may_lack_space(&self) -> bool {
        match self {
            Self::DiskFull { .. } => true,
            Self::NotMigrated { source, .. } => source.may_lack_space(),
            Self::Sqlite { source, .. } => source.sqlite_error_code() == Some(ErrorCode::SystemIoFailure),
            _ => false,
        }
    }

    /// The error and all its causes in one line, for findings and journal errors.
    pub(crate) fn chain(&self) -> String {
        let mut line = self.to_string();
        let mut cause = std::error::Error::source(self);
        while let Some(error) = cause {
            line.push_str(": ");
            line.push_str(&error.to_string());
            cause = error.source();
        }
        line
    }
}
