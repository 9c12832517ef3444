//! Looks at what a box uses where the kernel does not bound it for us.

use std::collections::HashMap;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::fs::statvfs;

use super::mounts::Proc;
use super::sys;
use crate::policy::Limits;
use crate::report::End;

/// The kernel counts time on a processor in hundredths of a second for programs.
const MS_PER_TICK: u64 = 10;

/// The longest time between two looks that counts: after a longer one we have slept ourselves.
const NOT_LOOKED_MAX: Duration = Duration::from_millis(100);

/// Shared memory is looked at less often than the rest: it takes longer.
const SHARED_EVERY: u32 = 5;

pub(super) struct Watch {
    memory_bytes: Option<u64>,
    cpu_ms: Option<u64>,
    looks: u32,
    /// Time on a processor of each process when it was last seen, and of those that are gone. Who
    /// ignores the end of its children keeps their time from being added up by the kernel.
    seen: HashMap<String, Seen>,
    gone_ms: u64,
    looked: Instant,
}

/// A process when it was last seen.
struct Seen {
    cpu_ms: u64,
    /// What to count for it if it is not seen again. Most that live shorter than the time between two looks
    /// are never seen, so one that was seen counts for all of them: for as long as we did not look.
    once_ms: u64,
}

impl Watch {
    pub(super) fn new(limits: &Limits, cgroup: bool, proc: Proc) -> Self {
        let can_look = proc == Proc::Own;
        Self {
            memory_bytes: (can_look && !cgroup).then_some(limits.memory_bytes),
            cpu_ms: (can_look && limits.cpu_s != u64::MAX).then(|| limits.cpu_s.saturating_mul(1000)),
            looks: 0,
            seen: HashMap::new(),
            gone_ms: 0,
            looked: Instant::now(),
        }
    }

    /// Whether there is anything to look at.
    pub(super) fn has_limits(&self) -> bool {
        self.memory_bytes.is_some() || self.cpu_ms.is_some()
    }

    /// Looks once. A limit that is exceeded, if any.
    pub(super) fn look(&mut self, scratch: &str) -> Option<End> {
        self.looks = self.looks.wrapping_add(1);
        let with_shared = self.looks.is_multiple_of(SHARED_EVERY);
        if self.memory_bytes.is_some_and(|max| exceeds(max, scratch, with_shared)) {
            return Some(End::MemoryLimit);
        }
        let max = self.cpu_ms?;
        (self.cpu_ms() > max).then_some(End::CpuLimit)
    }

    /// Time on a processor of the living and the dead.
    fn cpu_ms(&mut self) -> u64 {
        let not_looked_ms = self.looked.elapsed().min(NOT_LOOKED_MAX).as_millis() as u64;
        self.looked = Instant::now();
        let living = processes().filter_map(|pid| Living::look(&pid).map(|living| (pid, living)));
        let now: HashMap<String, Seen> = living
            .map(|(pid, living)| {
                let once_ms = if self.seen.contains_key(&pid) { 0 } else { living.share_of(not_looked_ms) };
                (pid, Seen { cpu_ms: living.cpu_ms, once_ms })
            })
            .collect();
        let gone = self.seen.iter().filter(|(pid, _)| !now.contains_key(*pid));
        self.gone_ms += gone.map(|(_, seen)| seen.cpu_ms.max(seen.once_ms)).sum::<u64>();
        let living: u64 = now.values().map(|seen| seen.cpu_ms).sum();
        self.seen = now;
        let (reaped, _) = sys::children_usage();
        living + reaped.max(self.gone_ms)
    }
}

/// A process that is there.
struct Living {
    cpu_ms: u64,
    /// How many of its threads may run at this moment.
    running: u64,
    /// Nanoseconds on a processor, and waiting for one.
    ran_ns: u64,
    waited_ns: u64,
}

impl Living {
    fn look(pid: &str) -> Option<Self> {
        let folder = Path::new("/proc").join(pid);
        let stat = fs::read_to_string(folder.join("stat")).ok()?;
        // The name is in parentheses and can hold anything, also parentheses.
        let (_, rest) = stat.rsplit_once(')')?;
        let fields: Vec<&str> = rest.split_whitespace().collect();
        let number = |at: usize| fields.get(at).and_then(|field| field.parse::<u64>().ok()).unwrap_or(0);
        // Its own time; that of its children is ours to count.
        let cpu_ms = (number(11) + number(12)) * MS_PER_TICK;
        let running = match number(17) {
            0 | 1 => u64::from(fields.first() == Some(&"R")),
            _ => running_threads(&folder).min(cpus()),
        };
        let schedule = fs::read_to_string(folder.join("schedstat")).unwrap_or_default();
        let mut times = schedule.split_whitespace().filter_map(|field| field.parse().ok());
        Some(Self {
            cpu_ms,
            running,
            ran_ns: times.next().unwrap_or(1),
            waited_ns: times.next().unwrap_or(0),
        })
    }

    /// How much of a time it is likely to have run: on a busy machine what can run mostly waits.
    fn share_of(&self, ms: u64) -> u64 {
        let all = self.ran_ns.saturating_add(self.waited_ns).max(1);
        ((ms * self.running) as f64 * self.ran_ns as f64 / all as f64) as u64
    }
}

fn cpus() -> u64 {
    std::thread::available_parallelism().map_or(1, |many| many.get() as u64)
}

