//! What every test of boxes uses.

use std::time::Duration;

use helve_sandbox::{End, Finished, Job, Level, Sandbox};
use tokio_util::sync::CancellationToken;

/// Runs a job in its own box.
pub(crate) async fn run_job(job: Job) -> Finished {
    Sandbox::default().run(job, Vec::new(), CancellationToken::new()).await.unwrap()
}

/// A shell script.
pub(crate) fn sh(script: &str) -> Job {
    Job::new("/bin/sh").args(["-c", script])
}

/// A Python script.
pub(crate) fn python(script: &str) -> Job {
    let mut job = Job::new("/usr/bin/python3").args(["-I", "-c", script]);
    job.policy.limits.wall_ms = 60_000;
    job
}

/// What it wrote, where it ended well.
pub(crate) fn said(finished: &Finished) -> String {
    let (out, err) = (text(&finished.stdout), text(&finished.stderr));
    assert_eq!(finished.end, End::Exited { code: 0 }, "{out}\n{err}");
    out.trim_end().to_owned()
}

pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Root gets a cgroup here, and a plain user to whom one was delegated.
pub(crate) fn expected_level() -> Level {
    let delegated = std::env::var("HELVE_TEST_DELEGATED").is_ok();
    if rustix::process::getuid().is_root() || delegated { Level::L3 } else { Level::L2 }
}

/// Long enough for anything that ends, on a busy machine.
pub(crate) const LONG: Duration = Duration::from_secs(20);
