//! The log next to the database, `-wal`: whether it is still the one that SQLite writes to.

use std::path::{Path, PathBuf};

use crate::error::StoreError;
use crate::schema;

/// The log as we know it.
pub(super) struct Log {
    path: PathBuf,
    identity: Option<(u64, u64)>,
    /// How long it was after the last group.
    bytes: u64,
}

impl Log {
    /// The log of an open database.
    pub(super) fn of_database(database: &Path) -> Self {
        let mut path = database.as_os_str().to_owned();
        path.push("-wal");
        let path = PathBuf::from(path);
        Self { identity: schema::identity(&path), path, bytes: 0 }
    }

    /// Fails where the log was removed, or another one stands in its place.
    pub(super) fn check(&self) -> Result<(), StoreError> {
        // Before the first read or write there is none.
        if self.identity.is_some() && schema::identity(&self.path) != self.identity {
            return Err(StoreError::Replaced(self.path.clone()));
        }
        Ok(())
    }

    /// Whether it is shorter than it was. SQLite writes it from its beginning again, and cuts it only once all
    /// of it is in the database.
    pub(super) fn was_cut(&self) -> bool {
        self.length() < self.bytes
    }

    /// Remembers it as it is after a group.
    pub(super) fn note(&mut self) {
        self.bytes = self.length();
        if self.identity.is_none() {
            self.identity = schema::identity(&self.path);
        }
    }

    fn length(&self) -> u64 {
        std::fs::metadata(&self.path).map_or(0, |log| log.len())
    }
}
