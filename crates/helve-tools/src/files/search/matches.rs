//! What a search has found, within its bounds.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

use grep_matcher::Matcher;
use grep_regex::RegexMatcher;
use grep_searcher::{Searcher, Sink, SinkContext, SinkContextKind, SinkMatch};
use helve::Context;

use super::Hit;

/// Longest line that is shown, in bytes.
const LINE_BYTES_MAX: usize = 500;
/// Most bytes of lines that are returned.
const TEXT_BYTES_MAX: usize = 256 << 10;

/// Why a search did not look at everything.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Why {
    Matches,
    Bytes,
    Time,
    Cancelled,
}

impl Why {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Matches => {
                "there are more matches than `max_matches`; narrow the pattern, the path or the globs"
            }
            Self::Bytes => {
                "the matching lines are too long to show all; narrow the pattern, the path or the globs"
            }
            Self::Time => "the time was over before all files were searched; narrow the path or the globs",
            Self::Cancelled => "the call was taken back",
        }
    }
}

/// What was found in all.
pub(super) struct SearchTotals {
    pub(super) hits: Vec<Hit>,
    pub(super) paths: Vec<String>,
    pub(super) searched: u64,
    pub(super) matched: u64,
    pub(super) why: Option<Why>,
}

/// What several threads have found so far.
pub(super) struct Tally {
    room: Mutex<Room>,
    pub(super) stop: AtomicBool,
    pub(super) searched: AtomicU64,
    until: Instant,
    context: Context,
}

struct Room {
    hits: Vec<Hit>,
    paths: Vec<String>,
    matches_left: usize,
    bytes_left: usize,
    matched: u64,
    why: Option<Why>,
}

impl Tally {
    pub(super) fn new(matches_max: usize, until: Instant, context: Context) -> Self {
        let room = Room {
            hits: Vec::new(),
            paths: Vec::new(),
            matches_left: matches_max,
            bytes_left: TEXT_BYTES_MAX,
            matched: 0,
            why: None,
        };
        Self {
            room: Mutex::new(room),
            stop: AtomicBool::new(false),
            searched: AtomicU64::new(0),
            until,
            context,
        }
    }

    /// Whether to go on. Asked for each file, and now and then within one.
    pub(super) fn goes_on(&self) -> bool {
        if self.stop.load(Ordering::Relaxed) {
            return false;
        }
        if self.context.is_cancelled() {
            self.halt(Why::Cancelled);
        } else if Instant::now() >= self.until {
            self.halt(Why::Time);
        }
        !self.stop.load(Ordering::Relaxed)
    }

    fn halt(&self, why: Why) {
        self.room().why.get_or_insert(why);
        self.stop.store(true, Ordering::Relaxed);
    }

    fn room(&self) -> std::sync::MutexGuard<'_, Room> {
        self.room.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// Adds what was found in one file.
    pub(super) fn add(&self, path: &str, hits: Vec<Hit>) {
        let mut room = self.room();
        room.matched += 1;
        if hits.is_empty() {
            match room.matches_left.checked_sub(1) {
                Some(left) => {
                    room.matches_left = left;
                    room.paths.push(path.to_owned());
                }
                None => room.why = Some(Why::Matches),
            }
        }
        for hit in hits {
            let bytes = hit.text.len() + hit.before.iter().chain(&hit.after).map(String::len).sum::<usize>();
            if room.matches_left == 0 || room.bytes_left < bytes {
                room.why = Some(if room.matches_left == 0 { Why::Matches } else { Why::Bytes });
                break;
            }
            room.matches_left -= 1;
            room.bytes_left -= bytes;
            room.hits.push(hit);
        }
        if room.why.is_some() {
            self.stop.store(true, Ordering::Relaxed);
        }
    }

    pub(super) fn finish(self) -> SearchTotals {
        let room = self.room.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
        SearchTotals {
            hits: room.hits,
            paths: room.paths,
            searched: self.searched.into_inner(),
            matched: room.matched,
            why: room.why,
        }
    }
}

/// Collects the matches of one file.
pub(super) struct Lines<'t> {
    pub(super) tally: &'t Tally,
    pub(super) matcher: &'t RegexMatcher,
    pub(super) path: &'t dyn Fn() -> String,
    pub(super) context_lines: usize,
    pub(super) files_only: bool,
    /// One more than may be returned, to know that there are more.
    pub(super) hits_max: usize,
    pub(super) hits: Vec<Hit>,
    pub(super) has_match: bool,
    pub(super) is_binary: bool,
    pub(super) before: Vec<String>,
}

impl Sink for Lines<'_> {
    type Error = std::io::Error;

    fn matched(&mut self, _: &Searcher, found: &SinkMatch<'_>) -> Result<bool, Self::Error> {
        self.has_match = true;
        if self.files_only {
            return Ok(false);
        }
        let bytes = found.bytes();
        let column = self.matcher.find(bytes).ok().flatten().map_or(1, |at| at.start() as u64 + 1);
        self.hits.push(Hit {
            path: (self.path)(),
            line: found.line_number().unwrap_or(0),
            column,
            text: shown(bytes),
            before: std::mem::take(&mut self.before),
            after: Vec::new(),
        });
        Ok(self.hits.len() < self.hits_max && self.tally.goes_on())
    }

    fn context(&mut self, _: &Searcher, line: &SinkContext<'_>) -> Result<bool, Self::Error> {
        match line.kind() {
            SinkContextKind::Before => self.before.push(shown(line.bytes())),
            SinkContextKind::After | SinkContextKind::Other => {
                if let Some(hit) = self.hits.last_mut()
                    && hit.after.len() < self.context_lines
                {
                    hit.after.push(shown(line.bytes()));
                }
            }
        }
        Ok(true)
    }

    fn binary_data(&mut self, _: &Searcher, _: u64) -> Result<bool, Self::Error> {
        self.is_binary = true;
        Ok(false)
    }
}

/// A line as it is shown: without its end, as text, and not too long.
fn shown(line: &[u8]) -> String {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    let cut = &line[..line.len().min(LINE_BYTES_MAX)];
    let text = String::from_utf8_lossy(cut).into_owned();
    if cut.len() < line.len() { text.trim_end_matches('\u{FFFD}').to_owned() + "…" } else { text }
}
