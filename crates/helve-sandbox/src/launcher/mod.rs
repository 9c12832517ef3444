//! What runs outside Helve's own process: the launcher, and what it becomes.
//!
//! | process | file | does |
//! |---|---|---|
//! | launcher | `serve` | one a Helve; hands orders to keepers |
//! | keeper | `keeper` | one a box at a time; holds a cgroup, prepares a box ahead, waits for its end |
//! | first | `first` | process 1 of a box: builds it (`mounts`), watches it (`watch`), reaps and reports |
//! | supervisor | `supervise` | in place of process 1 where there is no box (`bare`, `unconfined`); ends all below it (`tree`) |
//! | worker | `worker` | locks itself (`lock`, `seccomp`) and becomes the program |
//!
//! Each dies with the one above it, a supervisor with Helve, so that nothing outlives Helve, however it ends.

mod serve;

mod keeper;

mod first;

mod worker;

mod bare;
mod supervise;
mod tree;
mod unconfined;

mod cgroup;
mod mounts;
mod watch;

mod lock;
mod seccomp;

pub(crate) mod entry;
pub(crate) mod probe;
mod sys;
