//! The last words of a server: what it wrote besides its messages.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use secrecy::{ExposeSecret, SecretString};
use serde::{Deserialize, Serialize};

use crate::text;

/// How much is kept of one server.
const LINES_MAX: usize = 1_000;
const LINE_BYTES_MAX: usize = 2_000;
/// The shortest secret that is left out of what a server writes: less would tear words apart.
const SECRET_BYTES_MIN: usize = 8;
/// How many secrets of one server are known, the latest.
const SECRETS_MAX: usize = 256;
/// How much of a flood goes to the file, in bytes a second.
const FILE_BYTES_A_SECOND: u64 = 256 << 10;

/// Where a line is from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[schemars(rename = "LogSource")]
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

impl Source {
    /// The word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Stderr => "stderr",
            Self::Server => "server",
            Self::Noise => "noise",
            Self::Helve => "helve",
        }
    }
}

/// A line of a server's log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[schemars(rename = "LogLine")]
pub struct Line {
    /// Counts up from 1 over all lines of a server, from the start of the process that wrote them.
    pub number: u64,
    /// When the line was written.
    pub at: Timestamp,
    /// Where it is from.
    pub source: Source,
    /// What it says, cleaned.
    pub text: String,
}

/// The last lines of a server, in a ring, and in a file where one is kept.
#[derive(Default)]
pub struct Log(Mutex<Ring>);

impl fmt::Debug for Log {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Log")
    }
}

#[derive(Default)]
struct Ring {
    lines: VecDeque<Line>,
    /// What must not stand in a line.
    secrets: VecDeque<SecretString>,
    count: u64,
    file: Option<KeptFile>,
}

impl Log {
    /// A log that is also kept in the file at `path` and, when that is full, one more next to it:
    /// together at most `bytes_max`. A file that cannot be written is gone without; the server
    /// matters more.
    pub fn kept_in(path: PathBuf, bytes_max: u64) -> Self {
        let file = (bytes_max > 0).then(|| KeptFile::new(path, bytes_max));
        Self(Mutex::new(Ring { file, ..Ring::default() }))
    }

    /// Leaves a secret out of all that is written from now on: a server may say what it was given.
    pub(crate) fn hide(&self, secret: &str) {
        let mut ring = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // A key of several lines is written line by line.
        for part in secret.lines().map(str::trim).filter(|part| part.len() >= SECRET_BYTES_MIN) {
            if ring.secrets.iter().any(|known| known.expose_secret() == part) {
                continue;
            }
            if ring.secrets.len() == SECRETS_MAX {
                ring.secrets.pop_front();
            }
            ring.secrets.push_back(part.into());
        }
    }

    /// Adds what was written, line by line.
    pub fn add(&self, source: Source, text: &str) {
        let mut ring = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for line in text.lines().filter(|line| !line.trim().is_empty()) {
            let line = without(&ring.secrets, line);
            let end = line.floor_char_boundary(LINE_BYTES_MAX);
            ring.count += 1;
            let number = ring.count;
            let text = text::clean(&line[..end]).text.into_owned();
            if ring.lines.len() == LINES_MAX {
                ring.lines.pop_front();
            }
            let line = Line { number, at: Timestamp::now(), source, text };
            if let Some(file) = &mut ring.file {
                file.add(&line);
            }
            ring.lines.push_back(line);
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

/// A line without the secrets in it.
fn without<'a>(secrets: &VecDeque<SecretString>, line: &'a str) -> Cow<'a, str> {
    let mut line = Cow::Borrowed(line);
    for secret in secrets.iter().map(ExposeSecret::expose_secret) {
        if line.contains(secret) {
            line = line.replace(secret, "[secret]").into();
        }
    }
    line
}

/// Reads a log that was kept in files, oldest line first.
pub fn read_kept(path: &Path) -> io::Result<Vec<Line>> {
    /// More than any log may be configured to hold.
    const BYTES_MAX: u64 = 64 << 20;
    let mut lines = Vec::new();
    for file in [older(path), path.to_owned()] {
        let mut text = Vec::new();
        match File::open(&file) {
            Ok(file) => file.take(BYTES_MAX).read_to_end(&mut text)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => return Err(error),
        };
        // The last line may be half written.
        lines.extend(text.split(|byte| *byte == b'\n').filter_map(|line| serde_json::from_slice(line).ok()));
    }
    Ok(lines)
}

fn older(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".1");
    name.into()
}

/// A log on disk.
#[derive(Debug)]
struct KeptFile {
    path: PathBuf,
    bytes_max: u64,
    /// Opened with the first line, and with how much it holds.
    open: Option<(File, u64)>,
    /// The second that is running, what was written in it, and how many lines were left out.
    second: (Instant, u64, u64),
    /// Given up: it cannot be written.
    broken: bool,
}

