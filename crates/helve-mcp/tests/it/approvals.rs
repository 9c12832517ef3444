//! A call that needs an approval, with rmcp's client at the other end: it is asked to open a page, never
//! to decide.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use helve::approvals::{Decider, Decision, Vouch};
use helve::compose::{Step, sequence};
use helve::{ApprovalId, ApprovalState, Caller, Runtime, Tool};
use helve_mcp::server::{McpServer, RuntimeBackend, ServerOptions};
use helve_net::Url;
use rmcp::model::{
    CallToolRequestParams, CallToolResult, ClientConfig, CustomNotification, ElicitRequestParams,
    ElicitResult, ElicitationAction,
};
use rmcp::service::{
    ClientLifecycleMode, ClientServiceExt, NotificationContext, RequestContext, RunningService,
};
use rmcp::{ClientHandler, ErrorData, RoleClient};
use serde_json::{Value, json};

use crate::plain::LONG;
use crate::server_stdio::connect_to;

const PAGE: &str = "http://127.0.0.1:7777";

/// A client that says the same to every question, and remembers all that it was asked and told.
#[derive(Clone)]
struct Visitor {
    can: Value,
    version: &'static str,
    says: ElicitationAction,
    asked: Arc<Mutex<Vec<ElicitRequestParams>>>,
    told: Arc<Mutex<Vec<(String, Value)>>>,
}

impl ClientHandler for Visitor {
    fn get_info(&self) -> ClientConfig {
        serde_json::from_value(json!({
            "protocolVersion": self.version,
            "capabilities": { "elicitation": self.can },
            "clientInfo": { "name": "visitor", "version": "1" },
        }))
        .unwrap()
    }

    async fn create_elicitation(
        &self,
        request: ElicitRequestParams,
        _context: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        self.asked.lock().unwrap().push(request);
        Ok(ElicitResult::new(self.says.clone()))
    }

    async fn on_custom_notification(
        &self,
        notification: CustomNotification,
        _context: NotificationContext<RoleClient>,
    ) {
        let CustomNotification { method, params, .. } = notification;
        self.told.lock().unwrap().push((method, params.unwrap_or_default()));
    }
}

struct Bench {
    runtime: Runtime,
    ran: Arc<AtomicUsize>,
    visitor: Visitor,
    client: Arc<RunningService<RoleClient, Visitor>>,
}

