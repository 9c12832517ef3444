//! Which hosts may be reached.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use url::{Host, Url};

use crate::address::{self, Reach};
use crate::error::{NetError, RefusedAddress};

/// What the outbound client may do. The keys of `[net]` in the configuration.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct NetPolicy {
    /// Hosts on this machine or in private networks that may be reached: `localhost`,
    /// `127.0.0.1:8080`, `*.corp.example`, `10.1.0.0/16`. The public internet needs no entry.
    pub allow: Vec<HostPattern>,
}

impl NetPolicy {
    /// A policy that allows these hosts beside the public internet.
    pub fn allowing<'a>(patterns: impl IntoIterator<Item = &'a str>) -> Result<Self, PatternError> {
        Ok(Self { allow: patterns.into_iter().map(str::parse).collect::<Result<_, _>>()? })
    }

    /// Whether a URL may be fetched from these addresses: every one must pass.
    pub fn verdict(&self, url: &Url, addresses: &[IpAddr]) -> Result<(), NetError> {
        let target = Target::of(url)?;
        addresses.iter().try_for_each(|address| {
            self.check(&target.host, target.port, *address)
                .map_err(|refused| NetError::forbidden(target.to_string(), &refused))
        })
    }

    /// Whether one address may be reached under this name and port.
    pub(crate) fn check(&self, host: &str, port: u16, address: IpAddr) -> Result<(), RefusedAddress> {
        let Some(special) = address::special(address) else { return Ok(()) };
        let allowed = self.allow.iter().any(|entry| entry.opens(host, port, address, special.reach));
        if allowed { Ok(()) } else { Err(RefusedAddress { address, special }) }
    }

    /// The ports that entries name: for these the answer may differ from all other ports.
    pub(crate) fn ports(&self) -> impl Iterator<Item = u16> {
        self.allow.iter().filter_map(|entry| entry.port)
    }
}

/// Where a URL leads: a host that is a name or an address in its plain form, and a port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Target {
    pub(crate) host: String,
    pub(crate) port: u16,
    pub(crate) address: Option<IpAddr>,
}

impl Target {
    /// Checks the form of a URL; the address is another question.
    pub(crate) fn of(url: &Url) -> Result<Self, NetError> {
        let bad = |reason: &str| NetError::BadUrl { reason: reason.to_owned() };
        if !matches!(url.scheme(), "http" | "https") {
            return Err(NetError::BadUrl {
                reason: format!("only http and https are fetched, not `{}`", url.scheme()),
            });
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(bad("it holds a user name or password; send credentials in a header"));
        }
        let port = url.port_or_known_default().ok_or_else(|| bad("it has no port"))?;
        let (host, address) = match url.host() {
            Some(Host::Domain(name)) => (name.trim_end_matches('.').to_ascii_lowercase(), None),
            Some(Host::Ipv4(v4)) => (v4.to_string(), Some(IpAddr::V4(v4))),
            Some(Host::Ipv6(v6)) => (v6.to_string(), Some(IpAddr::V6(v6))),
            None => return Err(bad("it has no host")),
        };
        if host.is_empty() {
            return Err(bad("it has no host"));
        }
        Ok(Self { host, port, address })
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.address {
            Some(IpAddr::V6(_)) => write!(f, "[{}]:{}", self.host, self.port),
            Some(IpAddr::V4(_)) | None => write!(f, "{}:{}", self.host, self.port),
        }
    }
}

