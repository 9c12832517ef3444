//! The webhook: a real receiver is told, the link signs in once, and opening it decides nothing.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::http::HeaderMap;
use axum::routing::post;
use helve::ApprovalState;
use helve::identity::{Key, Purpose};
use helve_net::{Client, NetPolicy};
use helve_server::{Webhook, WebhookConfig};
use ring::hmac;
use serde_json::{Value, json};

use crate::harness::BOB;
use crate::identity::{Api, api, cookie, place};

type Heard = Arc<Mutex<Vec<(HeaderMap, String)>>>;

/// A receiver that refuses the first request, as one that just starts does.
async fn receiver() -> (String, Heard) {
    let heard = Heard::default();
    let kept = Arc::clone(&heard);
    let router = Router::new().route(
        "/told",
        post(move |headers: HeaderMap, body: String| {
            let mut heard = kept.lock().unwrap();
            heard.push((headers, body));
            let status = if heard.len() == 1 { 503 } else { 204 };
            async move { axum::http::StatusCode::from_u16(status).unwrap() }
        }),
    );
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
    (format!("http://{address}/told"), heard)
}

#[tokio::test]
async fn whoever_should_decide_is_told_and_the_link_signs_in_once() {
    let api = api().await;
    let (url, heard) = receiver().await;
    let host = url.trim_start_matches("http://").trim_end_matches("/told").parse().unwrap();
    let client = Client::new(NetPolicy { allow: vec![host], ..NetPolicy::default() }).unwrap();
    let config = WebhookConfig {
        url: Some(url),
        base_url: Some("https://helve.example.com".to_owned()),
        secret_env: Some("CARGO_PKG_NAME".to_owned()),
    };
    let webhook = Webhook::new(&config, client, "http://unused").unwrap().unwrap();
    let telling = tokio::spawn(webhook.follow(api.server.runtime.clone()));
    // Until it listens, which nothing outside tells.
    tokio::time::sleep(Duration::from_millis(100)).await;
    let id = api.question(7).await;
    let told = async {
        loop {
            if heard.lock().unwrap().len() >= 2 {
                return heard.lock().unwrap()[1].clone();
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    let (headers, body) = tokio::time::timeout(Duration::from_secs(20), told).await.unwrap();
    let message: Value = serde_json::from_str(&body).unwrap();
    assert_eq!((&message["id"], &message["tool"]), (&json!(id), &json!("deed")));
    assert!(message.get("arguments").is_none(), "what would run is for who has signed in");
    // Signed with the secret.
    let signature = headers["helve-signature"].to_str().unwrap();
    let (at, tag) = signature.split_once(",v1=").unwrap();
    let at = at.strip_prefix("t=").unwrap();
    let secret = std::env::var("CARGO_PKG_NAME").unwrap();
    let key = hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes());
    let expected = hmac::sign(&key, format!("{at}.{body}").as_bytes());
    assert_eq!(tag, helve::json::hex(expected.as_ref()));
    // The link: to the page, its code where no log sees it, and good once.
    let link = message["link"].as_str().unwrap();
    assert!(link.starts_with(&format!("https://helve.example.com/sign-in?next=/approvals/{id}#")), "{link}");
    let code = link.split_once('#').unwrap().1;
    let signed_in = api.sign_in(code).await;
    assert_eq!(signed_in.status, 200, "{signed_in:?}");
    assert_eq!(api.sign_in(code).await.status, 401, "a second time it is worth nothing");
    let approval = api.server.runtime.approvals().get(id.parse().unwrap()).await.unwrap().unwrap();
    assert_eq!(approval.state, ApprovalState::Pending, "signing in decides nothing");
    // With the cookie alone nothing is decided either: it takes the token against forged requests.
    let decision = json!({ "decision": "approve" }).to_string();
    let (session, place) = (cookie(&signed_in), place(&signed_in));
    let line = format!("POST {place}/v1/approvals/{id}/decision");
    let forged = api.server.send(&line, &[("authorization", "-"), ("cookie", &session)], &decision).await;
    assert_eq!(forged.status, 403, "{forged:?}");
    assert_eq!(api.ran(), 0);
    telling.abort();
    let csrf = signed_in.json()["csrf"].as_str().unwrap().to_owned();
    opens_its_own_question_only(&api, &id, &place, &session, &csrf).await;
}

/// The link lets a person see and decide its question, and nothing else.
async fn opens_its_own_question_only(api: &Api, id: &str, place: &str, session: &str, csrf: &str) {
    let other = api.question(8).await;
    let send = |line: String, body: Value| {
        let headers = [("authorization", "-"), ("cookie", session), ("x-helve-csrf", csrf)];
        async move { api.server.send(&line, &headers, &body.to_string()).await }
    };
    let get = |path: &str| send(format!("GET {place}{path}"), json!({}));
    assert_eq!(get("/v1/me").await.json()["roles"], json!(["approver"]), "it administers nothing");
    for path in
        ["/v1/approvals", "/v1/rules", "/v1/audit", "/v1/runs", "/v1/sessions", "/v1/events", "/metrics"]
    {
        assert_eq!(get(path).await.status, 401, "{path}");
    }
    for path in ["/history", "/live", "/rules"] {
        let reply = get(path).await;
        assert_eq!((reply.status, &*reply.headers["location"]), (303, &*format!("/sign-in?next={path}")));
    }
    assert_eq!(get(&format!("/v1/approvals/{other}")).await.status, 401);
    let approve = json!({ "decision": "approve" });
    let decided = send(format!("POST {place}/v1/approvals/{other}/decision"), approve.clone()).await;
    assert_eq!(decided.status, 401, "{decided:?}");
    for path in ["/", &format!("/approvals/{id}")] {
        let page = get(path).await;
        assert!(page.status == 200 && page.body.contains(id) && !page.body.contains(&other), "{path}");
        assert!(!page.body.contains("/history"), "there is nothing else to go to");
    }
    let always = json!({ "decision": "approve", "remember": {} });
    let more = send(format!("POST {place}/v1/approvals/{id}/decision"), always).await;
    assert_eq!(more.status, 403, "one question, and not the like of it: {more:?}");
    let decided = send(format!("POST {place}/v1/approvals/{id}/decision"), approve).await;
    assert_eq!(decided.status, 200, "{decided:?}");
    let by = decided.json()["ruling"]["by"].as_str().unwrap().to_owned();
    assert!(by.starts_with("link of the webhook"), "{by}");
    assert_eq!(decided.json()["id"], json!(id));
}

#[tokio::test]
async fn a_link_ends_with_its_question() {
    let api = api().await;
    let (_, grace) = api.key("grace", Purpose::Decide).await;
    let (denied, withdrawn) = (api.question(7).await, api.question(8).await);
    for id in [&denied, &withdrawn] {
        let only = |key: &mut Key| key.only = Some(id.parse().unwrap());
        let (_, first) = api.key_with("webhook for it", Purpose::SignIn, only).await;
        let (_, later) = api.key_with("webhook for it", Purpose::SignIn, only).await;
        assert_eq!(api.sign_in(&first).await.status, 200, "while it waits");
        let closed = match *id == denied {
            true => {
                let line = format!("POST /v1/approvals/{id}/decision");
                api.ask(&line, &grace, json!({ "decision": "deny" })).await
            }
            false => api.ask(&format!("DELETE /v1/approvals/{id}"), BOB, json!({})).await,
        };
        assert_eq!(closed.status, 200, "{closed:?}");
        let refused = api.sign_in(&later).await;
        assert!(refused.status == 401 && refused.body.contains("does not wait any more"), "{refused:?}");
        assert!(!refused.headers.contains_key("set-cookie"));
    }
}

#[test]
fn a_webhook_that_cannot_work_is_refused() {
    let client = || Client::new(NetPolicy::default()).unwrap();
    let config = |url: &str| WebhookConfig { url: Some(url.to_owned()), ..WebhookConfig::default() };
    assert!(Webhook::new(&WebhookConfig::default(), client(), "http://x").unwrap().is_none());
    assert!(Webhook::new(&config("ftp://example.com"), client(), "http://x").is_err());
    let unset =
        WebhookConfig { secret_env: Some("HELVE_TEST_NOT_SET".to_owned()), ..config("https://example.com") };
    assert!(Webhook::new(&unset, client(), "http://x").is_err());
}

#[tokio::test]
async fn an_agent_raises_events_over_http() {
    use crate::harness::ADA;
    let api = api().await;
    let event = json!({ "hook_event_name": "UserPromptSubmit", "session_id": "s-1", "prompt": "hello" });
    let reply = api.ask("POST /v1/hooks", ADA, event).await;
    assert_eq!(reply.status, 200, "{reply:?}");
    assert!(reply.json().is_object());
    let reply = api.ask("POST /v1/hooks", ADA, json!({ "prompt": "hello" })).await;
    assert_eq!(reply.status, 400, "{reply:?}");
}
