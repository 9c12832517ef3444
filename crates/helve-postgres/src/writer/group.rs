//! One group of jobs within a transaction.
//!
//! What most jobs touch, runs and idempotency keys, is locked and read at the beginning and written at the end, a few
//! statements for all of them; in between the jobs are applied in order to what was read. Other changes are made by
//! separate statements, in the same order.

use std::collections::{BTreeMap, BTreeSet};

use helve_core::ports::JournalError;
use helve_core::record::{Entry, Started};
use helve_core::run::{Step, StepKind};
use helve_core::{CallId, ports};
use helve_ledger::chain::{Kind, Position};
use helve_ledger::entry::{Fence, Note, Salts, Seals, unwritable};
use helve_ledger::keys::{DamagedKey, Found, Standing};
use helve_ledger::vouch::Voucher;
use jiff::Timestamp;
use tokio_postgres::Client;

use super::entries::{Entries, Marks};
use super::keys::Keys;
use super::needs::Needs;
use super::runs::{self, Closing, Runs};
use super::{Job, Stop, Verdict, approvals, effects, memory, sessions};
use crate::ledger::Settings;
use crate::replica::Replica;
use crate::sql::params;

/// A transaction in the making.
pub(super) struct Group<'a> {
    pub(super) db: &'a Client,
    pub(super) replica: &'a Replica,
    pub(super) settings: &'a Settings,
    pub(super) entries: &'a mut Entries,
    pub(super) salts: &'a mut Salts,
    position: Position,
    runs: Runs,
    keys: Keys,
    /// Runs that are no longer open and have an end.
    ended: BTreeSet<CallId>,
    /// Whether other replicas live that hold something which the group touches.
    lives: BTreeMap<i64, bool>,
}

impl<'a> Group<'a> {
    /// Locks what the jobs touch, everybody in the same order.
    pub(super) async fn begin(
        db: &'a Client,
        replica: &'a Replica,
        settings: &'a Settings,
        (entries, salts): (&'a mut Entries, &'a mut Salts),
        position: Position,
        jobs: &[Job],
    ) -> Result<Self, Stop> {
        let mut needs = Needs::of(jobs, replica);
        for lock in &needs.locks {
            db.batch_execute(&lock.statement()).await?;
        }
        needs.owners.extend(effects::owners(db, &needs.undone).await?);
        memory::lock(db, &needs.owners).await?;
        sessions::lock(db, &needs.sessions).await?;
        let keys = Keys::lock(db, replica.id, &needs).await?;
        needs.runs.extend(keys.holders());
        let runs = Runs::lock(db, replica.id, needs.runs.iter().copied()).await?;
        let gone: Vec<_> = needs.runs_of_parts.into_iter().filter(|run| runs.get(*run).is_none()).collect();
        let ended = match gone.is_empty() {
            true => BTreeSet::new(),
            false => runs::ended(db, &gone).await?.into_iter().collect(),
        };
        let mut lives = BTreeMap::new();
        let held = needs.runs.iter().filter_map(|run| runs.get(*run)).map(|row| row.owner);
        let holders = held.chain(needs.keys.keys().filter_map(|key| keys.owner(key)));
        for other in holders.filter(|owner| *owner != replica.id).collect::<BTreeSet<_>>() {
            lives.insert(other, runs::lives(db, other).await?);
        }
        Ok(Self { db, replica, settings, entries, salts, position, runs, keys, ended, lives })
    }

    /// Writes what the jobs came to. Returns where the chain ends now.
    pub(super) async fn end(self) -> Result<Position, Stop> {
        self.entries.flush(self.db, self.replica.id).await?;
        self.keys.flush(self.db).await?;
        self.runs.flush(self.db).await?;
        Ok(self.position)
    }

    /// What becomes of a job. Every entry is encoded before anything is changed, so that a refusal leaves no trace.
    pub(super) async fn apply(&mut self, job: &Job) -> Result<Verdict, Stop> {
        match self.try_apply(job).await {
            Err(Stop::Refused(error)) => Ok(Verdict::Refused(error)),
            applied => applied,
        }
    }

