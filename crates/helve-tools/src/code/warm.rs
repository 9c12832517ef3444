//! Interpreters that are started before anybody asks, each in its own box and for one call.

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
pub(super) struct Warm(Arc<Mutex<HashMap<Language, Boxes>>>);

#[derive(Default)]
struct Boxes {
    waiting: Vec<Waiting>,
    /// How many are being started, and will wait soon.
    starting: usize,
}

struct Waiting {
    running: RunningBox,
    since: Instant,
}

impl Warm {
    /// Takes one that waits.
    pub(super) fn take(&self, language: Language) -> Option<RunningBox> {
        self.lock().get_mut(&language)?.waiting.pop().map(|waiting| waiting.running)
    }

    /// Starts as many as are missing, in a while.
    pub(super) fn fill(&self, language: Language, count: usize, sandbox: &Sandbox, job: Job) {
        if count == 0 {
            return;
        }
        let (warm, sandbox) = (self.clone(), sandbox.clone());
        tokio::spawn(async move {
            tokio::time::sleep(START_AFTER).await;
            while let Some(starting) = warm.begin(language, count) {
                // One that cannot be started says why when it is needed.
                let Ok(running) = sandbox.start(job.clone()).await else { return };
                let waiting = Waiting { running, since: Instant::now() };
                warm.lock().entry(language).or_default().waiting.push(waiting);
                drop(starting);
            }
            // Many tasks may wait here, one for each call.
            drop((job, sandbox));
            tokio::time::sleep(IDLE_MAX).await;
            for boxes in warm.lock().values_mut() {
                boxes.waiting.retain(|one| one.since.elapsed() < IDLE_MAX);
            }
        });
    }

    /// Leave to start one, unless enough wait or are being started: many calls may end at once.
    fn begin(&self, language: Language, count: usize) -> Option<Starting> {
        let mut all = self.lock();
        let boxes = all.entry(language).or_default();
        if boxes.waiting.len() + boxes.starting >= count {
            return None;
        }
        boxes.starting += 1;
        Some(Starting { warm: self.clone(), language })
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<Language, Boxes>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One that is being started, until this is dropped.
struct Starting {
    warm: Warm,
    language: Language,
}

impl Drop for Starting {
    fn drop(&mut self) {
        if let Some(boxes) = self.warm.lock().get_mut(&self.language) {
            boxes.starting -= 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_that_end_together_start_no_more_than_are_missing() {
        let warm = Warm::default();
        let first = warm.begin(Language::Python, 2).unwrap();
        let _second = warm.begin(Language::Python, 2).unwrap();
        assert!(warm.begin(Language::Python, 2).is_none());
        assert!(warm.begin(Language::Shell, 2).is_some(), "each language has its own");
        drop(first);
        assert!(warm.begin(Language::Python, 2).is_some(), "one that could not be started is missing again");
    }
}
