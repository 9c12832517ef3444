//! The anchor: a small file next to the database that remembers how far the chain had come.
//!
//! A chain alone cannot show that its end was cut off, nor that an older copy was put in its
//! place. The anchor can, as long as it is not changed along; keep a copy of it elsewhere against
//! an attacker who may write the whole folder.
//!
//! A journal that is opened without its anchor, or with one that knows better, is in quarantine: see
//! `quarantine.rs`. A person who has looked into that and takes the journal as it is runs `helve audit
//! accept`, which writes the word `accept` into the file; the store that finds it notes that in the chain and
//! anchors the journal anew.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use helve_core::json::{hex, sha256_hex};

use helve_ledger::chain::{GENESIS, HASH_BYTES, Position};

const MAGIC: &str = "helve-head-1";
const ACCEPT: &[u8] = b"accept";
const CHECKSUM_DIGITS: usize = 16;
// Magic, number, hash and checksum with spaces between, and the end of the line.
const LINE_BYTES: usize = MAGIC.len() + 1 + 20 + 1 + 2 * HASH_BYTES + 1 + CHECKSUM_DIGITS + 1;

/// How long to wait for another process that moves it, migrates the journal or restores one, and how often to look.
const LOCK_MAX: Duration = Duration::from_secs(60);
const LOCK_PAUSE: Duration = Duration::from_millis(2);

/// The anchor file, open for writing.
pub(crate) struct Anchor {
    path: PathBuf,
    file: File,
}

/// What an anchor file says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reading {
    /// There is none, or it was never filled.
    Absent,
    /// The chain has come at least this far.
    At(Position),
    /// A person accepts the journal.
    Accept,
    /// It is damaged.
    Damaged,
}

impl Anchor {
    /// Where the anchor of a database stands.
    pub(crate) fn path(database: &Path) -> PathBuf {
        let mut path = database.as_os_str().to_owned();
        path.push(".head");
        path.into()
    }

    /// Opens the file, and creates it when it is missing.
    pub(crate) fn open(database: &Path) -> io::Result<Self> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let path = Self::path(database);
        Ok(Self { file: options.open(&path)?, path })
    }

    /// Takes the journal as it is from the next opening on.
    pub(crate) fn accept(database: &Path) -> io::Result<()> {
        let mut anchor = Self::open(database)?;
        // A process that is just moving it would write over the word.
        let locked = anchor.lock()?;
        locked.file.set_len(0)?;
        locked.file.write_all(ACCEPT)?;
        locked.file.sync_all()
    }

    /// Makes sure that what it says outlives a power cut.
    pub(crate) fn sync(&self) -> io::Result<()> {
        self.file.sync_all()
    }

    /// Moves the anchor forward, unless another process is just doing so.
    pub(crate) fn try_advance(&mut self, position: Position) -> io::Result<()> {
        match self.file.try_lock() {
            Ok(()) => LockedAnchor { path: &self.path, file: &mut self.file }.advance(position),
            Err(TryLockError::WouldBlock) => Ok(()),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }

    /// Keeps other processes from moving it until the guard is dropped. Waits for them, but not for ever: one that
    /// was suspended in the middle of moving it holds its lock until it is continued or ended.
    pub(crate) fn lock(&mut self) -> io::Result<LockedAnchor<'_>> {
        self.lock_within(LOCK_MAX)
    }

    fn lock_within(&mut self, time: Duration) -> io::Result<LockedAnchor<'_>> {
        let until = Instant::now() + time;
        loop {
            match self.file.try_lock() {
                Ok(()) => break,
                Err(TryLockError::WouldBlock) if Instant::now() < until => std::thread::sleep(LOCK_PAUSE),
                Err(TryLockError::WouldBlock) => {
                    let why = "another process keeps the journal's `.head` file locked: it may be restoring a \
                               backup or bringing the journal to a new format, so let it finish and try again; \
                               continue it if it is suspended";
                    return Err(io::Error::new(io::ErrorKind::TimedOut, why));
                }
                Err(TryLockError::Error(error)) => return Err(error),
            }
        }
        Ok(LockedAnchor { path: &self.path, file: &mut self.file })
    }
}

/// The anchor while no other process moves it.
pub(crate) struct LockedAnchor<'a> {
    path: &'a Path,
    file: &'a mut File,
}