/// Hosts that may be reached: a name, `*.` and a domain, an address or a network; with a port or
/// without.
///
/// A name opens private ranges alone. Link-local addresses, where clouds keep their credentials,
/// and other odd ranges must be listed by address.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(into = "String", try_from = "String")]
#[schemars(with = "String")]
pub struct HostPattern {
    hosts: Hosts,
    port: Option<u16>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Hosts {
    Name(String),
    /// `*.domain`: every name below, not the domain itself.
    Below(String),
    Network(IpAddr, u8),
}

impl HostPattern {
    fn opens(&self, host: &str, port: u16, address: IpAddr, reach: Reach) -> bool {
        let by_host = match &self.hosts {
            Hosts::Name(_) | Hosts::Below(_) => reach == Reach::Private && self.hosts.matches_name(host),
            Hosts::Network(network, length) => {
                address::contains(*network, *length, address::unwrap_embedded(address))
            }
        };
        by_host && self.port.is_none_or(|only| only == port)
    }
}

impl Hosts {
    fn matches_name(&self, host: &str) -> bool {
        match self {
            Self::Name(name) => host == name,
            Self::Below(domain) => host
                .strip_suffix(domain.as_str())
                .is_some_and(|rest| rest.strip_suffix('.').is_some_and(|label| !label.is_empty())),
            Self::Network(..) => false,
        }
    }
}

/// Text that is not a host pattern.
#[derive(Debug, Clone, thiserror::Error)]
#[error(
    "`{text}` is not a host: write `localhost`, `127.0.0.1:8080`, `[::1]:8080`, `*.corp.example` or `10.0.0.0/8`"
)]
pub struct PatternError {
    text: String,
}

impl FromStr for HostPattern {
    type Err = PatternError;

    fn from_str(text: &str) -> Result<Self, PatternError> {
        parse(text).ok_or_else(|| PatternError { text: text.chars().take(80).collect() })
    }
}

fn parse(text: &str) -> Option<HostPattern> {
    // A bare IPv6 address or network has colons that are not before a port.
    if let Some(hosts) = network(text) {
        return Some(HostPattern { hosts, port: None });
    }
    if let Some(rest) = text.strip_prefix('[') {
        let (inside, after) = rest.split_once(']')?;
        let (length, port) = match after.split_once(':') {
            Some((length, text)) => (length, Some(port(text)?)),
            None => (after, None),
        };
        return Some(HostPattern { hosts: network(&format!("{inside}{length}"))?, port });
    }
    let (host, port) = match text.rsplit_once(':') {
        Some((host, text)) => (host, Some(port(text)?)),
        None => (text, None),
    };
    let hosts = match (network(host), host.strip_prefix("*.")) {
        (Some(network), _) => network,
        (None, Some(domain)) => Hosts::Below(name(domain)?),
        (None, None) => Hosts::Name(name(host)?),
    };
    Some(HostPattern { hosts, port })
}

/// Nothing listens on port 0, and the client uses it for "any port that no entry names".
fn port(text: &str) -> Option<u16> {
    text.parse().ok().filter(|port| *port != 0)
}

fn network(text: &str) -> Option<Hosts> {
    let (address, length) = match text.split_once('/') {
        Some((address, length)) => (address.parse::<IpAddr>().ok()?, Some(length.parse::<u8>().ok()?)),
        None => (text.parse::<IpAddr>().ok()?, None),
    };
    let longest = if address.is_ipv4() { 32 } else { 128 };
    let length = length.unwrap_or(longest);
    (length <= longest).then_some(Hosts::Network(address, length))
}

/// A name as the URL parser would write it, so that both sides compare alike.
fn name(text: &str) -> Option<String> {
    match Host::parse(text).ok()? {
        Host::Domain(name) => Some(name.trim_end_matches('.').to_owned()).filter(|name| !name.contains('*')),
        Host::Ipv4(_) | Host::Ipv6(_) => None,
    }
}

impl fmt::Display for HostPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.hosts {
            Hosts::Name(name) => f.write_str(name)?,
            Hosts::Below(domain) => write!(f, "*.{domain}")?,
            Hosts::Network(IpAddr::V4(v4), 32) => write!(f, "{v4}")?,
            Hosts::Network(IpAddr::V6(v6), 128) => write!(f, "[{v6}]")?,
            Hosts::Network(IpAddr::V4(v4), length) => write!(f, "{v4}/{length}")?,
            Hosts::Network(IpAddr::V6(v6), length) => write!(f, "[{v6}]/{length}")?,
        }
        self.port.map_or(Ok(()), |port| write!(f, ":{port}"))
    }
}

impl From<HostPattern> for String {
    fn from(pattern: HostPattern) -> String {
        pattern.to_string()
    }
}

impl TryFrom<String> for HostPattern {
    type Error = PatternError;

    fn try_from(text: String) -> Result<Self, PatternError> {
        text.parse()
    }
}
