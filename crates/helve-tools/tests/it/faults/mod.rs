//! Processes that are killed and disks that fail in the middle of runs, and what is left after.
//!
//! The invariant: whatever a run did to the world, it did once, or says that it does not know; and
//! every rollback that was due is done.
//!
//! - `service`: the world, a server on loopback that counts each request
//! - `scenario`: runs to be cut short, and what must be so in the end
//! - `child`: this test binary, started again as the process that dies or resumes what was left
//! - `driver`: kills at every boundary of the journal, one after the other
//! - `many`: many runs at once, killed by a seeded chance, also while they are resumed
//! - `disk`: writes that are refused, from full disks to single failures
//! - `clock`: a clock that jumps

mod child;
mod clock;
mod disk;
mod driver;
mod many;
mod scenario;
mod service;

use std::path::{Path, PathBuf};

use helve_store::{Audit, Store, StoreOptions};

/// A folder that goes away, for a journal whose process may be killed but whose machine stays up:
/// in memory where there is such a place, since waiting for the disk would prove nothing more.
struct Place(tempfile::TempDir);

impl Place {
    fn new() -> Self {
        let memory = Path::new("/dev/shm");
        let folder = if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() };
        Self(folder.unwrap())
    }

    fn database(&self) -> PathBuf {
        self.0.path().join("journal.db")
    }

    fn open(&self) -> Store {
        Store::open(&self.database(), StoreOptions::default()).unwrap()
    }

    /// How many entries there are. Fails if anything is wrong with them.
    fn verify(&self) -> i64 {
        if !self.database().exists() {
            return 0;
        }
        let verification = Audit::open(&self.database()).unwrap().verify(|_| {}).unwrap();
        assert_eq!(verification.first_problem, None);
        verification.entries
    }
}
