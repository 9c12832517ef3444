//! The collections that a caller may use, and objects in them.

use std::sync::Arc;

use helve::{Caller, ErrorCode, ToolError};
use helve_store::office::{AccountRow, CollectionRow, ObjectRow};

use super::fault::{broken, not_found, wrong};
use crate::account::{Object, ObjectStore};
use crate::objects::{Kind, ObjectId};
use crate::text::Address;
use crate::{Account, Office};

/// A collection that the caller may use.
#[derive(Clone)]
pub(super) struct Place {
    pub(super) account: Arc<Account>,
    pub(super) store: Arc<dyn ObjectStore>,
    pub(super) collection: CollectionRow,
}

impl Place {
    /// Whether the file knows it as its server had it at the last sync. The embedded account is the file.
    pub(super) fn is_known(&self) -> bool {
        self.account.kind == "embedded" || self.collection.synced_at.is_some()
    }

    /// What people call it.
    pub(super) fn name(&self) -> String {
        crate::text::cleaned(&self.collection.told.name, 100)
    }

    /// The person's own address there.
    pub(super) fn own(&self) -> Option<&Address> {
        self.account.person.as_ref().map(|person| person.address())
    }
}

fn takes(collection: &CollectionRow, kind: Kind) -> bool {
    match kind {
        Kind::Event | Kind::Note => collection.told.events,
        Kind::Task => collection.told.tasks,
        Kind::Contact => collection.told.contacts,
    }
}

/// Every collection of a kind that the caller may use. An error that names the next step where there is none.
pub(super) async fn places(office: &Office, caller: &Caller, kind: Kind) -> Result<Vec<Place>, ToolError> {
    let mut places = Vec::new();
    for account in office.accounts_of(caller) {
        let Some(store) = account.objects.clone() else { continue };
        let rows = office.db().collections(Some(&account.id)).await.map_err(broken)?;
        places.extend(rows.into_iter().filter(|row| takes(row, kind)).map(|collection| Place {
            account: Arc::clone(&account),
            store: Arc::clone(&store),
            collection,
        }));
    }
    match places.is_empty() {
        true => Err(none_connected(kind)),
        false => Ok(places),
    }
}

/// An account of the caller whose calendars nobody has seen yet, or cannot now.
pub(super) struct Unseen {
    pub(super) account: String,
    pub(super) why: String,
}

impl Unseen {
    /// It on a line, next to the names of calendars.
    pub(super) fn told(&self) -> String {
        format!("account `{}`: {}", self.account, self.why)
    }
}

/// The accounts that may have calendars and task lists of which the file knows none: what is in them is unknown, and
/// no answer may take it for nothing.
pub(super) async fn unseen(office: &Office, caller: &Caller) -> Result<Vec<Unseen>, ToolError> {
    let rows = office.db().accounts().await.map_err(broken)?;
    let row = |id: &str| rows.iter().find(|row| row.id == id);
    let mut unseen = Vec::new();
    for account in office.accounts_of(caller) {
        if account.objects.is_none() || account.kind == "embedded" {
            continue;
        }
        let known = office.db().collections(Some(&account.id)).await.map_err(broken)?;
        let why = why_unseen(row(&account.id), &known);
        unseen.extend(why.map(|why| Unseen { account: account.id.clone(), why }));
    }
    for aside in office.set_aside().iter() {
        let is_theirs = row(&aside.id)
            .is_some_and(|row| row.kind == "dav" && (row.owner.is_none() || row.owner == caller.principal));
        let why = crate::text::cleaned(&format!("it cannot be used now: {}", aside.trouble), 300);
        unseen.extend(is_theirs.then(|| Unseen { account: aside.id.clone(), why }));
    }
    Ok(unseen)
}

/// Why nothing is seen of an account. Nothing, where a calendar or task list of it is known, or where it has address books
/// alone and was read whole.
fn why_unseen(row: Option<&AccountRow>, known: &[CollectionRow]) -> Option<String> {
    if known.iter().any(|row| row.told.events || row.told.tasks) {
        return None;
    }
    let trouble = row.and_then(|row| row.trouble.as_deref());
    match trouble {
        Some(trouble) => Some(crate::text::cleaned(&format!("its last sync failed: {trouble}"), 300)),
        None if row.is_none_or(|row| row.synced_at.is_none()) => Some("it was never synced".to_owned()),
        None if known.iter().all(|row| !row.told.contacts) => Some("no calendar was found in it".to_owned()),
        None => None,
    }
}

