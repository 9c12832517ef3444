//! The file tree of a box: an empty root with the system's programs read-only, a little of `/etc`,
//! five devices, a `/proc` of its own, room to write, and what was granted.

use std::fs;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, symlink};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, openat2};
use rustix::mount::{
    MountFlags, MountPropagationFlags, MoveMountFlags, OpenTreeFlags, UnmountFlags, mount, mount_bind,
    mount_change, mount_remount, move_mount, unmount,
};

use super::sys::restrict_mount;
use crate::wire::Order;

/// Where the tree is built before it becomes the root. Nothing below is ever granted.
const BASE: &str = "/sys";
/// One file system in memory for all that can be written, so that one size bounds it.
const SCRATCH: &str = ".scratch";
/// Its folders, and where they go.
const WRITABLE: [(&str, &str, u32); 3] =
    [("work", "box", 0o700), ("tmp", "tmp", 0o1777), ("shm", "dev/shm", 0o1777)];

/// The system's programs and libraries. Links stay links.
const SYSTEM: [&str; 8] = ["bin", "sbin", "lib", "lib32", "lib64", "libx32", "usr", "nix/store"];
/// What programs look up in `/etc`, and nothing that is private.
const ETC: [&str; 19] = [
    "alternatives",
    "ca-certificates",
    "fonts",
    "gai.conf",
    "java-17-openjdk",
    "ld.so.cache",
    "ld.so.conf",
    "ld.so.conf.d",
    "localtime",
    "magic",
    "mime.types",
    "os-release",
    "pki/tls/certs",
    "protocols",
    "python3",
    "services",
    // Node ends when the file is there and cannot be read.
    "ssl/openssl.cnf",
    "ssl/certs",
    "timezone",
];
const DEVICES: [&str; 5] = ["null", "zero", "full", "random", "urandom"];
const DEVICE_LINKS: [(&str, &str); 4] = [
    ("fd", "/proc/self/fd"),
    ("stdin", "/proc/self/fd/0"),
    ("stdout", "/proc/self/fd/1"),
    ("stderr", "/proc/self/fd/2"),
];

/// Whether the box has a `/proc`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Proc {
    Own,
    None,
}

/// Builds all that no order changes.
pub(super) fn build() -> io::Result<Proc> {
    mount_change("/", MountPropagationFlags::DOWNSTREAM | MountPropagationFlags::REC)?;
    let quiet = MountFlags::NOSUID | MountFlags::NODEV;
    mount("helve", BASE, "tmpfs", quiet, c"size=4m,nr_inodes=4k,mode=755")?;
    rustix::process::chdir(BASE)?;
    SYSTEM.iter().try_for_each(|name| show(&Path::new("/").join(name)))?;
    ETC.iter().try_for_each(|name| show(&Path::new("/etc").join(name)))?;
    write_etc()?;
    build_devices()?;
    build_scratch(quiet)?;
    fs::create_dir("proc")?;
    let proc = mount("proc", "proc", "proc", quiet | MountFlags::NOEXEC, None);
    Ok(if proc.is_ok() { Proc::Own } else { Proc::None })
}

/// Shows a file or folder of the host at the same place, read-only. One that is not there is not
/// missed.
fn show(path: &Path) -> io::Result<()> {
    let Ok(metadata) = fs::symlink_metadata(path) else { return Ok(()) };
    if metadata.is_symlink() {
        let target = inside(path);
        make_parent(&target)?;
        return symlink(fs::read_link(path)?, target);
    }
    let tree = rustix::mount::open_tree(CWD, path, TREE | OpenTreeFlags::AT_SYMLINK_NOFOLLOW)?;
    restrict_mount(tree.as_fd(), true, None)?;
    attach(&tree, path)
}

const TREE: OpenTreeFlags =
    OpenTreeFlags::OPEN_TREE_CLONE.union(OpenTreeFlags::OPEN_TREE_CLOEXEC).union(OpenTreeFlags::AT_RECURSIVE);

/// A file or folder with all that is mounted below it, to be attached elsewhere. With `owners`,
/// what belongs to us on disk belongs to the user of that namespace in the box.
///
/// The path has no links. One that has some by now is refused: a program that runs at the same time could
/// have put a link in the place of a folder since its target was checked.
pub(super) fn open_tree(path: &Path, read_only: bool, owners: Option<BorrowedFd<'_>>) -> io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let place = openat2(CWD, path, flags, Mode::empty(), ResolveFlags::NO_SYMLINKS)?;
    let tree = rustix::mount::open_tree(&place, c"", TREE | OpenTreeFlags::AT_EMPTY_PATH)?;
    restrict_mount(tree.as_fd(), read_only, owners)?;
    Ok(tree)
}

/// Attaches a tree at the place that `path` has in the box.
fn attach(tree: &OwnedFd, path: &Path) -> io::Result<()> {
    let target = inside(path);
    let is_folder = fs::File::from(tree.try_clone()?).metadata()?.is_dir();
    if fs::symlink_metadata(&target).is_err() {
        make_parent(&target)?;
        match is_folder {
            true => fs::create_dir(&target)?,
            false => drop(fs::OpenOptions::new().write(true).create_new(true).mode(0o444).open(&target)?),
        }
    }
    move_mount(tree, c"", CWD, &target, MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH)?;
    Ok(())
}

