//! A small file of state that two processes may change: read with limits, changed under a lock,
//! replaced in one step, and readable by its owner alone.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::Duration;

use helve::json::{self, JsonLimits};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// The form in which these files are written today.
const VERSION: u64 = 1;
/// How often the lock is tried, with a pause of 20 ms: ten seconds.
const LOCK_TRIES: u32 = 500;
const LOCK_PAUSE: Duration = Duration::from_millis(20);
/// Largest file. Definitions of many tools are large.
const FILE_BYTES_MAX: usize = 64 << 20;

/// A file of state that cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StateError {
    /// It cannot be read or written.
    #[error("cannot use `{}`: {message}", path.display())]
    Unusable {
        /// The file that was opened.
        path: PathBuf,
        /// What is wrong with the file.
        message: String,
    },
    /// What it holds is not what Helve wrote.
    #[error(
        "`{}` is broken: {message}; nothing that it said counts. Look at it, delete it, and accept again",
        path.display()
    )]
    Broken {
        /// The file that was read.
        path: PathBuf,
        /// What is wrong with it.
        message: String,
    },
    /// Another process holds it.
    #[error("`{}` is held by another process; try again", path.display())]
    Busy {
        /// The file that is locked.
        path: PathBuf,
    },
    /// What was to be accepted is no longer what is there.
    #[error("{message}")]
    Outdated {
        /// What changed, and what to do.
        message: String,
    },
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Envelope<T> {
    version: u64,
    state: T,
}

#[derive(Serialize)]
struct EnvelopeRef<'a, T> {
    version: u64,
    state: &'a T,
}

/// Where some state lies.
#[derive(Debug, Clone)]
pub(crate) struct StateFile {
    path: PathBuf,
}

impl StateFile {
    pub(crate) fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into() }
    }

    /// What it holds; the default where there is no file.
    pub(crate) fn read<T: DeserializeOwned + Default>(&self) -> Result<T, StateError> {
        let Some(bytes) = self.bytes()? else { return Ok(T::default()) };
        let limits = JsonLimits { bytes: FILE_BYTES_MAX, values: 4_000_000, depth: 100 };
        let value = json::parse(&bytes, limits).map_err(|error| self.broken(error.to_string()))?;
        if value["version"] != VERSION {
            return Err(self.broken("it was written by another version of Helve".to_owned()));
        }
        // The error of a typed reading quotes what stands there, which may be anything.
        let read: Result<Envelope<T>, _> = serde_json::from_value(value);
        let envelope =
            read.map_err(|_| self.broken("it does not have the fields that it should".to_owned()))?;
        debug_assert_eq!(envelope.version, VERSION);
        Ok(envelope.state)
    }

    /// Changes what it holds, while no other process does. `change` says with its answer whether
    /// there is something to write.
    pub(crate) fn update<T, R>(
        &self,
        change: impl FnOnce(&mut T) -> Result<(Save, R), StateError>,
    ) -> Result<R, StateError>
    where
        T: DeserializeOwned + Serialize + Default,
    {
        let folder = self.folder();
        create_folder(folder).map_err(|error| self.unusable(&error))?;
        let _lock = self.lock()?;
        let mut state = self.read()?;
        let (write, answer) = change(&mut state)?;
        if write == Save::Yes {
            self.replace(&state)?;
        }
        Ok(answer)
    }

    fn folder(&self) -> &Path {
        self.path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
    }

    fn path_with(&self, ending: &str) -> PathBuf {
        let mut path = self.path.as_os_str().to_owned();
        path.push(ending);
        path.into()
    }

    fn bytes(&self) -> Result<Option<Vec<u8>>, StateError> {
        let mut options = OpenOptions::new();
        options.read(true);
        // Neither follow a link nor wait for a pipe in its place.
        #[cfg(unix)]
        {
            let flags = rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK;
            std::os::unix::fs::OpenOptionsExt::custom_flags(&mut options, flags.bits().cast_signed());
        }
        let file = match options.open(&self.path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(self.unusable(&error)),
        };
        self.check_owner(&file)?;
        let mut bytes = Vec::new();
        file.take(FILE_BYTES_MAX as u64 + 1)
            .read_to_end(&mut bytes)
            .map_err(|error| self.unusable(&error))?;
        if bytes.len() > FILE_BYTES_MAX {
            return Err(self.broken(format!("it is larger than {FILE_BYTES_MAX} bytes")));
        }
        Ok(Some(bytes))
    }

    /// What others could have written says nothing about what this person trusts.
    fn check_owner(&self, file: &File) -> Result<(), StateError> {
        let about = file.metadata().map_err(|error| self.unusable(&error))?;
        if !about.is_file() {
            return Err(self.broken("it is not a plain file".to_owned()));
        }
        #[cfg(unix)]
        {
            use std::os::unix::fs::MetadataExt;
            if about.uid() != rustix::process::geteuid().as_raw() {
                return Err(self.broken("it belongs to another user".to_owned()));
            }
            if about.mode() & 0o022 != 0 {
                return Err(self.broken("others may write to it".to_owned()));
            }
        }
        Ok(())
    }

    fn lock(&self) -> Result<File, StateError> {
        let file =
            private_file(&self.path_with(".lock"), Existing::Keep).map_err(|error| self.unusable(&error))?;
        for _ in 0..LOCK_TRIES {
            match file.try_lock() {
                Ok(()) => return Ok(file),
                Err(TryLockError::WouldBlock) => sleep(LOCK_PAUSE),
                Err(TryLockError::Error(error)) => return Err(self.unusable(&error)),
            }
        }
        Err(StateError::Busy { path: self.path.clone() })
    }

    /// Writes a new file, then puts it in place: after a crash there is the old file or the new one.
    fn replace<T: Serialize>(&self, state: &T) -> Result<(), StateError> {
        let write = || -> io::Result<()> {
            let text = serde_json::to_vec_pretty(&EnvelopeRef { version: VERSION, state })?;
            if text.len() > FILE_BYTES_MAX {
                return Err(io::Error::other(format!("it would be larger than {FILE_BYTES_MAX} bytes")));
            }
            // Only the holder of the lock is here: what stands there is a crash's leftover.
            let beside = self.path_with(".new");
            if let Err(error) = fs::remove_file(&beside)
                && error.kind() != io::ErrorKind::NotFound
            {
                return Err(error);
            }
            let mut file = private_file(&beside, Existing::Refuse)?;
            file.write_all(&text)?;
            file.sync_all()?;
            fs::rename(&beside, &self.path)?;
            File::open(self.folder())?.sync_all()
        };
        write().map_err(|error| self.unusable(&error))
    }

    fn unusable(&self, error: &io::Error) -> StateError {
        StateError::Unusable { path: self.path.clone(), message: error.to_string() }
    }

    fn broken(&self, message: String) -> StateError {
        StateError::Broken { path: self.path.clone(), message }
    }
}

