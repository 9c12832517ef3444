//! How hosts are written in lists: `localhost`, `127.0.0.1:8080`, `*.corp.example`, `10.0.0.0/8`.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use url::Host;

use crate::address;

/// Hosts: a name, `*.` and a domain, an address or a network, or `*` for all; with a port or without.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(into = "String", try_from = "String")]
#[schemars(with = "String")]
pub struct HostPattern {
    hosts: Hosts,
    port: Option<u16>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Hosts {
    /// `*`: every host.
    Any,
    Name(String),
    /// `*.domain`: every name below, not the domain itself.
    Below(String),
    Network(IpAddr, u8),
}

impl HostPattern {
    /// Whether it stands for this name at this port.
    pub(crate) fn names(&self, host: &str, port: u16) -> bool {
        self.has_port(port) && self.hosts.matches_name(host)
    }

    /// Whether it stands for this address at this port, whatever the name: an IPv4 address within
    /// an IPv6 one counts as that IPv4 address.
    pub(crate) fn holds(&self, port: u16, address: IpAddr) -> bool {
        self.has_port(port) && self.hosts.contains(address::unwrap_embedded(address))
    }

    /// The same, also where the address as it is written lies in the network. For refusing: there,
    /// too much is better than too little.
    pub(crate) fn touches(&self, port: u16, address: IpAddr) -> bool {
        self.holds(port, address) || self.has_port(port) && self.hosts.contains(address)
    }

    /// Whether some address at this port could be meant, whatever its name.
    pub(crate) fn may_hold(&self, port: u16) -> bool {
        self.has_port(port) && self.is_network()
    }

    /// Whether it is an address or a network, and no name.
    pub(crate) fn is_network(&self) -> bool {
        matches!(self.hosts, Hosts::Network(..))
    }

    /// Whether it is every host: that opens nothing which is not public.
    pub(crate) fn is_any(&self) -> bool {
        self.hosts == Hosts::Any
    }

    /// Whether it is a name that always means this machine.
    pub(crate) fn is_localhost(&self) -> bool {
        matches!(&self.hosts, Hosts::Name(name) if is_localhost(name))
    }

    pub(crate) fn port(&self) -> Option<u16> {
        self.port
    }

    fn has_port(&self, port: u16) -> bool {
        self.port.is_none_or(|only| only == port)
    }
}

/// Whether a name always means this machine (RFC 6761): `localhost` and all below it.
pub(crate) fn is_localhost(name: &str) -> bool {
    name == "localhost" || name.ends_with(".localhost")
}

impl Hosts {
    fn matches_name(&self, host: &str) -> bool {
        match self {
            Self::Any => true,
            Self::Name(name) => host == name,
            Self::Below(domain) => host
                .strip_suffix(domain.as_str())
                .is_some_and(|rest| rest.strip_suffix('.').is_some_and(|label| !label.is_empty())),
            Self::Network(..) => false,
        }
    }

    fn contains(&self, address: IpAddr) -> bool {
        match self {
            Self::Network(network, length) => address::contains(*network, *length, address),
            Self::Any | Self::Name(_) | Self::Below(_) => false,
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
        _ if host == "*" => Hosts::Any,
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
    match address {
        // Addresses are compared in their plain form, so an entry is kept in it.
        IpAddr::V6(v6) if (96..=128).contains(&length) => match v6.to_ipv4_mapped() {
            Some(v4) => Some(Hosts::Network(v4.into(), length - 96)),
            None => Some(Hosts::Network(address, length)),
        },
        IpAddr::V4(_) | IpAddr::V6(_) => (length <= longest).then_some(Hosts::Network(address, length)),
    }
}

/// A name as the URL parser would write it, so that both sides compare alike.
fn name(text: &str) -> Option<String> {
    let Host::Domain(name) = Host::parse(text).ok()? else { return None };
    let name = name.trim_end_matches('.');
    // Without the dots at its end it may be an address, or nothing.
    let is_name = matches!(Host::parse(name), Ok(Host::Domain(_)));
    (is_name && !name.contains('*')).then(|| name.to_owned())
}

impl fmt::Display for HostPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.hosts {
            Hosts::Any => f.write_str("*")?,
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
