//! What was enforced, and how a program ended.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How strongly a program was confined, weakest first.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
pub enum Level {
    /// Not at all.
    L0,
    /// Landlock and seccomp, but no namespaces: other processes can be seen.
    L1,
    /// Namespaces, but no `/proc` of its own: memory is not watched.
    #[serde(rename = "L2p")]
    L2p,
    /// Namespaces, Landlock and seccomp; memory and processes are limited without a cgroup.
    #[default]
    L2,
    /// All of it, with a cgroup that the kernel itself enforces.
    L3,
}

impl Level {
    /// The word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::L0 => "L0",
            Self::L1 => "L1",
            Self::L2p => "L2p",
            Self::L2 => "L2",
            Self::L3 => "L3",
        }
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for Level {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        [Self::L0, Self::L1, Self::L2p, Self::L2, Self::L3]
            .into_iter()
            .find(|level| level.as_str().eq_ignore_ascii_case(text))
            .ok_or_else(|| format!("`{text}` is no level; there are L0, L1, L2p, L2 and L3"))
    }
}

/// One thing that a box can enforce.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Guard {
    /// Files and folders beyond the granted ones are not there.
    Files,
    /// Other processes of the machine cannot be seen or signalled.
    Processes,
    /// There is no network but what was granted.
    Network,
    /// No capabilities, and no way to gain privileges.
    Privileges,
    /// Landlock: a second lock on files.
    Landlock,
    /// Dangerous system calls are refused.
    Seccomp,
    /// Memory of all processes together.
    Memory,
    /// Buffers that the kernel holds for it count as memory.
    KernelMemory,
    /// The number of processes and threads.
    Pids,
    /// Time on a processor.
    Cpu,
    /// Time on the clock, waiting included.
    Wall,
    /// The size of the work directory.
    WorkBytes,
    /// The size of its output.
    OutputBytes,
    /// Everything that it started ends with it.
    Children,
}

impl Guard {
    /// Every guard, in the order of the declaration.
    pub const ALL: [Self; 14] = [
        Self::Files,
        Self::Processes,
        Self::Network,
        Self::Privileges,
        Self::Landlock,
        Self::Seccomp,
        Self::Memory,
        Self::KernelMemory,
        Self::Pids,
        Self::Cpu,
        Self::Wall,
        Self::WorkBytes,
        Self::OutputBytes,
        Self::Children,
    ];

    /// The word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Files => "files",
            Self::Processes => "processes",
            Self::Network => "network",
            Self::Privileges => "privileges",
            Self::Landlock => "landlock",
            Self::Seccomp => "seccomp",
            Self::Memory => "memory",
            Self::KernelMemory => "kernel_memory",
            Self::Pids => "pids",
            Self::Cpu => "cpu",
            Self::Wall => "wall",
            Self::WorkBytes => "work_bytes",
            Self::OutputBytes => "output_bytes",
            Self::Children => "children",
        }
    }
}

impl Guard {
    /// What it means for a program.
    pub fn meaning(self) -> &'static str {
        match self {
            Self::Files => "sees and changes only what it was granted",
            Self::Processes => "cannot see or signal other processes",
            Self::Network => "reaches no host but granted ones",
            Self::Privileges => "has no rights of root and can gain none",
            Self::Landlock => "a second lock on files",
            Self::Seccomp => "dangerous system calls are refused",
            Self::Memory => "is stopped at its memory limit",
            Self::KernelMemory => "what the kernel holds for it counts as well",
            Self::Pids => "cannot start more processes than it may",
            Self::Cpu => "is stopped at its limit of processor time",
            Self::Wall => "is stopped when its time is up",
            Self::WorkBytes => "cannot fill the disk or memory with files",
            Self::OutputBytes => "is stopped when it writes too much",
            Self::Children => "leaves nothing running",
        }
    }
}

impl fmt::Display for Guard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// How a program was confined: said with every result.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Confinement {
    /// In a word.
    pub level: Level,
    /// The guards that were in force.
    pub enforced: Vec<Guard>,
    /// What did not hold.
    pub not_enforced: Vec<Guard>,
    /// Why not, and what to do about it.
    pub why: Vec<String>,
}

