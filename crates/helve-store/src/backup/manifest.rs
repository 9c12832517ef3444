//! The format of a backup, number 1.
//!
//! A folder that only its user can read:
//!
//! | file | what it is |
//! |---|---|
//! | `manifest.json` | when it was made, the last entry, and length and SHA-256 of every other file; written last |
//! | `helve.db` | the ledger as one SQLite file, without a log |
//! | `helve.db.head` | its anchor: the last entry of this copy |
//! | `helve.db.key` | the key that signs checkpoints and marks secrets, where the ledger has one |
//! | `helve.db.backups/NAME` | former contents of files |
//!
//! The names are those of a ledger, so that whatever reads a ledger reads a backup where it lies.
//! `manifest.json` is `{"manifest": {…}, "sha256": "…"}`, where the digest is that of the manifest's canonical JSON
//! (sorted keys, no spaces): a damaged manifest is told from a damaged file.

use std::fs::File;
use std::io::{Read, Write};
use std::path::{Component, Path, PathBuf};

use helve_core::json::{canonical, sha256_hex};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::BackupError;
use crate::audit::Head;

/// The format that this version writes, and the only one so far.
pub(super) const FORMAT: u32 = 1;

pub(super) const MANIFEST: &str = "manifest.json";
pub(super) const LEDGER: &str = "helve.db";
pub(super) const HEAD: &str = "helve.db.head";
pub(super) const KEY: &str = "helve.db.key";
pub(super) const FILES: &str = "helve.db.backups";

/// Largest manifest that is read: that of a hundred thousand files.
const MANIFEST_BYTES_MAX: u64 = 16 << 20;

/// What is in a backup.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Manifest {
    /// The format's number.
    pub format: u32,
    /// When it was made.
    pub made_at: Timestamp,
    /// The version of Helve that made it.
    pub made_by: String,
    /// The last entry of the ledger. Absent: it had none.
    pub head: Option<Head>,
    /// Every other file.
    pub files: Vec<FileMark>,
}

/// By what a file of a backup is known again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct FileMark {
    /// Its name in the backup's folder.
    pub name: String,
    /// How long it is.
    pub bytes: u64,
    /// Its SHA-256 in hexadecimal.
    pub sha256: String,
}

impl Manifest {
    /// The format's number, before anything else is made of it.
    fn format_of(document: &Value) -> Option<u64> {
        document.get("manifest")?.get("format")?.as_u64()
    }

    pub(super) fn write(&self, folder: &Path) -> std::io::Result<()> {
        let manifest = serde_json::to_value(self)?;
        let sha256 = sha256_hex(canonical(&manifest).as_bytes());
        let mut text = serde_json::to_vec_pretty(&json!({ "manifest": manifest, "sha256": sha256 }))?;
        text.push(b'\n');
        let mut file = super::create(&folder.join(MANIFEST))?;
        file.write_all(&text)?;
        file.sync_all()
    }

    pub(super) fn read(folder: &Path) -> Result<Self, BackupError> {
        let path = folder.join(MANIFEST);
        let file = File::open(&path).map_err(|source| match source.kind() {
            std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory => {
                BackupError::NotABackup(folder.to_owned())
            }
            _ => BackupError::io("read", &path, source),
        })?;
        let mut text = Vec::new();
        file.take(MANIFEST_BYTES_MAX)
            .read_to_end(&mut text)
            .map_err(|source| BackupError::io("read", &path, source))?;
        let damaged = || BackupError::damaged(MANIFEST, "it is not what was written");
        let document: Value = serde_json::from_slice(&text).map_err(|_| damaged())?;
        match Self::format_of(&document) {
            Some(found) if found > u64::from(FORMAT) => return Err(BackupError::Newer { found }),
            Some(_) | None => {}
        }
        let manifest = document.get("manifest").ok_or_else(damaged)?;
        if document["sha256"] != sha256_hex(canonical(manifest).as_bytes()) {
            return Err(damaged());
        }
        let manifest: Self = serde_json::from_value(manifest.clone()).map_err(|_| damaged())?;
        let has_ledger = manifest.files.iter().any(|file| file.name == LEDGER);
        let is_ours = manifest.files.iter().all(|file| is_known(&file.name));
        if has_ledger && is_ours { Ok(manifest) } else { Err(damaged()) }
    }
}

/// Whether a name is one of a backup's files, and leads nowhere else.
fn is_known(name: &str) -> bool {
    let mut parts = Path::new(name).components();
    match (parts.next(), parts.next(), parts.next()) {
        (Some(Component::Normal(_)), None, None) => [LEDGER, HEAD, KEY].contains(&name),
        (Some(Component::Normal(folder)), Some(Component::Normal(_)), None) => folder == FILES,
        _ => false,
    }
}

impl FileMark {
    /// The former content of a file that it is, by its name.
    pub(super) fn former_content(&self) -> Option<&Path> {
        Path::new(&self.name).strip_prefix(FILES).ok()
    }

    pub(super) fn path(&self, folder: &Path) -> PathBuf {
        folder.join(&self.name)
    }

    /// Refuses a file that is not what was written.
    pub(super) fn check(&self, bytes: u64, sha256: &str) -> Result<(), BackupError> {
        if bytes != self.bytes {
            let what = format!("it has {bytes} bytes instead of {}", self.bytes);
            return Err(BackupError::damaged(&self.name, what));
        }
        if sha256 != self.sha256 {
            return Err(BackupError::damaged(&self.name, "its content was changed"));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_of_a_backup_are_known() {
        for name in ["helve.db", "helve.db.key", "helve.db.head", "helve.db.backups/5a4d"] {
            assert!(is_known(name), "{name}");
        }
        let strange = [
            "",
            "/etc/passwd",
            "../helve.db",
            "helve.db/../x",
            "helve.db.backups/../x",
            "helve.db.backups/a/b",
            "helve.db.backups",
            "helve.db.owners/x",
        ];
        for name in strange {
            assert!(!is_known(name), "{name}");
        }
    }
}
