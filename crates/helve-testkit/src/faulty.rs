//! A ledger that fails, or kills the process, at a place of the test's choosing.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use helve_core::approval::{Approval, ApprovalQuery, Ask, Asked, Decided, Rule, Verdict};
use helve_core::cost::Spending;
use helve_core::memory::{Changed, MemoryChange, MemoryError, MemoryPlace, MemoryScope, Remembered};
use helve_core::ports::{
    Adoption, Approvals, Begun, EffectId, Journal, JournalError, KeyClaim, KeyHolder, Keys, Ledger, Memory,
    OpenRun, Runs, Sessions,
};
use helve_core::record::{Entry, Started};
use helve_core::run::{Step, StepKind};
use helve_core::session::{SessionChange, SessionKey, SessionState};
use helve_core::{ApprovalId, BoxFuture, CallId, Caller, Key, KeyId, RuleId, Status};
use jiff::Timestamp;

/// What happens at a boundary. `Err`: the ledger refuses. Never returning, by killing the process,
/// is a crash.
pub type Fault = Arc<dyn Fn(Boundary) -> Result<(), JournalError> + Send + Sync>;

/// Where in the life of a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Boundary {
    /// Before anything is written.
    Before,
    /// After it is on disk, before anybody is told. An entry that nobody waits for may not be yet.
    After,
}

/// A ledger whose writes pass a [`Fault`] before and after.
pub struct FaultyLedger {
    inner: Arc<dyn Ledger>,
    fault: Fault,
    /// What was refused and is written with the next write that is not.
    kept: Option<Mutex<Vec<Entry>>>,
    histories: AtomicUsize,
}

impl FaultyLedger {
    /// Lets `fault` decide about every write to `inner`.
    pub fn new(inner: Arc<dyn Ledger>, fault: Fault) -> Self {
        Self { inner, fault, kept: None, histories: AtomicUsize::new(0) }
    }

    /// Keeps entries that tell of something which has happened, though they are refused, and writes them
    /// later: as a journal does whose disk was full.
    #[must_use]
    pub fn keeping(self) -> Self {
        Self { kept: Some(Mutex::default()), ..self }
    }

    /// How many histories were read.
    pub fn histories(&self) -> usize {
        self.histories.load(Ordering::SeqCst)
    }

    /// Whether `entries` may be written now. What was kept is written before them.
    fn before(&self, entries: &[Entry]) -> Result<(), JournalError> {
        let fault = (self.fault)(Boundary::Before);
        let Some(kept) = &self.kept else { return fault };
        let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
        match &fault {
            Ok(()) => kept.drain(..).try_for_each(|entry| self.inner.append(entry))?,
            Err(_) => kept.extend(entries.iter().filter(|entry| is_report(entry)).cloned()),
        }
        fault
    }

    fn keeps_something(&self) -> bool {
        let kept = self.kept.as_ref().map(|kept| kept.lock().unwrap_or_else(PoisonError::into_inner));
        kept.is_some_and(|kept| !kept.is_empty())
    }

    /// Refuses every write after the first `count`.
    pub fn failing_after(inner: Arc<dyn Ledger>, count: u32) -> Self {
        let left = std::sync::atomic::AtomicU32::new(count);
        Self::new(
            inner,
            Arc::new(move |boundary| {
                use std::sync::atomic::Ordering::SeqCst;
                let take = |left: u32| left.checked_sub(1);
                match boundary {
                    Boundary::After => Ok(()),
                    Boundary::Before => left
                        .fetch_update(SeqCst, SeqCst, take)
                        .map(drop)
                        .map_err(|_| JournalError::new("the disk is full")),
                }
            }),
        )
    }

    /// A write between its boundaries.
    fn guard<'a, T, E>(
        &'a self,
        write: impl FnOnce(&'a dyn Ledger) -> BoxFuture<'a, Result<T, E>> + Send + 'a,
    ) -> BoxFuture<'a, Result<T, E>>
    where
        T: Send + 'a,
        E: From<JournalError> + Send + 'a,
    {
        Box::pin(async move {
            self.before(&[])?;
            let written = write(&*self.inner).await?;
            (self.fault)(Boundary::After)?;
            Ok(written)
        })
    }
}

