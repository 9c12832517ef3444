//! Which processes are alive: each holds a lock on its own file for its life.
//!
//! The operating system drops the lock when a process dies, however it dies. So a claim on an
//! idempotency key whose owner's lock can be taken was cut short.

use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use helve_core::json::hex;

/// This store's place among the living.
pub(crate) struct Owner {
    peers: Arc<Peers>,
    // Held for the lock on it.
    lock: Mutex<File>,
}

/// Who else is alive.
pub(crate) struct Peers {
    folder: PathBuf,
    us: String,
}

/// Whether another process is alive.
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
        let lock = join(&folder, &id)?;
        let peers = Peers { folder, us: id };
        peers.sweep();
        Ok(Self { peers: Arc::new(peers), lock: Mutex::new(lock) })
    }

    /// Joins again where something, a cleaner of old files say, has removed our file: without it others take
    /// us for dead, and our runs for theirs.
    pub(crate) fn stand(&self) -> io::Result<()> {
        let mut lock = self.lock.lock().unwrap_or_else(PoisonError::into_inner);
        if self.peers.stands(&lock) {
            return Ok(());
        }
        tracing::warn!(folder = %self.peers.folder.display(), "the file that shows that we live was removed");
        create_folder(&self.peers.folder)?;
        *lock = join(&self.peers.folder, &self.peers.us)?;
        Ok(())
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
    /// Those who have a database open, for one who only looks.
    pub(crate) fn of(database: &Path) -> Self {
        Self { folder: Owner::folder(database), us: String::new() }
    }

    /// Our own id.
    pub(crate) fn us(&self) -> &str {
        &self.us
    }

    /// Whether the store with this id is alive.
    pub(crate) fn liveness(&self, id: &str) -> Liveness {
        if id == self.us {
            return Liveness::Alive;
        }
        let path = self.folder.join(id);
        // Where our own file is gone, theirs proves nothing by being gone too.
        if !self.folder.join(&self.us).exists() && !path.exists() {
            return Liveness::Alive;
        }
        liveness_of(&path)
    }

    /// Whether the file under our name is the one that we hold.
    #[cfg(unix)]
    fn stands(&self, held: &File) -> bool {
        use std::os::unix::fs::MetadataExt as _;
        let held = held.metadata().map(|held| (held.dev(), held.ino())).ok();
        held.is_some() && held == crate::schema::identity(&self.folder.join(&self.us))
    }

    /// Whether there is a file under our name. Only Unix can remove an open file.
    #[cfg(not(unix))]
    fn stands(&self, _held: &File) -> bool {
        self.folder.join(&self.us).exists()
    }

    /// Removes the files of the dead. A missing file counts as dead, so this loses nothing; and nobody who
    /// is found dead comes to life before their file is removed, since one that has an owner's name was
    /// locked before it got it.
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

/// A locked file under this id.
///
/// INVARIANT: no file has an owner's name before it is locked, so that nobody is taken for dead who is only
/// about to join.
fn join(folder: &Path, id: &str) -> io::Result<File> {
    let (unlocked, path) = (folder.join(format!("{id}.new")), folder.join(id));
    loop {
        let mut file = create_file(&unlocked)?;
        match file.try_lock() {
            Ok(()) => {}
            // A process looks whether its owner lives, and may have been suspended over it: make another.
            Err(TryLockError::WouldBlock) => {
                let _ = fs::remove_file(&unlocked);
                continue;
            }
            Err(TryLockError::Error(error)) => return Err(error),
        }
        // So that others can say who is in their way.
        file.write_all(format!("{}\n", std::process::id()).as_bytes())?;
        match fs::rename(&unlocked, &path) {
            Ok(()) => return Ok(file),
            // A process that swept before it was locked took it away: make another.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
}

/// Whether anybody has a database open.
pub(crate) fn any_alive(database: &Path) -> io::Result<bool> {
    let files = match fs::read_dir(Owner::folder(database)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        files => files?,
    };
    for file in files {
        if liveness_of(&file?.path()) == Liveness::Alive {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Whether a process of a version that knows only earlier formats has a database open. Those lock a file and leave it
/// empty; ours has its process's id in it before it gets its name.
pub(crate) fn any_older_alive(database: &Path) -> io::Result<bool> {
    let files = match fs::read_dir(Owner::folder(database)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        files => files?,
    };
    for file in files {
        let path = file?.path();
        let is_empty = path.extension().is_none() && path.metadata().is_ok_and(|found| found.len() == 0);
        if is_empty && liveness_of(&path) == Liveness::Alive {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The ids of the processes that have this database open, other than ours.
pub(crate) fn living_pids(database: &Path) -> Vec<u32> {
    let Ok(files) = fs::read_dir(Owner::folder(database)) else { return Vec::new() };
    let living = files.flatten().filter(|file| liveness_of(&file.path()) == Liveness::Alive);
    let pids = living.filter_map(|file| fs::read_to_string(file.path()).ok()?.trim().parse().ok());
    pids.filter(|pid| *pid != std::process::id()).collect()
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
    fn whoever_lives_stands_again_after_a_cleaner() {
        let folder = tempfile::tempdir().unwrap();
        let database = folder.path().join("j.db");
        let first = Owner::register(&database).unwrap();
        let second = Owner::register(&database).unwrap();
        for _ in 0..2 {
            fs::remove_dir_all(Owner::folder(&database)).unwrap();
            assert_eq!(second.liveness(first.id()), Liveness::Alive, "nobody can tell");
            first.stand().unwrap();
            second.stand().unwrap();
            assert_eq!(second.liveness(first.id()), Liveness::Alive);
        }
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

    #[test]
    fn nobody_is_taken_for_dead_while_they_join() {
        let folder = tempfile::tempdir().unwrap();
        let database = folder.path().join("j.db");
        let owners = Owner::folder(&database);
        create_folder(&owners).unwrap();
        let is_done = std::sync::atomic::AtomicBool::new(false);
        let alive = std::thread::scope(|scope| {
            scope.spawn(|| {
                while !is_done.load(std::sync::atomic::Ordering::Relaxed) {
                    let files = fs::read_dir(&owners).unwrap().flatten().map(|file| file.path());
                    for path in files.filter(|path| path.extension().is_none()) {
                        assert_eq!(liveness_of(&path), Liveness::Alive, "{path:?}");
                    }
                }
            });
            // They sweep as well.
            let join = || (0..50).map(|_| Owner::register(&database).unwrap()).collect::<Vec<_>>();
            let joining: Vec<_> = (0..4).map(|_| scope.spawn(join)).collect();
            let alive: Vec<_> = joining.into_iter().flat_map(|one| one.join().unwrap()).collect();
            is_done.store(true, std::sync::atomic::Ordering::Relaxed);
            alive
        });
        assert!(alive.iter().all(|owner| owners.join(owner.id()).exists()));
        assert_eq!(fs::read_dir(&owners).unwrap().count(), alive.len(), "nothing else is left");
    }
}
