//! Which processes are alive: each holds a lock on a file of its own for its life.
//!
//! The operating system drops the lock when a process dies, however it dies. So a claim on an
//! idempotency key whose owner's lock can be taken was cut short.

use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use helve_core::json::hex;

/// This store's place among the living.
pub(crate) struct Owner {
    peers: Arc<Peers>,
    // Held for the lock on it.
    _lock: File,
}

/// Who else is alive.
pub(crate) struct Peers {
    folder: PathBuf,
    us: String,
}

/// Whether somebody else is alive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Liveness {
    Alive,
    Dead,
}

impl Owner {
    /// Where the locks for a database stand.
    pub(crate) fn folder(database: &Path) -> PathBuf {
        let mut path = database.as_os_str().to_owned();
        path.push(".owners");
        path.into()
    }

    /// Joins the living under a new id, and clears away the dead.
    pub(crate) fn register(database: &Path) -> io::Result<Self> {
        let folder = Self::folder(database);
        create_folder(&folder)?;
        let mut random = [0; 16];
        getrandom::fill(&mut random)?;
        let id = hex(&random);
        let path = folder.join(&id);
        let lock = loop {
            let file = create_file(&path)?;
            file.lock()?;
            // Somebody who swept between creation and lock took the file away: make another.
            if path.exists() {
                break file;
            }
        };
        let peers = Peers { folder, us: id };
        peers.sweep();
        Ok(Self { peers: Arc::new(peers), _lock: lock })
    }

    pub(crate) fn id(&self) -> &str {
        &self.peers.us
    }

    /// Whether the store with this id is alive.
    pub(crate) fn liveness(&self, id: &str) -> Liveness {
        self.peers.liveness(id)
    }

    /// Looks at the others without being kept among the living.
    pub(crate) fn peers(&self) -> &Arc<Peers> {
        &self.peers
    }
}

impl Peers {
    /// Our own id.
    pub(crate) fn us(&self) -> &str {
        &self.us
    }

    /// Whether the store with this id is alive.
    pub(crate) fn liveness(&self, id: &str) -> Liveness {
        if id == self.us { Liveness::Alive } else { liveness_of(&self.folder.join(id)) }
    }

    /// Removes the files of the dead. A missing file counts as dead, so this loses nothing.
    fn sweep(&self) {
        let Ok(files) = fs::read_dir(&self.folder) else { return };
        for file in files.flatten().filter(|file| file.file_name() != self.us.as_str()) {
            if liveness_of(&file.path()) == Liveness::Dead {
                let _ = fs::remove_file(file.path());
            }
        }
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        let _ = fs::remove_file(self.peers.folder.join(&self.peers.us));
    }
}

fn liveness_of(path: &Path) -> Liveness {
    // Shared, so that two who look at once do not take each other for the owner.
    match File::open(path).map(|file| file.try_lock_shared()) {
        Ok(Ok(())) => Liveness::Dead,
        Err(error) if error.kind() == io::ErrorKind::NotFound => Liveness::Dead,
        // Where it cannot be told, nothing is run a second time.
        Ok(Err(TryLockError::WouldBlock | TryLockError::Error(_))) | Err(_) => Liveness::Alive,
    }
}

/// Creates a folder and its parents for this user alone.
pub(crate) fn create_folder(path: &Path) -> io::Result<()> {
    let mut builder = DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(path)
}

fn create_file(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(false);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_owner_is_alive_until_it_is_dropped() {
        let folder = tempfile::tempdir().unwrap();
        let database = folder.path().join("j.db");
        let first = Owner::register(&database).unwrap();
        let second = Owner::register(&database).unwrap();
        assert_eq!(second.liveness(first.id()), Liveness::Alive);
        assert_eq!(first.liveness(first.id()), Liveness::Alive);
        let id = first.id().to_owned();
        drop(first);
        assert_eq!(second.liveness(&id), Liveness::Dead);
    }

    #[test]
    fn files_of_the_dead_are_swept() {
        let folder = tempfile::tempdir().unwrap();
        let database = folder.path().join("j.db");
        create_folder(&Owner::folder(&database)).unwrap();
        let dead = Owner::folder(&database).join("dead");
        fs::write(&dead, "").unwrap();
        let _owner = Owner::register(&database).unwrap();
        assert!(!dead.exists());
    }
}