/// Whether an entry tells of something that has happened, and does not just announce it.
fn is_report(entry: &Entry) -> bool {
    match entry {
        Entry::Started(_) => false,
        Entry::Step(step) => step.kind != StepKind::UndoStarted,
        Entry::Finished(_) => true,
    }
}

impl Journal for FaultyLedger {
    fn spending(&self, since: Timestamp) -> BoxFuture<'_, Result<Vec<Spending>, JournalError>> {
        self.guard(move |inner| inner.spending(since))
    }

    fn check(&self) -> Result<(), JournalError> {
        self.inner.check()
    }

    fn append(&self, entry: Entry) -> Result<(), JournalError> {
        self.before(std::slice::from_ref(&entry))?;
        self.inner.append(entry)?;
        // Handed over, and perhaps not on disk yet.
        (self.fault)(Boundary::After)
    }

    fn is_behind(&self) -> bool {
        self.inner.is_behind()
    }

    fn commit(&self, entry: Entry) -> BoxFuture<'_, Result<(), JournalError>> {
        self.commit_all(vec![entry])
    }

    fn commit_all(&self, entries: Vec<Entry>) -> BoxFuture<'_, Result<(), JournalError>> {
        Box::pin(async move {
            self.before(&entries)?;
            self.inner.commit_all(entries).await?;
            (self.fault)(Boundary::After)
        })
    }

    fn begin(&self, started: Box<Started>, claim: KeyClaim) -> BoxFuture<'_, Result<Begun, JournalError>> {
        self.guard(|inner| inner.begin(started, claim))
    }

    fn key_holder(&self, claim: KeyClaim) -> BoxFuture<'_, Result<Option<KeyHolder>, JournalError>> {
        self.inner.key_holder(claim)
    }

    fn finish(
        &self,
        entry: Entry,
        claim: KeyClaim,
        status: Arc<Status>,
    ) -> BoxFuture<'_, Result<(), JournalError>> {
        self.guard(|inner| inner.finish(entry, claim, status))
    }

    fn flush(&self) -> BoxFuture<'_, Result<(), JournalError>> {
        Box::pin(async move {
            if self.keeps_something() {
                self.before(&[])?;
            }
            self.inner.flush().await
        })
    }
}

impl Memory for FaultyLedger {
    fn read(&self, place: MemoryPlace) -> BoxFuture<'_, Result<Option<Remembered>, MemoryError>> {
        self.inner.read(place)
    }

    fn list(
        &self,
        scope: MemoryScope,
        owner: String,
        prefix: String,
        limit: usize,
    ) -> BoxFuture<'_, Result<Vec<(String, Remembered)>, MemoryError>> {
        self.inner.list(scope, owner, prefix, limit)
    }

    fn change(
        &self,
        place: MemoryPlace,
        change: MemoryChange,
    ) -> BoxFuture<'_, Result<Changed, MemoryError>> {
        self.guard(|inner| inner.change(place, change))
    }

    fn apply(
        &self,
        effect: EffectId,
        place: MemoryPlace,
        change: MemoryChange,
        step: Box<Step>,
    ) -> BoxFuture<'_, Result<(), MemoryError>> {
        self.guard(move |inner| inner.apply(effect, place, change, step))
    }

    fn undo(&self, effect: EffectId, step: Box<Step>) -> BoxFuture<'_, Result<(), MemoryError>> {
        self.guard(move |inner| inner.undo(effect, step))
    }
}

impl Runs for FaultyLedger {
    fn open_runs(
        &self,
        after: Option<CallId>,
        limit: usize,
    ) -> BoxFuture<'_, Result<Vec<OpenRun>, JournalError>> {
        self.inner.open_runs(after, limit)
    }

    fn adopt(&self, run: CallId) -> BoxFuture<'_, Result<Adoption, JournalError>> {
        self.guard(move |inner| inner.adopt(run))
    }

    fn history(&self, run: CallId) -> BoxFuture<'_, Result<Vec<Entry>, JournalError>> {
        self.histories.fetch_add(1, Ordering::SeqCst);
        self.inner.history(run)
    }

    fn request_cancel(&self, run: CallId) -> BoxFuture<'_, Result<bool, JournalError>> {
        self.guard(move |inner| inner.request_cancel(run))
    }

    fn cancel_requests(&self) -> BoxFuture<'_, Result<Vec<CallId>, JournalError>> {
        self.inner.cancel_requests()
    }
}

