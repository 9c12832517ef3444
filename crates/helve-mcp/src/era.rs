//! The protocol's two eras, and its versions.

use serde::{Deserialize, Serialize};

/// How two sides talk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Era {
    /// `initialize`, then a session in which either side asks the other. 2024-11-05 to 2025-11-25.
    Session,
    /// Every request stands by itself and says what it needs in `_meta`. From 2026-07-28.
    Stateless,
}

/// The versions of the session era that we speak, newest first.
pub const SESSION_VERSIONS: [&str; 4] = ["2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"];

/// The versions of the stateless era that we speak, newest first.
pub const STATELESS_VERSIONS: [&str; 1] = ["2026-07-28"];

impl Era {
    /// The era of a version that we speak.
    pub fn of(version: &str) -> Option<Self> {
        if SESSION_VERSIONS.contains(&version) {
            Some(Self::Session)
        } else if STATELESS_VERSIONS.contains(&version) {
            Some(Self::Stateless)
        } else {
            None
        }
    }

    /// Its newest version.
    pub fn version(self) -> &'static str {
        match self {
            Self::Session => SESSION_VERSIONS[0],
            Self::Stateless => STATELESS_VERSIONS[0],
        }
    }
}

/// Keys of `_meta` in the stateless era.
pub mod meta {
    /// The version that a request is written in.
    pub const VERSION: &str = "io.modelcontextprotocol/protocolVersion";
    /// What its client can do.
    pub const CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";
    /// Which client it is.
    pub const CLIENT: &str = "io.modelcontextprotocol/clientInfo";
    /// Which log messages it wants.
    pub const LOG_LEVEL: &str = "io.modelcontextprotocol/logLevel";
}
