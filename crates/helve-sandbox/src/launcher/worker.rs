//! The worker: gives up everything it does not need, locks itself in, and becomes the program.

use std::ffi::CString;
use std::fs;
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;

use rustix::process::{Resource, Rlimit, setrlimit, setsid};
use rustix::thread::{
    CapabilitySet, CapabilitySets, clear_ambient_capability_set, set_capabilities, set_no_new_privs,
};

use super::seccomp::Filters;
use super::{first, lock, sys};
use crate::wire::Order;

/// What is reported before the program starts: one of the first two, and the third with a reason
/// where it does not.
pub(super) const LANDLOCK_HOLDS: &str = "landlock";
const NO_LANDLOCK: &str = "no landlock";
pub(super) const FAILED: &str = "failed: ";

/// Open files of one process.
const FILES_MAX: u64 = 4096;

/// Becomes the program. What goes wrong before is written to `reporter`, which closes by itself when
/// the program starts.
pub(super) fn run(
    order: &Order,
    cgroup: bool,
    filters: &Filters,
    streams: [OwnedFd; 3],
    reporter: OwnedFd,
) -> ! {
    let mut reporter = fs::File::from(reporter);
    let error = match become_program(order, cgroup, filters, &streams, &mut reporter) {
        Ok(never) => match never {},
        Err(error) => error,
    };
    let _ = write!(reporter, "{FAILED}{error}");
    sys::exit(127);
}

fn become_program(
    order: &Order,
    cgroup: bool,
    filters: &Filters,
    streams: &[OwnedFd; 3],
    reporter: &mut fs::File,
) -> io::Result<std::convert::Infallible> {
    // A session of its own has no terminal to write into.
    setsid()?;
    let text = |text: &[u8]| CString::new(text).map_err(|_| io::Error::other("a NUL character in a text"));
    let program = text(order.program.as_os_str().as_bytes())?;
    let args = std::iter::once(&order.name).chain(&order.args).map(|arg| text(arg.as_bytes()));
    let args = args.collect::<io::Result<Vec<_>>>()?;
    let env = order.env.iter().map(|(name, value)| text(format!("{name}={value}").as_bytes()));
    let env = env.collect::<io::Result<Vec<_>>>()?;
    std::env::set_current_dir(&order.work_dir).map_err(|error| {
        io::Error::other(format!("its folder `{}` cannot be entered: {error}", order.work_dir.display()))
    })?;
    first::arrange(streams)?;
    limit(order, cgroup)?;
    drop_capabilities()?;
    set_no_new_privs(true)?;
    let landlock = lock::landlock(&order.grants)?;
    filters.install()?;
    write!(reporter, "{}", if landlock { LANDLOCK_HOLDS } else { NO_LANDLOCK })?;
    let error = sys::execute(&program, &args, &env);
    Err(match error.kind() {
        io::ErrorKind::NotFound => io::Error::other(
            "the program, or the interpreter that its first line (`#!`) names, is not in the box; grant it with `read`",
        ),
        io::ErrorKind::PermissionDenied => io::Error::other(
            "the program may not be executed in the box; it or what it needs is not readable there",
        ),
        _ => error,
    })
}

fn limit(order: &Order, cgroup: bool) -> io::Result<()> {
    let limits = &order.limits;
    let set = |resource, value: u64| {
        let limit = Rlimit { current: Some(value), maximum: Some(value) };
        setrlimit(resource, limit)
            .map_err(|error| io::Error::other(format!("a limit cannot be set: {error}")))
    };
    set(Resource::Core, 0)?;
    // Process 1 of the box counts as well.
    set(Resource::Nproc, u64::from(limits.pids) + 1)?;
    set(
        Resource::Nofile,
        FILES_MAX.min(rustix::process::getrlimit(Resource::Nofile).maximum.unwrap_or(FILES_MAX)),
    )?;
    set(Resource::Msgqueue, 0)?;
    set(Resource::Memlock, 8 << 20)?;
    // First a signal that names the reason; a second later one that cannot be ignored.
    let cpu = Rlimit { current: Some(limits.cpu_s.max(1)), maximum: Some(limits.cpu_s.max(1) + 1) };
    setrlimit(Resource::Cpu, cpu)?;
    if !cgroup {
        // What is asked for is more than what is used; this stops only the absurd at once.
        set(Resource::Data, limits.memory_bytes.saturating_mul(4).saturating_add(1 << 30))?;
    }
    Ok(())
}

fn drop_capabilities() -> io::Result<()> {
    let _ = clear_ambient_capability_set();
    for number in 0..64 {
        // Those that the kernel does not know are refused, and do not matter.
        let capability = CapabilitySet::from_bits_retain(1 << number);
        let _ = rustix::thread::remove_capability_from_bounding_set(capability);
    }
    let none = CapabilitySet::empty();
    set_capabilities(None, CapabilitySets { effective: none, permitted: none, inheritable: none })?;
    Ok(())
}
