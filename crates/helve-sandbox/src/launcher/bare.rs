//! A program without a box (level L1): where the host permits no namespaces, and the operator has said
//! that this will do. Landlock hides files, seccomp the network; other processes can be seen.
//!
//! There is no process 1 here whose end ends all others: what a program started is found by asking
//! who its parent is, again and again until nobody is left.

use std::fs;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{
    DumpableBehavior, Pid, PidfdFlags, Signal, WaitOptions, getpid, getuid, kill_process, pidfd_open,
    set_child_subreaper, set_dumpable_behavior, set_parent_process_death_signal, wait, waitpid,
};

use super::seccomp::Filters;
use super::sys::{self, Fork};
use super::{first, worker};
use crate::policy::WORK_DIR;
use crate::report::{Confinement, End, Guard, Level, Usage};
use crate::wire::{self, FromBox, Order, ToBox};

/// Runs one program to its end. `why` there is no box.
pub(super) fn run(order: Order, contents: fs::File, streams: [OwnedFd; 3], helve: &OwnedFd, why: &str) {
    match sys::fork() {
        Ok(Fork::Child) => {
            if let Err(error) = supervise(order, contents, streams, helve, why) {
                let _ = wire::send(helve, &FromBox::Refused(error.to_string()), &[]);
            }
            sys::exit(0);
        }
        Ok(Fork::Parent(pid)) => {
            drop(streams);
            let _ = waitpid(Some(pid), WaitOptions::empty());
            // It removes its folder itself, unless it was killed.
            drop(WorkDir(WorkDir::path_of(pid)));
            let _ =
                wire::send(helve, &FromBox::Closed { out_of_memory: false, memory_peak_bytes: None }, &[]);
        }
        Err(error) => drop(wire::send(helve, &FromBox::Refused(error.to_string()), &[])),
    }
}

fn supervise(
    mut order: Order,
    contents: fs::File,
    streams: [OwnedFd; 3],
    helve: &OwnedFd,
    why: &str,
) -> io::Result<()> {
    if !order.listen.is_empty() {
        return Err(io::Error::other("without namespaces no network and no other tools can be granted"));
    }
    sys::reset_signals();
    set_parent_process_death_signal(Some(Signal::KILL))?;
    set_child_subreaper(Some(getpid()))?;
    set_dumpable_behavior(DumpableBehavior::NotDumpable)?;
    let began = Instant::now();
    let work = WorkDir::make()?;
    work.replace(&mut order);
    first::put_files(&work.0, &order.files, contents)?;
    let handle = pidfd_open(getpid(), PidfdFlags::empty())?;
    wire::send(helve, &FromBox::Started, &[handle.as_fd()])?;
    let filters = Filters::new(false)?;
    let (report, reporter) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
    let worker = match sys::fork()? {
        Fork::Child => worker::run(&order, worker::Place::Bare(&work.0), &filters, streams, reporter),
        Fork::Parent(pid) => pid,
    };
    drop((streams, reporter));
    if !first::hear_worker(report)? {
        return Err(io::Error::other("this host has neither namespaces nor a Landlock that hides files"));
    }
    let folder: OwnedFd = fs::File::open(&work.0)?.into();
    wire::send(helve, &FromBox::Running(confinement(why)), &[folder.as_fd()])?;
    let end = attend(worker, helve)?;
    let (cpu_ms, memory_peak_bytes) = sys::children_usage();
    let wall_ms = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
    drop(work);
    wire::send(helve, &FromBox::Ended { end, usage: Usage { cpu_ms, memory_peak_bytes, wall_ms } }, &[])
}

/// What holds without namespaces.
fn confinement(why: &str) -> Confinement {
    let missing =
        [Guard::Processes, Guard::Memory, Guard::KernelMemory, Guard::Pids, Guard::Cpu, Guard::WorkBytes];
    Confinement::all_but(Level::L1, &missing.map(|guard| (guard, why)))
}

