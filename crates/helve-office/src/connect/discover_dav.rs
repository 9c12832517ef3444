//! Finds out what a calendar or contacts server has for an account (RFC 6764).
//!
//! From the address of a mailbox, [`candidates`] says where to look. At the address of a server, [`check`] logs in and
//! says what there is.

use helve_net::Url;

use super::dns::Resolver;
use super::presets::Preset;
use crate::account::{Collection, Fault, ObjectStore as _};
pub use crate::dav::Service;
use crate::dav::{Dav, DavAccount, Layout};
use crate::text::Address;
use crate::web::{Server, WebSettings};

/// Where a service for a mail address may be, best guess first. Nothing is sent there yet, and before a login is, the
/// user has to see the host: what DNS says is not signed everywhere.
pub async fn candidates(address: &Address, service: Service, resolver: &Resolver) -> Vec<Url> {
    let domain = address.domain();
    if let Some(known) = known(domain, resolver).await {
        return vec![known.url(service, address)];
    }
    let hosts = resolver.srv(service.in_dns(), domain).await.unwrap_or_default();
    let path = match hosts.is_empty() {
        true => None,
        false => resolver.path(service.in_dns(), domain).await.unwrap_or_default(),
    };
    let path = path.as_deref().unwrap_or_else(|| service.well_known());
    let named = hosts.iter().map(|srv| format!("https://{}:{}{path}", srv.host, srv.port));
    let guessed = format!("https://{domain}{}", service.well_known());
    named.chain([guessed]).filter_map(|text| Url::parse(&text).ok()).collect()
}

/// The provider of a domain, if its addresses are known: by its name, or by who takes its mail.
async fn known(domain: &str, resolver: &Resolver) -> Option<&'static DavPreset> {
    let provider = match Preset::of_domain(domain) {
        Some(preset) => Some(preset),
        None => {
            let exchangers = resolver.mx(domain).await.unwrap_or_default();
            exchangers.iter().find_map(|host| Preset::of_exchanger(host))
        }
    };
    DAV_PRESETS.iter().find(|preset| Some(preset.name) == provider.map(|provider| provider.name))
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

/// A provider of [`presets`](super::presets) whose calendars and contacts are at known addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DavPreset {
    /// What people call it.
    pub name: &'static str,
    /// CalDAV; `{address}` stands for the mail address.
    pub calendars: &'static str,
    /// CardDAV; `{address}` stands for the mail address.
    pub contacts: &'static str,
}

/// Those that are known. Google takes OAuth alone, and its tasks have no open protocol. iCloud names the host of an
/// account only after a login; the fault of [`check`] says which.
pub const DAV_PRESETS: [DavPreset; 2] = [
    DavPreset {
        name: "Google",
        calendars: "https://apidata.googleusercontent.com/caldav/v2/{address}/user",
        contacts: "https://www.googleapis.com/carddav/v1/principals/{address}",
    },
    DavPreset {
        name: "iCloud",
        calendars: "https://caldav.icloud.com/",
        contacts: "https://contacts.icloud.com/",
    },
];

impl DavPreset {
    /// The address of a service for a mailbox.
    pub fn url(&self, service: Service, address: &Address) -> Url {
        let template = match service {
            Service::Calendars => self.calendars,
            Service::Contacts => self.contacts,
        };
        // An address may have `?`, `#` and `/`, which mean something in a URL.
        let part =
            percent_encoding::utf8_percent_encode(address.as_str(), percent_encoding::NON_ALPHANUMERIC);
        let text = template.replace("{address}", &part.to_string().replace("%2E", "."));
        Url::parse(&text).expect("templates are URLs, and the address is encoded")
    }
}