/// How many threads of a process run, or wait for a processor. Those that sleep cost nothing.
fn running_threads(process: &Path) -> u64 {
    let threads = fs::read_dir(process.join("task")).into_iter().flatten().flatten();
    let runs = |thread: &fs::DirEntry| {
        let stat = fs::read_to_string(thread.path().join("stat")).unwrap_or_default();
        stat.rsplit_once(')').is_some_and(|(_, rest)| rest.trim_start().starts_with('R'))
    };
    threads.filter(runs).count() as u64
}

/// Whether all processes together use more than `max` bytes.
///
/// A quick sum counts pages that processes share once for each. Only where that is too much do we
/// ask for the fair one, for which the kernel has to walk through all pages.
fn exceeds(max: u64, scratch: &str, with_shared: bool) -> bool {
    let files = statvfs(scratch).map_or(0, |stat| (stat.f_blocks - stat.f_bfree) * stat.f_frsize);
    let shared = if with_shared { shared_bytes() } else { 0 };
    let quick: u64 = processes().filter_map(|pid| quick_bytes(&pid)).sum();
    if files + quick.max(shared) <= max {
        return false;
    }
    // Files that are mapped are in both.
    let fair: u64 = processes().filter_map(|pid| fair_bytes(&pid).or_else(|| quick_bytes(&pid))).sum();
    files + fair.max(shared) > max
}

/// Every process of the box but the first.
fn processes() -> impl Iterator<Item = String> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    names.filter(|name| name != "1" && name.bytes().all(|byte| byte.is_ascii_digit()))
}

/// A file of a process, read where one of its threads still lives: a process whose first thread has
/// ended looks empty from outside, and is not.
fn read(pid: &str, name: &str, has: &str) -> Option<String> {
    let folder = Path::new("/proc").join(pid);
    let own = fs::read_to_string(folder.join(name)).ok().filter(|text| text.contains(has));
    own.or_else(|| {
        let threads = fs::read_dir(folder.join("task")).ok()?.flatten();
        threads
            .filter_map(|thread| fs::read_to_string(thread.path().join(name)).ok())
            .find(|text| text.contains(has))
    })
}

fn quick_bytes(pid: &str) -> Option<u64> {
    let status = read(pid, "status", "RssAnon:")?;
    Some(sum_kb(&status, &["RssAnon:", "RssShmem:", "VmPTE:"]) << 10)
}

fn fair_bytes(pid: &str) -> Option<u64> {
    let rollup = read(pid, "smaps_rollup", "Pss_Anon:")?;
    let tables = read(pid, "status", "VmPTE:").map_or(0, |status| sum_kb(&status, &["VmPTE:"]));
    Some((sum_kb(&rollup, &["Pss_Anon:", "Pss_Shmem:"]) + tables) << 10)
}

/// Shared memory without a name, each piece once and at its full size: its pages stay when a process
/// lets go of them, and are counted nowhere.
fn shared_bytes() -> u64 {
    let mut pieces: HashMap<String, u64> = HashMap::new();
    for maps in processes().filter_map(|pid| read(&pid, "maps", "/dev/zero (deleted)")) {
        for line in maps.lines().filter(|line| line.ends_with("/dev/zero (deleted)")) {
            let mut fields = line.split_whitespace();
            let range = fields.next().and_then(|range| range.split_once('-'));
            let ends = range.and_then(|(from, to)| {
                Some((u64::from_str_radix(from, 16).ok()?, u64::from_str_radix(to, 16).ok()?))
            });
            if let (Some((from, to)), Some(inode)) = (ends, fields.nth(3)) {
                let bytes = pieces.entry(inode.to_owned()).or_default();
                *bytes = (*bytes).max(to - from);
            }
        }
    }
    pieces.values().sum()
}

fn sum_kb(text: &str, names: &[&str]) -> u64 {
    let lines = text.lines().filter_map(|line| names.iter().find_map(|name| line.strip_prefix(name)));
    lines.filter_map(|rest| rest.split_whitespace().next()?.parse::<u64>().ok()).sum()
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

    #[test]
    fn threads_that_sleep_are_not_running() {
        let (wake, asleep) = std::sync::mpsc::channel::<()>();
        let asleep = std::sync::Arc::new(std::sync::Mutex::new(asleep));
        let sleeper = |_| {
            let asleep = std::sync::Arc::clone(&asleep);
            std::thread::spawn(move || drop(asleep.lock().map(|asleep| asleep.recv())))
        };
        let threads: Vec<_> = (0..50).map(sleeper).collect();
        let running = || running_threads(Path::new("/proc/self"));
        // They fall asleep one after the other.
        let fell_asleep = (0..10_000).any(|_| {
            std::thread::sleep(std::time::Duration::from_millis(1));
            running() < 25
        });
        assert!(fell_asleep && running() >= 1, "{} run", running());
        drop(wake);
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    }

    #[test]
    fn who_waits_for_a_processor_is_not_charged_for_it() {
        let living = |running, ran_ns, waited_ns| Living { cpu_ms: 0, running, ran_ns, waited_ns };
        assert_eq!(living(1, 5, 0).share_of(20), 20);
        assert_eq!(living(1, 5, 15).share_of(20), 5);
        assert_eq!(living(2, 5, 0).share_of(20), 40);
        assert_eq!(living(0, 5, 0).share_of(20), 0);
        assert_eq!(living(1, 0, 0).share_of(20), 0);
    }
}
