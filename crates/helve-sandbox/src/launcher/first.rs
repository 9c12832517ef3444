//! Process 1 of a box: builds it, starts the program, watches, reaps, and reports.
//!
//! When it ends the kernel ends everything else in the box, whatever it forked and wherever it hid.

use std::fs;
use std::io::{self, Read};
use std::net::{Ipv4Addr, TcpListener};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Component, Path};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{
    DumpableBehavior, Gid, Pid, PidfdFlags, Signal, Uid, WaitOptions, WaitStatus, pidfd_open,
    set_dumpable_behavior, set_parent_process_death_signal, wait,
};
use rustix::thread::{CapabilitySet, CapabilitySets, set_capabilities, set_no_new_privs};

use super::keeper::Plan;
use super::mounts::{self, Proc};
use super::seccomp::Filters;
use super::sys::{self, Fork};
use super::watch::Watch;
use super::worker;
use crate::policy::WORK_DIR;
use crate::report::{Confinement, End, Guard, Level, Usage};
use crate::wire::{self, FileHead, FromBox, Order, ToBox};

/// The whole life of the process.
pub(super) fn run_as_first(keeper: OwnedFd) -> ! {
    let _ = rustix::thread::set_name(c"helve-box");
    if let Ok((built, descriptors)) = get_ready(&keeper) {
        let mut descriptors = descriptors.into_iter();
        let mut next = || descriptors.next().ok_or_else(|| io::Error::other("a descriptor is missing"));
        if let (Ok(sheet), Ok(stdin), Ok(stdout), Ok(stderr), Ok(helve)) =
            (next(), next(), next(), next(), next())
        {
            let opened = descriptors.collect();
            let life = Life { keeper: &keeper, helve, built };
            if let Err(error) = life.live(sheet, [stdin, stdout, stderr], opened) {
                let reason = FromBox::Refused(error.to_string());
                let _ = wire::send(&life.helve, &reason, &[]);
            }
        }
    }
    sys::exit(0);
}

/// Builds all that no order changes, and waits for the order.
fn get_ready(keeper: &OwnedFd) -> io::Result<(Built, Vec<OwnedFd>)> {
    let gone = || io::Error::other("the keeper is gone");
    sys::reset_signals();
    // Until the keeper has said who we are, we may do nothing.
    let (plan, _) = wire::receive::<Plan>(keeper)?.ok_or_else(gone)?;
    let built = build(plan);
    let told = built.as_ref().map(|_| ()).map_err(ToString::to_string);
    wire::send(keeper, &told, &[])?;
    let built = built?;
    let ((), descriptors) = wire::receive::<()>(keeper)?.ok_or_else(gone)?;
    Ok((built, descriptors))
}

/// What is there before an order comes.
struct Built {
    plan: Plan,
    proc: Proc,
    filters: Filters,
}

fn build(plan: Plan) -> io::Result<Built> {
    let (user, group) = (Uid::from_raw(plan.user), Gid::from_raw(plan.group));
    rustix::thread::set_thread_res_gid(group, group, group)?;
    rustix::thread::set_thread_res_uid(user, user, user)?;
    // Set after the change of user, which clears it.
    set_parent_process_death_signal(Some(Signal::KILL))?;
    let proc = mounts::build()?;
    if plan.opened {
        mounts::enter()?;
    }
    rustix::system::sethostname(b"helve")?;
    sys::raise_loopback()?;
    let filters = Filters::new(plan.cgroup)?;
    Ok(Built { plan, proc, filters })
}

struct Life<'k> {
    keeper: &'k OwnedFd,
    helve: OwnedFd,
    built: Built,
}

/// Who has something to say while the program runs. The keeper has one thing: memory ran out.
enum Speaker {
    Helve,
    Keeper,
    Nothing,
}

/// How often we look.
const TICK: Duration = Duration::from_millis(20);
/// How often we reap what has lost its parent, where there is nothing to look at.
const SLOW_TICK: Duration = Duration::from_secs(1);

