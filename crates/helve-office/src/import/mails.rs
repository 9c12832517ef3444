//! Mails from mbox files, maildirs and single messages.
//!
//! A file is read as a stream and a mail is held at a time. Links are never followed: what is imported lies below the
//! folder that the person named. A mail that the account has already, byte by byte, is not imported twice.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use bytes::Bytes;
use helve_core::json::sha256_hex;
use helve_store::office::OfficeError;
use jiff::Timestamp;

use super::mbox;
use crate::account::{Flags, FolderRole, NewMail};
use crate::embedded::EmbeddedMails;

/// A larger mail is left out.
const MAIL_BYTES_MAX: usize = 64 << 20;

/// What is written together.
const BATCH_MAILS: usize = 200;
const BATCH_BYTES: usize = 16 << 20;

const DEPTH_MAX: usize = 16;
const FILES_MAX: usize = 1_000_000;

/// How many of the things that were left out are named.
const SKIPPED_MAX: usize = 100;

/// Something that was left out, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MailSkipped {
    /// The file that was not imported.
    pub path: PathBuf,
    /// Why, for people.
    pub why: String,
}

/// What an import did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MailsImported {
    /// Mails that are new.
    pub added: usize,
    /// Mails that the account had already.
    pub known: usize,
    /// How many files and mails were left out.
    pub skipped_count: usize,
    /// The first of them.
    pub skipped: Vec<MailSkipped>,
}

/// Reads an mbox file, a maildir, a message, or a folder of these into the embedded account: into the folder that is
/// given, else into the one that a file's name speaks of, else into the archive.
pub async fn import_mails(
    mails: &EmbeddedMails,
    path: &Path,
    into: Option<FolderRole>,
    progress: &(dyn Fn(&MailsImported) + Send + Sync),
) -> Result<MailsImported, OfficeError> {
    let (send, mut batches) = tokio::sync::mpsc::channel(2);
    let path = path.to_owned();
    let reading = tokio::task::spawn_blocking(move || {
        let mut reader = Reader {
            into,
            send,
            batch: BTreeMap::new(),
            bytes: 0,
            count: 0,
            skipped: Vec::new(),
            skipped_count: 0,
        };
        // The path itself is the person's own word, and may be a link.
        let start = fs::canonicalize(&path).unwrap_or(path);
        reader.visit(&start, 0);
        reader.flush();
        (reader.skipped, reader.skipped_count)
    });
    let mut imported = MailsImported::default();
    while let Some((role, batch)) = batches.recv().await {
        let count = Vec::len(&batch);
        let added = mails.import(role, batch).await?;
        imported.added += added;
        imported.known += count - added;
        progress(&imported);
    }
    let (skipped, count) = reading.await.map_err(|_| OfficeError::Ending)?;
    (imported.skipped, imported.skipped_count) = (skipped, count);
    Ok(imported)
}

type Batch = (FolderRole, Vec<NewMail>);

struct Reader {
    into: Option<FolderRole>,
    send: tokio::sync::mpsc::Sender<Batch>,
    batch: BTreeMap<&'static str, Batch>,
    bytes: usize,
    count: usize,
    skipped: Vec<MailSkipped>,
    skipped_count: usize,
}

impl Reader {
    fn visit(&mut self, path: &Path, depth: usize) {
        let kind = match fs::symlink_metadata(path) {
            Ok(data) => data.file_type(),
            Err(error) => return self.skip(path, format!("cannot be read: {error}")),
        };
        self.count += 1;
        if self.count > FILES_MAX {
            return self.skip(path, format!("comes after {FILES_MAX} files; import it by itself"));
        }
        match () {
            () if kind.is_symlink() => self.skip(path, "is a link; links are not followed".to_owned()),
            () if kind.is_dir() && depth > DEPTH_MAX => self.skip(path, "lies too deep".to_owned()),
            () if kind.is_dir() => self.visit_folder(path, depth),
            () if kind.is_file() => self.visit_file(path),
            () => self.skip(path, "is no file".to_owned()),
        }
    }

    fn visit_folder(&mut self, path: &Path, depth: usize) {
        let entries = match fs::read_dir(path) {
            Ok(entries) => entries,
            Err(error) => return self.skip(path, format!("cannot be read: {error}")),
        };
        let mut inner: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
        inner.sort();
        for path in inner {
            // What a maildir has there is half written.
            if path.file_name() != Some(OsStr::new("tmp")) {
                self.visit(&path, depth + 1);
            }
        }
    }

    fn visit_file(&mut self, path: &Path) {
        let read = File::open(path).and_then(|file| self.read_file(path, BufReader::new(file)));
        if let Err(error) = read {
            self.skip(path, format!("cannot be read: {error}"));
        }
    }

    fn read_file(&mut self, path: &Path, mut file: BufReader<File>) -> io::Result<()> {
        let role = self.into.or_else(|| role_of(path)).unwrap_or(FolderRole::Archive);
        let beginning = file.fill_buf()?;
        let is_message = path.extension().is_some_and(|ext| ext.eq_ignore_ascii_case("eml"))
            || mbox::is_message(beginning);
        if beginning.starts_with(b"From ") {
            let separators = mbox::Separators::of(beginning);
            return self.read_mbox(path, role, file, separators);
        }
        let is_maildir = in_maildir(path);
        if !is_maildir && !is_message {
            self.skip(path, "is neither an mbox file nor a message (.eml) nor in a maildir".to_owned());
            return Ok(());
        }
        let mut bytes = Vec::new();
        file.take(MAIL_BYTES_MAX as u64 + 1).read_to_end(&mut bytes)?;
        let flags = if is_maildir { maildir_flags(path) } else { seen() };
        self.add(path, role, bytes, flags);
        Ok(())
    }

