//! System calls that no crate wraps, and the little that takes `unsafe`.
//!
//! Everything here runs in the launcher and its children, which have one thread each: a fork copies
//! the whole of a process and not one thread of several, so that what follows it is ordinary code.
#![expect(unsafe_code, reason = "raw system calls; nowhere else in the workspace")]

use std::ffi::CString;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

use rustix::process::Pid;

/// What a fork returns.
pub(super) enum Fork {
    Parent(Pid),
    Child,
}

/// Forks this process of one thread.
pub(super) fn fork() -> io::Result<Fork> {
    // SAFETY: there is one thread, so the child has a whole copy of everything.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        0 => Ok(Fork::Child),
        pid => Ok(Fork::Parent(Pid::from_raw(pid).ok_or(io::ErrorKind::Other)?)),
    }
}

/// Forks into new namespaces of every kind. The parent gets a handle to the child.
pub(super) fn fork_into_namespaces() -> io::Result<Option<(Pid, OwnedFd)>> {
    let namespaces = libc::CLONE_NEWUSER
        | libc::CLONE_NEWNS
        | libc::CLONE_NEWPID
        | libc::CLONE_NEWNET
        | libc::CLONE_NEWIPC
        | libc::CLONE_NEWUTS
        | libc::CLONE_NEWCGROUP
        | libc::CLONE_PIDFD;
    let mut pidfd: RawFd = -1;
    // SAFETY: all zero is a valid `clone_args`.
    let mut args: libc::clone_args = unsafe { std::mem::zeroed() };
    args.flags = namespaces as u64;
    args.pidfd = (&raw mut pidfd) as u64;
    args.exit_signal = libc::SIGCHLD as u64;
    // SAFETY: `args` lives through the call; without its own stack the child goes on here,
    // with a whole copy of this process of one thread.
    match unsafe { libc::syscall(libc::SYS_clone3, &raw const args, size_of::<libc::clone_args>()) } {
        -1 => Err(io::Error::last_os_error()),
        0 => Ok(None),
        pid => {
            let pid = Pid::from_raw(pid as i32).ok_or(io::ErrorKind::Other)?;
            // SAFETY: the kernel has just given us this descriptor.
            Ok(Some((pid, unsafe { OwnedFd::from_raw_fd(pidfd) })))
        }
    }
}

/// Read-only, no set-user-id, no devices: for a mount and all below it.
pub(super) fn restrict_mount(
    mount: BorrowedFd<'_>,
    read_only: bool,
    owners: Option<BorrowedFd<'_>>,
) -> io::Result<()> {
    let mut set = libc::MOUNT_ATTR_NOSUID | libc::MOUNT_ATTR_NODEV;
    if read_only {
        set |= libc::MOUNT_ATTR_RDONLY;
    }
    if owners.is_some() {
        set |= libc::MOUNT_ATTR_IDMAP;
    }
    let attributes = libc::mount_attr {
        attr_set: set,
        attr_clr: 0,
        propagation: 0,
        userns_fd: owners.map_or(0, |owners| owners.as_raw_fd() as u64),
    };
    let flags = libc::AT_EMPTY_PATH | libc::AT_RECURSIVE;
    // SAFETY: the path is a constant and the attributes live through the call.
    let done = unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            mount.as_raw_fd(),
            c"".as_ptr(),
            flags,
            &raw const attributes,
            size_of::<libc::mount_attr>(),
        )
    };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Makes the loopback interface of this network namespace work.
pub(super) fn raise_loopback() -> io::Result<()> {
    let socket = rustix::net::socket(rustix::net::AddressFamily::INET, rustix::net::SocketType::DGRAM, None)?;
    // SAFETY: all zero is a valid `ifreq`.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (into, from) in request.ifr_name.iter_mut().zip(b"lo") {
        *into = *from as libc::c_char;
    }
    request.ifr_ifru.ifru_flags = (libc::IFF_UP | libc::IFF_RUNNING) as libc::c_short;
    // SAFETY: the request is an `ifreq`, as this call takes.
    match unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCSIFFLAGS as _, &raw const request) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Closes every descriptor from this one on.
