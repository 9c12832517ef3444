//! Hooks and the person who would be asked.

use super::*;

/// A tool that a person is asked about.
fn risky() -> (ToolBuilder, Arc<AtomicU32>) {
    let (tool, count) = counting("say");
    (tool.risk(helve::Risk::High), count)
}

fn request(decision: Value) -> HookOutput {
    from_json(HookEvent::PermissionRequest, json!({ "hookSpecificOutput": { "decision": decision } }))
}

#[tokio::test]
async fn a_hook_can_have_a_person_asked_or_not() {
    let (tool, count) = counting("say");
    let asks = bench(tool, on(HookEvent::PreToolUse, HookOutput::ask("is this wise?")));
    let outcome = asks.call("say", json!({ "text": "hi" })).await;
    let Status::Pending(pending) = &outcome.status else { panic!("{outcome:?}") };
    assert!(pending.reasons.iter().any(|reason| reason.contains("is this wise?")), "{pending:?}");
    assert_eq!(count.load(Ordering::SeqCst), 0);

    let (tool, _) = counting("say");
    let defers = bench(tool, on(HookEvent::PreToolUse, before(json!({ "permissionDecision": "defer" }))));
    assert!(matches!(defers.call("say", json!({ "text": "hi" })).await.status, Status::Pending(_)));

    // What is of high risk needs nobody where a hook vouches for it.
    let (tool, _) = risky();
    let allows = bench(tool, on(HookEvent::PreToolUse, HookOutput::allow()));
    assert!(allows.call("say", json!({ "text": "hi" })).await.is_success());
}

#[tokio::test]
async fn a_hook_can_answer_in_place_of_the_person_who_would_be_asked() {
    let (heard, hook) = listening();
    let call = |output: HookOutput| async move {
        let (tool, count) = risky();
        let outcome =
            bench(tool, on(HookEvent::PermissionRequest, output)).call("say", json!({ "text": "hi" })).await;
        (outcome, count.load(Ordering::SeqCst))
    };
    let (outcome, ran) = call(HookOutput::none()).await;
    assert!(matches!(outcome.status, Status::Pending(_)) && ran == 0, "{outcome:?}");
    let (outcome, ran) = call(request(json!({ "behavior": "allow" }))).await;
    assert_eq!((outcome.into_result().unwrap(), ran), (json!({ "said": "hi" }), 1));
    let (outcome, ran) =
        call(request(json!({ "behavior": "allow", "updatedInput": { "text": "ho" } }))).await;
    assert_eq!((outcome.into_result().unwrap(), ran), (json!({ "said": "ho" }), 1));
    for no in [
        request(json!({ "behavior": "deny", "message": "never" })),
        request(json!({ "behavior": "allow", "updatedInput": { "nothing": 1 } })),
        HookOutput::block("no"),
        HookOutput::stop("enough"),
    ] {
        let (outcome, ran) = call(no).await;
        assert_eq!((outcome.error().unwrap().code(), ran), (ErrorCode::HookDenied, 0));
    }
    let (tool, _) = risky();
    let set = HookSet::default().on(HookEvent::PermissionRequest, Matcher::all(), hook);
    bench(tool, set).call("say", json!({ "text": "hi" })).await;
    let told = heard.lock().unwrap().pop().unwrap();
    assert_eq!((&told["tool_name"], &told["tool_input"]), (&json!("say"), &json!({ "text": "hi" })));
    assert_eq!(told.get("tool_use_id"), None);
    let suggested = &told["permission_suggestions"][0];
    assert_eq!((&suggested["type"], &suggested["rules"][0]["toolName"]), (&json!("addRules"), &json!("say")));
}

/// A user who accepts every form.
#[derive(Debug, Default)]
struct User(Mutex<u32>);

impl helve::ports::Client for User {
    fn id(&self) -> &str {
        "user"
    }

    fn can(&self, _: helve::ports::Question) -> bool {
        true
    }

    fn ask(
        &self,
        _: helve::ports::Question,
        _: helve::record::RawJson,
    ) -> helve::BoxFuture<'static, Result<helve::record::RawJson, helve::ports::AskError>> {
        *self.0.lock().unwrap() += 1;
        let answer = json!({ "action": "accept", "content": { "name": "Ada" } });
        Box::pin(async move { Ok(serde_json::value::to_raw_value(&answer).unwrap()) })
    }

    fn progress(&self, _: &helve::run::Progress) {}

    fn log(&self, _: &serde_json::value::RawValue) {}

    fn meta(&self) -> Option<&serde_json::value::RawValue> {
        None
    }
}

#[tokio::test]
async fn hooks_may_answer_the_questions_of_mcp_servers() {
    let asking = || {
        Tool::builder("demo/form")
            .description("Asks the user.")
            .input_schema(json!({ "type": "object" }))
            .source(Source::Mcp)
            .read_only()
            .handler(|_, context: Context| async move {
                let params = json!({ "message": "Who are you?", "requestedSchema": { "type": "object" } });
                let params = serde_json::value::to_raw_value(&params).unwrap();
                let client = context.client().unwrap().clone();
                let answer = client.ask(helve::ports::Question::FillForm, params).await.unwrap();
                Ok::<Value, ToolError>(serde_json::from_str(answer.get()).unwrap())
            })
    };
    let specific =
        |event: &HookEvent, fields: Value| from_json(event.clone(), json!({ "hookSpecificOutput": fields }));
    let (before, after) = (HookEvent::Elicitation, HookEvent::ElicitationResult);
    for (event, output, expected, asked) in [
        (&before, HookOutput::none(), json!({ "action": "accept", "content": { "name": "Ada" } }), 1),
        (
            &before,
            specific(&before, json!({ "action": "accept", "content": { "name": "Eve" } })),
            json!({ "action": "accept", "content": { "name": "Eve" } }),
            0,
        ),
        (&before, HookOutput::block("no forms"), json!({ "action": "decline" }), 0),
        (&after, specific(&after, json!({ "action": "cancel" })), json!({ "action": "cancel" }), 1),
    ] {
        let (heard, hook) = listening();
        let set = on(event.clone(), output).on(event.clone(), Matcher::new("demo").unwrap(), hook);
        let bench = bench(asking(), set);
        let user = Arc::new(User::default());
        let outcome = bench.runtime.call(Call::new("demo/form", json!({})).client(user.clone())).await;
        assert_eq!((outcome.into_result().unwrap(), *user.0.lock().unwrap()), (expected, asked));
        let told = heard.lock().unwrap().pop().unwrap();
        assert_eq!((&told["mcp_server_name"], &told["message"]), (&json!("demo"), &json!("Who are you?")));
        assert_eq!(told.get("action").is_some(), *event == after);
    }
}
