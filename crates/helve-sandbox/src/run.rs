//! Runs a program in a box to its end, its limits or its cancellation.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio_util::sync::CancellationToken;

use crate::SandboxError;
use crate::policy::{Job, Limits};
use crate::report::{Confinement, End, Usage};
use crate::running::{Ended, RunningBox};
use crate::sandbox::Sandbox;
use crate::streams::{TooMuch, drain, feed};

/// How long we read on after a program and all it started have ended. What they wrote is in the
/// pipe by then.
const DRAIN_GRACE: Duration = Duration::from_millis(500);

/// A program that has ended.
#[derive(Debug)]
pub struct Finished {
    /// How the program ended.
    pub end: End,
    /// What it wrote.
    pub stdout: Vec<u8>,
    /// What it wrote to the other stream.
    pub stderr: Vec<u8>,
    /// Whether it wrote more than that.
    pub truncated: bool,
    /// How it was confined.
    pub confinement: Confinement,
    /// What it used.
    pub usage: Usage,
    /// Its work directory, which is there as long as this is held.
    pub work_dir: OwnedFd,
}

/// One of a program's two streams.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stream {
    /// What it says.
    Out,
    /// What it says besides it.
    Err,
}

/// Sees what a program writes as it comes.
pub type Listener = Arc<dyn Fn(Stream, &[u8]) + Send + Sync>;

/// How a running program is attended to.
#[derive(Clone, Default)]
pub struct Attendance {
    /// What it reads. Without it, its input is left to who has taken it.
    pub stdin: Option<Vec<u8>>,
    /// How long it may run and how much it may write.
    pub limits: Limits,
    /// How long it may clean up when it is asked to end.
    pub grace: Duration,
    /// Sees what it writes as it comes.
    pub listener: Option<Listener>,
}

impl Sandbox {
    /// Runs a program to its end, its limits or `cancellation`, whichever comes first. Nothing it
    /// started is left behind.
    pub async fn run(
        &self,
        job: Job,
        stdin: Vec<u8>,
        cancellation: CancellationToken,
    ) -> Result<Finished, SandboxError> {
        let (limits, grace) = (job.policy.limits.clone(), job.policy.grace);
        let attendance = Attendance { stdin: Some(stdin), limits, grace, listener: None };
        Ok(self.start(job).await?.attend(attendance, cancellation).await)
    }
}

impl RunningBox {
    /// Feeds and drains a program until its end, a limit or `cancellation`.
    pub async fn attend(self, attendance: Attendance, cancellation: CancellationToken) -> Finished {
        // Boxed: its state is large and callers keep it in theirs.
        Box::pin(attend(self, attendance, cancellation)).await
    }
}

async fn attend(
    mut running: RunningBox,
    attendance: Attendance,
    cancellation: CancellationToken,
) -> Finished {
    let Attendance { stdin: input, limits, grace, listener } = attendance;
    let began = Instant::now();
    let (wall, output_bytes) = (limits.wall(), limits.output_bytes);
    let own_input = if input.is_some() { running.stdin.take() } else { None };
    let input = input.unwrap_or_default();
    let (from_stdout, from_stderr) = (running.stdout.take(), running.stderr.take());
    let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
    let tell = |stream, bytes: &[u8]| {
        if let Some(listener) = &listener {
            listener(stream, bytes);
        }
    };
    let (ended, truncated) = {
        let streams = async {
            tokio::try_join!(
                feed(own_input, &input),
                drain(from_stdout, &mut stdout, output_bytes, |bytes| tell(Stream::Out, bytes)),
                drain(from_stderr, &mut stderr, output_bytes, |bytes| tell(Stream::Err, bytes)),
            )
            .map(drop)
        };
        tokio::pin!(streams);
        let mut served = None;
        // All that is left to do when a limit is hit, or it is taken back.
        let stop = tokio::select! {
            biased;
            () = cancellation.cancelled() => Some(End::Cancelled),
            () = tokio::time::sleep_until((began + wall).into()) => Some(End::Timeout),
            ended = async {
                tokio::select! {
                    ended = running.wait() => Some(ended),
                    result = streams.as_mut() => { served = Some(result); None }
                }
            } => match (ended, &served) {
                (Some(_), _) => None,
                (None, Some(Err(TooMuch))) => Some(End::OutputLimit),
                // It has closed its streams and goes on.
                (None, _) => tokio::select! {
                    () = cancellation.cancelled() => Some(End::Cancelled),
                    () = tokio::time::sleep_until((began + wall).into()) => Some(End::Timeout),
                    _ = running.wait() => None,
                },
            },
        };
        if matches!(stop, Some(End::Cancelled | End::Timeout)) && !grace.is_zero() {
            running.terminate();
            let clean_up = async {
                if served.is_none() {
                    tokio::select! {
                        _ = running.wait() => {}
                        result = streams.as_mut() => served = Some(result),
                    }
                }
                running.wait().await;
            };
            let _ = tokio::time::timeout(grace, clean_up).await;
        }
        let ended = if stop.is_some() { running.finish().await } else { running.wait().await };
        if served.is_none() {
            served = tokio::time::timeout(DRAIN_GRACE, streams).await.ok();
        }
        let truncated = matches!(served, Some(Err(TooMuch)));
        let end = match stop {
            Some(stop) => stop,
            None if truncated => End::OutputLimit,
            None => ended.end,
        };
        (Ended { end, ..ended }, truncated)
    };
    let usage =
        Usage { wall_ms: u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX), ..ended.usage };
    let work_dir = running.work_dir.as_fd().try_clone_to_owned();
    Finished {
        end: ended.end,
        stdout,
        stderr,
        truncated,
        confinement: running.confinement.clone(),
        usage,
        work_dir: work_dir.unwrap_or_else(|_| unreachable!("a descriptor can be copied")),
    }
}