/// Whether a change is to be saved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Save {
    Yes,
    No,
}

enum Existing {
    Keep,
    Refuse,
}

fn private_file(path: &Path, existing: Existing) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true);
    match existing {
        Existing::Keep => options.create(true).truncate(false),
        Existing::Refuse => options.create_new(true),
    };
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt;
        options.mode(0o600).custom_flags(rustix::fs::OFlags::NOFOLLOW.bits().cast_signed());
    }
    options.open(path)
}

fn create_folder(path: &Path) -> io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, symlink};

    fn file(folder: &tempfile::TempDir) -> StateFile {
        StateFile::new(folder.path().join("state/list.json"))
    }

    fn push(file: &StateFile, number: u32) -> Result<(), StateError> {
        file.update(|list: &mut Vec<u32>| {
            list.push(number);
            Ok((Save::Yes, ()))
        })
    }

    #[test]
    fn what_is_written_is_read_and_only_the_owner_can() {
        let folder = tempfile::tempdir().unwrap();
        let file = file(&folder);
        assert_eq!(file.read::<Vec<u32>>().unwrap(), [0_u32; 0]);
        push(&file, 1).unwrap();
        push(&file, 2).unwrap();
        assert_eq!(file.read::<Vec<u32>>().unwrap(), [1, 2]);
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(&file.path), 0o600);
        assert_eq!(mode(file.folder()), 0o700);
        assert!(!file.path_with(".new").exists());
    }

    #[test]
    fn two_that_change_it_at_once_lose_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let file = file(&folder);
        std::thread::scope(|scope| {
            for worker in 0..4 {
                let file = &file;
                scope.spawn(move || (0..10).for_each(|n| push(file, worker * 100 + n).unwrap()));
            }
        });
        assert_eq!(file.read::<Vec<u32>>().unwrap().len(), 40);
    }

    #[test]
    fn a_change_that_fails_leaves_all_as_it_was() {
        let folder = tempfile::tempdir().unwrap();
        let file = file(&folder);
        push(&file, 1).unwrap();
        let failed: Result<(), _> = file.update(|list: &mut Vec<u32>| {
            list.clear();
            Err(StateError::Outdated { message: "no".to_owned() })
        });
        assert!(failed.is_err());
        assert_eq!(file.read::<Vec<u32>>().unwrap(), [1]);
    }

    #[test]
    fn a_leftover_of_a_crash_is_in_nobodys_way() {
        let folder = tempfile::tempdir().unwrap();
        let file = file(&folder);
        push(&file, 1).unwrap();
        fs::write(file.path_with(".new"), "half").unwrap();
        push(&file, 2).unwrap();
        assert_eq!(file.read::<Vec<u32>>().unwrap(), [1, 2]);
    }

    #[test]
    fn a_broken_file_is_said_to_be_and_never_overwritten() {
        let folder = tempfile::tempdir().unwrap();
        let file = file(&folder);
        push(&file, 1).unwrap();
        for text in [
            "",
            "nonsense",
            "[]",
            "null",
            r#"{"version":2,"state":[]}"#,
            r#"{"version":1,"state":["secret-word"]}"#,
            r#"{"version":1,"state":[],"more":1}"#,
            r#"{"version":1,"state":[1],"state":[2]}"#,
            "\u{0}",
        ] {
            fs::write(&file.path, text).unwrap();
            let error = file.read::<Vec<u32>>().unwrap_err();
            assert!(matches!(error, StateError::Broken { .. }), "{text}: {error}");
            assert!(!error.to_string().contains("secret-word"));
            assert!(push(&file, 2).is_err(), "{text}");
            assert_eq!(fs::read_to_string(&file.path).unwrap(), text);
        }
    }

    #[test]
    fn what_others_could_have_written_does_not_count() {
        let folder = tempfile::tempdir().unwrap();
        let file = file(&folder);
        push(&file, 1).unwrap();
        fs::set_permissions(&file.path, fs::Permissions::from_mode(0o666)).unwrap();
        assert!(file.read::<Vec<u32>>().unwrap_err().to_string().contains("others may write"));
        let real = folder.path().join("real.json");
        fs::rename(&file.path, &real).unwrap();
        symlink(&real, &file.path).unwrap();
        assert!(matches!(file.read::<Vec<u32>>(), Err(StateError::Unusable { .. })));
        fs::remove_file(&file.path).unwrap();
        fs::create_dir(&file.path).unwrap();
        assert!(file.read::<Vec<u32>>().is_err());
    }
}
