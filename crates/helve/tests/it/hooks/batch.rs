//! After all calls of one answer of a model.

use super::*;
use helve::formats::Format;
use helve::{Layer, compose};

/// How many calls had run, and what the hook was told.
type Heard = (u32, Arc<HookInput>);

fn answer(calls: Value) -> Value {
    json!({ "role": "assistant", "content": calls })
}

fn use_of(id: &str, tool: &str, input: Value) -> Value {
    json!({ "type": "tool_use", "id": id, "name": tool, "input": input })
}

#[tokio::test]
async fn hooks_hear_once_that_all_calls_of_an_answer_have_ended() {
    let (tool, ran) = counting("say");
    let heard: Arc<Mutex<Vec<Heard>>> = Arc::default();
    let (kept, runs) = (Arc::clone(&heard), Arc::clone(&ran));
    let hook = move |input: Arc<HookInput>, _: HookContext| {
        kept.lock().unwrap().push((runs.load(Ordering::SeqCst), input));
        async { Ok(HookOutput::context("three were made")) }
    };
    let set = HookSet::default().on(HookEvent::PostToolBatch, Matcher::all(), hook);
    let bench = bench(tool, set);
    let calls = json!([
        use_of("a", "say", json!({ "text": "one" })),
        use_of("b", "say", json!({ "words": "two" })),
        use_of("c", "say", json!({ "text": "three" })),
    ]);
    let caller = Caller::agent("bot").session("s-1");
    let messages = bench.runtime.answer(Format::Anthropic, &answer(calls), caller).await.unwrap();
    let heard = std::mem::take(&mut *heard.lock().unwrap());
    let [(ran, input)] = &heard[..] else { panic!("once, not {} times", heard.len()) };
    assert_eq!(*ran, 2, "after the calls");
    assert_eq!((&*input.session_id, input.agent_id.as_deref()), ("s-1", Some("bot")));
    let told = input.fields["tool_calls"].as_array().unwrap();
    assert_eq!(told.len(), 2, "what did not fit fires nothing");
    assert_eq!((&told[0]["tool_name"], &told[0]["tool_input"]), (&json!("say"), &json!({ "text": "one" })));
    assert_eq!(told[0]["tool_response"], json!({ "said": "one" }));
    assert!(told[0]["tool_use_id"].as_str().unwrap().starts_with("call_"));
    assert_eq!(told[1]["tool_response"], json!({ "said": "three" }));
    let text = messages.last().unwrap().to_string();
    assert!(text.contains("three were made"), "{text}");
}

#[tokio::test]
async fn what_a_hook_says_of_a_batch_holds_no_secret_of_its_calls() {
    let tool = Tool::builder("enter")
        .description("Enters.")
        .input_schema(json!({ "type": "object", "properties": {
            "door": { "type": "string" }, "word": { "type": "string", "writeOnly": true } } }))
        .handler(|_, _| async { Ok(json!({})) });
    let hook = |input: Arc<HookInput>, _: HookContext| async move {
        Ok(HookOutput::context(format!("it said {}", input.fields["tool_calls"][0]["tool_input"]["word"])))
    };
    let bench = bench(tool, HookSet::default().on(HookEvent::PostToolBatch, Matcher::all(), hook));
    let calls = json!([use_of("a", "enter", json!({ "door": "north", "word": "open-sesame-1001" }))]);
    let messages =
        bench.runtime.answer(Format::Anthropic, &answer(calls), Caller::agent("bot")).await.unwrap();
    let text = messages.last().unwrap().to_string();
    assert!(text.contains("it said") && !text.contains("open-sesame"), "{text}");
}

#[tokio::test]
async fn an_answer_without_calls_is_no_batch() {
    let (tool, _) = counting("say");
    let count = Arc::new(AtomicU32::new(0));
    let counter = Arc::clone(&count);
    let hook = move |_: Arc<HookInput>, _: HookContext| {
        counter.fetch_add(1, Ordering::SeqCst);
        async { Ok(HookOutput::default()) }
    };
    let bench = bench(tool, HookSet::default().on(HookEvent::PostToolBatch, Matcher::all(), hook));
    let done = answer(json!([{ "type": "text", "text": "done" }]));
    bench.runtime.answer(Format::Anthropic, &done, Caller::agent("bot")).await.unwrap();
    assert_eq!(count.load(Ordering::SeqCst), 0);
    let calls = answer(json!([use_of("a", "say", json!({ "text": "one" }))]));
    bench.runtime.answer(Format::Anthropic, &calls, Caller::agent("bot")).await.unwrap();
    assert_eq!(count.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn a_call_that_ran_is_told_whatever_its_tool_answers() {
    let refusing = |code| move |_, _| async move { Err(ToolError::new(code, "the other side says no")) };
    let tool = Tool::builder("ask").description("Asks.").input_schema(json!({ "type": "object" }));
    let other = Tool::builder("look").description("Looks.").input_schema(json!({ "type": "object" }));
    let heard: Arc<Mutex<Vec<Value>>> = Arc::default();
    let kept = Arc::clone(&heard);
    let hook = move |input: Arc<HookInput>, _: HookContext| {
        kept.lock().unwrap().extend(input.fields["tool_calls"].as_array().unwrap().iter().cloned());
        async { Ok(HookOutput::default()) }
    };
    let set = HookSet::default().on(HookEvent::PostToolBatch, Matcher::all(), hook);
    let bench = bench(tool.handler(refusing(ErrorCode::ValidationFailed)), set);
    let other = other.handler(refusing(ErrorCode::ToolNotFound)).build().unwrap();
    bench.runtime.registry().register(Layer::Project, other).unwrap();
    let step = compose::sequence("both").step(compose::Step::of("ask").arguments(json!({})));
    let both = step.description("Both.").build(bench.runtime.registry()).unwrap();
    bench.runtime.registry().register(Layer::Project, both).unwrap();
    let calls = ["ask", "look", "both", "nothing"].map(|tool| use_of(tool, tool, json!({})));
    let caller = Caller::agent("bot");
    bench.runtime.answer(Format::Anthropic, &answer(json!(calls)), caller).await.unwrap();
    let told: Vec<_> = heard.lock().unwrap().iter().map(|one| one["tool_name"].clone()).collect();
    assert_eq!(told, ["ask", "look", "both"], "only what is no tool fires nothing");
}
