//! The program that the suite tests: it does with Helve's API what any user would.
#![expect(clippy::print_stdout, reason = "the suite keeps what its client says")]

use std::collections::BTreeMap;
use std::path::Path;

use futures_util::future::join_all;
use helve::registry::Registered;
use helve::{Call, ErrorCode, Outcome};
use helve_mcp::config::{EraChoice, OAuthConfig, ServerConfig, Setting};
use helve_mcp::era::Era;
use helve_mcp::oauth::TokenStore;
use helve_mcp::servers::{ServerState, Surroundings};
use helve_net::{Client, NetPolicy, Request};
use serde_json::{Value, json};
use url::Url;

use crate::person::{Person, something};
use crate::setup::{Setup, surroundings};

/// How often it logs in before it gives up.
const LOGINS_MAX: usize = 4;

/// Not a test: what the suite starts.
#[tokio::test(flavor = "multi_thread")]
async fn program() {
    let Ok(scenario) = std::env::var("MCP_CONFORMANCE_SCENARIO") else { return };
    let context = std::env::var("MCP_CONFORMANCE_CONTEXT").ok();
    let context: Value = context.map_or(Value::Null, |text| serde_json::from_str(&text).unwrap());
    let folder = tempfile::tempdir().unwrap();
    let client = User::connect(config(&context, folder.path()), folder.path()).await;
    for (tool, arguments) in client.calls(&scenario, &context) {
        println!("{tool} {arguments}");
        println!("{:?}", client.call(&tool, arguments).await);
    }
    client.all_at_once().await;
    client.setup.servers.close().await;
}

fn config(context: &Value, folder: &Path) -> ServerConfig {
    let version = std::env::var("MCP_CONFORMANCE_PROTOCOL_VERSION").unwrap();
    let era = match Era::of(&version) {
        Some(Era::Stateless) => EraChoice::Stateless,
        Some(Era::Session) => EraChoice::Session,
        None => EraChoice::Auto,
    };
    let text = |key: &str| context.get(key).and_then(Value::as_str).map(str::to_owned);
    let oauth = OAuthConfig {
        client_id: text("client_id"),
        client_secret: text("client_secret").map(|secret| {
            let file = folder.join("secret");
            std::fs::write(&file, secret).unwrap();
            Setting::from_file(file)
        }),
        client_metadata_url: Some("https://conformance-test.local/client-metadata.json".to_owned()),
        ..OAuthConfig::default()
    };
    let url = std::env::args().next_back().unwrap();
    ServerConfig { era, oauth: Some(oauth), ..ServerConfig::remote(url) }
}

struct User {
    setup: Setup,
}

impl User {
    async fn connect(config: ServerConfig, folder: &Path) -> Self {
        let policy = NetPolicy::allowing(["127.0.0.1", "localhost"]).unwrap();
        let setup = Setup::within(Surroundings {
            net: Client::new(policy).unwrap(),
            tokens: Some(TokenStore::open(folder).unwrap()),
            ..surroundings()
        });
        let set = setup.servers.set(BTreeMap::from([("it".to_owned(), config)])).await;
        assert!(set.errors.is_empty(), "{set:?}");
        setup.servers.settled().await;
        let user = Self { setup };
        for _ in 0..LOGINS_MAX {
            if user.setup.status("it").state != ServerState::NeedsAuth || !user.login().await {
                break;
            }
        }
        println!("{:#?}", user.setup.status("it"));
        user
    }

    /// Whether it worked. The suite's own pages send everybody straight back.
    async fn login(&self) -> bool {
        let client = Client::new(NetPolicy::allowing(["127.0.0.1", "localhost"]).unwrap()).unwrap();
        let browse = |url: &Url| {
            let request = Request::get(url.as_str()).unwrap();
            tokio::spawn(async move { client.fetch(request).await });
        };
        let login = self.setup.servers.login("it", browse);
        match tokio::time::timeout(std::time::Duration::from_secs(10), login).await {
            Ok(Ok(logged_in)) => {
                println!("{logged_in:?}");
                true
            }
            Ok(Err(error)) => {
                println!("{error}");
                false
            }
            Err(_) => false,
        }
    }

    fn tools(&self) -> Vec<Registered> {
        self.setup.runtime.registry().snapshot().sorted().to_vec()
    }

    /// What the scenario wants to see called.
    fn calls(&self, scenario: &str, context: &Value) -> Vec<(String, Value)> {
        if let Some(calls) = context.get("toolCalls").and_then(Value::as_array) {
            let call = |call: &Value| (call["name"].as_str().unwrap().to_owned(), call["arguments"].clone());
            return calls.iter().map(call).collect();
        }
        let own = |tool: &Registered| tool.name().as_str()["it/".len()..].to_owned();
        let tools = self.tools();
        if scenario == "json-schema-2020-12-preservation" {
            let seen = tools.iter().find(|tool| own(tool) == "json_schema_2020_12_tool").unwrap();
            let schema = &seen.tool.definition().input_schema;
            return vec![("json_schema_echo".to_owned(), json!({ "schema": schema }))];
        }
        tools.iter().map(|tool| (own(tool), something(&tool.tool.definition().input_schema))).collect()
    }

    /// Calls, and logs in where the server says that this is not enough.
    async fn call(&self, tool: &str, arguments: Value) -> Outcome {
        for _ in 1..LOGINS_MAX {
            let outcome = self.call_once(tool, arguments.clone()).await;
            let refused = outcome.error().is_some_and(|error| error.code() == ErrorCode::IntegrationMissing);
            if !refused || !self.login().await {
                return outcome;
            }
        }
        self.call_once(tool, arguments).await
    }

    async fn call_once(&self, tool: &str, arguments: Value) -> Outcome {
        let call = Call::new(format!("it/{tool}"), arguments).client(Person::agreeable("me"));
        self.setup.runtime.call(call).await
    }

    /// Nothing of one call may show up in another.
    async fn all_at_once(&self) {
        let names: Vec<String> = self.tools().iter().map(|tool| tool.name().to_string()).collect();
        if names.iter().all(|name| !name.contains("mrtr")) {
            return;
        }
        join_all(names.iter().map(|name| self.call_once(&name["it/".len()..], json!({})))).await;
    }
}
