//! Where programs are started and confined. The only crate that may start a process.
//!
//! A program runs in a box: namespaces of its own, a file tree with the system's programs and what
//! was granted, no capabilities, Landlock, seccomp, and limits on memory, processes, time and output.
//! Every result says how strong the box was ([`Confinement`]), and a box weaker than asked for is
//! refused.

pub mod policy;
pub mod report;

mod own;
mod run;
mod running;
mod sandbox;

mod boxed;
mod collect;
mod plain;
mod probe;

mod find;
mod group;
mod launcher;
mod link;
mod streams;
mod wire;

pub use collect::{CollectLimits, FileOut, LeftOut, collect};
pub use helve_core::ports::LaunchError as SandboxError;
pub use own::{Unwritable, Way};
pub use plain::{Options, PlainLauncher};
pub use policy::{FileIn, Job, Limits, Policy, WORK_DIR};
pub use probe::Probed;
pub use report::{Confinement, End, Guard, Level, Usage};
pub use run::{Attendance, Finished, Listener, Stream};
pub use running::{Ended, RunningBox};
pub use sandbox::{Egress, Sandbox, SandboxOptions};

/// Where the proxy listens, inside a box that was granted a network.
pub const PROXY_PORT: u16 = 3128;
