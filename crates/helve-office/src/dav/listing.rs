//! The collections of an account.

use helve_core::hidden::one_line;

use super::client::{Dav, Depth};
use super::href::Href;
use super::multistatus::Item;
use super::xml::{Element, Space};
use crate::account::{Collection, Fault, Holds};

/// Most collections that an account has.
const COLLECTIONS_MAX: usize = 500;
const NAME_CHARS_MAX: usize = 200;

pub(crate) const ABOUT_COLLECTION: &str = "<resourcetype/><displayname/><c:supported-calendar-component-set/>\
     <current-user-privilege-set/><supported-report-set/><sync-token/><s:getctag/>";

/// What objects a collection has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Calendar,
    AddressBook,
}

/// What is known of one collection.
#[derive(Debug, Clone)]
pub(crate) struct Facts {
    pub(crate) kind: Kind,
    /// Whether the server can say what changed.
    pub(crate) syncs: bool,
    /// Changes whenever anything in the collection does.
    pub(crate) ctag: Option<String>,
}

impl Facts {
    pub(crate) fn read(item: &Item) -> Option<Self> {
        let reports = item.prop(Space::Dav, "supported-report-set");
        let syncs = reports.is_some_and(|set| {
            let mut reports =
                set.all(Space::Dav, "supported-report").flat_map(|one| one.all(Space::Dav, "report"));
            reports.any(|report| report.child(Space::Dav, "sync-collection").is_some())
        });
        // Some servers have a token and do not list the report.
        let has_token = item.text(Space::Dav, "sync-token").is_some();
        let ctag = item.text(Space::CalendarServer, "getctag").map(str::to_owned);
        Some(Self { kind: kind(item)?, syncs: syncs || has_token, ctag })
    }

    /// Asks for them.
    pub(crate) async fn ask(dav: &Dav, at: &Href) -> Result<Self, Fault> {
        let answer = dav.propfind(at, Depth::Itself, ABOUT_COLLECTION).await?;
        let found = answer.items.iter().find(|item| item.href.is_same_collection(at)).and_then(Self::read);
        found.ok_or_else(|| {
            Fault::Gone(format!("`{}` has no calendar or address book there", dav.server.host()))
        })
    }
}

/// The collections below a place, and the place itself if it is one.
pub(crate) async fn list(dav: &Dav, home: &Href) -> Result<Vec<(Collection, Facts)>, Fault> {
    let answer = dav.propfind(home, Depth::Members, ABOUT_COLLECTION).await?;
    let found = answer.items.iter().filter_map(|item| Some((collection(item)?, Facts::read(item)?)));
    Ok(found.take(COLLECTIONS_MAX).collect())
}

fn kind(item: &Item) -> Option<Kind> {
    let kinds = item.prop(Space::Dav, "resourcetype")?;
    if kinds.child(Space::CalDav, "calendar").is_some() {
        return Some(Kind::Calendar);
    }
    kinds.child(Space::CardDav, "addressbook").map(|_| Kind::AddressBook)
}

fn collection(item: &Item) -> Option<Collection> {
    let holds = match kind(item)? {
        Kind::AddressBook => Holds { contacts: true, ..Holds::default() },
        Kind::Calendar => calendar_holds(item.prop(Space::CalDav, "supported-calendar-component-set")),
    };
    // A calendar of journals alone has nothing for us.
    if holds == Holds::default() {
        return None;
    }
    let given = item.text(Space::Dav, "displayname").map(|name| one_line(name, NAME_CHARS_MAX));
    let href = item.href.as_str().to_owned();
    Some(Collection {
        name: given.unwrap_or_else(|| last_part(&href)),
        holds,
        writable: is_writable(item),
        href,
    })
}

/// A server that does not say takes everything (RFC 4791 5.2.3).
fn calendar_holds(set: Option<&Element>) -> Holds {
    let takes = |name: &str| {
        let mut kinds = set.into_iter().flat_map(|set| set.all(Space::CalDav, "comp"));
        set.is_none()
            || kinds.any(|kind| kind.label.as_deref().is_some_and(|label| label.eq_ignore_ascii_case(name)))
    };
    Holds { events: takes("VEVENT"), tasks: takes("VTODO"), contacts: false }
}

/// Whether we may write there. A server that does not say will refuse where we may not.
fn is_writable(item: &Item) -> bool {
    let Some(set) = item.prop(Space::Dav, "current-user-privilege-set") else { return true };
    let mut privileges = set.all(Space::Dav, "privilege").flat_map(|privilege| &privilege.children);
    privileges.any(|privilege| {
        privilege.space == Space::Dav && matches!(&*privilege.name, "all" | "write" | "write-content")
    })
}

fn last_part(href: &str) -> String {
    let part = href.trim_end_matches('/').rsplit('/').next().unwrap_or_default();
    one_line(&percent_encoding::percent_decode_str(part).decode_utf8_lossy(), NAME_CHARS_MAX)
}
