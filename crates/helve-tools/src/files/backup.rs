//! Former contents of files, so that changes can be undone after a restart.
//!
//! A folder of Helve's own: contents by their hash, and for each call what it was about to do. All
//! of it is bounded; the oldest goes first, and what is gone cannot be undone any more.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::SystemTime;

use helve::CallId;
use helve::json::sha256_hex;

/// Most files in the folder.
const FILES_MAX: usize = 20_000;

/// Where former contents are kept.
pub(super) struct Backups {
    folder: PathBuf,
    bytes_max: u64,
    /// How much was added since the folder was last looked through.
    added: AtomicU64,
}

impl Backups {
    pub(super) fn new(folder: PathBuf, bytes_max: u64) -> Self {
        Self { folder, bytes_max, added: AtomicU64::new(u64::MAX) }
    }

    /// Whether content of this size is kept at all.
    pub(super) fn takes(&self, bytes: u64) -> bool {
        bytes <= self.bytes_max / 2
    }

    /// Keeps content; it is on disk when this returns.
    pub(super) fn keep(&self, hash: &str, content: &[u8]) -> io::Result<()> {
        self.make_room(content.len() as u64)?;
        let path = self.folder.join(hash);
        if let Ok(file) = fs::File::options().write(true).open(&path)
            && file.metadata()?.len() == content.len() as u64
        {
            // Young again: the newest change needs it.
            return file.set_modified(SystemTime::now());
        }
        self.write(&path, content)
    }

    /// Content that was kept, if it still is, and still what it was.
    pub(super) fn read(&self, hash: &str) -> io::Result<Option<Vec<u8>>> {
        // The hash comes from the journal; it must not lead anywhere else.
        if hash.len() != 64 || !hash.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Ok(None);
        }
        let content = match fs::read(self.folder.join(hash)) {
            Ok(content) => content,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        Ok((sha256_hex(&content) == hash).then_some(content))
    }

    /// Writes down what a call is about to do, for when it is cut short.
    pub(super) fn note(&self, call: CallId, text: &str) -> io::Result<()> {
        self.make_room(text.len() as u64)?;
        self.write(&self.note_path(call), text.as_bytes())
    }

    /// What a call was about to do.
    pub(super) fn noted(&self, call: CallId) -> io::Result<Option<String>> {
        match fs::read_to_string(self.note_path(call)) {
            Ok(text) => Ok(Some(text)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn note_path(&self, call: CallId) -> PathBuf {
        self.folder.join(format!("{call}.json"))
    }

    fn write(&self, path: &Path, content: &[u8]) -> io::Result<()> {
        use std::os::unix::fs::OpenOptionsExt;
        let temporary = self.folder.join(format!("tmp-{:016x}", fastrand::u64(..)));
        let mut file = fs::File::options().write(true).create_new(true).mode(0o600).open(&temporary)?;
        file.write_all(content)?;
        file.sync_all()?;
        fs::rename(&temporary, path)?;
        fs::File::open(&self.folder)?.sync_all()
    }

    /// Makes the folder, and drops the oldest of what is in it where there is too much.
    fn make_room(&self, bytes: u64) -> io::Result<()> {
        use std::os::unix::fs::DirBuilderExt;
        fs::DirBuilder::new().recursive(true).mode(0o700).create(&self.folder)?;
        let added = self.added.load(Ordering::Relaxed).saturating_add(bytes);
        self.added.store(added, Ordering::Relaxed);
        // Looking through the folder takes time, so it is done once for many changes.
        if added < self.bytes_max / 16 {
            return Ok(());
        }
        self.added.store(bytes, Ordering::Relaxed);
        let mut kept = Vec::new();
        for entry in fs::read_dir(&self.folder)? {
            let entry = entry?;
            let Ok(about) = entry.metadata() else { continue };
            kept.push((about.modified().unwrap_or(SystemTime::UNIX_EPOCH), about.len(), entry.path()));
        }
        kept.sort();
        let mut total: u64 = kept.iter().map(|(_, bytes, _)| bytes).sum();
        let room = self.bytes_max.saturating_sub(bytes.max(self.bytes_max / 16));
        let mut count = kept.len();
        for (_, bytes, path) in kept {
            if total <= room && count <= FILES_MAX {
                break;
            }
            let _ = fs::remove_file(path);
            total -= bytes;
            count -= 1;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_is_found_by_its_hash_until_there_is_too_much() {
        let folder = tempfile::tempdir().unwrap();
        let backups = Backups::new(folder.path().join("backups"), 1_000);
        let keep = |content: &[u8]| {
            let hash = sha256_hex(content);
            backups.keep(&hash, content).unwrap();
            hash
        };
        let first = keep(b"first");
        assert_eq!(backups.read(&first).unwrap().unwrap(), b"first");
        assert_eq!(backups.read("../../etc/passwd").unwrap(), None);
        for round in 0..20_u8 {
            keep(&[round; 200]);
        }
        let last = keep(&[20; 200]);
        assert!(backups.read(&last).unwrap().is_some());
        assert_eq!(backups.read(&first).unwrap(), None);
        let total: u64 = fs::read_dir(folder.path().join("backups"))
            .unwrap()
            .map(|e| e.unwrap().metadata().unwrap().len())
            .sum();
        assert!(total <= 1_000, "{total}");
    }

    #[test]
    fn content_that_was_tampered_with_is_not_given_back() {
        let folder = tempfile::tempdir().unwrap();
        let backups = Backups::new(folder.path().to_owned(), 1_000);
        let hash = sha256_hex(b"true");
        backups.keep(&hash, b"true").unwrap();
        fs::write(folder.path().join(&hash), b"lies").unwrap();
        assert_eq!(backups.read(&hash).unwrap(), None);
    }
}
