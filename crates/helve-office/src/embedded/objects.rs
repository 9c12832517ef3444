//! A calendar, a task list and an address book in the office file.

use bytes::Bytes;
use helve_core::BoxFuture;
use helve_store::office::{
    AccountRow, Before, CollectionRow, NewCollection, ObjectRow, OfficeDb, OfficeError,
};
use jiff::Timestamp;

use crate::account::{Collection, Expected, Fault, Holds, Object, ObjectChanges, ObjectStore, PutFault};
use crate::availability::{Interval, Part};
use crate::objects::{OBJECT_BYTES_MAX, derive, version_of};
use crate::text::Address;

/// The name of the embedded account.
pub const LOCAL: &str = "local";

/// How many objects one page of changes has.
const PAGE: usize = 500;

/// The embedded account's calendar, task list and address book. What is written here is in the file at once, index
/// included, so it needs no sync.
#[derive(Clone)]
pub struct EmbeddedObjects {
    db: OfficeDb,
}

impl EmbeddedObjects {
    /// Those of a file that has the account already.
    pub(crate) fn new(db: &OfficeDb) -> Self {
        Self { db: db.clone() }
    }

    /// Opens them, and makes the account and what it holds on first use.
    pub async fn open(db: &OfficeDb) -> Result<Self, OfficeError> {
        if db.account(LOCAL).await?.is_none() {
            db.add_account(account_row()).await?;
        }
        if db.collections(Some(LOCAL)).await?.iter().all(|row| !holds_objects(row)) {
            db.tell_collections(LOCAL, false, collections()).await?;
        }
        Ok(Self { db: db.clone() })
    }

    async fn rows(&self) -> Result<Vec<CollectionRow>, Fault> {
        let rows = self.db.collections(Some(LOCAL)).await.map_err(broken)?;
        Ok(rows.into_iter().filter(holds_objects).collect())
    }

    /// The collection that an object is in, by the beginning of its name.
    async fn collection_of(&self, href: &str) -> Result<CollectionRow, Fault> {
        let rows = self.rows().await?;
        let found = rows.into_iter().find(|row| href.starts_with(&row.told.href));
        found.ok_or_else(|| Fault::Gone("the local account has no such collection".to_owned()))
    }

    async fn write(&self, href: &str, bytes: Bytes, before: Before) -> Result<Option<String>, PutFault> {
        if bytes.len() > OBJECT_BYTES_MAX {
            let text = format!("the local account takes objects of {OBJECT_BYTES_MAX} bytes at most");
            return Err(Fault::Refused(text).into());
        }
        let row = self.collection_of(href).await?;
        let version = version_of(&bytes);
        let object = derive(href, &version, &bytes, holds(&row));
        let same = self.db.object_of(row.id, &object.uid).await.map_err(broken)?;
        if same.is_some_and(|same| same.href != href) {
            let text = "the collection has another object with this UID".to_owned();
            return Err(Fault::Refused(text).into());
        }
        match self.db.put_object(row.id, object, before).await.map_err(broken)? {
            true => Ok(Some(version)),
            false => Err(PutFault::Conflict),
        }
    }
}

pub(crate) fn account_row() -> AccountRow {
    AccountRow {
        id: LOCAL.to_owned(),
        kind: "embedded".to_owned(),
        address: None,
        name: None,
        owner: None,
        settings: "{}".to_owned(),
        created_at: Timestamp::now(),
        synced_at: None,
        trouble: None,
    }
}

/// What the account holds besides mails.
pub(crate) fn collections() -> Vec<NewCollection> {
    let one = |href: &str, name: &str| NewCollection {
        href: href.to_owned(),
        name: name.to_owned(),
        writable: true,
        ..NewCollection::default()
    };
    vec![
        NewCollection { events: true, ..one("calendar/", "Calendar") },
        NewCollection { tasks: true, ..one("tasks/", "Tasks") },
        NewCollection { contacts: true, ..one("contacts/", "Contacts") },
    ]
}

