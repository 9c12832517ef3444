//! Work directories that are kept between calls: one file for each, whole or not at all.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use helve::Caller;
use helve::memory::MemoryScope;
use helve_sandbox::{FileIn, FileOut};
use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// A session that nobody used for so long is forgotten.
const UNUSED_MAX: Duration = Duration::from_secs(7 * 24 * 3600);

/// A session that nobody else uses until this is dropped.
#[derive(Debug)]
pub(super) struct Session {
    file: PathBuf,
    _lock: File,
}

#[derive(Serialize, Deserialize)]
struct Head {
    path: String,
    bytes: u64,
    executable: bool,
}

impl Session {
    /// Waits until the session is free. Its name says whose it is: two callers never share one.
    pub(super) fn open(folder: &Path, caller: &Caller, name: &str) -> io::Result<Self> {
        fs::create_dir_all(folder)?;
        forget_unused(folder);
        let owned = serde_json::json!([MemoryScope::LongTerm.owner(caller), name]).to_string();
        let id: String = Sha256::digest(owned).iter().take(16).map(|byte| format!("{byte:02x}")).collect();
        let lock = File::options()
            .create(true)
            .truncate(false)
            .write(true)
            .open(folder.join(format!("{id}.lock")))?;
        flock(&lock, FlockOperation::LockExclusive)?;
        Ok(Self { file: folder.join(id), _lock: lock })
    }

    /// The files of the call before.
    pub(super) fn load(&self) -> io::Result<Vec<FileIn>> {
        let mut file = match File::open(&self.file) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            opened => opened?,
        };
        let mut length = [0; 8];
        file.read_exact(&mut length)?;
        let mut head = Vec::new();
        (&mut file).take(u64::from_le_bytes(length)).read_to_end(&mut head)?;
        let heads: Vec<Head> = serde_json::from_slice(&head)?;
        heads
            .into_iter()
            .map(|head| {
                let mut content = Vec::new();
                (&mut file).take(head.bytes).read_to_end(&mut content)?;
                Ok(FileIn { path: head.path.into(), content, executable: head.executable })
            })
            .collect()
    }

    /// Keeps the files for the next call. What is there is replaced at once or not at all.
    pub(super) fn save(&self, files: &[FileOut]) -> io::Result<()> {
        let kept: Vec<_> = files
            .iter()
            .filter_map(|file| Some((file.path.to_str()?, file.content.as_deref()?, file.executable)))
            .collect();
        let heads: Vec<_> = kept
            .iter()
            .map(|(path, content, executable)| Head {
                path: (*path).to_owned(),
                bytes: content.len() as u64,
                executable: *executable,
            })
            .collect();
        let head = serde_json::to_vec(&heads)?;
        let new = self.file.with_extension("new");
        let mut file = File::create(&new)?;
        file.write_all(&(head.len() as u64).to_le_bytes())?;
        file.write_all(&head)?;
        kept.iter().try_for_each(|(_, content, _)| file.write_all(content))?;
        file.sync_all()?;
        fs::rename(new, &self.file)
    }
}

fn forget_unused(folder: &Path) {
    let old = |path: &Path| {
        let used = fs::metadata(path).and_then(|metadata| metadata.modified());
        let age = used.ok().and_then(|used| SystemTime::now().duration_since(used).ok());
        age.is_some_and(|age| age > UNUSED_MAX)
    };
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        if entry.path().extension().is_none() && old(&entry.path()) {
            let _ = fs::remove_file(entry.path());
        }
    }
}
