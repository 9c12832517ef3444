//! Probes of the machine.

use helve_host::config::Loaded;
use helve_host::wire;
use helve_store::Glance;
use jiff::{SignedDuration, Timestamp};

use super::Check;
use crate::ui::count;

pub(super) fn system() -> Check {
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let kernel = rustix::system::uname();
    let release = kernel.release().to_string_lossy();
    Check::good(
        "machine",
        format!(
            "{} {release}, {} · {}",
            kernel.sysname().to_string_lossy(),
            std::env::consts::ARCH,
            count(cores, "core")
        ),
    )
}

/// Ids and records are ordered by the clock; one that jumped back mixes up the story.
pub(super) fn clock(loaded: &Loaded) -> Check {
    const FIX: &str = "set the clock, best by a time service such as systemd-timesyncd or chrony";
    let now = Timestamp::now();
    if now < EARLIEST {
        return Check::broken("clock", format!("says {now}, which is before Helve was written"), FIX);
    }
    let glance = wire::refuse_brought(loaded).ok().and_then(|()| Glance::at(&loaded.journal_path).ok()?);
    match glance.and_then(|glance| glance.newest_call) {
        Some(last) if last > now + SignedDuration::from_mins(1) => {
            Check::warning("clock", format!("says {now:.0}, but a call is recorded at {last:.0}"), FIX)
        }
        _ => Check::good("clock", format!("{now:.0}")),
    }
}

/// 2026-01-01: a clock before it was never set.
const EARLIEST: Timestamp = Timestamp::constant(1_767_225_600, 0);
