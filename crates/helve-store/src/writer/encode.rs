//! Entries as rows: a head that the chain covers, and a payload that can be erased.

use helve_core::CallId;
use helve_core::json::hex;
use helve_core::ports::JournalError;
use helve_core::record::{Ending, Entry, Facts, Payload, RawJson, Started};
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
    pub(super) head: Vec<u8>,
    pub(super) payload: Vec<u8>,
}

/// The head of an entry. The audit trail reads the same fields back.
#[derive(Serialize)]
struct Head<'a> {
    at: Timestamp,
    facts: &'a Facts,
    #[serde(skip_serializing_if = "Option::is_none")]
    ending: Option<&'a Ending>,
    /// The scoped idempotency key that the call claimed or settled with this entry. Joins the
    /// chain with the table of keys, which it does not cover.
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<String>,
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

/// A scoped idempotency key.
type ScopedKey = [u8; 32];

impl RowText {
    pub(super) fn set_entry(&mut self, entry: &Entry, key: Option<&ScopedKey>) -> Result<Kind, JournalError> {
        match entry {
            Entry::Started(started) => self.set_started(started, key),
            Entry::Finished(finished) => {
                let (ending, key) = (Some(&finished.ending), key.map(|key| hex(key)));
                let head = Head { at: finished.at, facts: &finished.facts, ending, key };
                self.set::<_, Payload>(Some(finished.facts.call_id), &head, Some(&finished.payload))?;
                Ok(Kind::Finished)
            }
        }
    }

    pub(super) fn set_started(
        &mut self,
        started: &Started,
        key: Option<&ScopedKey>,
    ) -> Result<Kind, JournalError> {
        let key = key.map(|key| hex(key));
        let head = Head { at: started.at, facts: &started.facts, ending: None, key };
        let payload = StartPayload { arguments: &started.arguments };
        self.set(Some(started.facts.call_id), &head, Some(&payload))?;
        Ok(Kind::Started)
    }

    /// A note about a call, or about the journal itself.
    pub(super) fn set_note(&mut self, call_id: Option<CallId>, at: Timestamp) -> Result<(), JournalError> {
        self.set::<_, Payload>(call_id, &NoteHead { at, call_id }, None)
    }

    fn set<H: Serialize, P: Serialize>(
        &mut self,
        call_id: Option<CallId>,
        head: &H,
        payload: Option<&P>,
    ) -> Result<(), JournalError> {
        use std::fmt::Write;
        self.call_id.clear();
        self.made_ms = call_id.map_or(0, CallId::made_at_ms);
        if let Some(call_id) = call_id {
            write!(self.call_id, "{call_id}").expect("writing to a string cannot fail");
        }
        write_json(&mut self.head, head)?;
        self.payload.clear();
        payload.map_or(Ok(()), |payload| write_json(&mut self.payload, payload))
    }
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
