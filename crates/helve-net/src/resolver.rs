//! Looks a name up once, and lets a connection only go to addresses that the policy passed.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use helve_core::BoxFuture;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};

use crate::policy::NetPolicy;

/// How names become addresses.
pub type Lookup = Arc<dyn Fn(String) -> BoxFuture<'static, io::Result<Vec<IpAddr>>> + Send + Sync>;

/// The operating system's own lookup.
pub fn system_lookup() -> Lookup {
    Arc::new(|name| {
        Box::pin(async move {
            let found = tokio::net::lookup_host((name.as_str(), 0)).await?;
            Ok(found.map(|address| address.ip()).collect())
        })
    })
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
        let host = name.as_str().trim_end_matches('.').to_ascii_lowercase();
        let found = (self.lookup)(name.as_str().to_owned());
        let (policy, port) = (Arc::clone(&self.policy), self.port);
        Box::pin(async move {
            let addresses = found.await?;
            if addresses.is_empty() {
                return Err("the name has no address".into());
            }
            // One forbidden address refuses them all: an honest name does not mix.
            for address in &addresses {
                policy.check(&host, port, *address)?;
            }
            Ok(Box::new(addresses.into_iter().map(|ip| SocketAddr::new(ip, 0))) as Addrs)
        })
    }
}
