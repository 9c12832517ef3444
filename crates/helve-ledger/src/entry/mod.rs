//! Entries as rows: a head that the chain covers, and a payload that can be erased.

mod head;
mod json;

use helve_core::json::hex;
use helve_core::ports::JournalError;
use helve_core::record::{Entry, Finished, Started};
use helve_core::run::{Step, StepKind};
use helve_core::{ApprovalId, CallId};
use jiff::Timestamp;
use serde::Serialize;

use self::head::{Head, Last, write_arguments, write_payload};
use crate::chain::{Kind, Salt};
use crate::vouch::{self, Voucher};

/// Largest head or payload. What comes from outside is limited earlier; this keeps a single
/// entry that slipped through from blocking all that come after it.
const TEXT_BYTES_MAX: usize = 64 << 20;

/// A scoped idempotency key.
pub type ScopedKey = [u8; 32];

/// One row in the making. Reused, so that writing allocates little.
#[derive(Default)]
pub struct RowText {
    /// The call; empty where it is about none.
    pub call_id: String,
    /// When the call came, in milliseconds; 0 without a call.
    pub made_ms: i64,
    /// The run that the call is a part of; empty where it is none.
    pub run_id: String,
    /// What is never erased.
    pub head: Vec<u8>,
    /// What was said; empty where nothing was.
    pub payload: Vec<u8>,
    last: Last,
}

/// The head of a step.
#[derive(Serialize)]
struct StepHead<'a> {
    at: Timestamp,
    call_id: CallId,
    run: CallId,
    #[serde(flatten)]
    kind: &'a StepKind,
    #[serde(flatten)]
    seals: &'a Seals,
}

/// Digests of rows that change with a step, so that the chain covers what decides in them.
#[derive(Default, Serialize)]
pub struct Seals {
    /// Of a question, or of what an effect would restore.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seal: Option<String>,
    /// Of the rule that was made with a decision.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rule_seal: Option<String>,
    /// Of the value that an effect or its undoing wrote.
    #[serde(flatten)]
    pub value: Option<Voucher>,
    /// Whether another process has the run, so that the step changed nothing.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub fenced: bool,
}

/// The head of an entry that notes what was done with a call or with the journal.
#[derive(Serialize)]
struct NoteHead<'a> {
    at: Timestamp,
    #[serde(skip_serializing_if = "Option::is_none")]
    call_id: Option<CallId>,
    #[serde(flatten)]
    told: &'a Note,
}

/// What a note tells besides when and of which call.
#[derive(Default, Serialize)]
pub struct Note {
    /// The process that took a run over.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
    /// The approval that was used up.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub approval_id: Option<ApprovalId>,
    /// The key that signs for the journal.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// What it tells of a row.
    #[serde(flatten)]
    pub row: Option<Voucher>,
}

impl Note {
    /// Of the process that takes a run over.
    pub fn of_owner(owner: &str) -> Self {
        Self { owner: Some(owner.to_owned()), ..Self::default() }
    }
}

/// Whether the end of a run counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fence {
    /// It counts: this process still holds the run.
    Open,
    /// It does not: another process has taken the run over.
    Closed,
}

impl RowText {
    /// Encodes an entry. `owner`: the process that is at the run which a start opens.
    pub fn set_entry(
        &mut self,
        entry: &Entry,
        key: Option<&ScopedKey>,
        owner: &str,
    ) -> Result<Kind, JournalError> {
        match entry {
            Entry::Started(started) => self.set_started(started, key, owner),
            Entry::Step(step) => self.set_step(step),
            Entry::Finished(finished) => self.set_finished(finished, key, Fence::Open),
        }
    }

    /// A step that vouches for nothing.
    pub fn set_step(&mut self, step: &Step) -> Result<Kind, JournalError> {
        self.set_sealed_step(step, &Seals::default())
    }

