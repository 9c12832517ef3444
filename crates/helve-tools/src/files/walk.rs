//! Goes through folders by their handles, and follows no link.

use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use helve::ToolError;
use ignore::Match;
use ignore::gitignore::{Gitignore, GitignoreBuilder};
use ignore::overrides::{Override, OverrideBuilder};
use rustix::fs::{AtFlags, FileType, Mode, OFlags, Stat, fstat, openat, statat};

use super::atomic::is_temporary;
use super::root::{Identity, Place, Roots, open_regular, readable, to_os_str};
use crate::builtin::wrong_argument;

/// Most names that are read of one folder.
const NAMES_MAX: usize = 200_000;
/// Longest ignore file, in bytes; of a longer one nothing is read.
const IGNORE_BYTES_MAX: u64 = 1 << 20;
const IGNORE_FILES: [&str; 2] = [".gitignore", ".ignore"];
const GLOBS_MAX: usize = 50;
const GLOB_BYTES_MAX: usize = 1_000;

/// What is left out.
pub(super) struct Filter {
    pub(super) hidden: bool,
    pub(super) gitignore: bool,
    pub(super) globs: Override,
}

impl Filter {
    /// Reads globs as ripgrep does: `!` excludes, and one without a slash holds at every depth.
    pub(super) fn globs(globs: &[String], field: &str) -> Result<Override, ToolError> {
        let refuse =
            |glob: &str, problem: &str| Err(wrong_argument(field, "a glob such as `*.rs`", glob, problem));
        if globs.len() > GLOBS_MAX {
            return refuse("", "there are too many; at most 50");
        }
        let mut builder = OverrideBuilder::new(".");
        for glob in globs {
            if glob.len() > GLOB_BYTES_MAX {
                return refuse(glob, "it is too long for a glob");
            }
            if let Err(error) = builder.add(glob) {
                return refuse(glob, &format!("`{glob}` is not a glob: {error}"));
            }
        }
        match builder.build() {
            Ok(globs) => Ok(globs),
            Err(error) => refuse("", &format!("the globs do not work together: {error}")),
        }
    }
}

/// A folder that is open, with the ignore files that hold in it.
#[derive(Clone)]
pub(super) struct Folder {
    pub(super) fd: Arc<OwnedFd>,
    /// From where the walk started.
    pub(super) path: PathBuf,
    pub(super) depth: usize,
    ignores: Option<Arc<Ignores>>,
}

/// The ignore files of a folder, over those of the folders above it.
struct Ignores {
    above: Option<Arc<Ignores>>,
    /// The folder's path, from the root.
    base: PathBuf,
    rules: Gitignore,
}

/// Something in a folder.
pub(super) struct Entry {
    pub(super) name: OsString,
    pub(super) kind: FileType,
    /// Whether a glob asks for it. Always, where there are none.
    pub(super) wanted: bool,
}

/// A walk through the folders below a place.
pub(super) struct Walk {
    private: Vec<Identity>,
    filter: Filter,
    /// The place's path from its root: ignore files above it hold too.
    start: PathBuf,
}

impl Walk {
    /// Starts at a place.
    pub(super) fn new(roots: &Roots, place: &Place<'_>, filter: Filter) -> Result<(Self, Folder), ToolError> {
        let fd = Arc::new(roots.folder(place)?);
        let mut ignores = None;
        if filter.gitignore {
            // From the root down to the place, itself left out: it is read with its entries.
            for above in place.above() {
                if let Ok(folder) = roots.folder(&above) {
                    ignores = ignores_of(&folder, above.path().to_owned(), ignores, &IGNORE_FILES);
                }
            }
        }
        let walk = Self { private: roots.private(), filter, start: place.path().to_owned() };
        Ok((walk, Folder { fd, path: PathBuf::new(), depth: 0, ignores }))
    }

