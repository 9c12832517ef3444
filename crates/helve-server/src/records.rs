//! What is recorded of calls, as the server sees it. Whoever has the journal provides it: this crate
//! knows no SQL.

use helve::ports::JournalError;
use helve::record::RawJson;
use helve::{BoxFuture, CallId, ErrorCode, Risk, Stance};
use jiff::Timestamp;
use schemars::JsonSchema;
use serde::Deserialize;

/// Which calls to list. A field that is absent lets every call through.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct RecordQuery {
    /// The tool's full name.
    pub tool: Option<String>,
    /// What became of it: `done`, `returned`, `failed`, `denied`, `pending`, `running` and so on.
    pub status: Option<String>,
    /// The error's code.
    #[schemars(with = "Option<String>")]
    pub code: Option<ErrorCode>,
    /// Who answers for it. Callers see their own calls, whatever stands here.
    pub principal: Option<String>,
    /// The caller's session.
    pub session: Option<String>,
    /// The caller's agent.
    pub agent: Option<String>,
    /// What the gate said: `allow`, `ask` or `deny`.
    #[schemars(with = "Option<String>")]
    pub said: Option<Stance>,
    /// What decided it, or how that begins, as in `policy` or `rule deny`.
    pub by: Option<String>,
    /// The tool's risk.
    #[schemars(with = "Option<String>")]
    pub risk: Option<Risk>,
    /// Calls that came at that time or later.
    #[schemars(with = "Option<String>")]
    pub since: Option<Timestamp>,
    /// Calls that came before.
    #[schemars(with = "Option<String>")]
    pub until: Option<Timestamp>,
    /// Calls older than this one: the last of the page before.
    #[schemars(with = "Option<String>")]
    pub before: Option<CallId>,
    /// Most calls to return; at most 1,000.
    pub limit: Option<usize>,
}

/// One call, as it is recorded.
#[derive(Debug)]
pub struct Record {
    /// The call.
    pub id: CallId,
    /// Who answers for it.
    pub principal: Option<String>,
    /// Whether it is the whole of a run: it changes the world, or has parts or effects.
    pub is_run: bool,
    /// All that is recorded, as JSON.
    pub body: RawJson,
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
