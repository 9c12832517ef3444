//! The guarded client, made when it is first needed.

use std::sync::{Arc, OnceLock};

use helve::ToolError;
use helve_net::{Client, NetError, NetPolicy, Request, Response, StreamingResponse};

use crate::http::answer::network_error;

/// A client that is made when it is first needed: reading the machine's certificates takes time,
/// and most commands fetch nothing. Cheap to clone; clones share the one client.
#[derive(Clone)]
pub struct LazyClient(Arc<Inner>);

struct Inner {
    policy: NetPolicy,
    client: OnceLock<Arc<Client>>,
}

impl LazyClient {
    /// A client under a policy, later.
    pub fn new(policy: NetPolicy) -> Self {
        Self(Arc::new(Inner { policy, client: OnceLock::new() }))
    }

    /// The policy that it keeps.
    pub fn policy(&self) -> &NetPolicy {
        &self.0.policy
    }

    /// The client.
    pub fn get(&self) -> Result<Arc<Client>, NetError> {
        if let Some(client) = self.0.client.get() {
            return Ok(Arc::clone(client));
        }
        // Two callers at once may both make one; the first stays.
        let client = Arc::new(Client::new(self.0.policy.clone())?);
        Ok(Arc::clone(self.0.client.get_or_init(|| client)))
    }

    /// Sends a request; what goes wrong is an error of the tool.
    pub(crate) async fn fetch(&self, request: Request) -> Result<Response, ToolError> {
        self.get().map_err(network_error)?.fetch(request).await.map_err(network_error)
    }

    /// The same, with the content still to be read.
    pub(crate) async fn open(&self, request: Request) -> Result<StreamingResponse, ToolError> {
        self.get().map_err(network_error)?.open(request).await.map_err(network_error)
    }
}

impl From<Client> for LazyClient {
    fn from(client: Client) -> Self {
        let policy = client.policy().clone();
        Self(Arc::new(Inner { policy, client: OnceLock::from(Arc::new(client)) }))
    }
}

impl std::fmt::Debug for LazyClient {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LazyClient").field("policy", &self.0.policy).finish_non_exhaustive()
    }
}