fn deed(name: &str, ran: &Arc<AtomicUsize>) -> Tool {
    let ran = Arc::clone(ran);
    Tool::builder(name)
        .description("Does something that stays.")
        .input_schema(json!({ "type": "object", "properties": { "n": { "type": "integer" } } }))
        .requires_approval()
        .handler(move |arguments: Value, _| {
            ran.fetch_add(1, Ordering::SeqCst);
            async move { Ok(json!({ "did": arguments["n"] })) }
        })
        .build()
        .unwrap()
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Era {
    Session,
    Stateless,
}

/// A server with the deed, and one that does it twice.
fn serve(ran: &Arc<AtomicUsize>, options: ServerOptions) -> (Runtime, McpServer) {
    let runtime = Runtime::builder().tool(deed("deed", ran)).unwrap().build();
    let step = |n: i64| Step::call(format!("step{n}"), "deed").arguments(json!({ "n": n }));
    let both = sequence("both").description("Does it twice.").step(step(1)).step(step(2));
    let both = both.build(runtime.registry()).unwrap();
    runtime.registry().register(helve::Layer::Project, both).unwrap();
    let server = McpServer::new(Arc::new(RuntimeBackend::new(runtime.clone())), options);
    server.set_page(Url::parse(PAGE).unwrap());
    (runtime, server)
}

async fn bench(era: Era, can: Value, says: ElicitationAction, options: ServerOptions) -> Bench {
    let ran = Arc::new(AtomicUsize::new(0));
    let (runtime, server) = serve(&ran, options);
    let (ours, theirs) = tokio::io::duplex(64 << 10);
    let (input, output) = tokio::io::split(theirs);
    tokio::spawn(async move { server.serve(input, output, Caller::principal("bot")).await });
    let version = match era {
        Era::Session => "2025-11-25",
        Era::Stateless => "2026-07-28",
    };
    let visitor = Visitor { can, version, says, asked: Arc::default(), told: Arc::default() };
    let lifecycle = match era {
        Era::Session => ClientLifecycleMode::Initialize,
        Era::Stateless => ClientLifecycleMode::Discover {
            preferred_versions: vec![serde_json::from_value(json!(version)).unwrap()],
        },
    };
    let client = visitor.clone().serve_with_lifecycle(ours, lifecycle).await.unwrap();
    Bench { runtime, ran, visitor, client: Arc::new(client) }
}

impl Bench {
    async fn call(&self, tool: &str, arguments: Value) -> CallToolResult {
        call(&self.client, tool, arguments).await
    }

    /// The addresses that the client was asked to open.
    fn pages(&self) -> Vec<String> {
        let url = |asked: &ElicitRequestParams| match asked {
            ElicitRequestParams::UrlElicitationParams { url, .. } => url.clone(),
            other => panic!("asked something else: {other:?}"),
        };
        self.visitor.asked.lock().unwrap().iter().map(url).collect()
    }

    /// Waits until the client was asked so often, and says which question it was.
    async fn question(&self, number: usize) -> ApprovalId {
        let asked = async {
            while self.pages().len() < number {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(LONG, asked).await.expect("the client is asked");
        let page = self.pages()[number - 1].clone();
        let id = page.strip_prefix(&format!("{PAGE}/approvals/"));
        id.unwrap_or_else(|| panic!("only the page's address, and the question: {page}")).parse().unwrap()
    }

    async fn decide(&self, id: ApprovalId, decision: Decision) {
        let carol = Decider::vouched("carol", Vouch::LocalUser);
        self.runtime.approvals().decide(id, decision, &carol).await.unwrap();
    }

    async fn state(&self, id: ApprovalId) -> ApprovalState {
        self.runtime.approvals().get(id).await.unwrap().unwrap().state
    }

    fn ran(&self) -> usize {
        self.ran.load(Ordering::SeqCst)
    }

    /// The questions that the client was told to be over.
    fn complete(&self) -> Vec<String> {
        let told = self.visitor.told.lock().unwrap();
        let complete = told.iter().filter(|(method, _)| method == "notifications/elicitation/complete");
        complete.map(|(_, params)| params["elicitationId"].as_str().unwrap().to_owned()).collect()
    }
}

async fn call(client: &RunningService<RoleClient, Visitor>, tool: &str, arguments: Value) -> CallToolResult {
    let params = json!({ "name": tool, "arguments": arguments });
    let params: CallToolRequestParams = serde_json::from_value(params).unwrap();
    tokio::time::timeout(LONG, client.call_tool(params)).await.expect("an answer in time").unwrap()
}

fn structured(result: &CallToolResult) -> Value {
    result.structured_content.clone().unwrap_or_default()
}

/// What programs read about a failure.
fn failure(result: &CallToolResult) -> Value {
    serde_json::to_value(result).unwrap()["_meta"]["helve/error"].clone()
}

const ERAS: [Era; 2] = [Era::Session, Era::Stateless];

fn urls() -> Value {
    json!({ "url": {} })
}

#[tokio::test]
async fn opened_and_approved_it_runs_once_in_the_same_call() {
    for era in ERAS {
        let bench = bench(era, urls(), ElicitationAction::Accept, ServerOptions::default()).await;
        let client = Arc::clone(&bench.client);
        let calling = tokio::spawn(async move { call(&client, "deed", json!({ "n": 7 })).await });
        let id = bench.question(1).await;
        assert_eq!((bench.state(id).await, bench.ran()), (ApprovalState::Pending, 0), "{era:?}");
        bench.decide(id, Decision::approve()).await;
        let result = calling.await.unwrap();
        assert_eq!(structured(&result), json!({ "did": 7 }), "{era:?}: {result:?}");
        assert_eq!((bench.state(id).await, bench.ran()), (ApprovalState::Used, 1), "{era:?}");
        assert_eq!(bench.pages().len(), 1, "{era:?}");
        match era {
            Era::Session => assert_eq!(bench.complete(), [id.to_string()]),
            Era::Stateless => assert_eq!(bench.complete(), [""; 0], "this era has no such message"),
        }
    }
}

#[tokio::test]
async fn opened_and_denied_it_never_runs_and_says_why() {
    for era in ERAS {
        let bench = bench(era, urls(), ElicitationAction::Accept, ServerOptions::default()).await;
        let client = Arc::clone(&bench.client);
        let calling = tokio::spawn(async move { call(&client, "deed", json!({ "n": 7 })).await });
        let id = bench.question(1).await;
        bench.decide(id, Decision::deny("not on a Monday")).await;
        let result = calling.await.unwrap();
        assert_eq!(result.is_error, Some(true), "{era:?}");
        let error = &failure(&result);
        assert_eq!(error["code"], "approval_denied", "{era:?}: {error}");
        assert!(error["message"].as_str().unwrap().contains("not on a Monday"), "{era:?}: {error}");
        assert_eq!(bench.ran(), 0, "{era:?}");
    }
}

#[tokio::test]
async fn a_person_can_change_what_runs() {
    let bench = bench(Era::Session, urls(), ElicitationAction::Accept, ServerOptions::default()).await;
    let client = Arc::clone(&bench.client);
    let calling = tokio::spawn(async move { call(&client, "deed", json!({ "n": 7 })).await });
    let id = bench.question(1).await;
    let edited = Decision::Approve { edited: Some(json!({ "n": 8 })), remember: None, reason: None };
    bench.decide(id, edited).await;
    assert_eq!(structured(&calling.await.unwrap()), json!({ "did": 8 }));
}

#[tokio::test]
async fn declined_it_is_told_that_it_waits_and_the_question_stands() {
    for era in ERAS {
        for says in [ElicitationAction::Decline, ElicitationAction::Cancel] {
            let bench = bench(era, urls(), says.clone(), ServerOptions::default()).await;
            let result = bench.call("deed", json!({ "n": 7 })).await;
            let told = failure(&result);
            assert_eq!(told["code"], "approval_required", "{era:?} {says:?}: {told}");
            let id = bench.question(1).await;
            assert_eq!(told["approval_id"], id.to_string());
            assert_eq!((bench.state(id).await, bench.ran()), (ApprovalState::Pending, 0));
            assert_eq!(bench.complete(), [""; 0], "nothing is over");
            // Somebody may still decide, and then the same call runs.
            bench.decide(id, Decision::approve()).await;
            assert_eq!(structured(&bench.call("deed", json!({ "n": 7 })).await), json!({ "did": 7 }));
            assert_eq!((bench.pages().len(), bench.ran()), (1, 1));
        }
    }
}

#[tokio::test]
async fn nobody_is_shown_a_form() {
    for era in ERAS {
        // Before there were pages an empty object meant forms.
        for can in [json!({ "form": {} }), json!({}), Value::Null] {
            let bench = bench(era, can.clone(), ElicitationAction::Accept, ServerOptions::default()).await;
            let told = failure(&bench.call("deed", json!({ "n": 7 })).await);
            assert_eq!(told["code"], "approval_required", "{era:?} {can}: {told}");
            assert_eq!((bench.visitor.asked.lock().unwrap().len(), bench.ran()), (0, 0), "{era:?} {can}");
        }
    }
}

#[tokio::test]
async fn nobody_waits_for_ever() {
    let options = ServerOptions { approval_wait: Duration::from_millis(50), ..ServerOptions::default() };
    for era in ERAS {
        let bench = bench(era, urls(), ElicitationAction::Accept, options.clone()).await;
        let told = failure(&bench.call("deed", json!({ "n": 7 })).await);
        assert_eq!(told["code"], "approval_required", "{era:?}: {told}");
        let id = bench.question(1).await;
        assert_eq!((bench.state(id).await, bench.ran()), (ApprovalState::Pending, 0));
    }
}

#[tokio::test]
async fn every_part_of_a_run_is_asked_for_in_turn() {
    for era in ERAS {
        let bench = bench(era, urls(), ElicitationAction::Accept, ServerOptions::default()).await;
        let client = Arc::clone(&bench.client);
        let calling = tokio::spawn(async move { call(&client, "both", json!({})).await });
        for number in 1..=2 {
            let id = bench.question(number).await;
            assert_eq!(bench.ran(), number - 1, "{era:?}");
            bench.decide(id, Decision::approve()).await;
        }
        let result = calling.await.unwrap();
        assert_ne!(result.is_error, Some(true), "{era:?}: {result:?}");
        assert_eq!(bench.ran(), 2, "{era:?}");
    }
}

/// The question in a message, and what approves it.
async fn approve(runtime: &Runtime, asked: &Value) {
    let id: ApprovalId = asked["params"]["elicitationId"].as_str().unwrap().parse().unwrap();
    assert_eq!(asked["params"]["url"], format!("{PAGE}/approvals/{id}"), "{asked}");
    let carol = Decider::vouched("carol", Vouch::LocalUser);
    runtime.approvals().decide(id, Decision::approve(), &carol).await.unwrap();
}

#[tokio::test]
async fn a_task_of_the_session_era_is_led_to_the_page_too() {
    let ran = Arc::new(AtomicUsize::new(0));
    let (runtime, server) = serve(&ran, ServerOptions::default());
    let (mut client, _served) = connect_to(server);
    client.initialize(json!({ "elicitation": { "url": {} } })).await;
    let params = json!({ "name": "deed", "arguments": { "n": 7 }, "task": {} });
    client.send(json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params })).await;
    let begun = client.hear().await["result"]["task"]["taskId"].clone();
    let asked = client.hear().await;
    assert_eq!(asked["method"], "elicitation/create", "{asked}");
    assert_eq!(asked["params"]["_meta"]["io.modelcontextprotocol/related-task"]["taskId"], begun, "{asked}");
    client.send(json!({ "jsonrpc": "2.0", "id": asked["id"], "result": { "action": "accept" } })).await;
    assert_eq!(ran.load(Ordering::SeqCst), 0);
    approve(&runtime, &asked).await;
    let complete = client.hear().await;
    assert_eq!(complete["method"], "notifications/elicitation/complete", "{complete}");
    let ended = client.hear().await;
    assert_eq!(
        (&ended["params"]["taskId"], &ended["params"]["status"]),
        (&begun, &json!("completed")),
        "{ended}"
    );
    let result =
        json!({ "jsonrpc": "2.0", "id": 2, "method": "tasks/result", "params": { "taskId": begun } });
    client.send(result).await;
    let result = client.hear().await;
    assert_eq!(result["result"]["structuredContent"], json!({ "did": 7 }), "{result}");
    assert_eq!(ran.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn in_the_stateless_era_a_call_that_waits_long_becomes_a_task() {
    let ran = Arc::new(AtomicUsize::new(0));
    let options = ServerOptions { task_after: Duration::from_millis(20), ..ServerOptions::default() };
    let (runtime, server) = serve(&ran, options);
    let (mut client, _served) = connect_to(server);
    let able = json!({ "elicitation": { "url": {} }, "extensions": { "io.modelcontextprotocol/tasks": {} } });
    let about = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": able,
    });
    let mut params = json!({ "name": "deed", "arguments": { "n": 7 }, "_meta": about });
    client.send(json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params })).await;
    let asked = client.hear().await["result"].clone();
    let (key, question) = asked["inputRequests"].as_object().unwrap().iter().next().unwrap();
    params["requestState"] = asked["requestState"].clone();
    params["inputResponses"] = json!({ key: { "action": "accept" } });
    client.send(json!({ "jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": params })).await;
    let task = client.hear().await["result"].clone();
    assert_eq!((&task["resultType"], &task["status"]), (&json!("task"), &json!("working")), "{task}");
    assert_eq!(ran.load(Ordering::SeqCst), 0);
    approve(&runtime, question).await;
    let ended = async {
        for id in 3.. {
            let params = json!({ "taskId": task["taskId"], "_meta": about });
            client.send(json!({ "jsonrpc": "2.0", "id": id, "method": "tasks/get", "params": params })).await;
            let found = client.hear().await["result"].clone();
            if found["status"] == "completed" {
                return found;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        unreachable!("it is asked until it ends")
    };
    let found = tokio::time::timeout(LONG, ended).await.unwrap();
    assert_eq!(found["result"]["structuredContent"], json!({ "did": 7 }), "{found}");
    assert_eq!(ran.load(Ordering::SeqCst), 1);
}
