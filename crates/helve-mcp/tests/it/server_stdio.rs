//! The server over a pair of streams.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use helve::ports::Question;
use helve::{BoxFuture, Caller, Context, Handler, Runtime, Tool, ToolError};
use helve_mcp::message::raw;
use helve_mcp::server::McpServer;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream, Lines, ReadHalf, WriteHalf};
use tokio::sync::{mpsc, oneshot};

pub(crate) struct Client {
    read: Lines<BufReader<ReadHalf<DuplexStream>>>,
    write: WriteHalf<DuplexStream>,
}

fn tool(name: &str) -> helve::ToolBuilder {
    Tool::builder(name).description("A tool.").read_only().input_schema(json!({ "type": "object" }))
}

fn connect() -> (Client, tokio::task::JoinHandle<std::io::Result<()>>) {
    let ask = tool("ask").handler(|_, context: Context| async move {
        let client = context.client().ok_or_else(|| ToolError::failed("nobody to ask"))?.clone();
        let answer = client.ask(Question::Sample, raw(&json!({ "messages": [], "maxTokens": 1 }))).await;
        let answer = answer.map_err(|error| ToolError::failed(error.message))?;
        Ok(serde_json::from_str(answer.get()).unwrap())
    });
    let hang = tool("hang").handler(|_, context: Context| async move {
        context.cancelled().await;
        Err(ToolError::failed("taken back"))
    });
    let wait = tool("wait").handler(|_, _| async {
        tokio::time::sleep(Duration::from_millis(100)).await;
        Ok(json!("waited"))
    });
    let runtime = Runtime::builder().tool(ask).unwrap().tool(hang).unwrap().tool(wait).unwrap().build();
    connect_to(McpServer::from_runtime(runtime))
}

pub(crate) fn connect_to(server: McpServer) -> (Client, tokio::task::JoinHandle<std::io::Result<()>>) {
    connect_as(server, Caller::clone(&Caller::local()))
}

fn connect_as(server: McpServer, caller: Caller) -> (Client, tokio::task::JoinHandle<std::io::Result<()>>) {
    let (ours, theirs) = tokio::io::duplex(64 << 10);
    let (input, output) = tokio::io::split(theirs);
    let served = tokio::spawn(async move { server.serve(input, output, caller).await });
    let (read, write) = tokio::io::split(ours);
    (Client { read: BufReader::new(read).lines(), write }, served)
}

impl Client {
    async fn say(&mut self, line: &str) {
        self.write.write_all(line.as_bytes()).await.unwrap();
        self.write.write_all(b"\n").await.unwrap();
    }

    pub(crate) async fn send(&mut self, message: Value) {
        self.say(&message.to_string()).await;
    }

    pub(crate) async fn hear(&mut self) -> Value {
        let line = tokio::time::timeout(Duration::from_secs(20), self.read.next_line()).await;
        serde_json::from_str(&line.expect("an answer in time").unwrap().expect("not the end")).unwrap()
    }

    pub(crate) async fn initialize(&mut self, capabilities: Value) -> Value {
        let params = json!({ "protocolVersion": "2024-11-05", "capabilities": capabilities, "clientInfo": { "name": "t", "version": "1" } });
        self.send(json!({ "jsonrpc": "2.0", "id": "i", "method": "initialize", "params": params })).await;
        self.hear().await
    }
}

fn call(id: i64, tool: &str) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": { "name": tool } })
}

#[tokio::test]
async fn a_session_from_its_beginning_to_its_end() {
    let (mut client, served) = connect();
    client.send(call(1, "wait")).await;
    assert_eq!(client.hear().await["error"]["code"], -32600, "`initialize` must come first");
    let greeting = client.initialize(json!({})).await;
    assert_eq!(greeting["result"]["protocolVersion"], "2024-11-05");
    client.send(json!({ "jsonrpc": "2.0", "method": "notifications/initialized" })).await;
    // Requests run side by side: the second is answered first.
    client.send(call(1, "wait")).await;
    client.send(json!({ "jsonrpc": "2.0", "id": 2, "method": "ping" })).await;
    assert_eq!(client.hear().await["id"], 2);
    assert_eq!(client.hear().await["result"]["content"][0]["text"], "waited");
    // What was asked before the input ended is answered after.
    client.send(call(3, "wait")).await;
    client.write.shutdown().await.unwrap();
    assert_eq!(client.hear().await["id"], 3);
    served.await.unwrap().unwrap();
}

