//! Looks at what a box uses where the kernel does not bound it for us.

use std::fs;
use std::path::Path;

use rustix::fs::statvfs;

use super::mounts::Proc;
use super::sys;
use crate::policy::Limits;
use crate::report::End;

/// The kernel counts time on a processor in hundredths of a second for programs.
const MS_PER_TICK: u64 = 10;

pub(super) struct Watch {
    memory_bytes: Option<u64>,
    cpu_ms: Option<u64>,
}

impl Watch {
    pub(super) fn new(limits: &Limits, cgroup: bool, proc: Proc) -> Self {
        let can_look = proc == Proc::Own;
        Self {
            memory_bytes: (can_look && !cgroup).then_some(limits.memory_bytes),
            cpu_ms: can_look.then(|| limits.cpu_s.saturating_mul(1000)),
        }
    }

    /// Looks once. A limit that is exceeded, if any.
    pub(super) fn look(&mut self, scratch: &str) -> Option<End> {
        if self.memory_bytes.is_some_and(|max| exceeds(max, scratch)) {
            return Some(End::MemoryLimit);
        }
        self.cpu_ms.is_some_and(|max| cpu_ms() > max).then_some(End::CpuLimit)
    }
}

/// Whether all processes together use more than `max` bytes.
///
/// A quick sum counts pages that processes share once for each. Only where that is too much do we
/// ask for the fair one, for which the kernel has to walk through all pages.
fn exceeds(max: u64, scratch: &str) -> bool {
    let files = statvfs(scratch).map_or(0, |stat| (stat.f_blocks - stat.f_bfree) * stat.f_frsize);
    let quick: u64 = processes().filter_map(|pid| quick_bytes(&pid)).sum();
    if files + quick <= max {
        return false;
    }
    // Files that are mapped are in both.
    let fair: u64 = processes().filter_map(|pid| fair_bytes(&pid).or_else(|| quick_bytes(&pid))).sum();
    files + fair > max
}

/// Every process of the box but the first.
fn processes() -> impl Iterator<Item = String> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    names.filter(|name| name != "1" && name.bytes().all(|byte| byte.is_ascii_digit()))
}

fn quick_bytes(pid: &str) -> Option<u64> {
    let status = fs::read_to_string(Path::new("/proc").join(pid).join("status")).ok()?;
    Some(sum_kb(&status, &["RssAnon:", "RssShmem:", "VmPTE:"]) << 10)
}

fn fair_bytes(pid: &str) -> Option<u64> {
    let rollup = fs::read_to_string(Path::new("/proc").join(pid).join("smaps_rollup")).ok()?;
    Some(sum_kb(&rollup, &["Pss_Anon:", "Pss_Shmem:"]) << 10)
}

fn sum_kb(text: &str, names: &[&str]) -> u64 {
    let lines = text.lines().filter_map(|line| names.iter().find_map(|name| line.strip_prefix(name)));
    lines.filter_map(|rest| rest.split_whitespace().next()?.parse::<u64>().ok()).sum()
}

/// Time on a processor of the living and the dead.
fn cpu_ms() -> u64 {
    let (of_dead, _) = sys::children_usage();
    of_dead + processes().filter_map(|pid| living_cpu_ms(&pid)).sum::<u64>()
}

fn living_cpu_ms(pid: &str) -> Option<u64> {
    let stat = fs::read_to_string(Path::new("/proc").join(pid).join("stat")).ok()?;
    // The name is in parentheses and can hold anything, also parentheses.
    let (_, rest) = stat.rsplit_once(')')?;
    // utime, stime, and the same of children that it has waited for.
    let ticks = rest.split_whitespace().skip(11).take(4).filter_map(|field| field.parse::<u64>().ok());
    Some(ticks.sum::<u64>() * MS_PER_TICK)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_the_lines_it_knows() {
        let status = "Name:\tx\nRssAnon:\t     100 kB\nRssFile:\t 7 kB\nVmPTE:\t 28 kB\n";
        assert_eq!(sum_kb(status, &["RssAnon:", "VmPTE:"]), 128);
        assert_eq!(sum_kb("", &["RssAnon:"]), 0);
    }
}
