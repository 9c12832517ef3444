//! Which hosts may be reached, and within which bounds.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use url::Url;

use crate::address::{self, Reach};
use crate::error::{NetError, Refused};
use crate::message::Request;
use crate::pattern::is_localhost;
pub use crate::pattern::{HostPattern, PatternError};
use crate::target::Target;

/// What the outbound client may do. The keys of `[net]` in the configuration.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct NetPolicy {
    /// Hosts on this machine or in private networks that may be reached: `localhost`,
    /// `127.0.0.1:8080`, `*.corp.example`, `10.1.0.0/16`. The public internet needs no entry. A
    /// name opens private ranges alone; link-local addresses, where clouds keep credentials, and
    /// other odd ranges must be listed by address.
    pub allow: Vec<HostPattern>,
    /// Hosts that are never reached, public or not, whatever else is listed: `ads.example`,
    /// `*.evil.example`, `203.0.114.0/24`, `0.0.0.0/0:25`. A network also holds for names that
    /// lead into it.
    pub deny: Vec<HostPattern>,
    /// Where this is not empty, nothing but these hosts is reached: `api.example.com:443`,
    /// `*.corp.example`. One in a private network must stand in `allow`, too.
    pub only: Vec<HostPattern>,
    /// Largest response of a request that has no bound of its own, in bytes after decompression.
    #[schemars(range(min = 1, max = 1_073_741_824))]
    pub response_bytes: usize,
    /// Time for a request that has no bound of its own, redirects and content included, in
    /// milliseconds.
    #[schemars(range(min = 1, max = 86_400_000))]
    pub timeout_ms: u64,
    /// Time to find a host and connect to it, in milliseconds.
    #[schemars(range(min = 1, max = 300_000))]
    pub connect_timeout_ms: u64,
    /// Most redirects in a row that are followed.
    #[schemars(range(max = 20))]
    pub redirects: usize,
}

impl Default for NetPolicy {
    fn default() -> Self {
        Self {
            allow: Vec::new(),
            deny: Vec::new(),
            only: Vec::new(),
            response_bytes: Request::RESPONSE_BYTES_MAX,
            timeout_ms: u64::try_from(Request::TIMEOUT.as_millis()).unwrap_or(u64::MAX),
            connect_timeout_ms: 10_000,
            redirects: 5,
        }
    }
}