/// Where a path of the host is in the tree, in which we stand.
fn inside(path: &Path) -> PathBuf {
    path.strip_prefix("/").unwrap_or(path).to_owned()
}

fn make_parent(target: &Path) -> io::Result<()> {
    let parent = target.parent().unwrap_or(target);
    fs::DirBuilder::new().recursive(true).mode(0o755).create(parent)
}

/// Names for the one user of the box, and for its one host.
fn write_etc() -> io::Result<()> {
    let (user, group) = (rustix::process::getuid().as_raw(), rustix::process::getgid().as_raw());
    fs::create_dir_all("etc")?;
    fs::write("etc/passwd", format!("agent:x:{user}:{group}:agent:/box:/bin/sh\n"))?;
    fs::write("etc/group", format!("agent:x:{group}:\n"))?;
    fs::write("etc/hosts", "127.0.0.1 localhost helve\n::1 localhost\n")?;
    fs::write("etc/hostname", "helve\n")?;
    fs::write("etc/nsswitch.conf", "passwd: files\ngroup: files\nhosts: files\n")?;
    // No name server can be reached: names are the proxy's to look up.
    fs::write("etc/resolv.conf", "")
}

fn build_devices() -> io::Result<()> {
    fs::create_dir("dev")?;
    for name in DEVICES {
        let target = Path::new("dev").join(name);
        fs::write(&target, "")?;
        mount_bind(Path::new("/dev").join(name), &target)?;
    }
    DEVICE_LINKS.iter().try_for_each(|(name, to)| symlink(to, Path::new("dev").join(name)))
}

fn build_scratch(quiet: MountFlags) -> io::Result<()> {
    fs::create_dir(SCRATCH)?;
    mount("helve-scratch", SCRATCH, "tmpfs", quiet, c"size=1m,mode=755")?;
    for (name, target, mode) in WRITABLE {
        let source = Path::new(SCRATCH).join(name);
        fs::DirBuilder::new().mode(mode).create(&source)?;
        fs::set_permissions(&source, std::os::unix::fs::PermissionsExt::from_mode(mode))?;
        fs::DirBuilder::new().recursive(true).create(target)?;
        mount_bind(&source, target)?;
    }
    unmount(SCRATCH, UnmountFlags::DETACH)?;
    fs::remove_dir(SCRATCH)
}

/// Puts nothing in the place of a file or folder.
fn hide(target: &Path) -> io::Result<()> {
    match fs::symlink_metadata(target) {
        Ok(metadata) if metadata.is_dir() => {
            let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC | MountFlags::RDONLY;
            Ok(mount("helve-hidden", target, "tmpfs", flags, c"size=4k,nr_inodes=2,mode=0")?)
        }
        Ok(_) => Ok(mount_bind("dev/null", target)?),
        Err(_) => Ok(()),
    }
}

/// Makes the tree the root, and lets go of the host's. What is granted later must come as a
/// descriptor. Takes the kernel longer than all else, so it is done early where it can be.
pub(super) fn enter() -> io::Result<()> {
    rustix::process::pivot_root(c".", c".")?;
    // Two trees are at `.` now, the old one on top.
    unmount(c".", UnmountFlags::DETACH)?;
    Ok(rustix::process::chdir("/")?)
}

/// Adds what an order brings, and closes the tree. `entered`: it is the root already, and grants come
/// opened.
pub(super) fn finish(order: &Order, opened: Vec<OwnedFd>, entered: bool) -> io::Result<()> {
    // Nothing would mean no bound at all.
    let work_bytes = order.limits.work_bytes.max(1 << 12);
    let room = format!("size={work_bytes},nr_inodes={}", (work_bytes / 4096).clamp(1024, 262_144));
    mount_remount("box", MountFlags::NOSUID | MountFlags::NODEV, room.as_str())?;
    let mut opened = opened.into_iter();
    // A grant within another must come after it, or it would be covered.
    let mut trees = order
        .grants
        .iter()
        .map(|grant| {
            let tree = match opened.next() {
                Some(tree) => tree,
                None => open_tree(&grant.path, !grant.writable, None)?,
            };
            Ok((grant, tree))
        })
        .collect::<io::Result<Vec<_>>>()?;
    trees.sort_by_key(|(grant, _)| grant.path.components().count());
    for (grant, tree) in &trees {
        attach(tree, &grant.path)
            .map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", grant.path.display())))?;
        if let Some(link) = &grant.link
            && fs::symlink_metadata(inside(link)).is_err()
            && make_parent(&inside(link)).is_ok()
        {
            let _ = symlink(&grant.path, inside(link));
        }
    }
    order.hidden.iter().try_for_each(|path| hide(&inside(path)))?;
    if !entered {
        enter()?;
    }
    mount_remount("/", MountFlags::BIND | MountFlags::RDONLY | MountFlags::NOSUID | MountFlags::NODEV, c"")?;
    Ok(())
}
