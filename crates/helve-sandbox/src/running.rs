//! A program in its box.

use std::io;
use std::net::TcpListener;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::process::{Signal, pidfd_send_signal};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::net::unix::pipe;
use tokio::task::AbortHandle;

use crate::policy::FileIn;
use crate::report::{Confinement, End, Usage};
use crate::wire::{self, FileHead, FromBox, ToBox};

/// How long process 1 of a box may take to end everything before it is ended itself.
const KILL_GRACE: Duration = Duration::from_millis(500);

/// A program, in its box or unconfined. Dropped, it takes everything that it started with
/// it.
#[derive(Debug)]
pub struct RunningBox {
    /// What the program reads; close it by taking and dropping it.
    pub stdin: Option<pipe::Sender>,
    /// What the program writes.
    pub stdout: Option<pipe::Receiver>,
    /// What the program writes besides it.
    pub stderr: Option<pipe::Receiver>,
    /// Where the program can reach who started it, one for each port of [`Job::listen`](crate::Job).
    pub listeners: Vec<TcpListener>,
    pub(crate) talk: Talk,
    /// Process 1 of the box, to be killed at once. Without one there is a supervisor, which must live to
    /// end the others, and does when the talk closes.
    pub(crate) handle: Option<OwnedFd>,
    pub(crate) work_dir: OwnedFd,
    pub(crate) confinement: Confinement,
    pub(crate) proxy: Option<AbortHandle>,
    pub(crate) ended: Option<Ended>,
}

/// How a program ended, and what it used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ended {
    /// In a word.
    pub end: End,
    /// What it used.
    pub usage: Usage,
}

impl RunningBox {
    /// How it is confined.
    pub fn confinement(&self) -> &Confinement {
        &self.confinement
    }

    /// Its work directory, from outside. It can be read as long as this descriptor is held, also when
    /// the program has ended.
    pub fn work_dir(&self) -> BorrowedFd<'_> {
        self.work_dir.as_fd()
    }

    /// Puts files into the work directory while the program runs.
    pub async fn put(&mut self, files: &[FileIn]) -> io::Result<()> {
        let sheet = wire::sheet(&(), files.iter().map(|file| file.content.as_slice()))?;
        self.talk.tell(&ToBox::Put(heads(files)), &[sheet.as_fd()])?;
        loop {
            match self.talk.hear().await? {
                Some((FromBox::Put(put), _)) => return put.map_err(io::Error::other),
                Some((message, _)) => self.note(&message),
                None => return Err(io::Error::other("the program has ended")),
            }
        }
    }

    /// Asks every process in the box to end.
    pub fn terminate(&self) {
        // It fails only when nobody is left to hear it.
        let _ = self.talk.tell(&ToBox::Terminate, &[]);
    }

    /// Ends every process in the box.
    pub fn kill(&self) {
        if self.talk.tell(&ToBox::Kill, &[]).is_err() {
            self.kill_at_once();
        }
    }

    fn kill_at_once(&self) {
        if let Some(handle) = &self.handle {
            let _ = pidfd_send_signal(handle, Signal::KILL);
        }
    }

    /// Waits until the program and everything it started have ended. Left and called again, it goes on.
    pub async fn wait(&mut self) -> Ended {
        loop {
            match self.ended {
                // Whether memory ran out is known when the box is gone.
                Some(ended) if !may_be_memory(ended.end) => return ended,
                Some(_) | None => {}
            }
            match self.talk.hear().await {
                Ok(Some((message, _))) => {
                    self.note(&message);
                    if let (FromBox::Closed { .. }, Some(ended)) = (&message, self.ended) {
                        return ended;
                    }
                }
                Ok(None) | Err(_) => return self.ended.unwrap_or(KILLED),
            }
        }
    }

    /// Ends everything and waits for it.
    pub async fn finish(&mut self) -> Ended {
        self.kill();
        if let Ok(ended) = tokio::time::timeout(KILL_GRACE, self.wait()).await {
            return ended;
        }
        // So busy that its process 1 got no time.
        self.kill_at_once();
        self.wait().await
    }

    fn note(&mut self, message: &FromBox) {
        match message {
            FromBox::Ended { end, usage } => self.ended = Some(Ended { end: *end, usage: *usage }),
            FromBox::Closed { out_of_memory, memory_peak_bytes } => {
                let ended = self.ended.get_or_insert(KILLED);
                if *out_of_memory && may_be_memory(ended.end) {
                    ended.end = End::MemoryLimit;
                }
                if let Some(peak) = memory_peak_bytes {
                    ended.usage.memory_peak_bytes = *peak;
                }
            }
            FromBox::Started | FromBox::Running(_) | FromBox::Refused(_) | FromBox::Put(_) => {}
        }
    }
}

impl Drop for RunningBox {
    fn drop(&mut self) {
        self.kill_at_once();
        if let Some(proxy) = &self.proxy {
            proxy.abort();
        }
    }
}

const KILLED: Ended =
    Ended { end: End::Signaled { signal: 9 }, usage: Usage { cpu_ms: 0, memory_peak_bytes: 0, wall_ms: 0 } };

/// Whether an end may have been one for want of memory: the kernel kills, and a shell passes it on.
fn may_be_memory(end: End) -> bool {
    match end {
        End::Exited { code } => code != 0,
        End::Signaled { .. } => true,
        End::MemoryLimit | End::CpuLimit | End::Timeout | End::OutputLimit | End::Cancelled => false,
    }
}

/// The heads of files, whose contents come after them.
pub(crate) fn heads(files: &[FileIn]) -> Vec<FileHead> {
    files
        .iter()
        .map(|file| FileHead {
            path: file.path.clone(),
            bytes: file.content.len() as u64,
            executable: file.executable,
        })
        .collect()
}

/// Helve's end of the talk with a box.
#[derive(Debug)]
pub(crate) struct Talk(AsyncFd<OwnedFd>);

impl Talk {
    pub(crate) fn new(socket: OwnedFd) -> io::Result<Self> {
        rustix::io::ioctl_fionbio(&socket, true)?;
        #[expect(unsafe_code, reason = "tokio cannot know that a descriptor stays the same")]
        // SAFETY: an owned descriptor is the same, and open, until it is dropped.
        let socket = unsafe { AsyncFd::register_with_interest(socket, Interest::READABLE)? };
        Ok(Self(socket))
    }

    fn tell(&self, message: &ToBox, descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
        wire::send(self.0.get_ref(), message, descriptors)
    }

    /// The next message; `None` when the box is gone.
    pub(crate) async fn hear(&self) -> io::Result<Option<(FromBox, Vec<OwnedFd>)>> {
        self.0.async_io(Interest::READABLE, |socket| wire::receive(socket)).await
    }
}
