//! The launcher: hands each order to a keeper, and has one more ready.

use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitOptions, getpid, getppid, pidfd_open, set_parent_process_death_signal,
    waitpid,
};

use super::sys::{self, Fork};
use super::{cgroup, keeper, unconfined};
use crate::wire::{self, Ask, FromBox};

/// Keepers that nobody needed for so long are let go.
const IDLE_MAX: Duration = Duration::from_secs(60);

struct Keeper {
    pid: Pid,
    slot: u32,
    link: OwnedFd,
    idle: bool,
}

/// Who watches a program that is not confined. It ends by itself when the program does or Helve's end of
/// their talk closes: were it killed, nobody would end what it watches.
struct Supervisor {
    pid: Pid,
    handle: OwnedFd,
}

impl Supervisor {
    /// Reaps it if it has.
    fn has_ended(&self) -> bool {
        !matches!(waitpid(Some(self.pid), WaitOptions::NOHANG), Ok(None))
    }
}

/// Serves until Helve's end of the link closes, which it does however Helve ends.
pub(super) fn serve(link: &OwnedFd) {
    let mut keepers: Vec<Keeper> = Vec::new();
    let mut supervisors: Vec<Supervisor> = Vec::new();
    let _ = rustix::thread::set_name(c"helve-launcher");
    cgroup::sweep(None);
    loop {
        // Before an order comes: a fork afterwards would take its descriptors along.
        if !keepers.iter().any(|keeper| keeper.idle) {
            start(link, &mut keepers, &mut supervisors);
        }
        let (from_helve, from_keepers) = wait(link, &keepers, &supervisors);
        if from_helve {
            match wire::receive::<Ask>(link) {
                Ok(Some((Ask::Box, descriptors))) => hand_over(&mut keepers, &descriptors),
                Ok(Some((Ask::Unconfined, descriptors))) => {
                    supervise(link, &mut keepers, &mut supervisors, descriptors);
                }
                Ok(None) | Err(_) => break,
            }
        }
        supervisors.retain(|supervisor| !supervisor.has_ended());
        for slot in from_keepers {
            hear(&mut keepers, slot);
        }
    }
    // Boxes die with their keepers; their cgroups can go when they have.
    keepers.into_iter().for_each(dismiss);
    cgroup::leave(getpid());
}

/// Waits for something to do. Nothing for long: keepers that idle are let go, but for one.
fn wait(link: &OwnedFd, keepers: &[Keeper], supervisors: &[Supervisor]) -> (bool, Vec<u32>) {
    let links = std::iter::once(link).chain(keepers.iter().map(|keeper| &keeper.link));
    let links = links.chain(supervisors.iter().map(|supervisor| &supervisor.handle));
    let mut polled: Vec<_> = links.map(|link| PollFd::new(link, PollFlags::IN)).collect();
    let timeout = Timespec { tv_sec: IDLE_MAX.as_secs() as i64, tv_nsec: 0 };
    let idle =
        |keepers: &[Keeper]| keepers.iter().filter(|one| one.idle).skip(1).map(|one| one.slot).collect();
    match poll(&mut polled, Some(&timeout)) {
        Ok(0) => (false, idle(keepers)),
        Ok(_) => {
            let ready: Vec<bool> = polled.iter().map(|one| !one.revents().is_empty()).collect();
            let slots = keepers.iter().zip(&ready[1..]).filter(|(_, ready)| **ready);
            (ready[0], slots.map(|(keeper, _)| keeper.slot).collect())
        }
        Err(_) => (false, Vec::new()),
    }
}

/// Gives an order to a keeper that waits for one.
fn hand_over(keepers: &mut [Keeper], descriptors: &[OwnedFd]) {
    let borrowed: Vec<_> = descriptors.iter().map(AsFd::as_fd).collect();
    if let Some(keeper) = keepers.iter_mut().find(|keeper| keeper.idle) {
        keeper.idle = false;
        // A keeper that died gets no order; Helve sees the box's link close.
        let _ = wire::send(&keeper.link, &(), &borrowed);
    }
}

/// A keeper says that it waits again, has died, or has waited long enough.
fn hear(keepers: &mut Vec<Keeper>, slot: u32) {
    let Some(at) = keepers.iter().position(|keeper| keeper.slot == slot) else { return };
    if !keepers[at].idle && matches!(wire::receive::<()>(&keepers[at].link), Ok(Some(_))) {
        keepers[at].idle = true;
        return;
    }
    dismiss(keepers.swap_remove(at));
}

/// Closes the link, on which the keeper ends, and with it its box.
fn dismiss(keeper: Keeper) {
    let Keeper { pid, slot, link, .. } = keeper;
    drop(link);
    let _ = rustix::process::kill_process(pid, Signal::KILL);
    let _ = waitpid(Some(pid), WaitOptions::empty());
    cgroup::remove(getpid(), slot);
}

/// Has a program watched that needs no box and no cgroup.
fn supervise(
    link: &OwnedFd,
    keepers: &mut Vec<Keeper>,
    supervisors: &mut Vec<Supervisor>,
    descriptors: Vec<OwnedFd>,
) {
    match sys::fork() {
        Ok(Fork::Parent(pid)) => {
            // Until it is reaped its id is its own, so this fails only for want of descriptors. Then it
            // is reaped with the launcher.
            if let Ok(handle) = pidfd_open(pid, PidfdFlags::empty()) {
                supervisors.push(Supervisor { pid, handle });
            }
        }
        Ok(Fork::Child) => {
            sys::close(link.as_raw_fd());
            keepers.clear();
            supervisors.clear();
            unconfined::run_unconfined(descriptors);
            sys::exit(0);
        }
        Err(error) => {
            if let Some(helve) = descriptors.last() {
                let _ = wire::send(helve, &FromBox::Refused(error.to_string()), &[]);
            }
        }
    }
}

fn start(link: &OwnedFd, keepers: &mut Vec<Keeper>, supervisors: &mut Vec<Supervisor>) {
    let slot = (0..).find(|slot| keepers.iter().all(|keeper| keeper.slot != *slot)).unwrap_or(0);
    let Ok((ours, theirs)) = wire::pair() else { return };
    let launcher = getpid();
    match sys::fork() {
        Ok(Fork::Parent(pid)) => keepers.push(Keeper { pid, slot, link: ours, idle: true }),
        Ok(Fork::Child) => {
            drop(ours);
            // The copy of the launcher's own end would hide its death from Helve.
            sys::close(link.as_raw_fd());
            let _ = set_parent_process_death_signal(Some(Signal::KILL));
            if getppid() == Some(launcher) {
                keepers.clear();
                supervisors.clear();
                keeper::keep(&theirs, launcher, slot);
            }
            sys::exit(0);
        }
        Err(_) => {}
    }
}
