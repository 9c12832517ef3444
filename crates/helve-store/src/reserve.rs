//! The reserve: a file of really allocated bytes next to the database, given up when the disk is
//! full.
//!
//! Without it the start of a call may just fit on a full disk, and its end no more. What the
//! reserve frees is for the ends of calls alone; nothing starts until it could be made again.
//! All processes with the same database share one.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

const CHUNK_BYTES: usize = 64 << 10;

/// The reserve of a database.
pub(crate) struct Reserve {
    path: PathBuf,
    bytes: u64,
}

impl Reserve {
    /// A reserve of so many bytes. Of none, it is always there and frees nothing.
    pub(crate) fn new(database: &Path, bytes: u64) -> Self {
        let mut path = database.as_os_str().to_owned();
        path.push(".reserve");
        Self { path: path.into(), bytes }
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Whether all of it is there. Another process may have given it up.
    pub(crate) fn is_there(&self) -> bool {
        self.bytes == 0 || fs::metadata(&self.path).is_ok_and(|file| file.len() >= self.bytes)
    }

    /// Makes it, unless it is there.
    pub(crate) fn make(&self) -> io::Result<()> {
        if self.is_there() {
            return Ok(());
        }
        let made = self.write().and_then(|()| match self.is_there() {
            true => Ok(()),
            false => Err(io::Error::new(io::ErrorKind::StorageFull, "another process gave up the reserve")),
        });
        if made.is_err() {
            // Half a reserve would only take room from the reports.
            self.give_up()?;
        }
        made
    }

    /// Frees its space, and returns whether there was any to free: another process may have been
    /// faster.
    pub(crate) fn give_up(&self) -> io::Result<bool> {
        match fs::remove_file(&self.path) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }

    fn write(&self) -> io::Result<()> {
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(false);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let mut file = options.open(&self.path)?;
        let mut chunk = vec![0; CHUNK_BYTES];
        let mut left = self.bytes;
        while left > 0 {
            // Random, because some file systems store a row of zeros as nothing.
            getrandom::fill(&mut chunk)?;
            let count = usize::try_from(left).unwrap_or(usize::MAX).min(chunk.len());
            file.write_all(&chunk[..count])?;
            left -= count as u64;
        }
        // Others may allocate only now.
        file.sync_all()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reserve_is_made_whole_and_given_up_by_whoever_is_first() {
        let folder = tempfile::tempdir().unwrap();
        let database = folder.path().join("j.db");
        let (one, two) = (Reserve::new(&database, 100_000), Reserve::new(&database, 100_000));
        assert!(!one.is_there());
        fs::write(folder.path().join("j.db.reserve"), "half of it").unwrap();
        one.make().unwrap();
        two.make().unwrap();
        assert_eq!(fs::metadata(folder.path().join("j.db.reserve")).unwrap().len(), 100_000);
        assert!(one.give_up().unwrap());
        assert!(!two.give_up().unwrap());
        assert!(!one.is_there() && !two.is_there());
    }

    #[test]
    fn a_reserve_of_nothing_leaves_no_file() {
        let folder = tempfile::tempdir().unwrap();
        let none = Reserve::new(&folder.path().join("j.db"), 0);
        none.make().unwrap();
        assert!(none.is_there() && fs::read_dir(folder.path()).unwrap().next().is_none());
    }
}