impl Confinement {
    /// With everything enforced but this, and its reasons.
    pub(crate) fn all_but(level: Level, missing: &[(Guard, &str)]) -> Self {
        let lacks = |guard: &Guard| missing.iter().any(|(one, _)| one == guard);
        let (not_enforced, enforced) = Guard::ALL.into_iter().partition(lacks);
        let mut why: Vec<String> = missing.iter().map(|(_, why)| (*why).to_owned()).collect();
        why.dedup();
        Self { level, enforced, not_enforced, why }
    }

    /// Of a program that is not to be confined. Its time and its output are for the caller that attends to it.
    pub(crate) fn unconfined() -> Self {
        const ASKED: &str = "the operator has said that it is not to be confined";
        let missing = Guard::ALL.into_iter().filter(|guard| *guard != Guard::Children);
        let missing: Vec<_> = missing.map(|guard| (guard, ASKED)).collect();
        Self::all_but(Level::L0, &missing)
    }
}

/// How a program ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", tag = "status")]
pub enum End {
    /// The program ended by itself.
    Exited {
        /// With this code.
        code: i32,
    },
    /// By a signal that we did not send.
    Signaled {
        /// The number of the signal.
        signal: i32,
    },
    /// It used more memory than it may.
    MemoryLimit,
    /// It used more of the processor than it may.
    CpuLimit,
    /// It took too long.
    Timeout,
    /// It wrote too much.
    OutputLimit,
    /// It was taken back.
    Cancelled,
}

impl End {
    /// The word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Exited { .. } => "exited",
            Self::Signaled { .. } => "signaled",
            Self::MemoryLimit => "memory_limit",
            Self::CpuLimit => "cpu_limit",
            Self::Timeout => "timeout",
            Self::OutputLimit => "output_limit",
            Self::Cancelled => "cancelled",
        }
    }
}

/// What became of it, as in "the program has ended with exit code 1".
impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Exited { code } => write!(f, "has ended with exit code {code}"),
            Self::Signaled { signal } => match signal_name(signal) {
                Some(name) => write!(f, "was killed by signal {signal} ({name})"),
                None => write!(f, "was killed by signal {signal}"),
            },
            Self::MemoryLimit => f.write_str("was ended: it used more memory than it may"),
            Self::CpuLimit => f.write_str("was ended: it used more of the processor than it may"),
            Self::Timeout => f.write_str("was ended: it took too long"),
            Self::OutputLimit => f.write_str("was ended: it wrote too much"),
            Self::Cancelled => f.write_str("was taken back"),
        }
    }
}

/// The names of signals that end programs.
fn signal_name(signal: i32) -> Option<&'static str> {
    Some(match signal {
        libc::SIGHUP => "SIGHUP",
        libc::SIGINT => "SIGINT",
        libc::SIGQUIT => "SIGQUIT",
        libc::SIGILL => "SIGILL",
        libc::SIGTRAP => "SIGTRAP",
        libc::SIGABRT => "SIGABRT",
        libc::SIGBUS => "SIGBUS",
        libc::SIGFPE => "SIGFPE",
        libc::SIGKILL => "SIGKILL",
        libc::SIGSEGV => "SIGSEGV",
        libc::SIGPIPE => "SIGPIPE",
        libc::SIGALRM => "SIGALRM",
        libc::SIGTERM => "SIGTERM",
        libc::SIGXCPU => "SIGXCPU",
        libc::SIGXFSZ => "SIGXFSZ",
        libc::SIGSYS => "SIGSYS",
        _ => return None,
    })
}

/// What a program used.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Usage {
    /// Time on a processor, of all its processes, in milliseconds.
    pub cpu_ms: u64,
    /// Memory at its highest, in bytes: of all processes where a cgroup counts, else of the largest.
    pub memory_peak_bytes: u64,
    /// How long it took, in milliseconds.
    pub wall_ms: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_end_is_said_in_words() {
        for (end, words) in [
            (End::Exited { code: 3 }, "has ended with exit code 3"),
            (End::Signaled { signal: libc::SIGSEGV }, "was killed by signal 11 (SIGSEGV)"),
            (End::Signaled { signal: 99 }, "was killed by signal 99"),
            (End::MemoryLimit, "was ended: it used more memory than it may"),
        ] {
            assert_eq!(end.to_string(), words);
        }
    }
}
