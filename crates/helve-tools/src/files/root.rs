//! The folders that file tools may use, and the way from a path to a handle in one of them.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use cap_std::ambient_authority;
use cap_std::fs::Dir;
use helve::{ErrorCode, ToolError};
use helve_sandbox::{Unwritable, Way};
use rustix::fs::{AtFlags, FileType, Mode, OFlags, Stat, fstat, openat, readlinkat, statat};
use rustix::io::Errno;

use super::at_hand;
use super::fault::{failed, forbidden, is_escape, outside};
use super::near;
use super::path::GivenPath;
use crate::builtin::wrong_argument;

/// How many links are followed, as in the kernel.
const LINKS_MAX: usize = 40;
/// Folders above one another in all, links included.
const ANCESTORS_MAX: usize = 512;
/// A model that could write its own configuration would have every tool that it likes.
const NEVER_WRITTEN: &str = "helve.toml";

/// Which file or folder it is, whatever its path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Identity {
    device: u64,
    inode: u64,
}

impl Identity {
    #[expect(clippy::unnecessary_cast, reason = "other systems have other types")]
    pub(super) fn of(stat: &Stat) -> Self {
        Self { device: stat.st_dev as u64, inode: stat.st_ino as u64 }
    }

    fn at(path: &Path) -> Option<Self> {
        rustix::fs::stat(path).ok().map(|stat| Self::of(&stat))
    }
}

/// What a tool wants to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Access {
    Read,
    Write,
}

/// A folder that file tools may use.
pub(super) struct Root {
    /// As the operator wrote it, made absolute.
    path: PathBuf,
    read_only: bool,
    /// Opened when first needed, and kept: whatever is put in its place later is not the root.
    opened: OnceLock<Opened>,
}

struct Opened {
    dir: Dir,
    identity: Identity,
    /// The root's path without links and `..`.
    real: PathBuf,
    is_local: bool,
}

impl Root {
    pub(super) fn new(path: &Path, read_only: bool) -> Self {
        let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        Self { path, read_only, opened: OnceLock::new() }
    }

    fn open(&self) -> Result<&Opened, ToolError> {
        if let Some(opened) = self.opened.get() {
            return Ok(opened);
        }
        let open = || {
            let dir = Dir::open_ambient_dir(&self.path, ambient_authority())?;
            let identity = Identity::of(&fstat(&dir)?);
            let is_local = at_hand::is_local(dir.as_fd());
            Ok(Opened { dir, identity, real: self.path.canonicalize()?, is_local })
        };
        let opened = open().map_err(|error: std::io::Error| {
            let message = format!("the root folder `{}` cannot be opened", self.path.display());
            ToolError::new(ErrorCode::PreconditionFailed, message)
                .suggest("tell the user to check `files.roots` in helve.toml")
                .with_source(error)
        })?;
        Ok(self.opened.get_or_init(|| opened))
    }

    fn has(&self, path: &Path) -> bool {
        let is_there = |dir: &Dir| path.as_os_str().is_empty() || dir.symlink_metadata(path).is_ok();
        self.open().is_ok_and(|opened| is_there(&opened.dir))
    }

    /// The root's path as models see and write it.
    fn shown(&self) -> &Path {
        self.open().map_or(&self.path, |opened| &opened.real)
    }
}

/// What is not a model's business, though it is below a root.
#[derive(Default)]
pub(super) struct Own {
    /// Files and folders that tools leave alone.
    pub(super) private: Vec<PathBuf>,
    /// What they may read, and not write.
    pub(super) unwritable: Unwritable,
}

/// All folders that file tools may use.
pub(super) struct Roots {
    roots: Vec<Root>,
    own: Own,
}

/// A path, and the root that it is in.
pub(super) struct Place<'r> {
    root: &'r Root,
    path: PathBuf,
    /// The path as models see it: relative in the first root, absolute in others.
    pub(super) shown: String,
}

/// Where a file is or will be: the folder that holds it, and a name in it that is no link.
pub(super) struct Spot {
    pub(super) folder: Dir,
    pub(super) name: OsString,
    pub(super) shown: String,
}

impl<'r> Place<'r> {
    /// The path from its root.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// The folders from the root down to this place, itself left out.
    pub(super) fn above(&self) -> Vec<Place<'r>> {
        let folders = self.path.ancestors().skip(1);
        let place = |path: &Path| Place { root: self.root, path: path.to_owned(), shown: self.shown.clone() };
        let mut above: Vec<_> = folders.map(place).collect();
        above.reverse();
        above
    }
}

impl Roots {
    pub(super) fn new(roots: Vec<Root>, own: Own) -> Self {
        Self { roots, own }
    }

