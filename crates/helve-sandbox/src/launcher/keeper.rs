//! A keeper: holds a cgroup, prepares a box before anybody asks for it, hands it an order, waits for
//! its end, and begins again.
//!
//! It stays in its cgroup from box to box, because moving a process into one takes the kernel many
//! milliseconds, and a child is born where its parent is.

use std::fs;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Gid, Pid, Signal, Uid, WaitOptions, getgid, getuid, kill_process, waitpid};
use serde::{Deserialize, Serialize};

use super::cgroup::{self, Cgroup};
use super::{bare, first, mounts, sys};
use crate::report::Level;
use crate::wire::{self, FromBox, Order};

/// As root each box gets its own user, from a range that no system hands out: the kernel does
/// not count the processes of user 0, and what gets out of a box is nobody.
const USERS_FROM: u32 = 1_900_000_000;

/// How often a keeper looks whether memory ran out.
const TICK_NS: i64 = 50_000_000;

/// What a box is built for.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(super) struct Plan {
    /// Who the program is inside the box: the same as Helve outside.
    pub(super) user: u32,
    pub(super) group: u32,
    /// A cgroup bounds memory and processes.
    pub(super) cgroup: bool,
    /// Grants come as descriptors, already opened: the box needs the host's files no more.
    pub(super) opened: bool,
}

/// A box that waits for its order.
struct Prepared {
    pid: Pid,
    handle: OwnedFd,
    link: OwnedFd,
}

/// Works until the launcher's end of the link closes.
pub(super) fn keep(link: &OwnedFd, launcher: Pid, slot: u32) {
    let _ = rustix::thread::set_name(c"helve-keeper");
    let cgroup = Cgroup::enter(launcher, slot);
    loop {
        let prepared = prepare(slot, cgroup.as_ref());
        let Ok(Some(((), descriptors))) = wire::receive::<()>(link) else { return };
        serve(prepared, descriptors, cgroup.as_ref(), slot);
        if wire::send(link, &(), &[]).is_err() {
            return;
        }
    }
}

/// One box from its order to its end. The descriptors are the order, three streams, and the talk
/// with Helve.
fn serve(prepared: io::Result<Prepared>, descriptors: Vec<OwnedFd>, cgroup: Option<&Cgroup>, slot: u32) {
    let Ok([order, stdin, stdout, stderr, helve]) = <[OwnedFd; 5]>::try_from(descriptors) else { return };
    let refuse = |reason: String| {
        let _ = wire::send(&helve, &FromBox::Refused(reason), &[]);
    };
    let prepared = match prepared {
        Ok(prepared) => prepared,
        Err(error) => {
            return match wire::read_sheet::<Order>(order) {
                Ok((order, contents)) if order.min_level <= Level::L1 => {
                    bare::run_bare(order, contents, [stdin, stdout, stderr], &helve, &explain(&error));
                }
                _ => refuse(explain(&error)),
            };
        }
    };
    let started = start(&prepared, order, [&stdin, &stdout, &stderr], &helve, cgroup, slot);
    // The box has its own copies: ours would keep the streams open after its end.
    drop((stdin, stdout, stderr));
    if let Err(error) = started {
        let _ = kill_process(prepared.pid, Signal::KILL);
        let _ = waitpid(Some(prepared.pid), WaitOptions::empty());
        return refuse(format!("the box could not be set up: {error}"));
    }
    attend(&prepared, cgroup);
    let closed = FromBox::Closed {
        out_of_memory: cgroup.is_some_and(Cgroup::ran_out),
        memory_peak_bytes: cgroup.and_then(Cgroup::peak_bytes),
    };
    let _ = wire::send(&helve, &closed, &[]);
}

/// Waits for the end of a box. When the kernel killed one of its processes for want of memory, the
/// others are to go as well: what is left of a program is not the program.
fn attend(prepared: &Prepared, cgroup: Option<&Cgroup>) {
    let tick = Timespec { tv_sec: 0, tv_nsec: TICK_NS };
    let mut told = false;
    loop {
        let mut polled = [PollFd::new(&prepared.handle, PollFlags::IN)];
        let timeout = (cgroup.is_some() && !told).then_some(&tick);
        match poll(&mut polled, timeout) {
            Ok(0) if cgroup.is_some_and(Cgroup::ran_out) => {
                told = true;
                let _ = wire::send(&prepared.link, &(), &[]);
            }
            Ok(0) | Err(Errno::INTR) => {}
            Ok(_) | Err(_) => break,
        }
    }
    let _ = waitpid(Some(prepared.pid), WaitOptions::empty());
}

