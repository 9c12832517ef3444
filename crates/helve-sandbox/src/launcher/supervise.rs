//! A supervisor: stands in for process 1 of a box where there is none (`bare`, `unconfined`).
//!
//! It dies by no signal of the one above it, because nobody would end what it watches. What it goes
//! by is its talk with Helve: the other end closes however Helve ends.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Instant;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::process::{
    Pid, Signal, WaitStatus, getpid, set_child_subreaper, set_parent_process_death_signal, setsid,
};

use super::sys::{self, Fork};
use super::{first, tree};
use crate::report::{Confinement, Usage};
use crate::wire::{self, FromBox, ToBox};

/// A process that whatever is below it comes to when it loses its parent.
pub(super) struct Supervisor<'h> {
    helve: &'h OwnedFd,
    /// Can be read when a child has ended.
    children: OwnedFd,
    began: Instant,
}

impl<'h> Supervisor<'h> {
    /// Makes this process one.
    pub(super) fn new(helve: &'h OwnedFd) -> io::Result<Self> {
        let began = Instant::now();
        let _ = rustix::thread::set_name(c"helve-keeper");
        // Ctrl-C is for Helve, and so is a signal to its whole group.
        setsid()?;
        let children = sys::hold_signals()?;
        set_child_subreaper(Some(getpid()))?;
        Ok(Self { helve, children, began })
    }

    /// Starts a program, which is `worker`'s to become, and stays until it and all that it started have
    /// ended. `confirm` is given what the worker says, and says what Helve is told, with a descriptor
    /// of the folder it works in. `clear_up` is done before Helve learns of the end.
    pub(super) fn run(
        &self,
        streams: [OwnedFd; 3],
        worker: impl FnOnce([OwnedFd; 3], OwnedFd),
        confirm: impl FnOnce(OwnedFd) -> io::Result<(Confinement, OwnedFd)>,
        clear_up: impl FnOnce(),
    ) -> io::Result<()> {
        wire::send(self.helve, &FromBox::Started, &[])?;
        let (report, reporter) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
        let program = match sys::fork()? {
            Fork::Child => {
                // If the supervisor is killed, the program at least goes with it.
                let _ = set_parent_process_death_signal(Some(Signal::KILL));
                worker(streams, reporter);
                sys::exit(127);
            }
            Fork::Parent(pid) => pid,
        };
        drop((streams, reporter));
        let attended = confirm(report).and_then(|(confinement, folder)| {
            wire::send(self.helve, &FromBox::Running(confinement), &[folder.as_fd()])?;
            drop(folder);
            self.attend(program)
        });
        // Also where something went wrong.
        let status = tree::end_all(program, *attended.as_ref().unwrap_or(&None));
        clear_up();
        attended?;
        let (cpu_ms, memory_peak_bytes) = sys::children_usage();
        let wall_ms = u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX);
        let usage = Usage { cpu_ms, memory_peak_bytes, wall_ms };
        wire::send(self.helve, &FromBox::Ended { end: first::by_itself(status), usage }, &[])
    }

    /// Waits for the program's end, or for Helve to say so.
    fn attend(&self, program: Pid) -> io::Result<Option<WaitStatus>> {
        loop {
            let status = first::reap(program);
            if status.is_some() {
                return Ok(status);
            }
            let mut polled =
                [self.helve, &self.children].map(|descriptor| PollFd::new(descriptor, PollFlags::IN));
            match poll(&mut polled, None) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
            let [told, ended] = polled.map(|one| !one.revents().is_empty());
            if ended {
                sys::forget_signals(&self.children);
            }
            if told && self.obey()? {
                return Ok(None);
            }
        }
    }

    /// Does what Helve says. Whether all is to end.
    fn obey(&self) -> io::Result<bool> {
        match wire::receive::<ToBox>(self.helve)? {
            Some((ToBox::Terminate, _)) => {
                tree::signal_all(Signal::TERM);
                Ok(false)
            }
            Some((ToBox::Put(_), _)) => {
                let reason = "without namespaces there is no work directory to put files into";
                wire::send(self.helve, &FromBox::Put(Err(reason.to_owned())), &[])?;
                Ok(false)
            }
            Some((ToBox::Kill, _)) | None => Ok(true),
        }
    }
}