/// What an answer names as not synced: places that the file knows in part, and whole accounts where all were asked
/// for.
pub(super) async fn not_synced(
    office: &Office,
    caller: &Caller,
    places: &[Place],
    named: &[String],
) -> Result<Vec<String>, ToolError> {
    let mut all: Vec<String> = places.iter().filter(|place| !place.is_known()).map(Place::name).collect();
    if named.is_empty() {
        all.extend(unseen(office, caller).await?.iter().map(Unseen::told));
    }
    Ok(all)
}

fn none_connected(kind: Kind) -> ToolError {
    let (what, command) = match kind {
        Kind::Event | Kind::Note => ("calendar", "helve connect calendar"),
        Kind::Task => ("task list", "helve connect calendar"),
        Kind::Contact => ("address book", "helve connect contacts"),
    };
    ToolError::new(ErrorCode::IntegrationMissing, format!("no {what} is connected"))
        .nothing_done()
        .suggest(format!("ask the user to run `{command}`"))
}

/// Those of some places that the caller named, by name or number; all where none is named.
pub(super) fn chosen(places: Vec<Place>, field: &str, names: &[String]) -> Result<Vec<Place>, ToolError> {
    if names.is_empty() {
        return Ok(places);
    }
    let mut chosen: Vec<Place> = Vec::new();
    for name in names {
        let found: Vec<&Place> = places.iter().filter(|place| is_named(place, name)).collect();
        if found.is_empty() {
            let known: Vec<String> = places.iter().map(|place| format!("`{}`", place.name())).collect();
            return Err(wrong(field, "the name of a connected one", "there is none of this name")
                .suggest(format!("there are: {}", known.join(", "))));
        }
        for place in found {
            if chosen.iter().all(|known| known.collection.id != place.collection.id) {
                chosen.push(place.clone());
            }
        }
    }
    Ok(chosen)
}

/// By its name, its account and name, or its number.
fn is_named(place: &Place, name: &str) -> bool {
    let name = name.trim();
    let own = place.name();
    own.to_lowercase() == name.to_lowercase()
        || format!("{}/{own}", place.account.id).to_lowercase() == name.to_lowercase()
        || place.collection.id.to_string() == name
}

/// The one place where something new goes: the named one, or the first that can be written, a server's before
/// the local one.
pub(super) fn place_for_new(
    places: Vec<Place>,
    field: &str,
    name: Option<&String>,
) -> Result<Place, ToolError> {
    let named = chosen(places, field, name.map(std::slice::from_ref).unwrap_or_default())?;
    let mut writable: Vec<Place> = named.into_iter().filter(|place| place.collection.told.writable).collect();
    writable.sort_by_key(|place| place.account.kind == "embedded");
    let several = name.is_some() && writable.len() > 1;
    if several {
        let which: Vec<String> =
            writable.iter().map(|place| format!("`{}/{}`", place.account.id, place.name())).collect();
        return Err(wrong(field, "a name that only one has", "several have this name")
            .suggest(format!("say which one: {}", which.join(", "))));
    }
    writable
        .into_iter()
        .next()
        .ok_or_else(|| ToolError::unrecoverable("READ_ONLY", "nothing may be written there").nothing_done())
}

/// An object as the file knows it, with its place.
pub(super) async fn find(
    office: &Office,
    caller: &Caller,
    id: &ObjectId,
) -> Result<(Place, ObjectRow), ToolError> {
    let what = id.kind.as_str();
    let places = places(office, caller, id.kind).await?;
    let place = places.into_iter().find(|place| place.collection.id == id.collection);
    let place = place.ok_or_else(|| not_found(what))?;
    let row = office.db().object_of(place.collection.id, &id.uid).await.map_err(broken)?;
    let row = row.filter(|row| row.kind == what).ok_or_else(|| not_found(what))?;
    Ok((place, row))
}

/// An object as its server has it now, with its place.
pub(super) async fn fetch(
    office: &Office,
    caller: &Caller,
    id: &ObjectId,
) -> Result<(Place, Object), ToolError> {
    let (place, row) = find(office, caller, id).await?;
    let object = place.store.get(&row.href).await.map_err(|fault| fault.for_model())?;
    if !place.collection.told.writable {
        let text = format!("`{}` can be read and not written", place.name());
        return Err(ToolError::unrecoverable("READ_ONLY", text).nothing_done());
    }
    Ok((place, object))
}
