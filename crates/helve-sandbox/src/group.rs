//! A started program: one process group that dies with this value.

use std::io;
use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use helve_core::ports::{LaunchError, Program};
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command};
use tokio::signal::unix::{self, SignalKind};

/// How long a killed program may take to go. One that hangs in the kernel is left to tokio, which
/// reaps it whenever it ends.
const REAP_GRACE: Duration = Duration::from_secs(1);

pub(crate) struct Running {
    child: Child,
    child_signals: unix::Signal,
}

impl Running {
    /// Starts `executable` with its own environment and in its own process group.
    pub(crate) fn start(program: &Program, executable: &Path) -> Result<Self, LaunchError> {
        let refuse = |reason: String| LaunchError { command: program.command.clone(), reason };
        // Without its own folder it starts at the root, so that nothing depends on where
        // Helve was started.
        let work_dir = program.work_dir.as_deref().unwrap_or(Path::new("/"));
        if !work_dir.is_dir() {
            return Err(refuse(format!(
                "its work_dir `{}` is not a folder; create it or change the configuration",
                work_dir.display()
            )));
        }
        // Listening before the start: afterwards an early end could be missed.
        let child_signals = unix::signal(SignalKind::child())
            .map_err(|error| refuse(format!("cannot listen for its end: {error}")))?;
        #[expect(clippy::disallowed_methods, reason = "the one place where processes start")]
        let child = Command::new(executable)
            .args(&program.args)
            .env_clear()
            .envs(program.env.iter().map(|(name, value)| (name, value)))
            .current_dir(work_dir)
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|error| refuse(explain(&error)))?;
        Ok(Self { child, child_signals })
    }

    /// Its three streams, once.
    pub(crate) fn streams(&mut self) -> (Option<ChildStdin>, Option<ChildStdout>, Option<ChildStderr>) {
        (self.child.stdin.take(), self.child.stdout.take(), self.child.stderr.take())
    }

    /// Waits for the program's end, but does not reap it: until then its id, which names the
    /// group, belongs to nobody else, and [`Running::kill`] is safe.
    pub(crate) async fn exited(&mut self) {
        let peek = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        while let Some(pid) = self.pid() {
            match waitid(WaitId::Pid(pid), peek) {
                Ok(None) => {}
                Ok(Some(_)) | Err(_) => return,
            }
            if self.child_signals.recv().await.is_none() {
                return;
            }
        }
    }

    /// Asks the program and everything in its group to end.
    pub(crate) fn ask_to_end(&self) {
        self.signal(Signal::TERM);
    }

    /// Kills the program and everything in its group.
    pub(crate) fn kill(&self) {
        self.signal(Signal::KILL);
    }

    fn signal(&self, signal: Signal) {
        if let Some(pid) = self.pid() {
            // It fails only when nobody is left to get it.
            let _ = kill_process_group(pid, signal);
        }
    }

    /// Kills what is left and reaps the program.
    pub(crate) async fn finish(mut self) -> Option<ExitStatus> {
        self.kill();
        tokio::time::timeout(REAP_GRACE, self.child.wait()).await.ok()?.ok()
    }

    /// The program's id, which is also its group's. None once it is reaped.
    fn pid(&self) -> Option<Pid> {
        self.child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw)
    }
}

impl Drop for Running {
    /// Reached with a live program when the future that ran it is dropped. Tokio reaps it.
    fn drop(&mut self) {
        self.kill();
    }
}

/// Says what to do about a start that the system refused. The executable and the folder exist:
/// both were checked.
pub(crate) fn explain(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::NotFound => {
            "the interpreter that its first line (`#!`) names is not there; install it or change the line"
                .to_owned()
        }
        io::ErrorKind::ArgumentListTooLong => "its arguments and environment are too long".to_owned(),
        io::ErrorKind::InvalidInput => "an argument or a variable contains a NUL character".to_owned(),
        _ if error.raw_os_error() == Some(rustix::io::Errno::NOEXEC.raw_os_error()) => {
            "it is neither a binary for this machine nor a script whose first line names its interpreter (`#!`)"
                .to_owned()
        }
        _ => error.to_string(),
    }
}
