//! One at a time, between processes as well.

use std::fs::{File, OpenOptions, TryLockError};
use std::path::Path;
use std::time::Duration;

use super::error::OAuthError;

/// How often a lock is tried. Polling keeps no thread waiting and can be given up at any time.
const PAUSE: Duration = Duration::from_millis(20);
/// A refresh takes seconds; who holds a lock for longer hangs.
const PATIENCE: Duration = Duration::from_secs(90);

/// A lock on a file, held until it is dropped. The kernel lets go of it when a process dies.
#[derive(Debug)]
pub(super) struct FileLock(#[expect(dead_code, reason = "held, not read")] File);

/// Waits for its turn.
pub(super) async fn acquire(path: &Path) -> Result<FileLock, OAuthError> {
    let failed = |error: std::io::Error| OAuthError::store(format!("`{}`: {error}", path.display()));
    let file = open(path).map_err(failed)?;
    let deadline = tokio::time::Instant::now() + PATIENCE;
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(FileLock(file)),
            Err(TryLockError::Error(error)) => return Err(failed(error)),
            Err(TryLockError::WouldBlock) if tokio::time::Instant::now() > deadline => {
                return Err(OAuthError::store(format!(
                    "another process has held `{}` for too long; find and end it",
                    path.display()
                )));
            }
            Err(TryLockError::WouldBlock) => tokio::time::sleep(PAUSE).await,
        }
    }
}

/// Waits for its turn, on a thread that may block: for what takes no longer than a write.
pub(super) fn acquire_blocking(path: &Path) -> Result<FileLock, OAuthError> {
    let failed = |error: std::io::Error| OAuthError::store(format!("`{}`: {error}", path.display()));
    let file = open(path).map_err(failed)?;
    file.lock().map_err(failed)?;
    Ok(FileLock(file))
}

fn open(path: &Path) -> std::io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(false);
    super::vault::private(&mut options);
    options.open(path)
}