impl KeptFile {
    fn new(path: PathBuf, bytes_max: u64) -> Self {
        Self { path, bytes_max, open: None, second: (Instant::now(), 0, 0), broken: false }
    }

    fn add(&mut self, line: &Line) {
        if self.broken {
            return;
        }
        if self.second.0.elapsed() > Duration::from_secs(1) {
            let left_out = self.second.2;
            self.second = (Instant::now(), 0, 0);
            if left_out > 0 {
                let text = format!("{left_out} lines are left out here: it wrote too much at once");
                self.put(&Line { source: Source::Helve, text, ..line.clone() });
            }
        }
        if self.second.1 > FILE_BYTES_A_SECOND {
            self.second.2 += 1;
            return;
        }
        self.put(line);
    }

    fn put(&mut self, line: &Line) {
        if let Err(error) = self.write(line) {
            self.broken = true;
            tracing::warn!(%error, path = %self.path.display(), "a server's log cannot be kept");
        }
    }

    fn write(&mut self, line: &Line) -> io::Result<()> {
        let mut text = serde_json::to_vec(line)?;
        text.push(b'\n');
        let bytes = text.len() as u64;
        if self.open.as_ref().is_some_and(|(_, held)| held + bytes > self.bytes_max / 2) {
            self.open = None;
            fs::rename(&self.path, older(&self.path))?;
        }
        let (file, held) = match &mut self.open {
            Some(open) => open,
            None => {
                let file = open_private(&self.path)?;
                let held = file.metadata()?.len();
                self.open.insert((file, held))
            }
        };
        // In one write: another process may write to the same file.
        file.write_all(&text)?;
        *held += bytes;
        self.second.1 += bytes;
        Ok(())
    }
}

/// Opens a file to add to, that nobody else can read.
fn open_private(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.create(true).append(true);
    if let Some(folder) = path.parent() {
        let mut builder = fs::DirBuilder::new();
        builder.recursive(true);
        #[cfg(unix)]
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
        builder.create(folder)?;
    }
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kept_log_is_read_again_bounded_and_private() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("logs/a.log");
        let log = Log::kept_in(path.clone(), 4_000);
        for number in 0..100 {
            log.add(Source::Stderr, &format!("line {number} \u{1b}[31mred"));
        }
        drop(log);
        // Another process goes on with it.
        Log::kept_in(path.clone(), 4_000).add(Source::Helve, "again");
        let lines = read_kept(&path).unwrap();
        let last: Vec<_> = lines.iter().rev().take(2).map(|line| line.text.as_str()).collect();
        assert_eq!(last[0], "again");
        assert!(last[1].starts_with("line 99") && !last[1].contains('\u{1b}'), "{last:?}");
        let held: u64 =
            [path.clone(), older(&path)].iter().map(|path| fs::metadata(path).unwrap().len()).sum();
        assert!(held <= 4_000 && lines.len() > 10, "{held}");
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        }
    }

    #[test]
    fn secrets_are_left_out() {
        let log = Log::default();
        log.hide("abcd");
        log.hide("-----BEGIN KEY-----\nMIIEvQIBADANBg\n");
        let long = "k".repeat(LINE_BYTES_MAX);
        log.hide(&long);
        log.add(Source::Stderr, "abcd MIIEvQIBADANBg, and again MIIEvQIBADANBg");
        log.add(Source::Stderr, &format!("cut off: {long}"));
        let lines: Vec<_> = log.last(2).into_iter().map(|line| line.text).collect();
        assert_eq!(lines, ["abcd [secret], and again [secret]", "cut off: [secret]"]);
    }

    #[test]
    fn of_a_flood_only_a_part_goes_to_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.log");
        let log = Log::kept_in(path.clone(), 1 << 30);
        let line = "x".repeat(1_000);
        (0..10_000).for_each(|_| log.add(Source::Stderr, &line));
        assert!(fs::metadata(&path).unwrap().len() < 8 << 20);
        assert_eq!(log.last(usize::MAX).len(), LINES_MAX);
    }

    #[test]
    fn a_log_that_cannot_be_kept_is_still_there() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("file"), "").unwrap();
        let log = Log::kept_in(folder.path().join("file/a.log"), 4_000);
        log.add(Source::Stderr, "one");
        log.add(Source::Stderr, "two");
        assert_eq!(log.last(1)[0].text, "two");
        assert_eq!(read_kept(&folder.path().join("none.log")).unwrap(), []);
    }
}