impl NetPolicy {
    /// A policy that allows these hosts besides the public internet.
    pub fn allowing<'a>(patterns: impl IntoIterator<Item = &'a str>) -> Result<Self, PatternError> {
        let allow = patterns.into_iter().map(str::parse).collect::<Result<_, _>>()?;
        Ok(Self { allow, ..Self::default() })
    }

    /// Whether a URL may be fetched from these addresses: every one must pass.
    pub fn verdict(&self, url: &Url, addresses: &[IpAddr]) -> Result<(), NetError> {
        let target = Target::of(url)?;
        let refuse = |refused: Refused| NetError::refused(target.to_string(), &refused);
        self.check_target(&target).map_err(refuse)?;
        addresses
            .iter()
            .try_for_each(|address| self.check(&target.host, target.port, *address))
            .map_err(refuse)
    }

    /// The same without the hosts that `allow` lists: the public internet at most.
    pub fn public(&self) -> Self {
        Self { allow: Vec::new(), ..self.clone() }
    }

    /// Whether a URL names what only an entry of `allow` opens: this machine, an address of a private
    /// network, or a host that an entry lists. What a name leads to is not looked up.
    pub fn needs_entry(&self, url: &Url) -> bool {
        Target::of(url).is_ok_and(|Target { host, port, address }| match address {
            Some(address) => address::special(address).is_some(),
            None => is_localhost(&host) || self.allow.iter().any(|entry| entry.names(&host, port)),
        })
    }

    /// Whether a URL leads to what only an entry of `allow` opens, as far as that can be said before its name
    /// is looked up. None: an entry opens addresses, and the name may lead to one.
    pub fn leads_inside(&self, url: &Url) -> Option<bool> {
        let Target { host, port, address } = Target::of(url).ok()?;
        let at_once = match address {
            Some(address) => Some(vec![address]),
            None if is_localhost(&host) => Some(vec![Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()]),
            None => None,
        };
        if let Some(addresses) = at_once {
            return Some(self.is_opened(&host, port, &addresses));
        }
        if self.allow.iter().any(|entry| !entry.is_any() && entry.names(&host, port)) {
            return Some(true);
        }
        match self.allow.iter().any(|entry| entry.may_hold(port)) {
            true => None,
            false => Some(false),
        }
    }

    /// Whether one of these is not public, and an entry of `allow` opens it.
    pub(crate) fn is_opened(&self, host: &str, port: u16, addresses: &[IpAddr]) -> bool {
        addresses
            .iter()
            .any(|address| address::special(*address).is_some() && self.check(host, port, *address).is_ok())
    }

    /// What can be said before a name is looked up. A lookup tells the name to others, so one that
    /// will be refused anyway is not made.
    pub(crate) fn check_target(&self, target: &Target) -> Result<(), Refused> {
        let Target { host, port, address } = target;
        if let Some(address) = address {
            return self.check(host, *port, *address);
        }
        if let Some(entry) = self.deny.iter().find(|entry| entry.names(host, *port)) {
            return Err(Refused::Denied { address: None, entry: entry.clone() });
        }
        let listed = |entry: &HostPattern| entry.names(host, *port) || entry.may_hold(*port);
        if self.only.is_empty() || self.only.iter().any(listed) {
            return Ok(());
        }
        Err(Refused::NotListed { address: None })
    }

    /// Whether one address may be reached under this name and port.
    pub(crate) fn check(&self, host: &str, port: u16, address: IpAddr) -> Result<(), Refused> {
        let denies = |entry: &&HostPattern| entry.names(host, port) || entry.touches(port, address);
        if let Some(entry) = self.deny.iter().find(denies) {
            return Err(Refused::Denied { address: Some(address), entry: entry.clone() });
        }
        if !self.only.is_empty() && !covers(&self.only, host, port, address) {
            return Err(Refused::NotListed { address: Some(address) });
        }
        let Some(special) = address::special(address) else { return Ok(()) };
        let opens = |entry: &HostPattern| {
            entry.holds(port, address)
                || special.reach == Reach::Private && !entry.is_any() && entry.names(host, port)
        };
        if self.allow.iter().any(opens) { Ok(()) } else { Err(Refused::Special { address, special }) }
    }

    /// The addresses of a name that a connection may go to. One forbidden address refuses them all:
    /// an honest name does not mix. But what `localhost` stands for is our own answer, and a server
    /// may be allowed at one of its addresses alone.
    pub(crate) fn admit(
        &self,
        host: &str,
        port: u16,
        addresses: Vec<IpAddr>,
    ) -> Result<Vec<IpAddr>, Refused> {
        let (mut passed, mut first) = (Vec::new(), None);
        for address in addresses {
            match self.check(host, port, address) {
                Ok(()) => passed.push(address),
                Err(refused) if is_localhost(host) => first = first.or(Some(refused)),
                Err(refused) => return Err(refused),
            }
        }
        match first {
            Some(refused) if passed.is_empty() => Err(refused),
            _ => Ok(passed),
        }
    }

    /// The ports that entries name: for these the answer may differ from all other ports.
    pub(crate) fn ports(&self) -> impl Iterator<Item = u16> {
        self.allow.iter().chain(&self.deny).chain(&self.only).filter_map(HostPattern::port)
    }

    pub(crate) fn timeout(&self) -> Duration {
        Duration::from_millis(self.timeout_ms)
    }

    pub(crate) fn connect_timeout(&self) -> Duration {
        Duration::from_millis(self.connect_timeout_ms)
    }
}

/// Whether a list has a host, by its name or by where it is.
pub(crate) fn covers(list: &[HostPattern], host: &str, port: u16, address: IpAddr) -> bool {
    list.iter().any(|entry| entry.names(host, port) || entry.holds(port, address))
}
