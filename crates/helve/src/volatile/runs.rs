//! What happened, and which runs are open.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::future::ready;
use std::sync::Arc;

use helve_core::ports::{Adoption, Holder, JournalError, OpenRun, Runs};
use helve_core::record::Entry;
use helve_core::run::{Step, StepKind, WaitingFor};
use helve_core::{BoxFuture, CallId};

use super::{VolatileLedger, lock};
use crate::compose::ITEMS_MAX;

/// Most entries that are kept; older ones make room. Those of open runs are kept in any case.
const ENTRIES_MAX: usize = 1_000;
/// Most entries of finished runs that are kept for undoing; the stories of older runs make room. Counted
/// in entries and not in runs, of which one may have thousands: this is room for ten of the largest.
const STORIES_MAX: usize = 20 * ITEMS_MAX;

#[derive(Default)]
pub(super) struct Log {
    entries: VecDeque<Arc<Entry>>,
    open: BTreeMap<CallId, Open>,
    /// Finished runs, oldest first, and their stories.
    finished: VecDeque<CallId>,
    stories: HashMap<CallId, Vec<Arc<Entry>>>,
    /// How many entries these have.
    told: usize,
}

struct Open {
    holder: Holder,
    cancel_requested: bool,
    story: Vec<Arc<Entry>>,
}

impl Log {
    pub(super) fn entries(&self) -> impl Iterator<Item = &Arc<Entry>> {
        self.entries.iter()
    }

    pub(super) fn push(&mut self, entry: Entry) {
        let entry = Arc::new(entry);
        if self.entries.len() == ENTRIES_MAX {
            self.entries.pop_front();
        }
        self.entries.push_back(Arc::clone(&entry));
        let (run, is_part) = match entry.part_of() {
            Some(run) => (run, true),
            None => (entry.call_id(), false),
        };
        if !is_part && matches!(*entry, Entry::Started(_)) {
            let open = Open { holder: Holder::Us, cancel_requested: false, story: Vec::new() };
            self.open.insert(run, open);
        }
        if let Some(open) = self.open.get_mut(&run) {
            match &*entry {
                Entry::Step(step) if matches!(step.kind, StepKind::Waiting { .. }) => {
                    open.holder = Holder::Person;
                }
                Entry::Step(step) if step.kind == StepKind::CancelRequested => open.cancel_requested = true,
                Entry::Started(_) | Entry::Step(_) | Entry::Finished(_) => {}
            }
            open.story.push(Arc::clone(&entry));
            if !is_part && matches!(*entry, Entry::Finished(_)) {
                self.close(run);
            }
        } else if let Some(story) = self.stories.get_mut(&run) {
            story.push(entry);
            self.told += 1;
        } else if matches!(*entry, Entry::Step(_)) {
            self.keep(run, vec![entry]);
        }
    }

    fn close(&mut self, run: CallId) {
        if let Some(open) = self.open.remove(&run) {
            self.keep(run, open.story);
        }
    }

    fn keep(&mut self, run: CallId, story: Vec<Arc<Entry>>) {
        self.told += story.len();
        // The last one stays, however long it is.
        while self.told > STORIES_MAX
            && let Some(oldest) = self.finished.pop_front()
        {
            self.told -= self.stories.remove(&oldest).map_or(0, |story| story.len());
        }
        self.finished.push_back(run);
        let former = self.stories.insert(run, story);
        self.told -= former.map_or(0, |story| story.len());
    }

    pub(super) fn abandon(&mut self) {
        for open in self.open.values_mut().filter(|open| open.holder == Holder::Us) {
            open.holder = Holder::Nobody;
        }
    }

    /// Whether a run waits for a person who knows what became of it.
    pub(super) fn is_in_doubt(&self, run: CallId) -> bool {
        let reason = |entry: &Arc<Entry>| match &**entry {
            Entry::Step(step) => match step.kind {
                StepKind::Waiting { reason, .. } => Some(reason),
                _ => None,
            },
            Entry::Started(_) | Entry::Finished(_) => None,
        };
        let waits = self.open.get(&run).filter(|open| open.holder == Holder::Person);
        waits.and_then(|open| open.story.iter().rev().find_map(reason)) == Some(WaitingFor::UnknownOutcome)
    }

    fn story(&self, run: CallId) -> Vec<Entry> {
        let story = self.open.get(&run).map(|open| &open.story).or_else(|| self.stories.get(&run));
        story.into_iter().flatten().map(|entry| Entry::clone(entry)).collect()
    }
}

impl Runs for VolatileLedger {
    fn open_runs(
        &self,
        after: Option<CallId>,
        limit: usize,
    ) -> BoxFuture<'_, Result<Vec<OpenRun>, JournalError>> {
        let log = lock(&self.log);
        let open = log.open.iter().filter(|(run, _)| after.is_none_or(|after| **run > after));
        let open = open.take(limit).map(|(run, open)| OpenRun {
            run: *run,
            holder: open.holder,
            cancel_requested: open.cancel_requested,
        });
        Box::pin(ready(Ok(open.collect())))
    }

    fn adopt(&self, run: CallId) -> BoxFuture<'_, Result<Adoption, JournalError>> {
        let adoption = match lock(&self.log).open.get_mut(&run) {
            None => Adoption::NotOpen,
            Some(open) if matches!(open.holder, Holder::Nobody | Holder::Person) => {
                open.holder = Holder::Us;
                Adoption::Adopted
            }
            Some(open) if open.holder == Holder::Us => Adoption::Ours,
            Some(_) => Adoption::Busy,
        };
        Box::pin(ready(Ok(adoption)))
    }

    fn history(&self, run: CallId) -> BoxFuture<'_, Result<Vec<Entry>, JournalError>> {
        Box::pin(ready(Ok(lock(&self.log).story(run))))
    }

    fn request_cancel(&self, run: CallId) -> BoxFuture<'_, Result<bool, JournalError>> {
        let mut log = lock(&self.log);
        let asked = log.open.get(&run).map(|open| open.cancel_requested);
        // Asking twice is asking once.
        if asked == Some(false) {
            let (at, kind) = (self.clock.now(), StepKind::CancelRequested);
            log.push(Entry::Step(Box::new(Step { at, call_id: run, run, kind, payload: None })));
        }
        Box::pin(ready(Ok(asked.is_some())))
    }

    fn cancel_requests(&self) -> BoxFuture<'_, Result<Vec<CallId>, JournalError>> {
        let log = lock(&self.log);
        let ours = log.open.iter().filter(|(_, open)| open.cancel_requested && open.holder == Holder::Us);
        Box::pin(ready(Ok(ours.map(|(run, _)| *run).collect())))
    }
}
