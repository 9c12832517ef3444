//! Signed checkpoints: how far the chain had come, signed, to be kept where nobody who can write
//! the journal can write.
//!
//! The form is that of signed notes (C2SP `signed-note`), so that other programs can check them: a
//! text, an empty line, and a line with the name of the key and an Ed25519 signature of the text.

use std::fmt;
use std::fs::OpenOptions;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use jiff::Timestamp;
use ring::rand::SystemRandom;
use ring::signature::{ED25519, Ed25519KeyPair, KeyPair, UnparsedPublicKey};
use serde::Serialize;
use sha2::{Digest, Sha256};

use super::{Audit, Head, key_file};
use crate::error::StoreError;

/// The name that stands in every key and signature.
const NAME: &str = "helve-audit";
/// The first line of every checkpoint.
const ORIGIN: &str = "helve-audit/1";
/// The first line of every note that vouches for a cut, so that neither passes for the other.
const CUT_ORIGIN: &str = "helve-prune/1";
/// What C2SP calls Ed25519.
const ALGORITHM: u8 = 1;
/// Longest checkpoint or key that is read.
const NOTE_BYTES_MAX: usize = 4 << 10;

/// How far the chain had come at a time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Checkpoint {
    /// The last entry then.
    pub head: Head,
    /// When it was signed.
    pub at: Timestamp,
}

/// Why a checkpoint or a key cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CheckpointError {
    /// It is not one.
    #[error("this is no checkpoint: {0}")]
    Malformed(&'static str),
    /// It is not one.
    #[error("this is no key: give a line such as `{NAME}+1a2b3c4d+AY…`, as `helve audit key` prints it")]
    Key,
    /// Another key signed it, or it was changed.
    #[error("the signature does not fit: it was changed, or another key signed it")]
    Signature,
    /// There is nothing to sign.
    #[error("the journal is empty, so there is nothing to sign")]
    Empty,
    /// The file with the key cannot be used.
    #[error("the key in {} cannot be used", .0.display())]
    File(PathBuf, #[source] io::Error),
    /// The file with the key is gone.
    #[error(
        "the key that signs for this journal is gone; put {} back, or take the journal without it: `helve audit accept`",
        .0.display()
    )]
    Gone(PathBuf),
    /// Another key stands in its place.
    #[error("the key in {} is not the one that signed for this journal: it was replaced; put it back, or take \
         the journal with this one: `helve audit accept`", .0.display())]
    Replaced(PathBuf),
    /// The journal cannot be read.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Signs checkpoints. Kept in a file next to the journal that nobody else can read.
pub struct SigningKey {
    pair: Ed25519KeyPair,
    /// Marks secrets in the journal.
    mark: [u8; 32],
}

impl fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SigningKey({})", self.verifying())
    }
}

impl SigningKey {
    /// Where the key of a journal stands.
    pub fn path(journal: &Path) -> PathBuf {
        let mut path = journal.as_os_str().to_owned();
        path.push(".key");
        path.into()
    }

    /// The key of a journal, if there is one.
    pub(crate) fn find(journal: &Path) -> Result<Option<Self>, CheckpointError> {
        if Self::path(journal).exists() { Self::open(journal).map(Some) } else { Ok(None) }
    }

    /// The key of a journal, which is made where there is none. One that is not the key that the journal
    /// [tells of](crate::Store::tell_key) is refused.
    pub fn open(journal: &Path) -> Result<Self, CheckpointError> {
        let path = Self::path(journal);
        let told = key_file::told_at(journal)?;
        if told.is_some() && !path.exists() {
            return Err(CheckpointError::Gone(path));
        }
        let key = Self::find_or_make(journal)?;
        match key.verifying().is_told(told.as_deref()) {
            true => Ok(key),
            false => Err(CheckpointError::Replaced(path)),
        }
    }

