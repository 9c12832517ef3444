//! Calendars, task lists and address books: pulled into the file page by page.
//!
//! One page is one transaction, with the state behind it, so a sync that is cut short goes on where it was. A reader
//! sees every page whole or not at all.

use bytes::Bytes;
use helve_store::office::{Before, CollectionRow, NewCollection, ObjectPage, OfficeDb, OfficeError};
use jiff::Timestamp;

use crate::Account;
use crate::account::{Fault, Holds, Object, ObjectChanges, ObjectStore, UnreadObject};
use crate::objects::{OBJECT_BYTES_MAX, derive};

/// How many pages of one collection are taken in one sync: a server that never comes to an end is left for the next.
const PAGES_MAX: usize = 10_000;
/// The version of an object that could not be got. No server has an empty one.
const UNREAD: &str = "";
/// How many of these are tried again in one sync of a collection.
const RETRIES_MAX: usize = 200;
/// How many collections an account may have.
const COLLECTIONS_MAX: usize = 500;

/// How far a sync is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Progress {
    /// The collection at hand, as people know it.
    pub collection: String,
    /// Which one it is, counted from one.
    pub number: usize,
    /// Of how many.
    pub of: usize,
    /// How many objects of it have changed so far.
    pub changed: usize,
}

/// What a sync did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Synced {
    /// Objects that are new or changed.
    pub changed: usize,
    /// Objects that are gone.
    pub gone: usize,
    /// Objects that are larger than may be kept. Their calendar is seen only in part.
    pub too_large: usize,
}

/// Brings the file up to date with an account's server. The embedded account is the file, and needs none.
pub async fn sync_objects(
    db: &OfficeDb,
    account: &Account,
    progress: &(dyn Fn(Progress) + Send + Sync),
) -> Result<Synced, Fault> {
    let mut synced = Synced::default();
    let Some(store) = account.objects.as_deref().filter(|_| account.kind != "embedded") else {
        return Ok(synced);
    };
    let told = store.collections().await?;
    if told.len() > COLLECTIONS_MAX {
        return Err(Fault::Nonsense(format!("the account has more than {COLLECTIONS_MAX} collections")));
    }
    let told = told.into_iter().map(|one| NewCollection {
        href: one.href,
        name: one.name,
        role: None,
        events: one.holds.events,
        tasks: one.holds.tasks,
        contacts: one.holds.contacts,
        writable: one.writable,
    });
    let rows = db.tell_collections(&account.id, false, told.collect()).await.map_err(broken)?;
    let of = rows.len();
    let mut first = None;
    for (number, row) in rows.into_iter().enumerate() {
        let name = row.told.name.clone();
        let tell = |changed| progress(Progress { collection: name.clone(), number: number + 1, of, changed });
        // What is wrong with one object or one collection does not keep us from the others.
        let fault = match pull(db, store, row, &mut synced, &tell).await {
            Ok(fault) => fault,
            Err(fault @ (Fault::Login(_) | Fault::Unreachable(_))) => return Err(fault),
            Err(fault) => Some(fault),
        };
        first = first.or(fault);
    }
    match first {
        Some(fault) => Err(fault),
        None => Ok(synced),
    }
}

/// Tries again what could not be got at an earlier sync: no server says that it can be now. The first that fails is
/// told.
async fn retry(
    db: &OfficeDb,
    store: &dyn ObjectStore,
    row: &CollectionRow,
    holds: Holds,
) -> Result<Option<Fault>, Fault> {
    let mut first = None;
    for href in db.objects_of_version(row.id, UNREAD, RETRIES_MAX).await.map_err(broken)? {
        match store.get(&href).await {
            Ok(object) => {
                let object = row_of(&Object { href, ..object }, holds);
                db.put_object(row.id, object, Before::Anything).await.map_err(broken)?;
            }
            Err(Fault::Gone(_)) => {
                db.remove_object(row.id, &href, Before::Anything).await.map_err(broken)?;
            }
            Err(fault @ Fault::Login(_)) => return Err(fault),
            Err(fault) => first = first.or(Some(fault)),
        }
    }
    Ok(first)
}

async fn pull(
    db: &OfficeDb,
    store: &dyn ObjectStore,
    row: CollectionRow,
    synced: &mut Synced,
    tell: &(dyn Fn(usize) + Send + Sync),
) -> Result<Option<Fault>, Fault> {
    let holds = Holds { events: row.told.events, tasks: row.told.tasks, contacts: row.told.contacts };
    let mut first = retry(db, store, &row, holds).await?;
    let mut state = row.state;
    let mut changed = 0;
    for _ in 0..PAGES_MAX {
        let page = store.changes(&row.told.href, state.as_deref()).await?;
        let more = page.more;
        if more && Some(&page.state) == state.as_ref() && page.changed.is_empty() && page.gone.is_empty() {
            return Err(Fault::Nonsense(
                "the server goes round in circles: it says that there is more".to_owned(),
            ));
        }
        changed += page.changed.len();
        synced.changed += page.changed.len();
        synced.gone += page.gone.len();
        synced.too_large += page.changed.iter().filter(|one| one.bytes.len() > OBJECT_BYTES_MAX).count();
        state = Some(page.state.clone());
        first = first.or_else(|| page.unread.first().map(|unread| unread.fault.clone()));
        let page = derived(page, holds).await?;
        db.take_objects(row.id, page).await.map_err(broken)?;
        tell(changed);
        if !more {
            return Ok(first);
        }
    }
    Ok(first)
}

/// Reads a page's objects on a thread that may be busy for a while.
async fn derived(page: ObjectChanges, holds: Holds) -> Result<ObjectPage, Fault> {
    let work = move || ObjectPage {
        reset: page.reset,
        changed: page
            .changed
            .iter()
            .map(|one| row_of(one, holds))
            .chain(page.unread.iter().map(|one| unread_row(one, holds)))
            .collect(),
        gone: page.gone,
        state: page.state,
        synced_at: (!page.more).then(|| Timestamp::now().as_microsecond()),
    };
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|_| Fault::Nonsense("what the server sent cannot be read".to_owned()))
}

/// Too large an object is kept as its name alone, so that its time counts as unknown.
fn row_of(object: &Object, holds: Holds) -> helve_store::office::NewObject {
    match object.bytes.len() > OBJECT_BYTES_MAX {
        false => derive(&object.href, &object.version, &object.bytes, holds),
        true => {
            let mut row = derive(&object.href, &object.version, &[], holds);
            row.unreadable = Some(format!("it is larger than {OBJECT_BYTES_MAX} bytes"));
            row
        }
    }
}

/// What cannot be got is kept as its name alone too, without a version, so that it is tried again.
fn unread_row(unread: &UnreadObject, holds: Holds) -> helve_store::office::NewObject {
    let mut row = derive(&unread.href, UNREAD, &[], holds);
    row.unreadable = Some(format!("it could not be got: {}", unread.fault));
    row
}

/// Takes over what was just written to a server, so that the next question sees it before the next sync.
pub async fn store_object(
    db: &OfficeDb,
    collection: &CollectionRow,
    href: &str,
    version: &str,
    bytes: &Bytes,
) -> Result<(), OfficeError> {
    let told = &collection.told;
    let holds = Holds { events: told.events, tasks: told.tasks, contacts: told.contacts };
    let object = derive(href, version, bytes, holds);
    db.put_object(collection.id, object, Before::Anything).await?;
    Ok(())
}

fn broken(error: OfficeError) -> Fault {
    Fault::Unreachable(error.to_string())
}
