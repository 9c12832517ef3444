//! The `helve up` that runs: it leaves a note where it listens and how it is, and other commands read it.
//!
//! There is one note a journal, so that commands and server that share a journal find each other wherever they
//! were started.

use std::fs::{self, File, TryLockError};
use std::io::{self, Write};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use helve::json::sha256_hex;
use helve_sandbox::Way;
use serde::{Deserialize, Serialize};

use crate::Remark;
use crate::config::{Loaded, document, find};
use crate::error::HostError;

const NOTE_BYTES_MAX: usize = 256 << 10;
/// A process that only looks whether the lock is held lets go of it at once.
const LOCK_TRIES: u32 = 5;
const LOCK_PAUSE: Duration = Duration::from_millis(10);

/// What a `helve up` says of itself. Holds no secret, only where one lies.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Note {
    pub address: SocketAddr,
    pub token_file: PathBuf,
    /// Where it was started.
    pub work_dir: PathBuf,
    /// How far it follows the configuration.
    #[serde(default)]
    pub following: Following,
}

/// How far a running server follows the configuration.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Following {
    /// Why it goes on with what it had, if it does: each a line with its place.
    pub mistakes: Vec<String>,
    /// Keys that have changed and count after a restart.
    pub restart: Vec<String>,
}

impl Following {
    /// What users of that server should know.
    pub fn remarks(&self) -> Vec<Remark> {
        let mistakes = (!self.mistakes.is_empty()).then(|| Remark {
            found: format!(
                "the running `helve up` goes on with what it had, because of mistakes: {}",
                self.mistakes.join("; ")
            ),
            fix: "mend them, and it follows by itself".to_owned(),
        });
        let restart = (!self.restart.is_empty()).then(|| Remark {
            found: format!("the running `helve up` was started with another {}", self.restart.join(", ")),
            fix: "restart it, and the new one counts".to_owned(),
        });
        mistakes.into_iter().chain(restart).collect()
    }
}

/// The place of the `helve up` of a journal. Its process holds a lock, which the operating system
/// drops when the process dies, however it dies: a note counts only while the lock is held.
pub struct Place {
    file: PathBuf,
    /// Whether its note was taken away: a server that ends does not come back.
    is_left: AtomicBool,
    // Held for the lock on it.
    _lock: File,
}

impl Place {
    /// Takes the place. None: another living `helve up` has it. `state` is where Helve keeps its notes.
    pub fn take(state: &Path, journal: &Path) -> Result<Option<Self>, HostError> {
        let file = note_file(state, journal);
        let path = lock_file(&file);
        let taken = lock(&path)
            .map_err(|error| HostError::failed(format!("cannot lock {}", path.display())).because(&error))?;
        let Some(lock) = taken else { return Ok(None) };
        // One that a killed `helve up` has left would count from now on, and lead to the program that listens there.
        let _ = fs::remove_file(&file);
        Ok(Some(Self { file, is_left: AtomicBool::new(false), _lock: lock }))
    }

    /// Leaves a note for other commands, until it is withdrawn or the place is given up.
    pub fn announce(&self, note: &Note) -> Result<(), HostError> {
        if self.is_left.load(Ordering::SeqCst) {
            return Ok(());
        }
        write(&self.file, note).map_err(|error| {
            HostError::failed(format!("cannot write {}", self.file.display())).because(&error)
        })
    }

    /// Takes the note away, for good.
    pub fn withdraw(&self) {
        self.is_left.store(true, Ordering::SeqCst);
        // There may be none. One that cannot be taken away counts no longer than the lock is held.
        let _ = fs::remove_file(&self.file);
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.withdraw();
    }
}

/// The note of the `helve up` that lives and uses this journal.
pub fn note(journal: &Path) -> Option<Note> {
    note_at(&note_file(&find::mcp_state()?, journal))
}

/// The same, or that of a server which was started in the folder of this project and uses another journal:
/// it has to be restarted, and says so.
pub fn note_near(loaded: &Loaded) -> Option<Note> {
    let of_folder = || {
        let note = note(&find::user_journal()?)?;
        let found = find::project_file(&note.work_dir).ok()??.canonicalize().ok()?;
        (found == loaded.project_file.as_ref()?.canonicalize().ok()?).then_some(note)
    };
    note(&loaded.journal_path).or_else(of_folder)
}

fn note_at(file: &Path) -> Option<Note> {
    if !is_held(&lock_file(file)) {
        return None;
    }
    serde_json::from_str(&document::read_text(file, NOTE_BYTES_MAX).ok()?).ok()
}

fn note_file(state: &Path, journal: &Path) -> PathBuf {
    let real = Way::to(journal).end;
    let name = &sha256_hex(real.as_os_str().as_encoded_bytes())[..16];
    state.join("instances").join(format!("{name}.json"))
}

fn lock_file(note: &Path) -> PathBuf {
    note.with_extension("lock")
}

/// Takes a lock. None: another process has it. The file stays, since a waiting process might hold another
/// one of the same name.
fn lock(path: &Path) -> io::Result<Option<File>> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    let mut options = fs::OpenOptions::new();
    options.write(true).create(true).truncate(false);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let file = options.open(path)?;
    for _ in 0..LOCK_TRIES {
        match file.try_lock() {
            Ok(()) => return Ok(Some(file)),
            // Perhaps a process only looks, which is over at once.
            Err(TryLockError::WouldBlock) => std::thread::sleep(LOCK_PAUSE),
            Err(TryLockError::Error(error)) => return Err(error),
        }
    }
    Ok(None)
}

/// Whether a living process holds a lock. Where that cannot be told, nobody is told a token.
fn is_held(path: &Path) -> bool {
    // Shared, so that two who look at once do not take each other for the holder.
    File::open(path).is_ok_and(|file| matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock)))
}

fn write(file: &Path, note: &Note) -> io::Result<()> {
    if let Some(folder) = file.parent() {
        fs::create_dir_all(folder)?;
    }
    let new = file.with_extension(format!("{}.new", std::process::id()));
    let mut options = fs::OpenOptions::new();
    options.write(true).create(true).truncate(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(&new)?.write_all(&serde_json::to_vec(note)?)?;
    fs::rename(&new, file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_counts_while_its_place_is_held() {
        let folder = tempfile::tempdir().unwrap();
        let journal = folder.path().join("helve.db");
        let file = note_file(folder.path(), &journal);
        let address: SocketAddr = "127.0.0.1:7777".parse().unwrap();
        let note = Note {
            address,
            token_file: "token".into(),
            work_dir: folder.path().to_owned(),
            following: Following::default(),
        };
        let take = || Place::take(folder.path(), &journal).unwrap();
        let found = || note_at(&file).map(|note| note.address);
        // Left behind by one that was killed, with its lock.
        drop(take());
        write(&file, &note).unwrap();
        assert_eq!(found(), None, "nobody holds it");
        let first = take().unwrap();
        assert_eq!(found(), None, "what was left behind does not count again");
        first.announce(&note).unwrap();
        assert_eq!(found(), Some(address));
        assert!(take().is_none(), "it is taken");
        assert_eq!(found(), Some(address), "and stays so");
        first.withdraw();
        first.announce(&note).unwrap();
        assert!(!file.exists(), "one that ends does not announce itself again");
        drop(first);
        assert!(take().is_some());
    }
}
