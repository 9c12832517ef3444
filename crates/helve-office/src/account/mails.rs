//! Where an account's mails are: in the embedded store, behind IMAP or behind JMAP.

use bytes::Bytes;
use helve_core::BoxFuture;
use jiff::Timestamp;

use super::Fault;
use crate::text::MessageId;

/// The mails of one account.
///
/// Folders and keys are the server's own names: a folder's path, a message's UID or id. They are data and never
/// part of a command line.
pub trait MailStore: Send + Sync + 'static {
    /// All folders that can be read.
    fn folders(&self) -> BoxFuture<'_, Result<Vec<Folder>, Fault>>;

    /// What changed in a folder since `since`, one page of it; everything, page by page, where that is absent.
    fn changes<'a>(
        &'a self,
        folder: &'a str,
        since: Option<&'a str>,
    ) -> BoxFuture<'a, Result<MailChanges, Fault>>;

    /// One whole message, unless it is longer than `bytes_max`.
    fn fetch<'a>(
        &'a self,
        folder: &'a str,
        key: &'a str,
        bytes_max: usize,
    ) -> BoxFuture<'a, Result<Bytes, Fault>>;

    /// Puts a message into a folder. The key it got there, where the server says.
    fn append<'a>(
        &'a self,
        folder: &'a str,
        message: Bytes,
        flags: Flags,
    ) -> BoxFuture<'a, Result<Option<String>, Fault>>;

    /// Takes one message out of a folder for good. Fine where it is gone already.
    fn remove<'a>(&'a self, folder: &'a str, key: &'a str) -> BoxFuture<'a, Result<(), Fault>>;

    /// The keys of the messages in a folder that have this Message-ID, as the server knows it now.
    fn find<'a>(&'a self, folder: &'a str, id: &'a MessageId) -> BoxFuture<'a, Result<Vec<String>, Fault>>;
}

/// A folder of mails.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Folder {
    /// The server's name for it.
    pub path: String,
    /// What people see.
    pub name: String,
    /// What it is for.
    pub role: Option<FolderRole>,
}

/// What a folder is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FolderRole {
    /// Where new mail arrives.
    Inbox,
    /// What was begun.
    Drafts,
    /// What was sent.
    Sent,
    /// What was put away.
    Archive,
    /// What was not wanted.
    Junk,
    /// What was thrown away.
    Trash,
    /// Every mail once more, as Google's servers have it: what was put away is there alone.
    Everything,
}

impl FolderRole {
    /// Every role, in the order of the declaration.
    pub const ALL: [Self; 7] =
        [Self::Inbox, Self::Drafts, Self::Sent, Self::Archive, Self::Junk, Self::Trash, Self::Everything];

    /// The word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Inbox => "inbox",
            Self::Drafts => "drafts",
            Self::Sent => "sent",
            Self::Archive => "archive",
            Self::Junk => "junk",
            Self::Trash => "trash",
            Self::Everything => "all",
        }
    }
}

/// What is marked on a message.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Flags {
    /// It was read.
    pub seen: bool,
    /// It was replied to.
    pub answered: bool,
    /// It is marked, to come back to it.
    pub flagged: bool,
    /// It is a draft.
    pub draft: bool,
}

/// One page of what changed in a folder.
#[derive(Debug, Clone, Default)]
pub struct MailChanges {
    /// All that was known of the folder is void, such as after UIDVALIDITY changed: forget it first.
    pub reset: bool,
    /// Messages that are new.
    pub new: Vec<NewMail>,
    /// Messages that are marked otherwise than before.
    pub flags: Vec<(String, Flags)>,
    /// Keys of messages that are gone.
    pub gone: Vec<String>,
    /// What to ask from next time. Opaque; kept for us between processes.
    pub state: String,
    /// Whether there is another page now.
    pub more: bool,
    /// How many messages the folder has, for progress.
    pub total: Option<u64>,
}

/// A message that is new in a folder.
#[derive(Debug, Clone)]
pub struct NewMail {
    /// The server's key.
    pub key: String,
    /// What is marked on it.
    pub flags: Flags,
    /// When the server got it.
    pub received: Timestamp,
    /// How long it is in all.
    pub size: u64,
    /// The message, or its beginning where it is long.
    pub bytes: Bytes,
}
