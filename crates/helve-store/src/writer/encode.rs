//! Entries as rows: a head that the chain covers, and a payload that can be erased.

use helve_core::CallId;
use helve_core::approval::Grant;
use helve_core::json::hex;
use helve_core::ports::JournalError;
use helve_core::record::{Ending, Entry, Facts, Finished, Payload, RawJson, Started};
use helve_core::run::{Step, StepKind};
use jiff::Timestamp;
use serde::Serialize;

use crate::chain::Kind;

/// Largest head or payload. What comes from outside is limited earlier; this keeps a single
/// entry that slipped through from blocking all that come after it.
const TEXT_BYTES_MAX: usize = 64 << 20;

/// One row in the making. Reused, so that writing allocates little.
#[derive(Default)]
pub(super) struct RowText {
    pub(super) call_id: String,
    pub(super) made_ms: i64,
    /// The run that the call is a part of; empty where it is none.
    pub(super) run_id: String,
    pub(super) head: Vec<u8>,
    pub(super) payload: Vec<u8>,
}

/// The head of an entry. The audit trail reads the same fields back.
#[derive(Serialize)]
struct Head<'a> {
    at: Timestamp,
    facts: &'a Facts,
    /// What a start says of its tool: the digest.
    #[serde(skip_serializing_if = "Option::is_none")]
    digest: Option<&'a str>,
    /// Whether a start lacks some of its arguments.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    withheld: bool,
    /// The approval that a start uses up.
    #[serde(skip_serializing_if = "Option::is_none")]
    grant: Option<&'a Grant>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ending: Option<&'a Ending>,
    /// The scoped idempotency key that the call claimed or settled with this entry. Joins the
    /// chain with the table of keys, which it does not cover.
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<String>,
    /// Whether the end came from a process that had lost the run to another, and so does not count.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    fenced: bool,
}

/// The head of a step.
#[derive(Serialize)]
struct StepHead<'a> {
    at: Timestamp,
    call_id: CallId,
    run: CallId,
    #[serde(flatten)]
    kind: &'a StepKind,
}

/// The payload of a start: a [`Payload`] with arguments alone.
#[derive(Serialize)]
struct StartPayload<'a> {
    arguments: &'a RawJson,
}

/// The head of an entry that notes what was done with a call or with the journal.
#[derive(Serialize)]
struct NoteHead {
    at: Timestamp,
    #[serde(skip_serializing_if = "Option::is_none")]
    call_id: Option<CallId>,
}

/// Whether the end of a run counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fence {
    /// It does.
    Open,
    /// It does not: another process has taken the run over.
    Closed,
}

/// A scoped idempotency key.
type ScopedKey = [u8; 32];

impl RowText {
    pub(super) fn set_entry(&mut self, entry: &Entry, key: Option<&ScopedKey>) -> Result<Kind, JournalError> {
        match entry {
            Entry::Started(started) => self.set_started(started, key),
            Entry::Step(step) => self.set_step(step),
            Entry::Finished(finished) => self.set_finished(finished, key, Fence::Open),
        }
    }

    pub(super) fn set_step(&mut self, step: &Step) -> Result<Kind, JournalError> {
        let head = StepHead { at: step.at, call_id: step.call_id, run: step.run, kind: &step.kind };
        let part_of = (step.run != step.call_id).then_some(step.run);
        self.set(Some(step.call_id), part_of, &head, step.payload.as_ref())?;
        Ok(Kind::Step)
    }

    pub(super) fn set_finished(
        &mut self,
        finished: &Finished,
        key: Option<&ScopedKey>,
        fence: Fence,
    ) -> Result<Kind, JournalError> {
        let head = Head {
            at: finished.at,
            facts: &finished.facts,
            digest: None,
            withheld: false,
            grant: None,
            ending: Some(&finished.ending),
            key: key.map(|key| hex(key)),
            fenced: fence == Fence::Closed,
        };
        let facts = &finished.facts;
        self.set(Some(facts.call_id), part_of(facts), &head, Some(&finished.payload))?;
        Ok(Kind::Finished)
    }

    pub(super) fn set_started(
        &mut self,
        started: &Started,
        key: Option<&ScopedKey>,
    ) -> Result<Kind, JournalError> {
        let facts = &started.facts;
        let head = Head {
            at: started.at,
            facts,
            digest: Some(&started.digest),
            withheld: started.withheld,
            grant: started.grant.as_ref(),
            ending: None,
            key: key.map(|key| hex(key)),
            fenced: false,
        };
        let payload = StartPayload { arguments: &started.arguments };
        self.set(Some(facts.call_id), part_of(facts), &head, Some(&payload))?;
        Ok(Kind::Started)
    }

    /// A note about a call, or about the journal itself.
    pub(super) fn set_note(&mut self, call_id: Option<CallId>, at: Timestamp) -> Result<(), JournalError> {
        self.set::<_, Payload>(call_id, None, &NoteHead { at, call_id }, None)
    }

    fn set<H: Serialize, P: Serialize>(
        &mut self,
        call_id: Option<CallId>,
        part_of: Option<CallId>,
        head: &H,
        payload: Option<&P>,
    ) -> Result<(), JournalError> {
        use std::fmt::Write;
        self.call_id.clear();
        self.made_ms = call_id.map_or(0, CallId::made_at_ms);
        self.run_id.clear();
        for (text, id) in [(&mut self.call_id, call_id), (&mut self.run_id, part_of)] {
            id.map_or(Ok(()), |id| write!(text, "{id}")).expect("writing to a string cannot fail");
        }
        write_json(&mut self.head, head)?;
        self.payload.clear();
        payload.map_or(Ok(()), |payload| write_json(&mut self.payload, payload))
    }
}

fn part_of(facts: &Facts) -> Option<CallId> {
    facts.part.as_ref().map(|part| part.run)
}

fn write_json(text: &mut Vec<u8>, value: &impl Serialize) -> Result<(), JournalError> {
    text.clear();
    serde_json::to_writer(&mut *text, value)
        .map_err(|error| JournalError::new("the entry cannot be written as JSON").with_source(error))?;
    if text.len() > TEXT_BYTES_MAX {
        return Err(JournalError::new(format!("the entry is larger than {TEXT_BYTES_MAX} bytes")));
    }
    Ok(())
}
