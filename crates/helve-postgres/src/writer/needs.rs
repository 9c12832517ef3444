//! What a group of jobs touches, known before anything is locked: everybody locks in the same order.

use std::collections::{BTreeMap, BTreeSet};

use helve_core::CallId;
use helve_core::ports::{EffectId, KeyClaim};
use helve_core::record::{Entry, Started};
use helve_core::run::StepKind;
use helve_core::session::SessionKey;
use helve_ledger::job::Job;
use helve_ledger::keys::KeyRow;
use helve_ledger::request::Request;

use super::own::Own;
use super::sessions;
use crate::replica::Replica;
use crate::schema::Lock;

/// Rows and locks, each sort in order.
#[derive(Default)]
pub(super) struct Needs {
    pub(super) locks: BTreeSet<Lock>,
    /// Whose memory changes.
    pub(super) owners: BTreeSet<(i64, String)>,
    /// Effects that are taken back.
    pub(super) undone: Vec<EffectId>,
    pub(super) sessions: BTreeMap<String, SessionKey>,
    /// Idempotency keys, and the row that a first claim would make.
    pub(super) keys: BTreeMap<[u8; 32], Option<KeyRow>>,
    /// Calls whose keys are needed, whichever those are.
    pub(super) keys_of: BTreeSet<String>,
    pub(super) runs: BTreeSet<CallId>,
    /// Runs that a part starts in.
    pub(super) runs_of_parts: BTreeSet<CallId>,
}

impl Needs {
    pub(super) fn of(jobs: &[Job<Own>], replica: &Replica) -> Self {
        let mut needs = Self::default();
        jobs.iter().for_each(|job| needs.add(job, replica));
        needs
    }

    fn add(&mut self, job: &Job<Own>, replica: &Replica) {
        match job {
            Job::Append(entry) | Job::Commit(entry, _) => self.add_entry(entry),
            Job::CommitAll(entries, _) => entries.iter().for_each(|entry| self.add_entry(entry)),
            Job::Begin { started, claim, .. } => {
                self.add_start(started);
                self.add_claim(claim, started.facts.call_id, replica);
            }
            Job::Finish { entry, claim, .. } => {
                self.add_entry(entry);
                self.keys.entry(claim.scoped_key).or_default();
            }
            Job::Release { scoped_key, call_id } => {
                self.keys.entry(*scoped_key).or_default();
                self.runs.insert(*call_id);
            }
            Job::Erase { call_id, .. } => {
                self.keys_of.insert(call_id.to_string());
                self.locks.insert(Lock::Approvals);
            }
            Job::Ask(request) => self.add_request(request),
            Job::Own(own) => match *own {},
            Job::Flush(_) => {}
        }
    }

    fn add_entry(&mut self, entry: &Entry) {
        match entry {
            Entry::Started(started) => self.add_start(started),
            Entry::Step(step) if matches!(step.kind, StepKind::Waiting { .. }) => {
                self.runs.insert(step.run);
            }
            Entry::Step(_) => {}
            Entry::Finished(_) if entry.part_of().is_none() => {
                self.runs.insert(entry.call_id());
            }
            Entry::Finished(_) => {}
        }
    }

    fn add_start(&mut self, started: &Started) {
        match &started.facts.part {
            Some(part) => {
                self.runs.insert(part.run);
                self.runs_of_parts.insert(part.run);
            }
            None => drop(self.runs.insert(started.facts.call_id)),
        }
        if started.grant.is_some() {
            self.locks.insert(Lock::Approvals);
        }
    }

    fn add_claim(&mut self, claim: &KeyClaim, call_id: CallId, replica: &Replica) {
        let place = self.keys.entry(claim.scoped_key).or_default();
        place.get_or_insert_with(|| KeyRow::running(claim, call_id, &replica.id.to_string()));
    }

    fn add_request(&mut self, request: &Request) {
        match request {
            Request::Adopt { run, .. } => {
                self.runs.insert(*run);
                self.keys_of.insert(run.to_string());
            }
            Request::Cancel { step, .. } => drop(self.runs.insert(step.run)),
            Request::Change { place, .. } | Request::Apply { place, .. } => {
                self.owners.insert((super::memory::number(place.scope), place.owner.clone()));
            }
            // Whose memory that changes is found by its row.
            Request::Undo { effect, .. } => self.undone.push(*effect),
            Request::Question { .. } | Request::Decide { .. } => drop(self.locks.insert(Lock::Approvals)),
            Request::Sweep { .. } | Request::Revoke { .. } => drop(self.locks.insert(Lock::Approvals)),
            Request::ChangeSession { key, .. } => {
                self.sessions.insert(sessions::digest(key), key.clone());
            }
            Request::Keys { .. } => drop(self.locks.insert(Lock::Keys)),
        }
    }
}
