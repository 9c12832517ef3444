//! Times of single calls, and how they are told.

use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

/// What one thing took.
#[derive(Clone, Copy)]
pub(crate) struct Took {
    pub(crate) wall: Duration,
    /// Of this whole process: what is left of the time where the machine has nothing else to do.
    cpu: Duration,
}

/// What each of several calls took.
#[derive(Default)]
pub(crate) struct Times(Vec<Took>);

impl Times {
    pub(crate) fn add(&mut self, took: Took) {
        self.0.push(took);
    }

    pub(crate) fn take(&mut self, more: Self) {
        self.0.extend(more.0);
    }

    pub(crate) fn count(&self) -> usize {
        self.0.len()
    }

    /// The time within which this share of the calls was done, in milliseconds.
    pub(crate) fn within(&self, share: f64) -> f64 {
        self.share(share, |took| took.wall)
    }

    /// The same in CPU time, which depends less on what else the machine does.
    pub(crate) fn cpu_within(&self, share: f64) -> f64 {
        self.share(share, |took| took.cpu)
    }

    fn share(&self, share: f64, of: fn(&Took) -> Duration) -> f64 {
        let mut sorted: Vec<Duration> = self.0.iter().map(of).collect();
        sorted.sort();
        let place = (sorted.len() as f64 * share).ceil() as usize;
        sorted[place.clamp(1, sorted.len()) - 1].as_secs_f64() * 1e3
    }
}

struct Begun(Instant, Duration);

impl Begun {
    fn now() -> Self {
        Self(Instant::now(), cpu_time())
    }

    fn took(&self) -> Took {
        Took { wall: self.0.elapsed(), cpu: cpu_time() - self.1 }
    }
}

pub(crate) fn timed<T>(work: impl FnOnce() -> T) -> (Took, T) {
    let begun = Begun::now();
    let done = work();
    (begun.took(), done)
}

pub(crate) async fn timed_async<T>(work: impl Future<Output = T>) -> (Took, T) {
    let begun = Begun::now();
    let done = work.await;
    (begun.took(), done)
}

/// The fastest of several rounds: the one that the machine disturbed least.
pub(crate) fn best(rounds: &[Took]) -> Took {
    rounds.iter().copied().min_by_key(|took| took.wall).expect("at least one round")
}

impl Took {
    pub(crate) fn wall_s(self) -> f64 {
        self.wall.as_secs_f64()
    }

    pub(crate) fn cpu_s(self) -> f64 {
        self.cpu.as_secs_f64()
    }
}

fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or(0))
}
