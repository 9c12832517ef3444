//! A file is replaced whole or not at all, and by one writer at a time.

use std::ffi::{OsStr, OsString};
use std::io::Write;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use helve::{ErrorCode, ToolError};
use rustix::fs::{
    AtFlags, FlockOperation, Gid, Mode, OFlags, Stat, Uid, fchmod, fchown, flock, fsync, openat, renameat,
    statat, unlinkat,
};
use rustix::io::Errno;

use super::fault::failed;
use super::root::{Spot, readable};

/// What our temporary files begin with; nobody else's do.
const TEMPORARY: &str = ".helve-tmp-";
/// Most names that are looked at for temporary files of writers that died.
const NAMES_MAX: usize = 20_000;

/// Whether a file may already be there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Existing {
    Replace,
    Refuse,
}

/// A spot that no other call of ours writes to meanwhile, in this process or another.
pub(super) struct Locked<'s> {
    pub(super) spot: &'s Spot,
    folder: OwnedFd,
}

impl<'s> Locked<'s> {
    /// Waits for other writers in the same folder.
    pub(super) fn new(spot: &'s Spot, deadline: Instant) -> Result<Self, ToolError> {
        const PAUSE: Duration = Duration::from_millis(5);
        let folder =
            readable(&spot.folder).map_err(|error| failed("open the folder of", &spot.shown, error))?;
        loop {
            match flock(&folder, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => break,
                Err(Errno::WOULDBLOCK | Errno::INTR) if Instant::now() < deadline => {
                    std::thread::sleep(PAUSE)
                }
                Err(Errno::WOULDBLOCK) => {
                    let message = format!("another program keeps writing in the folder of `{}`", spot.shown);
                    return Err(ToolError::new(ErrorCode::Lock, message));
                }
                // Some network file systems have no locks; then renaming alone must do.
                Err(error) => {
                    tracing::debug!(%error, path = spot.shown, "the folder cannot be locked");
                    return Ok(Self { spot, folder });
                }
            }
        }
        let locked = Self { spot, folder };
        locked.clean_up();
        Ok(locked)
    }

    /// What is there now.
    pub(super) fn stat(&self) -> Result<Option<Stat>, ToolError> {
        match statat(&self.folder, &self.spot.name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => Ok(Some(stat)),
            Err(Errno::NOENT) => Ok(None),
            Err(error) => Err(failed("look at", &self.spot.shown, error)),
        }
    }

    /// Puts content in its place: on disk, whole, with the mode and owner of what it replaces.
    /// `still_wanted` is asked last.
    pub(super) fn put(
        &self,
        content: &[u8],
        like: Option<&Stat>,
        existing: Existing,
        still_wanted: impl FnOnce() -> Result<(), ToolError>,
    ) -> Result<(), ToolError> {
        let name = temporary_name();
        let written = self.write_temporary(&name, content, like).and_then(|()| still_wanted());
        let placed = written.and_then(|()| match existing {
            Existing::Replace => renameat(&self.folder, &name, &self.folder, &self.spot.name)
                .map_err(|error| failed("write", &self.spot.shown, error)),
            Existing::Refuse => self.place_new(&name),
        });
        if placed.is_err() {
            let _ = unlinkat(&self.folder, &name, AtFlags::empty());
        }
        placed?;
        self.sync()
    }

    fn write_temporary(&self, name: &OsStr, content: &[u8], like: Option<&Stat>) -> Result<(), ToolError> {
        let refuse = |error: std::io::Error| failed("write", &self.spot.shown, error);
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file =
            openat(&self.folder, name, flags, Mode::from_raw_mode(0o666)).map_err(|e| refuse(e.into()))?;
        let mut file = std::fs::File::from(file);
        if let Some(like) = like {
            // Only root can give a file away; for others it is theirs already.
            let _ = fchown(&file, Some(Uid::from_raw(like.st_uid)), Some(Gid::from_raw(like.st_gid)));
            // Without the bits that make a program run as another user: its content is another one now.
            fchmod(&file, Mode::from_raw_mode(like.st_mode & 0o777)).map_err(|e| refuse(e.into()))?;
        }
        file.write_all(content).and_then(|()| file.sync_all()).map_err(refuse)
    }

    /// Gives the temporary file its name, unless another program has taken that meanwhile.
    fn place_new(&self, temporary: &OsStr) -> Result<(), ToolError> {
        let (folder, name) = (&self.folder, &self.spot.name);
        let mut placed = rename_new(folder, temporary, name);
        if let Err(Errno::NOSYS | Errno::INVAL | Errno::NOTSUP) = placed {
            // Where the file system cannot do that in one step: a second name, then without the first.
            placed = rustix::fs::linkat(folder, temporary, folder, name, AtFlags::empty());
            if placed.is_ok() {
                let _ = unlinkat(folder, temporary, AtFlags::empty());
            }
        }
        placed.map_err(|error| match error {
            Errno::EXIST => file_exists(&self.spot.shown),
            error => failed("write", &self.spot.shown, error),
        })
    }

    /// Removes the file.
    pub(super) fn remove(&self) -> Result<(), ToolError> {
        unlinkat(&self.folder, &self.spot.name, AtFlags::empty())
            .map_err(|error| failed("remove", &self.spot.shown, error))?;
        self.sync()
    }

    /// A name is safe on disk once its folder is.
    fn sync(&self) -> Result<(), ToolError> {
        fsync(&self.folder).map_err(|error| failed("save the folder of", &self.spot.shown, error))
    }

    /// Removes what writers left behind that died: under the lock, nobody can be at it.
    fn clean_up(&self) {
        let Ok(entries) = rustix::fs::Dir::read_from(&self.folder) else { return };
        for entry in entries.take(NAMES_MAX).flatten() {
            if entry.file_name().to_bytes().starts_with(TEMPORARY.as_bytes()) {
                let _ = unlinkat(&self.folder, entry.file_name(), AtFlags::empty());
            }
        }
    }
}

#[cfg(any(target_os = "linux", target_os = "macos"))]
fn rename_new(folder: &OwnedFd, from: &OsStr, to: &OsStr) -> rustix::io::Result<()> {
    use rustix::fs::{RenameFlags, renameat_with};
    renameat_with(folder, from, folder, to, RenameFlags::NOREPLACE)
}

#[cfg(not(any(target_os = "linux", target_os = "macos")))]
fn rename_new(_: &OwnedFd, _: &OsStr, _: &OsStr) -> rustix::io::Result<()> {
    Err(Errno::NOSYS)
}

/// Whether a name is that of one of our temporary files.
pub(super) fn is_temporary(name: &OsStr) -> bool {
    name.as_encoded_bytes().starts_with(TEMPORARY.as_bytes())
}

fn temporary_name() -> OsString {
    format!("{TEMPORARY}{:016x}", fastrand::u64(..)).into()
}

/// The seed's `FILE_EXISTS`.
pub(super) fn file_exists(shown: &str) -> ToolError {
    ToolError::recoverable("FILE_EXISTS", format!("`{shown}` already exists"))
        .suggest("set overwrite: true")
        .suggest("choose a different path")
}