impl LockedAnchor<'_> {
    pub(crate) fn read(&mut self) -> io::Result<Reading> {
        read_from(self.file)
    }

    /// Empties the anchor, as if no journal had been here.
    pub(crate) fn forget(&mut self) -> io::Result<()> {
        self.file.set_len(0)?;
        self.file.sync_all()
    }

    /// Moves the anchor to `position`, unless it is there or further already.
    ///
    /// Not synced: after a power cut an older anchor is still a true one. One write of less than
    /// a sector, in place, so that it is never seen half written.
    pub(crate) fn advance(&mut self, position: Position) -> io::Result<()> {
        match self.read()? {
            Reading::At(current) if current.seq >= position.seq => Ok(()),
            Reading::At(_) => self.write(position),
            // A damaged anchor stays, for `verify` to report; the others, for the next opening.
            Reading::Damaged | Reading::Absent | Reading::Accept => Ok(()),
        }
    }

    /// Fills a file that says nothing, and makes sure that it outlives a power cut.
    pub(crate) fn create(&mut self, position: Position) -> io::Result<()> {
        match self.read()? {
            Reading::Absent | Reading::Accept => {}
            // Another process was faster.
            Reading::At(_) | Reading::Damaged => return self.advance(position),
        }
        self.write(position)?;
        self.file.sync_all()?;
        // On Unix, a new file's name is safe once its folder is. Elsewhere folders cannot be opened.
        #[cfg(unix)]
        if let Some(folder) = self.path.parent() {
            File::open(folder)?.sync_all()?;
        }
        Ok(())
    }

    fn write(&mut self, position: Position) -> io::Result<()> {
        self.file.seek(SeekFrom::Start(0))?;
        self.file.write_all(line(position).as_bytes())
    }
}

impl Drop for LockedAnchor<'_> {
    fn drop(&mut self) {
        // Fails only where locks are not supported, and then it was never taken.
        let _ = self.file.unlock();
    }
}

/// Reads an anchor without keeping it open, and without ever holding up a writer.
pub(crate) fn read(database: &Path) -> io::Result<Reading> {
    let mut file = match File::open(Anchor::path(database)) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Reading::Absent),
        Err(error) => return Err(error),
    };
    // A writer may just be moving it. What stays damaged is damaged.
    for _ in 0..3 {
        let reading = read_from(&mut file)?;
        if reading != Reading::Damaged {
            return Ok(reading);
        }
    }
    Ok(Reading::Damaged)
}

fn read_from(file: &mut File) -> io::Result<Reading> {
    let mut text = Vec::with_capacity(LINE_BYTES + 1);
    file.seek(SeekFrom::Start(0))?;
    file.take(LINE_BYTES as u64 + 1).read_to_end(&mut text)?;
    if text.is_empty() {
        return Ok(Reading::Absent);
    }
    if text.trim_ascii() == ACCEPT {
        return Ok(Reading::Accept);
    }
    Ok(parse(&text).map_or(Reading::Damaged, Reading::At))
}

pub(crate) fn line(position: Position) -> String {
    let body = format!("{MAGIC} {:020} {}", position.seq, hex(&position.hash));
    let checksum = &sha256_hex(body.as_bytes())[..CHECKSUM_DIGITS];
    format!("{body} {checksum}\n")
}

fn parse(text: &[u8]) -> Option<Position> {
    let text = std::str::from_utf8(text).ok()?;
    let mut words = text.split(' ').skip(1);
    let seq = words.next()?.parse().ok()?;
    let digits = words.next()?;
    let mut hash = GENESIS;
    if digits.len() != 2 * HASH_BYTES || !digits.is_ascii() {
        return None;
    }
    for (index, byte) in hash.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&digits[2 * index..2 * index + 2], 16).ok()?;
    }
    let position = Position { seq, hash };
    // Writing it again checks magic, checksum, padding and length at once.
    (line(position) == text).then_some(position)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seq: i64) -> Position {
        Position { seq, hash: [seq as u8; HASH_BYTES] }
    }

    #[test]
    fn an_anchor_only_moves_forward() {
        let folder = tempfile::tempdir().unwrap();
        let database = folder.path().join("j.db");
        let mut anchor = Anchor::open(&database).unwrap();
        assert_eq!(read(&database).unwrap(), Reading::Absent);
        anchor.lock().unwrap().create(Position::START).unwrap();
        for (moved_to, expected) in [(5, 5), (3, 5), (9, 9)] {
            anchor.try_advance(at(moved_to)).unwrap();
            assert_eq!(read(&database).unwrap(), Reading::At(at(expected)));
        }
    }

    #[test]
    fn nobody_waits_for_ever_for_one_that_keeps_it_locked() {
        let folder = tempfile::tempdir().unwrap();
        let database = folder.path().join("j.db");
        let (mut held, mut other) = (Anchor::open(&database).unwrap(), Anchor::open(&database).unwrap());
        let locked = held.lock().unwrap();
        let error = other.lock_within(Duration::from_millis(50)).err().unwrap();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut, "{error}");
        drop(locked);
        other.lock().unwrap();
    }

    #[test]
    fn every_changed_byte_of_an_anchor_is_noticed() {
        let good = line(at(7)).into_bytes();
        assert_eq!(good.len(), LINE_BYTES);
        assert_eq!(parse(&good), Some(at(7)));
        for index in 0..good.len() {
            let mut bad = good.clone();
            bad[index] ^= 1;
            assert_eq!(parse(&bad), None, "byte {index}");
        }
        assert_eq!(parse(&good[..50]), None);
    }
}