    async fn try_apply(&mut self, job: &Job) -> Result<Verdict, Stop> {
        match job {
            Job::Append(entry) | Job::Commit(entry, _) => self.record(entry).await?,
            Job::CommitAll(entries, _) => self.record_all(entries).await?,
            Job::Begin { started, claim, .. } => return self.claim(started, claim).await,
            Job::Finish { entry, claim, status, .. } => self.finish(entry, claim, status)?,
            Job::Release { scoped_key, call_id } => {
                if self.keys.release(scoped_key, *call_id) {
                    self.runs.remove(*call_id);
                    self.note(Kind::Released, Some(*call_id), &Note::default())?;
                }
            }
            Job::Erase { call_id, at, .. } => return self.erase(*call_id, *at).await,
            Job::Ask(request) => return self.serve(request).await.map(Verdict::Answered),
            Job::Own(own) => match *own {},
            Job::Flush(_) => {}
        }
        Ok(Verdict::Done)
    }

    async fn claim(&mut self, started: &Started, claim: &ports::KeyClaim) -> Result<Verdict, Stop> {
        self.fence(started)?;
        let label = &self.replica.label;
        let kind = self.entries.text().set_started(started, Some(&claim.scoped_key), label)?;
        let call_id = started.facts.call_id;
        // Before the approval: a key that has its answer uses none.
        let (runs, keys, us) = (&self.runs, &mut self.keys, self.replica.id);
        let owner = keys.owner(&claim.scoped_key);
        let owner_lives = owner.is_some_and(|owner| self.lives.get(&owner).copied().unwrap_or(false));
        let standing = |earlier| standing(runs, earlier, owner == Some(us), owner_lives);
        let found = keys.claim(claim, call_id, standing)?;
        let Found::Claimed { from } = found else { return Ok(Verdict::Found(found)) };
        let used = match self.use_up(started).await {
            Ok(used) => used,
            Err(refused) => {
                self.keys.release(&claim.scoped_key, call_id);
                if let (Stop::Refused(_), Some(dead)) = (&refused, from) {
                    self.note(Kind::Released, Some(dead), &Note::default())?;
                }
                return Err(refused);
            }
        };
        self.open_run(started);
        self.insert(kind, Marks::default())?;
        self.tell_spent(used)?;
        if let Some(dead) = from {
            self.note(Kind::Released, Some(dead), &Note::default())?;
        }
        Ok(Verdict::Found(Found::Claimed { from }))
    }

    fn finish(
        &mut self,
        entry: &Entry,
        claim: &ports::KeyClaim,
        status: &helve_core::Status,
    ) -> Result<(), Stop> {
        let text = serde_json::to_string(status).map_err(|error| unwritable("outcome", error))?;
        let label = &self.replica.label;
        let kind = self.entries.text().set_entry(entry, Some(&claim.scoped_key), label)?;
        if self.close_run(entry) == Closing::Fenced {
            return self.record_fenced(entry);
        }
        let call_id = entry.call_id();
        if status.gives_key_back() {
            let released = self.keys.release(&claim.scoped_key, call_id);
            self.insert(kind, Marks::default())?;
            if released {
                self.note(Kind::Released, Some(call_id), &Note::default())?;
            }
            return Ok(());
        }
        // The end is recorded all the same; who brings the key again is refused.
        if let Err(error) = self.keys.finish(claim, call_id, text) {
            tracing::error!("{error}");
        }
        self.insert(kind, Marks::default())
    }

    /// Writes an entry, and what it means for its run.
    pub(super) async fn record(&mut self, entry: &Entry) -> Result<(), Stop> {
        let label = &self.replica.label;
        let kind = self.entries.text().set_entry(entry, None, label)?;
        match entry {
            Entry::Started(started) => {
                self.fence(started)?;
                let used = self.use_up(started).await?;
                self.open_run(started);
                self.insert(kind, Marks::default())?;
                self.tell_spent(used)
            }
            Entry::Step(step) => {
                let marks = self.wait(step)?;
                self.insert(kind, marks)
            }
            Entry::Finished(_) if self.close_run(entry) == Closing::Fenced => self.record_fenced(entry),
            Entry::Finished(_) => self.insert(kind, Marks::default()),
        }
    }

