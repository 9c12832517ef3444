//! Which stage a call is in, and how long each took.

use std::time::Duration;

use helve_core::Stage;
use helve_core::record::Timings;
use tokio::time::Instant;

/// Which stage a call is in, and how long each took.
pub(super) struct Stopwatch {
    stage: Stage,
    since: Instant,
    /// When the tool answered, until the next stage begins.
    answered_at: Option<Instant>,
    timings: Timings,
}

impl Stopwatch {
    pub(super) fn start() -> Self {
        let (since, timings) = (Instant::now(), Timings::default());
        Self { stage: Stage::Resolve, since, answered_at: None, timings }
    }

    /// The stage that the call is in.
    pub(super) fn stage(&self) -> Stage {
        self.stage
    }

    /// When that stage began.
    pub(super) fn since(&self) -> Instant {
        self.since
    }

    /// Books the time so far to the stage that ends, and begins another.
    pub(super) fn enter(&mut self, stage: Stage) {
        let now = self.answered_at.take().unwrap_or_else(Instant::now);
        self.timings.add(self.stage, nanos(now - self.since));
        self.since = now;
        self.begin(stage);
    }

    /// Begins another stage after one that takes next to nothing. To look at the clock would take longer, so that
    /// its time is booked to this one.
    pub(super) fn go_on_to(&mut self, stage: Stage) {
        self.timings.add(self.stage, 0);
        self.begin(stage);
    }

    fn begin(&mut self, stage: Stage) {
        self.stage = stage;
        tracing::trace!(%stage, "enter");
    }

    /// The tool answered at this time, so that the next stage begins then.
    pub(super) fn answered(&mut self, at: Option<Instant>) {
        self.answered_at = at;
    }

    /// The times of all stages that have ended.
    pub(super) fn timings(&self) -> &Timings {
        &self.timings
    }

    /// With the time since the last stage began, where it is not booked yet.
    pub(super) fn timings_so_far(&self) -> Timings {
        let mut timings = self.timings;
        if !self.has_booked(Stage::Record) {
            timings.add(self.stage, nanos(self.since.elapsed()));
        }
        timings
    }

    /// Whether time was booked to a stage.
    pub(super) fn has_booked(&self, stage: Stage) -> bool {
        self.timings.iter().any(|(booked, _)| booked == stage)
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
