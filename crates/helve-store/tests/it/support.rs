//! What several tests need.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use helve_store::{Audit, CallRecord, Shown, Store, StoreOptions, Verification};
use tempfile::TempDir;

/// A folder that goes away, and a path in it.
pub(crate) struct Place {
    folder: TempDir,
}

impl Place {
    pub(crate) fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn db(&self) -> PathBuf {
        self.folder.path().join("journal.db")
    }

    pub(crate) fn anchor(&self) -> PathBuf {
        self.folder.path().join("journal.db.head")
    }

    pub(crate) fn reserve(&self) -> PathBuf {
        self.folder.path().join("journal.db.reserve")
    }

    pub(crate) fn open(&self) -> Store {
        Store::open(&self.db(), StoreOptions::default()).unwrap()
    }

    pub(crate) fn audit(&self) -> Audit {
        Audit::open(&self.db()).unwrap()
    }

    pub(crate) fn verify(&self) -> Verification {
        self.audit().verify(|_| {}).unwrap()
    }

    /// A copy of the database, its log and its anchor, as they are now.
    pub(crate) fn copy(&self) -> Self {
        let copy = Self::new();
        for suffix in ["", "-wal", ".head"] {
            let name = format!("journal.db{suffix}");
            if self.folder().join(&name).exists() {
                std::fs::copy(self.folder().join(&name), copy.folder().join(&name)).unwrap();
            }
        }
        copy
    }
}

pub(crate) fn show(audit: &Audit, id: impl std::fmt::Display) -> Option<CallRecord> {
    match audit.show(&id.to_string()).unwrap() {
        Shown::Call(record) => Some(*record),
        Shown::Nothing => None,
        Shown::Ambiguous(ids) => panic!("{id} is ambiguous: {ids:?}"),
    }
}

pub(crate) fn export(audit: &Audit) -> String {
    let mut lines = Vec::new();
    audit.export(None, &mut lines, |_| {}).unwrap();
    String::from_utf8(lines).unwrap()
}

pub(crate) fn wait_until(what: &str, condition: impl Fn() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(30);
    while !condition() {
        assert!(Instant::now() < deadline, "waited in vain: {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}
