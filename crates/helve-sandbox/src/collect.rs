//! What a program has left in its work directory.

use std::ffi::OsStr;
use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{Dir, FileType, Mode, OFlags, fstat, openat};

/// Deepest folder that is looked into.
const DEPTH_MAX: usize = 32;
/// So many of those that are left out are named.
const NAMED_MAX: usize = 20;

/// A file that a program has left.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileOut {
    /// Where, relative to the work directory.
    pub path: PathBuf,
    /// How large the file is.
    pub bytes: u64,
    /// Whether it can be executed.
    pub executable: bool,
    /// Its content; absent where that would be too much.
    pub content: Option<Vec<u8>>,
}

/// How much is taken.
#[derive(Debug, Clone, Copy)]
pub struct CollectLimits {
    /// Files; further ones are not even listed.
    pub files: usize,
    /// Bytes of one file.
    pub file_bytes: u64,
    /// Bytes of all files together.
    pub total_bytes: u64,
}

/// What is not among the files that were taken.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LeftOut {
    /// How many; a folder that was not looked into counts as one.
    pub count: usize,
    /// The first of them.
    pub paths: Vec<PathBuf>,
}

impl LeftOut {
    /// Notes one more.
    pub fn add(&mut self, path: &Path) {
        self.count += 1;
        if self.paths.len() < NAMED_MAX {
            self.paths.push(path.to_owned());
        }
    }
}

/// The files in a work directory, by path, and what was left out. Links, devices and the like are: what is taken
/// is what lies there, whatever the program has named it.
pub fn collect(
    work_dir: BorrowedFd<'_>,
    limits: CollectLimits,
    wanted: &dyn Fn(&Path) -> bool,
) -> io::Result<(Vec<FileOut>, LeftOut)> {
    let mut taken = Taken { files: Vec::new(), bytes: 0, left_out: LeftOut::default(), limits, wanted };
    taken.folder(open(work_dir, Path::new("."), OFlags::DIRECTORY)?, Path::new(""), 0)?;
    taken.files.sort_by(|a, b| a.path.cmp(&b.path));
    Ok((taken.files, taken.left_out))
}

struct Taken<'w> {
    files: Vec<FileOut>,
    bytes: u64,
    left_out: LeftOut,
    limits: CollectLimits,
    wanted: &'w dyn Fn(&Path) -> bool,
}

impl Taken<'_> {
    fn folder(&mut self, folder: OwnedFd, at: &Path, depth: usize) -> io::Result<()> {
        for entry in Dir::read_from(&folder)? {
            let entry = entry?;
            let name = Path::new(OsStr::from_bytes(entry.file_name().to_bytes()));
            let path = at.join(name);
            if name == Path::new(".") || name == Path::new("..") || !(self.wanted)(&path) {
                continue;
            }
            // One that nobody may open is left out like a link.
            match entry.file_type() {
                FileType::Directory if depth < DEPTH_MAX => {
                    match open(folder.as_fd(), name, OFlags::DIRECTORY) {
                        Ok(inner) => self.folder(inner, &path, depth + 1)?,
                        Err(_) => self.left_out.add(&path),
                    }
                }
                FileType::RegularFile if self.files.len() < self.limits.files => {
                    match open(folder.as_fd(), name, OFlags::NONBLOCK) {
                        Ok(file) => self.file(file, path)?,
                        Err(_) => self.left_out.add(&path),
                    }
                }
                _ => self.left_out.add(&path),
            }
        }
        Ok(())
    }

    fn file(&mut self, file: OwnedFd, path: PathBuf) -> io::Result<()> {
        let stat = fstat(&file)?;
        let bytes = u64::try_from(stat.st_size).unwrap_or(0);
        let fits = bytes <= self.limits.file_bytes && self.bytes + bytes <= self.limits.total_bytes;
        let content = if fits {
            let mut content = Vec::with_capacity(usize::try_from(bytes).unwrap_or(0));
            std::fs::File::from(file).take(bytes).read_to_end(&mut content)?;
            self.bytes += bytes;
            Some(content)
        } else {
            None
        };
        self.files.push(FileOut { path, bytes, executable: stat.st_mode & 0o100 != 0, content });
        Ok(())
    }
}

fn open(folder: BorrowedFd<'_>, name: &Path, kind: OFlags) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW | kind;
    Ok(openat(folder, name, flags, Mode::empty())?)
}
