//! What this host can enforce, found out by trying.

use std::collections::BTreeSet;
use std::io;
use std::net::TcpListener;
use std::time::Duration;

use serde::Serialize;
use tokio_util::sync::CancellationToken;

use crate::SandboxError;
use crate::launcher::entry::VARIABLE;
use crate::launcher::probe::{ATTEMPT, GRANTED, PORT, SECRET};
use crate::policy::Job;
use crate::report::{Confinement, End, Guard};
use crate::run::Finished;
use crate::sandbox::Sandbox;

/// What a host can enforce.
#[derive(Debug, Clone, Serialize)]
pub struct Probed {
    /// What a box says of itself.
    pub confinement: Confinement,
    /// What held when it was tried.
    pub held: BTreeSet<Guard>,
}

impl Probed {
    /// What a box says that it enforces, and did not hold.
    pub fn broken(&self) -> Vec<Guard> {
        self.confinement.enforced.iter().filter(|guard| !self.held.contains(guard)).copied().collect()
    }
}

impl Sandbox {
    /// Tries everything that a box is to enforce, from within boxes.
    pub async fn probe(&self) -> Result<Probed, SandboxError> {
        // Boxed: the state of six programs at once is large.
        Box::pin(self.try_everything()).await
    }

    async fn try_everything(&self) -> Result<Probed, SandboxError> {
        let refuse = |error: io::Error| SandboxError { command: "helve".into(), reason: error.to_string() };
        let folder = Folder::make().map_err(refuse)?;
        let listener = TcpListener::bind("127.0.0.1:0").map_err(refuse)?;
        let port = listener.local_addr().map_err(refuse)?.port();
        let secret = folder.0.join("secret");
        std::fs::write(&secret, "x").map_err(refuse)?;
        let granted = folder.0.join("granted");
        std::fs::create_dir(&granted).map_err(refuse)?;

        let look = self.attempt("look", |job| {
            job.policy.limits.pids = 16;
            job.policy.limits.work_bytes = 4 << 20;
            job.env.push((SECRET.to_owned(), secret.display().to_string()));
            job.env.push((PORT.to_owned(), port.to_string()));
        });
        let memory = self.attempt("memory", |job| job.policy.limits.memory_bytes = 64 << 20);
        let cpu = self.attempt("cpu", |job| job.policy.limits.cpu_s = 1);
        let wall = self.attempt("wall", |job| job.policy.limits.wall_ms = 200);
        let output = self.attempt("output", |job| job.policy.limits.output_bytes = 1 << 16);
        let children = self.attempt("children", |job| {
            job.policy.write = vec![granted.clone()];
            job.env.push((GRANTED.to_owned(), granted.display().to_string()));
        });
        let (look, memory, cpu, wall, output, children) =
            tokio::try_join!(look, memory, cpu, wall, output, children)?;
        // Longer than a child that lives on would wait.
        tokio::time::sleep(Duration::from_millis(500)).await;

        let mut held: BTreeSet<Guard> = said(&look);
        let mut judge = |guard, holds: bool| {
            if holds {
                held.insert(guard);
            }
        };
        judge(Guard::Memory, memory.end == End::MemoryLimit);
        judge(Guard::KernelMemory, look.confinement.enforced.contains(&Guard::KernelMemory));
        judge(Guard::Cpu, cpu.end == End::CpuLimit);
        judge(Guard::Wall, wall.end == End::Timeout);
        judge(Guard::OutputBytes, output.end == End::OutputLimit);
        judge(Guard::Children, children.end == End::Exited { code: 0 } && !granted.join("lives").exists());
        Ok(Probed { confinement: look.confinement, held })
    }

    async fn attempt(&self, name: &str, set: impl FnOnce(&mut Job)) -> Result<Finished, SandboxError> {
        let own = std::env::current_exe()
            .map_err(|error| SandboxError { command: "helve".into(), reason: error.to_string() })?;
        let mut job = Job::new(own).env(VARIABLE, "probe").env(ATTEMPT, name);
        job.policy.min_level = self.options.min_level;
        set(&mut job);
        self.run(job, Vec::new(), CancellationToken::new()).await
    }
}

fn said(finished: &Finished) -> BTreeSet<Guard> {
    let text = String::from_utf8_lossy(&finished.stdout);
    Guard::ALL.into_iter().filter(|guard| text.lines().any(|line| line == guard.as_str())).collect()
}

/// A folder of the host for the time of the probe.
struct Folder(std::path::PathBuf);

impl Folder {
    fn make() -> io::Result<Self> {
        let path = std::env::temp_dir().join(format!("helve-probe-{}", std::process::id()));
        std::fs::DirBuilder::new().create(&path)?;
        Ok(Self(path))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
