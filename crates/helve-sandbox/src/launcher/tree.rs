//! Everything below this process: found by asking who its parent is, where no process 1 of a box ends
//! it all with its own end.
//!
//! This process is the reaper of all of them. Whatever has lost its parent becomes our child, so
//! some are left exactly as long as we have a child.

use std::collections::HashSet;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitOptions, WaitStatus, getpid, pidfd_open, pidfd_send_signal, wait,
};

/// How long we try to end what cannot be ended, because it has become another user or hangs in the
/// kernel.
const END_MAX: Duration = Duration::from_secs(5);
/// How often we look for new ones before we kill those that stand still.
const ROUNDS_MAX: u32 = 100;
const PAUSE: Duration = Duration::from_millis(1);

/// Sends a signal to everything below this process.
pub(super) fn signal_all(signal: Signal) {
    descendants().iter().for_each(|one| one.signal(signal));
}

/// Ends everything below this process, and waits for it. How `program` ended, if that was not known
/// before.
pub(super) fn end_all(program: Pid, mut status: Option<WaitStatus>) -> Option<WaitStatus> {
    let began = Instant::now();
    while reap(program, &mut status) && began.elapsed() < END_MAX {
        freeze();
        // From below: a parent that goes first could wake up its children.
        descendants().iter().rev().for_each(|one| one.signal(Signal::KILL));
        std::thread::sleep(PAUSE);
    }
    status
}

/// Reaps what has ended. Whether anybody is left.
fn reap(program: Pid, status: &mut Option<WaitStatus>) -> bool {
    loop {
        match wait(WaitOptions::NOHANG) {
            Ok(Some((pid, ended))) if pid == program => *status = Some(ended),
            Ok(Some(_)) | Err(Errno::INTR) => {}
            Ok(None) => return true,
            Err(_) => return false,
        }
    }
}

/// Stops everything where it is, so that no fork can outrun us.
fn freeze() {
    let mut stopped = HashSet::new();
    for _ in 0..ROUNDS_MAX {
        let new: Vec<_> = descendants().into_iter().filter(|one| stopped.insert(one.pid)).collect();
        if new.is_empty() {
            return;
        }
        new.iter().for_each(|one| one.signal(Signal::STOP));
    }
}

struct Descendant {
    pid: i32,
    parent: i32,
}

impl Descendant {
    /// An id can belong to another process by now. What the handle names does not change any more, so
    /// we ask for the parent once it is open.
    fn signal(&self, signal: Signal) {
        let Some(handle) = Pid::from_raw(self.pid).and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok())
        else {
            return;
        };
        let ours = [self.parent, own()];
        if parent_of(&self.pid.to_string()).is_some_and(|parent| ours.contains(&parent)) {
            // It fails when it has ended, or has become another user.
            let _ = pidfd_send_signal(&handle, signal);
        }
    }
}

fn own() -> i32 {
    getpid().as_raw_pid()
}

/// Every living process below this one, parents first.
fn descendants() -> Vec<Descendant> {
    // A kernel can be built without these lists; then everybody is asked for their parent.
    let parents = if children_of(own()).is_some() { None } else { Some(all_parents()) };
    let children = |pid: i32| match &parents {
        None => children_of(pid).unwrap_or_default(),
        Some(all) => all.iter().filter(|(_, parent)| *parent == pid).map(|(child, _)| *child).collect(),
    };
    let mut found: Vec<Descendant> = Vec::new();
    let mut seen = HashSet::from([own()]);
    let mut parent = own();
    let mut at = 0;
    loop {
        let new = children(parent).into_iter().filter(|child| seen.insert(*child));
        found.extend(new.map(|pid| Descendant { pid, parent }));
        let Some(next) = found.get(at) else { return found };
        (parent, at) = (next.pid, at + 1);
    }
}

/// The children of all threads of a process.
fn children_of(pid: i32) -> Option<Vec<i32>> {
    let mut children = Vec::new();
    for thread in fs::read_dir(format!("/proc/{pid}/task")).ok()?.flatten() {
        match fs::read_to_string(thread.path().join("children")) {
            Ok(list) => children.extend(list.split_whitespace().filter_map(|pid| pid.parse::<i32>().ok())),
            // A thread that has just ended has given its children to another.
            Err(_) if thread.path().exists() => return None,
            Err(_) => {}
        }
    }
    Some(children)
}

/// Every process of the machine, and its parent.
fn all_parents() -> Vec<(i32, i32)> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    names.filter_map(|name| Some((name.parse().ok()?, parent_of(&name)?))).collect()
}

/// The parent of a process that lives.
fn parent_of(pid: &str) -> Option<i32> {
    let stat = fs::read_to_string(Path::new("/proc").join(pid).join("stat")).ok()?;
    // After the name, which can hold anything, come the state and the parent.
    let mut rest = stat.rsplit_once(')')?.1.split_whitespace();
    let (state, parent) = (rest.next()?, rest.next()?.parse().ok()?);
    (state != "Z").then_some(parent)
}
