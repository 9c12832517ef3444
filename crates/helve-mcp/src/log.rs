//! The last words of a server: what it wrote beside its messages.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use jiff::Timestamp;
use serde::Serialize;

use crate::text;

/// How much is kept of one server.
const LINES_MAX: usize = 1_000;
const LINE_BYTES_MAX: usize = 2_000;

/// Where a line is from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    /// The server's standard error.
    Stderr,
    /// A log message in the protocol.
    Server,
    /// Something that it wrote where messages belong and is none.
    Noise,
    /// A remark of ours.
    Helve,
}

/// A line of a server's log.
#[derive(Debug, Clone, Serialize)]
pub struct Line {
    /// Counts up from 1 over all lines of a server.
    pub number: u64,
    /// When.
    pub at: Timestamp,
    /// Where it is from.
    pub source: Source,
    /// What it says, cleaned.
    pub text: String,
}

/// The last lines of a server, in a ring.
#[derive(Debug, Default)]
pub struct Log(Mutex<Ring>);

#[derive(Debug, Default)]
struct Ring {
    lines: VecDeque<Line>,
    count: u64,
}

impl Log {
    /// Adds what was written, line by line.
    pub fn add(&self, source: Source, text: &str) {
        let mut ring = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for line in text.lines().filter(|line| !line.trim().is_empty()) {
            let end = line.floor_char_boundary(LINE_BYTES_MAX);
            ring.count += 1;
            let number = ring.count;
            let text = text::clean(&line[..end]).text.into_owned();
            if ring.lines.len() == LINES_MAX {
                ring.lines.pop_front();
            }
            ring.lines.push_back(Line { number, at: Timestamp::now(), source, text });
        }
    }

    /// The last `limit` lines, oldest first.
    pub fn last(&self, limit: usize) -> Vec<Line> {
        let ring = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        ring.lines.iter().skip(ring.lines.len().saturating_sub(limit)).cloned().collect()
    }

    /// The last line from standard error that speaks of an error, or else the last one: often why a
    /// server ended.
    pub fn last_words(&self) -> Option<String> {
        let ring = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut words = ring.lines.iter().rev().filter(|line| line.source == Source::Stderr);
        let last = words.clone().next();
        words.find(|line| line.text.contains("rror")).or(last).map(|line| line.text.clone())
    }
}