impl Life<'_> {
    fn live(&self, sheet: OwnedFd, streams: [OwnedFd; 3], opened: Vec<OwnedFd>) -> io::Result<()> {
        let began = Instant::now();
        let (order, contents) = wire::read_sheet::<Order>(sheet)?;
        let level = level(self.built.proc, self.built.plan.cgroup);
        if level < order.min_level {
            return Err(weaker(&self.confinement(true), order.min_level));
        }
        mounts::finish(&order, opened, self.built.plan.opened)?;
        put_files(Path::new(WORK_DIR), &order.files, contents)?;
        let listeners = order.listen.iter().map(|port| TcpListener::bind((Ipv4Addr::LOCALHOST, *port)));
        let listeners = listeners.collect::<io::Result<Vec<_>>>()?;
        let work_dir: OwnedFd = fs::File::open(WORK_DIR)?.into();
        // The worker's user is ours: it must not reach into this process.
        set_dumpable_behavior(DumpableBehavior::NotDumpable)?;
        let (report, reporter) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
        let worker = match sys::fork()? {
            Fork::Child => {
                let place = worker::Place::Box { cgroup: self.built.plan.cgroup };
                worker::become_worker(&order, place, &self.built.filters, streams, reporter)
            }
            Fork::Parent(pid) => pid,
        };
        drop((streams, reporter));
        give_up_rights()?;
        let landlock = hear_worker(report)?;
        let confinement = self.confinement(landlock);
        let mut descriptors = vec![work_dir.as_fd()];
        descriptors.extend(listeners.iter().map(AsFd::as_fd));
        wire::send(&self.helve, &FromBox::Running(confinement), &descriptors)?;
        drop((listeners, work_dir));
        let end = self.attend(worker, &order)?;
        let (cpu_ms, memory_peak_bytes) = sys::children_usage();
        let wall_ms = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
        wire::send(
            &self.helve,
            &FromBox::Ended { end, usage: Usage { cpu_ms, memory_peak_bytes, wall_ms } },
            &[],
        )
    }

    fn confinement(&self, landlock: bool) -> Confinement {
        const NO_CGROUP: &str = "there is no cgroup with memory and pids that Helve may write to, so buffers that \
            the kernel holds for a program do not count; run Helve as root, or by `systemd-run --user --scope`, to have one";
        const NO_PROC: &str = "the host does not permit a `/proc` of its own, so memory and time on a processor \
            are not watched; in a container, unmask `/proc`";
        const NO_LANDLOCK: &str = "the kernel has no Landlock, or an old one; namespaces still hide files";
        let mut missing = Vec::new();
        if !landlock {
            missing.push((Guard::Landlock, NO_LANDLOCK));
        }
        if !self.built.plan.cgroup {
            missing.push((Guard::KernelMemory, NO_CGROUP));
        }
        if self.built.proc == Proc::None {
            missing.push((Guard::Cpu, NO_PROC));
            if !self.built.plan.cgroup {
                missing.push((Guard::Memory, NO_PROC));
            }
        }
        Confinement::all_but(level(self.built.proc, self.built.plan.cgroup), &missing)
    }

    /// Watches the program until its end, and leaves nothing of it running.
    fn attend(&self, worker: Pid, order: &Order) -> io::Result<End> {
        let handle = pidfd_open(worker, PidfdFlags::empty())?;
        let mut watch = Watch::new(&order.limits, self.built.plan.cgroup, self.built.proc);
        let mut status = None;
        let mut verdict = None;
        while status.is_none() && verdict.is_none() {
            let tick = if watch.has_limits() { TICK } else { SLOW_TICK };
            let heard = self.wait(handle.as_fd(), tick)?;
            status = reap(worker);
            match heard {
                Speaker::Helve if self.obey()? => break,
                Speaker::Keeper => verdict = Some(End::MemoryLimit),
                Speaker::Helve | Speaker::Nothing => verdict = watch.look(WORK_DIR),
            }
        }
        sys::signal_all(Signal::KILL.as_raw());
        loop {
            match wait(WaitOptions::empty()) {
                Ok(Some((pid, ended))) if pid == worker => status = Some(ended),
                Ok(_) | Err(Errno::INTR) => {}
                Err(_) => break,
            }
        }
        Ok(verdict.unwrap_or_else(|| by_itself(status)))
    }

    /// Waits for the program's end, a message or the next look.
    fn wait(&self, program: BorrowedFd<'_>, tick: Duration) -> io::Result<Speaker> {
        let timeout = Timespec { tv_sec: tick.as_secs() as i64, tv_nsec: i64::from(tick.subsec_nanos()) };
        let mut polled = [self.helve.as_fd(), self.keeper.as_fd(), program]
            .map(|descriptor| PollFd::from_borrowed_fd(descriptor, PollFlags::IN));
        match poll(&mut polled, Some(&timeout)) {
            Ok(_) if !polled[0].revents().is_empty() => Ok(Speaker::Helve),
            Ok(_) if !polled[1].revents().is_empty() => Ok(Speaker::Keeper),
            Ok(_) | Err(Errno::INTR) => Ok(Speaker::Nothing),
            Err(error) => Err(error.into()),
        }
    }

    /// Does what Helve says. Whether all is to end.
    fn obey(&self) -> io::Result<bool> {
        match wire::receive::<ToBox>(&self.helve)? {
            Some((ToBox::Put(files), mut sheets)) => {
                if let Some(sheet) = sheets.pop() {
                    let ((), contents) = wire::read_sheet::<()>(sheet)?;
                    let put =
                        put_files(Path::new(WORK_DIR), &files, contents).map_err(|error| error.to_string());
                    wire::send(&self.helve, &FromBox::Put(put), &[])?;
                }
                Ok(false)
            }
            Some((ToBox::Terminate, _)) => {
                sys::signal_all(Signal::TERM.as_raw());
                Ok(false)
            }
            Some((ToBox::Kill, _)) | None => Ok(true),
        }
    }
}

