//! A runtime with servers, as a test needs it.

use std::collections::BTreeMap;

use helve::{Call, Outcome, Runtime};
use helve_mcp::config::{Secrets, ServerConfig};
use helve_mcp::servers::{ServerState, ServerStatus, Servers, Surroundings};
use helve_net::{Client, HostPattern, NetPolicy};
use helve_sandbox::Sandbox;
use serde_json::Value;

pub(crate) struct Setup {
    pub(crate) runtime: Runtime,
    pub(crate) servers: Servers,
}

pub(crate) fn surroundings() -> Surroundings {
    let allow = vec!["127.0.0.1".parse::<HostPattern>().expect("a pattern")];
    let policy = NetPolicy { allow, ..NetPolicy::default() };
    Surroundings {
        sandbox: Sandbox::default(),
        net: Client::new(policy).expect("a client"),
        secrets: Secrets::process(),
        pins: None,
        sampler: None,
        tokens: None,
    }
}

impl Setup {
    pub(crate) fn new() -> Self {
        Self::within(surroundings())
    }

    pub(crate) fn within(surroundings: Surroundings) -> Self {
        let runtime = Runtime::builder().build();
        let servers = Servers::new(runtime.registry().clone(), surroundings);
        Self { runtime, servers }
    }

    /// Sets one server and waits for it.
    pub(crate) async fn with(name: &str, config: ServerConfig) -> Self {
        let setup = Self::new();
        let set = setup.servers.set(BTreeMap::from([(name.to_owned(), config)])).await;
        assert!(set.errors.is_empty(), "{set:?}");
        setup.servers.settled().await;
        setup
    }

    pub(crate) fn status(&self, name: &str) -> ServerStatus {
        self.servers.status().into_iter().find(|status| status.name == name).expect("it is configured")
    }

    pub(crate) fn assert_connected(&self, name: &str) -> ServerStatus {
        let status = self.status(name);
        let log = self.servers.log(name, 20);
        assert_eq!(status.state, ServerState::Connected, "{status:#?} {log:#?}");
        status
    }

    pub(crate) async fn call(&self, tool: &str, arguments: Value) -> Outcome {
        self.runtime.call(Call::new(tool, arguments)).await
    }
}
