//! `POST /v1/answers`: a model's message in each provider's format, made by the providers' own SDKs, through to
//! the messages that answer it, which the SDKs must take.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use helve::identity::Purpose;
use helve::{Caller, Layer, Tool};
use helve_server::ServerConfig;
use jiff::Timestamp;
use serde_json::{Map, Value, json};
use tokio::sync::Semaphore;

use crate::harness::{ADA, BOB, Reply};
use crate::identity::{Api, api, api_with};

/// Longest that a test waits for what must come.
const LONG: Duration = Duration::from_secs(10);

/// Adds `mail/send`, `ping` and `pay`, and counts how often each ran.
fn add_tools(api: &Api) -> [Arc<AtomicUsize>; 3] {
    ["mail/send", "ping", "pay"].map(|name| {
        let ran = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&ran);
        let tool = Tool::builder(name).description("Counts.").input_schema(json!({ "type": "object" }));
        let tool = tool.handler(move |arguments, _| {
            let before = count.fetch_add(1, SeqCst);
            async move { Ok(json!({ "got": arguments, "before": before })) }
        });
        api.server.registry.register(Layer::Project, tool.build().unwrap()).unwrap();
        ran
    })
}

async fn post(api: &Api, token: &str, body: Value) -> Reply {
    api.ask("POST /v1/answers", token, body).await
}

/// Anthropic's blocks in a message.
fn message(blocks: &[Value]) -> Value {
    json!({ "role": "assistant", "content": blocks })
}

fn tool_use(id: &str, name: &str, input: Value) -> Value {
    json!({ "type": "tool_use", "id": id, "name": name, "input": input })
}

#[tokio::test]
async fn every_providers_sdk_writes_messages_that_are_answered_and_takes_the_answers() {
    let api = api().await;
    let ran = add_tools(&api);
    let nothing = json!({ "usual": {}, "strict": {}, "results": {} });
    let (messages, _) = with_sdks(&nothing);
    let mut results = Map::new();
    for (at, (name, message)) in messages.iter().enumerate() {
        let format = name.trim_end_matches("-snake");
        // Named, and told by the message alone.
        for (again, named) in [Some(format), None].into_iter().enumerate() {
            let body = json!({ "format": named, "message": message, "session": name });
            let reply = post(&api, ADA, body).await;
            assert_eq!(reply.status, 200, "{name}: {reply:?}");
            let said = reply.json();
            assert_eq!((&said["format"], &said["done"]), (&json!(format), &json!(false)), "{said}");
            let calls = said["calls"].as_array().unwrap();
            let told: Vec<_> =
                calls.iter().map(|call| (call["tool"].as_str(), call["status"].as_str())).collect();
            assert_eq!(told, [(Some("mail/send"), Some("done")), (Some("ping"), Some("done"))], "{said}");
            assert_eq!(calls[0]["replayed"], if again == 1 { json!(true) } else { Value::Null }, "{said}");
            assert!(said["messages"].to_string().contains("quoted"), "{said}");
            results.insert(format.to_owned(), said["messages"].clone());
        }
        assert_eq!(
            (ran[0].load(SeqCst), ran[1].load(SeqCst)),
            (at + 1, at + 1),
            "{name}: each call runs once"
        );
    }
    assert_eq!(results.len(), 5);
    // The providers' own types take what they are to be sent.
    with_sdks(&json!({ "usual": {}, "strict": {}, "results": results }));
}

