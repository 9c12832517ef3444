//! What all connections of a server share.

use helve_mcp::server::McpServer;
use helve_mcp::servers::Servers;
use helve_net::Url;
use tokio_util::sync::CancellationToken;

use crate::api::Api;
use crate::config::ServerConfig;
use crate::guard::Guard;
use crate::keyring::Keyring;
use crate::legacy::Links;
use crate::options::HttpOptions;
use crate::reading::Reading;
use crate::seats::Seats;
use crate::sessions::Sessions;

/// What all routes and connections of a server share.
pub(crate) struct ServerState {
    pub(crate) mcp: McpServer,
    pub(crate) guard: Guard,
    pub(crate) config: ServerConfig,
    pub(crate) sessions: Sessions,
    pub(crate) links: Links,
    /// Sessions over their own connection.
    pub(crate) seats: Seats,
    /// Large bodies are read only by so many at once, so that memory is bounded.
    pub(crate) reading: Reading,
    /// The servers behind it, for who looks after them.
    pub(crate) servers: Option<Servers>,
    /// What the HTTP API works with.
    pub(crate) api: Option<Api>,
    /// Streams end and connections close: the server is about to go.
    pub(crate) closing: CancellationToken,
}

impl ServerState {
    /// The state of a server that is reached at `own`, which leads nobody anywhere where it stands for all of a
    /// machine's addresses and so is none.
    pub(crate) fn new(options: HttpOptions, beyond_loopback: bool, own: Option<Url>) -> Self {
        let HttpOptions { mcp, door, config, servers, api, issuer, page } = options;
        let mut guard = Guard::new(door, &config.hosts, &config.origins, beyond_loopback);
        guard.keyring = api.as_ref().map(|api| Keyring::new(api.runtime.clone()));
        guard.issuer = issuer.map(|mut issuer| {
            let reached_at = own.as_ref().and_then(|own| own.join("/mcp").ok());
            reached_at.iter().for_each(|mcp| issuer.reached_at(mcp));
            issuer
        });
        // Where people find the page: nowhere without a runtime to decide about.
        if let Some(page) = page.or_else(|| own.filter(|_| api.is_some())) {
            mcp.set_page(page);
        }
        Self {
            mcp,
            guard,
            sessions: Sessions::new(&config),
            links: Links::default(),
            seats: Seats::new(config.sessions_max, config.own_sessions_max()),
            reading: Reading::default(),
            servers,
            api: api.map(Api::new),
            closing: CancellationToken::new(),
            config,
        }
    }
}