    /// The key next to a journal, whichever the journal tells of.
    pub(crate) fn find_or_make(journal: &Path) -> Result<Self, CheckpointError> {
        let path = Self::path(journal);
        let failed = |error| CheckpointError::File(path.clone(), error);
        let made = || {
            let document = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new())
                .map_err(|_| io::Error::other("the system gives no random numbers"))?;
            create(&path, document.as_ref())
        };
        let bytes = match std::fs::read(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                made().and_then(|()| std::fs::read(&path)).map_err(failed)?
            }
            read => read.map_err(failed)?,
        };
        let broken = || failed(io::Error::new(io::ErrorKind::InvalidData, "it is damaged"));
        Self::from_bytes(&bytes).ok_or_else(broken)
    }

    /// None: this is no key.
    pub(super) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let pair = Ed25519KeyPair::from_pkcs8(bytes).ok()?;
        let mark = Sha256::new().chain_update(b"helve marks secrets\0").chain_update(bytes).finalize();
        Some(Self { pair, mark: mark.into() })
    }

    /// The key with which secrets are marked in the journal.
    pub fn mark_key(&self) -> [u8; 32] {
        self.mark
    }

    /// The key that checks what this one signs.
    pub fn verifying(&self) -> VerifyingKey {
        let mut public = [0; 32];
        public.copy_from_slice(self.pair.public_key().as_ref());
        VerifyingKey(public)
    }

    fn sign(&self, checkpoint: &Checkpoint) -> String {
        self.sign_text(&checkpoint.text(ORIGIN))
    }

    /// Vouches for it that everything up to there was removed.
    pub(crate) fn sign_cut(&self, cut: &Checkpoint) -> String {
        self.sign_text(&cut.text(CUT_ORIGIN))
    }

    fn sign_text(&self, text: &str) -> String {
        let mut signature = self.verifying().id().to_vec();
        signature.extend_from_slice(self.pair.sign(text.as_bytes()).as_ref());
        format!("{text}\n\u{2014} {NAME} {}\n", BASE64.encode(signature))
    }
}

/// Writes a file that only this user may read, whole or not at all. Where another process was
/// faster, theirs stays.
fn create(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut new = path.as_os_str().to_owned();
    new.push(format!(".{}.new", std::process::id()));
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let written = options.open(&new).and_then(|mut file| {
        file.write_all(bytes)?;
        file.sync_all()
    });
    let linked = written.and_then(|()| match std::fs::hard_link(&new, path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        linked => linked,
    });
    // Nobody misses it.
    let _ = std::fs::remove_file(&new);
    linked
}

/// Checks what the key of a journal signed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VerifyingKey([u8; 32]);

impl VerifyingKey {
    /// Four bytes by which a signature names its key.
    fn id(&self) -> [u8; 4] {
        let digest =
            Sha256::new().chain_update(NAME).chain_update([b'\n', ALGORITHM]).chain_update(self.0).finalize();
        [digest[0], digest[1], digest[2], digest[3]]
    }

    /// What a signed note says, if this key signed it.
    pub fn check(&self, note: &str) -> Result<Checkpoint, CheckpointError> {
        self.check_as(ORIGIN, note)
    }

    /// Up to where entries were removed, if this key vouches for it.
    pub(crate) fn check_cut(&self, note: &str) -> Result<Checkpoint, CheckpointError> {
        self.check_as(CUT_ORIGIN, note)
    }

    fn check_as(&self, origin: &str, note: &str) -> Result<Checkpoint, CheckpointError> {
        if note.len() > NOTE_BYTES_MAX {
            return Err(CheckpointError::Malformed("it is too long"));
        }
        let (text, signatures) =
            note.split_once("\n\n").ok_or(CheckpointError::Malformed("it has no signature"))?;
        let text = format!("{text}\n");
        let ours = signatures.lines().find_map(|line| {
            let signature = line.strip_prefix('\u{2014}')?.trim_start().strip_prefix(NAME)?;
            let bytes = BASE64.decode(signature.trim()).ok()?;
            bytes.strip_prefix(&self.id()).map(<[u8]>::to_vec)
        });
        let signature = ours.ok_or(CheckpointError::Signature)?;
        UnparsedPublicKey::new(&ED25519, self.0)
            .verify(text.as_bytes(), &signature)
            .map_err(|_| CheckpointError::Signature)?;
        Checkpoint::read(&text, origin)
    }
}

impl fmt::Display for VerifyingKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d] = self.id();
        let mut key = vec![ALGORITHM];
        key.extend_from_slice(&self.0);
        write!(f, "{NAME}+{a:02x}{b:02x}{c:02x}{d:02x}+{}", BASE64.encode(key))
    }
}

impl FromStr for VerifyingKey {
    type Err = CheckpointError;