#[tokio::test]
async fn what_a_person_decides_comes_with_the_same_message() {
    let api = api().await;
    let ran = add_tools(&api);
    let (_, grace) = api.key("grace", Purpose::Decide).await;
    let blocks = [tool_use("toolu_1", "pay", json!({})), tool_use("toolu_2", "deed", json!({ "n": 1 }))];
    let body = || json!({ "message": message(&blocks), "session": "s", "wait_ms": 0 });
    let asked = post(&api, BOB, body()).await;
    // Bob may not use `pay`: that is told to the model, and stops nothing else.
    let said = asked.json();
    assert_eq!((asked.status, &said["calls"][0]["status"]), (200, &json!("failed")), "{said}");
    assert_eq!(said["messages"][0]["content"][0]["is_error"], true);
    let waiting = &said["pending"][0];
    let id = waiting["approval_id"].as_str().unwrap();
    assert_eq!(waiting["provider_id"], "toolu_2");
    assert_eq!(waiting["look_at"], format!("/v1/calls/{id}"));
    assert_eq!(waiting["decide_at"], format!("/approvals/{id}"));
    let told = said["messages"][0]["content"][1].to_string();
    assert!(told.contains("a person must approve") && told.contains(id), "{told}");
    // It goes on waiting, with the same question.
    let again = post(&api, BOB, body()).await.json();
    assert_eq!((&again["pending"][0]["approval_id"], api.ran()), (&json!(id), 0), "{again}");
    let decision = format!("POST /v1/approvals/{id}/decision");
    assert_eq!(api.ask(&decision, &grace, json!({ "decision": "approve" })).await.status, 200);
    // Its outcome comes, once and from then on from the record.
    for _ in 0..3 {
        let said = post(&api, BOB, body()).await.json();
        assert_eq!(said["pending"], json!([]), "{said}");
        assert!(said["messages"][0]["content"][1].to_string().contains("did"), "{said}");
        assert_eq!(api.ran(), 1, "{said}");
    }
    assert_eq!(ran[2].load(SeqCst), 0);
}

#[tokio::test]
async fn a_loop_may_wait_for_a_person() {
    let api = api().await;
    let (_, grace) = api.key("grace", Purpose::Decide).await;
    let body =
        json!({ "message": message(&[tool_use("toolu_1", "deed", json!({ "n": 3 }))]), "wait_ms": 60_000 });
    let decide = async {
        let id = loop {
            let asked = api.get("/v1/approvals?state=pending", ADA).await.json();
            match asked[0]["id"].as_str() {
                Some(id) => break id.to_owned(),
                None => tokio::task::yield_now().await,
            }
        };
        api.ask(
            &format!("POST /v1/approvals/{id}/decision"),
            &grace,
            json!({ "decision": "deny", "reason": "not today" }),
        )
        .await
    };
    let (said, decided) = tokio::join!(post(&api, BOB, body), decide);
    assert_eq!(decided.status, 200, "{decided:?}");
    let said = said.json();
    assert_eq!(
        (&said["calls"][0]["status"], &said["calls"][0]["code"]),
        (&json!("failed"), &json!("approval_denied"))
    );
    assert!(said["messages"].to_string().contains("not today"), "{said}");
    assert_eq!((api.ran(), &said["pending"]), (0, &json!([])));
}

#[tokio::test]
async fn a_call_runs_once_in_a_session_and_a_turn() {
    let api = api().await;
    let ran = add_tools(&api);
    let pay = |session: &str, turn: Option<&str>, id: &str, n: i64| {
        let message = message(&[tool_use(id, "pay", json!({ "n": n }))]);
        json!({ "message": message, "session": session, "idempotency_key": turn })
    };
    for (body, times) in [
        (pay("a", None, "call_1", 1), 1),
        (pay("a", None, "call_1", 1), 1),
        // Another session, turn, id or other arguments: another call.
        (pay("b", None, "call_1", 1), 2),
        (pay("a", Some("2"), "call_1", 1), 3),
        (pay("a", Some("2"), "call_1", 1), 3),
        (pay("a", None, "call_2", 1), 4),
        (pay("a", None, "call_1", 2), 5),
    ] {
        let said = post(&api, ADA, body).await.json();
        assert_eq!((&said["calls"][0]["status"], ran[2].load(SeqCst)), (&json!("done"), times), "{said}");
    }
    // Another caller's is another's.
    let (_, carol) = api.key("carol", Purpose::Call).await;
    post(&api, &carol, pay("a", None, "call_1", 1)).await;
    assert_eq!(ran[2].load(SeqCst), 6);
    // Without an id only a turn tells a repetition from a wish for more.
    let call = |turn: Option<&str>| {
        let part = json!({ "functionCall": { "name": "pay", "args": {} } });
        json!({ "message": { "role": "model", "parts": [part, part] }, "idempotency_key": turn })
    };
    for (turn, times) in [(None, 8), (None, 10), (Some("t"), 12), (Some("t"), 12)] {
        assert_eq!(post(&api, ADA, call(turn)).await.status, 200);
        assert_eq!(ran[2].load(SeqCst), times, "{turn:?}");
    }
}

