//! The office: one for a process, opened at the first use.

mod secrets;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use helve::Tool;
use helve_office::connect::Connect;
use helve_office::text::{Address, Mailbox};
use helve_office::{Office, OfficeSettings};
use helve_store::office::OfficeDb;
use jiff::tz::TimeZone;

pub use secrets::{Keep, OfficeSecrets};

use crate::config::{Loaded, Origin, document, find};
use crate::error::HostError;

/// What stands next to the file, each under its name and this.
const BESIDE: [&str; 3] = ["-wal", "-shm", "-journal"];

/// The office of this configuration. Nothing is opened by that.
pub fn office(loaded: &Loaded) -> Result<Arc<Office>, HostError> {
    if let Some(office) = loaded.office.get() {
        return Ok(Arc::clone(office));
    }
    let section = &loaded.config.office;
    let settings =
        OfficeSettings { zone: zone(loaded), recipient_domains: section.recipient_domains.clone() };
    let connect = Connect {
        secrets: Arc::new(secrets(loaded)),
        net: loaded.config.net.clone(),
        person: Some(person(loaded)?),
    };
    let office = Office::open(OfficeDb::later(&path(loaded)), settings, connect);
    Ok(Arc::clone(loaded.office.get_or_init(|| Arc::new(office))))
}

/// Passwords and tokens of accounts.
pub fn secrets(loaded: &Loaded) -> OfficeSecrets {
    OfficeSecrets::new(loaded.config.net.clone(), super::sandbox(loaded))
}

/// The office's tools, where the configuration wants them.
pub fn tools(loaded: &Loaded) -> Result<Vec<Tool>, HostError> {
    match loaded.config.office.enabled {
        true => Ok(helve_office::tools::office_tools(&office(loaded)?)),
        false => Ok(Vec::new()),
    }
}

/// Where the file is. Accounts are a person's and not a project's, so it lies with the person, unless they keep
/// their journal elsewhere.
pub fn path(loaded: &Loaded) -> PathBuf {
    if let Some(path) = &loaded.config.office.path {
        return loaded.start_of("/office/path").join(path);
    }
    let is_chosen = loaded.is_set("/journal/path") && !loaded.journal_is_foreign();
    match find::state_dir().filter(|_| !is_chosen) {
        Some(folder) => folder.join("office.db"),
        None => loaded.journal_path.with_file_name("office.db"),
    }
}

/// The file and what SQLite puts next to it.
pub(super) fn files(loaded: &Loaded) -> impl Iterator<Item = PathBuf> {
    let path = path(loaded);
    std::iter::once("").chain(BESIDE).map(move |ending| {
        let mut file = path.clone().into_os_string();
        file.push(ending);
        file.into()
    })
}

/// Takes over which accounts are connected while the server runs, and syncs them as often as the configuration says.
/// Runs until dropped.
pub async fn keep_syncing(loaded: &Loaded) {
    let section = &loaded.config.office;
    match office(loaded) {
        Ok(office) if section.enabled => {
            let every = Some(section.sync_every_s).filter(|every| *every > 0).map(Duration::from_secs);
            helve_office::connect::keep_syncing(office, every).await;
        }
        Ok(_) | Err(_) => std::future::pending().await,
    }
}

/// Where the zone that is set is unknown, the configuration's remarks have said so.
fn zone(loaded: &Loaded) -> TimeZone {
    let name = loaded.config.office.time_zone.as_deref();
    name.and_then(|name| TimeZone::get(name).ok()).unwrap_or_else(TimeZone::system)
}

fn person(loaded: &Loaded) -> Result<Mailbox, HostError> {
    let section = &loaded.config.office;
    let address = Address::new(&section.address)
        .map_err(|error| wrong(loaded, "/office/address", &error.to_string()))?;
    Mailbox::new(section.name.as_deref(), address)
        .map_err(|error| wrong(loaded, "/office/name", &error.to_string()))
}

fn wrong(loaded: &Loaded, pointer: &str, why: &str) -> HostError {
    let origin: Origin = loaded.origin(pointer);
    HostError::usage("the office cannot be used as it is configured")
        .detail(format!("{}  {why}", document::at(&origin)))
        .hint("`helve config keys office` documents the keys")
}
