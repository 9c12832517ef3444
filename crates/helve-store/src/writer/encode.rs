//! Entries as rows: a head that the chain covers, and a payload that can be erased.

use helve_core::CallId;
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
}

/// The payload of a start: a [`Payload`] with arguments alone.
#[derive(Serialize)]
struct StartPayload<'a> {
    arguments: &'a RawJson,
}

#[derive(Serialize)]
struct ErasedHead {
    at: Timestamp,
    call_id: CallId,
}

impl RowText {
    pub(super) fn set_entry(&mut self, entry: &Entry) -> Result<Kind, JournalError> {
        match entry {
            Entry::Started(started) => self.set_started(started),
            Entry::Finished(finished) => {
                let head = Head { at: finished.at, facts: &finished.facts, ending: Some(&finished.ending) };
                self.set::<_, Payload>(finished.facts.call_id, &head, Some(&finished.payload))?;
                Ok(Kind::Finished)
            }
        }
    }

    pub(super) fn set_started(&mut self, started: &Started) -> Result<Kind, JournalError> {
        let head = Head { at: started.at, facts: &started.facts, ending: None };
        let payload = StartPayload { arguments: &started.arguments };
        self.set(started.facts.call_id, &head, Some(&payload))?;
        Ok(Kind::Started)
    }

    pub(super) fn set_erased(&mut self, call_id: CallId, at: Timestamp) -> Result<Kind, JournalError> {
        self.set::<_, Payload>(call_id, &ErasedHead { at, call_id }, None)?;
        Ok(Kind::Erased)
    }

    fn set<H: Serialize, P: Serialize>(
        &mut self,
        call_id: CallId,
        head: &H,
        payload: Option<&P>,
    ) -> Result<(), JournalError> {
        use std::fmt::Write;
        self.call_id.clear();
        write!(self.call_id, "{call_id}").expect("writing to a string cannot fail");
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