    fn from_str(text: &str) -> Result<Self, CheckpointError> {
        let mut parts = text.trim().splitn(3, '+');
        let (Some(NAME), Some(id), Some(key)) = (parts.next(), parts.next(), parts.next()) else {
            return Err(CheckpointError::Key);
        };
        let bytes = BASE64.decode(key).map_err(|_| CheckpointError::Key)?;
        let Some((&ALGORITHM, public)) = bytes.split_first() else { return Err(CheckpointError::Key) };
        let key = Self(public.try_into().map_err(|_| CheckpointError::Key)?);
        let [a, b, c, d] = key.id();
        let fits = id == format!("{a:02x}{b:02x}{c:02x}{d:02x}");
        fits.then_some(key).ok_or(CheckpointError::Key)
    }
}

impl Checkpoint {
    pub(crate) fn new(head: Head, at: Timestamp) -> Self {
        Self { head, at }
    }

    fn text(&self, origin: &str) -> String {
        format!("{origin}\n{}\n{}\n{}\n", self.head.seq, self.head.hash, self.at)
    }

    fn read(text: &str, origin: &str) -> Result<Self, CheckpointError> {
        let mut lines = text.lines();
        let mut line = || lines.next().ok_or(CheckpointError::Malformed("it has too few lines"));
        if line()? != origin {
            return Err(CheckpointError::Malformed("it is of another program or version"));
        }
        let seq = line()?.parse().map_err(|_| CheckpointError::Malformed("its number is none"))?;
        let hash = line()?.to_owned();
        let at = line()?.parse().map_err(|_| CheckpointError::Malformed("its time is none"))?;
        Ok(Self { head: Head { seq, hash }, at })
    }
}

impl Audit {
    /// How far the chain has come, signed. Only a chain that is sound should be signed: see
    /// [`verify`](Self::verify).
    pub fn checkpoint(
        &self,
        key: &SigningKey,
        at: Timestamp,
    ) -> Result<(Checkpoint, String), CheckpointError> {
        let head = self.head()?.ok_or(CheckpointError::Empty)?;
        let checkpoint = Checkpoint { head, at };
        let note = key.sign(&checkpoint);
        Ok((checkpoint, note))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checkpoint() -> Checkpoint {
        Checkpoint { head: Head { seq: 7, hash: "ab".repeat(32) }, at: Timestamp::UNIX_EPOCH }
    }

    #[test]
    fn only_what_was_signed_passes() {
        let folder = tempfile::tempdir().unwrap();
        let journal = folder.path().join("helve.db");
        let key = SigningKey::open(&journal).unwrap();
        let note = key.sign(&checkpoint());
        let public: VerifyingKey = key.verifying().to_string().parse().unwrap();
        assert_eq!(public.check(&note).unwrap(), checkpoint());
        // The same key the next time.
        let again = SigningKey::open(&journal).unwrap();
        assert_eq!(again.verifying(), public);
        assert_eq!(again.mark_key(), key.mark_key());
        for changed in
            [note.replacen('7', "8", 1), note.replacen("ab", "cd", 1), note.replace("1970", "1971")]
        {
            assert!(matches!(public.check(&changed), Err(CheckpointError::Signature)), "{changed}");
        }
        let other = SigningKey::open(&folder.path().join("other.db")).unwrap().verifying();
        assert!(matches!(other.check(&note), Err(CheckpointError::Signature)));
        for bad in ["", "\n\n", "x\n\n\u{2014} helve-audit !!!\n", &"x".repeat(10_000)] {
            assert!(public.check(bad).is_err());
        }
    }

    #[cfg(unix)]
    #[test]
    fn nobody_else_can_read_the_key_and_a_damaged_one_is_not_replaced() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let journal = folder.path().join("helve.db");
        SigningKey::open(&journal).unwrap();
        let path = SigningKey::path(&journal);
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        std::fs::write(&path, b"damaged").unwrap();
        assert!(matches!(SigningKey::open(&journal), Err(CheckpointError::File(..))));
    }

    #[test]
    fn keys_that_are_none_are_refused() {
        for text in
            ["", "helve-audit", "helve-audit+00000000+AAAA", "other+1a2b3c4d+AQ==", "helve-audit+zz+!!"]
        {
            assert!(text.parse::<VerifyingKey>().is_err(), "{text}");
        }
    }
}
