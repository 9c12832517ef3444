//! The way out of boxes: the proxy of the guarded client.

use std::net::TcpListener;
use std::sync::Arc;

use helve::BoxFuture;
use helve_net::proxy::{Proxy, ProxyLimits};
use helve_net::{HostPattern, NetPolicy};
use helve_sandbox::Egress;

/// Lets programs in boxes out through a proxy that keeps a policy.
pub struct ThroughProxy {
    policy: Arc<NetPolicy>,
}

impl ThroughProxy {
    /// A way out under this policy: what it denies is denied whatever was granted.
    pub fn new(policy: NetPolicy) -> Self {
        Self { policy: Arc::new(policy) }
    }

    fn read(grants: &[String]) -> Result<Vec<HostPattern>, String> {
        grants.iter().map(|grant| grant.parse::<HostPattern>().map_err(|error| error.to_string())).collect()
    }
}

impl Egress for ThroughProxy {
    fn check(&self, grants: &[String]) -> Result<(), String> {
        Self::read(grants).map(drop)
    }

    fn serve(&self, listener: TcpListener, grants: Vec<String>) -> BoxFuture<'static, ()> {
        // What cannot be read was refused before the box was made, and grants nothing here.
        let grants = Self::read(&grants).unwrap_or_default();
        let proxy = Proxy::new(Arc::clone(&self.policy), grants, ProxyLimits::default());
        Box::pin(async move {
            let listener =
                listener.set_nonblocking(true).and_then(|()| tokio::net::TcpListener::from_std(listener));
            let served = match listener {
                Ok(listener) => proxy.serve(listener).await,
                Err(error) => Err(error),
            };
            if let Err(error) = served {
                tracing::warn!(%error, "the way out of a box is closed");
            }
        })
    }
}
