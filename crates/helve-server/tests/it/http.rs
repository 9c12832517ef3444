//! Streamable HTTP, said by hand.

use std::time::Duration;

use helve::approvals::{Decider, Decision, Vouch};
use helve::{ApprovalQuery, Layer};
use helve_mcp::server::ServerOptions;
use helve_server::ServerConfig;
use serde_json::{Value, json};

use crate::harness::{ADA, BOB, call, events, meta, request, serve, serve_with, tool};

fn stateless(id: i64, method: &str, mut params: Value, capabilities: Value) -> Value {
    params["_meta"] = meta(capabilities);
    request(id, method, params)
}

const V: (&str, &str) = ("mcp-protocol-version", "2026-07-28");
const M: (&str, &str) = ("mcp-method", "tools/call");

#[tokio::test]
async fn an_answer_without_a_stream_is_plain_json() {
    let server = serve().await;
    let session = server.session(ADA, json!({})).await;
    let reply =
        server.post(&[("mcp-session-id", &session)], &call(1, "echo", json!({ "message": "hi" }))).await;
    assert_eq!((reply.status, reply.headers["content-type"].as_str()), (200, "application/json"));
    assert_eq!(
        reply.json()["result"],
        json!({ "content": [{ "type": "text", "text": "hi" }], "isError": false })
    );
    // Without a token for it there is no progress to tell, so there is no stream either.
    let reply = server.post(&[("mcp-session-id", &session)], &call(2, "slow", json!({}))).await;
    assert_eq!(reply.headers["content-type"], "application/json");
}

#[tokio::test]
async fn progress_makes_a_stream_that_a_client_can_come_back_to() {
    let server = serve().await;
    let session = server.session(ADA, json!({})).await;
    let mut body = call(1, "slow", json!({}));
    body["params"]["_meta"] = json!({ "progressToken": "p" });
    let header = [("mcp-session-id", session.as_str())];
    let reply = server.post(&header, &body).await;
    assert_eq!(reply.headers["content-type"], "text/event-stream");
    let told = reply.events();
    assert_eq!(told.len(), 4, "{reply:?}");
    assert_eq!(
        told[0]["params"],
        json!({ "progressToken": "p", "progress": 1, "total": 3, "message": "step 1" })
    );
    assert_eq!(told[3]["result"]["structuredContent"], json!({ "slept": true }));
    let first_id = reply.body.lines().find_map(|line| line.strip_prefix("id: ")).unwrap();

    // The same stream again, from its first event on, although it has ended.
    let again = server.send("GET /mcp", &[header[0], ("last-event-id", first_id)], "").await;
    assert_eq!(again.events(), told);
    let gone = server.send("GET /mcp", &[header[0], ("last-event-id", "77-1")], "").await;
    assert_eq!(gone.status, 400);
}

#[tokio::test]
async fn a_client_that_goes_away_in_the_middle_comes_back_for_the_rest() {
    let server = serve().await;
    let session = server.session(ADA, json!({})).await;
    let mut body = call(1, "slow", json!({}));
    body["params"]["_meta"] = json!({ "progressToken": 7 });
    let header = ("mcp-session-id", session.as_str());
    let mut open = server.open("POST /mcp", &[header], &body.to_string()).await;
    let read = open.until("step 1").await.to_owned();
    drop(open);
    let id = read.lines().rev().find_map(|line| line.strip_prefix("id: ")).unwrap();
    let rest = server.send("GET /mcp", &[header, ("last-event-id", id)], "").await;
    assert!(rest.events().last().unwrap()["result"].is_object(), "{rest:?}");
}

