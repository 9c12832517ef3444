//! What is recorded of calls, as the server sees it. The owner of the journal provides it: this crate
//! knows no SQL.

use std::borrow::Cow;

use helve::ports::JournalError;
use helve::record::{Ending, Facts, Payload, RawJson};
use helve::run::StepKind;
use helve::{ApprovalId, BoxFuture, CallId, CodeName, Risk, Stance};
use jiff::Timestamp;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Serialize};

/// Among which calls to look.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Among {
    /// All of them.
    #[default]
    Calls,
    /// Those that are runs: they have started to change the world, or have effects or parts.
    Runs,
}

/// Which calls to list. A field that is absent lets every call through.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct RecordQuery {
    /// Among which calls to look.
    #[serde(skip)]
    pub among: Among,
    /// The tool's full name.
    pub tool: Option<String>,
    /// What became of it.
    #[schemars(extend("enum" = ["started", "done", "returned", "failed", "denied", "pending", null]))]
    pub status: Option<String>,
    /// The error's code, or the tool's own.
    pub code: Option<CodeName>,
    /// Who answers for it. Callers see their own calls, whatever stands here.
    pub principal: Option<String>,
    /// The caller's session.
    pub session: Option<String>,
    /// The caller's agent.
    pub agent: Option<String>,
    /// What the gate said: `allow`, `ask` or `deny`.
    pub said: Option<Stance>,
    /// What decided it, or how that begins, as in `policy` or `rule deny`.
    pub by: Option<String>,
    /// The tool's risk.
    pub risk: Option<Risk>,
    /// Calls that came at that time or later.
    pub since: Option<Timestamp>,
    /// Calls that came before.
    pub until: Option<Timestamp>,
    /// Calls older than this one: the last of the page before.
    pub before: Option<CallId>,
    /// Most calls to return; at most 1,000.
    pub limit: Option<usize>,
}

/// One call, as it is recorded.
#[derive(Debug)]
pub struct Record {
    /// The id of the call.
    pub id: CallId,
    /// Who answers for it.
    pub principal: Option<String>,
    /// All that is recorded, as JSON.
    pub body: RawJson,
}

/// All that is recorded of a call, as the journal wrote it.
#[derive(Debug, Serialize)]
#[serde(transparent)]
pub(crate) struct Recorded(RawJson);

impl From<Record> for Recorded {
    fn from(record: Record) -> Self {
        Self(record.body)
    }
}

impl JsonSchema for Recorded {
    fn schema_name() -> Cow<'static, str> {
        RecordDocument::schema_name()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        RecordDocument::json_schema(generator)
    }
}

/// How the journal writes a call. The journal's crate is not known here, so its words are said again; a test
/// holds them against records of a real journal.
#[derive(JsonSchema)]
#[schemars(rename = "CallRecord")]
#[expect(dead_code, reason = "it describes what the journal has written")]
pub(crate) struct RecordDocument {
    #[serde(flatten)]
    facts: Facts,
    /// What became of it, in a word.
    status: RecordStatus,
    /// When it started, if it was to change the world.
    #[serde(skip_serializing_if = "Option::is_none")]
    started_at: Option<Timestamp>,
    /// When it ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    finished_at: Option<Timestamp>,
    /// A digest of the tool that it started with.
    #[serde(skip_serializing_if = "Option::is_none")]
    digest: Option<String>,
    /// The approval that its start used up.
    #[serde(skip_serializing_if = "Option::is_none")]
    approval_used: Option<ApprovalId>,
    /// What happened between start and end, in order.
    #[serde(skip_serializing_if = "Option::is_none")]
    steps: Option<Vec<StepDocument>>,
    /// How it ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    ending: Option<Ending>,
    /// What was said. Empty once erased.
    payload: Payload,
    /// When what was said was erased.
    #[serde(skip_serializing_if = "Option::is_none")]
    erased_at: Option<Timestamp>,
    /// What of it cannot be read, because the file is damaged or was changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    damaged: Option<String>,
    /// Its entries in the chain, in order.
    chain: Vec<LinkDocument>,
}

/// What became of a call, in a word.
#[derive(JsonSchema)]
#[serde(rename_all = "snake_case")]
#[expect(dead_code, reason = "it describes what the journal has written")]
enum RecordStatus {
    /// It started, and has not ended.
    Started,
    /// It ran and succeeded.
    Done,
    /// It failed, and its tool returns failures as results.
    Returned,
    /// It was refused, or its tool failed.
    Failed,
    /// It was not allowed.
    Denied,
    /// A person is asked.
    Pending,
}

/// Something that happened in the middle of a call.
#[derive(JsonSchema)]
#[schemars(rename = "StepRecord")]
#[expect(dead_code, reason = "it describes what the journal has written")]
struct StepDocument {
    /// When it happened.
    at: Timestamp,
    #[serde(flatten)]
    kind: StepKind,
    /// What belongs to it.
    #[serde(skip_serializing_if = "Option::is_none")]
    payload: Option<serde_json::Value>,
}

/// An entry's place in the chain.
#[derive(JsonSchema)]
#[schemars(rename = "ChainLink")]
#[expect(dead_code, reason = "it describes what the journal has written")]
struct LinkDocument {
    /// The entry's number in the journal.
    seq: i64,
    /// Its hash in hexadecimal.
    hash: String,
}

/// What cannot be asked for, in words.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// The question is wrong.
    #[error("{0}")]
    Query(String),
    /// The journal cannot be read.
    #[error(transparent)]
    Journal(#[from] JournalError),
}

/// The record of calls.
pub trait Records: Send + Sync + 'static {
    /// Calls that fit, newest first.
    fn list(&self, query: RecordQuery) -> BoxFuture<'_, Result<Vec<Record>, RecordError>>;

    /// One call. None: there is no such call.
    fn show(&self, id: CallId) -> BoxFuture<'_, Result<Option<Record>, RecordError>>;

    /// What the last check of the whole journal found. None: this process has made none.
    fn verified(&self) -> Option<Verified> {
        None
    }

    /// What the last scheduled pruning did. None: this process has made none.
    fn pruned(&self) -> Option<Pruned> {
        None
    }
}

/// What a scheduled pruning did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pruned {
    /// When it ended.
    pub at: Timestamp,
    /// How many entries went since this process started.
    pub entries: u64,
    /// Whether it did all that it should.
    pub done: bool,
}

/// What a check of the whole journal found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Verified {
    /// When it ended.
    pub at: Timestamp,
    /// How many entries are sound.
    pub entries: u64,
    /// Whether nothing is wrong.
    pub sound: bool,
}
