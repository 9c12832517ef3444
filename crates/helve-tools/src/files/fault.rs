//! What went wrong with a file, in words that a model can act on.

use std::io;

use helve::{ErrorCode, ToolError};
use rustix::io::Errno;

/// What was tried, for the message: ``cannot read `a.txt`: …``.
pub(super) fn failed(doing: &str, shown: &str, error: impl Into<io::Error>) -> ToolError {
    let error = error.into();
    let reason = match error.kind() {
        _ if error.raw_os_error() == Some(Errno::LOOP.raw_os_error()) => {
            "it has too many symbolic links, or one that the system made up"
        }
        io::ErrorKind::NotFound => "it is not there",
        io::ErrorKind::PermissionDenied => "the operating system does not allow it",
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => "there is no space left",
        io::ErrorKind::ReadOnlyFilesystem => "the file system is read-only",
        io::ErrorKind::NotADirectory => "a part of its path is not a folder",
        io::ErrorKind::IsADirectory => "it is a folder",
        io::ErrorKind::InvalidFilename => "its name is too long for the file system",
        io::ErrorKind::Interrupted => "it was interrupted",
        _ => "the operating system reports an error",
    };
    let message = format!("cannot {doing} `{shown}`: {reason}");
    match doing {
        "write" => ToolError::unrecoverable("WRITE_FAILED", message),
        _ => ToolError::failed(message),
    }
    .with_source(error)
}

/// The seed's `WRITE_FAILED`, for whatever keeps a tool from writing that has no better name.
pub(super) fn not_written(error: ToolError) -> ToolError {
    match error.code() {
        ErrorCode::ExecutionFailed if error.tool_code().is_none() => error.with_tool_code("WRITE_FAILED"),
        _ => error,
    }
}

/// A path that leads out of the roots.
pub(super) fn outside(shown: &str, roots: &str) -> ToolError {
    let message = format!("`{shown}` leads out of the folders that file tools may use");
    ToolError::new(ErrorCode::PermissionDenied, message).suggest(format!("use a path within {roots}"))
}

/// Something that is there, and that tools leave alone.
pub(super) fn forbidden(shown: &str, why: &str) -> ToolError {
    ToolError::new(ErrorCode::PermissionDenied, format!("`{shown}` {why}"))
}

/// Whether the kernel, or cap-std in its place, refused to leave a root.
pub(super) fn is_escape(error: &io::Error) -> bool {
    // `EXDEV` from `openat2` becomes an error without a number in cap-std.
    error.kind() == io::ErrorKind::PermissionDenied && error.raw_os_error().is_none()
}
