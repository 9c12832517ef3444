//! Several threads that search files together.

use std::ffi::{OsStr, OsString};
use std::io::Read;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Instant;

use grep_regex::RegexMatcher;
use grep_searcher::{BinaryDetection, MmapChoice, Searcher, SearcherBuilder};
use helve::{Context, ToolError};
use rustix::fs::{FileType, Mode, OFlags, fstat, openat};

use super::super::root::{Spot, open_regular};
use super::super::walk::{Folder, Walk};
use super::matches::{Lines, SearchTotals, Tally};

/// More do not help: the disk is what we wait for.
const THREADS_MAX: usize = 8;
/// Files of one folder that one thread takes at once.
const FILES_AT_ONCE: usize = 64;
/// Longest line that is searched, in bytes.
const HEAP_BYTES_MAX: usize = 16 << 20;
const DEPTH_MAX: usize = 128;

/// What all threads know.
pub(super) struct Crew {
    pub(super) matcher: RegexMatcher,
    pub(super) context_lines: usize,
    pub(super) files_only: bool,
    pub(super) matches_max: usize,
    pub(super) until: Instant,
    pub(super) context: Context,
    /// What stands before the paths of the walk, to make them paths of a root.
    pub(super) prefix: String,
}

enum Job {
    Look(Folder),
    Search { fd: Arc<OwnedFd>, folder: Arc<Path>, names: Vec<OsString> },
}

/// What is to be done, and by how many it still could grow.
#[derive(Default)]
struct Queue {
    jobs: Vec<Job>,
    at_work: usize,
}

impl Crew {
    /// Searches one file.
    pub(super) fn search_one(&self, spot: &Spot) -> Result<SearchTotals, ToolError> {
        let tally = self.tally();
        let (file, _) = open_regular(&spot.folder, &spot.name, &spot.shown)?;
        self.search_file(&mut self.searcher(), &file, &tally, &|| spot.shown.clone());
        Ok(tally.finish())
    }

    /// Searches all files of a walk.
    pub(super) fn search(&self, walk: &Walk, folder: Folder) -> SearchTotals {
        let tally = self.tally();
        let queue = Mutex::new(Queue { jobs: vec![Job::Look(folder)], at_work: 0 });
        let more = Condvar::new();
        let threads = std::thread::available_parallelism().map_or(2, usize::from).min(THREADS_MAX);
        std::thread::scope(|scope| {
            for _ in 1..threads {
                scope.spawn(|| self.work(walk, &tally, &queue, &more));
            }
            self.work(walk, &tally, &queue, &more);
        });
        tally.finish()
    }

    fn work(&self, walk: &Walk, tally: &Tally, queue: &Mutex<Queue>, more: &Condvar) {
        let mut searcher = self.searcher();
        let lock = || queue.lock().unwrap_or_else(PoisonError::into_inner);
        let mut guard = lock();
        loop {
            if let Some(job) = guard.jobs.pop() {
                guard.at_work += 1;
                drop(guard);
                let made = match tally.goes_on() {
                    true => self.take(walk, tally, &mut searcher, job),
                    false => Vec::new(),
                };
                guard = lock();
                guard.at_work -= 1;
                guard.jobs.extend(made);
                more.notify_all();
            } else if guard.at_work == 0 {
                return;
            } else {
                guard = more.wait(guard).unwrap_or_else(PoisonError::into_inner);
            }
        }
    }

    /// Does one job; gives those that come of it.
    fn take(&self, walk: &Walk, tally: &Tally, searcher: &mut Searcher, job: Job) -> Vec<Job> {
        match job {
            Job::Look(folder) => look(walk, folder),
            Job::Search { fd, folder, names } => {
                for name in names {
                    if !tally.goes_on() {
                        break;
                    }
                    let Some(file) = open(&fd, &name, walk) else { continue };
                    let path = || Path::new(&self.prefix).join(&folder).join(&name).display().to_string();
                    self.search_file(searcher, &file, tally, &path);
                }
                Vec::new()
            }
        }
    }

    fn search_file(
        &self,
        searcher: &mut Searcher,
        file: &std::fs::File,
        tally: &Tally,
        path: &dyn Fn() -> String,
    ) {
        let mut lines = Lines {
            tally,
            matcher: &self.matcher,
            path,
            context_lines: self.context_lines,
            files_only: self.files_only,
            hits_max: self.matches_max + 1,
            hits: Vec::new(),
            has_match: false,
            is_binary: false,
            before: Vec::new(),
        };
        tally.searched.fetch_add(1, Ordering::Relaxed);
        // A file that cannot be read, or with a line beyond all bounds, is passed over.
        if let Err(error) = searcher.search_reader(&self.matcher, Stoppable { file, tally }, &mut lines) {
            tracing::debug!(%error, path = path(), "a file could not be searched to its end");
        }
        if lines.has_match && !lines.is_binary {
            tally.add(&path(), lines.hits);
        }
    }

    fn tally(&self) -> Tally {
        Tally::new(self.matches_max, self.until, self.context.clone())
    }

    fn searcher(&self) -> Searcher {
        SearcherBuilder::new()
            .line_number(!self.files_only)
            .before_context(self.context_lines)
            .after_context(self.context_lines)
            .binary_detection(BinaryDetection::quit(0))
            .memory_map(MmapChoice::never())
            .heap_limit(Some(HEAP_BYTES_MAX))
            .build()
    }
}

/// A file that ends when the time is over: one without matches would be read to its own end, however far that is.
struct Stoppable<'f> {
    file: &'f std::fs::File,
    tally: &'f Tally,
}

impl Read for Stoppable<'_> {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        if self.tally.goes_on() { self.file.read(into) } else { Ok(0) }
    }
}

/// Reads a folder; gives jobs for what is in it.
fn look(walk: &Walk, mut folder: Folder) -> Vec<Job> {
    let Ok((entries, _)) = walk.entries(&mut folder) else { return Vec::new() };
    let (mut folders, mut names) = (Vec::new(), Vec::new());
    for entry in entries {
        match entry.kind {
            FileType::Directory if folder.depth < DEPTH_MAX => {
                folders.extend(walk.enter(&folder, &entry.name))
            }
            FileType::RegularFile if entry.wanted => names.push(entry.name),
            _ => {}
        }
    }
    let path: Arc<Path> = Arc::from(folder.path.as_path());
    let mut jobs: Vec<_> = folders.into_iter().map(Job::Look).collect();
    while !names.is_empty() {
        let rest = names.split_off(names.len().min(FILES_AT_ONCE));
        jobs.push(Job::Search { fd: Arc::clone(&folder.fd), folder: Arc::clone(&path), names });
        names = rest;
    }
    jobs
}

/// Opens a regular file; nothing where it is gone, no regular file any more, or Helve's own.
fn open(folder: impl AsFd, name: &OsStr, walk: &Walk) -> Option<std::fs::File> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOFOLLOW | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = openat(folder, name, flags, Mode::empty()).ok()?;
    let stat = fstat(&file).ok()?;
    let is_file = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
    (is_file && !walk.is_private(&stat)).then(|| std::fs::File::from(file))
}
