//! Work directories that are kept between calls: one file for each, whole or not at all.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use helve::memory::MemoryScope;
use helve::{CallId, Caller};
use helve_sandbox::{FileIn, FileOut};
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

/// A session that nobody used for so long is forgotten.
const UNUSED_MAX: Duration = Duration::from_secs(7 * 24 * 3600);
/// What a call left behind is cleared away after so long.
const LEFT_MAX: Duration = Duration::from_secs(60);
/// What is kept of one owner; beyond that, what was used longest ago goes. Names cost nothing, so without a
/// bound a caller could fill the disk.
const OWNER_SESSIONS_MAX: usize = 100;
const OWNER_BYTES_MAX: u64 = 2 << 30;

/// So many calls are remembered that changed a session: whether one did is asked soon after it, if ever.
const CALLS_MAX: usize = 100;

/// A session that nobody else uses until this is dropped.
#[derive(Debug)]
pub(super) struct Session {
    file: PathBuf,
    _lock: File,
}

/// What stands before the contents.
#[derive(Serialize, Deserialize)]
struct Head {
    /// The calls that changed it, the last one last.
    calls: Vec<CallId>,
    files: Vec<FileHead>,
}

#[derive(Serialize, Deserialize)]
struct FileHead {
    path: String,
    bytes: u64,
    executable: bool,
}

impl Session {
    /// The session, unless another call uses it now. Its name says whose it is: two callers never share one,
    /// nor do two of one caller's own sessions. What one of them has read would reach the other unlabelled.
    pub(super) fn open(folder: &Path, caller: &Caller, name: &str) -> io::Result<Option<Self>> {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
        let (owner, id) = owner_and_id(caller, name);
        let Some(lock) = lock(folder, &id)? else { return Ok(None) };
        forget(folder, &owner, &id);
        clear(folder, &id);
        Ok(Some(Self { file: folder.join(id), _lock: lock }))
    }

    /// Whether a call has kept its files there. Asked of a call that was cut short, it needs no lock: what is
    /// there is replaced at once or not at all.
    pub(super) fn was_kept_by(folder: &Path, caller: &Caller, name: &str, call: CallId) -> io::Result<bool> {
        let (_, id) = owner_and_id(caller, name);
        Ok(read_head(&folder.join(id))?.is_some_and(|(head, _)| head.calls.contains(&call)))
    }

    /// The files of the call before.
    pub(super) fn load(&self) -> io::Result<Vec<FileIn>> {
        let Some((head, mut file)) = read_head(&self.file)? else { return Ok(Vec::new()) };
        head.files
            .into_iter()
            .map(|head| {
                let mut content = Vec::new();
                (&mut file).take(head.bytes).read_to_end(&mut content)?;
                Ok(FileIn { path: head.path.into(), content, executable: head.executable })
            })
            .collect()
    }

    /// Keeps the files that `call` left for the next one. What is there is replaced at once or not at all.
    pub(super) fn save(&self, call: CallId, files: &[FileOut]) -> io::Result<()> {
        let mut calls = read_head(&self.file)?.map(|(head, _)| head.calls).unwrap_or_default();
        calls.push(call);
        calls.drain(..calls.len().saturating_sub(CALLS_MAX));
        let kept: Vec<_> = files.iter().filter_map(keepable).collect();
        let files = kept
            .iter()
            .map(|(path, content, executable)| FileHead {
                path: (*path).to_owned(),
                bytes: content.len() as u64,
                executable: *executable,
            })
            .collect();
        let head = serde_json::to_vec(&Head { calls, files })?;
        let new = self.file.with_extension("new");
        let mut file = File::create(&new)?;
        file.write_all(&(head.len() as u64).to_le_bytes())?;
        file.write_all(&head)?;
        kept.iter().try_for_each(|(_, content, _)| file.write_all(content))?;
        file.sync_all()?;
        fs::rename(new, &self.file)
    }
}

/// What is kept of a file: path, content, and whether it can be executed. Nothing of one whose content was too
/// much, or whose name is no text.
pub(super) fn keepable(file: &FileOut) -> Option<(&str, &[u8], bool)> {
    Some((file.path.to_str()?, file.content.as_deref()?, file.executable))
}

/// Names of whose a session is, and of the session itself.
fn owner_and_id(caller: &Caller, name: &str) -> (String, String) {
    let owner = MemoryScope::LongTerm.owner(caller);
    let (owner, own) = (digest(&json!([owner])), digest(&json!([owner, caller.session, name])));
    let id = format!("{owner}-{own}");
    (owner, id)
}