    /// A message begins with a separator at the beginning or behind an empty line. A `>` in front of such a line within a
    /// message goes, as mboxo and mboxrd have it.
    fn read_mbox(
        &mut self,
        path: &Path,
        role: FolderRole,
        mut file: BufReader<File>,
        separators: mbox::Separators,
    ) -> io::Result<()> {
        let mut message = Vec::new();
        let (mut behind_empty, mut begun, mut too_large) = (true, false, false);
        let mut line = Vec::new();
        loop {
            line.clear();
            let read = file.by_ref().take(MAIL_BYTES_MAX as u64).read_until(b'\n', &mut line)?;
            let begins = behind_empty && separators.has(&line);
            if read == 0 || begins {
                if begun {
                    self.end_message(path, role, std::mem::take(&mut message), too_large);
                }
                if read == 0 {
                    return Ok(());
                }
                (begun, too_large, behind_empty) = (true, false, false);
                continue;
            }
            behind_empty = matches!(line.as_slice(), b"\n" | b"\r\n");
            if message.len() + line.len() > MAIL_BYTES_MAX {
                too_large = true;
            } else {
                message.extend_from_slice(mbox::unquoted(&line));
            }
        }
    }

    fn end_message(&mut self, path: &Path, role: FolderRole, mut message: Vec<u8>, too_large: bool) {
        // The empty line before the next message is none of this one.
        let end = [&b"\r\n"[..], b"\n"].into_iter().find(|end| message.ends_with(end)).map_or(0, <[u8]>::len);
        message.truncate(message.len() - end);
        match too_large {
            true => self.skip(path, format!("has a mail of more than {MAIL_BYTES_MAX} bytes")),
            false => {
                let flags = mbox_flags(&message);
                self.add(path, role, message, flags);
            }
        }
    }

    fn add(&mut self, path: &Path, role: FolderRole, bytes: Vec<u8>, flags: Flags) {
        if bytes.len() > MAIL_BYTES_MAX {
            return self.skip(path, format!("is larger than {MAIL_BYTES_MAX} bytes"));
        }
        if bytes.iter().all(u8::is_ascii_whitespace) {
            return self.skip(path, "is empty".to_owned());
        }
        let flags = Flags { draft: role == FolderRole::Drafts, ..flags };
        let size = bytes.len() as u64;
        let mail = NewMail {
            key: format!("i-{}", sha256_hex(&bytes)),
            flags,
            received: Timestamp::now(),
            size,
            bytes: Bytes::from(bytes),
        };
        self.bytes += mail.bytes.len();
        let batch = self.batch.entry(role.as_str()).or_insert_with(|| (role, Vec::new()));
        batch.1.push(mail);
        if batch.1.len() >= BATCH_MAILS || self.bytes >= BATCH_BYTES {
            self.flush();
        }
    }

    fn flush(&mut self) {
        for (_, batch) in std::mem::take(&mut self.batch) {
            // Nobody takes it where the import was given up.
            let _ = self.send.blocking_send(batch);
        }
        self.bytes = 0;
    }

    fn skip(&mut self, path: &Path, why: String) {
        self.skipped_count += 1;
        if self.skipped.len() < SKIPPED_MAX {
            self.skipped.push(MailSkipped { path: path.to_owned(), why });
        }
    }
}

fn seen() -> Flags {
    Flags { seen: true, ..Flags::default() }
}

/// What the header `Status` says; a mail without one was put away, and is read.
fn mbox_flags(message: &[u8]) -> Flags {
    let mut headers = message.split(|byte| *byte == b'\n').take_while(|line| !line.trim_ascii().is_empty());
    let status = headers.find_map(|line| line.strip_prefix(b"Status:"));
    Flags { seen: status.is_none_or(|status| status.contains(&b'R')), ..Flags::default() }
}

fn in_maildir(path: &Path) -> bool {
    let folder = path.parent().and_then(Path::file_name);
    folder == Some(OsStr::new("cur")) || folder == Some(OsStr::new("new"))
}

/// The letters behind `:2,` of a name.
fn maildir_flags(path: &Path) -> Flags {
    let name = path.file_name().map(OsStr::to_string_lossy).unwrap_or_default();
    let letters = name.rsplit_once(":2,").map_or("", |(_, letters)| letters);
    Flags {
        seen: letters.contains('S'),
        answered: letters.contains('R'),
        flagged: letters.contains('F'),
        draft: letters.contains('D'),
    }
}

/// The folder that the name of a file or of the folders above it speaks of.
fn role_of(path: &Path) -> Option<FolderRole> {
    let names = path.ancestors().take(3).filter_map(Path::file_name);
    names.map(|name| name.to_string_lossy().to_lowercase()).find_map(|name| {
        let words: Vec<&str> = name.split(|c: char| !c.is_alphanumeric()).collect();
        let speaks_of = |known: &[&str]| known.iter().any(|known| words.contains(known));
        match () {
            () if speaks_of(&["inbox"]) => Some(FolderRole::Inbox),
            () if speaks_of(&["drafts", "draft"]) => Some(FolderRole::Drafts),
            () if speaks_of(&["sent", "outbox"]) => Some(FolderRole::Sent),
            () if speaks_of(&["archive", "archives"]) => Some(FolderRole::Archive),
            () => None,
        }
    })
}
