//! A repeated trouble is written once, then with a count.
//!
//! A journal that cannot be written or a server that is away is noticed at every call. The same line a
//! thousand times hides what else went wrong, and fills the disk that may be the trouble.

use std::collections::HashMap;
use std::io::{self, Write};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tracing::{Level, Metadata};
use tracing_subscriber::fmt::MakeWriter;

/// How long a line that was written is only counted.
const QUIET: Duration = Duration::from_secs(60);
/// Most lines that are remembered. Others are written as they come.
const LINES_MAX: usize = 256;

/// Makes writers that share what was written lately.
#[derive(Clone, Default)]
pub(super) struct Once(Arc<Mutex<Lately>>);

impl<'a> MakeWriter<'a> for Once {
    type Writer = OnceWriter;

    fn make_writer(&'a self) -> OnceWriter {
        OnceWriter(None)
    }

    fn make_writer_for(&'a self, of: &Metadata<'_>) -> OnceWriter {
        // With details asked for, each of them is wanted.
        let is_trouble = *of.level() <= Level::WARN;
        OnceWriter(is_trouble.then(|| self.clone()))
    }
}

/// Writes one event to standard error, unless it is only counted.
pub(super) struct OnceWriter(Option<Once>);

impl Write for OnceWriter {
    /// The subscriber hands over a whole event at a time.
    fn write(&mut self, event: &[u8]) -> io::Result<usize> {
        let lines = match &self.0 {
            Some(once) => once.lock().note(event, Instant::now()),
            None => event.to_vec(),
        };
        io::stderr().write_all(&lines)?;
        Ok(event.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stderr().flush()
    }
}

impl Once {
    fn lock(&self) -> MutexGuard<'_, Lately> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What was written lately.
#[derive(Default)]
struct Lately(HashMap<Vec<u8>, Seen>);

struct Seen {
    since: Instant,
    repeats: u64,
}

impl Lately {
    /// What to write now that this event happened. Pure: it is told the time.
    fn note(&mut self, event: &[u8], now: Instant) -> Vec<u8> {
        let mut lines = self.take_counts(now);
        match self.0.get_mut(event) {
            Some(seen) => seen.repeats += 1,
            None => {
                lines.extend_from_slice(event);
                if self.0.len() < LINES_MAX {
                    self.0.insert(event.to_vec(), Seen { since: now, repeats: 0 });
                }
            }
        }
        lines
    }

    /// The counts of lines whose time is over, which are forgotten: the next one is written again.
    fn take_counts(&mut self, now: Instant) -> Vec<u8> {
        let mut lines = Vec::new();
        self.0.retain(|line, seen| {
            let is_over = now.duration_since(seen.since) >= QUIET;
            if is_over && seen.repeats > 0 {
                lines.extend_from_slice(line.trim_ascii_end());
                lines.extend_from_slice(format!(" ({} more times)\n", seen.repeats).as_bytes());
            }
            !is_over
        });
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(lines: Vec<u8>) -> String {
        String::from_utf8(lines).unwrap()
    }

    #[test]
    fn a_repeated_line_is_written_once_and_then_with_its_count() {
        let (mut lately, start) = (Lately::default(), Instant::now());
        assert_eq!(text(lately.note(b"WARN full\n", start)), "WARN full\n");
        for second in 1..10 {
            assert_eq!(text(lately.note(b"WARN full\n", start + Duration::from_secs(second))), "");
        }
        assert_eq!(text(lately.note(b"WARN other\n", start + Duration::from_secs(10))), "WARN other\n");
        // Its time is over: the count, and the line again as if it were new.
        let later = text(lately.note(b"WARN full\n", start + QUIET));
        assert_eq!(later, "WARN full (9 more times)\nWARN full\n");
    }

    #[test]
    fn a_count_is_written_when_something_else_happens_next() {
        let (mut lately, start) = (Lately::default(), Instant::now());
        lately.note(b"ERROR a\n", start);
        lately.note(b"ERROR a\n", start);
        assert_eq!(text(lately.note(b"WARN b\n", start + QUIET)), "ERROR a (1 more times)\nWARN b\n");
    }

    #[test]
    fn ever_new_lines_are_all_written_and_not_all_remembered() {
        let (mut lately, now) = (Lately::default(), Instant::now());
        for number in 0..2 * LINES_MAX {
            let line = format!("WARN {number}\n");
            assert_eq!(text(lately.note(line.as_bytes(), now)), line);
        }
        assert_eq!(lately.0.len(), LINES_MAX);
    }
}
