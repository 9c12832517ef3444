use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use helve::compose::{self, Step};
use helve::ports::Runs;
use helve::record::{EndStatus, Entry};
use helve::{Call, Caller, Layer, Runtime, Shortfall, Stage, Tool, VolatileLedger};
use helve_testkit::FaultyLedger;
use serde_json::json;
use tokio::sync::Semaphore;

use crate::support::{Bench, code, counter, echo, ran};

#[tokio::test]
async fn every_call_whatever_its_end_is_one_record() {
    let bench = Bench::new([echo("echo"), echo("risky").risk(helve::Risk::High)]);
    let narrow = Arc::new(Caller::agent("a").session("s").loop_id("l").allow_only(["risky"]));
    for (call, expected) in [
        (Call::new("echo", json!({ "x": 1 })), EndStatus::Done),
        (Call::new("nobody", json!({ "x": 1 })), EndStatus::Failed),
        (Call::new("echo", json!([1])), EndStatus::Failed),
        (Call::new("risky", json!({})), EndStatus::Pending),
        (Call::new("echo", json!({ "x": 1 })).by(narrow.clone()), EndStatus::Denied),
    ] {
        let ends = || bench.count(|entry| matches!(entry, Entry::Finished(_)));
        let before = ends();
        let outcome = bench.runtime.call(call.correlation_id("c-1")).await;
        assert_eq!(ends(), before + 1, "{outcome:?}");
        let record = bench.last_record();
        assert_eq!(record.ending.status, expected);
        assert_eq!(record.facts.call_id, outcome.call_id);
        assert_eq!(record.facts.correlation_id.as_deref(), Some("c-1"));
        assert_eq!(record.ending.code, outcome.error().map(|error| error.code()));
    }
    let record = bench.last_record();
    assert_eq!(record.facts.caller, narrow);
    assert_eq!(record.payload.arguments.unwrap().get(), r#"{"x":1}"#);
}

/// A model's answer, and a tool that calls others, as `code-execute` does.
#[tokio::test]
async fn a_tool_that_is_not_there_is_recorded_also_where_a_model_or_a_tool_asks_for_it() {
    let calls = Tool::builder("calls").description("Calls another.").handler(
        |_, context: helve::Context| async move {
            Ok(json!(context.call_part("one", Call::new("nobody", json!({}))).await.is_success()))
        },
    );
    let bench = Bench::new([calls]);
    let recorded = |principal: &str| {
        bench.count(|entry| {
            matches!(entry, Entry::Finished(end) if &*end.facts.tool == "nobody"
                && end.facts.caller.principal.as_deref() == Some(principal)
                && end.ending.code == Some(helve::ErrorCode::ToolNotFound))
        })
    };
    let answer = json!({ "role": "assistant", "content": [
        { "type": "tool_use", "id": "toolu_1", "name": "nobody", "input": {} } ] });
    bench.runtime.answer(helve::formats::Format::Anthropic, &answer, Caller::agent("model")).await.unwrap();
    assert_eq!(recorded("model"), 1);
    let outcome = bench.runtime.call(Call::new("calls", json!({})).by(Caller::agent("code"))).await;
    assert_eq!((outcome.into_result().unwrap(), recorded("code")), (json!(false), 1));
}

#[tokio::test]
async fn a_record_tells_how_long_each_stage_took() {
    let bench = Bench::new([echo("echo")]);
    bench.call("echo", json!({})).await;
    let stages: Vec<_> = bench.last_record().ending.timings.iter().map(|(stage, _)| stage).collect();
    use Stage::{Authorize, CheckOutput, Decide, Execute, Prepare, Ready, Resolve};
    assert_eq!(stages, [Resolve, Authorize, Prepare, Ready, Decide, Execute, CheckOutput]);
    bench.call("nobody", json!({})).await;
    assert_eq!(bench.last_record().ending.timings.iter().count(), 1);
}

#[tokio::test]
async fn secrets_are_not_recorded_neither_given_nor_returned() {
    let tool = Tool::builder("login")
        .description("Logs in.")
        .input_schema(
            json!({ "type": "object", "properties": { "pin": { "type": "string", "format": "password" } } }),
        )
        .output_schema(
            json!({ "type": "object", "properties": { "session": { "type": "string", "writeOnly": true } } }),
        )
        .handler(|_, _| async {
            Ok(json!({ "session": "hunter2", "access_token": "hunter2", "user": "ada" }))
        });
    let bench = Bench::new([tool]);
    let outcome = bench.call("login", json!({ "pin": "hunter2", "Api-Key": "hunter2", "note": "hi" })).await;
    assert_eq!(outcome.into_result().unwrap()["session"], "hunter2", "the caller gets the real result");
    let entries = format!("{:?}", bench.journal.entries());
    assert!(!entries.contains("hunter2"), "{entries}");
    assert!(entries.contains("ada") && entries.contains("hi"));
}

#[tokio::test]
async fn what_changes_the_world_is_recorded_before_it_starts() {
    let journal = Arc::new(VolatileLedger::default());
    let seen = journal.clone();
    let tool = |name: &str| {
        let seen = seen.clone();
        Tool::builder(name).description("Looks at the journal.").handler(move |_, _| {
            let started = seen.entries().iter().filter(|entry| matches!(entry, Entry::Started(_))).count();
            async move { Ok(json!(started)) }
        })
    };
    let runtime = Runtime::builder()
        .ledger(journal.clone())
        .tool(tool("reads").read_only())
        .unwrap()
        .tool(tool("writes"))
        .unwrap()
        .build();
    assert_eq!(runtime.call(Call::new("reads", json!({}))).await.into_result().unwrap(), 0);
    assert_eq!(runtime.call(Call::new("writes", json!({}))).await.into_result().unwrap(), 1);
}

#[tokio::test]
async fn a_finished_key_returns_the_stored_outcome() {
    let (tool, count) = counter("pay");
    let bench = Bench::new([tool]);
    let pay = |arguments, caller: &str, key: &str| {
        bench.runtime.call(Call::new("pay", arguments).by(Caller::agent(caller)).idempotency_key(key))
    };
    let first = pay(json!({ "x": 1 }), "a", "k").await;
    let again = pay(json!({ "x": 1 }), "a", "k").await;
    assert_eq!(again.replay_of, Some(first.call_id));
    assert_eq!(again.into_result().unwrap(), 1);
    assert_eq!(bench.last_record().ending.replay_of, Some(first.call_id));
    assert_eq!(ran(&count), 1);
    // Another caller's key is another key.
    assert_eq!(pay(json!({ "x": 1 }), "b", "k").await.into_result().unwrap(), 2);
    // The same key for something else is a mistake, and nothing runs.
    let conflict = pay(json!({ "x": 2 }), "a", "k").await;
    assert_eq!(code(&conflict), "validation_failed");
    for bad in ["", &"k".repeat(300)] {
        assert_eq!(code(&pay(json!({}), "a", bad).await), "validation_failed");
    }
    assert_eq!(ran(&count), 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_with_one_key_at_once_run_once_and_all_get_the_outcome() {
    let gate = Arc::new(Semaphore::new(0));
    let count = Arc::new(AtomicU32::new(0));
    let (held, counted) = (gate.clone(), count.clone());
    let tool = Tool::builder("pay").description("Pays once let.").handler(move |_, _| {
        let (held, counted) = (held.clone(), counted.clone());
        async move {
            held.acquire().await.unwrap().forget();
            Ok(json!(counted.fetch_add(1, Ordering::SeqCst) + 1))
        }
    });
    let runtime = Runtime::builder().tool(tool).unwrap().build();
    let calls: Vec<_> = (0..64)
        .map(|_| {
            let runtime = runtime.clone();
            tokio::spawn(async move { runtime.call(Call::new("pay", json!({})).idempotency_key("k")).await })
        })
        .collect();
    gate.add_permits(64);
    for call in calls {
        assert_eq!(call.await.unwrap().into_result().unwrap(), 1);
    }
    assert_eq!(count.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn a_key_is_given_back_when_its_caller_goes_away() {
    let started = Arc::new(tokio::sync::Notify::new());
    let signal = started.clone();
    let tool = Tool::builder("slow").description("Never ends.").handler(move |_, _| {
        signal.notify_one();
        std::future::pending()
    });
    let bench = Bench::new([tool]);
    let call = || bench.runtime.call(Call::new("slow", json!({})).idempotency_key("k"));
    tokio::select! {
        _ = call() => panic!("it ended"),
        () = started.notified() => {}
    }
    let again = call().await;
    assert_eq!(code(&again), "cancelled");
    assert!(again.replay_of.is_some());
}

#[tokio::test]
async fn no_journal_no_call() {
    let failing_after =
        |count| Arc::new(FaultyLedger::failing_after(Arc::new(VolatileLedger::default()), count));
    for key in [None, Some("k")] {
        let (tool, count) = counter("pay");
        let runtime = Runtime::builder().tool(tool).unwrap().ledger(failing_after(0)).build();
        let mut call = Call::new("pay", json!({}));
        call.idempotency_key = key.map(Arc::from);
        let outcome = runtime.call(call.clone()).await;
        assert_eq!((code(&outcome), ran(&count)), ("journal_unavailable", 0));
        // The start was recorded, the end cannot be: no success is reported, nor a retry invited.
        let (tool, count) = counter("pay");
        let runtime = Runtime::builder().tool(tool).unwrap().ledger(failing_after(1)).build();
        let outcome = runtime.call(call).await;
        assert_eq!((code(&outcome), ran(&count)), ("journal_unavailable", 1));
        assert!(!outcome.error().unwrap().is_retryable());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn the_volatile_ledger_keeps_the_ports_contract() {
    helve_testkit::conformance::check_ledger(|setup| {
        Arc::new(VolatileLedger::new(setup.clock, setup.limits))
    })
    .await;
}

/// Takes a secret at several places and repeats it in every way a tool can.
fn indiscreet() -> helve::ToolBuilder {
    Tool::builder("indiscreet")
        .description("Repeats what it is given.")
        .input_schema(json!({ "type": "object", "additionalProperties": false, "properties": {
            "mode": { "type": "string" },
            "pin": { "type": "string", "writeOnly": true },
            "inner": { "type": "object", "properties": { "phrase": { "type": "string", "format": "password" } } },
            "list": { "type": "array", "items": { "type": "string", "writeOnly": true } } } }))
        .handler(|arguments, context| async move {
            match arguments["mode"].as_str() {
                Some("lack") => {
                    context.fall_short(Shortfall { lines: vec![format!("without {arguments}")], is_failure: false });
                    Ok(json!({}))
                }
                Some("fail") => Err(helve::ToolError::failed(format!("cannot use {arguments}")).suggest(arguments.to_string())),
                _ => Ok(json!({ "said": arguments.to_string() })),
            }
        })
}

#[tokio::test]
async fn a_secret_argument_is_recorded_nowhere_whatever_becomes_of_the_call() {
    for arguments in [
        json!({ "pin": "hunter2" }),
        json!({ "pin": "hunter2", "mode": "fail" }),
        json!({ "pin": "hunter2", "mode": "lack" }),
        json!({ "inner": { "phrase": "hunter2" }, "mode": "fail" }),
        // JSON in a string, as models send it.
        json!({ "inner": "{\"phrase\": \"hunter2\"}" }),
        json!({ "list": "[\"hunter2\"]" }),
        json!({ "list": "hunter2" }),
        // What does not fit the schema.
        json!({ "pni": "hunter2", "zzz": 1 }),
        json!({ "inner": 7, "pin": "hunter2" }),
        json!({ "inner": ["hunter2"] }),
        json!(["hunter2"]),
        json!({ "arguments": { "pin": "hunter2" } }),
    ] {
        for key in [None, Some("k")] {
            let bench = Bench::new([indiscreet()]);
            let mut call = Call::new("indiscreet", arguments.clone());
            call.idempotency_key = key.map(Arc::from);
            let outcome = bench.runtime.call(call.clone()).await;
            let entries = format!("{:?}", bench.journal.entries());
            assert!(!entries.contains("hunter2"), "{arguments}: {entries}");
            assert!(
                !format!("{:?} {:?}", outcome.repairs, outcome.error().map(|e| e.field_errors()))
                    .contains("hunter2")
            );
            if key.is_some() && outcome.attempts > 0 {
                let again = serde_json::to_string(&bench.runtime.call(call).await).unwrap();
                assert!(!again.contains("hunter2"), "what is kept for the key: {again}");
            }
        }
    }
}

#[tokio::test]
async fn headers_and_addresses_are_recorded_without_what_is_secret_in_them() {
    for arguments in [
        json!({ "headers": { "X-Api-Key": "hunter2" } }),
        json!({ "headers": { "X-Auth-Token": "hunter2" } }),
        json!({ "headers": { "Proxy-Authorization": "Basic hunter2" } }),
        json!({ "headers": { "X-Vault-Token": "hunter2" } }),
        json!({ "headers": { "PRIVATE-TOKEN": "hunter2" } }),
        json!({ "headers": [{ "name": "X-Api-Key", "value": "hunter2" }] }),
        json!({ "url": "https://api.example/a?token=hunter2&page=2" }),
        json!({ "url": "https://me:hunter2@api.example/a" }),
        json!({ "text": "look at /a?q=1&api_key=hunter2 once more" }),
    ] {
        // It answers what it got, so that the result has it too.
        let bench = Bench::new([echo("echo")]);
        let outcome = bench.runtime.call(Call::new("echo", arguments.clone())).await;
        assert!(outcome.is_success(), "{outcome:?}");
        let entries = format!("{:?}", bench.journal.entries());
        assert!(!entries.contains("hunter2") && entries.contains("[redacted]"), "{arguments}: {entries}");
    }
}

#[tokio::test]
async fn a_call_that_could_not_be_read_is_recorded_too() {
    let bench = Bench::new([echo("echo")]);
    let answer = json!({ "role": "assistant", "tool_calls": [
        { "id": "1", "type": "function", "function": { "name": "echo", "arguments": "{\"a\": 1, \"a\": 2}" } } ] });
    let messages =
        bench.runtime.answer(helve::formats::Format::OpenAiChat, &answer, Caller::agent("a")).await.unwrap();
    assert!(messages[0]["content"].as_str().unwrap().contains("stands twice"), "{messages:?}");
    let record = bench.last_record();
    assert_eq!((record.facts.tool.as_ref(), record.ending.status), ("echo", EndStatus::Failed));
}

#[tokio::test]
async fn in_memory_old_runs_make_room_by_what_they_hold() {
    const STEPS: usize = 100;
    let ledger = Arc::new(VolatileLedger::default());
    let tool = Tool::builder("step").description("Does nothing.").instant();
    let tool = tool.handler(|_, _| async { Ok(json!({})) });
    let runtime = Runtime::builder().tool(tool).unwrap().ledger(ledger.clone()).build();
    let steps = (0..STEPS).map(|number| Step::call(format!("s{number}"), "step").arguments(json!({})));
    let composed =
        steps.fold(compose::sequence("many").description("Many."), |composed, step| composed.step(step));
    runtime.registry().register(Layer::Project, composed.build(runtime.registry()).unwrap()).unwrap();
    let mut runs = Vec::new();
    for _ in 0..120 {
        runs.push(runtime.call(Call::new("many", json!({}))).await.call_id);
    }
    let mut kept = Vec::new();
    for run in &runs {
        kept.push(ledger.history(*run).await.unwrap().len());
    }
    let whole = 2 + 2 * STEPS;
    assert!(kept.iter().all(|entries| *entries == 0 || *entries == whole), "{kept:?}");
    assert!(kept.is_sorted() && kept[0] == 0 && kept[119] == whole, "the oldest went first: {kept:?}");
    assert!((19_000..=20_000).contains(&kept.iter().sum::<usize>()), "{kept:?}");
}

#[tokio::test]
async fn of_long_arguments_the_end_keeps_size_digest_and_beginning() {
    let strict = echo("strict").read_only().input_schema(json!({ "type": "object", "required": ["y"] }));
    let bench = Bench::new([echo("reads").read_only(), strict, echo("risky").risk(helve::Risk::High)]);
    // What is refused keeps less than what runs or waits for a person.
    for (tool, bytes, is_kept) in [
        ("reads", 5_000, true),
        ("reads", 20_000, false),
        ("strict", 3_000, true),
        ("strict", 5_000, false),
        ("nobody", 5_000, false),
        ("risky", 5_000, true),
        ("risky", 20_000, false),
    ] {
        let arguments = json!({ "x": "ü".repeat(bytes / 2) });
        bench.call(tool, arguments.clone()).await;
        let payload = bench.last_record().payload;
        let text = arguments.to_string();
        if is_kept {
            assert_eq!(payload.arguments.unwrap().get(), text, "{tool} {bytes}");
            assert_eq!(payload.cut, None);
            continue;
        }
        assert!(payload.arguments.is_none(), "{tool} {bytes}");
        let cut = payload.cut.unwrap();
        assert_eq!((cut.bytes, cut.sha256), (text.len() as u64, helve::json::sha256_hex(text.as_bytes())));
        assert!(text.starts_with(&cut.head) && (1_000..=1_024).contains(&cut.head.len()));
    }
}

#[tokio::test]
async fn refused_calls_of_megabytes_take_kilobytes() {
    let strict = echo("strict").input_schema(json!({ "type": "object", "required": ["y"] }));
    let bench = Bench::new([strict]);
    bench.call("strict", json!({ "x": "z".repeat(3_900_000) })).await;
    let record = bench.last_record();
    let bytes = serde_json::to_string(&record.payload).unwrap().len();
    assert!(bytes < 4_096, "{bytes}");
}

#[tokio::test]
async fn a_start_keeps_all_arguments_and_its_end_does_not_repeat_them() {
    let (writes, _) = counter("writes");
    let bench = Bench::new([writes]);
    let arguments = json!({ "x": "y".repeat(100_000) });
    assert!(bench.call("writes", arguments.clone()).await.is_success());
    let record = bench.last_record();
    assert!(record.payload.arguments.is_none() && record.payload.cut.is_none());
    let started = bench.journal.entries().into_iter().find_map(|entry| match entry {
        Entry::Started(started) => Some(started),
        Entry::Step(_) | Entry::Finished(_) => None,
    });
    let started = started.unwrap();
    assert_eq!(started.arguments.get(), arguments.to_string());
    assert!(!started.withheld, "it can be resumed");
}
