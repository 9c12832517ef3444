//! Calls to a server: how long they may take, what comes of them, and what it asks meanwhile.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use helve::ports::Question;
use helve::{Call, ErrorCode};
use helve_mcp::config::{EraChoice, ServerConfig};
use helve_mcp::era::Era;
use helve_mcp::message::raw;
use helve_mcp::servers::Surroundings;
use helve_testkit::peers::{Peer, python, script};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::person::Person;
use crate::plain::{eventually, plain, text};
use crate::setup::{Setup, surroundings};

fn hasty() -> ServerConfig {
    ServerConfig { timeout_s: 1, timeout_total_s: 3, ..plain() }
}

async fn taken_back(setup: &Setup) -> Vec<String> {
    serde_json::from_str(&text(setup.call("it/taken_back", json!({})).await)).unwrap()
}

#[tokio::test]
async fn progress_buys_time_up_to_a_bound_and_silence_does_not() {
    let setup = Setup::with("it", hasty()).await;
    // Longer than a second, but never silent for one.
    let busy = setup.call("it/steps", json!({ "count": 8, "ms": 200 })).await;
    assert_eq!(text(busy), "done");
    let endless = setup.call("it/steps", json!({ "count": 1000, "ms": 100 })).await;
    assert_eq!(endless.error().map(|error| error.code()), Some(ErrorCode::Timeout), "{endless:?}");
    let silent = setup.call("it/stuck", json!({ "label": "silent" })).await;
    assert_eq!(silent.error().map(|error| error.code()), Some(ErrorCode::Timeout), "{silent:?}");
    // The server learns of it, and goes on.
    eventually("it was taken back", async || taken_back(&setup).await == ["silent"]).await;
    assert_eq!(setup.assert_connected("it").restarts, 0);
}

#[tokio::test]
async fn a_call_that_is_cancelled_is_cancelled_at_the_server() {
    let setup = Setup::with("it", plain()).await;
    let token = CancellationToken::new();
    let call = Call::new("it/stuck", json!({ "label": "mine" })).cancellation(token.clone());
    let cancel = async {
        setup.logged("it", "stuck begins", 1).await;
        token.cancel();
    };
    let (outcome, ()) = tokio::join!(setup.runtime.call(call), cancel);
    assert_eq!(outcome.error().map(|error| error.code()), Some(ErrorCode::Cancelled), "{outcome:?}");
    eventually("it was taken back", async || taken_back(&setup).await == ["mine"]).await;
}

#[tokio::test]
async fn a_call_over_http_is_cancelled_at_the_server_in_both_eras() {
    let peer = Peer::start(&python("python"), &[&script("echo_mcp.py"), "http", "0"], &[]);
    for (era, label) in [(EraChoice::Session, "session"), (EraChoice::Stateless, "stateless")] {
        let setup = Setup::with("echo", ServerConfig { era, ..ServerConfig::remote(peer.url("/mcp")) }).await;
        let noted = async |words: String| {
            eventually(&words, async || text(setup.call("echo/patience", json!({})).await).contains(&words))
                .await;
        };
        let token = CancellationToken::new();
        let call = Call::new("echo/patient", json!({ "label": label })).cancellation(token.clone());
        let cancel = async {
            noted(format!("'{label}'] given up")).await;
            token.cancel();
        };
        let (outcome, ()) = tokio::join!(setup.runtime.call(call), cancel);
        assert_eq!(outcome.error().map(|error| error.code()), Some(ErrorCode::Cancelled), "{outcome:?}");
        eventually("it was given up", async || {
            let noted = text(setup.call("echo/patience", json!({})).await);
            noted.split("given up").nth(1).is_some_and(|given_up| given_up.contains(label))
        })
        .await;
    }
}

#[tokio::test]
async fn whoever_called_hears_how_far_it_has_come_and_what_is_logged() {
    let setup = Setup::with("it", plain()).await;
    let ann = Person::named("ann");
    text(setup.call_for(&ann, "it/steps", json!({ "count": 3, "ms": 1 })).await);
    let progress = ann.progress();
    assert_eq!(progress.iter().map(|step| step.done).collect::<Vec<_>>(), [1.0, 2.0, 3.0]);
    assert_eq!((progress[0].total, progress[0].message.as_deref()), (Some(3.0), Some("step 1")));
    text(setup.call_for(&ann, "it/say", json!({ "words": "hear, hear" })).await);
    assert_eq!(ann.logged(), [json!({ "level": "info", "data": "hear, hear" })]);
}

#[tokio::test]
async fn results_keep_their_promises_and_failures_are_the_servers_words() {
    let mut config = plain();
    config.limits.message_bytes = 64 << 10;
    let setup = Setup::with("it", config).await;
    let both = setup.call("it/both", json!({})).await;
    assert_eq!(both.into_result().unwrap(), json!({ "total": 7 }), "structured content is preferred");
    let code = async |tool: &str, arguments: Value| {
        let outcome = setup.call(tool, arguments).await;
        let error = outcome.error().expect("it fails");
        (error.code(), error.to_string())
    };
    let (wrong, why) = code("it/wrong", json!({})).await;
    assert_eq!(wrong, ErrorCode::OutputInvalid, "{why}");
    let (failed, why) = code("it/fail", json!({})).await;
    assert_eq!(failed, ErrorCode::ExecutionFailed);
    assert!(why.contains("it did not work"), "{why}");
    let (big, why) = code("it/big", json!({ "bytes": 200_000 })).await;
    assert_eq!(big, ErrorCode::OutputTooLarge, "{why}");
    assert_eq!(text(setup.call("it/big", json!({ "bytes": 10 })).await), "xxxxxxxxxx", "and it goes on");
}

