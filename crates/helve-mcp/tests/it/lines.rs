//! Connections of single clients: how long they live, how many there are, and who gets none.

use std::sync::Arc;
use std::time::Duration;

use helve::Caller;
use helve_mcp::config::{EraChoice, ServerConfig, Start};
use helve_mcp::gateway::Gateway;
use helve_mcp::message::Message;
use helve_mcp::server::{McpServer, Nowhere, Route, ServerOptions};
use helve_mcp::servers::ServerState;
use serde_json::{Value, json};

use crate::clients::Client;
use crate::person::Person;
use crate::plain::{comes_to, is_gone, plain, text};
use crate::setup::Setup;

fn not_shared() -> ServerConfig {
    ServerConfig { shared: false, ..plain() }
}

fn gateway(setup: &Setup) -> McpServer {
    let gateway = Gateway::new(setup.runtime.clone(), setup.servers.clone());
    McpServer::new(Arc::new(gateway), ServerOptions::default())
}

fn pid_in(answer: &Value) -> i32 {
    let text = answer["result"]["content"][0]["text"].as_str();
    text.and_then(|text| text.parse().ok()).unwrap_or_else(|| panic!("{answer}"))
}

async fn pid_for(setup: &Setup, who: &Arc<Person>) -> i32 {
    text(setup.call_for(who, "it/pid", json!({})).await).parse().unwrap()
}

#[tokio::test]
async fn the_program_of_a_client_ends_with_its_session() {
    let setup = Setup::with("it", not_shared()).await;
    let server = gateway(&setup);
    let params = json!({ "name": "it__pid", "arguments": {} });
    let call = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params });
    let mut stays = Client::of(&server, Caller::principal("ann")).await;
    let mut goes = Client::of(&server, Caller::principal("ann")).await;
    let (of_stays, of_goes) = (pid_in(&stays.ask(call.clone()).await), pid_in(&goes.ask(call.clone()).await));
    assert_ne!(of_stays, of_goes);
    drop(goes);
    is_gone(of_goes).await;
    assert_eq!(pid_in(&stays.ask(call).await), of_stays);
}

#[tokio::test]
async fn the_program_of_an_idle_client_ends_whatever_others_do() {
    let setup = Setup::with("it", ServerConfig { caller_idle_s: 1, ..not_shared() }).await;
    let (ann, bob) = (Person::named("ann"), Person::named("bob"));
    let (of_ann, of_bob) = (pid_for(&setup, &ann).await, pid_for(&setup, &bob).await);
    let bob_calls = async {
        loop {
            tokio::time::sleep(Duration::from_millis(100)).await;
            assert_eq!(pid_for(&setup, &bob).await, of_bob);
        }
    };
    tokio::select! {
        () = is_gone(of_ann) => {}
        () = bob_calls => {}
    }
    is_gone(of_bob).await;
}

#[tokio::test]
async fn there_are_as_many_programs_of_clients_as_the_limit_says() {
    let mut config = not_shared();
    config.limits.callers = 2;
    let setup = Setup::with("it", config).await;
    let mut pids = Vec::new();
    for name in ["ann", "bob", "carol"] {
        // So that it is clear who was idle for longest.
        tokio::time::sleep(Duration::from_millis(5)).await;
        pids.push(pid_for(&setup, &Person::named(name)).await);
    }
    is_gone(pids[0]).await;
    assert_eq!(pid_for(&setup, &Person::named("bob")).await, pids[1]);
}

#[tokio::test]
async fn requests_of_the_stateless_era_start_no_program_each() {
    let setup = Setup::with("it", not_shared()).await;
    let server = gateway(&setup);
    let pid = async |caller: Arc<Caller>| {
        let about = json!({
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {},
        });
        let params = json!({ "name": "it__pid", "arguments": {}, "_meta": about });
        let call = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params });
        let Ok(Message::Request(request)) = Message::parse(call.to_string().as_bytes()) else { panic!() };
        let route = Route { era: Some(helve_mcp::era::Era::Stateless), ..Route::over(Arc::new(Nowhere)) };
        let answer = server.open_once(caller).request(request, route).await;
        pid_in(&serde_json::from_str(&answer.to_text()).unwrap())
    };
    let named = |name: &str| Arc::new(Caller::principal(name));
    let of_ann = pid(named("ann")).await;
    assert_eq!(pid(named("ann")).await, of_ann);
    assert_ne!(pid(named("bob")).await, of_ann);
    assert_eq!(pid(Arc::new(Caller::anonymous())).await, setup.pid("it").await, "the shared one");
}

#[tokio::test]
async fn a_server_of_the_stateless_era_that_tells_of_changes_can_be_idle() {
    let config = ServerConfig {
        era: EraChoice::Stateless,
        start: Start::OnDemand,
        idle_stop_s: Some(1),
        caller_idle_s: 1,
        ..not_shared()
    };
    let setup = Setup::with("it", config).await;
    let mut events = setup.servers.subscribe();
    let (shared, own) = (setup.pid("it").await, pid_for(&setup, &Person::named("ann")).await);
    assert!(text(setup.call("it/listens", json!({})).await).contains("toolsListChanged"));
    comes_to(&mut events, "it", ServerState::Pending).await;
    is_gone(shared).await;
    is_gone(own).await;
}