#[tokio::test]
async fn a_client_is_told_when_its_task_ends() {
    let (mut client, _served) = connect();
    client.initialize(json!({})).await;
    let as_task = |id: i64, tool: &str| {
        let mut call = call(id, tool);
        call["params"]["task"] = json!({});
        call
    };
    client.send(as_task(1, "wait")).await;
    let begun = client.hear().await["result"]["task"].clone();
    assert_eq!(begun["status"], "working");
    let told = client.hear().await;
    assert_eq!(told["method"], "notifications/tasks/status", "{told}");
    let of = |task: &Value| (task["taskId"].clone(), task["status"].clone());
    assert_eq!(of(&told["params"]), (begun["taskId"].clone(), json!("completed")), "{told}");
    client.send(as_task(2, "hang")).await;
    let begun = client.hear().await["result"]["task"].clone();
    let cancel = json!({ "jsonrpc": "2.0", "id": 3, "method": "tasks/cancel", "params": { "taskId": begun["taskId"] } });
    client.send(cancel).await;
    let (told, answered) = (client.hear().await, client.hear().await);
    assert_eq!(of(&told["params"]), (begun["taskId"].clone(), json!("cancelled")), "{told}");
    assert_eq!(answered["result"]["status"], "cancelled", "{answered}");
    // Once: that it then ended as well is no news.
    client.send(json!({ "jsonrpc": "2.0", "id": 4, "method": "ping" })).await;
    assert_eq!(client.hear().await["id"], 4);
}

#[tokio::test]
async fn the_server_asks_and_takes_its_question_back() {
    let (mut client, _served) = connect();
    client.initialize(json!({ "sampling": {} })).await;
    client.send(call(1, "ask")).await;
    let question = client.hear().await;
    assert_eq!(question["method"], "sampling/createMessage");
    client.send(json!({ "jsonrpc": "2.0", "id": question["id"], "result": { "said": "hello" } })).await;
    assert_eq!(client.hear().await["result"]["structuredContent"], json!({ "said": "hello" }));
    client.send(call(2, "ask")).await;
    let question = client.hear().await;
    client
        .send(json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": 2 } }))
        .await;
    let taken_back = client.hear().await;
    assert_eq!(taken_back["method"], "notifications/cancelled");
    assert_eq!(taken_back["params"]["requestId"], question["id"]);
}

#[tokio::test]
async fn both_eras_on_one_connection() {
    let (mut client, _served) = connect();
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": { "sampling": {} },
    });
    let discover =
        json!({ "jsonrpc": "2.0", "id": 1, "method": "server/discover", "params": { "_meta": meta } });
    client.send(discover).await;
    assert_eq!(client.hear().await["result"]["supportedVersions"], json!(["2026-07-28"]));
    let mut body = call(2, "ask");
    body["params"]["_meta"] = meta;
    client.send(body.clone()).await;
    let asked = client.hear().await;
    assert_eq!(asked["result"]["resultType"], "input_required");
    let key = asked["result"]["inputRequests"].as_object().unwrap().keys().next().unwrap().clone();
    body["params"]["requestState"] = asked["result"]["requestState"].clone();
    body["params"]["inputResponses"] =
        json!({ key: { "role": "assistant", "content": { "type": "text", "text": "hi" }, "model": "m" } });
    client.send(body).await;
    assert_eq!(client.hear().await["result"]["structuredContent"]["model"], "m");
    client.initialize(json!({})).await;
    client.send(call(3, "wait")).await;
    assert_eq!(client.hear().await["id"], 3);
}

/// Asks its client, and meanwhile answers every connection, all of it in its caller's task.
struct Attentive(Mutex<Option<mpsc::Receiver<oneshot::Sender<()>>>>);

impl Handler for Attentive {
    fn call(&self, _: Value, context: Context) -> BoxFuture<'static, Result<Value, ToolError>> {
        let mut door = self.0.lock().unwrap().take().unwrap();
        Box::pin(async move {
            let client = context.client().unwrap().clone();
            let mut answer = client.ask(Question::Sample, raw(&json!({ "messages": [], "maxTokens": 1 })));
            loop {
                tokio::select! {
                    answer = &mut answer => return Ok(json!({ "is_answered": answer.is_ok() })),
                    Some(knock) = door.recv() => knock.send(()).unwrap(),
                }
            }
        })
    }

    fn is_instant(&self) -> bool {
        true
    }

    fn is_light(&self) -> bool {
        true
    }
}