/// Never weaker than asked for, and never silently.
fn weaker(offered: &Confinement, asked: Level) -> io::Error {
    let (level, why) = (offered.level, offered.why.join("; "));
    io::Error::other(format!(
        "this host can confine it at level {level} only, and {asked} is asked for: {why}"
    ))
}

/// How strong such a box is.
fn level(proc: Proc, cgroup: bool) -> Level {
    match (proc, cgroup) {
        (Proc::None, _) => Level::L2p,
        (Proc::Own, false) => Level::L2,
        (Proc::Own, true) => Level::L3,
    }
}

/// This process needs no rights any more, and can never get new ones.
fn give_up_rights() -> io::Result<()> {
    for descriptor in 0..3 {
        // Streams of the launcher's own.
        sys::close(descriptor);
    }
    set_no_new_privs(true)?;
    let none = CapabilitySet::empty();
    set_capabilities(None, CapabilitySets { effective: none, permitted: none, inheritable: none })?;
    Ok(())
}

/// What the worker has to say before it becomes the program: whether Landlock holds, or why it
/// cannot go on.
pub(super) fn hear_worker(report: OwnedFd) -> io::Result<bool> {
    let mut said = String::new();
    fs::File::from(report).read_to_string(&mut said)?;
    match said.split_once(worker::FAILED) {
        Some((_, reason)) => Err(io::Error::other(reason.to_owned())),
        None if said.is_empty() => Err(io::Error::other("the program died before it started")),
        None => Ok(said == worker::LANDLOCK_HOLDS),
    }
}

/// How a program ended by itself.
pub(super) fn by_itself(status: Option<WaitStatus>) -> End {
    let (code, signal) = match status {
        Some(ended) => (ended.exit_status(), ended.terminating_signal()),
        None => (None, None),
    };
    match (code, signal) {
        (Some(code), _) => End::Exited { code },
        (None, Some(libc::SIGXCPU)) => End::CpuLimit,
        (None, Some(signal)) => End::Signaled { signal },
        (None, None) => End::Signaled { signal: libc::SIGKILL },
    }
}

/// Reaps what has ended. How the program ended, if it has.
pub(super) fn reap(worker: Pid) -> Option<WaitStatus> {
    let mut status = None;
    while let Ok(Some((pid, ended))) = wait(WaitOptions::NOHANG) {
        if pid == worker {
            status = Some(ended);
        }
    }
    status
}

/// Writes files below the work directory. Their paths stay in it: they have no `..` and follow no
/// link, because each folder on the way is checked.
pub(super) fn put_files(work_dir: &Path, files: &[FileHead], mut contents: fs::File) -> io::Result<()> {
    for file in files {
        let target = place(work_dir, &file.path)?;
        let mode = if file.executable { 0o755 } else { 0o644 };
        let mut options = fs::OpenOptions::new();
        options.write(true).create(true).truncate(true).mode(mode).custom_flags(libc::O_NOFOLLOW);
        let mut into = options.open(&target)?;
        let copied = io::copy(&mut (&mut contents).take(file.bytes), &mut into)?;
        if copied != file.bytes {
            return Err(io::Error::other("a file for the work directory is cut short"));
        }
    }
    Ok(())
}

fn place(work_dir: &Path, path: &Path) -> io::Result<std::path::PathBuf> {
    let plain = path.components().all(|part| matches!(part, Component::Normal(_)));
    if !plain || path.as_os_str().is_empty() {
        let shown = path.display();
        return Err(io::Error::other(format!("`{shown}` is no place in the work directory")));
    }
    let mut target = work_dir.to_owned();
    for folder in path.parent().into_iter().flat_map(Path::components) {
        target.push(folder);
        match fs::symlink_metadata(&target) {
            Ok(metadata) if metadata.is_dir() => {}
            Ok(_) => return Err(io::Error::other(format!("`{}` is not a folder", target.display()))),
            Err(_) => fs::DirBuilder::new().mode(0o755).create(&target)?,
        }
    }
    Ok(target.join(path.file_name().unwrap_or_default()))
}

/// Puts the streams at their places and closes all else, but one descriptor that closes by itself.
pub(super) fn arrange(streams: &[OwnedFd; 3]) -> io::Result<()> {
    // From above the places, so that none is overwritten before it is moved.
    let moved = streams
        .iter()
        .map(|stream| rustix::io::fcntl_dupfd_cloexec(stream, 3))
        .collect::<Result<Vec<_>, _>>()?;
    for (at, stream) in (0..).zip(&moved) {
        sys::put_at(stream.as_raw_fd(), at)?;
    }
    Ok(())
}
