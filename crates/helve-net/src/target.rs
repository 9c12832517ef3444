//! Where a request leads.

use std::fmt;
use std::net::IpAddr;

use url::{Host, Url};

use crate::error::NetError;

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
        if port == 0 {
            return Err(bad("nothing listens on port 0"));
        }
        let host = url.host().ok_or_else(|| bad("it has no host"))?;
        // A URL has these in their plain form already, and writing one anew costs more than all else here.
        if let (Host::Ipv4(v4), Some(text)) = (&host, url.host_str()) {
            return Ok(Self { host: text.to_owned(), port, address: Some(IpAddr::V4(*v4)) });
        }
        Self::new(host, port).ok_or_else(|| bad("it has no host"))
    }

    /// Reads `HOST:PORT` as a URL's host and port would be read.
    pub(crate) fn of_authority(text: &str) -> Option<Self> {
        let (host, port) = text.rsplit_once(':')?;
        // The parser of ports allows a sign.
        let port = port.bytes().all(|byte| byte.is_ascii_digit()).then(|| port.parse().ok())??;
        Self::of_host(host, port)
    }

    /// Reads a host as a URL's host would be read: `0x7f.1` is an address.
    pub(crate) fn of_host(host: &str, port: u16) -> Option<Self> {
        let host = Host::parse(host).ok()?;
        let host = match &host {
            Host::Domain(name) => Host::Domain(name.as_str()),
            Host::Ipv4(v4) => Host::Ipv4(*v4),
            Host::Ipv6(v6) => Host::Ipv6(*v6),
        };
        Self::new(host, port)
    }

    fn new(host: Host<&str>, port: u16) -> Option<Self> {
        let (host, address) = match host {
            Host::Domain(name) => (name.trim_end_matches('.').to_ascii_lowercase(), None),
            Host::Ipv4(v4) => (v4.to_string(), Some(IpAddr::V4(v4))),
            Host::Ipv6(v6) => (v6.to_string(), Some(IpAddr::V6(v6))),
        };
        (!host.is_empty() && port != 0).then_some(Self { host, port, address })
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