    /// What is in a folder, without what is left out; and whether that is all of it.
    pub(super) fn entries(&self, folder: &mut Folder) -> rustix::io::Result<(Vec<Entry>, bool)> {
        let mut names = Vec::new();
        let mut ignore_files = Vec::new();
        let mut complete = true;
        for entry in rustix::fs::Dir::new(readable(&folder.fd)?)? {
            let entry = entry?;
            let name = to_os_str(entry.file_name().to_bytes());
            if name == "." || name == ".." || is_temporary(name) {
                continue;
            }
            if names.len() >= NAMES_MAX {
                complete = false;
                break;
            }
            if let Some(file) = IGNORE_FILES.iter().find(|file| name == **file) {
                ignore_files.push(*file);
            }
            if !self.filter.hidden && name.as_encoded_bytes().first() == Some(&b'.') {
                continue;
            }
            names.push((name.to_owned(), entry.file_type()));
        }
        if self.filter.gitignore && !ignore_files.is_empty() {
            // Later ones win, whatever order the folder has them in.
            ignore_files.sort_by_key(|file| IGNORE_FILES.iter().position(|one| one == file));
            let base = self.start.join(&folder.path);
            folder.ignores = ignores_of(&folder.fd, base, folder.ignores.take(), &ignore_files);
        }
        let entries = names.into_iter().filter_map(|(name, kind)| self.keep(folder, name, kind)).collect();
        Ok((entries, complete))
    }

    fn keep(&self, folder: &Folder, name: OsString, kind: FileType) -> Option<Entry> {
        // Some file systems do not say.
        let kind = match kind {
            FileType::Unknown => {
                let stat = statat(&folder.fd, &name, AtFlags::SYMLINK_NOFOLLOW).ok()?;
                FileType::from_raw_mode(stat.st_mode)
            }
            known => known,
        };
        let is_folder = kind == FileType::Directory;
        let mut wanted = true;
        if !self.filter.globs.is_empty() {
            wanted = match self.filter.globs.matched(folder.path.join(&name), is_folder) {
                Match::Ignore(_) => return None,
                Match::Whitelist(_) => true,
                Match::None => self.filter.globs.num_whitelists() == 0,
            };
        }
        if let Some(ignores) = &folder.ignores
            && ignores.leave_out(&self.start.join(&folder.path).join(&name), is_folder)
        {
            return None;
        }
        // What git keeps for itself is no part of a project.
        if self.filter.gitignore && name == ".git" {
            return None;
        }
        Some(Entry { name, kind, wanted })
    }

    /// Whether something is Helve's own.
    pub(super) fn is_private(&self, stat: &Stat) -> bool {
        self.private.contains(&Identity::of(stat))
    }

    /// Opens a folder in a folder; nothing where it is gone, or Helve's own.
    pub(super) fn enter(&self, folder: &Folder, name: &OsStr) -> Option<Folder> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let fd = openat(&folder.fd, name, flags, Mode::empty()).ok()?;
        if self.is_private(&fstat(&fd).ok()?) {
            return None;
        }
        Some(Folder {
            fd: Arc::new(fd),
            path: folder.path.join(name),
            depth: folder.depth + 1,
            ignores: folder.ignores.clone(),
        })
    }
}

impl Ignores {
    /// Whether a path from the root is to be left out: the nearest ignore file that says anything
    /// about it decides.
    fn leave_out(&self, path: &Path, is_folder: bool) -> bool {
        let mut next = Some(self);
        while let Some(ignores) = next {
            let below = path.strip_prefix(&ignores.base).unwrap_or(path);
            match ignores.rules.matched(below, is_folder) {
                Match::Ignore(_) => return true,
                Match::Whitelist(_) => return false,
                Match::None => next = ignores.above.as_deref(),
            }
        }
        false
    }
}

fn ignores_of(
    folder: impl AsFd,
    base: PathBuf,
    above: Option<Arc<Ignores>>,
    files: &[&str],
) -> Option<Arc<Ignores>> {
    use std::io::Read;
    let mut builder = GitignoreBuilder::new(".");
    for file in files {
        if statat(folder.as_fd(), *file, AtFlags::SYMLINK_NOFOLLOW).is_err() {
            continue;
        }
        let Ok((opened, stat)) = open_regular(folder.as_fd(), OsStr::new(file), file) else { continue };
        let mut text = String::new();
        let is_small = u64::try_from(stat.st_size).is_ok_and(|size| size <= IGNORE_BYTES_MAX);
        if is_small && opened.take(IGNORE_BYTES_MAX).read_to_string(&mut text).is_ok() {
            for line in text.lines() {
                // A line that is no pattern says nothing, as in git.
                let _ = builder.add_line(None, line);
            }
        }
    }
    match builder.build() {
        Ok(rules) if !rules.is_empty() => Some(Arc::new(Ignores { above, base, rules })),
        Ok(_) | Err(_) => above,
    }
}
