//! Who keeps the journal locked, where the operating system tells.
//!
//! SQLite's lock is the operating system's, and cannot be broken: a process that is suspended in the middle of a write
//! goes on with it once it wakes. What can be done is to wait for a bounded time, and to name the process.

use std::fmt;
use std::path::Path;

/// A process that keeps the journal locked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Blocker {
    /// The process id, as `ps` shows it.
    pub pid: u32,
    /// Whether it is suspended (`SIGSTOP`), so that it lets go only once it is continued or ended.
    pub is_suspended: bool,
}

impl fmt::Display for Blocker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let pid = self.pid;
        match self.is_suspended {
            true => {
                write!(
                    f,
                    "process {pid} is suspended (`kill -CONT {pid}` lets it go on, `kill -9 {pid}` ends it)"
                )
            }
            false => write!(f, "process {pid} is at work, or hangs (`kill {pid}` ends it)"),
        }
    }
}

impl Blocker {
    /// The process that keeps the database at `path` locked against writing, other than this one.
    #[cfg(target_os = "linux")]
    pub(crate) fn of(path: &Path) -> Option<Self> {
        let locks = std::fs::read_to_string("/proc/locks").ok()?;
        let owners = crate::owners::living_pids(path);
        let pid = linux::holder(&locks, path, std::process::id(), &owners)?;
        Some(Self { pid, is_suspended: linux::is_suspended(pid) })
    }

    /// Only Linux tells who holds a lock without touching it.
    #[cfg(not(target_os = "linux"))]
    pub(crate) fn of(path: &Path) -> Option<Self> {
        match *crate::owners::living_pids(path) {
            // One alone next to us can be meant.
            [pid] => Some(Self { pid, is_suspended: false }),
            _ => None,
        }
    }
}

#[cfg(target_os = "linux")]
mod linux {
    use std::os::unix::fs::MetadataExt as _;
    use std::path::{Path, PathBuf};

    /// The byte of the log's index that a writer locks.
    const WRITE_LOCK: u64 = 120;

    /// Finds the holder in the text of `/proc/locks`: `1: POSIX ADVISORY WRITE 4711 08:01:1234 120 120`.
    pub(super) fn holder(locks: &str, database: &Path, us: u32, owners: &[u32]) -> Option<u32> {
        let mut index = database.as_os_str().to_owned();
        index.push("-shm");
        let index = std::fs::metadata(PathBuf::from(index)).ok()?;
        locks.lines().find_map(|line| {
            let words: Vec<_> = line.split_whitespace().collect();
            // Those who wait for a lock have an arrow before.
            let [_, "POSIX", _, "WRITE", pid, file, first, last] = words[..] else { return None };
            let pid = pid.parse().ok().filter(|pid| *pid != us)?;
            let (device, inode) = file.rsplit_once(':')?;
            let last = if last == "EOF" { u64::MAX } else { last.parse().ok()? };
            let is_write = (first.parse::<u64>().ok()?..=last).contains(&WRITE_LOCK);
            let is_file = inode.parse() == Ok(index.ino());
            // File systems in layers tell another device than their files do; then it must be one of ours.
            let is_known = device == shown(index.dev()) || owners.contains(&pid);
            (is_write && is_file && is_known).then_some(pid)
        })
    }

    /// A device as `/proc/locks` shows it.
    fn shown(device: u64) -> String {
        let major = ((device >> 32) & 0xffff_f000) | ((device >> 8) & 0xfff);
        let minor = ((device >> 12) & 0xffff_ff00) | (device & 0xff);
        format!("{major:02x}:{minor:02x}")
    }

    pub(super) fn is_suspended(pid: u32) -> bool {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        // After the name, which may hold anything.
        let state = stat.rsplit_once(") ").and_then(|(_, rest)| rest.chars().next());
        matches!(state, Some('T' | 't'))
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        #[test]
        fn the_writer_is_told_from_readers_waiters_others_and_us() {
            let folder = tempfile::tempdir().unwrap();
            let database = folder.path().join("j.db");
            let index = folder.path().join("j.db-shm");
            std::fs::write(&index, "").unwrap();
            let found = std::fs::metadata(&index).unwrap();
            let file = format!("{}:{}", shown(found.dev()), found.ino());
            let line = |pid: u32, how: &str, file: &str, range: &str| {
                format!("1: POSIX  ADVISORY  {how} {pid} {file} {range}\n")
            };
            let all = [
                line(1, "READ", &file, "123 123"),
                format!("1: -> POSIX  ADVISORY  WRITE 2 {file} 120 120\n"),
                line(3, "WRITE", "00:00:1", "120 120"),
                line(4, "WRITE", &file, "121 121"),
                line(5, "WRITE", &file, "120 120"),
                line(6, "WRITE", &file, "120 120"),
                "no line at all\n".to_owned(),
            ];
            assert_eq!(holder(&all.concat(), &database, 5, &[]), Some(6));
            assert_eq!(holder(&all[..5].concat(), &database, 5, &[]), None);
            let layered = line(7, "WRITE", &format!("ff:ff:{}", found.ino()), "0 EOF");
            assert_eq!(holder(&layered, &database, 5, &[]), None);
            assert_eq!(holder(&layered, &database, 5, &[7]), Some(7));
        }
    }
}
