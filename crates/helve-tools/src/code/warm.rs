//! Interpreters that are started before anybody asks, each in a box of its own and for one call.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use helve_sandbox::{Job, RunningBox, Sandbox};

use super::language::Language;

/// One that nobody needed for so long is let go.
const IDLE_MAX: Duration = Duration::from_secs(300);
/// So long after a call the next one is started: a process that serves one call alone ends before.
const START_AFTER: Duration = Duration::from_millis(50);

/// Boxes that wait, by language.
#[derive(Clone, Default)]
pub(super) struct Warm(Arc<Mutex<HashMap<Language, Vec<Waiting>>>>);

struct Waiting {
    running: RunningBox,
    since: Instant,
}

impl Warm {
    /// Takes one that waits.
    pub(super) fn take(&self, language: Language) -> Option<RunningBox> {
        self.lock().get_mut(&language)?.pop().map(|waiting| waiting.running)
    }

    /// Starts as many as are missing, in a while.
    pub(super) fn fill(&self, language: Language, count: usize, sandbox: &Sandbox, job: Job) {
        if count == 0 {
            return;
        }
        let (warm, sandbox) = (self.clone(), sandbox.clone());
        tokio::spawn(async move {
            tokio::time::sleep(START_AFTER).await;
            while warm.lock().get(&language).map_or(0, Vec::len) < count {
                // One that cannot be started says why when it is needed.
                let Ok(running) = sandbox.start(job.clone()).await else { return };
                warm.lock().entry(language).or_default().push(Waiting { running, since: Instant::now() });
            }
            tokio::time::sleep(IDLE_MAX).await;
            warm.lock().values_mut().for_each(|boxes| boxes.retain(|one| one.since.elapsed() < IDLE_MAX));
        });
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<Language, Vec<Waiting>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
