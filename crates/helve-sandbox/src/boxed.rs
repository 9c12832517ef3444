//! The port: a program of a tool, in a box.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use helve_core::BoxFuture;
use helve_core::ports::{Exit, ExitStatus, LaunchError, Launcher, Program, Seen};
use tokio_util::sync::CancellationToken;

use crate::find::find;
use crate::plain::{Options, PlainLauncher};
use crate::policy::{Job, Limits, Policy};
use crate::report::End;
use crate::run::{Attendance, Listener, Stream};
use crate::sandbox::Sandbox;

/// How long a tool's program that is asked to end may clean up. Who drops the future sooner, as the
/// runtime does after its own grace, kills it sooner.
const CLEAN_UP_GRACE: Duration = Duration::from_secs(5);

impl Sandbox {
    /// Whether the program that `command` names is there and may be started. Starts nothing.
    pub fn check(&self, command: &Path) -> Result<(), LaunchError> {
        self.locate(command).map(drop)
    }

    /// The file that `command` names. Starts nothing.
    pub fn locate(&self, command: &Path) -> Result<PathBuf, LaunchError> {
        find(command, &self.options.path)
    }
}

impl Launcher for Sandbox {
    fn launch_seen(
        &self,
        program: Program,
        cancellation: CancellationToken,
        seen: Seen,
    ) -> BoxFuture<'_, Result<Exit, LaunchError>> {
        Box::pin(async move {
            if program.access.unconfined {
                let plain = PlainLauncher::new(Options { path: self.options.path.clone() });
                return plain.launch_seen(program, cancellation, seen).await;
            }
            if cancellation.is_cancelled() {
                let (stdout, stderr) = (Vec::new(), Vec::new());
                return Ok(Exit { status: ExitStatus::Cancelled, stdout, stderr });
            }
            let (job, stdin) = job(program, &self.options.limits, self.options.min_level);
            let (limits, grace) = (job.policy.limits.clone(), job.policy.grace);
            let listener: Listener = Arc::new(move |stream, bytes: &[u8]| {
                if stream == Stream::Out {
                    seen(bytes);
                }
            });
            let attendance = Attendance { stdin: Some(stdin), limits, grace, listener: Some(listener) };
            let finished = self.start(job).await?.attend(attendance, cancellation).await;
            let status = status(finished.end);
            Ok(Exit { status, stdout: finished.stdout, stderr: finished.stderr })
        })
    }
}

fn job(program: Program, limits: &Limits, min_level: crate::Level) -> (Job, Vec<u8>) {
    let Program { command, args, env, work_dir, stdin, timeout, output_bytes_max, access } = program;
    let mut read = access.read;
    read.extend(work_dir.clone());
    let limits = Limits {
        memory_bytes: access.memory_bytes.unwrap_or(limits.memory_bytes),
        pids: access.pids.unwrap_or(limits.pids),
        wall_ms: u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX),
        output_bytes: output_bytes_max,
        ..limits.clone()
    };
    let policy = Policy {
        read,
        write: access.write,
        within: access.within,
        network: access.network,
        limits,
        min_level,
        grace: CLEAN_UP_GRACE,
        unconfined: false,
    };
    (Job { command, args, env, work_dir, files: Vec::new(), listen: Vec::new(), policy }, stdin)
}

fn status(end: End) -> ExitStatus {
    match end {
        End::Exited { code } => ExitStatus::Code(code),
        End::Signaled { signal } => ExitStatus::Signal(signal),
        End::MemoryLimit => ExitStatus::OutOfMemory,
        End::CpuLimit => ExitStatus::OutOfTime,
        End::Timeout => ExitStatus::TimedOut,
        End::OutputLimit => ExitStatus::OutputTooLarge,
        End::Cancelled => ExitStatus::Cancelled,
    }
}
