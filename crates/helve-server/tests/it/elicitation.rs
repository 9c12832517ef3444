//! Clients that others wrote are led to the page on which people decide, and none of them decides.

use helve::approval::ApprovalQuery;
use helve::identity::Purpose;
use helve::{Approval, ApprovalState};
use serde_json::{Value, json};
use tokio::process::Command;

use crate::counterparts::{command, peers, printed, script};
use crate::harness::{ADA, BOB, call, events, meta};
use crate::identity::{Api, api};

/// A client of Bob's that calls the deed.
fn client(program: Command, url: &str, n: i64, says: &str) -> Command {
    let mut program = program;
    program.args([url, "deed", &json!({ "n": n }).to_string()]);
    program.env("MCP_TOKEN", BOB).env("MCP_PAGES", says);
    program
}

fn fastmcp(mode: &str) -> Command {
    let mut program = command(peers().join("python/bin/python"));
    program.arg(script("fastmcp_client.py")).env("MCP_MODE", mode);
    program
}

fn npm(client: &str) -> Command {
    let mut program = command(peers().join("bin/node"));
    program.arg(script(client));
    program
}

impl Api {
    /// The question that waits, once there is one.
    async fn pending(&self) -> Approval {
        let query = || {
            let mut query = ApprovalQuery::default();
            query.state = Some(ApprovalState::Pending);
            query
        };
        let found = async {
            loop {
                let found = self.server.runtime.approvals().list(query()).await.unwrap();
                if let Some(found) = found.into_iter().next() {
                    return found;
                }
                tokio::time::sleep(std::time::Duration::from_millis(20)).await;
            }
        };
        tokio::time::timeout(std::time::Duration::from_secs(60), found).await.expect("a question")
    }

