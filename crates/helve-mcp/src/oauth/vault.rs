//! A small encrypted file: AES-256-GCM under a key that lies next to it or comes from elsewhere.
//!
//! The key next to the file protects copies of the file (backups, synced folders), not against who
//! can read everything of this user. Every write is sealed with a fresh nonce; 96 random bits are
//! enough for the few billion writes that a key is good for.

use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Read, Write};
use std::path::{Path, PathBuf};

use ring::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use secrecy::{ExposeSecret, SecretBox};

use super::error::OAuthError;
use super::lock;

/// What a file begins with; it is covered by the seal.
const MAGIC: &[u8] = b"helve-oauth-1\n";
const KEY_BYTES: usize = 32;
/// The largest file: some ten thousand tokens.
const FILE_BYTES_MAX: usize = 16 << 20;

/// The key that seals.
pub(super) struct Key(SecretBox<[u8; KEY_BYTES]>);

impl Key {
    pub(super) fn new(key: SecretBox<[u8; KEY_BYTES]>) -> Self {
        Self(key)
    }

    /// The key in a file, which is made where it and what it seals are missing.
    pub(super) fn for_file(sealed: &Path) -> Result<Self, OAuthError> {
        let path = sealed.with_extension("key");
        let _turn = lock::acquire_blocking(&sealed.with_extension("lock"))?;
        match File::open(&path) {
            Ok(file) => Self::read(file, &path),
            Err(error) if error.kind() == ErrorKind::NotFound && !sealed.exists() => Self::make(&path),
            Err(error) => Err(OAuthError::store(format!("the key `{}`: {error}", path.display()))),
        }
    }

    fn read(file: File, path: &Path) -> Result<Self, OAuthError> {
        let failed = |what: String| OAuthError::store(format!("the key `{}` {what}", path.display()));
        let about = file.metadata().map_err(|error| failed(error.to_string()))?;
        if !is_private(&about) {
            return Err(failed(
                "can be read by others; log in anew with a new one, or `chmod 600` it".to_owned(),
            ));
        }
        let mut key = SecretBox::new(Box::new([0; KEY_BYTES]));
        let mut bytes = Vec::with_capacity(KEY_BYTES + 1);
        file.take(KEY_BYTES as u64 + 1).read_to_end(&mut bytes).map_err(|error| failed(error.to_string()))?;
        let exact: [u8; KEY_BYTES] =
            bytes.try_into().map_err(|_| failed(format!("is not {KEY_BYTES} bytes long")))?;
        *secrecy::ExposeSecretMut::expose_secret_mut(&mut key) = exact;
        Ok(Self(key))
    }

    fn make(path: &Path) -> Result<Self, OAuthError> {
        let mut key = Box::new([0; KEY_BYTES]);
        getrandom::fill(key.as_mut_slice()).map_err(|error| OAuthError::store(error.to_string()))?;
        write(path, key.as_slice())?;
        Ok(Self(SecretBox::new(key)))
    }

    fn cipher(&self) -> Result<LessSafeKey, OAuthError> {
        let key = UnboundKey::new(&AES_256_GCM, self.0.expose_secret().as_slice());
        key.map(LessSafeKey::new).map_err(|_| OAuthError::store("the key has a wrong length"))
    }
}

impl std::fmt::Debug for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Key([REDACTED])")
    }
}

/// What the file holds; `None` where there is none.
pub(super) fn open(path: &Path, key: &Key) -> Result<Option<Vec<u8>>, OAuthError> {
    let failed = |what: &str| OAuthError::store(format!("`{}` {what}", path.display()));
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(failed(&format!("cannot be read: {error}"))),
    };
    let mut bytes = Vec::new();
    let read = file.take(FILE_BYTES_MAX as u64 + 1).read_to_end(&mut bytes);
    read.map_err(|error| failed(&format!("cannot be read: {error}")))?;
    if bytes.len() > FILE_BYTES_MAX {
        return Err(failed("is too large to be ours"));
    }
    let sealed =
        bytes.strip_prefix(MAGIC).ok_or_else(|| failed("is not a file of tokens of this version"))?;
    let (nonce, sealed) = sealed.split_first_chunk::<NONCE_LEN>().ok_or_else(|| failed("was cut short"))?;
    let mut content = sealed.to_vec();
    let opened = key
        .cipher()?
        .open_in_place(Nonce::assume_unique_for_key(*nonce), Aad::from(MAGIC), &mut content)
        .map_err(|_| failed("was changed, or its key was; delete both and log in again"))?
        .len();
    content.truncate(opened);
    Ok(Some(content))
}

/// Puts `content` in the place of what the file holds, whole or not at all.
pub(super) fn seal(path: &Path, key: &Key, mut content: Vec<u8>) -> Result<(), OAuthError> {
    if content.len() > FILE_BYTES_MAX / 2 {
        return Err(OAuthError::store("there are too many of them; log out of some servers"));
    }
    let mut nonce = [0; NONCE_LEN];
    getrandom::fill(&mut nonce).map_err(|error| OAuthError::store(error.to_string()))?;
    key.cipher()?
        .seal_in_place_append_tag(Nonce::assume_unique_for_key(nonce), Aad::from(MAGIC), &mut content)
        .map_err(|_| OAuthError::store("they could not be encrypted"))?;
    write(path, &[MAGIC, &nonce, &content].concat())
}

/// Writes a file that only this user can read, whole or not at all.
fn write(path: &Path, bytes: &[u8]) -> Result<(), OAuthError> {
    let temporary = temporary(path);
    let written = create(&temporary, bytes).and_then(|()| fs::rename(&temporary, path)).and_then(|()| {
        let folder = path.parent().unwrap_or(Path::new("."));
        File::open(folder)?.sync_all()
    });
    written.map_err(|error| {
        let _ = fs::remove_file(&temporary);
        OAuthError::store(format!("`{}` cannot be written: {error}", path.display()))
    })
}

fn create(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    private(&mut options);
    let mut file = options.open(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}

fn temporary(path: &Path) -> PathBuf {
    path.with_extension(format!("{:016x}.tmp", fastrand::u64(..)))
}

/// For files that are made: only this user reads them.
#[cfg(unix)]
pub(super) fn private(options: &mut OpenOptions) {
    std::os::unix::fs::OpenOptionsExt::mode(options, 0o600);
}

#[cfg(not(unix))]
pub(super) fn private(_: &mut OpenOptions) {}

#[cfg(unix)]
fn is_private(about: &fs::Metadata) -> bool {
    std::os::unix::fs::PermissionsExt::mode(&about.permissions()) & 0o077 == 0
}

#[cfg(not(unix))]
fn is_private(_: &fs::Metadata) -> bool {
    true
}