#[tokio::test]
async fn a_question_is_put_on_the_stream_and_answered_by_a_post() {
    let server = serve().await;
    let session = server.session(ADA, json!({ "elicitation": {} })).await;
    let header = ("mcp-session-id", session.as_str());
    let mut open = server.open("POST /mcp", &[header], &call(1, "ask", json!({})).to_string()).await;
    let read = open.until("elicitation/create").await.to_owned();
    let read = if read.ends_with("\n\n") { read } else { open.until("requestedSchema").await.to_owned() };
    let line = read.lines().find(|line| line.contains("elicitation/create")).unwrap();
    let question: Value = serde_json::from_str(line.strip_prefix("data: ").unwrap()).unwrap();
    let answer = json!({ "jsonrpc": "2.0", "id": question["id"], "result": { "action": "accept", "content": { "name": "Ann" } } });
    assert_eq!(server.post(&[header], &answer).await.status, 202);
    open.until("Hello Ann").await;
}

#[tokio::test]
async fn a_call_is_taken_back() {
    let server = serve().await;
    let session = server.session(ADA, json!({})).await;
    let header = ("mcp-session-id", session.as_str());
    let mut body = call(5, "hang", json!({}));
    body["params"]["_meta"] = json!({ "progressToken": 1 });
    let mut open = server.open("POST /mcp", &[header], &body.to_string()).await;
    open.until("notifications/progress").await;
    let cancelled =
        json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": 5 } });
    assert_eq!(server.post(&[header], &cancelled).await.status, 202);
    // The stream ends without an answer.
    let read = open.until("0\r\n\r\n").await;
    assert!(!read.contains("\"result\"") && !read.contains("\"error\""), "{read}");
}

#[tokio::test]
async fn the_stateless_era_asks_in_its_answer_and_goes_on_with_the_next_call() {
    let server = serve().await;
    let name = ("mcp-name", "ask");
    let asking = |extra: Value| {
        let mut params = json!({ "name": "ask", "arguments": {} });
        params.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
        stateless(1, "tools/call", params, json!({ "elicitation": { "form": {} } }))
    };
    let first = server.post(&[V, M, name], &asking(json!({}))).await.json();
    assert_eq!(first["result"]["resultType"], "input_required", "{first}");
    let state = first["result"]["requestState"].clone();
    let key = first["result"]["inputRequests"].as_object().unwrap().keys().next().unwrap().clone();
    let answers = json!({ key: { "action": "accept", "content": { "name": "Ann" } } });

    // Neither somebody else nor another state gets to the call.
    let bob = format!("Bearer {BOB}");
    let wrong = asking(json!({ "requestState": state, "inputResponses": answers }));
    let refused = server.post(&[V, M, name, ("authorization", &bob)], &wrong).await;
    assert_eq!((refused.status, refused.json()["error"]["code"].clone()), (400, json!(-32602)));
    let forged =
        asking(json!({ "requestState": format!("{}x", state.as_str().unwrap()), "inputResponses": answers }));
    assert_eq!(server.post(&[V, M, name], &forged).await.status, 400);

    let second = server
        .post(&[V, M, name], &asking(json!({ "requestState": state, "inputResponses": answers })))
        .await;
    assert_eq!(second.json()["result"]["content"][0]["text"], "Hello Ann");
    // A state is good for one round.
    let again = server
        .post(&[V, M, name], &asking(json!({ "requestState": state, "inputResponses": answers })))
        .await;
    assert_eq!(again.status, 400);
}

