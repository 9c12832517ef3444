//! Log messages of a server that belong to no call: to the client that has it to itself, or to nobody.

use helve_mcp::config::{EraChoice, ServerConfig};
use serde_json::{Value, json};

use crate::clients::Client;
use crate::plain::plain;
use crate::setup::Setup;

const MESSAGE: &str = "notifications/message";

fn say_later(id: i64, level: &str, words: &str) -> Value {
    let arguments = json!({ "level": level, "words": words });
    json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call",
        "params": { "name": "it__say_later", "arguments": arguments } })
}

#[tokio::test]
async fn what_a_server_says_after_a_call_reaches_its_only_client() {
    let setup = Setup::with("it", ServerConfig { era: EraChoice::Session, ..plain() }).await;
    let mut only = Client::connect(&setup, "ada").await;
    only.ask(say_later(1, "info", "late news")).await;
    let told = only.told(MESSAGE).await;
    assert_eq!(told["params"]["data"], "late news", "{told}");
    // At the level that it has chosen last, and not the one of its call.
    only.heard.clear();
    only.ask(say_later(2, "info", "too little")).await;
    let level = json!({ "level": "error" });
    only.ask(json!({ "jsonrpc": "2.0", "id": 3, "method": "logging/setLevel", "params": level })).await;
    setup.logged("it", "too little", 1).await;
    only.ask(say_later(4, "error", "grave")).await;
    assert_eq!(only.told(MESSAGE).await["params"]["data"], "grave");
    assert!(!only.heard.iter().any(|heard| heard.to_string().contains("too little")), "{:?}", only.heard);
}

#[tokio::test]
async fn what_a_server_of_several_clients_says_after_a_call_reaches_none() {
    let setup = Setup::with("it", ServerConfig { era: EraChoice::Session, ..plain() }).await;
    let mut ada = Client::connect(&setup, "ada").await;
    let mut bob = Client::connect(&setup, "bob").await;
    ada.ask(say_later(1, "info", "of Ada")).await;
    bob.ask(say_later(1, "info", "of Bob")).await;
    for words in ["of Ada", "of Bob"] {
        setup.logged("it", words, 1).await;
    }
    for client in [&mut ada, &mut bob] {
        // Whatever was on its way has come before this.
        client.ask(json!({ "jsonrpc": "2.0", "id": 2, "method": "ping" })).await;
        assert!(!client.heard.iter().any(|heard| heard["method"] == MESSAGE), "{:?}", client.heard);
    }
}

/// Over one pipe a line tells nobody which call it belongs to.
#[tokio::test]
async fn what_a_server_says_of_an_earlier_call_does_not_reach_whoever_calls_now() {
    let setup = Setup::with("it", ServerConfig { era: EraChoice::Session, ..plain() }).await;
    let mut ada = Client::connect(&setup, "ada").await;
    let mut bob = Client::connect(&setup, "bob").await;
    let folder = tempfile::tempdir().unwrap();
    let gate = folder.path().join("gate");
    ada.ask(say_later(1, "info", "of Ada")).await;
    let params = json!({ "name": "it__write", "arguments": { "gate": gate } });
    let opened = async {
        setup.logged("it", "of Ada", 1).await;
        std::fs::write(&gate, "").unwrap();
    };
    let call = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params });
    tokio::join!(bob.ask(call), opened);
    assert!(!bob.heard.iter().any(|heard| heard["method"] == MESSAGE), "{:?}", bob.heard);
}
