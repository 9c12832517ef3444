//! Where an account's calendars, tasks and contacts are: in the embedded store, or behind CalDAV and CardDAV.

use bytes::Bytes;
use helve_core::BoxFuture;

use super::Fault;
use crate::availability::{Interval, Part};
use crate::text::Address;

/// The calendars, task lists and address books of one account.
///
/// An object is one iCalendar or vCard file. Its bytes are the truth; a change of one changes what they mean to
/// change and leaves every other byte alone.
pub trait ObjectStore: Send + Sync + 'static {
    /// All collections that can be read.
    fn collections(&self) -> BoxFuture<'_, Result<Vec<Collection>, Fault>>;

    /// What changed in a collection since `since`, one page of it; everything, page by page, where that is absent.
    fn changes<'a>(
        &'a self,
        collection: &'a str,
        since: Option<&'a str>,
    ) -> BoxFuture<'a, Result<ObjectChanges, Fault>>;

    /// One object as it is now.
    fn get<'a>(&'a self, href: &'a str) -> BoxFuture<'a, Result<Object, Fault>>;

    /// Writes one object, where what is there is what the writer thinks. The version that it has then, where the
    /// server says; else it has to be got.
    fn put<'a>(
        &'a self,
        href: &'a str,
        bytes: Bytes,
        expected: Expected<'a>,
    ) -> BoxFuture<'a, Result<Option<String>, PutFault>>;

    /// Removes one object, where it is still at this version.
    fn delete<'a>(&'a self, href: &'a str, version: &'a str) -> BoxFuture<'a, Result<(), PutFault>>;

    /// Where a new object of a collection goes.
    fn new_href(&self, collection: &str, uid: &str) -> String;

    /// When a person is busy, as the server tells us. None: it does not say, and they may be busy.
    fn free_busy<'a>(
        &'a self,
        who: &'a Address,
        range: Interval,
    ) -> BoxFuture<'a, Result<Option<Vec<Part>>, Fault>>;

    /// Whether the server tells attendees by itself of what is written.
    fn schedules(&self) -> bool;
}

/// A calendar, a task list or an address book.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Collection {
    /// The server's name for it.
    pub href: String,
    /// What people see.
    pub name: String,
    /// What is in it.
    pub holds: Holds,
    /// Whether we may write there.
    pub writable: bool,
}

/// What a collection takes. A calendar may take events, tasks or both.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Holds {
    /// It takes events (`VEVENT`).
    pub events: bool,
    /// It takes tasks (`VTODO`).
    pub tasks: bool,
    /// It takes contacts (`VCARD`).
    pub contacts: bool,
}

/// One iCalendar or vCard file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Object {
    /// The server's name for it.
    pub href: String,
    /// Which state of it this is: an ETag.
    pub version: String,
    /// The file as the server has it.
    pub bytes: Bytes,
}

/// An object that could not be got, while others could.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnreadObject {
    /// Where it is.
    pub href: String,
    /// Why it could not be got.
    pub fault: Fault,
}

/// One page of what changed in a collection.
#[derive(Debug, Clone, Default)]
pub struct ObjectChanges {
    /// All that was known of the collection is void: forget it first.
    pub reset: bool,
    /// Objects that are new or changed.
    pub changed: Vec<Object>,
    /// Where objects were that are gone.
    pub gone: Vec<String>,
    /// Objects that are there and that the server did not hand out.
    pub unread: Vec<UnreadObject>,
    /// What to ask from next time. Opaque; kept for us between processes.
    pub state: String,
    /// Whether there is another page now.
    pub more: bool,
}

/// What a writer thinks is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expected<'a> {
    /// No object stands at this address.
    Nothing,
    /// The object has this version.
    Version(&'a str),
}

/// Why an object was not written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PutFault {
    /// Something else is there than the writer thinks: another was faster.
    #[error("it was changed meanwhile")]
    Conflict,
    /// The server or the connection failed.
    #[error(transparent)]
    Fault(#[from] Fault),
}
