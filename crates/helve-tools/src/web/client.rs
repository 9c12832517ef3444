//! The guarded client, made when it is first needed.

use std::sync::{Arc, OnceLock};

use helve::{ErrorCode, Reads, ToolError};
use helve_net::{Client, NetError, NetPolicy, Request, Response, StreamingResponse, Url};

use crate::http::answer::network_error;

/// A client that is made when it is first needed: reading the machine's certificates takes time,
/// and most commands fetch nothing. Cheap to clone; clones share the one client.
#[derive(Clone)]
pub struct LazyClient(Arc<Inner>);

struct Inner {
    policy: NetPolicy,
    client: OnceLock<Arc<Client>>,
    /// The same for the public internet alone.
    public: OnceLock<LazyClient>,
    /// Of one for the public internet alone: what the one that it comes from may reach.
    opened: Option<NetPolicy>,
}

impl LazyClient {
    /// A client under a policy, later.
    pub fn new(policy: NetPolicy) -> Self {
        Self::of(policy, OnceLock::new(), None)
    }

    fn of(policy: NetPolicy, client: OnceLock<Arc<Client>>, opened: Option<NetPolicy>) -> Self {
        Self(Arc::new(Inner { policy, client, public: OnceLock::new(), opened }))
    }

    /// The same with another client for the public internet.
    pub fn with_public(self, client: Client) -> Self {
        let (policy, own) = (self.0.policy.clone(), self.0.client.clone());
        let public = Self::of(client.policy().clone(), Arc::new(client).into(), Some(policy.clone()));
        Self(Arc::new(Inner { policy, client: own, public: public.into(), opened: None }))
    }

    /// The client for a call that reads this.
    ///
    /// INVARIANT: one for what is public reaches nothing that an entry of `allow` opens, after redirects
    /// neither, because the call's session is not labelled as if it did.
    pub fn reaching(&self, reads: Reads) -> Self {
        match reads {
            Reads::Private => self.clone(),
            Reads::Public if self.0.policy.allow.is_empty() => self.clone(),
            Reads::Public => self.0.public.get_or_init(|| self.public()).clone(),
        }
    }

    fn public(&self) -> Self {
        // One that was made in its own way keeps to that.
        let made = self.0.client.get().and_then(|client| client.public().ok());
        let client = made.map_or_else(OnceLock::new, |client| Arc::new(client).into());
        Self::of(self.0.policy.public(), client, Some(self.0.policy.clone()))
    }

    /// The policy that it keeps.
    pub fn policy(&self) -> &NetPolicy {
        &self.0.policy
    }

    /// The client, made at the first use.
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
        self.get().map_err(network_error)?.fetch(request).await.map_err(|error| self.wrong(error))
    }

    /// The same, with the content still to be read.
    pub(crate) async fn open(&self, request: Request) -> Result<StreamingResponse, ToolError> {
        self.get().map_err(network_error)?.open(request).await.map_err(|error| self.wrong(error))
    }

    fn wrong(&self, error: NetError) -> ToolError {
        match &error {
            NetError::Forbidden { host, address, .. } if self.is_opened(host, *address) => {
                let message = format!(
                    "it leads on to `{host}`, which [net] allow opens; something public may not lead there"
                );
                ToolError::new(ErrorCode::PermissionDenied, message)
                    .suggest("call it with that address itself, if that is what you want to read")
                    .with_source(error)
            }
            _ => network_error(error),
        }
    }

    /// Whether an address that is refused here may be reached by a call that says so.
    fn is_opened(&self, host: &str, address: std::net::IpAddr) -> bool {
        let url = Url::parse(&format!("http://{host}/")).ok();
        let opened = self.0.opened.as_ref().zip(url);
        opened.is_some_and(|(policy, url)| policy.verdict(&url, &[address]).is_ok())
    }
}

impl From<Client> for LazyClient {
    fn from(client: Client) -> Self {
        Self::of(client.policy().clone(), Arc::new(client).into(), None)
    }
}

impl std::fmt::Debug for LazyClient {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LazyClient").field("policy", &self.0.policy).finish_non_exhaustive()
    }
}