    /// The root that a path means.
    pub(super) fn find(&self, text: &str, access: Access) -> Result<Place<'_>, ToolError> {
        let (root, path) = match GivenPath::parse(text)? {
            GivenPath::Absolute(path) => self.below(&path).ok_or_else(|| outside(text, &self.names()))?,
            GivenPath::Relative(path) => (self.meant(&path, access)?, path),
        };
        let is_first = self.roots.first().is_some_and(|first| std::ptr::eq(first, root));
        let shown = match (is_first, path.as_os_str().is_empty()) {
            (true, true) => ".".to_owned(),
            (true, false) => path.display().to_string(),
            (false, _) => root.shown().join(&path).display().to_string(),
        };
        Ok(Place { root, path, shown })
    }

    /// The same for a path that names a file, as the system has it: one that ends like a folder's names none. Hooks
    /// and policies see paths as they are written, and look at how they end.
    pub(super) fn find_file(&self, text: &str, access: Access) -> Result<Place<'_>, ToolError> {
        if text.ends_with('/') || text.ends_with("/.") {
            let problem = "it ends as only folders do; leave out the `/` at its end";
            return Err(wrong_argument("path", "the path of a file", text, problem));
        }
        self.find(text, access)
    }

    /// Every way to write the path that a text means: from each root down, and from `/`. Which of several roots
    /// has a relative path only their disks say, so it may be in any of them.
    pub(super) fn spellings(&self, text: &str) -> Vec<String> {
        let starts: Vec<&Path> =
            self.roots.iter().flat_map(|root| [root.path.as_path(), root.shown()]).collect();
        let below = |path: &Path| -> Vec<PathBuf> {
            starts.iter().filter_map(|start| path.strip_prefix(start).ok()).map(Path::to_owned).collect()
        };
        let from_roots = match GivenPath::parse(text) {
            Ok(GivenPath::Relative(path)) => vec![path],
            Ok(GivenPath::Absolute(path)) => below(&path),
            // No tool takes it.
            Err(_) => return Vec::new(),
        };
        let absolute = from_roots.iter().flat_map(|path| starts.iter().map(move |start| start.join(path)));
        let absolute: BTreeSet<PathBuf> = absolute.collect();
        // One root may lie in another.
        let relative: BTreeSet<PathBuf> = absolute.iter().flat_map(|path| below(path)).collect();
        let spelled = |path: &PathBuf| match path.as_os_str().is_empty() {
            true => ".".to_owned(),
            false => path.display().to_string(),
        };
        relative.iter().chain(&absolute).map(spelled).collect()
    }

    /// Whether the way to a file is in memory, so that nothing needs to wait for a disk.
    pub(super) fn is_at_hand(&self, text: &str) -> bool {
        let (root, path) = match (GivenPath::parse(text), self.roots.as_slice()) {
            (Ok(GivenPath::Absolute(path)), roots)
                if roots.iter().all(|root| root.opened.get().is_some()) =>
            {
                match self.below(&path) {
                    Some(found) => found,
                    None => return false,
                }
            }
            (Ok(GivenPath::Relative(path)), [only]) => (only, path),
            // Which of several roots is meant, their disks say.
            _ => return false,
        };
        let known = |opened: &Opened| opened.is_local && at_hand::is_known(opened.dir.as_fd(), &path);
        root.opened.get().is_some_and(known)
    }

    /// The nearest root above an absolute path. This only picks a handle; that the path stays
    /// beneath it is for the kernel to see to.
    fn below(&self, path: &Path) -> Option<(&Root, PathBuf)> {
        let stripped = self.roots.iter().filter_map(|root| {
            let rest = path.strip_prefix(root.shown()).or_else(|_| path.strip_prefix(&root.path));
            rest.ok().map(|rest| (root, rest.to_owned()))
        });
        stripped.min_by_key(|(_, rest)| rest.components().count())
    }

    /// The first root that has a relative path; for one that nobody has, the first that would do.
    fn meant(&self, path: &Path, access: Access) -> Result<&Root, ToolError> {
        let would_do = |root: &&Root| access == Access::Read || !root.read_only;
        let [only] = self.roots.as_slice() else {
            let found = self.roots.iter().find(|root| root.has(path));
            let found = found.or_else(|| self.roots.iter().find(would_do)).or(self.roots.first());
            return found.ok_or_else(|| {
                ToolError::new(ErrorCode::PreconditionFailed, "no folder is open to file tools")
                    .suggest("tell the user to name one in `files.roots` of helve.toml")
            });
        };
        Ok(only)
    }

    /// The roots, for a message.
    pub(super) fn names(&self) -> String {
        let names: Vec<_> = self.roots.iter().map(|root| format!("`{}`", root.shown().display())).collect();
        names.join(", ")
    }

    /// All roots but the first.
    pub(super) fn others(&self) -> Vec<String> {
        self.roots.iter().skip(1).map(|root| root.shown().display().to_string()).collect()
    }

    /// Where a file is or will be. Links are followed as long as they stay in the root.
    pub(super) fn spot(&self, place: &Place<'_>, access: Access) -> Result<Spot, ToolError> {
        let mut path = place.path.clone();
        for _ in 0..LINKS_MAX {
            let Some(name) = path.file_name() else {
                return Err(is_a_folder(&place.shown));
            };
            let (above, name) = (path.parent().unwrap_or(Path::new("")), name.to_owned());
            let folder = self.open_folder(place, above)?;
            if access == Access::Write && name.eq_ignore_ascii_case(NEVER_WRITTEN) {
                return Err(refusal(Access::Write, &place.shown));
            }
            match readlinkat(&folder, &name, Vec::new()) {
                Ok(target) => {
                    let target = PathBuf::from(OsString::from(to_os_str(target.as_bytes())));
                    if target.is_absolute() {
                        return Err(outside(&place.shown, &self.names()).suggest(format!(
                            "it is a symbolic link to `{}`; use that path if it is in a root",
                            target.display()
                        )));
                    }
                    path = above.join(target);
                }
                // It is no link, or nothing yet.
                Err(Errno::INVAL | Errno::NOENT) => {
                    self.check(&folder, Some(&name), access, &place.shown)?;
                    return Ok(Spot { folder, name, shown: place.shown.clone() });
                }
                Err(error) => return Err(failed("look at", &place.shown, error)),
            }
        }
        Err(failed("follow", &place.shown, Errno::LOOP))
    }

    /// A folder to look through.
    pub(super) fn folder(&self, place: &Place<'_>) -> Result<OwnedFd, ToolError> {
        let folder = self.open_folder(place, &place.path)?;
        self.check(&folder, None, Access::Read, &place.shown)?;
        readable(&folder).map_err(|error| failed("list", &place.shown, error))
    }

    /// Whether a path leads to a regular file.
    pub(super) fn is_file(&self, place: &Place<'_>) -> bool {
        let open = || place.root.open().ok().and_then(|opened| opened.dir.metadata(&place.path).ok());
        !place.path.as_os_str().is_empty() && open().is_some_and(|about| about.is_file())
    }

    /// Makes the folders above a file.
    pub(super) fn make_folders(&self, place: &Place<'_>) -> Result<(), ToolError> {
        let Opened { dir: root, real, .. } = place.root.open()?;
        let Some(above) = place.path.parent().filter(|above| !above.as_os_str().is_empty()) else {
            return Ok(());
        };
        // Where nothing may be written no folder is made either: the nearest existing folder says.
        let there = above.ancestors().find(|folder| place.root.has(folder)).unwrap_or(Path::new(""));
        self.check(&self.open_folder(place, there)?, None, Access::Write, &place.shown)?;
        let wanted = Way::to(&real.join(above)).end;
        let guarded = self.guarded(Access::Write);
        if let Some((_, from)) = guarded.iter().find(|(way, _)| wanted.starts_with(&way.end)) {
            return Err(refusal(*from, &place.shown));
        }
        root.create_dir_all(above).map_err(|error| match is_escape(&error) {
            true => outside(&place.shown, &self.names()),
            false => failed("make the folder of", &place.shown, error),
        })
    }

    fn open_folder(&self, place: &Place<'_>, path: &Path) -> Result<Dir, ToolError> {
        let root = &place.root.open()?.dir;
        if path.as_os_str().is_empty() {
            return root.try_clone().map_err(|error| failed("open", &place.shown, error));
        }
        root.open_dir(path).map_err(|error| match error.kind() {
            _ if is_escape(&error) => outside(&place.shown, &self.names()),
            std::io::ErrorKind::NotFound => near::no_folder(root, path, &place.shown),
            _ => failed("open", &place.shown, error),
        })
    }

    /// Files and folders that tools leave alone, as far as they are there.
    pub(super) fn private(&self) -> Vec<Identity> {
        self.own.private.iter().filter_map(|path| Identity::at(path)).collect()
    }

    /// The ways to all that is out of bounds, and from what on.
    fn guarded(&self, access: Access) -> Vec<(Way, Access)> {
        let private = self.own.private.iter().map(|path| (Way::to(path), Access::Read));
        let unwritable = match access {
            Access::Read => Vec::new(),
            Access::Write => self.own.unwritable.ways(),
        };
        private.chain(unwritable.into_iter().map(|way| (way, Access::Write))).collect()
    }

    /// Refuses what is guarded: by its name, by which file it really is, and by which folders it is in.
    fn check(
        &self,
        folder: &Dir,
        name: Option<&OsStr>,
        access: Access,
        shown: &str,
    ) -> Result<(), ToolError> {
        let guarded = self.guarded(access);
        let broken = |error: Errno| failed("check the folder of", shown, error);
        let identity = |folder: BorrowedFd<'_>| fstat(folder).map(|stat| Identity::of(&stat)).map_err(broken);
        let mut here = identity(folder.as_fd())?;
        let mut above: Option<OwnedFd> = None;
        let is_here = |path: &Path| {
            name.is_some() && path.file_name() == name && path.parent().and_then(Identity::at) == Some(here)
        };
        if let Some((_, from)) = guarded.iter().find(|(way, _)| way.names().any(is_here)) {
            return Err(refusal(*from, shown));
        }
        let guarded: Vec<_> =
            guarded.iter().filter_map(|(way, from)| Identity::at(&way.end).map(|id| (id, *from))).collect();
        let refuse = |file: Identity| match guarded.iter().find(|(id, _)| *id == file) {
            Some((_, from)) => Err(refusal(*from, shown)),
            None => Ok(()),
        };
        // The same file may have another name.
        if !guarded.is_empty()
            && let Some(file) = name.and_then(|name| statat(folder, name, AtFlags::SYMLINK_NOFOLLOW).ok())
        {
            refuse(Identity::of(&file))?;
        }
        let opened = |root: &Root| root.open().ok().map(|opened| (opened.identity, root.read_only));
        let roots: Vec<_> = self.roots.iter().filter_map(opened).collect();
        // Up to the nearest root, which decides.
        for _ in 0..ANCESTORS_MAX {
            refuse(here)?;
            if let Some((_, read_only)) = roots.iter().find(|(id, _)| *id == here) {
                return match *read_only && access == Access::Write {
                    true => Err(forbidden(shown, "is in a folder that is only for reading")),
                    false => Ok(()),
                };
            }
            let below = above.as_ref().map_or(folder.as_fd(), AsFd::as_fd);
            let fd = openat(below, "..", OFlags::DIRECTORY | path_only(), Mode::empty()).map_err(broken)?;
            here = identity(fd.as_fd())?;
            above = Some(fd);
        }
        Err(outside(shown, &self.names()))
    }
}

