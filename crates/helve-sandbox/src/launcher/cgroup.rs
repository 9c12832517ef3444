//! A cgroup for a keeper and its boxes: the kernel itself bounds memory and processes.
//!
//! Root can make one, and so can a plain user to whom one was delegated, as systemd does for what runs in a
//! user's own slice; others do without (level L2). Both versions of cgroups are served; hosts differ in
//! which one holds the two controllers.

use std::cell::Cell;
use std::fs;
use std::io;
use std::path::{Component, Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::process::{Pid, test_kill_process};

use crate::policy::Limits;

const ROOT: &str = "/sys/fs/cgroup";
/// What a box uses besides its program: its keeper and its first process.
const OWN_BYTES: u64 = 16 << 20;
const OWN_PIDS: u64 = 2;

/// The two folders of a keeper; in version 2 they are the same.
#[derive(Debug)]
pub(super) struct Cgroup {
    memory: PathBuf,
    pids: PathBuf,
    version: Version,
    /// What it says of the boxes before the present one.
    before: Cell<Before>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Before {
    /// How often memory had run out.
    ran_out: u64,
    /// Memory at its highest, where the kernel does not forget it.
    peak_bytes: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Version {
    One,
    Two,
}

impl Cgroup {
    /// Moves this process into its own cgroup. `None` where that cannot be had.
    pub(super) fn enter(launcher: Pid, slot: u32) -> Option<Self> {
        let (version, memory, pids) = folders(launcher, slot)?;
        for folder in [&memory, &pids] {
            fs::create_dir_all(folder).ok()?;
            fs::write(folder.join("cgroup.procs"), "0").ok()?;
        }
        // Were memory to run out, a program is to go and not its keeper: see `expose`.
        let _ = fs::write("/proc/self/oom_score_adj", "-1000");
        Some(Self { memory, pids, version, before: Cell::default() })
    }

    /// Sets the limits of the next box. Whether they hold is read back, not believed.
    pub(super) fn limit(&self, limits: &Limits) -> bool {
        let (bytes, pids) =
            (limits.memory_bytes.saturating_add(OWN_BYTES), u64::from(limits.pids) + OWN_PIDS);
        let set = match self.version {
            Version::One => {
                let _ = fs::write(self.memory.join("memory.max_usage_in_bytes"), "0");
                // Swap counts in the second; each must stay above the other while they change.
                let both = "memory.memsw.limit_in_bytes";
                let _ = self.set(both, u64::MAX >> 1);
                self.set("memory.limit_in_bytes", bytes).inspect(|()| {
                    let _ = self.set(both, bytes);
                })
            }
            Version::Two => {
                let _ = self.set("memory.swap.max", 0);
                self.set("memory.max", bytes)
            }
        };
        let set = set.and_then(|()| fs::write(self.pids.join("pids.max"), pids.to_string()));
        let peak_bytes = if self.version == Version::Two { self.peak().unwrap_or(0) } else { 0 };
        self.before.set(Before { ran_out: self.ran_out_count(), peak_bytes });
        set.is_ok() && self.holds(bytes) && number(&self.pids.join("pids.max")) == Some(pids)
    }

    fn set(&self, name: &str, value: u64) -> io::Result<()> {
        fs::write(self.memory.join(name), value.to_string())
    }

    /// The kernel rounds to whole pages.
    fn holds(&self, bytes: u64) -> bool {
        let name = if self.version == Version::One { "memory.limit_in_bytes" } else { "memory.max" };
        number(&self.memory.join(name)).is_some_and(|held| held <= bytes)
    }

    /// Whether a process of the present box was killed for want of memory.
    pub(super) fn ran_out(&self) -> bool {
        self.ran_out_count() > self.before.get().ran_out
    }

    fn ran_out_count(&self) -> u64 {
        let name = if self.version == Version::One { "memory.oom_control" } else { "memory.events" };
        let text = fs::read_to_string(self.memory.join(name)).unwrap_or_default();
        let count = text.lines().find_map(|line| line.strip_prefix("oom_kill "));
        count.and_then(|count| count.trim().parse().ok()).unwrap_or(0)
    }

    /// Memory at its highest, of the present box. `None` where an earlier one took more: version 2 does not
    /// forget that.
    pub(super) fn peak_bytes(&self) -> Option<u64> {
        self.peak().filter(|peak| *peak > self.before.get().peak_bytes)
    }

    fn peak(&self) -> Option<u64> {
        let name = if self.version == Version::One { "memory.max_usage_in_bytes" } else { "memory.peak" };
        number(&self.memory.join(name))
    }
}

fn number(file: &Path) -> Option<u64> {
    fs::read_to_string(file).ok()?.trim().parse().ok()
}

/// Lets the kernel take a box for want of memory, here or on the whole host, before anything else: its
/// processes have inherited the protection of their keeper.
pub(super) fn expose(first: Pid) {
    let _ = fs::write(format!("/proc/{}/oom_score_adj", first.as_raw_pid()), "1000");
}

/// One folder a launcher, and in it one for each keeper.
fn folders(launcher: Pid, slot: u32) -> Option<(Version, PathBuf, PathBuf)> {
    let (name, own) = (of_launcher(launcher), format!("box-{slot}"));
    if let Some(folder) = holders().map(|holder| holder.join(&name)).find(|folder| opens(folder)) {
        return Some((Version::Two, folder.join(&own), folder.join(&own)));
    }
    if !rustix::process::getuid().is_root() {
        return None;
    }
    let (memory, pids) = (Path::new(ROOT).join("memory"), Path::new(ROOT).join("pids"));
    let both = memory.join("memory.limit_in_bytes").exists() && pids.join("cgroup.procs").exists();
    both.then(|| (Version::One, memory.join(&name).join(&own), pids.join(&name).join(&own)))
}

/// Where a folder of ours may be, in version 2: in the group that we are in, or in one above it. Mostly it
/// is the next above, because a group with processes in it holds no others; only the root does.
fn holders() -> impl Iterator<Item = PathBuf> {
    let groups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let own = groups.lines().find_map(|line| line.strip_prefix("0::/")).map(PathBuf::from);
    // Outside of what this process can see: a container that shares the host's groups.
    let own = own.filter(|own| own.components().all(|part| matches!(part, Component::Normal(_))));
    let holders: Vec<_> =
        own.iter().flat_map(|own| own.ancestors()).map(|group| Path::new(ROOT).join(group)).collect();
    holders.into_iter()
}

/// Makes the folder of a launcher, whose own folders get both controllers.
fn opens(folder: &Path) -> bool {
    let Some(holder) = folder.parent() else { return false };
    let controllers = fs::read_to_string(holder.join("cgroup.controllers")).unwrap_or_default();
    let has = |name: &str| controllers.split_whitespace().any(|one| one == name);
    if !has("memory") || !has("pids") || fs::create_dir_all(folder).is_err() {
        return false;
    }
    let hand_on = |group: &Path| fs::write(group.join("cgroup.subtree_control"), "+memory +pids");
    let opened = hand_on(holder).and_then(|()| hand_on(folder)).is_ok();
    if !opened {
        let _ = fs::remove_dir(folder);
    }
    opened
}

const PREFIX: &str = "helve-";

fn of_launcher(launcher: Pid) -> String {
    format!("{PREFIX}{}", launcher.as_raw_pid())
}

/// Removes the cgroups of a keeper that has ended.
pub(super) fn remove(launcher: Pid, slot: u32) {
    places().for_each(|place| {
        let _ = fs::remove_dir(place.join(of_launcher(launcher)).join(format!("box-{slot}")));
    });
}

/// How long the processes of a box may take to be gone after their keeper.
const GONE_WITHIN: Duration = Duration::from_secs(5);

/// Removes those of this launcher, which is about to end, and of launchers that are gone. The processes of a box die with
/// its keeper, but are gone a moment later, and until then the kernel keeps their folder.
pub(super) fn leave(own: Pid) {
    let deadline = Instant::now() + GONE_WITHIN;
    loop {
        sweep(Some(own));
        let is_there = places().any(|place| place.join(of_launcher(own)).exists());
        if !is_there || Instant::now() > deadline {
            return;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Removes those of launchers that are gone, and of `own`. A folder with processes in it stays: the kernel does not
/// remove it.
pub(super) fn sweep(own: Option<Pid>) {
    for folder in places().filter_map(|place| fs::read_dir(place).ok()).flatten().flatten() {
        let name = folder.file_name();
        let launcher = name.to_str().and_then(|name| name.strip_prefix(PREFIX)?.parse().ok());
        let Some(launcher) = launcher.and_then(Pid::from_raw) else { continue };
        if own == Some(launcher) || test_kill_process(launcher).is_err() {
            let folders = fs::read_dir(folder.path()).into_iter().flatten().flatten();
            for box_folder in folders.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir())) {
                let _ = fs::remove_dir(box_folder.path());
            }
            let _ = fs::remove_dir(folder.path());
        }
    }
}

fn places() -> impl Iterator<Item = PathBuf> {
    let first = ["memory", "pids"].into_iter().map(|controller| Path::new(ROOT).join(controller));
    first.chain(holders())
}