    /// Leaves the run of an encoded step to a person, where that is what it says.
    fn wait(&mut self, step: &Step) -> Result<Marks, Stop> {
        let StepKind::Waiting { reason, .. } = step.kind else { return Ok(Marks::default()) };
        if self.runs.wait(step.run, reason) {
            return Ok(Marks::default());
        }
        let seals = Seals { fenced: true, ..Seals::default() };
        self.entries.text().set_sealed_step(step, &seals)?;
        Ok(Marks { fenced: true, ..Marks::default() })
    }

    /// Writes all entries or none.
    async fn record_all(&mut self, entries: &[Entry]) -> Result<(), Stop> {
        for entry in entries {
            self.entries.text().set_entry(entry, None, &self.replica.label)?;
        }
        for entry in entries {
            if let Entry::Started(started) = entry {
                self.fence(started)?;
            }
        }
        self.can_use_up(entries).await?;
        for entry in entries {
            self.record(entry).await?;
        }
        Ok(())
    }

    /// Refuses a start in a run that another replica has taken over, or has ended: it does the same.
    fn fence(&self, started: &Started) -> Result<(), Stop> {
        let part_of = started.facts.part.as_ref().map(|part| part.run);
        let run = part_of.unwrap_or(started.facts.call_id);
        let has_ended = part_of.is_some() && self.ended.contains(&run) && self.runs.get(run).is_none();
        if self.runs.is_others(run) || has_ended {
            return Err(Stop::refused(format!(
                "another process has taken over the run {run}, so nothing more of it runs here"
            )));
        }
        Ok(())
    }

    /// Opens the run of a start, unless it is a part of another.
    fn open_run(&mut self, started: &Started) {
        if started.facts.part.is_none() {
            self.runs.open(started.facts.call_id);
        }
    }

    /// Closes the run of an end, unless it is a part of another.
    fn close_run(&mut self, entry: &Entry) -> Closing {
        if entry.part_of().is_some() {
            return Closing::Closed;
        }
        let closing = self.runs.close(entry.call_id());
        if closing == Closing::Closed {
            self.ended.insert(entry.call_id());
        }
        closing
    }

    /// Writes the end of a run that another replica has taken over. No record is lost, but the run goes on.
    fn record_fenced(&mut self, entry: &Entry) -> Result<(), Stop> {
        let Entry::Finished(finished) = entry else { unreachable!("only ends are fenced") };
        tracing::error!(
            run = %entry.call_id(),
            "a run was ended here that another replica had taken over; it stays open there"
        );
        let kind = self.entries.text().set_finished(finished, None, Fence::Closed)?;
        self.insert(kind, Marks { fenced: true, ..Marks::default() })
    }

    /// Takes over a run whose replica is gone, or that waits.
    pub(super) fn adopt(&mut self, run: CallId) -> Result<ports::Adoption, Stop> {
        let owner = self.runs.get(run).map(|row| row.owner);
        let lives = owner.is_some_and(|owner| self.lives.get(&owner).copied().unwrap_or(false));
        let adoption = self.runs.adopt(run, lives);
        if adoption == ports::Adoption::Adopted {
            self.note(Kind::Adopted, Some(run), &Note::of_owner(&self.replica.label))?;
            self.keys.take_over(run);
        }
        Ok(adoption)
    }

    /// Asks who is at a run to stop. Returns whether there is such a run.
    pub(super) fn request_cancel(&mut self, step: &Step) -> Result<bool, Stop> {
        let kind = self.entries.text().set_step(step)?;
        match self.runs.request_cancel(step.run) {
            runs::Asked::Now => self.insert(kind, Marks::default()).map(|()| true),
            runs::Asked::Before => Ok(true),
            runs::Asked::NotOpen => Ok(false),
        }
    }