/// What stands before the contents, and the file from there on. `None` where nothing is kept.
fn read_head(path: &Path) -> io::Result<Option<(Head, File)>> {
    let mut file = match File::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        opened => opened?,
    };
    let mut length = [0; 8];
    file.read_exact(&mut length)?;
    let mut head = Vec::new();
    (&mut file).take(u64::from_le_bytes(length)).read_to_end(&mut head)?;
    Ok(Some((serde_json::from_slice(&head)?, file)))
}

fn digest(text: &Value) -> String {
    Sha256::digest(text.to_string()).iter().take(16).map(|byte| format!("{byte:02x}")).collect()
}

/// No other call has it until the file is dropped. `None` where one has.
fn lock(folder: &Path, id: &str) -> io::Result<Option<File>> {
    let path = folder.join(format!("{id}.lock"));
    let lock = File::options().create(true).truncate(false).write(true).open(&path)?;
    match flock(&lock, FlockOperation::NonBlockingLockExclusive) {
        // It may have been removed since it was opened, and then it locks nobody out.
        Ok(()) => Ok(fs::metadata(&path).is_ok_and(|now| is_same(&now, &lock)).then_some(lock)),
        Err(Errno::WOULDBLOCK) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

fn is_same(now: &fs::Metadata, lock: &File) -> bool {
    lock.metadata().is_ok_and(|then| (then.dev(), then.ino()) == (now.dev(), now.ino()))
}

/// Removes what belongs to no session: a lock whose call ended before it kept anything, and what was half
/// written when a call died. What another call uses stays.
fn clear(folder: &Path, own: &str) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let Some((id, kind)) = name.to_str().and_then(|name| name.rsplit_once('.')) else { continue };
        let is_left = kind == "new" || (kind == "lock" && !folder.join(id).exists());
        let age = entry.metadata().and_then(|about| about.modified()).ok().and_then(|at| at.elapsed().ok());
        if is_left
            && id != own
            // One that was just made is about to be locked.
            && age.is_some_and(|age| age > LEFT_MAX)
            && let Ok(Some(_lock)) = lock(folder, id)
        {
            let _ = fs::remove_file(folder.join(format!("{id}.new")));
            // Kept something since we looked: then its lock stays.
            if !folder.join(id).exists() {
                let _ = fs::remove_file(folder.join(format!("{id}.lock")));
            }
        }
    }
}

