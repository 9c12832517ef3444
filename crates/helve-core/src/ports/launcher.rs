//! Where programs are started.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::BoxFuture;

/// Sees what a program writes to stdout as it comes.
pub type Seen = Arc<dyn Fn(&[u8]) + Send + Sync>;

/// Starts programs. The sandbox crate is the only implementation outside tests.
pub trait Launcher: Send + Sync + 'static {
    /// Runs a program to its end, its limits or `cancellation`, whichever comes first. Nothing it
    /// started is left behind.
    fn launch(
        &self,
        program: Program,
        cancellation: CancellationToken,
    ) -> BoxFuture<'_, Result<Exit, LaunchError>> {
        self.launch_seen(program, cancellation, Arc::new(|_| ()))
    }

    /// The same, and what it writes is seen as it comes.
    fn launch_seen(
        &self,
        program: Program,
        cancellation: CancellationToken,
        seen: Seen,
    ) -> BoxFuture<'_, Result<Exit, LaunchError>>;
}

/// A program to run, with everything it gets and all its limits.
#[derive(Debug, Clone)]
pub struct Program {
    /// The executable: a path, or a name to be looked up in `PATH`.
    pub command: PathBuf,
    /// Its arguments. No shell reads them.
    pub args: Vec<String>,
    /// Its whole environment.
    pub env: Vec<(String, String)>,
    /// Where it starts.
    pub work_dir: Option<PathBuf>,
    /// What it reads.
    pub stdin: Vec<u8>,
    /// How long it may run.
    pub timeout: Duration,
    /// How much it may write, on each of its two streams.
    pub output_bytes_max: usize,
    /// What it may do.
    pub access: Access,
}

/// What a program may do. By default: read the system's programs and libraries, write to a work
/// directory that is gone afterwards, and reach nobody.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Access {
    /// Files and folders that it may read.
    pub read: Vec<PathBuf>,
    /// Files and folders that it may change.
    pub write: Vec<PathBuf>,
    /// Hosts that it may reach, as `HOST:PORT`.
    pub network: Vec<String>,
    /// Memory of all its processes together, where the launcher's own limit is not meant.
    pub memory_bytes: Option<u64>,
    /// Processes and threads at a time, where the launcher's own limit is not meant.
    pub pids: Option<u32>,
    /// It runs as Helve itself does. Only the operator says so, for a program that they trust.
    pub unconfined: bool,
    /// The files and folders that everything above must lie in once links are followed, where a person
    /// agreed to no more. A link that leads elsewhere by then starts nothing.
    pub within: Option<Vec<PathBuf>>,
}

/// How a program ended.
#[derive(Debug, Clone)]
pub struct Exit {
    /// In a word.
    pub status: ExitStatus,
    /// What it wrote.
    pub stdout: Vec<u8>,
    /// What it wrote to the other stream.
    pub stderr: Vec<u8>,
}

/// How a program ended, in a word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExitStatus {
    /// By itself, with a code.
    Code(i32),
    /// By a signal that we did not send.
    Signal(i32),
    /// It took too long and was killed.
    TimedOut,
    /// It wrote too much and was killed.
    OutputTooLarge,
    /// It used more memory than it may and was killed.
    OutOfMemory,
    /// It used more of the processor than it may and was killed.
    OutOfTime,
    /// The call was taken back and it was killed.
    Cancelled,
}

/// A program that could not be started.
#[derive(Debug, thiserror::Error)]
#[error("cannot start `{}`: {reason}", .command.display())]
pub struct LaunchError {
    /// The executable that should have started.
    pub command: PathBuf,
    /// Why it could not be started.
    pub reason: String,
}
