//! From configuration to a sandbox, whose way out is the proxy of the guarded client.

use std::net::TcpListener;
use std::sync::Arc;

use helve::BoxFuture;
use helve_net::proxy::{Proxy, ProxyLimits};
use helve_net::{HostPattern, NetPolicy};
use helve_sandbox::{Egress, Limits, Sandbox, SandboxOptions};

use crate::config::Config;

/// Where programs run.
pub(crate) fn sandbox(config: &Config) -> Sandbox {
    Sandbox::new(SandboxOptions {
        limits: limits(config),
        min_level: config.sandbox.min_level,
        egress: Some(Arc::new(ThroughProxy { policy: Arc::new(config.net.clone()) })),
        ..SandboxOptions::default()
    })
}

/// How much a program may use that does not say.
pub(crate) fn limits(config: &Config) -> Limits {
    let section = &config.sandbox;
    Limits {
        memory_bytes: section.memory_mb << 20,
        pids: section.pids,
        cpu_s: section.cpu_s,
        work_bytes: section.work_mb << 20,
        wall_ms: config.execution.default_timeout_ms,
        ..Limits::default()
    }
}

struct ThroughProxy {
    policy: Arc<NetPolicy>,
}

impl ThroughProxy {
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
