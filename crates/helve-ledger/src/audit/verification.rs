//! What a check of a whole ledger finds.

use helve_core::json::hex;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::chain::Position;

/// What a check of the whole journal found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Verification {
    /// How many entries are sound, from the first one on.
    pub entries: i64,
    /// How many calls they are about. Only counted where nothing is wrong.
    pub calls: i64,
    /// The last sound entry.
    pub head: Option<Head>,
    /// Whether the end of the chain was checked too.
    pub anchored: Anchored,
    /// The first thing that is wrong.
    pub first_problem: Option<Problem>,
    /// What that is wrong with.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub concern: Option<Concern>,
    /// What was pruned from its beginning, by the signed word of who did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pruned: Option<PrunedUpTo>,
    /// Each chain, where there are several. The rest is of all of them together.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub chains: Vec<ChainFound>,
}

impl Verification {
    /// Whether nothing is wrong.
    pub fn is_sound(&self) -> bool {
        self.first_problem.is_none()
    }
}

/// What is gone from the beginning of a journal, and who vouches for that.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PrunedUpTo {
    /// The last entry that is gone.
    pub last: i64,
    /// Its hash in hexadecimal.
    pub hash: String,
    /// When the cut was made.
    pub at: Timestamp,
    /// By whom, or by which rule.
    pub by: String,
    /// The entry that tells of it.
    pub entry: i64,
    /// The signed note, to be kept elsewhere.
    pub note: String,
}

/// The last entry of a chain. A copy of it elsewhere can tell later whether it is still there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Head {
    /// Its number.
    pub seq: i64,
    /// Its hash in hexadecimal.
    pub hash: String,
}

/// The last entry of one writer's chain.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WriterHead {
    /// Whose chain it is.
    pub writer: String,
    /// Its last entry.
    #[serde(flatten)]
    pub head: Head,
}

/// What a check of one writer's chain found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ChainFound {
    /// Whose chain it is.
    pub writer: String,
    /// How many of its entries are sound, from the first one on.
    pub entries: i64,
    /// The last sound entry.
    pub head: Option<Head>,
    /// The first thing that is wrong with it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub problem: Option<Problem>,
}

impl Head {
    /// The entry at a place in the chain. None: before the first one.
    pub fn at(Position { seq, hash }: Position) -> Option<Self> {
        (seq > 0).then(|| Self { seq, hash: hex(&hash) })
    }
}

/// Whether the chain could be compared with the anchor next to the database.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Anchored {
    /// It was compared.
    Yes,
    /// There is no anchor, so that a cut end would go unnoticed.
    No,
}

/// What a problem is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Concern {
    /// Entries were changed, removed, added or cut off.
    Entries,
    /// The anchor is missing, was missing once, or is damaged. The entries that are there are sound.
    Anchor,
    /// Idempotency keys do not agree with the entries, which are sound.
    Keys,
    /// The table of open runs does not agree with the entries, which are sound.
    Runs,
    /// Questions to people do not agree with the entries, which are sound.
    Approvals,
    /// API keys do not agree with the entries, which are sound.
    ApiKeys,
    /// What sessions have touched does not agree with the entries, which are sound.
    Sessions,
    /// What agents remember does not agree with the entries, which are sound.
    Memory,
    /// What effects would restore does not agree with the entries, which are sound.
    Effects,
    /// The key that signs for the journal is not the one that the entries, which are sound, tell of.
    KeyFile,
    /// The database has other tables than ours, or is damaged itself.
    Database,
}

/// Something that is wrong with a journal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Problem {
    /// The first entry concerned. Absent: it is not about an entry.
    pub seq: Option<i64>,
    /// What is wrong, in words.
    pub what: String,
}
