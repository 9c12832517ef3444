//! Finds out what a calendar or contacts server has for an account (RFC 6764).
//!
//! From an address of a mailbox: [`addresses`] says where to look, with what DNS says if somebody asked it. From an
//! address of a server: [`check`] logs in and says what there is.

use helve_net::Url;

use crate::account::{Collection, Fault, ObjectStore as _};
pub use crate::dav::Service;
use crate::dav::{Dav, DavAccount, Layout};
use crate::web::{Server, WebSettings};

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
    /// Where its things are; [`DavAccount::new`] takes it, whole or [a part](Layout::only).
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
    let layout = Layout::discover(&Dav { server: Server::new(settings)? }).await?;
    let collections = DavAccount::new(settings, layout.clone())?.collections().await?;
    Ok(What { layout, collections })
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
