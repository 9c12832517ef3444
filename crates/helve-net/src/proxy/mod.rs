//! The proxy through which confined programs reach the network: HTTP/1.1 (`CONNECT` and
//! `GET http://…`) and SOCKS5 on one port, told apart by the first byte.
//!
//! A program inside a box has no network but this. Each target must be granted *and* pass the same
//! checks as our own requests; its name is looked up once, here, and the connection goes to an
//! address that passed. `route` decides and dials, `http` and `socks` speak, `meter` watches.

mod http;
mod meter;
mod route;
mod socks;

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use crate::check::Verdict;
use crate::policy::{HostPattern, NetPolicy};
use crate::resolver::{Lookup, system_lookup};
use meter::{Meter, Metered};

/// A proxy for one box, or several with the same grants. Cheap to clone.
///
/// ```no_run
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// use std::sync::Arc;
/// use helve_net::NetPolicy;
/// use helve_net::proxy::{Proxy, ProxyLimits};
/// let grants = vec!["api.example.com:443".parse()?];
/// let proxy = Proxy::new(Arc::new(NetPolicy::default()), grants, ProxyLimits::default());
/// proxy.serve(tokio::net::TcpListener::bind("127.0.0.1:0").await?).await?;
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct Proxy {
    /// The operator's policy, opened for what was granted by address.
    policy: Arc<NetPolicy>,
    grants: Arc<[HostPattern]>,
    lookup: Lookup,
    limits: ProxyLimits,
    free: Arc<Semaphore>,
    tell: Arc<dyn Fn(&Passage) + Send + Sync>,
}

/// Bounds on what goes through a proxy.
#[derive(Debug, Clone)]
pub struct ProxyLimits {
    /// Most connections at once; more wait.
    pub connections: usize,
    /// Largest head of a request, in bytes.
    pub head_bytes: usize,
    /// How long a connection may be silent in both directions.
    pub idle: Duration,
    /// Most bytes of one connection, both directions together.
    pub connection_bytes: Option<u64>,
}

impl Default for ProxyLimits {
    fn default() -> Self {
        Self {
            connections: 128,
            head_bytes: 32 << 10,
            idle: Duration::from_secs(120),
            connection_bytes: None,
        }
    }
}

/// A target that a program asked for, and what it was told.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Passage {
    /// Host and port. Chosen by the program: show it escaped.
    pub target: String,
    /// Whether it may be reached. A target that may can still be down.
    pub verdict: Verdict,
    /// Why not, and what to do; empty where it may.
    pub reason: String,
}

impl Proxy {
    /// A proxy that lets through to these hosts, as far as the policy does.
    ///
    /// The grants must be the operator's and never a model's: a grant that is an address, a network or
    /// `localhost` opens exactly that, as an entry of the policy's `allow` would. One that is another
    /// name opens nothing private. A name must be granted as such: one that leads to a granted address
    /// is not looked up to find that out, because a lookup can carry data away. `deny` and `only` of the policy hold whatever was granted.
    pub fn new(policy: Arc<NetPolicy>, grants: Vec<HostPattern>, limits: ProxyLimits) -> Self {
        let mut policy = Arc::unwrap_or_clone(policy);
        let by_address = |grant: &&HostPattern| grant.is_network() || grant.is_localhost();
        policy.allow.extend(grants.iter().filter(by_address).cloned());
        Self {
            policy: Arc::new(policy),
            grants: grants.into(),
            lookup: system_lookup(),
            free: Arc::new(Semaphore::new(limits.connections.clamp(1, Semaphore::MAX_PERMITS))),
            limits,
            tell: Arc::new(|_| ()),
        }
    }

    /// Turns names into addresses in its own way.
    pub fn with_lookup(mut self, lookup: Lookup) -> Self {
        self.lookup = lookup;
        self
    }

    /// Gets every target that was asked for.
    pub fn on_passage(mut self, tell: impl Fn(&Passage) + Send + Sync + 'static) -> Self {
        self.tell = Arc::new(tell);
        self
    }

    /// Serves until it is dropped, and then ends every connection.
    pub async fn serve(&self, listener: TcpListener) -> io::Result<()> {
        let mut connections = JoinSet::new();
        loop {
            let permit = Arc::clone(&self.free).acquire_owned().await.map_err(io::Error::other)?;
            while connections.try_join_next().is_some() {}
            let stream = match listener.accept().await {
                Ok((stream, _)) => stream,
                // Out of descriptors, or a connection that was gone already: the next may do.
                Err(error) => {
                    tracing::warn!(%error, "the proxy could not accept a connection");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                    continue;
                }
            };
            let proxy = self.clone();
            connections.spawn(async move {
                proxy.converse(stream).await;
                drop(permit);
            });
        }
    }

    /// Serves one connection that another accepted, of whatever kind, to its end.
    pub async fn serve_stream<S>(&self, stream: S)
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        // The semaphore is never closed.
        if let Ok(_permit) = self.free.acquire().await {
            self.converse(stream).await;
        }
    }

    async fn converse<S>(&self, stream: S)
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let meter = Arc::new(Meter::new(self.limits.connection_bytes));
        let talk = Box::pin(self.talk(Metered::new(stream, Arc::clone(&meter))));
        let ended = tokio::select! {
            ended = talk => ended,
            () = meter.silence(self.limits.idle) => Err(io::ErrorKind::TimedOut.into()),
        };
        if let Err(error) = ended {
            tracing::debug!(%error, "a connection through the proxy broke off");
        }
    }

    async fn talk<S>(&self, mut stream: Metered<S>) -> io::Result<()>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let mut first = [0];
        if stream.read(&mut first).await? == 0 {
            return Ok(());
        }
        match first[0] {
            socks::VERSION => socks::serve(self, stream).await,
            byte => http::serve(self, stream.put_back(byte)).await,
        }
    }
}

const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

impl std::fmt::Debug for Proxy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Proxy")
            .field("grants", &self.grants)
            .field("limits", &self.limits)
            .finish_non_exhaustive()
    }
}
