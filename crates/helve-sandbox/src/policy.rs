//! What a program may do, and what it is given.

use std::path::PathBuf;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::report::Level;

/// A program to run in a box, with everything it gets.
#[derive(Debug, Clone)]
pub struct Job {
    /// The executable: an absolute path, or a name to be looked up in the folders of
    /// [`SandboxOptions`](crate::SandboxOptions); where it is not confined, first in those of its own
    /// `PATH`.
    pub command: PathBuf,
    /// Its arguments. No shell reads them.
    pub args: Vec<String>,
    /// Its whole environment.
    pub env: Vec<(String, String)>,
    /// Where it starts, as it is called inside the box. Without it: its work directory, [`WORK_DIR`]; where
    /// it is not confined, `/`.
    pub work_dir: Option<PathBuf>,
    /// Files that lie in the work directory when it starts.
    pub files: Vec<FileIn>,
    /// Ports of its own loopback address at which Helve listens: the starter of the program gets the
    /// listeners, and so serves it without a network.
    pub listen: Vec<u16>,
    /// What it may do.
    pub policy: Policy,
}

/// The work directory, inside the box. It is empty, writable and gone afterwards.
pub const WORK_DIR: &str = "/box";

impl Job {
    /// A program with no arguments, no environment but a `PATH`, and the strictest policy.
    pub fn new(command: impl Into<PathBuf>) -> Self {
        Self {
            command: command.into(),
            args: Vec::new(),
            env: vec![("PATH".to_owned(), PATH.to_owned())],
            work_dir: None,
            files: Vec::new(),
            listen: Vec::new(),
            policy: Policy::default(),
        }
    }

    /// Adds arguments behind those that are there.
    pub fn args<S: Into<String>>(mut self, args: impl IntoIterator<Item = S>) -> Self {
        self.args.extend(args.into_iter().map(Into::into));
        self
    }

    /// Sets a variable of its environment.
    pub fn env(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        let name = name.into();
        self.env.retain(|(known, _)| *known != name);
        self.env.push((name, value.into()));
        self
    }
}

/// Where a program finds others.
pub const PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// A file that lies in the work directory when the program starts.
#[derive(Debug, Clone)]
pub struct FileIn {
    /// Where, relative to the work directory.
    pub path: PathBuf,
    /// What the file holds.
    pub content: Vec<u8>,
    /// Whether it can be executed.
    pub executable: bool,
}

/// What a program may do. By default: read the system's programs and libraries, write to its own
/// work directory, and nothing else.
#[derive(Debug, Clone, Default)]
pub struct Policy {
    /// Files and folders it may read, besides the system's.
    pub read: Vec<PathBuf>,
    /// Files and folders it may change.
    pub write: Vec<PathBuf>,
    /// What all of these, and the program itself, must lie in once links are followed; the system's own
    /// folders need not be named. None: wherever they lead.
    pub within: Option<Vec<PathBuf>>,
    /// Hosts that it may reach, as `HOST:PORT`, through a proxy that checks each connection. Empty:
    /// no network at all.
    pub network: Vec<String>,
    /// How much of everything it may use.
    pub limits: Limits,
    /// The least confinement that will do.
    pub min_level: Level,
    /// How long a program that is asked to end may clean up before it is killed.
    pub grace: Duration,
    /// The operator trusts it: it runs without a box and may do all that Helve may do. Of all the above
    /// only `grace` and the limits on time and output hold, for [`Sandbox::run`](crate::Sandbox::run);
    /// `min_level` does not apply. It has no work directory of its own, so it starts in `/` unless the
    /// job says where, and takes no files and no listeners.
    pub unconfined: bool,
}

/// How much of everything a program may use. Time, of both kinds, and output can be without a limit:
/// [`Limits::long_lived`].
///
/// Time and output are bounded by who attends to a program ([`Sandbox::run`](crate::Sandbox::run),
/// [`RunningBox::attend`](crate::RunningBox::attend)), not by [`Sandbox::start`](crate::Sandbox::start):
/// the reader of the streams reads as much and for as long as it likes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Limits {
    /// Memory of all its processes together, in bytes; files in the work directory count.
    pub memory_bytes: u64,
    /// Processes and threads at a time.
    pub pids: u32,
    /// Time on a processor, of all its processes together, in seconds. [`u64::MAX`]: no limit.
    pub cpu_s: u64,
    /// How long it may run, in milliseconds. [`u64::MAX`]: no limit.
    pub wall_ms: u64,
    /// How much it may write, on each of its two streams. [`usize::MAX`]: no limit.
    pub output_bytes: usize,
    /// How much its work directory and temporary files may hold.
    pub work_bytes: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            memory_bytes: 512 << 20,
            pids: 64,
            cpu_s: 60,
            wall_ms: 30_000,
            output_bytes: 1 << 20,
            work_bytes: 64 << 20,
        }
    }
}

impl Limits {
    /// For a program that serves for days: no limit on its time, its time on a processor and its
    /// output; the others stay. None is the greatest number and not 0, so that a time that is up is
    /// never mistaken for one without end.
    pub fn long_lived(self) -> Self {
        Self { cpu_s: u64::MAX, wall_ms: u64::MAX, output_bytes: usize::MAX, ..self }
    }

    /// How long it may run.
    pub fn wall(&self) -> Duration {
        Duration::from_millis(self.wall_ms)
    }
}