    async fn erase(&mut self, call_id: CallId, at: Timestamp) -> Result<Verdict, Stop> {
        // An entry of the call may be among those that wait.
        self.entries.flush(self.db, self.replica.id).await?;
        self.entries.text().set_note(Some(call_id), at, &Note::default())?;
        self.keys.erase(call_id);
        effects::erase(self.db, call_id).await?;
        approvals::erase(self.db, call_id).await?;
        let erased = self
            .db
            .execute_typed(
                "UPDATE helve.entries SET payload = NULL, salt = NULL \
                 WHERE made_ms = $1 AND call_id = $2 AND payload IS NOT NULL",
                params![call_id.made_at_ms(), call_id.to_string()],
            )
            .await?;
        if erased > 0 {
            self.entries.text().set_note(Some(call_id), at, &Note::default())?;
            self.add(Kind::Erased, None, Marks::default())?;
        }
        Ok(Verdict::Erased(usize::try_from(erased).unwrap_or(usize::MAX)))
    }

    /// Writes the entries that wait, so that statements find them. The next one's text stays.
    pub(super) async fn flush_others(&mut self) -> Result<(), Stop> {
        self.entries.flush(self.db, self.replica.id).await
    }

    /// Appends a note that belongs to something else in this group.
    pub(super) fn note(&mut self, kind: Kind, call_id: Option<CallId>, told: &Note) -> Result<(), Stop> {
        self.note_at(self.settings.clock.now(), kind, call_id, told)
    }

    fn note_at(
        &mut self,
        at: Timestamp,
        kind: Kind,
        call_id: Option<CallId>,
        told: &Note,
    ) -> Result<(), Stop> {
        self.entries.text().set_note(call_id, at, told)?;
        let about = told.row.as_ref().map(|voucher| voucher.row.clone());
        self.add(kind, None, Marks { about, ..Marks::default() })
    }

    /// Vouches for a row that was written.
    pub(super) fn vouch(&mut self, row: Voucher, at: Timestamp) -> Result<(), Stop> {
        self.note_at(at, Kind::Vouched, None, &Note { row: Some(row), ..Note::default() })
    }

    /// Appends a step that vouches for rows.
    pub(super) fn tell(&mut self, step: &Step, seals: &Seals) -> Result<(), Stop> {
        let kind = self.entries.text().set_sealed_step(step, seals)?;
        let about = seals.value.as_ref().map(|voucher| voucher.row.clone());
        self.insert(kind, Marks { about, fenced: seals.fenced })
    }

    /// Appends what is encoded, with its payload, where it has one.
    fn insert(&mut self, kind: Kind, marks: Marks) -> Result<(), Stop> {
        let salt = match self.entries.text().payload.is_empty() {
            true => None,
            false => Some(self.salts.take().map_err(no_salt)?),
        };
        self.add(kind, salt, marks)
    }

    fn add(&mut self, kind: Kind, salt: Option<helve_ledger::chain::Salt>, marks: Marks) -> Result<(), Stop> {
        self.position = self.entries.add(self.position, kind, salt, marks)?;
        Ok(())
    }
}

pub(super) fn no_salt(error: getrandom::Error) -> Stop {
    Stop::refused(format!("the system gives no random numbers: {error}"))
}

/// How the call that holds a key stands.
fn standing(runs: &Runs, earlier: CallId, is_ours: bool, owner_lives: bool) -> Standing {
    use helve_core::run::WaitingFor;
    match runs.get(earlier).and_then(runs::RunRow::waits_for) {
        Some(Some(WaitingFor::UnknownOutcome)) => Standing::InDoubt,
        Some(Some(WaitingFor::Approval | WaitingFor::Decision | WaitingFor::Cancel) | None) => {
            Standing::Waits
        }
        None if is_ours => Standing::Ours,
        None if owner_lives => Standing::Others,
        None => Standing::Nobodys,
    }
}

impl From<DamagedKey> for Stop {
    fn from(error: DamagedKey) -> Self {
        Self::Refused(JournalError::new(error.to_string()))
    }
}
