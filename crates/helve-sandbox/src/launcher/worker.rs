//! The worker: gives up everything it does not need, locks itself in, and becomes the program.

use std::ffi::CString;
use std::fs;
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::process::{Resource, Rlimit, setrlimit, setsid};
use rustix::thread::{
    CapabilitySet, CapabilitySets, clear_ambient_capability_set, set_capabilities, set_no_new_privs,
};

use super::seccomp::{Families, Filters};
use super::{first, lock, sys};
use crate::group;
use crate::wire::Order;

/// What is reported before the program starts: one of the first two, and the third with a reason
/// where it does not.
pub(super) const LANDLOCK_HOLDS: &str = "landlock";
const NO_LANDLOCK: &str = "no landlock";
pub(super) const FAILED: &str = "failed: ";

/// Open files of one process.
const FILES_MAX: u64 = 4096;

/// Where the program is to run.
#[derive(Clone, Copy)]
pub(super) enum Place<'p> {
    /// In a box that is built.
    Box { cgroup: bool },
    /// Among everybody else, with this folder to write to.
    Bare(&'p Path),
}

impl Place<'_> {
    fn has_cgroup(self) -> bool {
        matches!(self, Self::Box { cgroup: true })
    }
}

/// Becomes the program. What goes wrong before is written to `reporter`, which closes by itself when
/// the program starts.
pub(super) fn become_worker(
    order: &Order,
    place: Place<'_>,
    filters: &Filters,
    streams: [OwnedFd; 3],
    reporter: OwnedFd,
) -> ! {
    let mut reporter = fs::File::from(reporter);
    let error = match become_program(order, place, filters, &streams, &mut reporter) {
        Ok(never) => match never {},
        Err(error) => error,
    };
    let _ = write!(reporter, "{FAILED}{error}");
    sys::exit(127);
}

/// Becomes a program that is not confined.
pub(super) fn run_unconfined(order: &Order, streams: &[OwnedFd; 3], reporter: OwnedFd) {
    let mut reporter = fs::File::from(reporter);
    let prepared = Texts::of(order).and_then(|texts| {
        get_in_place(order, streams)?;
        write!(reporter, "{NO_LANDLOCK}")?;
        Ok(texts)
    });
    let reason = match prepared {
        Ok(texts) => group::explain(&texts.execute()),
        Err(error) => error.to_string(),
    };
    let _ = write!(reporter, "{FAILED}{reason}");
}

/// What the kernel is told to execute.
struct Texts {
    program: CString,
    args: Vec<CString>,
    env: Vec<CString>,
}

impl Texts {
    fn of(order: &Order) -> io::Result<Self> {
        let text =
            |text: &[u8]| CString::new(text).map_err(|_| io::Error::other("a NUL character in a text"));
        let args = std::iter::once(&order.name).chain(&order.args).map(|arg| text(arg.as_bytes()));
        let env = order.env.iter().map(|(name, value)| text(format!("{name}={value}").as_bytes()));
        Ok(Self {
            program: text(order.program.as_os_str().as_bytes())?,
            args: args.collect::<io::Result<_>>()?,
            env: env.collect::<io::Result<_>>()?,
        })
    }

    /// Returns only the reason why not.
    fn execute(&self) -> io::Error {
        sys::execute(&self.program, &self.args, &self.env)
    }
}

/// Its session, its folder and its streams.
fn get_in_place(order: &Order, streams: &[OwnedFd; 3]) -> io::Result<()> {
    sys::reset_signals();
    // Its own session has no terminal to write into.
    setsid()?;
    std::env::set_current_dir(&order.work_dir).map_err(|error| {
        io::Error::other(format!("its folder `{}` cannot be entered: {error}", order.work_dir.display()))
    })?;
    first::arrange(streams)
}

fn become_program(
    order: &Order,
    place: Place<'_>,
    filters: &Filters,
    streams: &[OwnedFd; 3],
    reporter: &mut fs::File,
) -> io::Result<std::convert::Infallible> {
    let texts = Texts::of(order)?;
    get_in_place(order, streams)?;
    limit(order, place)?;
    drop_capabilities()?;
    set_no_new_privs(true)?;
    let landlock = match place {
        Place::Box { .. } => lock::in_box(&order.grants)?,
        Place::Bare(folder) => lock::bare(&order.grants, &order.program, folder)?,
    };
    filters.install(families(order, place))?;
    write!(reporter, "{}", if landlock { LANDLOCK_HOLDS } else { NO_LANDLOCK })?;
    let error = texts.execute();
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

/// Folders of the system hold no sockets that matter; others may.
fn families(order: &Order, place: Place<'_>) -> Families {
    let is_system = |path: &Path| ["/etc", "/usr", "/opt"].iter().any(|system| path.starts_with(system));
    match place {
        Place::Bare(_) => Families::None,
        Place::Box { .. } if order.grants.iter().all(|grant| is_system(&grant.path)) => Families::UnixAndInet,
        Place::Box { .. } => Families::InetOnly,
    }
}

fn limit(order: &Order, place: Place<'_>) -> io::Result<()> {
    let limits = &order.limits;
    let set = |resource, value: u64| {
        let limit = Rlimit { current: Some(value), maximum: Some(value) };
        setrlimit(resource, limit)
            .map_err(|error| io::Error::other(format!("a limit cannot be set: {error}")))
    };
    // No core dump, neither as a file nor, which none at all would permit, piped to a program that the host
    // runs as root.
    set(Resource::Core, 1)?;
    if let Place::Box { .. } = place {
        // Process 1 of the box counts as well. Outside, all processes of the user would count.
        set(Resource::Nproc, u64::from(limits.pids.max(1)) + 1)?;
    }
    set(
        Resource::Nofile,
        FILES_MAX.min(rustix::process::getrlimit(Resource::Nofile).maximum.unwrap_or(FILES_MAX)),
    )?;
    set(Resource::Msgqueue, 0)?;
    // Users who play music may run before all others; what they start in a box may not.
    set(Resource::Rtprio, 0)?;
    set(Resource::Nice, 0)?;
    set(Resource::Memlock, 8 << 20)?;
    if limits.cpu_s != u64::MAX {
        // First a signal that names the reason; a second later one that cannot be ignored.
        let cpu_s = limits.cpu_s.max(1);
        setrlimit(Resource::Cpu, Rlimit { current: Some(cpu_s), maximum: Some(cpu_s.saturating_add(1)) })?;
    }
    if !place.has_cgroup() {
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