#[tokio::test]
async fn forms_are_filled_in_by_whoever_called_in_both_eras() {
    let peer = Peer::start(&python("python"), &[&script("echo_mcp.py"), "http", "0"], &[]);
    for (choice, era) in [(EraChoice::Session, Era::Session), (EraChoice::Stateless, Era::Stateless)] {
        let config = ServerConfig { era: choice, ..ServerConfig::remote(peer.url("/mcp")) };
        let setup = Setup::with("echo", config.clone()).await;
        assert_eq!(setup.assert_connected("echo").era, Some(era));
        let (ann, bob) = (Person::named("ann"), Person::named("bob"));
        // Over HTTP it is known which call a question belongs to: no two are crossed.
        let asks =
            (0..10).map(|at| setup.call_for(if at % 2 == 0 { &ann } else { &bob }, "echo/ask", json!({})));
        for (at, outcome) in futures_util::future::join_all(asks).await.into_iter().enumerate() {
            let expected = if at % 2 == 0 { "Hello ann" } else { "Hello bob" };
            assert!(text(outcome).contains(expected), "{era:?}");
        }
        assert_eq!((ann.asked().len(), bob.asked().len()), (5, 5), "{era:?}");
        assert!(text(setup.call("echo/ask", json!({})).await).contains("user: cancel"), "nobody is there");

        let shy = Setup::with("echo", ServerConfig { elicitation: false, ..config }).await;
        let outcome = shy.call_for(&ann, "echo/ask", json!({})).await;
        assert!(!format!("{outcome:?}").contains("Hello"), "{era:?} {outcome:?}");
        assert_eq!(ann.asked().len(), 5, "{era:?}: it may not ask");
    }
    // This one asks although it was not told that it may.
    let shy = Setup::with("it", ServerConfig { elicitation: false, ..plain() }).await;
    let ann = Person::named("ann");
    let asked = text(shy.call_for(&ann, "it/ask", json!({})).await);
    assert!(asked.contains(r#""action": "cancel""#) && ann.asked().is_empty(), "{asked}");
}

#[tokio::test]
async fn a_model_is_lent_only_where_the_operator_says_so() {
    let lender = || {
        Person::new("ann", |question, _| match question {
            Question::Sample => Some(json!({
                "role": "assistant", "model": "ann's", "content": { "type": "text", "text": "by ann" },
            })),
            Question::FillForm | Question::VisitPage | Question::ListRoots => None,
        })
    };
    let ann = lender();
    let setup = Setup::with("it", plain()).await;
    let refused = text(setup.call_for(&ann, "it/sample", json!({})).await);
    assert!(refused.contains("sampling is refused"), "{refused}");
    assert!(ann.asked().is_empty());

    let setup = Setup::with("it", ServerConfig { sampling: true, ..plain() }).await;
    let lent = text(setup.call_for(&ann, "it/sample", json!({})).await);
    assert!(lent.contains("by ann"), "{lent}");

    let said =
        json!({ "role": "assistant", "model": "ours", "content": { "type": "text", "text": "by us" } });
    let sampler: helve_mcp::client::Sampler = Arc::new(move |_| {
        let said = raw(&said);
        Box::pin(async move { Ok(said) })
    });
    for (sampling, expected) in [(true, "by us"), (false, "sampling is refused")] {
        let setup = Setup::within(Surroundings { sampler: Some(Arc::clone(&sampler)), ..surroundings() });
        let config = ServerConfig { sampling, ..plain() };
        setup.servers.set(BTreeMap::from([("it".to_owned(), config)])).await;
        setup.servers.settled().await;
        let said = text(setup.call("it/sample", json!({})).await);
        assert!(said.contains(expected), "{said}");
    }
}

#[tokio::test]
async fn a_server_is_told_the_folders_of_whoever_called_or_those_configured() {
    let folder = tempfile::tempdir().unwrap();
    let setup = Setup::with("it", ServerConfig { roots: vec![folder.path().to_owned()], ..plain() }).await;
    let configured = text(setup.call("it/roots", json!({})).await);
    assert!(configured.contains(&format!("file://{}", folder.path().display())), "{configured}");
    let ann = Person::new("ann", |question, _| match question {
        Question::ListRoots => Some(json!({ "roots": [{ "uri": "file:///home/ann" }] })),
        Question::FillForm | Question::VisitPage | Question::Sample => None,
    });
    let hers = text(setup.call_for(&ann, "it/roots", json!({})).await);
    assert!(hers.contains("file:///home/ann"), "{hers}");
}

#[tokio::test]
async fn while_somebody_thinks_the_server_is_not_given_up() {
    let setup = Setup::with("it", ServerConfig { timeout_s: 1, timeout_total_s: 20, ..plain() }).await;
    let slow = Person::slow("ann", Duration::from_secs(2));
    let asked = text(setup.call_for(&slow, "it/ask", json!({})).await);
    assert!(asked.contains(r#""name": "ann""#), "{asked}");
}