#[tokio::test]
async fn a_message_without_calls_ends_the_loop() {
    let api = api().await;
    for message in [
        message(&[json!({ "type": "text", "text": "Done." })]),
        json!({ "role": "assistant", "content": "Done." }),
        json!({ "object": "response", "output": [{ "type": "message", "role": "assistant", "content": [] }] }),
        json!({ "candidates": [{ "content": { "role": "model", "parts": [{ "text": "Done." }] } }] }),
    ] {
        let said = post(&api, ADA, json!({ "message": message })).await.json();
        assert_eq!(
            (&said["done"], &said["messages"], &said["calls"]),
            (&json!(true), &json!([]), &json!([])),
            "{said}"
        );
    }
}

#[tokio::test]
async fn a_call_that_cannot_be_made_is_the_models_to_mend() {
    let api = api().await;
    let ran = add_tools(&api);
    let calls = json!([
        { "id": "1", "type": "function", "function": { "name": "no-such-tool", "arguments": "{}" } },
        { "id": "2", "type": "function", "function": { "name": "ping", "arguments": "{\"a\": " } },
        { "id": "3", "type": "function", "function": { "name": "echo", "arguments": "{\"message\": {\"text\": 1}}" } },
        { "id": "4", "type": "function", "function": { "name": "ping", "arguments": "{\"a\": 1, \"a\": 2}" } },
        { "id": "5", "type": "function", "function": { "name": "ping", "arguments": "[".repeat(100_000) } },
        { "id": "6", "type": "function", "function": { "name": "ping", "arguments": "{}" } },
        { "id": "6", "type": "function", "function": { "name": "ping", "arguments": "{}" } },
    ]);
    let reply = post(&api, ADA, json!({ "message": { "role": "assistant", "tool_calls": calls } })).await;
    assert_eq!(reply.status, 200, "{reply:?}");
    let said = reply.json();
    let told: Vec<_> = said["calls"].as_array().unwrap().iter().map(|call| call["code"].as_str()).collect();
    let unfit = Some("validation_failed");
    assert_eq!(told, [Some("tool_not_found"), unfit, unfit, unfit, unfit, None, None], "{said}");
    assert_eq!(ran[1].load(SeqCst), 1, "the same id twice is one call");
    let messages = said["messages"].as_array().unwrap();
    assert_eq!(messages.len(), 7, "every call is answered");
    assert!(messages.iter().all(|message| message["role"] == "tool"), "{said}");
    assert!(messages[2]["content"].as_str().unwrap().contains("Arguments that would fit"), "{}", messages[2]);
}

