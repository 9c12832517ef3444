//! Looks a name up once, and lets a connection only go to addresses that the policy passed.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

use helve_core::BoxFuture;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};

use crate::pattern::is_localhost;
use crate::policy::NetPolicy;

/// How names become addresses.
pub type Lookup = Arc<dyn Fn(String) -> BoxFuture<'static, io::Result<Vec<IpAddr>>> + Send + Sync>;

/// Most addresses of one name.
const ADDRESSES_MAX: usize = 256;

/// The operating system's own lookup.
pub fn system_lookup() -> Lookup {
    Arc::new(|name| {
        Box::pin(async move {
            let found = tokio::net::lookup_host((name.as_str(), 0)).await?;
            Ok(found.map(|address| address.ip()).collect())
        })
    })
}

/// The addresses of a name, at least one. Some names are never asked for: `localhost` is this
/// machine whatever a server says (RFC 6761), and what is below `onion` is for Tor alone (RFC 7686).
pub(crate) async fn look_up(lookup: &Lookup, name: &str) -> io::Result<Vec<IpAddr>> {
    let plain = name.trim_end_matches('.').to_ascii_lowercase();
    if is_localhost(&plain) {
        return Ok(vec![Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()]);
    }
    if plain == "onion" || plain.ends_with(".onion") {
        return Err(io::Error::new(io::ErrorKind::NotFound, "onion names are not looked up"));
    }
    let found = lookup(name.to_owned()).await?;
    match found.len() {
        0 => Err(io::Error::new(io::ErrorKind::NotFound, "the name has no address")),
        1..=ADDRESSES_MAX => Ok(found),
        _ => Err(io::Error::other("the name has too many addresses")),
    }
}

/// The resolver of one HTTP client.
///
/// The HTTP library connects to what this returns and looks nothing up again, so a name cannot
/// change its address between check and use. It is asked for a name without a port; therefore
/// there is one client, and one of these, for each port that the policy names.
pub(crate) struct GuardedResolver {
    pub(crate) policy: Arc<NetPolicy>,
    pub(crate) port: u16,
    pub(crate) lookup: Lookup,
}

impl Resolve for GuardedResolver {
    fn resolve(&self, name: Name) -> Resolving {
        let (policy, lookup, port) = (Arc::clone(&self.policy), Arc::clone(&self.lookup), self.port);
        Box::pin(async move {
            let found = look_up(&lookup, name.as_str()).await?;
            let host = name.as_str().trim_end_matches('.').to_ascii_lowercase();
            let passed = policy.admit(&host, port, found)?;
            Ok(Box::new(passed.into_iter().map(|ip| SocketAddr::new(ip, 0))) as Addrs)
        })
    }
}