#[tokio::test]
async fn a_tool_goes_on_while_its_client_thinks_about_a_question() {
    let (knock, door) = mpsc::channel(1);
    let attentive = tool("attentive").shared_handler(Arc::new(Attentive(Mutex::new(Some(door)))));
    let runtime = Runtime::builder().tool(attentive).unwrap().build();
    let (mut client, _served) = connect_to(McpServer::from_runtime(runtime));
    let mut body = call(1, "attentive");
    body["params"]["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": { "sampling": {} },
    });
    client.send(body.clone()).await;
    let asked = client.hear().await;
    let (opened, is_open) = oneshot::channel();
    knock.send(opened).await.unwrap();
    tokio::time::timeout(Duration::from_secs(30), is_open).await.expect("somebody opens").unwrap();
    let key = asked["result"]["inputRequests"].as_object().unwrap().keys().next().unwrap().clone();
    body["params"]["requestState"] = asked["result"]["requestState"].clone();
    body["params"]["inputResponses"] =
        json!({ key: { "role": "assistant", "content": { "type": "text", "text": "hi" }, "model": "m" } });
    client.send(body).await;
    assert_eq!(client.hear().await["result"]["structuredContent"], json!({ "is_answered": true }));
}

#[tokio::test]
async fn noise_is_answered_and_does_not_end_the_session() {
    let (mut client, _served) = connect();
    assert_eq!(client.initialize(json!([{}])).await["error"]["code"], -32602);
    client.initialize(json!({})).await;
    for (noise, code) in [
        ("not json", -32700),
        ("[]", -32600),
        ("{}", -32600),
        (r#"{"jsonrpc":"2.0","id":[],"method":"x"}"#, -32600),
    ] {
        client.say(noise).await;
        let refused = client.hear().await;
        assert_eq!((&refused["id"], &refused["error"]["code"]), (&Value::Null, &json!(code)), "{noise}");
    }
    for params in [json!([1]), json!(["a", "b"]), json!("x"), Value::Null] {
        client.send(json!({ "jsonrpc": "2.0", "id": 4, "method": "tools/list", "params": params })).await;
        let refused = client.hear().await;
        let expected = json!({ "code": -32602, "message": "invalid params: they must be a JSON object" });
        assert_eq!(refused["error"], expected, "{params}");
    }
    client.say("").await;
    client.send(json!({ "jsonrpc": "2.0", "id": 5, "method": "no/such" })).await;
    assert_eq!(client.hear().await["error"]["code"], -32601);
    let endless = format!(r#"{{"jsonrpc":"2.0","id":6,"method":"{}"}}"#, "x".repeat(17 << 20));
    client.say(&endless).await;
    assert_eq!(client.hear().await["error"]["code"], -32600);
    client.send(json!({ "jsonrpc": "2.0", "id": 7, "method": "ping" })).await;
    assert_eq!(client.hear().await["id"], 7);
}

#[tokio::test]
async fn a_call_that_was_taken_back_is_not_answered() {
    let (mut client, _served) = connect();
    client.initialize(json!({})).await;
    client.send(call(1, "hang")).await;
    client
        .send(json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": 1 } }))
        .await;
    client.send(call(2, "wait")).await;
    assert_eq!(client.hear().await["id"], 2);
    let quiet = tokio::time::timeout(Duration::from_millis(300), client.read.next_line()).await;
    assert!(quiet.is_err(), "{quiet:?}");
}

#[tokio::test]
async fn clients_without_a_name_have_no_tasks_of_each_other() {
    let hang = tool("hang").handler(|_, context: Context| async move {
        context.cancelled().await;
        Err(ToolError::failed("taken back"))
    });
    let server = McpServer::from_runtime(Runtime::builder().tool(hang).unwrap().build());
    let (mut one, _one) = connect_as(server.clone(), Caller::anonymous());
    let (mut other, _other) = connect_as(server, Caller::anonymous());
    for client in [&mut one, &mut other] {
        client.initialize(json!({})).await;
    }
    let mut begin = call(1, "hang");
    begin["params"]["task"] = json!({});
    one.send(begin).await;
    let task = one.hear().await["result"]["task"]["taskId"].clone();
    let about =
        |method: &str| json!({ "jsonrpc": "2.0", "id": 2, "method": method, "params": { "taskId": task } });
    for method in ["tasks/get", "tasks/cancel", "tasks/result"] {
        other.send(about(method)).await;
        assert_eq!(other.hear().await["error"]["code"], -32602, "{method}");
    }
    other.send(about("tasks/list")).await;
    assert_eq!(other.hear().await["result"]["tasks"], json!([]));
    one.send(about("tasks/list")).await;
    assert_eq!(one.hear().await["result"]["tasks"][0]["status"], "working");
}

#[tokio::test]
async fn a_client_that_reads_slowly_hears_of_changes_later() {
    let runtime = Runtime::builder().build();
    let (link, mut waiting) = McpServer::from_runtime(runtime.clone()).link(Caller::local());
    let change = |name: &str| {
        let tool = tool(name).handler(|_, _| async { Ok(json!("done")) }).build().unwrap();
        runtime.registry().register(helve::Layer::Project, tool).unwrap();
    };
    let say = async |message: Value| assert!(link.take(message.to_string().as_bytes()).await);
    let mut hears = async |what: &str| {
        let heard = async { while !waiting.next().await.unwrap().contains(what) {} };
        tokio::time::timeout(Duration::from_secs(10), heard)
            .await
            .unwrap_or_else(|_| panic!("{what} is told"));
    };
    let params = json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": { "name": "t", "version": "1" } });
    say(json!({ "jsonrpc": "2.0", "id": "i", "method": "initialize", "params": params })).await;
    let about = json!({ "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {} });
    let params = json!({ "_meta": about, "notifications": { "toolsListChanged": true } });
    say(json!({ "jsonrpc": "2.0", "id": "l", "method": "subscriptions/listen", "params": params })).await;
    hears("subscriptions/acknowledged").await;
    for round in 0..2 {
        // As many answers as may wait.
        for id in 0..1_024 {
            say(json!({ "jsonrpc": "2.0", "id": id, "method": "ping" })).await;
        }
        change(&format!("new{round}"));
        // Until it has been tried and found no room, which nothing outside tells.
        tokio::time::sleep(Duration::from_millis(200)).await;
        // In both eras, whichever is told first.
        for _ in 0..2 {
            hears("tools/list_changed").await;
        }
    }
}

#[tokio::test]
async fn what_a_tool_says_on_the_way_hides_nothing() {
    let murmur = tool("murmur").handler(|_, context: Context| async move {
        let client = context.client().unwrap().clone();
        client.progress(&helve::run::Progress {
            done: 1.0,
            total: None,
            message: Some("a\u{202e}b".repeat(5_000)),
        });
        client.log(&raw(&json!({ "level": "error", "data": "x\u{e0041}y\u{1b}[31m" })));
        client.log(&raw(&json!({ "level": "error", "data": "z".repeat(1 << 20) })));
        let form = json!({ "message": "who\u{2066} are you?", "requestedSchema": { "type": "object" } });
        let answer = client.ask(Question::FillForm, raw(&form)).await;
        Ok(json!({ "answered": answer.is_ok() }))
    });
    let (mut client, _served) =
        connect_to(McpServer::from_runtime(Runtime::builder().tool(murmur).unwrap().build()));
    client.initialize(json!({ "elicitation": {} })).await;
    let mut calling = call(1, "murmur");
    calling["params"]["_meta"] = json!({ "progressToken": "p" });
    client.send(calling).await;
    let progress = client.hear().await["params"]["message"].as_str().unwrap().to_owned();
    assert!(progress.len() <= 2_000 && progress.starts_with("abab"), "{progress}");
    assert_eq!(client.hear().await["params"]["data"], "xy");
    let asked = client.hear().await;
    assert_eq!(asked["params"]["message"], "who are you?", "what is too long was left out: {asked}");
    client.send(json!({ "jsonrpc": "2.0", "id": asked["id"], "result": { "action": "decline" } })).await;
    assert_eq!(client.hear().await["result"]["structuredContent"], json!({ "answered": true }));
}
