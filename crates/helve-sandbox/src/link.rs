//! Helve's end of the launcher.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::process::Stdio;
use std::sync::Mutex;

use tokio::process::{Child, Command};

use crate::launcher::entry;
use crate::wire::{self, Ask};

/// The launcher, started when it is first needed and again should it die.
#[derive(Debug, Default)]
pub(crate) struct Link(Mutex<Option<Launcher>>);

#[derive(Debug)]
struct Launcher {
    socket: OwnedFd,
    /// Reaped by tokio when this is dropped; it ends when the socket closes.
    _process: Child,
}

impl Link {
    /// Sends an order to the launcher.
    pub(crate) fn send(&self, ask: Ask, descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
        let mut launcher = self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if let Some(running) = &*launcher
            && wire::send(&running.socket, &ask, descriptors).is_ok()
        {
            return Ok(());
        }
        let running = launcher.insert(Launcher::start()?);
        wire::send(&running.socket, &ask, descriptors)
    }
}

impl Launcher {
    fn start() -> io::Result<Self> {
        // Named here so that the linker keeps it.
        let _ = std::hint::black_box(&entry::AT_START);
        let (ours, theirs) = wire::pair()?;
        // Not a fork: a process with much memory takes long to copy. The standard library spawns
        // where nothing but streams and environment is set.
        #[expect(clippy::disallowed_methods, reason = "the one place where processes start")]
        let process = Command::new("/proc/self/exe")
            .arg0("helve-launcher")
            .env_clear()
            .env(entry::VARIABLE, "serve")
            .current_dir("/")
            .stdin(Stdio::from(theirs))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        Ok(Self { socket: ours, _process: process })
    }
}

impl AsFd for Launcher {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