fn refusal(from: Access, shown: &str) -> ToolError {
    let why = match from {
        Access::Read => "belongs to Helve itself, and tools leave it alone",
        Access::Write => {
            "is Helve's own configuration, or what it names to judge tools and to run without a box; tools do \
             not write it"
        }
    };
    forbidden(shown, why)
}

fn path_only() -> OFlags {
    #[cfg(target_os = "linux")]
    return OFlags::PATH | OFlags::CLOEXEC;
    #[cfg(not(target_os = "linux"))]
    return OFlags::RDONLY | OFlags::CLOEXEC;
}

/// A handle through which a folder can be listed, locked and synced.
pub(super) fn readable(folder: impl AsFd) -> rustix::io::Result<OwnedFd> {
    openat(folder, ".", OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
}

pub(super) fn to_os_str(bytes: &[u8]) -> &OsStr {
    std::os::unix::ffi::OsStrExt::from_bytes(bytes)
}

fn is_a_folder(shown: &str) -> ToolError {
    ToolError::failed(format!("`{shown}` is a folder")).suggest("use `file-list` to look into it")
}

/// Opens a regular file for reading. Never waits for the other end of a pipe, and touches no
/// device.
pub(super) fn open_regular(
    folder: impl AsFd,
    name: &OsStr,
    shown: &str,
) -> Result<(std::fs::File, Stat), ToolError> {
    let folder = folder.as_fd();
    // Looked at before it is opened, because opening can do something to a device.
    let before = statat(folder, name, AtFlags::SYMLINK_NOFOLLOW).map_err(|error| {
        if error == Errno::NOENT { near::no_file(folder, name, shown) } else { failed("read", shown, error) }
    })?;
    regular(&before, shown)?;
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOFOLLOW | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = openat(folder, name, flags, Mode::empty()).map_err(|error| failed("read", shown, error))?;
    let stat = fstat(&file).map_err(|error| failed("read", shown, error))?;
    regular(&stat, shown)?;
    Ok((std::fs::File::from(file), stat))
}

/// Refuses what is no regular file.
pub(super) fn regular(stat: &Stat, shown: &str) -> Result<(), ToolError> {
    let what = match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => return Ok(()),
        FileType::Directory => return Err(is_a_folder(shown)),
        FileType::Symlink => "a symbolic link that was just put there",
        FileType::Fifo => "a named pipe",
        FileType::Socket => "a socket",
        FileType::CharacterDevice | FileType::BlockDevice => "a device",
        FileType::Unknown => "of a kind that nobody knows",
    };
    Err(ToolError::failed(format!("`{shown}` is {what}; only regular files are read and written")))
}