#[tokio::test]
async fn a_message_that_is_none_runs_nothing() {
    let api = api_with(ServerConfig { body_bytes_max: 200_000, ..ServerConfig::default() }).await;
    let ran = add_tools(&api);
    let thousand: Vec<_> = (0..1_000).map(|at| tool_use(&format!("toolu_{at}"), "ping", json!({}))).collect();
    let deep = (0..200).fold(json!({}), |inner, _| json!({ "a": inner }));
    let ping = || tool_use("toolu_1", "ping", json!({}));
    for (status, body, why) in [
        (413, json!({ "message": message(&thousand) }), "128 calls"),
        (413, json!({ "message": message(&[tool_use("t", "ping", json!("x".repeat(300_000)))]) }), ""),
        (400, json!({ "message": message(&[tool_use("t", "ping", deep)]) }), ""),
        (400, json!({ "message": [] }), "name one as `format`"),
        (400, json!({ "message": { "name": "ping", "arguments": {} } }), "name one as `format`"),
        (400, json!({ "message": "ping" }), "name one as `format`"),
        (400, json!({ "format": "claude", "message": message(&[ping()]) }), "no format is called"),
        (400, json!({ "format": "gemini", "message": { "tool_calls": [] } }), "not an answer in the format"),
        (400, json!({ "format": "anthropic", "message": [message(&[ping()])] }), "conversation"),
        (
            400,
            json!({ "message": message(&[json!({ "type": "tool_use", "name": "ping", "input": {} })]) }),
            "`id`",
        ),
        (400, json!({ "message": message(&[ping()]), "session": "" }), "`session`"),
        (
            400,
            json!({ "message": message(&[ping()]), "idempotency_key": "k".repeat(300) }),
            "`idempotency_key`",
        ),
        (400, json!({ "message": message(&[ping()]), "mesage": 1 }), "mesage"),
        (400, json!({}), "message"),
    ] {
        let reply = post(&api, ADA, body).await;
        assert_eq!(reply.status, status, "{why}: {reply:?}");
        assert!(reply.body.contains(why), "{why}: {reply:?}");
    }
    let (_, grace) = api.key("grace", Purpose::Decide).await;
    assert_eq!(post(&api, &grace, json!({ "message": message(&[ping()]) })).await.status, 403);
    assert_eq!(ran[1].load(SeqCst), 0);
}

#[tokio::test]
async fn a_loop_that_hangs_up_finds_what_it_began() {
    let api = api().await;
    let (begun, go_on) = (Arc::new(tokio::sync::Notify::new()), Arc::new(tokio::sync::Notify::new()));
    let ran = Arc::new(AtomicUsize::new(0));
    let (tell, wait, count) = (Arc::clone(&begun), Arc::clone(&go_on), Arc::clone(&ran));
    let slow = Tool::builder("slow").description("Waits.").input_schema(json!({ "type": "object" }));
    let slow = slow.handler(move |_, _| {
        count.fetch_add(1, SeqCst);
        let (tell, wait) = (Arc::clone(&tell), Arc::clone(&wait));
        async move {
            tell.notify_one();
            wait.notified().await;
            Ok(json!("slept"))
        }
    });
    api.server.registry.register(Layer::Project, slow.build().unwrap()).unwrap();
    let body = json!({ "message": message(&[tool_use("toolu_1", "slow", json!({}))]) });
    let hung_up = api.server.open("POST /v1/answers", &[], &body.to_string()).await;
    begun.notified().await;
    drop(hung_up);
    go_on.notify_one();
    let said = post(&api, ADA, body).await.json();
    assert_eq!(said["messages"][0]["content"][0]["content"], "slept", "{said}");
    assert_eq!(ran.load(SeqCst), 1);
}

/// Adds `hold`, which ends once the gate lets it; how many have begun, and the gate.
fn add_hold(api: &Api) -> (Arc<AtomicUsize>, Arc<Semaphore>) {
    let (begun, gate) = (Arc::new(AtomicUsize::new(0)), Arc::new(Semaphore::new(0)));
    let (count, closed) = (Arc::clone(&begun), Arc::clone(&gate));
    let hold = Tool::builder("hold").description("Waits.").input_schema(json!({ "type": "object" }));
    let hold = hold.handler(move |_, _| {
        count.fetch_add(1, SeqCst);
        let gate = Arc::clone(&closed);
        async move {
            let _open = gate.acquire().await;
            Ok(json!("held"))
        }
    });
    api.server.registry.register(Layer::Project, hold.build().unwrap()).unwrap();
    (begun, gate)
}

