//! Resources that clients hear of, and words that they complete: judged as reads are, and never left behind.

use std::sync::Arc;
use std::time::Duration;

use helve::permission::{Destination, PermissionSet};
use helve::permissions::PermissionOptions;
use helve::sessions::{LabelSettings, WhenMet};
use helve::{Caller, ErrorCode, RuntimeBuilder, Settings};
use helve_mcp::message::Message;
use helve_mcp::server::{Nowhere, Route};
use serde_json::{Value, json};

use crate::behind::{Behind, labelled, read, request};
use crate::plain::eventually;

fn subscribe(uri: &str) -> Value {
    request("resources/subscribe", json!({ "uri": uri }))
}

fn complete(value: &str) -> Value {
    let of = json!({ "type": "ref/prompt", "name": "up__ask" });
    request("completion/complete", json!({ "ref": of, "argument": { "name": "about", "value": value } }))
}

#[tokio::test]
async fn addresses_to_hear_of_and_words_to_complete_go_the_way_of_reads() {
    let behind = Behind::new(|_| {}, |builder| builder).await;
    let mut ada = behind.client("ada").await;
    assert_eq!(ada.ask(subscribe("note://x/1")).await["result"], json!({}));
    let completed = ada.ask(complete("va")).await;
    assert_eq!(completed["result"]["completion"]["values"], json!(["value"]), "{completed}");
    let of_template = json!({ "ref": { "type": "ref/resource", "uri": "note://x/{data}" },
        "argument": { "name": "data", "value": "v" }, "context": { "arguments": { "a": "b" } } });
    ada.ask(request("completion/complete", of_template.clone())).await;
    let mut asked = behind.heard.lock().unwrap().last().cloned().unwrap();
    asked.1.as_object_mut().unwrap().remove("_meta");
    assert_eq!(asked, ("completion/complete".to_owned(), of_template), "as the client said it");
    let records = behind.finished();
    let told: Vec<_> = records
        .iter()
        .map(|one| {
            let arguments: Value =
                serde_json::from_str(one.payload.arguments.as_ref().unwrap().get()).unwrap();
            (one.facts.tool.to_string(), arguments)
        })
        .collect();
    assert_eq!(
        told,
        [
            ("up/resources.read".to_owned(), json!({ "uri": "note://x/1", "subscribe": true })),
            (
                "up/prompts.get".to_owned(),
                json!({ "name": "ask", "argument": { "name": "about", "value": "va" } })
            ),
            (
                "up/resources.read".to_owned(),
                json!({ "uri": "note://x/{data}", "argument": { "name": "data", "value": "v" },
                    "context": { "arguments": { "a": "b" } } })
            ),
        ]
    );
    // Only what was subscribed to is said again, and once.
    for uri in ["note://x/secret", "note://x/1", "note://x/1"] {
        let ended = ada.ask(request("resources/unsubscribe", json!({ "uri": uri }))).await;
        assert_eq!(ended["result"], json!({}));
    }
    let ended: Vec<_> = behind.heard.lock().unwrap().iter().cloned().collect();
    let ended: Vec<_> = ended.iter().filter(|(method, _)| method == "resources/unsubscribe").collect();
    assert_eq!(ended.len(), 1, "{ended:?}");
    assert_eq!(ended[0].1["uri"], "note://x/1");
}

/// However a client gives up what it has asked to hear of, before the server has answered.
#[tokio::test]
async fn what_is_given_up_while_the_server_is_asked_is_not_watched() {
    let (slow, stuck) = ("note://x/slow", "note://x/stuck");
    for (way, uri) in
        [("cancelled", slow), ("cancelled", stuck), ("unsubscribed", slow), ("gone", slow), ("gone", stuck)]
    {
        let behind = Behind::new(|_| {}, |builder| builder).await;
        let mut ada = behind.client("ada").await;
        let mut asked = subscribe(uri);
        asked["id"] = json!("s");
        ada.send(&asked).await;
        eventually("the server is asked", async || behind.asked("resources/subscribe") == 1).await;
        assert_eq!(behind.asked("resources/unsubscribe"), 0);
        let cancel =
            json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": "s" } });
        match way {
            "cancelled" => ada.send(&cancel).await,
            "unsubscribed" => ada.send(&request("resources/unsubscribe", json!({ "uri": uri }))).await,
            _ => drop(ada),
        }
        let is_over = async || behind.asked("resources/unsubscribe") == 1;
        eventually(&format!("{uri} is {way} and no longer watched"), is_over).await;
        // Nothing is left behind: asking anew asks the server anew.
        let again = behind.client("bob").await.ask(subscribe(slow)).await;
        assert_eq!(again["result"], json!({}), "{way}");
        assert_eq!(behind.asked("resources/subscribe"), 2, "{way}");
    }
}