/// Waits for the program's end, or for Helve to say so, and ends all that it started.
fn attend(worker: Pid, helve: &OwnedFd) -> io::Result<End> {
    const TICK: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };
    let handle = pidfd_open(worker, PidfdFlags::empty())?;
    let mut status = None;
    while status.is_none() {
        let mut polled = [PollFd::new(helve, PollFlags::IN), PollFd::new(&handle, PollFlags::IN)];
        let _ = poll(&mut polled, Some(&TICK));
        let told = !polled[0].revents().is_empty();
        status = first::reap(worker);
        if told {
            match wire::receive::<ToBox>(helve)? {
                Some((ToBox::Terminate, _)) => {
                    descendants().into_iter().for_each(|pid| signal(pid, Signal::TERM))
                }
                Some((ToBox::Put(_), _)) => {}
                Some((ToBox::Kill, _)) | None => break,
            }
        }
    }
    // Each round finds what the last one had just forked.
    loop {
        let left = descendants();
        left.iter().for_each(|pid| signal(*pid, Signal::KILL));
        while let Ok(Some((pid, ended))) = wait(WaitOptions::NOHANG) {
            if pid == worker {
                status = Some(ended);
            }
        }
        if left.is_empty() {
            return Ok(first::by_itself(status));
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

fn signal(pid: Pid, signal: Signal) {
    let _ = kill_process(pid, signal);
}

/// Every process below this one. Those whose parents died are our children: we are their reaper.
fn descendants() -> Vec<Pid> {
    let parents: Vec<(i32, i32)> = fs::read_dir("/proc")
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| {
            let pid = entry.file_name().to_str()?.parse().ok()?;
            let stat = fs::read_to_string(entry.path().join("stat")).ok()?;
            // After the name, which can hold anything, come the state and the parent.
            let mut rest = stat.rsplit_once(')')?.1.split_whitespace();
            let (state, parent) = (rest.next()?, rest.next()?.parse().ok()?);
            (state != "Z").then_some((pid, parent))
        })
        .collect();
    let mut found = vec![getpid().as_raw_pid()];
    let mut at = 0;
    while at < found.len() {
        found.extend(
            parents
                .iter()
                .filter(|(_, parent)| *parent == found[at])
                .map(|(pid, _)| *pid)
                .collect::<Vec<_>>(),
        );
        at += 1;
    }
    found.into_iter().skip(1).filter_map(Pid::from_raw).collect()
}

/// A folder of the host, for want of one in memory. Gone when this is dropped.
struct WorkDir(PathBuf);

impl WorkDir {
    fn path_of(supervisor: Pid) -> PathBuf {
        std::env::temp_dir().join(format!("helve-box-{}", supervisor.as_raw_pid()))
    }

    fn make() -> io::Result<Self> {
        let path = Self::path_of(getpid());
        fs::DirBuilder::new().mode(0o700).create(&path)?;
        Ok(Self(path))
    }

    /// The work directory has another name here.
    fn replace(&self, order: &mut Order) {
        let own = self.0.to_string_lossy();
        if order.work_dir == Path::new(WORK_DIR) {
            order.work_dir.clone_from(&self.0);
        }
        for text in order.args.iter_mut().chain(order.env.iter_mut().map(|(_, value)| value)) {
            if text == WORK_DIR || text.starts_with(&format!("{WORK_DIR}/")) {
                *text = text.replacen(WORK_DIR, &own, 1);
            }
        }
        order.env.push(("TMPDIR".to_owned(), own.into_owned()));
    }
}

impl Drop for WorkDir {
    fn drop(&mut self) {
        // Another user's folder of the same name is not ours to remove.
        let is_ours = |metadata: fs::Metadata| metadata.is_dir() && metadata.uid() == getuid().as_raw();
        if fs::symlink_metadata(&self.0).is_ok_and(is_ours) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }
}
