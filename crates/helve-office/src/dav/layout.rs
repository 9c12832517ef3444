//! Where an account's things are on its server (RFC 5397, 4791 6.2, 6352 7.1, 6638 2.1).

use helve_net::header;
use serde::{Deserialize, Serialize};

use super::client::{Dav, Depth};
use super::href::Href;
use super::multistatus::Item;
use super::xml::Space;
use crate::account::Fault;
use crate::text::Address;
use crate::web::header_text;

/// Most places of one kind that an account has.
const PLACES_MAX: usize = 16;

const ABOUT_ACCOUNT: &str = "<current-user-principal/><resourcetype/><c:calendar-home-set/><k:addressbook-home-set/>\
     <c:schedule-outbox-URL/><c:calendar-user-address-set/>";

/// Most redirects in a row.
const REDIRECTS_MAX: usize = 5;

/// Calendars or contacts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Service {
    /// CalDAV: calendars and task lists.
    Calendars,
    /// CardDAV: address books.
    Contacts,
}

impl Service {
    /// What it is called in DNS.
    pub(crate) fn in_dns(self) -> &'static str {
        match self {
            Self::Calendars => "_caldavs._tcp",
            Self::Contacts => "_carddavs._tcp",
        }
    }

    /// Where it is on a host that says nothing else.
    pub(crate) fn well_known(self) -> &'static str {
        match self {
            Self::Calendars => "/.well-known/caldav",
            Self::Contacts => "/.well-known/carddav",
        }
    }
}

/// Where an account's things are. Found once, kept with the account.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Layout {
    /// Paths below which calendars and task lists are.
    pub calendars: Vec<String>,
    /// Paths below which address books are.
    pub address_books: Vec<String>,
    /// Where other people's free time is asked for, if the server can do that.
    pub outbox: Option<String>,
    /// Addresses under which the server knows the account's owner.
    pub addresses: Vec<String>,
    /// Whether the server invites attendees by itself.
    pub schedules: bool,
}

impl Layout {
    /// Whether there is anything at all.
    pub fn is_empty(&self) -> bool {
        self.calendars.is_empty() && self.address_books.is_empty()
    }

    /// The part of it that an account is to have.
    #[must_use]
    pub fn only(mut self, part: Service) -> Self {
        match part {
            Service::Calendars => self.address_books.clear(),
            Service::Contacts => self.calendars.clear(),
        }
        self
    }

    /// The paths below which its things are.
    pub(super) fn homes(&self) -> impl Iterator<Item = &String> {
        self.calendars.iter().chain(&self.address_books)
    }

    /// Everything of both. Of what an account has once, this one's counts.
    #[must_use]
    pub fn merged(mut self, other: Self) -> Self {
        for (own, others) in [
            (&mut self.calendars, other.calendars),
            (&mut self.address_books, other.address_books),
            (&mut self.addresses, other.addresses),
        ] {
            for place in others {
                if !own.contains(&place) {
                    own.push(place);
                }
            }
        }
        self.outbox = self.outbox.or(other.outbox);
        self.schedules |= other.schedules;
        self
    }

    /// Looks where the user said, then where RFC 6764 says, until both kinds are found.
    pub(crate) async fn discover(dav: &Dav) -> Result<Self, Fault> {
        let (mut layout, mut first) = (Self::default(), None);
        for path in
            [dav.server.home().path(), Service::Calendars.well_known(), Service::Contacts.well_known(), "/"]
        {
            match Self::find_from(dav, path).await {
                Ok(found) => layout = layout.merged(found),
                // It is no better elsewhere on the same host.
                Err(fault @ (Fault::Login(_) | Fault::Unreachable(_))) if layout.is_empty() => {
                    return Err(fault);
                }
                Err(fault) => first = first.or(Some(fault)),
            }
            if !layout.calendars.is_empty() && !layout.address_books.is_empty() {
                break;
            }
        }
        match layout.is_empty() {
            false => Ok(layout),
            true => Err(first.unwrap_or_else(|| nothing(dav.server.host()))),
        }
    }

