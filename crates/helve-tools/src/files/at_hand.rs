//! Whether a file can be read without waiting for a disk.
//!
//! To hand work to another thread and back costs more than to read most files. So what is in memory,
//! on a disk of this machine, is read where one stands. Whatever is not certain counts as not at hand.

use std::fs::File;
use std::os::fd::BorrowedFd;
use std::path::Path;

/// Larger files are never at hand: reading them would hold up the others that this thread serves.
const BYTES_MAX: u64 = 1 << 20;

/// Whether the way from a folder to a file is in memory: no link, no other disk, nothing to look up.
/// To be asked of a folder [on a disk of this machine](is_local) only.
#[cfg(target_os = "linux")]
pub(super) fn is_known(root: BorrowedFd<'_>, path: &Path) -> bool {
    use rustix::fs::{Mode, OFlags, ResolveFlags, openat2};
    let resolve =
        ResolveFlags::CACHED | ResolveFlags::BENEATH | ResolveFlags::NO_XDEV | ResolveFlags::NO_SYMLINKS;
    openat2(root, path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty(), resolve).is_ok()
}

/// Whether a file is small and in memory. It is looked at in places, which is nearly always right; where
/// it is not, one read waits for a disk.
#[cfg(target_os = "linux")]
pub(super) fn is_in_memory(file: &File, size: u64) -> bool {
    use std::io::IoSliceMut;

    use rustix::io::{ReadWriteFlags, preadv2};
    const APART: usize = 256 << 10;
    let mut byte = [0];
    size <= BYTES_MAX
        && (0..size)
            .step_by(APART)
            .all(|at| preadv2(file, &mut [IoSliceMut::new(&mut byte)], at, ReadWriteFlags::NOWAIT) == Ok(1))
}

/// Whether a folder is on a disk of this machine, and not on one that a network or a program serves.
#[cfg(target_os = "linux")]
pub(super) fn is_local(folder: BorrowedFd<'_>) -> bool {
    // Of ext2 to ext4, XFS, Btrfs, F2FS and tmpfs, as in the kernel's `magic.h`.
    const LOCAL: [u64; 5] = [0xef53, 0x5846_5342, 0x9123_683e, 0xf2f5_2010, 0x0102_1994];
    rustix::fs::fstatfs(folder)
        .is_ok_and(|about| u64::try_from(about.f_type).is_ok_and(|kind| LOCAL.contains(&kind)))
}

#[cfg(not(target_os = "linux"))]
pub(super) fn is_known(_: BorrowedFd<'_>, _: &Path) -> bool {
    false
}

#[cfg(not(target_os = "linux"))]
pub(super) fn is_in_memory(_: &File, _: u64) -> bool {
    false
}

#[cfg(not(target_os = "linux"))]
pub(super) fn is_local(_: BorrowedFd<'_>) -> bool {
    false
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::os::fd::AsFd;

    use super::*;

    /// A file that was just written is in memory. Where the disk is of another sort, nothing is at hand.
    #[test]
    fn what_was_just_written_is_at_hand() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("sub")).unwrap();
        std::fs::write(folder.path().join("sub/file"), [b'x'; 200_000]).unwrap();
        std::os::unix::fs::symlink("sub/file", folder.path().join("link")).unwrap();
        let root = File::open(folder.path()).unwrap();
        assert!(is_known(root.as_fd(), Path::new("sub/file")));
        assert!(!is_known(root.as_fd(), Path::new("link")), "links may lead anywhere");
        assert!(!is_known(root.as_fd(), Path::new("../x")));
        assert!(!is_known(root.as_fd(), Path::new("never/looked/up")));
        let file = File::open(folder.path().join("sub/file")).unwrap();
        if is_local(root.as_fd()) {
            assert!(is_in_memory(&file, 200_000));
        }
        assert!(!is_in_memory(&file, 300_000), "there is nothing to read at its end");
        assert!(!is_in_memory(&file, BYTES_MAX + 1));
        assert!(!is_local(File::open("/proc").unwrap().as_fd()));
    }
}
