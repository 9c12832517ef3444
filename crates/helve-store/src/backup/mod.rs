//! Copies of a ledger that can be kept elsewhere, and putting one in place.
//!
//! A backup is made while others write, and shows one moment: everything that was acknowledged before it began. It is
//! checked before it gets its name. [`manifest`] is its format.
//!
//! What belongs to a ledger and to a backup: the database, its anchor, the key that signs checkpoints and
//! marks secrets, and former contents of files, without which changes of files cannot be undone. What does
//! not: the log (it is in the copy already), the reserve and the owners' locks, which belong to a
//! machine and its processes.

mod error;
mod make;
mod manifest;
mod place;
mod restore;

use std::fs::File;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use helve_core::json::hex;
use sha2::{Digest, Sha256};

pub use self::error::BackupError;
pub use self::manifest::{FileMark, Manifest};
pub(crate) use self::place::finish_restore;
pub use self::restore::{Comparison, Restored};

/// A backup that is there.
#[derive(Debug, Clone)]
pub struct Backup {
    folder: PathBuf,
    manifest: Manifest,
}

impl Backup {
    /// The ledger that the last restore at a place put aside, where it is still there.
    pub fn put_aside(journal: &Path) -> Option<PathBuf> {
        place::put_aside(journal)
    }

    /// Where it is.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// What is in it.
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// How many bytes it has.
    pub fn bytes(&self) -> u64 {
        self.manifest.files.iter().map(|file| file.bytes).sum()
    }
}

/// How far a backup or a restore has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Progress {
    /// What is being done.
    pub stage: Stage,
    /// How much of it is done: bytes of files, entries of the chain, or files to put in place.
    pub done: u64,
    /// How much there is; 0 where nobody knows.
    pub total: u64,
}

/// What a backup or a restore is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Stage {
    /// Copying the ledger and its files.
    Copying,
    /// Checking the chain of the copy.
    Checking,
    /// Comparing files with their digests.
    Comparing,
    /// Putting files in place.
    Placing,
}

impl Stage {
    fn at(self, done: u64, total: u64) -> Progress {
        Progress { stage: self, done, total }
    }
}

/// Bytes that are copied at once.
const CHUNK_BYTES: usize = 256 << 10;

/// Reads a file to its end and says how long it is and what its digest is. `each` is given every piece.
fn digest(file: &mut File, mut each: impl FnMut(&[u8]) -> io::Result<()>) -> io::Result<(u64, String)> {
    let mut digest = Sha256::new();
    let mut chunk = vec![0; CHUNK_BYTES];
    let mut bytes = 0;
    loop {
        let count = file.read(&mut chunk)?;
        if count == 0 {
            return Ok((bytes, hex(&digest.finalize())));
        }
        digest.update(&chunk[..count]);
        each(&chunk[..count])?;
        bytes += count as u64;
    }
}

/// Copies a file into a new one that only this user may read, and syncs it.
fn copy(from: &Path, to: &Path, mut told: impl FnMut(usize)) -> io::Result<(u64, String)> {
    let mut new = create(to)?;
    let copied = digest(&mut File::open(from)?, |piece| {
        new.write_all(piece)?;
        told(piece.len());
        Ok(())
    })?;
    new.sync_all()?;
    Ok(copied)
}

/// Creates a file that only this user may read.
fn create(path: &Path) -> io::Result<File> {
    let mut options = File::options();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}

/// Makes sure that the names in a folder outlive a power cut. Only Unix can open folders.
fn sync_folder(folder: &Path) -> io::Result<()> {
    #[cfg(unix)]
    File::open(folder)?.sync_all()?;
    let _ = folder;
    Ok(())
}

/// A path with something behind its name.
fn with_ending(path: &Path, ending: &str) -> PathBuf {
    let mut path = path.as_os_str().to_owned();
    path.push(ending);
    path.into()
}