    async fn find_from(dav: &Dav, path: &str) -> Result<Self, Fault> {
        Self::find(dav, &arrive(dav, Href::kept(&dav.server, path)?).await?).await
    }

    /// Asks a place what it knows of the account: the account itself, the place where that is written, or one
    /// collection of it.
    async fn find(dav: &Dav, at: &Href) -> Result<Self, Fault> {
        let item = about(dav, at).await?;
        let Some(principal) = item.hrefs(Space::Dav, "current-user-principal").next() else {
            return Self::read(dav, at, &item, &item).await;
        };
        let principal = Href::read(&dav.server, at, principal)?;
        let owner = about(dav, &principal).await?;
        Self::read(dav, at, &owner, &item).await
    }

    async fn read(dav: &Dav, at: &Href, owner: &Item, itself: &Item) -> Result<Self, Fault> {
        let places = |name: (Space, &str)| -> Result<Vec<String>, Fault> {
            let hrefs = owner.hrefs(name.0, name.1).take(PLACES_MAX);
            hrefs.map(|href| Ok(Href::read(&dav.server, at, href)?.as_str().to_owned())).collect()
        };
        let mut layout = Self {
            calendars: places((Space::CalDav, "calendar-home-set"))?,
            address_books: places((Space::CardDav, "addressbook-home-set"))?,
            outbox: places((Space::CalDav, "schedule-outbox-URL"))?.into_iter().next(),
            addresses: addresses(owner),
            schedules: false,
        };
        if layout.is_empty() {
            layout.take_collection(at, itself);
        }
        if let Some(first) = layout.calendars.first() {
            let words = match dav.options(&Href::kept(&dav.server, first)?).await {
                // A server that does not take the question schedules nothing.
                Err(Fault::Refused(_) | Fault::Gone(_)) => Vec::new(),
                words => words?,
            };
            layout.schedules = words.iter().any(|word| word == "calendar-auto-schedule");
        }
        Ok(layout)
    }

    /// A server that does not say where an account's things are may still have been given as one of them.
    fn take_collection(&mut self, at: &Href, itself: &Item) {
        let Some(kind) = itself.prop(Space::Dav, "resourcetype") else { return };
        if kind.child(Space::CalDav, "calendar").is_some() {
            self.calendars.push(at.as_str().to_owned());
        }
        if kind.child(Space::CardDav, "addressbook").is_some() {
            self.address_books.push(at.as_str().to_owned());
        }
    }
}

/// Where a place leads to by redirects, on the same host.
async fn arrive(dav: &Dav, mut at: Href) -> Result<Href, Fault> {
    for _ in 0..REDIRECTS_MAX {
        let response = dav.propfind_raw(&at, Depth::Itself, "<current-user-principal/>").await?;
        let moved = response.status.is_redirection();
        let Some(location) = header_text(&response.headers, header::LOCATION).filter(|_| moved) else {
            return Ok(at);
        };
        at = Href::read(&dav.server, &at, location)?;
    }
    Err(dav.nonsense("sends from one place to another without an end"))
}

fn nothing(host: &str) -> Fault {
    Fault::Refused(format!(
        "`{host}` has no calendars and no address books for this login; give the CalDAV or CardDAV address that its \
         help pages name"
    ))
}

async fn about(dav: &Dav, at: &Href) -> Result<Item, Fault> {
    let answer = dav.propfind(at, Depth::Itself, ABOUT_ACCOUNT).await?;
    let found = answer.items.into_iter().next();
    found.ok_or_else(|| dav.nonsense("says nothing about the place that it was asked for"))
}

/// The owner's mail addresses; servers also write URLs there.
fn addresses(owner: &Item) -> Vec<String> {
    let hrefs = owner.hrefs(Space::CalDav, "calendar-user-address-set");
    let mails = hrefs.filter_map(mail_of).take(PLACES_MAX);
    mails.map(|address| address.as_str().to_owned()).collect()
}

/// The address of a `mailto:`.
pub(super) fn mail_of(uri: &str) -> Option<Address> {
    let scheme = uri.get(..7).filter(|scheme| scheme.eq_ignore_ascii_case("mailto:"))?;
    Address::new(&uri[scheme.len()..]).ok()
}
