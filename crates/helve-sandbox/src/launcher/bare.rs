//! A program without a box (level L1): where the host permits no namespaces, and the operator has said
//! that this will do. Landlock hides files, seccomp the network; other processes can be seen.

use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use rustix::process::{DumpableBehavior, Pid, WaitOptions, getpid, getuid, set_dumpable_behavior, waitpid};

use super::seccomp::Filters;
use super::supervise::Supervisor;
use super::sys::{self, Fork};
use super::{first, worker};
use crate::policy::WORK_DIR;
use crate::report::{Confinement, Guard, Level};
use crate::wire::{self, FromBox, Order};

/// Runs one program to its end. `why` there is no box.
pub(super) fn run_bare(order: Order, contents: fs::File, streams: [OwnedFd; 3], helve: &OwnedFd, why: &str) {
    match sys::fork() {
        Ok(Fork::Child) => {
            if let Err(error) = supervise(order, contents, streams, helve, why) {
                let _ = wire::send(helve, &FromBox::Refused(error.to_string()), &[]);
            }
            sys::exit(0);
        }
        Ok(Fork::Parent(pid)) => {
            drop(streams);
            let _ = waitpid(Some(pid), WaitOptions::empty());
            // It removes its folder itself, unless it was killed.
            drop(WorkDir(WorkDir::path_of(pid)));
            let _ =
                wire::send(helve, &FromBox::Closed { out_of_memory: false, memory_peak_bytes: None }, &[]);
        }
        Err(error) => drop(wire::send(helve, &FromBox::Refused(error.to_string()), &[])),
    }
}

fn supervise(
    mut order: Order,
    contents: fs::File,
    streams: [OwnedFd; 3],
    helve: &OwnedFd,
    why: &str,
) -> io::Result<()> {
    if !order.listen.is_empty() {
        return Err(io::Error::other("without namespaces no network and no other tools can be granted"));
    }
    // Landlock adds permissions up, and takes none away within a folder.
    if let Some(own) = &order.only_boxed {
        let own = own.display();
        return Err(io::Error::other(format!(
            "without namespaces `{own}` cannot be kept from it; grant folders that do not hold it"
        )));
    }
    let supervisor = Supervisor::new(helve)?;
    set_dumpable_behavior(DumpableBehavior::NotDumpable)?;
    let work = WorkDir::make()?;
    work.replace(&mut order);
    first::put_files(&work.0, &order.files, contents)?;
    let filters = Filters::new(false)?;
    let become_program = |streams, reporter| {
        worker::become_worker(&order, worker::Place::Bare(&work.0), &filters, streams, reporter);
    };
    let confirm = |report| {
        if !first::hear_worker(report)? {
            return Err(io::Error::other("this host has neither namespaces nor a Landlock that hides files"));
        }
        Ok((confinement(why), fs::File::open(&work.0)?.into()))
    };
    supervisor.run(streams, become_program, confirm, || work.remove())
}

/// What holds without namespaces.
fn confinement(why: &str) -> Confinement {
    let missing =
        [Guard::Processes, Guard::Memory, Guard::KernelMemory, Guard::Pids, Guard::Cpu, Guard::WorkBytes];
    Confinement::all_but(Level::L1, &missing.map(|guard| (guard, why)))
}

/// A folder of the host, for want of one in memory. Gone when this is dropped.
struct WorkDir(PathBuf);

impl WorkDir {
    fn path_of(supervisor: Pid) -> PathBuf {
        std::env::temp_dir().join(format!("helve-box-{}", supervisor.as_raw_pid()))
    }

    fn make() -> io::Result<Self> {
        let path = Self::path_of(getpid());
        fs::DirBuilder::new().mode(0o700).create(&path)?;
        Ok(Self(path))
    }

    /// The work directory has another name here.
    fn replace(&self, order: &mut Order) {
        let own = self.0.to_string_lossy();
        if order.work_dir == Path::new(WORK_DIR) {
            order.work_dir.clone_from(&self.0);
        }
        for text in order.args.iter_mut().chain(order.env.iter_mut().map(|(_, value)| value)) {
            if text == WORK_DIR || text.starts_with(&format!("{WORK_DIR}/")) {
                *text = text.replacen(WORK_DIR, &own, 1);
            }
        }
        order.env.push(("TMPDIR".to_owned(), own.into_owned()));
    }
}

impl WorkDir {
    fn remove(&self) {
        // Another user's folder of the same name is not ours to remove.
        let is_ours = |metadata: fs::Metadata| metadata.is_dir() && metadata.uid() == getuid().as_raw();
        if fs::symlink_metadata(&self.0).is_ok_and(is_ours) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }
}

impl Drop for WorkDir {
    fn drop(&mut self) {
        self.remove();
    }
}