impl Sessions for FaultyLedger {
    fn session(&self, key: SessionKey) -> BoxFuture<'_, Result<Option<SessionState>, JournalError>> {
        self.inner.session(key)
    }

    fn sessions(
        &self,
        principal: Option<String>,
        limit: usize,
    ) -> BoxFuture<'_, Result<Vec<(SessionKey, SessionState)>, JournalError>> {
        self.inner.sessions(principal, limit)
    }

    fn change_session(
        &self,
        key: SessionKey,
        change: Box<SessionChange>,
        now: Timestamp,
        forget_before: Timestamp,
    ) -> BoxFuture<'_, Result<SessionState, JournalError>> {
        self.guard(move |inner| inner.change_session(key, change, now, forget_before))
    }
}

impl Approvals for FaultyLedger {
    fn ask(&self, ask: Box<Ask>) -> BoxFuture<'_, Result<Asked, JournalError>> {
        self.guard(move |inner| inner.ask(ask))
    }

    fn approval(&self, id: ApprovalId) -> BoxFuture<'_, Result<Option<Approval>, JournalError>> {
        self.inner.approval(id)
    }

    fn approvals(&self, query: ApprovalQuery) -> BoxFuture<'_, Result<Vec<Approval>, JournalError>> {
        self.inner.approvals(query)
    }

    fn decide(&self, id: ApprovalId, verdict: Box<Verdict>) -> BoxFuture<'_, Result<Decided, JournalError>> {
        self.guard(move |inner| inner.decide(id, verdict))
    }

    fn approvals_changed(
        &self,
        since: Option<u64>,
        limit: usize,
    ) -> BoxFuture<'_, Result<(u64, Vec<Approval>), JournalError>> {
        self.inner.approvals_changed(since, limit)
    }

    fn sweep_approvals(
        &self,
        now: Timestamp,
        forget_before: Timestamp,
        limit: usize,
    ) -> BoxFuture<'_, Result<usize, JournalError>> {
        self.inner.sweep_approvals(now, forget_before, limit)
    }

    fn rules(&self, tool: Option<String>, limit: usize) -> BoxFuture<'_, Result<Vec<Rule>, JournalError>> {
        self.inner.rules(tool, limit)
    }

    fn revoke_rule(
        &self,
        id: RuleId,
        by: String,
        at: Timestamp,
    ) -> BoxFuture<'_, Result<Option<Rule>, JournalError>> {
        self.guard(move |inner| inner.revoke_rule(id, by, at))
    }
}

impl Keys for FaultyLedger {
    fn create_key(&self, key: Box<Key>, by: Arc<Caller>) -> BoxFuture<'_, Result<(), JournalError>> {
        self.guard(move |inner| inner.create_key(key, by))
    }

    fn key(&self, id: KeyId) -> BoxFuture<'_, Result<Option<Key>, JournalError>> {
        self.inner.key(id)
    }

    fn keys(&self) -> BoxFuture<'_, Result<Vec<Key>, JournalError>> {
        self.inner.keys()
    }

    fn revoke_key(
        &self,
        id: KeyId,
        by: Arc<Caller>,
        at: Timestamp,
    ) -> BoxFuture<'_, Result<Option<Key>, JournalError>> {
        self.guard(move |inner| inner.revoke_key(id, by, at))
    }

    fn redeem_code(&self, id: KeyId, at: Timestamp) -> BoxFuture<'_, Result<Option<Key>, JournalError>> {
        self.guard(move |inner| inner.redeem_code(id, at))
    }

    fn touch_keys(&self, used: Vec<(KeyId, Timestamp)>) -> BoxFuture<'_, Result<(), JournalError>> {
        self.inner.touch_keys(used)
    }

    fn key_changes(&self) -> BoxFuture<'_, Result<u64, JournalError>> {
        self.inner.key_changes()
    }
}
