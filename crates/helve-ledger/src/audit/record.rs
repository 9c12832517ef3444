//! One record a call, made of its entries.

use std::sync::Arc;

use helve_core::approval::Grant;
use helve_core::json::hex;
use helve_core::record::{EndStatus, Ending, Facts, Payload, RawJson};
use helve_core::run::StepKind;
use helve_core::{ApprovalId, CallId, Caller};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::stored::{Damage, StoredEntry};
use crate::chain::Kind;

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
    /// A digest of the tool that it started with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<Arc<str>>,
    /// The approval that its start used up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approval_used: Option<ApprovalId>,
    /// What happened between start and end, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub steps: Vec<StepRecord>,
    /// How it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ending: Option<Ending>,
    /// What was said. Empty once erased.
    pub payload: Payload,
    /// When what was said was erased.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub erased_at: Option<Timestamp>,
    /// What of it cannot be read, because the file is damaged or was changed. The rest of the record
    /// is what could be.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub damaged: Option<String>,
    /// Its entries in the chain, in order.
    pub chain: Vec<ChainLink>,
}

/// Something that happened in the middle of a call.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[non_exhaustive]
pub struct StepRecord {
    /// When it happened.
    pub at: Timestamp,
    /// What happened in this step.
    #[serde(flatten)]
    pub kind: StepKind,
    /// What was said: a result, or an error. Absent where nothing was, or once erased.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub payload: Option<RawJson>,
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
    /// Every status, in the order of the declaration.
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
#[non_exhaustive]
pub struct ChainLink {
    /// The entry's number in the journal.
    pub seq: i64,
    /// Whose chain it is, where there are several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub writer: Option<Arc<str>>,
    /// Its hash in hexadecimal.
    pub hash: String,
}

impl ChainLink {
    fn of(entry: &StoredEntry) -> Self {
        Self { seq: entry.seq, writer: entry.writer.clone(), hash: hex(&entry.hash) }
    }
}

/// The head of a start or an end, as the writer encodes it.
#[derive(Deserialize)]
pub(super) struct StoredHead {
    pub(super) at: Timestamp,
    pub(super) facts: Facts,
    pub(super) digest: Option<Arc<str>>,
    #[serde(default)]
    pub(super) withheld: bool,
    pub(super) grant: Option<Grant>,
    pub(super) ending: Option<Ending>,
    /// Whether another process had the run by then, so that this end does not count.
    #[serde(default)]
    pub(super) fenced: bool,
}

/// The head of a step, as the writer encodes it.
#[derive(Deserialize)]
pub(super) struct StepHead {
    pub(super) at: Timestamp,
    pub(super) call_id: CallId,
    pub(super) run: CallId,
    #[serde(flatten)]
    pub(super) kind: StepKind,
}

/// What the head of a step tells. Absent: it is damaged.
pub fn step_kind(head: &[u8]) -> Option<StepKind> {
    serde_json::from_slice(head).ok().map(|StepHead { kind, .. }| kind)
}

/// The head of an erasure.
#[derive(Deserialize)]
struct ErasedHead {
    at: Timestamp,
}

/// What one entry tells of its call.
enum EntryContent {
    Passage(Box<StoredHead>),
    Step(Box<StepHead>),
    Erased(Timestamp),
    Nothing,
}

fn read(entry: &StoredEntry) -> Result<EntryContent, Damage> {
    match entry.kind {
        Some(Kind::Started | Kind::Finished) => entry.parse_head().map(EntryContent::Passage),
        Some(Kind::Step) => entry.parse_head().map(EntryContent::Step),
        Some(Kind::Erased) => entry.parse_head().map(|head: ErasedHead| EntryContent::Erased(head.at)),
        Some(Kind::Released | Kind::Unanchored | Kind::Accepted) => Ok(EntryContent::Nothing),
        Some(Kind::Migrated | Kind::Vouched | Kind::Adopted | Kind::Spent | Kind::Keyed | Kind::Pruned) => {
            Ok(EntryContent::Nothing)
        }
        None => Err(entry.damage("kind", "no such kind")),
    }
}

/// Puts a call's entries, in order, into one record without its payload.
///
/// None where they tell nothing of a call.
pub fn merge(entries: &[StoredEntry]) -> Option<CallRecord> {
    let mut record: Option<CallRecord> = None;
    let (mut erased_at, mut damaged, mut steps) = (None, None, Vec::new());
    for entry in entries {
        let head = match read(entry) {
            Ok(EntryContent::Passage(head)) if head.fenced => continue,
            Ok(EntryContent::Passage(head)) => head,
            Ok(EntryContent::Step(head)) => {
                steps.push(StepRecord { at: head.at, kind: head.kind, payload: None });
                continue;
            }
            Ok(EntryContent::Erased(at)) => {
                erased_at = Some(at);
                continue;
            }
            Ok(EntryContent::Nothing) => continue,
            Err(Damage(why)) => {
                damaged = Some(why);
                continue;
            }
        };
        let record = record.get_or_insert_with(|| known(head.facts.clone()));
        match head.ending {
            None => {
                record.started_at = Some(head.at);
                record.digest = head.digest;
                record.approval_used = head.grant.map(|grant| grant.approval_id);
            }
            Some(ending) => {
                record.status = ending.status.into();
                record.finished_at = Some(head.at);
                record.ending = Some(ending);
                // A run that was resumed came when it first came.
                let received_at = record.facts.received_at;
                record.facts = Facts { received_at, ..head.facts };
            }
        }
    }
    if damaged.is_some() && record.is_none() {
        record = entries.first().map(|entry| known(unknown_facts(&entry.call_id)));
    }
    record.map(|record| CallRecord {
        erased_at,
        damaged,
        steps,
        chain: entries.iter().map(ChainLink::of).collect(),
        ..record
    })
}

/// A record of which only the facts are known yet.
fn known(facts: Facts) -> CallRecord {
    CallRecord {
        facts,
        status: CallStatus::Started,
        started_at: None,
        finished_at: None,
        digest: None,
        approval_used: None,
        steps: Vec::new(),
        ending: None,
        payload: Payload::default(),
        erased_at: None,
        damaged: None,
        chain: Vec::new(),
    }
}

/// What is left of a call when none of its entries can be read: its id, and so when it came.
fn unknown_facts(call_id: &str) -> Facts {
    // An id that is damaged too stands at the beginning of time.
    let call_id = call_id.parse().unwrap_or_else(|_| CallId::new(Timestamp::UNIX_EPOCH));
    Facts {
        call_id,
        received_at: Timestamp::from_millisecond(call_id.made_at_ms()).unwrap_or(Timestamp::MAX),
        correlation_id: None,
        caller: Arc::new(Caller::anonymous()),
        tool: Arc::from(""),
        resolved: false,
        risk: None,
        changes_world: false,
        idempotency_key: None,
        part: None,
        undo_of: None,
        trace_parent: None,
    }
}

/// Fills in what was said. Apart from [`merge`], so that records that no filter lets through cost
/// less.
pub fn fill(record: &mut CallRecord, entries: &[StoredEntry]) {
    let mut steps = record.steps.iter_mut();
    for entry in entries {
        if entry.kind == Some(Kind::Step) {
            // Those whose heads could not be read are not among the steps.
            if entry.parse_head::<StepHead>().is_ok()
                && let Some(step) = steps.next()
            {
                step.payload = entry.parse_payload().unwrap_or_else(|Damage(why)| {
                    record.damaged = Some(why);
                    None
                });
            }
            continue;
        }
        match entry.parse_payload::<Payload>() {
            Ok(Some(later)) => {
                let started_with = record.payload.arguments.take();
                record.payload = later;
                record.payload.arguments = record.payload.arguments.take().or(started_with);
            }
            Ok(None) => {}
            Err(Damage(why)) => record.damaged = Some(why),
        }
    }
}
