//! What is kept of a collection between two looks at it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

/// How far a collection was read. Opaque to everybody else.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum State {
    /// Everything up to a token was read.
    Token(String),
    /// A list of changes is being read, page by page and in the order of keys.
    ///
    /// INVARIANT: the list can be asked for again from the same token. What came after it is found from `to`.
    Pages {
        /// The token that the list begins at; empty for a first look.
        from: String,
        /// The token up to which it goes.
        to: String,
        /// The key of the last object that was handed out.
        after: String,
        /// Whether the server has more from `to` on.
        truncated: bool,
    },
    /// A server without tokens: what each object was when it was handed out.
    Seen {
        /// The collection's tag, where all of it was handed out.
        ctag: Option<String>,
        /// By the key of its href, a digest of its ETag.
        objects: BTreeMap<String, String>,
    },
}

impl State {
    pub(super) fn read(text: &str) -> Option<Self> {
        serde_json::from_str(text).ok()
    }

    pub(super) fn text(&self) -> String {
        serde_json::to_string(self).expect("strings and flags can be written")
    }
}

/// A short stand-in for an ETag. Two of one object are alike by chance once in 2^64.
pub(super) fn digest(etag: &str) -> String {
    Sha256::digest(etag.as_bytes())[..8].iter().map(|byte| format!("{byte:02x}")).collect()
}