fn start(
    prepared: &Prepared,
    order: OwnedFd,
    streams: [&OwnedFd; 3],
    helve: &OwnedFd,
    cgroup: Option<&Cgroup>,
    slot: u32,
) -> io::Result<()> {
    let (head, mut sheet) = wire::read_sheet::<Order>(order)?;
    io::Seek::rewind(&mut sheet)?;
    let sheet = OwnedFd::from(sheet);
    if cgroup.is_some_and(|cgroup| !cgroup.limit(&head.limits)) {
        return Err(io::Error::other("its cgroup does not take its limits"));
    }
    let mut trees = Vec::new();
    if is_host_root() {
        trees = open_grants(&head, prepared.pid)?;
        for stream in streams {
            // Or else `/dev/stdout` could not be opened: the streams are root's, the box is not.
            let user = Some(USERS_FROM + slot);
            let _ = rustix::fs::fchown(stream, user.map(Uid::from_raw), user.map(Gid::from_raw));
        }
    }
    wire::send(helve, &FromBox::Started, &[prepared.handle.as_fd()])?;
    let mut descriptors: Vec<BorrowedFd<'_>> = vec![sheet.as_fd()];
    descriptors.extend(streams.iter().map(|stream| stream.as_fd()));
    descriptors.push(helve.as_fd());
    descriptors.extend(trees.iter().map(AsFd::as_fd));
    wire::send(&prepared.link, &(), &descriptors)
}

/// Root's own files belong to the box's user inside the box; where a file system cannot show them
/// so, they are there as they are.
fn open_grants(order: &Order, pid: Pid) -> io::Result<Vec<OwnedFd>> {
    let owners: OwnedFd = fs::File::open(format!("/proc/{}/ns/user", pid.as_raw_pid()))?.into();
    order
        .grants
        .iter()
        .map(|grant| {
            mounts::open_tree(&grant.path, !grant.writable, Some(owners.as_fd()))
                .or_else(|_| mounts::open_tree(&grant.path, !grant.writable, None))
                .map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", grant.path.display())))
        })
        .collect()
}

/// Builds a box up to the point where its order matters.
fn prepare(slot: u32, cgroup: Option<&Cgroup>) -> io::Result<Prepared> {
    if is_host_root() {
        // What groups of ours may open would be open to the box as well. Others cannot leave theirs.
        rustix::thread::set_thread_groups(&[])?;
    }
    let (ours, theirs) = wire::pair()?;
    let Some((pid, handle)) = sys::fork_into_namespaces()? else {
        drop(ours);
        first::run_as_first(theirs);
    };
    drop(theirs);
    let prepared = Prepared { pid, handle, link: ours };
    cgroup::expose(pid);
    let plan = Plan {
        user: getuid().as_raw(),
        group: getgid().as_raw(),
        cgroup: cgroup.is_some(),
        opened: is_host_root(),
    };
    let ready = map_users(pid, slot)
        .and_then(|()| wire::send(&prepared.link, &plan, &[]))
        .and_then(|()| wire::receive::<Result<(), String>>(&prepared.link));
    let failure = match ready {
        Ok(Some((Ok(()), _))) => return Ok(prepared),
        Ok(Some((Err(reason), _))) => io::Error::other(reason),
        Ok(None) => io::Error::other("its first process died"),
        Err(error) => error,
    };
    let _ = kill_process(pid, Signal::KILL);
    let _ = waitpid(Some(pid), WaitOptions::empty());
    Err(failure)
}

/// Says who the box's user is outside: ourselves, or for root a user without any rights.
fn map_users(pid: Pid, slot: u32) -> io::Result<()> {
    let (user, group) = (getuid().as_raw(), getgid().as_raw());
    let outside = |own: u32| if is_host_root() { USERS_FROM + slot } else { own };
    let file = |name: &str| format!("/proc/{}/{name}", pid.as_raw_pid());
    fs::write(file("setgroups"), "deny").or_else(|error| {
        // Only those who are not root must give it up.
        if is_host_root() { Ok(()) } else { Err(error) }
    })?;
    fs::write(file("uid_map"), format!("{user} {} 1\n", outside(user)))?;
    fs::write(file("gid_map"), format!("{group} {} 1\n", outside(group)))
}

/// Whether we are root of the whole machine, and may hand out its users. Root of a container without
/// rights is a plain user here.
fn is_host_root() -> bool {
    const ALL: [&str; 3] = ["0", "0", "4294967295"];
    let map = fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
    getuid().is_root() && map.split_whitespace().eq(ALL)
}

/// Why namespaces are refused, and what to do.
fn explain(error: &io::Error) -> String {
    let fix = match error.raw_os_error() {
        Some(libc::EPERM | libc::EACCES) => {
            "the host forbids user namespaces; allow them with `sysctl kernel.unprivileged_userns_clone=1` or \
             `sysctl kernel.apparmor_restrict_unprivileged_userns=0`, or in a container with a seccomp profile \
             that permits `clone3` and `unshare`"
        }
        Some(libc::ENOSPC | libc::EUSERS) => {
            "there are too many namespaces; raise `sysctl user.max_user_namespaces` (and the limits next to it)"
        }
        Some(libc::ENOSYS) => {
            "the kernel is older than 5.12, or a seccomp profile hides `clone3`; update either"
        }
        _ => "run `helve doctor` to see what this host can enforce",
    };
    format!("the box could not be made: {error}; {fix}")
}
