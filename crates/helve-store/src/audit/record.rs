//! One record a call, made of its entries.

use helve_core::json::hex;
use helve_core::record::{EndStatus, Ending, Facts, Payload};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::rows::StoredEntry;
use crate::chain::Kind;
use crate::error::StoreError;

/// What is known of a call.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[non_exhaustive]
pub struct CallRecord {
    /// What was known from the beginning.
    #[serde(flatten)]
    pub facts: Facts,
    /// What became of it, in a word.
    pub status: CallStatus,
    /// When it started, if it was to change the world.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_at: Option<Timestamp>,
    /// When it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finished_at: Option<Timestamp>,
    /// How it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ending: Option<Ending>,
    /// What was said. Empty once erased.
    pub payload: Payload,
    /// When what was said was erased.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub erased_at: Option<Timestamp>,
    /// Its entries in the chain, in order.
    pub chain: Vec<ChainLink>,
}

/// What became of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CallStatus {
    /// It started, and its end is not recorded: it is running, or nobody knows how it ended.
    Started,
    /// The tool answered.
    Done,
    /// The tool failed, and its failure mode made a result of that.
    Returned,
    /// The tool failed, or the call was wrong.
    Failed,
    /// It was forbidden.
    Denied,
    /// A person is asked.
    Pending,
}

impl CallStatus {
    /// Every status.
    pub const ALL: [Self; 6] =
        [Self::Started, Self::Done, Self::Returned, Self::Failed, Self::Denied, Self::Pending];

    /// The word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Started => "started",
            Self::Done => EndStatus::Done.as_str(),
            Self::Returned => EndStatus::Returned.as_str(),
            Self::Failed => EndStatus::Failed.as_str(),
            Self::Denied => EndStatus::Denied.as_str(),
            Self::Pending => EndStatus::Pending.as_str(),
        }
    }
}

impl From<EndStatus> for CallStatus {
    fn from(status: EndStatus) -> Self {
        match status {
            EndStatus::Done => Self::Done,
            EndStatus::Returned => Self::Returned,
            EndStatus::Failed => Self::Failed,
            EndStatus::Denied => Self::Denied,
            EndStatus::Pending => Self::Pending,
        }
    }
}

/// An entry's place in the chain.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChainLink {
    /// Its number.
    pub seq: i64,
    /// Its hash in hexadecimal.
    pub hash: String,
}

/// The head of a start or an end, as the writer encodes it.
#[derive(Deserialize)]
struct StoredHead {
    at: Timestamp,
    facts: Facts,
    ending: Option<Ending>,
}

/// The head of an erasure.
#[derive(Deserialize)]
struct ErasedHead {
    at: Timestamp,
}

/// Puts a call's entries, in order, into one record without its payload.
///
/// None where there is only an erasure, which a sound chain never holds.
pub(super) fn merge(entries: &[StoredEntry]) -> Result<Option<CallRecord>, StoreError> {
    let mut record: Option<CallRecord> = None;
    let mut erased_at = None;
    for entry in entries {
        if entry.kind == Kind::Erased {
            erased_at = Some(entry.parse_head::<ErasedHead>()?.at);
            continue;
        }
        let head: StoredHead = entry.parse_head()?;
        let record = record.get_or_insert_with(|| CallRecord {
            facts: head.facts.clone(),
            status: CallStatus::Started,
            started_at: None,
            finished_at: None,
            ending: None,
            payload: Payload::default(),
            erased_at: None,
            chain: Vec::new(),
        });
        match head.ending {
            None => record.started_at = Some(head.at),
            Some(ending) => {
                record.status = ending.status.into();
                record.finished_at = Some(head.at);
                record.ending = Some(ending);
                record.facts = head.facts;
            }
        }
    }
    Ok(record.map(|record| CallRecord {
        erased_at,
        chain: entries.iter().map(|entry| ChainLink { seq: entry.seq, hash: hex(&entry.hash) }).collect(),
        ..record
    }))
}

/// Fills in what was said. Apart from [`merge`], so that records that no filter lets through cost
/// less.
pub(super) fn fill(record: &mut CallRecord, entries: &[StoredEntry]) -> Result<(), StoreError> {
    for entry in entries {
        if let Some(later) = entry.parse_payload()? {
            let started_with = record.payload.arguments.take();
            record.payload = later;
            record.payload.arguments = record.payload.arguments.take().or(started_with);
        }
    }
    Ok(())
}