pub(super) fn close_from(first: libc::c_uint) {
    // SAFETY: called before `main`, when nothing in this process owns one of them.
    unsafe { libc::syscall(libc::SYS_close_range, first, libc::c_uint::MAX, 0) };
}

/// Closes one descriptor that belongs to the process this one was forked from.
pub(super) fn close(descriptor: RawFd) {
    // SAFETY: its owner is the parent; this copy of it is never used or dropped.
    unsafe { libc::close(descriptor) };
}

/// Puts `from` at the place of another descriptor, whatever was there.
pub(super) fn put_at(from: RawFd, at: RawFd) -> io::Result<()> {
    // SAFETY: `at` is a standard stream, which nothing in this process owns.
    match unsafe { libc::dup2(from, at) } {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

/// Becomes another program. Returns only the reason why not.
pub(super) fn execute(program: &CString, args: &[CString], env: &[CString]) -> io::Error {
    let pointers = |texts: &[CString]| -> Vec<*const libc::c_char> {
        texts.iter().map(|text| text.as_ptr()).chain([std::ptr::null()]).collect()
    };
    let (args, env) = (pointers(args), pointers(env));
    // SAFETY: both lists end in null, and all of it lives through the call.
    unsafe { libc::execve(program.as_ptr(), args.as_ptr(), env.as_ptr()) };
    io::Error::last_os_error()
}

/// Sends a signal to every process that we may signal, but ourselves and process 1.
pub(super) fn signal_all(signal: i32) {
    // SAFETY: no memory is involved.
    unsafe { libc::kill(-1, signal) };
}

/// Time on a processor, in milliseconds, and the most memory of one, in bytes, of all children that
/// have ended and been waited for.
pub(super) fn children_usage() -> (u64, u64) {
    // SAFETY: all zero is a valid `rusage`, and the call fills it.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_CHILDREN, &raw mut usage);
        usage
    };
    let ms = |time: libc::timeval| (time.tv_sec as u64) * 1000 + (time.tv_usec as u64) / 1000;
    (ms(usage.ru_utime) + ms(usage.ru_stime), (usage.ru_maxrss as u64) << 10)
}

/// Asks to be traced by the parent.
pub(super) fn trace_me() -> io::Result<()> {
    // SAFETY: no memory is involved.
    match unsafe { libc::ptrace(libc::PTRACE_TRACEME, 0, 0, 0) } {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

/// Ends this process without running anything more of it.
pub(super) fn exit(code: i32) -> ! {
    // SAFETY: always safe; a forked copy must not run the exit handlers of the original.
    unsafe { libc::_exit(code) }
}

/// Lets no signal interrupt this process, but for those that nobody can hold back. The descriptor can
/// be read when a child has ended.
pub(super) fn hold_signals() -> io::Result<OwnedFd> {
    // SAFETY: all zero is a valid set, each call gets sets that live through it, and the kernel gives
    // us a descriptor that nobody else owns.
    unsafe {
        let mut signals: libc::sigset_t = std::mem::zeroed();
        libc::sigfillset(&raw mut signals);
        libc::sigprocmask(libc::SIG_SETMASK, &raw const signals, std::ptr::null_mut());
        libc::sigemptyset(&raw mut signals);
        libc::sigaddset(&raw mut signals, libc::SIGCHLD);
        match libc::signalfd(-1, &raw const signals, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK) {
            -1 => Err(io::Error::last_os_error()),
            descriptor => Ok(OwnedFd::from_raw_fd(descriptor)),
        }
    }
}

/// Takes what has come to the descriptor of [`hold_signals`].
pub(super) fn forget_signals(held: &OwnedFd) {
    // At most one of a kind waits.
    let _ = rustix::io::read(held, &mut [0; size_of::<libc::signalfd_siginfo>()]);
}

/// Restores how every signal is handled, and lets all of them through: children inherit both.
pub(super) fn reset_signals() {
    // SAFETY: the default handler runs no code of ours.
    unsafe {
        for signal in 1..=64 {
            libc::signal(signal, libc::SIG_DFL);
        }
        let mut none: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut none);
        libc::sigprocmask(libc::SIG_SETMASK, &raw const none, std::ptr::null_mut());
    }
}
