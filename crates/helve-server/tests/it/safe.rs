//! Safe methods change nothing: every route there is, by GET and HEAD, for those who may use it. What proves
//! it is the approved call that did not run and the journal that did not grow.

use std::sync::Arc;
use std::time::Duration;

use helve::identity::Purpose;
use helve::{Runtime, VolatileLedger};
use helve_server::ServerConfig;
use serde_json::json;

use crate::harness::{ADA, BOB};
use crate::identity::{Api, api, api_on, cookie, place};
use crate::strangers::{paths, standing};

async fn approve(api: &Api, decider: &str, id: &str) {
    let line = format!("POST /v1/approvals/{id}/decision");
    let decided = api.ask(&line, decider, json!({ "decision": "approve" })).await;
    assert_eq!(decided.status, 200, "{decided:?}");
}

#[tokio::test]
async fn no_get_and_no_head_runs_anything_or_changes_the_ledger() {
    let journal = Arc::new(VolatileLedger::default());
    let api = api_on(Runtime::builder().ledger(journal.clone()), ServerConfig::default()).await;
    let (_, decider) = api.key("grace", Purpose::Decide).await;
    let (pending, approved) = (api.question(1).await, api.question(2).await);
    approve(&api, &decider, &approved).await;
    let signed_in = api.sign_in(&decider).await;
    let (pair, place) = (cookie(&signed_in), place(&signed_in));
    let session = api.server.session(BOB, json!({})).await;
    let (before, entries) = (standing(&api).await, journal.entries().len());

    let bearer = |token: &str| format!("Bearer {token}");
    let (bob, ada, grace) = (bearer(BOB), bearer(ADA), bearer(&decider));
    let visitors = [
        ("", vec![("authorization", bob.as_str()), ("mcp-session-id", session.as_str())]),
        ("", vec![("authorization", ada.as_str())]),
        ("", vec![("authorization", grace.as_str())]),
        (place.as_str(), vec![("authorization", "-"), ("cookie", pair.as_str())]),
    ];
    let mut seen = 0;
    for id in [&pending, &approved] {
        for path in paths(&api, id, id).await {
            for (place, headers) in &visitors {
                for method in ["GET", "HEAD"] {
                    api.server.open(&format!("{method} {place}{path}"), headers, "").await.ended().await;
                    assert_eq!((api.ran(), journal.entries().len()), (0, entries), "{method} {path}");
                    seen += 1;
                }
            }
        }
    }
    assert!(seen > 600, "{seen}");
    // A connection that was opened and left may still be counted for a moment.
    let unchanged = async {
        while standing(&api).await != before {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), unchanged).await.unwrap();

    // It could have been run all along, and runs once it is asked for by the method that changes things.
    let ran = api.ask(&format!("POST /v1/calls/{approved}/run"), BOB, json!({})).await;
    assert_eq!((ran.status, api.ran()), (200, 1), "{ran:?}");
}

#[tokio::test]
async fn looking_tells_where_a_call_stands_and_running_it_is_a_post() {
    let api = api().await;
    let (_, decider) = api.key("grace", Purpose::Decide).await;
    let id = api.question(7).await;
    let look = async || api.get(&format!("/v1/calls/{id}"), BOB).await;
    let run = async |token: &str| api.ask(&format!("POST /v1/calls/{id}/run"), token, json!({})).await;

    let pending = look().await;
    assert_eq!((pending.status, &pending.json()["status"]), (202, &json!("pending")), "{pending:?}");
    assert_eq!(run(BOB).await.status, 202, "there is nothing to run before somebody has decided");

    approve(&api, &decider, &id).await;
    let ready = look().await;
    assert_eq!(ready.status, 202, "{ready:?}");
    let shown = ready.json();
    assert_eq!((&shown["status"], &shown["approval_id"]), (&json!("approved"), &json!(id)), "{shown}");
    assert_eq!(shown["run"], json!({ "method": "POST", "path": format!("/v1/calls/{id}/run") }));
    assert_eq!(api.ran(), 0);

    let (_, carol) = api.key("carol", Purpose::Call).await;
    for (token, status) in [(ADA, 404), (carol.as_str(), 404), (decider.as_str(), 403)] {
        let refused = run(token).await;
        assert_eq!(refused.status, status, "only the caller that asked runs it: {refused:?}");
    }
    assert_eq!(api.ran(), 0);

    let done = run(BOB).await;
    assert_eq!((done.status, &done.json()["result"]), (200, &json!({ "did": 7 })), "{done:?}");
    for _ in 0..2 {
        let looked = look().await;
        assert_eq!((looked.status, &looked.json()["result"]), (200, &json!({ "did": 7 })), "{looked:?}");
    }
    assert_eq!(run(BOB).await.json()["call_id"], done.json()["call_id"], "the same outcome again");
    assert_eq!(api.ran(), 1);

    let denied = api.question(8).await;
    let line = format!("POST /v1/approvals/{denied}/decision");
    assert_eq!(api.ask(&line, &decider, json!({ "decision": "deny" })).await.status, 200);
    let told = api.get(&format!("/v1/calls/{denied}"), BOB).await;
    assert_eq!((told.status, &told.json()["code"]), (403, &json!("approval_denied")), "{told:?}");
    let call = done.json()["call_id"].as_str().unwrap().to_owned();
    let wrong = api.ask(&format!("POST /v1/calls/{call}/run"), BOB, json!({})).await;
    assert_eq!(wrong.status, 404, "what was never asked about is not run again");
}