/// Removes what nobody used for long, and of this owner what is too much, but for the session that is
/// about to be used. What another call uses stays.
fn forget(folder: &Path, owner: &str, own: &str) {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut kept: Vec<(SystemTime, u64, String)> = entries
        .filter_map(|entry| {
            let name = entry.file_name().into_string().ok()?;
            let about = entry.metadata().ok()?;
            (!name.contains('.') && name != own).then_some((about.modified().ok()?, about.len(), name))
        })
        .collect();
    // What was used last comes first, and is counted first.
    kept.sort_by(|a, b| b.cmp(a));
    let (mut sessions, mut bytes) = (1, fs::metadata(folder.join(own)).map_or(0, |about| about.len()));
    for (used, length, name) in kept {
        let is_old = SystemTime::now().duration_since(used).is_ok_and(|age| age > UNUSED_MAX);
        let is_too_much = name.starts_with(owner) && {
            (sessions, bytes) = (sessions + 1, bytes + length);
            sessions > OWNER_SESSIONS_MAX || bytes > OWNER_BYTES_MAX
        };
        if (is_old || is_too_much)
            && let Ok(Some(_lock)) = lock(folder, &name)
        {
            let _ = fs::remove_file(folder.join(&name));
            let _ = fs::remove_file(folder.join(format!("{name}.lock")));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open(folder: &Path, who: &str, name: &str) -> Option<Session> {
        Session::open(folder, &Caller::principal(who), name).unwrap()
    }

    fn file(content: &[u8]) -> FileOut {
        FileOut {
            path: "f".into(),
            bytes: content.len() as u64,
            executable: false,
            content: Some(content.to_vec()),
        }
    }

    fn call() -> CallId {
        CallId::new(Default::default())
    }

    #[test]
    fn a_session_knows_which_calls_changed_it() {
        let folder = tempfile::tempdir().unwrap();
        let calls: Vec<_> = (0..CALLS_MAX + 1).map(|_| call()).collect();
        let session = open(folder.path(), "ada", "x").unwrap();
        let kept_by = |who: &str, call: CallId| {
            Session::was_kept_by(folder.path(), &Caller::principal(who), "x", call).unwrap()
        };
        assert!(!kept_by("ada", calls[0]), "nothing is kept yet");
        session.save(calls[0], &[file(b"x")]).unwrap();
        assert!(kept_by("ada", calls[0]) && !kept_by("ada", calls[1]) && !kept_by("bob", calls[0]));
        calls[1..].iter().for_each(|call| session.save(*call, &[file(b"y")]).unwrap());
        assert!(kept_by("ada", calls[1]) && kept_by("ada", calls[CALLS_MAX]));
        assert!(!kept_by("ada", calls[0]), "so many and no more");
        assert_eq!(session.load().unwrap()[0].content, b"y");
    }

    #[test]
    fn a_session_is_one_calls_at_a_time() {
        let folder = tempfile::tempdir().unwrap();
        let first = open(folder.path(), "ada", "x").unwrap();
        assert!(open(folder.path(), "ada", "x").is_none());
        assert!(open(folder.path(), "bob", "x").is_some() && open(folder.path(), "ada", "y").is_some());
        let within = Caller::principal("ada").session("s-1");
        assert!(Session::open(folder.path(), &within, "x").unwrap().is_some(), "a session has its own");
        drop(first);
        assert!(open(folder.path(), "ada", "x").is_some());
    }

    #[test]
    fn calls_that_kept_nothing_leave_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let kept = open(folder.path(), "ada", "kept").unwrap();
        kept.save(call(), &[file(b"kept")]).unwrap();
        let id = kept.file.file_name().unwrap().to_str().unwrap().to_owned();
        // One in use, one that ended early, and one that died while it wrote.
        let used = open(folder.path(), "ada", "used").unwrap();
        drop(open(folder.path(), "ada", "early").unwrap());
        fs::write(folder.path().join(format!("{id}.new")), "half").unwrap();
        drop(kept);
        for entry in fs::read_dir(folder.path()).unwrap().flatten() {
            let then = SystemTime::now() - 2 * LEFT_MAX;
            File::options().write(true).open(entry.path()).unwrap().set_modified(then).unwrap();
        }
        drop(open(folder.path(), "ada", "recent").unwrap());
        let last = open(folder.path(), "bob", "x").unwrap();
        let lock_of = |session: &Session| {
            session.file.with_extension("lock").file_name().unwrap().to_str().unwrap().to_owned()
        };
        let mut expected = vec![id.clone(), format!("{id}.lock"), lock_of(&used), lock_of(&last)];
        expected.push(lock_of(&open(folder.path(), "ada", "recent").unwrap()));
        expected.sort();
        let entries = fs::read_dir(folder.path()).unwrap().flatten();
        let mut found: Vec<_> = entries.map(|entry| entry.file_name().into_string().unwrap()).collect();
        found.sort();
        assert_eq!(found, expected);
        assert_eq!(open(folder.path(), "ada", "kept").unwrap().load().unwrap()[0].content, b"kept");
    }

    #[test]
    fn an_owner_keeps_so_many_and_loses_none_to_others() {
        let folder = tempfile::tempdir().unwrap();
        open(folder.path(), "bob", "his").unwrap().save(call(), &[file(b"bob's")]).unwrap();
        let used = open(folder.path(), "ada", "used").unwrap();
        used.save(call(), &[file(b"used")]).unwrap();
        for n in 0..OWNER_SESSIONS_MAX + 20 {
            open(folder.path(), "ada", &format!("n{n}")).unwrap().save(call(), &[file(b"x")]).unwrap();
        }
        let kept = fs::read_dir(folder.path()).unwrap().flatten();
        let kept = kept.filter(|entry| entry.path().extension().is_none()).count();
        assert!(kept <= OWNER_SESSIONS_MAX + 2, "{kept} are kept");
        assert_eq!(used.load().unwrap()[0].content, b"used");
        let content = |who: &str, name: &str| {
            let files = open(folder.path(), who, name).unwrap().load().unwrap();
            files.first().map(|file| file.content.clone())
        };
        assert_eq!(content("bob", "his"), Some(b"bob's".to_vec()));
        assert_eq!(content("ada", "n0"), None);
        assert_eq!(content("ada", &format!("n{}", OWNER_SESSIONS_MAX + 19)), Some(b"x".to_vec()));
    }
}