async fn until(begun: &AtomicUsize, count: usize) {
    while begun.load(SeqCst) < count {
        tokio::task::yield_now().await;
    }
}

fn hold(at: usize) -> Value {
    tool_use(&format!("toolu_{at}"), "hold", json!({}))
}

#[tokio::test]
async fn a_key_that_was_taken_back_begins_no_further_call_of_its_message() {
    let api = api().await;
    let (begun, gate) = add_hold(&api);
    let (key, text) = api.key("ci", Purpose::Call).await;
    let blocks: Vec<_> = (0..20).map(hold).collect();
    let revoke = async {
        until(&begun, 16).await;
        let keys = api.server.runtime.keys();
        keys.revoke_key(key.id, Caller::local(), Timestamp::now()).await.unwrap().unwrap();
    };
    let said = tokio::time::timeout(LONG, post(&api, &text, json!({ "message": message(&blocks) })));
    let (said, ()) = tokio::join!(said, revoke);
    let said = said.expect("it goes on");
    assert_eq!(said.status, 401, "{said:?}");
    gate.add_permits(1);
    // The tool works again, and for others only.
    assert_eq!(post(&api, ADA, json!({ "message": message(&[hold(0)]) })).await.status, 200);
    assert_eq!(begun.load(SeqCst), 17);
}

#[tokio::test]
async fn a_loop_that_hangs_up_again_and_again_has_only_so_many_messages_at_work() {
    let api = api().await;
    let (begun, gate) = add_hold(&api);
    for at in 0..16 {
        let body = json!({ "message": message(&[hold(at)]) }).to_string();
        let hung_up = api.server.open("POST /v1/answers", &[], &body).await;
        until(&begun, at + 1).await;
        drop(hung_up);
    }
    let one_more = || json!({ "message": message(&[hold(16)]) });
    let refused = post(&api, ADA, one_more()).await;
    assert_eq!((refused.status, refused.headers["retry-after"].as_str()), (429, "5"), "{refused:?}");
    let other = post(&api, BOB, json!({ "message": message(&[tool_use("t", "echo", json!({}))]) })).await;
    assert_eq!((other.status, begun.load(SeqCst)), (200, 16), "{other:?}");
    // Once the others have ended there is room again.
    gate.add_permits(1);
    let answered = async {
        loop {
            match post(&api, ADA, one_more()).await {
                reply if reply.status == 429 => tokio::task::yield_now().await,
                reply => break reply,
            }
        }
    };
    let answered = tokio::time::timeout(LONG, answered).await.expect("no seat is free again");
    assert_eq!((answered.status, begun.load(SeqCst)), (200, 17), "{answered:?}");
}

/// Runs the SDKs' own checks on what we write, and gets what they write.
fn with_sdks(given: &Value) -> (Map<String, Value>, tempfile::TempDir) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let environment =
        std::env::var_os("HELVE_PYTHON_SDKS").map_or_else(|| root.join("target/python-sdks"), PathBuf::from);
    if !std::env::var("CI").is_ok_and(|value| value == "true") {
        // Does nothing where the environment is complete.
        run_validator(&root.join("scripts/setup-python-sdks.sh"), &[&environment]);
    }
    let folder = tempfile::tempdir().unwrap();
    let (sent, answers) = (folder.path().join("given.json"), folder.path().join("answers.json"));
    std::fs::write(&sent, given.to_string()).unwrap();
    run_validator(
        &environment.join("bin/python"),
        &[&root.join("crates/helve/tests/sdk/check.py"), &sent, &answers],
    );
    (serde_json::from_slice(&std::fs::read(answers).unwrap()).unwrap(), folder)
}

#[expect(clippy::disallowed_methods, reason = "a test runs its checker, no tool")]
fn run_validator(program: &Path, arguments: &[&Path]) {
    let output = Command::new(program).args(arguments).output().unwrap();
    assert!(output.status.success(), "{}: {}", program.display(), String::from_utf8_lossy(&output.stderr));
}
