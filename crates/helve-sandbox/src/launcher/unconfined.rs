//! A program that is not confined (level L0), because the operator has said so: its environment and its
//! session are its own, and all that it started ends with it.

use std::fs;
use std::io;
use std::os::fd::OwnedFd;

use rustix::fs::{Mode, OFlags, open};

use super::supervise::Supervisor;
use super::{first, worker};
use crate::report::Confinement;
use crate::wire::{self, FromBox, Order};

/// The whole life of its supervisor. The descriptors are the order, three streams, and the talk with
/// Helve.
pub(super) fn run_unconfined(descriptors: Vec<OwnedFd>) {
    let Ok([order, stdin, stdout, stderr, helve]) = <[OwnedFd; 5]>::try_from(descriptors) else { return };
    if let Err(error) = supervise(order, [stdin, stdout, stderr], &helve) {
        let _ = wire::send(&helve, &FromBox::Refused(error.to_string()), &[]);
    }
}

fn supervise(order: OwnedFd, streams: [OwnedFd; 3], helve: &OwnedFd) -> io::Result<()> {
    let supervisor = Supervisor::new(helve)?;
    let (order, contents): (Order, fs::File) = wire::read_sheet(order)?;
    drop(contents);
    let become_program = |streams, reporter| worker::run_unconfined(&order, &streams, reporter);
    let confirm = |report| {
        first::hear_worker(report)?;
        // Not every folder that may be entered may be read.
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok((Confinement::unconfined(), open(&order.work_dir, flags, Mode::empty())?))
    };
    supervisor.run(streams, become_program, confirm, || ())
}
