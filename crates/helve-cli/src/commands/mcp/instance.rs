//! The `helve up` that runs: it leaves a note where it listens, and other commands ask it.

use std::fs::{self, File, TryLockError};
use std::io::{self, Write};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use helve_mcp::config::ServerConfig;
use helve_mcp::trust::Scope;
use helve_net::header::AUTHORIZATION;
use helve_net::{HeaderValue, Method, NetPolicy, Request};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::config::{Loaded, document, find};
use crate::failure::Failure;
use crate::wire;
use crate::wire::mcp;

/// How long it may take to answer; to restart a server takes longer than to say how it is.
const ANSWER_MAX: Duration = Duration::from_secs(60);
const NOTE_BYTES_MAX: usize = 64 << 10;
/// Whoever only looks whether the lock is held lets go of it at once.
const LOCK_TRIES: u32 = 5;
const LOCK_PAUSE: Duration = Duration::from_millis(10);

/// Where a `helve up` can be reached. Holds no secret, only where one lies.
#[derive(Debug, Serialize, Deserialize)]
struct Note {
    address: SocketAddr,
    token_file: PathBuf,
}

/// The place of the `helve up` of a configuration. Whoever has it holds a lock, which the operating system
/// drops when the process dies, however it dies: a note counts only while somebody does.
pub(crate) struct Place {
    note: PathBuf,
    // Held for the lock on it.
    _lock: File,
}

impl Place {
    /// Takes the place. None: another living `helve up` has it.
    pub(crate) fn take(loaded: &Loaded) -> Result<Option<Self>, Failure> {
        Self::take_at(note_file(&mcp::state_folder()?, loaded))
    }

    fn take_at(note: PathBuf) -> Result<Option<Self>, Failure> {
        let path = lock_file(&note);
        let taken = lock(&path)
            .map_err(|error| Failure::failed(format!("cannot lock {}", path.display())).because(&error))?;
        let Some(lock) = taken else { return Ok(None) };
        let place = Self { note, _lock: lock };
        // One that a killed `helve up` has left would count from now on, and lead to whoever listens there.
        place.withdraw();
        Ok(Some(place))
    }

    /// Leaves a note for commands in the same project, until it is withdrawn or the place is given up.
    pub(crate) fn announce(&self, address: SocketAddr, token_file: &Path) -> Result<(), Failure> {
        let token_file = token_file.canonicalize().unwrap_or_else(|_| token_file.to_owned());
        write(&self.note, &Note { address, token_file })
            .map_err(|error| Failure::failed(format!("cannot write {}", self.note.display())).because(&error))
    }

    /// Takes the note away.
    pub(crate) fn withdraw(&self) {
        // There may be none. One that cannot be taken away counts no longer than the lock is held.
        let _ = fs::remove_file(&self.note);
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.withdraw();
    }
}

/// Where the `helve up` of this configuration listens, if one lives.
pub(crate) fn address(loaded: &Loaded) -> Option<SocketAddr> {
    read_note(loaded).map(|note| note.address)
}

/// The note of a `helve up` that lives.
fn read_note(loaded: &Loaded) -> Option<Note> {
    note_at(&note_file(&find::mcp_state()?, loaded))
}

fn note_at(file: &Path) -> Option<Note> {
    if !is_held(&lock_file(file)) {
        return None;
    }
    serde_json::from_str(&document::read_text(file, NOTE_BYTES_MAX).ok()?).ok()
}

fn note_file(state: &Path, loaded: &Loaded) -> PathBuf {
    let folder = loaded.project_file.as_deref().and_then(Path::parent);
    let scope = folder.map_or(Scope::User, |folder| Scope::Project(folder.to_owned()));
    state.join("instances").join(format!("{}.json", mcp::scope_folder(&scope)))
}

fn lock_file(note: &Path) -> PathBuf {
    note.with_extension("lock")
}

/// Takes a lock. None: somebody else has it. The file stays, since whoever waits for it might hold another
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
            // Perhaps somebody only looks, which is over at once.
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

/// A `helve up` that answers.
pub(super) struct Running {
    note: Note,
    token: String,
    status: Vec<Value>,
}

impl Running {
    /// The one that runs with this configuration, if one does.
    pub(super) fn find(loaded: &Loaded) -> Option<Self> {
        let note = read_note(loaded)?;
        // A token of the person who runs it stands alone on its line.
        let tokens = document::read_text(&note.token_file, 1 << 20).ok()?;
        let alone = |line: &&str| !line.is_empty() && !line.starts_with('#') && !line.contains(' ');
        let token = tokens.lines().map(str::trim).find(alone)?.to_owned();
        let mut running = Self { note, token, status: Vec::new() };
        // It lives, so that nobody else listens there; but it may be about to end.
        let answer = running.ask(Method::GET, "servers").ok()?;
        running.status = answer.as_array()?.clone();
        Some(running)
    }

    /// How its servers are.
    pub(super) fn status(&self) -> &[Value] {
        &self.status
    }

    /// Stops a server and connects it anew; how it is then.
    pub(super) fn restart(&self, name: &str) -> Result<Value, Failure> {
        self.ask(Method::POST, &format!("servers/{name}/restart"))
    }

    fn ask(&self, method: Method, what: &str) -> Result<Value, Failure> {
        let address = self.note.address;
        let refuse =
            |why: String| Failure::failed(format!("the `helve up` at {address} did not do it")).detail(why);
        // On all addresses means on this machine too.
        let host =
            if address.ip().is_unspecified() { "127.0.0.1".to_owned() } else { address.ip().to_string() };
        let host = if host.contains(':') { format!("[{host}]") } else { host };
        let url = format!("http://{host}:{}/v1/mcp/{what}", address.port());
        let url = url::Url::parse(&url).map_err(|error| refuse(error.to_string()))?;
        let client = mcp::client(&NetPolicy::default(), &[&ServerConfig::remote(url.as_str())])?;
        let mut bearer = HeaderValue::from_str(&format!("Bearer {}", self.token))
            .map_err(|_| refuse("its token is no token".to_owned()))?;
        bearer.set_sensitive(true);
        let request = Request::new(method, url).header(AUTHORIZATION, bearer).timeout(ANSWER_MAX);
        let answer = wire::block_on(async { Ok(client.fetch(request).await?) });
        let answer = answer.map_err(|error| refuse(format!("{error:#}")))?;
        let value: Value = serde_json::from_str(&answer.text()).unwrap_or_default();
        match answer.status.is_success() {
            true => Ok(value),
            false => Err(refuse(value["detail"].as_str().unwrap_or("it refused").to_owned())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_counts_while_its_place_is_held() {
        let folder = tempfile::tempdir().unwrap();
        let note = folder.path().join("instances").join("here.json");
        let address: SocketAddr = "127.0.0.1:7777".parse().unwrap();
        let found = || note_at(&note).map(|note| note.address);
        // Left behind by one that was killed, with its lock.
        drop(Place::take_at(note.clone()).unwrap());
        write(&note, &Note { address, token_file: "token".into() }).unwrap();
        assert_eq!(found(), None, "nobody holds it");
        let first = Place::take_at(note.clone()).unwrap().unwrap();
        assert_eq!(found(), None, "what was left behind does not count again");
        first.announce(address, Path::new("token")).unwrap();
        assert_eq!(found(), Some(address));
        assert!(Place::take_at(note.clone()).unwrap().is_none(), "it is taken");
        assert_eq!(found(), Some(address), "and stays so");
        drop(first);
        assert!(!note.exists());
        assert!(Place::take_at(note.clone()).unwrap().is_some());
    }
}