    /// Lets a client call, has somebody decide over the HTTP API, and returns what the client printed.
    async fn decided(&self, mut client: Command, decider: &str, decision: Value) -> (Approval, Value) {
        let running = tokio::spawn(async move { printed(&mut client).await });
        let asked = self.pending().await;
        let line = format!("POST /v1/approvals/{}/decision", asked.id);
        let reply = self.ask(&line, decider, decision).await;
        assert_eq!(reply.status, 200, "{reply:?}");
        (asked, running.await.unwrap())
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn fastmcp_is_led_to_the_page_in_both_eras() {
    let api = api().await;
    let (_, carol) = api.key("carol", Purpose::Decide).await;
    let mut ran = 0;
    for (n, (mode, path)) in
        [("legacy", "/mcp"), ("2026-07-28", "/mcp"), ("legacy", "/mcp/sse")].into_iter().enumerate()
    {
        let n = i64::try_from(n).unwrap() * 10;
        let url = api.server.url(path);
        let approve = json!({ "decision": "approve" });
        let (asked, said) = api.decided(client(fastmcp(mode), &url, n, "accept"), &carol, approve).await;
        ran += 1;
        assert_eq!(said["result"]["structuredContent"], json!({ "did": n }), "{mode} {path}: {said}");
        let page = api.server.url(&format!("/approvals/{}", asked.id));
        assert_eq!(said["pages"], json!([page]), "{mode} {path}: its address and nothing else");
        assert_eq!(api.ran(), ran, "{mode} {path}: once");
        let deny = json!({ "decision": "deny", "reason": "not today" });
        let (_, said) = api.decided(client(fastmcp(mode), &url, n + 1, "accept"), &carol, deny).await;
        assert_eq!(said["result"]["_meta"]["helve/error"]["code"], "approval_denied", "{mode}: {said}");
        assert!(said["result"].to_string().contains("not today"), "{mode} {path}: {said}");
        assert_eq!(api.ran(), ran, "{mode} {path}: denied, it never runs");
        let said = printed(&mut client(fastmcp(mode), &url, n + 2, "decline")).await;
        assert_eq!(said["result"]["_meta"]["helve/error"]["code"], "approval_required", "{mode}: {said}");
        assert_eq!(api.ran(), ran, "{mode} {path}: declined, it waits");
        let caller = helve::Caller::principal("bob");
        api.server.runtime.approvals().withdraw(api.pending().await.id, &caller).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_npm_sdk_is_led_to_the_page_over_every_transport() {
    let api = api().await;
    let (_, carol) = api.key("carol", Purpose::Decide).await;
    for (n, (program, path)) in
        [("http_client.mjs", "/mcp"), ("sse_client.mjs", "/mcp/sse"), ("ws_client.mjs", "/mcp/ws")]
            .into_iter()
            .enumerate()
    {
        let mut url = api.server.url(path);
        if path.ends_with("ws") {
            url = url.replace("http:", "ws:");
        }
        let approve = json!({ "decision": "approve" });
        let called = client(npm(program), &url, i64::try_from(n).unwrap(), "accept");
        let (asked, said) = api.decided(called, &carol, approve).await;
        assert_eq!(said["result"]["structuredContent"], json!({ "did": n }), "{path}: {said}");
        assert_eq!(said["pages"], json!([api.server.url(&format!("/approvals/{}", asked.id))]), "{path}");
        assert_eq!(api.ran(), n + 1, "{path}: once");
    }
}

#[tokio::test]
async fn who_called_cannot_decide_at_the_page_that_it_was_led_to() {
    let api = api().await;
    let session = api.server.session(BOB, json!({ "elicitation": { "url": {} } })).await;
    let bob = format!("Bearer {BOB}");
    let headers = [("authorization", bob.as_str()), ("mcp-session-id", session.as_str())];
    let body = call(1, "deed", json!({ "n": 7 })).to_string();
    let mut open = api.server.open("POST /mcp", &headers, &body).await;
    let asked = open.until("elicitationId").await.to_owned();
    let asked = &events(&asked)[0];
    let url = asked["params"]["url"].as_str().unwrap().to_owned();
    let path = url.strip_prefix(&api.server.url("")).expect("our page").to_owned();
    let id = path.strip_prefix("/approvals/").expect("at the question").to_owned();
    // Without a secret the page leads to the sign-in, and the caller's own is none that signs in.
    let stranger = [("authorization", "-"), ("accept", "text/html")];
    let shown = api.server.send(&format!("GET {path}"), &stranger, "").await;
    assert_eq!((shown.status, &*shown.headers["location"]), (303, &*format!("/sign-in?next={path}")));
    assert_eq!(api.sign_in(BOB).await.status, 401);
    assert_ne!(api.get(&path, BOB).await.status, 200, "nor does it open the page");
    let approve = json!({ "decision": "approve" });
    for token in [BOB, ADA] {
        for line in [format!("POST /v1/approvals/{id}/decision"), format!("POST {path}/approve")] {
            let status = api.ask(&line, token, approve.clone()).await.status;
            // To the sign-in, or nowhere.
            assert!(matches!(status, 303 | 403 | 404 | 405), "{line}: {status}");
        }
    }
    // What its client answers decides nothing either, whatever it says.
    let content = json!({ "approved": true, "decision": "approve" });
    let answer =
        json!({ "jsonrpc": "2.0", "id": asked["id"], "result": { "action": "accept", "content": content } });
    assert_eq!(api.server.post(&headers, &answer).await.status, 202);
    // Later requests are served, so the answer has arrived by now.
    let later = call(2, "deed", json!({ "n": 8 })).to_string();
    api.server.open("POST /mcp", &headers, &later).await.until("elicitationId").await;
    let found = api.server.runtime.approvals().get(id.parse().unwrap()).await.unwrap().unwrap();
    assert_eq!((found.state, api.ran()), (ApprovalState::Pending, 0));
    let (_, carol) = api.key("carol", Purpose::Decide).await;
    let line = format!("POST /v1/approvals/{id}/decision");
    assert_eq!(api.ask(&line, &carol, approve).await.status, 200);
    let said = open.until("structuredContent").await;
    assert!(said.contains(r#""did":7"#) && said.contains("notifications/elicitation/complete"), "{said}");
    assert_eq!(api.ran(), 1);
}

#[tokio::test]
async fn arguments_cannot_be_swapped_while_a_request_waits() {
    let api = api().await;
    let able = meta(json!({ "elicitation": { "url": {} } }));
    let mut first = call(1, "deed", json!({ "n": 7 }));
    first["params"]["_meta"] = able.clone();
    let bob = format!("Bearer {BOB}");
    let headers = [
        ("authorization", bob.as_str()),
        ("mcp-protocol-version", "2026-07-28"),
        ("mcp-method", "tools/call"),
        ("mcp-name", "deed"),
    ];
    let asked = api.server.post(&headers, &first).await.json();
    assert_eq!(asked["result"]["resultType"], "input_required", "{asked}");
    let (key, question) = asked["result"]["inputRequests"].as_object().unwrap().iter().next().unwrap();
    assert_eq!(question["params"]["mode"], "url", "{asked}");
    let id = question["params"]["elicitationId"].as_str().unwrap().to_owned();
    let (_, carol) = api.key("carol", Purpose::Decide).await;
    let line = format!("POST /v1/approvals/{id}/decision");
    assert_eq!(api.ask(&line, &carol, json!({ "decision": "approve" })).await.status, 200);
    let mut again = call(2, "deed", json!({ "n": 8 }));
    again["params"]["_meta"] = able;
    again["params"]["requestState"] = asked["result"]["requestState"].clone();
    again["params"]["inputResponses"] = json!({ key: { "action": "accept" } });
    // Another caller's state is nobody's.
    let ada = format!("Bearer {ADA}");
    let mut stolen = headers;
    stolen[0] = ("authorization", ada.as_str());
    assert_eq!(api.server.post(&stolen, &again).await.status, 400);
    assert_eq!(api.ran(), 0);
    let done = api.server.post(&headers, &again).await.json();
    assert_eq!(done["result"]["structuredContent"], json!({ "did": 7 }), "what was approved: {done}");
    assert_eq!(api.ran(), 1);
}