#[tokio::test]
async fn changes_are_told_in_both_eras() {
    let server = serve().await;
    let session = server.session(ADA, json!({})).await;
    let mut general = server.open("GET /mcp", &[("mcp-session-id", &session)], "").await;
    general.until("data: ").await;
    let listen = stateless(
        9,
        "subscriptions/listen",
        json!({ "notifications": { "toolsListChanged": true } }),
        json!({}),
    );
    let mut listening =
        server.open("POST /mcp", &[V, ("mcp-method", "subscriptions/listen")], &listen.to_string()).await;
    listening.until("notifications/subscriptions/acknowledged").await;
    server.registry.register(Layer::Project, tool("another")).unwrap();
    general.until("notifications/tools/list_changed").await;
    let told = listening.until("notifications/tools/list_changed").await;
    assert!(told.contains(r#""io.modelcontextprotocol/subscriptionId":9"#), "{told}");
}

#[tokio::test]
async fn a_caller_sees_and_calls_only_what_it_may_use() {
    let server = serve().await;
    let (ada, bob) = (server.session(ADA, json!({})).await, server.session(BOB, json!({})).await);
    let bearer = format!("Bearer {BOB}");
    let as_bob = [("mcp-session-id", bob.as_str()), ("authorization", bearer.as_str())];
    let listed = |reply: Value| {
        reply["result"]["tools"].as_array().unwrap().iter().any(|tool| tool["name"] == "secret__echo")
    };
    let list = request(1, "tools/list", json!({}));
    assert!(listed(server.post(&[("mcp-session-id", &ada)], &list).await.json()));
    assert!(!listed(server.post(&as_bob, &list).await.json()));
    let secret = call(2, "secret__echo", json!({ "message": "hi" }));
    let unknown = call(3, "nothing", json!({}));
    for body in [secret, unknown] {
        assert_eq!(server.post(&as_bob, &body).await.json()["error"]["code"], -32602);
    }
}

#[tokio::test]
async fn errors_say_what_a_model_can_do() {
    let server = serve().await;
    let session = server.session(ADA, json!({})).await;
    let header = [("mcp-session-id", session.as_str())];
    let wrong = server.post(&header, &call(1, "echo", json!({}))).await.json();
    assert_eq!(wrong["result"]["isError"], true, "{wrong}");
    assert_eq!(wrong["result"]["_meta"]["helve/error"]["code"], "validation_failed");
    let pending = server.post(&header, &call(2, "risky", json!({}))).await.json();
    let said = &pending["result"]["_meta"]["helve/error"];
    assert_eq!(
        (&said["code"], &pending["result"]["isError"]),
        (&json!("approval_required"), &json!(true)),
        "{pending}"
    );
    assert!(said["approval_id"].is_string() && said["reasons"].is_array());

    // The same call runs once a person has approved it, and only once.
    let id = said["approval_id"].as_str().unwrap().parse().unwrap();
    let carol = Decider::vouched("carol", Vouch::LocalUser);
    server.runtime.approvals().decide(id, Decision::approve(), &carol).await.unwrap();
    let done = server.post(&header, &call(3, "risky", json!({}))).await.json();
    assert_eq!(done["result"]["content"][0]["text"], "done", "{done}");
    let again = server.post(&header, &call(4, "risky", json!({}))).await.json();
    assert_eq!(again["result"]["_meta"]["helve/error"]["code"], "approval_required", "{again}");
}

#[tokio::test]
async fn a_task_belongs_to_whoever_started_it() {
    let server = serve().await;
    let (ada, bob) = (server.session(ADA, json!({})).await, server.session(BOB, json!({})).await);
    let bearer = format!("Bearer {BOB}");
    let as_ada = [("mcp-session-id", ada.as_str())];
    let as_bob = [("mcp-session-id", bob.as_str()), ("authorization", bearer.as_str())];
    let mut body = call(1, "slow", json!({}));
    body["params"]["task"] = json!({ "ttl": 60_000 });
    let started = server.post(&as_ada, &body).await.json();
    let task = started["result"]["task"]["taskId"].clone();
    assert_eq!(started["result"]["task"]["status"], "working", "{started}");
    for method in ["tasks/get", "tasks/result", "tasks/cancel"] {
        let refused = server.post(&as_bob, &request(2, method, json!({ "taskId": task }))).await.json();
        assert_eq!(refused["error"]["code"], -32602, "{method}");
    }
    let others = server.post(&as_bob, &request(3, "tasks/list", json!({}))).await.json();
    assert_eq!(others["result"]["tasks"], json!([]));
    let ended = server.post(&as_ada, &request(4, "tasks/result", json!({ "taskId": task }))).await.json();
    assert_eq!(ended["result"]["structuredContent"], json!({ "slept": true }), "{ended}");
    assert_eq!(ended["result"]["_meta"]["io.modelcontextprotocol/related-task"]["taskId"], task);
    let status = server.post(&as_ada, &request(5, "tasks/get", json!({ "taskId": task }))).await.json();
    assert_eq!(status["result"]["status"], "completed");
    // What has ended cannot be taken back.
    let late = server.post(&as_ada, &request(6, "tasks/cancel", json!({ "taskId": task }))).await.json();
    assert_eq!(late["error"]["code"], -32602);
}

#[tokio::test]
async fn a_task_waits_for_a_person_and_goes_on_by_itself() {
    let server = serve().await;
    let session = server.session(ADA, json!({})).await;
    let header = [("mcp-session-id", session.as_str())];
    let mut body = call(1, "risky", json!({}));
    body["params"]["task"] = json!({ "ttl": 60_000 });
    let started = server.post(&header, &body).await.json();
    let task = started["result"]["task"]["taskId"].clone();
    let approvals = server.runtime.approvals();
    let asked = loop {
        if let Some(asked) = approvals.list(ApprovalQuery::default()).await.unwrap().pop() {
            break asked;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    };
    let carol = Decider::vouched("carol", Vouch::LocalUser);
    approvals.decide(asked.id, Decision::approve(), &carol).await.unwrap();
    let ended = server.post(&header, &request(2, "tasks/result", json!({ "taskId": task }))).await.json();
    assert_eq!(ended["result"]["content"][0]["text"], "done", "{ended}");
}

#[tokio::test]
async fn a_big_registry_is_searched_and_groups_are_listed() {
    let options = ServerOptions { list_max: 10, ..ServerOptions::default() };
    let server = serve_with(options, ServerConfig::default()).await;
    let many = (0..30).map(|number| tool(&format!("mail/send-{number}")));
    server.registry.register_many(Layer::Project, many).unwrap();
    let session = server.session(ADA, json!({})).await;
    let header = [("mcp-session-id", session.as_str())];
    let names = |reply: Value| -> Vec<String> {
        let tools = reply["result"]["tools"].as_array().unwrap().clone();
        tools.iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
    };
    let list = request(1, "tools/list", json!({}));
    assert_eq!(
        names(server.post(&header, &list).await.json()),
        ["search_tools", "describe_tool", "call_tool"]
    );
    let grouped = server.send("POST /mcp?groups=mail", &header, &list.to_string()).await.json();
    assert_eq!(names(grouped).len(), 33);
    let found = server.post(&header, &call(2, "search_tools", json!({ "query": "send-17" }))).await.json();
    assert_eq!(found["result"]["structuredContent"]["tools"][0]["name"], "mail__send-17");
    let described =
        server.post(&header, &call(3, "describe_tool", json!({ "name": "mail__send-17" }))).await.json();
    assert!(described["result"]["content"][0]["text"].as_str().unwrap().contains("inputSchema"));
    let inner = json!({ "name": "mail__send-17", "arguments": { "message": "hi" } });
    let called = server.post(&header, &call(4, "call_tool", inner)).await.json();
    assert_eq!(called["result"]["content"][0]["text"], "hi");
    // The three go the same way as everything else.
    let bob = server.session(BOB, json!({})).await;
    let bearer = format!("Bearer {BOB}");
    let as_bob = [("mcp-session-id", bob.as_str()), ("authorization", bearer.as_str())];
    let refused = server
        .post(
            &as_bob,
            &call(5, "call_tool", json!({ "name": "mail__send-17", "arguments": { "message": "hi" } })),
        )
        .await
        .json();
    assert!(refused["error"].is_object() || refused["result"]["isError"] == true, "{refused}");
}

#[tokio::test]
async fn a_silent_stream_shows_signs_of_life() {
    let config = ServerConfig { keep_alive: Duration::from_millis(20), ..ServerConfig::default() };
    let server = serve_with(ServerOptions::default(), config).await;
    let session = server.session(ADA, json!({})).await;
    let mut general = server.open("GET /mcp", &[("mcp-session-id", &session)], "").await;
    assert!(events(general.until(": keepalive").await).is_empty());
}
