//! Wall and CPU time of many repetitions, and a line for each.

use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

/// What one operation costs.
#[derive(Clone, Copy)]
pub(crate) struct Cost {
    pub(crate) wall: Duration,
    pub(crate) cpu: Duration,
    pub(crate) operations: u64,
}

impl Cost {
    pub(crate) fn wall_us(&self) -> f64 {
        self.wall.as_secs_f64() * 1e6 / self.operations as f64
    }

    pub(crate) fn cpu_us(&self) -> f64 {
        self.cpu.as_secs_f64() * 1e6 / self.operations as f64
    }

    pub(crate) fn per_second(&self) -> f64 {
        self.operations as f64 / self.wall.as_secs_f64()
    }
}

/// A running measurement of the whole process, its background threads included.
pub(crate) struct Watch {
    wall: Instant,
    cpu: Duration,
}

impl Watch {
    pub(crate) fn start() -> Self {
        Self { wall: Instant::now(), cpu: cpu_time() }
    }

    pub(crate) fn stop(self, operations: u64) -> Cost {
        Cost { wall: self.wall.elapsed(), cpu: cpu_time() - self.cpu, operations }
    }
}

fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or(0))
}

/// The best of several rounds: the one the machine disturbed least.
pub(crate) fn best(rounds: usize, mut round: impl FnMut() -> Cost) -> Cost {
    (0..rounds).map(|_| round()).min_by(|a, b| a.cpu_us().total_cmp(&b.cpu_us())).expect("at least one round")
}

pub(crate) fn line(label: &str, cost: Cost, floor: Cost) {
    let ratio = cost.cpu_us() / floor.cpu_us();
    println!("{label:<58} {:>12.3} {:>12.3} {ratio:>10.2}", cost.wall_us(), cost.cpu_us());
}
