//! The launcher without a box.

use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::process;
use std::time::Duration;

use helve_core::BoxFuture;
use helve_core::ports::{Exit, ExitStatus, LaunchError, Launcher, Program, Seen};
use tokio_util::sync::CancellationToken;

use crate::find::find;
use crate::group::Running;
use crate::streams::{TooMuch, drain, feed};

/// How long we read on after a program has ended and its group is killed. Only a process that
/// left the group can hold the pipe open that long.
const DRAIN_GRACE: Duration = Duration::from_millis(500);

/// How long a program that is asked to end may clean up before it is killed. Who drops the future
/// sooner, as the runtime does after its own grace, kills it sooner.
const CLEAN_UP_GRACE: Duration = Duration::from_secs(5);

/// What holds for every program of a [`PlainLauncher`].
#[derive(Debug, Clone)]
pub struct Options {
    /// Folders in which a bare command name is looked up, in order. The `PATH` of Helve itself
    /// plays no part: it differs between a terminal and a service, and can hold folders that
    /// others may write to.
    pub path: Vec<PathBuf>,
}

impl Default for Options {
    fn default() -> Self {
        Self { path: ["/usr/local/bin", "/usr/bin", "/bin"].map(PathBuf::from).into() }
    }
}

/// Starts programs without confining them (level L0).
///
/// A program gets exactly the environment it is given, no shell, and its own process group.
/// At its end, at its limit of output, and when the future is dropped, the whole group is killed. On
/// cancellation and at its time limit the group first gets SIGTERM and five seconds to clean up.
///
/// What it cannot do: hold a program back from files or the network, bound its memory, or find a
/// descendant that moved to another process group or session.
#[derive(Debug, Clone, Default)]
pub struct PlainLauncher {
    options: Options,
}

impl PlainLauncher {
    /// A launcher with these options.
    pub fn new(options: Options) -> Self {
        Self { options }
    }

    /// Whether the program that `command` names is there and may be started. Starts nothing.
    pub fn check(&self, command: &Path) -> Result<(), LaunchError> {
        find(command, &self.options.path).map(drop)
    }
}

impl Launcher for PlainLauncher {
    fn launch_seen(
        &self,
        program: Program,
        cancellation: CancellationToken,
        seen: Seen,
    ) -> BoxFuture<'_, Result<Exit, LaunchError>> {
        Box::pin(async move {
            let executable = find(&program.command, &self.options.path)?;
            if cancellation.is_cancelled() {
                let (stdout, stderr) = (Vec::new(), Vec::new());
                return Ok(Exit { status: ExitStatus::Cancelled, stdout, stderr });
            }
            let running = Running::start(&program, &executable)?;
            Ok(attend(running, program, cancellation, seen).await)
        })
    }
}

/// Why we stop attending to a program.
enum End {
    Exited,
    TooMuchOutput,
    TimedOut,
    Cancelled,
}

/// Feeds and drains a program until its end or a limit, and leaves nothing of it behind.
async fn attend(mut running: Running, program: Program, cancellation: CancellationToken, seen: Seen) -> Exit {
    let (stdin, from_stdout, from_stderr) = running.streams();
    let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
    let streams = async {
        tokio::try_join!(
            feed(stdin, &program.stdin),
            drain(from_stdout, &mut stdout, program.output_bytes_max, |bytes| seen(bytes)),
            drain(from_stderr, &mut stderr, program.output_bytes_max, |_| ()),
        )
        .map(|_| ())
    };
    let end = serve_until_end(&mut running, streams, program.timeout, cancellation).await;
    let reaped = running.finish().await;
    Exit { status: status(end, reaped), stdout, stderr }
}

/// Serves a program until its end or a limit. At its time limit and on cancellation it is asked to
/// end, and served on while it cleans up.
async fn serve_until_end(
    running: &mut Running,
    streams: impl Future<Output = Result<(), TooMuch>>,
    time_limit: Duration,
    cancellation: CancellationToken,
) -> End {
    tokio::pin!(streams);
    let mut served = None;
    let end = tokio::select! {
        biased;
        () = cancellation.cancelled() => End::Cancelled,
        () = tokio::time::sleep(time_limit) => End::TimedOut,
        end = serve(running, streams.as_mut(), &mut served) => end,
    };
    if matches!(end, End::Cancelled | End::TimedOut) {
        running.ask_to_end();
        // How it ends now changes nothing: the call has ended already. A flood ends the wait.
        let _ = tokio::time::timeout(CLEAN_UP_GRACE, serve(running, streams, &mut served)).await;
    }
    end
}

/// Serves the streams until the program has ended and all that it wrote is read. Left and called
/// again, it goes on: `served` is how the streams ended, once they have.
async fn serve(
    running: &mut Running,
    mut streams: Pin<&mut impl Future<Output = Result<(), TooMuch>>>,
    served: &mut Option<Result<(), TooMuch>>,
) -> End {
    if served.is_none() {
        tokio::select! {
            () = running.exited() => {}
            ended = streams.as_mut() => *served = Some(ended),
        }
    }
    if let Some(Err(TooMuch)) = served {
        return End::TooMuchOutput;
    }
    running.exited().await;
    // Children that still hold the pipes would keep us reading.
    running.kill();
    if served.is_none() {
        *served = tokio::time::timeout(DRAIN_GRACE, streams).await.ok();
    }
    match served {
        Some(Err(TooMuch)) => End::TooMuchOutput,
        Some(Ok(())) | None => End::Exited,
    }
}

fn status(end: End, reaped: Option<process::ExitStatus>) -> ExitStatus {
    match end {
        End::TooMuchOutput => ExitStatus::OutputTooLarge,
        End::TimedOut => ExitStatus::TimedOut,
        End::Cancelled => ExitStatus::Cancelled,
        End::Exited => {
            let code = reaped.and_then(|status| status.code()).map(ExitStatus::Code);
            let signal = reaped.and_then(|status| status.signal()).map(ExitStatus::Signal);
            // Without a status nobody knows how it ended, and that is no success.
            code.or(signal).unwrap_or(ExitStatus::Code(-1))
        }
    }
}
