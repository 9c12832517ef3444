//! Finds out what a calendar or contacts server has for an account (RFC 6764).
//!
//! From an address of a mailbox: [`addresses`] says where to look, with what DNS says if somebody asked it. From an
//! address of a server: [`check`] logs in and says what there is.

use helve_core::hidden::one_line;
use helve_net::{Url, header};

use crate::account::{Collection, Fault, ObjectStore as _};
use crate::dav::{Dav, DavAccount, Depth, Href, Layout};
use crate::web::{Server, WebSettings, header_text};

/// Most redirects in a row.
const REDIRECTS_MAX: usize = 5;

/// Calendars or contacts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Service {
    /// CalDAV.
    Calendars,
    /// CardDAV.
    Contacts,
}

impl Service {
    /// The name of the records in DNS that say where it is: `SRV` for the host and `TXT` for the path.
    pub fn record(self, domain: &str) -> String {
        match self {
            Self::Calendars => format!("_caldavs._tcp.{domain}"),
            Self::Contacts => format!("_carddavs._tcp.{domain}"),
        }
    }

    fn well_known(self) -> &'static str {
        match self {
            Self::Calendars => "/.well-known/caldav",
            Self::Contacts => "/.well-known/carddav",
        }
    }
}

/// Where a service of a domain may be, best guess first. `hosts` are the targets of its `SRV` records in their order,
/// `path` is what its `TXT` record says. Whoever uses a host of another domain asks the user first: DNS is not
/// signed everywhere.
pub fn addresses(service: Service, domain: &str, hosts: &[(String, u16)], path: Option<&str>) -> Vec<Url> {
    let path = path.and_then(|text| text.strip_prefix("path=")).filter(|path| path.starts_with('/'));
    let path = path.unwrap_or_else(|| service.well_known());
    let named = hosts
        .iter()
        .filter(|(host, _)| host != ".")
        .map(|(host, port)| format!("https://{}:{port}{path}", host.trim_end_matches('.')));
    let guessed = format!("https://{domain}{}", service.well_known());
    named.chain([guessed]).filter_map(|text| Url::parse(&text).ok()).take(8).collect()
}

/// What an account has on a server.
#[derive(Debug, Clone)]
pub struct What {
    /// Where its things are; [`DavAccount::new`] wants it.
    pub layout: Layout,
    /// Its calendars, task lists and address books.
    pub collections: Vec<Collection>,
}

impl What {
    /// Collections that take events.
    pub fn calendars(&self) -> impl Iterator<Item = &Collection> {
        self.collections.iter().filter(|collection| collection.holds.events)
    }

    /// Collections that take tasks.
    pub fn task_lists(&self) -> impl Iterator<Item = &Collection> {
        self.collections.iter().filter(|collection| collection.holds.tasks)
    }

    /// Collections that take contacts.
    pub fn address_books(&self) -> impl Iterator<Item = &Collection> {
        self.collections.iter().filter(|collection| collection.holds.contacts)
    }
}

/// Logs in and says what there is. The login goes to the host of the given address and to no other, whatever that
/// one says; where it points to another one, the fault names it.
pub async fn check(settings: &WebSettings) -> Result<What, Fault> {
    let layout = find(&Dav { server: Server::new(settings)? }).await?;
    let collections = DavAccount::new(settings, layout.clone())?.collections().await?;
    Ok(What { layout, collections })
}

/// Looks where the user said, then where RFC 6764 says, until both kinds are found.
async fn find(dav: &Dav) -> Result<Layout, Fault> {
    let (mut layout, mut first) = (Layout::default(), None);
    let given = dav.server.home().path();
    for path in [given, Service::Calendars.well_known(), Service::Contacts.well_known(), "/"] {
        match find_at(dav, path).await {
            Ok(found) => layout = layout.merged(found),
            // It is no better elsewhere on the same host.
            Err(fault @ (Fault::Login(_) | Fault::Unreachable(_))) => return Err(fault),
            Err(fault) => first = first.or(Some(fault)),
        }
        if !layout.calendars.is_empty() && !layout.address_books.is_empty() {
            break;
        }
    }
    match layout.is_empty() {
        false => Ok(layout),
        true => Err(first.unwrap_or_else(|| {
            let host = dav.server.host();
            Fault::Refused(format!(
                "`{host}` has no calendars and no address books for this login; give the CalDAV or CardDAV \
                 address that its help pages name"
            ))
        })),
    }
}

async fn find_at(dav: &Dav, path: &str) -> Result<Layout, Fault> {
    let at = arrive(dav, Href::kept(&dav.server, path)?).await?;
    Layout::find(dav, &at).await
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
    let host = one_line(dav.server.host(), 100);
    Err(Fault::Nonsense(format!("`{host}` sends from one place to another without an end")))
}

/// A provider whose addresses are known.
#[derive(Debug, Clone, Copy)]
pub struct Preset {
    /// What people call it.
    pub name: &'static str,
    /// Domains of mailboxes that are surely its own.
    pub domains: &'static [&'static str],
    /// CalDAV; `{address}` stands for the mail address.
    pub calendars: &'static str,
    /// What an access token must be good for.
    pub calendar_scopes: &'static [&'static str],
    /// CardDAV; `{address}` stands for the mail address.
    pub contacts: &'static str,
    /// What an access token must be good for.
    pub contact_scopes: &'static [&'static str],
}

/// Google: by OAuth alone. Its tasks have no open protocol.
pub const GOOGLE: Preset = Preset {
    name: "Google",
    domains: &["gmail.com", "googlemail.com"],
    calendars: "https://apidata.googleusercontent.com/caldav/v2/{address}/user",
    calendar_scopes: &["https://www.googleapis.com/auth/calendar"],
    contacts: "https://www.googleapis.com/carddav/v1/principals/{address}",
    contact_scopes: &["https://www.googleapis.com/auth/carddav"],
};

impl Preset {
    /// The address of a service for a mailbox.
    pub fn url(&self, service: Service, address: &crate::text::Address) -> Url {
        let template = match service {
            Service::Calendars => self.calendars,
            Service::Contacts => self.contacts,
        };
        // An address has `?` and `#` at most, which would end the path.
        let part =
            percent_encoding::utf8_percent_encode(address.as_str(), percent_encoding::NON_ALPHANUMERIC);
        let text = template.replace("{address}", &part.to_string().replace("%2E", "."));
        Url::parse(&text).expect("templates are URLs, and the address is encoded")
    }
}