fn holds_objects(row: &CollectionRow) -> bool {
    row.told.events || row.told.tasks || row.told.contacts
}

fn holds(row: &CollectionRow) -> Holds {
    Holds { events: row.told.events, tasks: row.told.tasks, contacts: row.told.contacts }
}

/// The file is local: what does not work now may work in a moment, and nothing was done.
fn broken(error: OfficeError) -> Fault {
    Fault::Unreachable(error.to_string())
}

fn object(row: ObjectRow) -> Object {
    Object { href: row.href, version: row.version, bytes: row.bytes.into() }
}

impl ObjectStore for EmbeddedObjects {
    fn collections(&self) -> BoxFuture<'_, Result<Vec<Collection>, Fault>> {
        Box::pin(async move {
            let rows = self.rows().await?;
            let one = |row: CollectionRow| Collection {
                holds: holds(&row),
                href: row.told.href,
                name: row.told.name,
                writable: row.told.writable,
            };
            Ok(rows.into_iter().map(one).collect())
        })
    }

    // The file keeps no history, so a reader who has come to the end begins anew.
    fn changes<'a>(
        &'a self,
        collection: &'a str,
        since: Option<&'a str>,
    ) -> BoxFuture<'a, Result<ObjectChanges, Fault>> {
        Box::pin(async move {
            let row = self.collection_of(collection).await?;
            let after = since.and_then(|since| since.parse().ok());
            let objects = self.db.objects_after(row.id, after.unwrap_or(0), PAGE).await.map_err(broken)?;
            let more = objects.len() == PAGE;
            let last = objects.last().map(|last| last.id.to_string()).filter(|_| more);
            Ok(ObjectChanges {
                reset: after.is_none(),
                changed: objects.into_iter().map(object).collect(),
                gone: Vec::new(),
                unread: Vec::new(),
                state: last.unwrap_or_default(),
                more,
            })
        })
    }

    fn get<'a>(&'a self, href: &'a str) -> BoxFuture<'a, Result<Object, Fault>> {
        Box::pin(async move {
            let row = self.collection_of(href).await?;
            let found = self.db.object_at(row.id, href).await.map_err(broken)?;
            found.map(object).ok_or_else(|| Fault::Gone("it is not there any more".to_owned()))
        })
    }

    fn put<'a>(
        &'a self,
        href: &'a str,
        bytes: Bytes,
        expected: Expected<'a>,
    ) -> BoxFuture<'a, Result<Option<String>, PutFault>> {
        let before = match expected {
            Expected::Nothing => Before::Nothing,
            Expected::Version(version) => Before::Version(version.to_owned()),
        };
        Box::pin(self.write(href, bytes, before))
    }

    fn delete<'a>(&'a self, href: &'a str, version: &'a str) -> BoxFuture<'a, Result<(), PutFault>> {
        Box::pin(async move {
            let row = self.collection_of(href).await?;
            let before = Before::Version(version.to_owned());
            match self.db.remove_object(row.id, href, before).await.map_err(broken)? {
                true => Ok(()),
                false => Err(PutFault::Conflict),
            }
        })
    }

    fn new_href(&self, collection: &str, uid: &str) -> String {
        let is_plain = !uid.starts_with('.')
            && (1..=200).contains(&uid.len())
            && uid.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"@._-".contains(&byte));
        let name = if is_plain { uid.to_owned() } else { version_of(uid.as_bytes()) };
        let ending = if collection == "contacts/" { "vcf" } else { "ics" };
        format!("{collection}{name}.{ending}")
    }

    fn free_busy<'a>(
        &'a self,
        _: &'a Address,
        _: Interval,
    ) -> BoxFuture<'a, Result<Option<Vec<Part>>, Fault>> {
        Box::pin(async { Ok(None) })
    }

    fn schedules(&self) -> bool {
        false
    }
}