/// Over HTTP, a client that hangs up takes its request with it, and may come back with another one.
#[tokio::test]
async fn what_was_hung_up_can_be_asked_for_again() {
    for still_runs in [false, true] {
        let behind = Behind::new(|_| {}, |builder| builder).await;
        let session = behind.mcp.open(Arc::new(Caller::principal("ada")));
        let say = |id: &str, mut message: Value| {
            message["id"] = json!(id);
            let Ok(Message::Request(request)) = Message::parse(message.to_string().as_bytes()) else {
                panic!("no request: {message}")
            };
            let session = Arc::clone(&session);
            async move { session.request(request, Route::over(Arc::new(Nowhere))).await.result }
        };
        let hello = json!({ "protocolVersion": "2025-11-25", "capabilities": {},
            "clientInfo": { "name": "t", "version": "1" } });
        say("hello", request("initialize", hello)).await.unwrap();
        let first = tokio::spawn(say("first", subscribe("note://x/slow")));
        eventually("the server is asked", async || behind.asked("resources/subscribe") == 1).await;
        let mut again = None;
        if still_runs {
            let asking = tokio::spawn(say("again", subscribe("note://x/slow")));
            tokio::time::sleep(Duration::from_millis(100)).await;
            assert!(!asking.is_finished(), "nobody knows yet");
            again = Some(asking);
        }
        first.abort();
        let again = again.unwrap_or_else(|| tokio::spawn(say("again", subscribe("note://x/slow"))));
        again.await.unwrap().unwrap();
        let heard: Vec<_> = behind.heard.lock().unwrap().iter().map(|(method, _)| method.clone()).collect();
        let last = heard.iter().rfind(|method| method.starts_with("resources/"));
        assert_eq!(last.unwrap(), "resources/subscribe", "{heard:?}");
        assert_eq!(behind.asked("resources/subscribe"), 2, "{heard:?}");
        // And then it holds.
        say("more", subscribe("note://x/slow")).await.unwrap();
        assert_eq!(behind.asked("resources/subscribe"), 2);
    }
}

#[tokio::test]
async fn what_is_acknowledged_is_what_can_be_watched() {
    let behind = Behind::new(|_| {}, |builder| builder).await;
    let mut ada = behind.client("ada").await;
    let about = json!({ "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {} });
    let wanted =
        json!({ "promptsListChanged": true, "resourceSubscriptions": ["note://none", "note://one"] });
    ada.send(&request("subscriptions/listen", json!({ "_meta": about, "notifications": wanted }))).await;
    let told = ada.told("notifications/subscriptions/acknowledged").await;
    let honoured = json!({ "promptsListChanged": true, "resourceSubscriptions": ["note://one"] });
    assert_eq!(told["params"]["notifications"], honoured, "{told}");
    assert_eq!(behind.asked("resources/subscribe"), 1);
}

#[tokio::test]
async fn nothing_gets_out_by_an_address_to_hear_of_or_by_words_to_complete() {
    type Build = fn(RuntimeBuilder) -> RuntimeBuilder;
    let rule = |builder: RuntimeBuilder| {
        let set = PermissionSet { deny: vec!["up/*".parse().unwrap()], ..PermissionSet::default() };
        builder.permissions(PermissionOptions {
            places: vec![(Destination::UserSettings, set)],
            ..PermissionOptions::default()
        })
    };
    let strict: Build = |builder| {
        let labels = LabelSettings { when_met: WhenMet::Deny, ..LabelSettings::default() };
        builder.settings(Settings { labels, ..Settings::default() })
    };
    for (by, build) in [("rule", rule as Build), ("labels", strict), ("labels that ask", labelled)] {
        let behind = Behind::new(|_| {}, build).await;
        let mut ada = behind.client("ada").await;
        if by != "rule" {
            assert!(ada.ask(read("note://one")).await["error"].is_null(), "what brings all there is");
        }
        let refused = [ada.ask(subscribe("note://x/secret")).await, ada.ask(complete("secret")).await];
        for refused in &refused {
            assert!(!refused["error"].is_null(), "{by}: {refused}");
        }
        let heard = format!("{:?}", behind.heard.lock().unwrap());
        assert!(!heard.contains("secret"), "{by}: {heard}");
        let records: Vec<_> = behind.finished().into_iter().rev().take(2).collect();
        let codes: Vec<_> = records.iter().rev().map(|one| one.ending.code).collect();
        let expected = match by {
            // Nobody is asked at every key that somebody presses.
            "labels that ask" => [None, Some(ErrorCode::PermissionDenied)],
            _ => [Some(ErrorCode::PermissionDenied); 2],
        };
        assert_eq!(codes, expected, "{by}");
        let pending = behind.runtime.approvals().list(Default::default()).await.unwrap().len();
        assert_eq!(pending, usize::from(by == "labels that ask"), "{by}");
    }
}