    /// A step that vouches for rows.
    pub fn set_sealed_step(&mut self, step: &Step, seals: &Seals) -> Result<Kind, JournalError> {
        let head = StepHead { at: step.at, call_id: step.call_id, run: step.run, kind: &step.kind, seals };
        let part_of = (step.run != step.call_id).then_some(step.run);
        self.set_ids(Some(step.call_id), part_of);
        serde_json::to_writer(&mut self.head, &head).map_err(|error| unwritable("entry", error))?;
        step.payload.iter().for_each(|payload| self.payload.extend_from_slice(payload.get().as_bytes()));
        self.check_size()?;
        Ok(Kind::Step)
    }

    /// An end, and whether it counts.
    pub fn set_finished(
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
            owner: None,
            fenced: fence == Fence::Closed,
        };
        self.set_head(&head)?;
        write_payload(&mut self.payload, &finished.payload).map_err(|error| unwritable("entry", error))?;
        self.check_size()?;
        Ok(Kind::Finished)
    }

    /// Writes the start of a call into the row.
    pub fn set_started(
        &mut self,
        started: &Started,
        key: Option<&ScopedKey>,
        owner: &str,
    ) -> Result<Kind, JournalError> {
        let head = Head {
            at: started.at,
            facts: &started.facts,
            digest: Some(&started.digest),
            withheld: started.withheld,
            grant: started.grant.as_ref(),
            ending: None,
            key: key.map(|key| hex(key)),
            // Of a part, its run tells.
            owner: started.facts.part.is_none().then_some(owner),
            fenced: false,
        };
        self.set_head(&head)?;
        write_arguments(&mut self.payload, &started.arguments);
        self.check_size()?;
        Ok(Kind::Started)
    }

    /// A note about a call, or about the journal itself.
    pub fn set_note(
        &mut self,
        call_id: Option<CallId>,
        at: Timestamp,
        told: &Note,
    ) -> Result<(), JournalError> {
        self.set_ids(call_id, None);
        serde_json::to_writer(&mut self.head, &NoteHead { at, call_id, told })
            .map_err(|error| unwritable("entry", error))
    }

    /// A note with a head of its own.
    pub fn set_told(&mut self, call_id: Option<CallId>, head: &impl Serialize) -> Result<(), JournalError> {
        self.set_ids(call_id, None);
        serde_json::to_writer(&mut self.head, head).map_err(|error| unwritable("entry", error))
    }

    fn set_head(&mut self, head: &Head<'_>) -> Result<(), JournalError> {
        self.set_ids(Some(head.facts.call_id), head.facts.part.as_ref().map(|part| part.run));
        head.write(&mut self.head, &self.call_id, &mut self.last).map_err(|error| unwritable("entry", error))
    }

    /// Begins a row: without head and payload.
    fn set_ids(&mut self, call_id: Option<CallId>, part_of: Option<CallId>) {
        use std::fmt::Write;
        self.made_ms = call_id.map_or(0, CallId::made_at_ms);
        for (text, id) in [(&mut self.call_id, call_id), (&mut self.run_id, part_of)] {
            text.clear();
            id.map_or(Ok(()), |id| write!(text, "{id}")).expect("writing to a string cannot fail");
        }
        self.head.clear();
        self.payload.clear();
    }

    fn check_size(&self) -> Result<(), JournalError> {
        if self.head.len().max(self.payload.len()) > TEXT_BYTES_MAX {
            return Err(JournalError::new(format!("the entry is larger than {TEXT_BYTES_MAX} bytes")));
        }
        Ok(())
    }
}

/// The error of what cannot be told.
pub fn unwritable(what: &str, error: serde_json::Error) -> JournalError {
    JournalError::new(format!("the {what} cannot be written as JSON")).with_source(error)
}

/// Salts for the payloads of a group: drawn together, and more where that is not enough.
#[derive(Default)]
pub struct Salts {
    salts: Vec<Salt>,
    used: usize,
}

impl Salts {
    /// Draws so many, and forgets those of the group before.
    pub fn draw(&mut self, count: usize) -> Result<(), getrandom::Error> {
        self.salts.resize(count, Salt::default());
        self.used = 0;
        getrandom::fill(self.salts.as_flattened_mut())
    }

    /// The next one.
    pub fn take(&mut self) -> Result<Salt, getrandom::Error> {
        self.used += 1;
        match self.salts.get(self.used - 1) {
            Some(salt) => Ok(*salt),
            None => vouch::salt(),
        }
    }
}
