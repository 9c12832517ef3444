//! The folder that saved answers go into.

use std::io;
use std::path::{Path, PathBuf};

use cap_std::ambient_authority;
use cap_std::fs::Dir;
use helve_sandbox::{Unwritable, Way};

/// The folder that saved answers go into, and what is Helve's own and stays out of it.
///
/// INVARIANT: nothing is saved where something of Helve's own lies in the folder, or the folder in it. This
/// is asked at every save, because the lists grow and links change.
#[derive(Debug)]
pub struct Downloads {
    /// A handle, so no path and no link leads out of it.
    dir: Dir,
    /// Its path without links.
    real: PathBuf,
    own: Vec<Unwritable>,
}

impl Downloads {
    /// Opens a folder, and refuses one that comes near to what is Helve's own.
    pub fn open(folder: &Path, own: Vec<Unwritable>) -> io::Result<Self> {
        let dir = Dir::open_ambient_dir(folder, ambient_authority())?;
        let downloads = Self { dir, real: folder.canonicalize()?, own };
        downloads.check()?;
        Ok(downloads)
    }

    /// The folder, to save something now.
    pub(super) fn to_save(&self) -> io::Result<&Dir> {
        self.check()?;
        Ok(&self.dir)
    }

    /// The folder, to take back what was saved.
    pub(super) fn dir(&self) -> &Dir {
        &self.dir
    }

    fn check(&self) -> io::Result<()> {
        // What is asked is asked of a path, so the handle must still be what the path leads to.
        if !is_at(&self.dir, &self.real)? {
            return Err(io::Error::other("it was moved, or something else is in its place"));
        }
        let near = |name: &Path| name.starts_with(&self.real) || self.real.starts_with(name);
        match self.own.iter().flat_map(Unwritable::ways).any(|way: Way| way.names().any(near)) {
            true => Err(io::Error::other("it holds what is Helve's own, or lies in it")),
            false => Ok(()),
        }
    }
}

/// Whether a handle is that of the folder at a path without links.
#[cfg(unix)]
fn is_at(dir: &Dir, path: &Path) -> io::Result<bool> {
    use std::os::unix::fs::MetadataExt as _;

    use cap_std::fs::MetadataExt as _;
    let (opened, found) = (dir.dir_metadata()?, std::fs::symlink_metadata(path)?);
    Ok((opened.dev(), opened.ino()) == (found.dev(), found.ino()) && path.canonicalize()? == path)
}

#[cfg(not(unix))]
fn is_at(_: &Dir, path: &Path) -> io::Result<bool> {
    Ok(path.canonicalize()? == path)
}
