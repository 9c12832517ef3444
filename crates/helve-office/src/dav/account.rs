//! An account on a DAV server, as the office pack asks for it.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use helve_core::{BoxFuture, boxed};
use sha2::{Digest as _, Sha256};

use super::client::Dav;
use super::href::Href;
use super::layout::Layout;
use super::listing::{Facts, Kind, list};
use super::sync::{self, List};
use super::{free_busy, objects};
use crate::account::{Collection, Expected, Fault, Object, ObjectChanges, ObjectStore, PutFault};
use crate::availability::{Interval, Part};
use crate::text::Address;
use crate::web::{Server, WebSettings};

/// Most collections of which something is remembered.
const REMEMBERED_MAX: usize = 1000;

/// The calendars, task lists and address books of an account on a CalDAV or CardDAV server.
pub struct DavAccount {
    pub(super) dav: Dav,
    layout: Layout,
    facts: Mutex<HashMap<Href, Facts>>,
    /// Lists of which some pages are still to be handed out.
    lists: Mutex<HashMap<Href, Arc<List>>>,
}

impl DavAccount {
    /// An account whose layout is known; see [`check`](crate::connect::discover_dav::check). Asks the server nothing.
    pub fn new(settings: &WebSettings, layout: Layout) -> Result<Self, Fault> {
        let dav = Dav { server: Server::new(settings)? };
        Ok(Self { dav, layout, facts: Mutex::default(), lists: Mutex::default() })
    }

    /// Where its things are.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// What is known of a collection.
    pub(super) async fn facts(&self, collection: &Href) -> Result<Facts, Fault> {
        if let Some(facts) = locked(&self.facts).get(collection) {
            return Ok(facts.clone());
        }
        let facts = Facts::ask(&self.dav, collection).await?;
        self.remember(collection.clone(), facts.clone());
        Ok(facts)
    }

    fn remember(&self, collection: Href, facts: Facts) {
        let mut known = locked(&self.facts);
        if known.len() >= REMEMBERED_MAX {
            known.clear();
        }
        known.insert(collection, facts);
    }

    /// The server claimed that it can say what changed, and cannot.
    pub(super) fn mark_unsyncable(&self, collection: &Href) {
        if let Some(facts) = locked(&self.facts).get_mut(collection) {
            facts.syncs = false;
        }
    }

    pub(super) fn kept_list(&self, collection: &Href) -> Option<Arc<List>> {
        locked(&self.lists).get(collection).cloned()
    }

    /// Keeps a list for its next page, or forgets it behind the last one.
    pub(super) fn keep_list(&self, collection: &Href, list: Option<Arc<List>>) {
        let mut kept = locked(&self.lists);
        match list {
            Some(list) if kept.len() < REMEMBERED_MAX => drop(kept.insert(collection.clone(), list)),
            Some(_) | None => drop(kept.remove(collection)),
        }
    }

    /// A place of this account; anything else on the server is refused.
    fn place(&self, href: &str) -> Result<Href, Fault> {
        let place = Href::kept(&self.dav.server, href)?;
        for home in self.layout.homes() {
            let home = Href::kept(&self.dav.server, home)?;
            if place.is_below(&home) || place.is_same_collection(&home) {
                return Ok(place);
            }
        }
        Err(Fault::Refused("that is no place of this account's calendars and contacts".to_owned()))
    }

    async fn list_all(&self) -> Result<Vec<Collection>, Fault> {
        let layout = &self.layout;
        let calendars = layout.calendars.iter().map(|home| (home, Kind::Calendar));
        let books = layout.address_books.iter().map(|home| (home, Kind::AddressBook));
        let mut found: Vec<Collection> = Vec::new();
        for (home, kind) in calendars.chain(books) {
            for (collection, facts) in list(&self.dav, &Href::kept(&self.dav.server, home)?).await? {
                // One place may be the home of both kinds, and one home may lie in another.
                if facts.kind == kind && found.iter().all(|known| known.href != collection.href) {
                    self.remember(Href::kept(&self.dav.server, &collection.href)?, facts);
                    found.push(collection);
                }
            }
        }
        Ok(found)
    }

    async fn ask_free_busy(&self, who: &Address, range: Interval) -> Result<Option<Vec<Part>>, Fault> {
        let layout = &self.layout;
        let asker = layout.addresses.iter().find_map(|address| Address::new(address).ok());
        let (Some(outbox), Some(asker)) = (&layout.outbox, asker) else { return Ok(None) };
        let outbox = Href::kept(&self.dav.server, outbox)?;
        free_busy::ask(&self.dav, &outbox, &asker, who, range).await
    }
}

impl ObjectStore for DavAccount {
    fn collections(&self) -> BoxFuture<'_, Result<Vec<Collection>, Fault>> {
        boxed(|| self.list_all())
    }

    fn changes<'a>(
        &'a self,
        collection: &'a str,
        since: Option<&'a str>,
    ) -> BoxFuture<'a, Result<ObjectChanges, Fault>> {
        boxed(move || async move { sync::changes(self, &self.place(collection)?, since).await })
    }

    fn get<'a>(&'a self, href: &'a str) -> BoxFuture<'a, Result<Object, Fault>> {
        boxed(move || async move { objects::get(&self.dav, &self.place(href)?).await })
    }

    fn put<'a>(
        &'a self,
        href: &'a str,
        bytes: Bytes,
        expected: Expected<'a>,
    ) -> BoxFuture<'a, Result<Option<String>, PutFault>> {
        boxed(move || async move { objects::put(&self.dav, &self.place(href)?, bytes, expected).await })
    }

    fn delete<'a>(&'a self, href: &'a str, version: &'a str) -> BoxFuture<'a, Result<(), PutFault>> {
        boxed(move || async move { objects::delete(&self.dav, &self.place(href)?, version).await })
    }

    fn new_href(&self, collection: &str, uid: &str) -> String {
        let kind = Href::kept(&self.dav.server, collection)
            .ok()
            .and_then(|href| locked(&self.facts).get(&href).map(|facts| facts.kind));
        let ending = match kind {
            Some(Kind::AddressBook) => "vcf",
            Some(Kind::Calendar) | None => "ics",
        };
        let path = format!("{}/{}.{ending}", collection.trim_end_matches('/'), file_name(uid));
        // In the spelling in which a sync tells of it.
        Href::kept(&self.dav.server, &path).map_or(path, |href| href.key().to_owned())
    }

    fn free_busy<'a>(
        &'a self,
        who: &'a Address,
        range: Interval,
    ) -> BoxFuture<'a, Result<Option<Vec<Part>>, Fault>> {
        boxed(move || self.ask_free_busy(who, range))
    }

    fn schedules(&self) -> bool {
        self.layout.schedules
    }
}

impl fmt::Debug for DavAccount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DavAccount").field("host", &self.dav.server.host()).finish_non_exhaustive()
    }
}

/// A file's name for a UID: itself where that is plain, else a digest. Others choose UIDs, and some have slashes.
fn file_name(uid: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    match (1..=100).contains(&uid.len()) && uid.chars().all(is_plain) {
        true => uid.to_owned(),
        false => Sha256::digest(uid.as_bytes())[..16].iter().map(|byte| format!("{byte:02x}")).collect(),
    }
}

/// What is remembered is whole after every change, so a panic elsewhere spoils nothing.
fn locked<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
