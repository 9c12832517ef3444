//! Entries as they come out of a database.

use std::sync::Arc;

use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::chain::Kind;

/// A row of the journal, before its JSON is read.
pub struct StoredEntry {
    /// Its number in its chain.
    pub seq: i64,
    /// Whose chain it stands in, where there are several.
    pub writer: Option<Arc<str>>,
    /// Absent: no kind that we know.
    pub kind: Option<Kind>,
    /// The call it is about.
    pub call_id: String,
    /// Its hash.
    pub hash: Vec<u8>,
    /// What is never erased.
    pub head: Vec<u8>,
    /// What was said, where that was read and not erased.
    pub payload: Option<Vec<u8>>,
    /// Whether there was a payload when it was written.
    pub had_payload: bool,
}

impl StoredEntry {
    /// What its head tells.
    pub fn parse_head<'a, T: Deserialize<'a>>(&'a self) -> Result<T, Damage> {
        serde_json::from_slice(&self.head).map_err(|error| self.damage("head", error))
    }

    /// What was said.
    pub fn parse_payload<T: DeserializeOwned>(&self) -> Result<Option<T>, Damage> {
        let payload = self.payload.as_deref().map(serde_json::from_slice).transpose();
        payload.map_err(|error| self.damage("payload", error))
    }

    /// Whether what was said was erased.
    pub fn is_erased(&self) -> bool {
        self.had_payload && self.payload.is_none()
    }

    /// A part of it cannot be read.
    pub fn damage(&self, part: &str, why: impl std::fmt::Display) -> Damage {
        let whose = self.writer.as_deref().map_or_else(String::new, |writer| format!(" of {writer}"));
        Damage(format!("the {part} of entry {}{whose} cannot be read: {why}", self.seq))
    }
}

/// Why a part of an entry cannot be read.
#[derive(Debug)]
pub struct Damage(pub String);
