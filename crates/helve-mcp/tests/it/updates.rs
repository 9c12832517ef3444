//! Hearing of changed resources, in both eras and across the death of a server.

use std::sync::Arc;

use helve::Caller;
use helve_mcp::config::{EraChoice, ServerConfig};
use helve_mcp::gateway::Gateway;
use helve_mcp::server::{Backend, Peer, Visitor};
use helve_mcp::servers::{ServerEvent, ServerEventKind, ServerState};
use helve_testkit::peers::{self, python, script};
use serde_json::json;
use tokio::sync::broadcast::Receiver;

use crate::person::incoming;
use crate::plain::{LONG, comes_to, eventually, kill, plain, text};
use crate::setup::Setup;

const URI: &str = "plain://a";

fn visitor() -> Visitor {
    Visitor { caller: Caller::local(), session: "one".into(), peer: Arc::new(Peer::unknown()) }
}

async fn hears_of(events: &mut Receiver<ServerEvent>, uri: &str) {
    let heard =
        async { while events.recv().await.unwrap().kind != ServerEventKind::Updated(uri.to_owned()) {} };
    tokio::time::timeout(LONG, heard).await.expect("the change is heard of");
}

async fn touch(setup: &Setup) {
    assert_eq!(text(setup.call("it/touch", json!({ "uri": URI })).await), "touched");
}

#[tokio::test]
async fn a_subscription_outlives_the_death_of_a_server_in_both_eras() {
    for (era, tool, mark) in [
        (EraChoice::Session, "it/subscribed", URI),
        (EraChoice::Stateless, "it/listens", "resourceSubscriptions"),
    ] {
        let setup = Setup::with("it", ServerConfig { era, ..plain() }).await;
        let mut events = setup.servers.subscribe();
        let gateway = Arc::new(Gateway::new(setup.runtime.clone(), setup.servers.clone()));
        let subscribe = || Arc::clone(&gateway).subscribe(URI.to_owned(), incoming(visitor()));
        let unsubscribe = || Arc::clone(&gateway).unsubscribe(URI.to_owned(), visitor());
        // Asked of the server once, however many want it.
        let is_there = async |times: usize| {
            eventually("the server knows", async || {
                let known = text(setup.call(tool, json!({})).await);
                known.matches(mark).count() == times
            })
            .await;
        };
        is_there(0).await;
        subscribe().await.unwrap();
        subscribe().await.unwrap();
        is_there(1).await;
        touch(&setup).await;
        hears_of(&mut events, URI).await;

        let mut states = setup.servers.subscribe();
        kill(setup.pid("it").await);
        comes_to(&mut states, "it", ServerState::Failed).await;
        comes_to(&mut states, "it", ServerState::Connected).await;
        is_there(1).await;
        touch(&setup).await;
        hears_of(&mut events, URI).await;

        unsubscribe().await.unwrap();
        is_there(1).await;
        unsubscribe().await.unwrap();
        is_there(0).await;
    }
}

#[tokio::test]
async fn a_flood_of_changes_hides_none_that_somebody_wants_to_hear_of() {
    let setup = Setup::with("it", plain()).await;
    let gateway = Arc::new(Gateway::new(setup.runtime.clone(), setup.servers.clone()));
    Arc::clone(&gateway).subscribe(URI.to_owned(), incoming(visitor())).await.unwrap();
    let mut events = setup.servers.subscribe();
    text(setup.call("it/flood", json!({ "count": 5_000, "uri": URI })).await);
    hears_of(&mut events, URI).await;
    // Nobody wanted to hear of the others.
    text(setup.call("it/flood", json!({ "count": 500, "uri": URI })).await);
    hears_of(&mut events, URI).await;
    while let Ok(event) = events.try_recv() {
        assert_eq!(event.kind, ServerEventKind::Updated(URI.to_owned()));
    }
}

#[tokio::test]
async fn a_resource_that_nobody_has_cannot_be_subscribed_to() {
    let setup = Setup::with("it", plain()).await;
    let gateway = Arc::new(Gateway::new(setup.runtime.clone(), setup.servers.clone()));
    assert!(gateway.subscribe("plain://none".to_owned(), incoming(visitor())).await.is_err());
}

#[tokio::test]
async fn a_tool_that_appears_is_registered_while_the_server_runs() {
    for era in [EraChoice::Session, EraChoice::Stateless] {
        let peer = peers::Peer::start(&python("python"), &[&script("echo_mcp.py"), "http", "0"], &[]);
        let setup = Setup::with("echo", ServerConfig { era, ..ServerConfig::remote(peer.url("/mcp")) }).await;
        setup.assert_connected("echo");
        let mut events = setup.servers.subscribe();
        // In the stateless era the server has to be listened to first.
        eventually("the new tool is there", async || {
            assert!(text(setup.call("echo/grow", json!({})).await).contains("new tool"));
            tokio::time::sleep(std::time::Duration::from_millis(100)).await;
            setup.runtime.registry().has("echo/grown")
        })
        .await;
        assert!(text(setup.call("echo/grown", json!({})).await).contains("grown"));
        let offered = async { while events.recv().await.unwrap().kind != ServerEventKind::Offer {} };
        tokio::time::timeout(LONG, offered).await.expect("it is told");
    }
}

/// A server may refuse a request because of one resource, or leave the resource out of what it acknowledges.
#[tokio::test]
async fn a_resource_that_a_server_does_not_tell_of_costs_nobody_the_rest() {
    for how in ["refuse", "omit"] {
        let setup = Setup::with("it", ServerConfig { era: EraChoice::Stateless, ..plain() }).await;
        let gateway = Arc::new(Gateway::new(setup.runtime.clone(), setup.servers.clone()));
        let subscribe = |uri: &str| Arc::clone(&gateway).subscribe(uri.to_owned(), incoming(visitor()));
        setup.call("it/unlisten", json!({ "uri": "plain://b", "how": how })).await;
        // One at a time, and both at once.
        subscribe("plain://b").await.unwrap_err();
        let (of_a, of_b) = tokio::join!(subscribe(URI), subscribe("plain://b"));
        of_a.unwrap();
        let refused = of_b.unwrap_err().to_string();
        assert!(refused.contains("does not tell of changes"), "{how}: {refused}");
        let mut events = setup.servers.subscribe();
        touch(&setup).await;
        hears_of(&mut events, URI).await;
        let listens = text(setup.call("it/listens", json!({})).await);
        assert!(listens.contains("toolsListChanged") && !listens.contains("plain://b"), "{how}: {listens}");
        setup.logged("it", "does not tell of changes to `plain://b`", 1).await;
    }
}

#[tokio::test]
async fn a_subscription_that_a_server_ends_is_made_again() {
    let setup = Setup::with("it", ServerConfig { era: EraChoice::Stateless, ..plain() }).await;
    let gateway = Arc::new(Gateway::new(setup.runtime.clone(), setup.servers.clone()));
    Arc::clone(&gateway).subscribe(URI.to_owned(), incoming(visitor())).await.unwrap();
    let listens = async || text(setup.call("it/listens", json!({})).await);
    assert!(listens().await.contains(URI));
    setup.call("it/end_listens", json!({})).await;
    eventually("it is asked again", async || listens().await.contains(URI)).await;
    let mut events = setup.servers.subscribe();
    touch(&setup).await;
    hears_of(&mut events, URI).await;
}
