//! Calendars on one server and contacts on another, as one account: Google has them on two hosts.

use bytes::Bytes;
use helve_core::{BoxFuture, boxed};

use super::account::DavAccount;
use crate::account::{
    Collection, Expected, Fault, Object, ObjectChanges, ObjectStore, PutFault, UnreadObject,
};
use crate::availability::{Interval, Part};
use crate::text::Address;

/// What stands before a place on the contacts' server. Places on the calendars' server stay as they are.
const CONTACTS: &str = "contacts:";

/// Calendars on one server and contacts on another.
#[derive(Debug)]
pub struct DavPair {
    calendars: DavAccount,
    contacts: DavAccount,
}

impl DavPair {
    /// Two accounts as one.
    pub fn new(calendars: DavAccount, contacts: DavAccount) -> Self {
        Self { calendars, contacts }
    }

    /// Whose place it is, and how that one calls it.
    fn owner<'a>(&'a self, href: &'a str) -> (&'a DavAccount, &'a str, fn(String) -> String) {
        match href.strip_prefix(CONTACTS) {
            Some(href) => (&self.contacts, href, ours),
            None => (&self.calendars, href, |href| href),
        }
    }

    async fn list_all(&self) -> Result<Vec<Collection>, Fault> {
        let mut all = self.calendars.collections().await?;
        let contacts = self.contacts.collections().await?;
        all.extend(contacts.into_iter().map(|one| Collection { href: ours(one.href), ..one }));
        Ok(all)
    }

    async fn pull(&self, collection: &str, since: Option<&str>) -> Result<ObjectChanges, Fault> {
        let (account, href, name) = self.owner(collection);
        let changes = account.changes(href, since).await?;
        let renamed = |one: UnreadObject| UnreadObject { href: name(one.href), ..one };
        let rename = |object: Object| Object { href: name(object.href), ..object };
        Ok(ObjectChanges {
            changed: changes.changed.into_iter().map(rename).collect(),
            gone: changes.gone.into_iter().map(name).collect(),
            unread: changes.unread.into_iter().map(renamed).collect(),
            ..changes
        })
    }
}

/// A place on the contacts' server, as others know it.
fn ours(href: String) -> String {
    format!("{CONTACTS}{href}")
}

impl ObjectStore for DavPair {
    fn collections(&self) -> BoxFuture<'_, Result<Vec<Collection>, Fault>> {
        boxed(|| self.list_all())
    }

    fn changes<'a>(
        &'a self,
        collection: &'a str,
        since: Option<&'a str>,
    ) -> BoxFuture<'a, Result<ObjectChanges, Fault>> {
        boxed(move || self.pull(collection, since))
    }

    fn get<'a>(&'a self, href: &'a str) -> BoxFuture<'a, Result<Object, Fault>> {
        boxed(move || async move {
            let (account, href, name) = self.owner(href);
            account.get(href).await.map(|object| Object { href: name(object.href), ..object })
        })
    }

    fn put<'a>(
        &'a self,
        href: &'a str,
        bytes: Bytes,
        expected: Expected<'a>,
    ) -> BoxFuture<'a, Result<Option<String>, PutFault>> {
        let (account, href, _) = self.owner(href);
        account.put(href, bytes, expected)
    }

    fn delete<'a>(&'a self, href: &'a str, version: &'a str) -> BoxFuture<'a, Result<(), PutFault>> {
        let (account, href, _) = self.owner(href);
        account.delete(href, version)
    }

    fn new_href(&self, collection: &str, uid: &str) -> String {
        let (account, href, name) = self.owner(collection);
        name(account.new_href(href, uid))
    }

    fn free_busy<'a>(
        &'a self,
        who: &'a Address,
        range: Interval,
    ) -> BoxFuture<'a, Result<Option<Vec<Part>>, Fault>> {
        self.calendars.free_busy(who, range)
    }

    fn schedules(&self) -> bool {
        self.calendars.schedules()
    }
}
