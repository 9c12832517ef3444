//! What is assumed of a tool whose facets nobody has said.
//!
//! It rests on what Helve can see itself: how far the server reaches and what it was given. Names and
//! schemas are the server's own words, so they only add: a tool whose name speaks of mail reads private data.
//! One hint leaves something out: `openWorldHint = false` of a program without a box keeps its results from
//! counting as strangers' words. Such a program can do all that its user can, so the hint gives it nothing;
//! it is pinned, and the person who adds the server is shown what it leads to. It never takes `egress` away.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::path::Path;

use helve::{Assumed, Facet, SendsTo};
use helve_net::address::{special, unwrap_embedded};
use serde_json::Value;
use url::{Host, Url};

use super::words;
use crate::config::{Credentials, Place, ServerConfig, Setting};

/// Whether Helve acts in a person's account at a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Account {
    /// A person has logged in there.
    LoggedIn,
    /// Not as far as is known.
    Unknown,
}

/// How far a server reaches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reach {
    /// It runs in a box without a network.
    Box,
    /// It runs as its user: beyond this machine, unless it says otherwise.
    User,
    /// Beyond this machine: it is at an address, or in a box with a network.
    World,
}

impl Reach {
    fn of(config: &ServerConfig) -> Self {
        match config.place() {
            Some(Place::Command(_)) if !config.confined => Self::User,
            Some(Place::Command(_)) if config.network.is_empty() => Self::Box,
            Some(Place::Command(_) | Place::Url(_)) | None => Self::World,
        }
    }
}

/// What is assumed of a tool.
pub(super) fn tool(server: &str, config: &ServerConfig, account: Account, definition: &Value) -> Assumed {
    let hint = |name: &str| definition.pointer(&format!("/annotations/{name}")).and_then(Value::as_bool);
    let reach = Reach::of(config);
    let name = definition.get("name").and_then(Value::as_str).unwrap_or_default();
    let says_closed = hint("openWorldHint") == Some(false);
    let changes = hint("readOnlyHint") == Some(false) || hint("destructiveHint") == Some(true);
    let looks = hint("readOnlyHint") == Some(true) || words::looks_something_up(name);
    let looks = looks && !changes && !words::does_something(name);
    let mut facets = BTreeSet::new();
    match reach {
        Reach::World => facets.extend([Facet::ReadsUntrusted, Facet::Egress]),
        Reach::User if says_closed => drop(facets.insert(Facet::Egress)),
        Reach::User => facets.extend([Facet::ReadsUntrusted, Facet::Egress]),
        Reach::Box => {}
    }
    if is_given_private(config, account) || words::speak_of_private(server, definition) {
        facets.insert(Facet::ReadsPrivate);
    }
    // In a box that may write nothing, nothing stays.
    if !looks && (reach != Reach::Box || !config.write.is_empty()) {
        facets.insert(Facet::Mutates);
    }
    let goes_elsewhere = words::goes_where_it_is_told(definition);
    let sends_to = if looks && !goes_elsewhere { SendsTo::ItsServer } else { SendsTo::Anybody };
    Assumed { facets, sends_to }
}

/// What is assumed of reading a resource or a prompt.
pub(super) fn piece(server: &str, config: &ServerConfig, account: Account) -> Assumed {
    let mut facets = BTreeSet::new();
    if Reach::of(config) != Reach::Box {
        facets.extend([Facet::ReadsUntrusted, Facet::Egress]);
    }
    if is_given_private(config, account) || words::name_private(server) {
        facets.insert(Facet::ReadsPrivate);
    }
    Assumed { facets, sends_to: SendsTo::ItsServer }
}

/// Whether a server was given something that not everybody may know: files, an account, an address that
/// only this machine or its network has.
fn is_given_private(config: &ServerConfig, account: Account) -> bool {
    let has_secret = |settings: &std::collections::BTreeMap<String, Setting>| {
        settings.iter().any(|(name, setting)| setting.is_secret() || is_connection(name))
    };
    let has_account = account == Account::LoggedIn
        || config.oauth.is_some()
        || config.credentials == Credentials::Caller
        || has_secret(&config.env)
        || has_secret(&config.headers);
    let has_files = [&config.read, &config.write, &config.roots].into_iter().any(|paths| !paths.is_empty());
    let is_near = match config.place() {
        Some(Place::Url(url)) => is_near(url),
        Some(Place::Command(_)) | None => false,
    };
    has_account || has_files || is_near || config.args.iter().any(|arg| names_data(arg))
}

/// Whether a variable by its name says where data is.
fn is_connection(name: &str) -> bool {
    let name = name.to_ascii_uppercase();
    ["DATABASE", "DB_", "_DSN", "CONNECTION_STRING", "VAULT"].iter().any(|part| name.contains(part))
}

/// Whether an argument names a folder of this machine or a database.
fn names_data(arg: &str) -> bool {
    let value = arg.split_once('=').map_or(arg, |(_, value)| value);
    let databases = ["postgres:", "postgresql:", "mysql:", "mongodb:", "mongodb+srv:", "redis:", "sqlite:"];
    let files = [".db", ".sqlite", ".sqlite3", ".duckdb"];
    databases.iter().any(|scheme| value.starts_with(scheme))
        || files.iter().any(|end| value.ends_with(end))
        || (Path::new(value).is_absolute() && Path::new(value).is_dir())
}

/// Whether an address is one of this machine or of a network that not everybody reaches.
fn is_near(url: &str) -> bool {
    let Ok(url) = Url::parse(url) else { return true };
    match url.host() {
        Some(Host::Domain(name)) => {
            let name = name.trim_end_matches('.');
            let ends = [".localhost", ".local", ".internal", ".lan", ".home", ".corp", ".intranet"];
            !name.contains('.') || ends.iter().any(|end| name.ends_with(end))
        }
        Some(Host::Ipv4(address)) => special(IpAddr::V4(address)).is_some(),
        Some(Host::Ipv6(address)) => special(unwrap_embedded(IpAddr::V6(address))).is_some(),
        None => true,
    }
}
