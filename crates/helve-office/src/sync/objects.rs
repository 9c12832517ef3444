//! Calendars, task lists and address books: pulled into the file page by page.
//!
//! One page is one transaction, with the state behind it, so a sync that is cut short goes on where it was. A reader
//! sees every page whole or not at all.

use bytes::Bytes;
use helve_store::office::{Before, CollectionRow, NewCollection, ObjectPage, OfficeDb, OfficeError};
use jiff::Timestamp;

use crate::Account;
use crate::account::{Fault, Holds, Object, ObjectChanges, ObjectStore};
use crate::objects::{OBJECT_BYTES_MAX, derive};

/// How many pages of one collection are taken in one sync: a server that never comes to an end is left for the next.
const PAGES_MAX: usize = 10_000;
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
    for (number, row) in rows.into_iter().enumerate() {
        let name = row.told.name.clone();
        let tell = |changed| progress(Progress { collection: name.clone(), number: number + 1, of, changed });
        pull(db, store, row, &mut synced, &tell).await?;
    }
    Ok(synced)
}

async fn pull(
    db: &OfficeDb,
    store: &dyn ObjectStore,
    row: CollectionRow,
    synced: &mut Synced,
    tell: &(dyn Fn(usize) + Send + Sync),
) -> Result<(), Fault> {
    let holds = Holds { events: row.told.events, tasks: row.told.tasks, contacts: row.told.contacts };
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
        let page = derived(page, holds).await?;
        db.take_objects(row.id, page).await.map_err(broken)?;
        tell(changed);
        if !more {
            return Ok(());
        }
    }
    Ok(())
}

/// Reads a page's objects on a thread that may be busy for a while.
async fn derived(page: ObjectChanges, holds: Holds) -> Result<ObjectPage, Fault> {
    let work = move || ObjectPage {
        reset: page.reset,
        changed: page.changed.iter().map(|one| row_of(one, holds)).collect(),
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

/// Takes over what was just written to a server, so that the next question sees it before the next sync.
pub async fn take_up(
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
