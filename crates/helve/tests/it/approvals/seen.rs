//! What was approved is what goes out: a tool that sends a draft, which others can change at any time. What it sent is
//! the witness.

use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

use super::*;

/// A mail server with one draft, and what left it.
#[derive(Clone)]
struct Post(Arc<Mutex<Option<String>>>, Arc<Mutex<Vec<String>>>);

impl Default for Post {
    fn default() -> Self {
        Self(Arc::new(Mutex::new(Some("Hi Ada".to_owned()))), Arc::default())
    }
}

impl Post {
    fn draft(&self) -> Result<String, ToolError> {
        self.0.lock().unwrap().clone().ok_or_else(|| ToolError::failed("there is no draft `d-1`"))
    }

    fn write(&self, text: &str) {
        *self.0.lock().unwrap() = Some(text.to_owned());
    }

    fn sent(&self) -> Vec<String> {
        self.1.lock().unwrap().clone()
    }

    /// Sends the draft, if it is the one that was approved.
    fn tool(&self) -> ToolBuilder {
        let (post, shown) = (self.clone(), self.clone());
        Tool::builder("send")
            .description("Sends a draft.")
            .input_schema(json!({ "type": "object", "required": ["draft"], "properties": {
                "draft": { "type": "string" } } }))
            .risk(Risk::High)
            .preview_with(move |_, _| {
                let draft = shown.draft();
                async move {
                    let draft = draft?;
                    Ok(Preview::new(format!("To: ada\n\n{draft}")).with_fingerprint(fingerprint(&draft)))
                }
            })
            .handler(move |_, context| {
                let draft = post.draft();
                let sent = Arc::clone(&post.1);
                async move {
                    let draft = draft?;
                    context.still_approved(&fingerprint(&draft))?;
                    sent.lock().unwrap().push(draft);
                    Ok(json!("sent"))
                }
            })
    }

    fn runtime(&self, ledger: &Arc<VolatileLedger>) -> Runtime {
        Runtime::builder().ledger(ledger.clone()).tool(self.tool()).unwrap().build()
    }
}

fn fingerprint(draft: &str) -> String {
    helve::json::sha256_hex(draft.as_bytes())
}

fn send_draft() -> Call {
    Call::new("send", json!({ "draft": "d-1" })).by(bot())
}

async fn asked(runtime: &Runtime, call: Call) -> ApprovalId {
    match runtime.call(call).await.status {
        Status::Pending(pending) => pending.approval_id,
        other => panic!("{other:?}"),
    }
}

async fn approved(runtime: &Runtime, call: Call) -> ApprovalId {
    let id = asked(runtime, call).await;
    runtime.approvals().decide(id, Decision::approve(), &ada()).await.unwrap();
    id
}

fn post() -> (Post, Runtime) {
    let post = Post::default();
    let runtime = post.runtime(&Arc::new(VolatileLedger::default()));
    (post, runtime)
}

#[tokio::test]
async fn what_is_as_it_was_seen_goes_out_once() {
    let (post, runtime) = post();
    let id = approved(&runtime, send_draft()).await;
    let question = runtime.approvals().get(id).await.unwrap().unwrap();
    assert_eq!(question.fingerprint, Some(fingerprint("Hi Ada")));
    assert!(runtime.outcome_of(id, &bot()).await.unwrap().is_success());
    assert!(runtime.outcome_of(id, &bot()).await.unwrap().is_success());
    assert_eq!(post.sent(), ["Hi Ada"]);
}

#[tokio::test]
async fn what_has_changed_since_it_was_approved_does_not_go_out() {
    for comes_back in [true, false] {
        let (post, runtime) = post();
        let id = approved(&runtime, send_draft()).await;
        post.write("Wire the money to Eve");
        let refused = match comes_back {
            true => runtime.outcome_of(id, &bot()).await.unwrap(),
            false => runtime.call(send_draft()).await,
        };
        assert_eq!(code(&refused), "approval_stale");
        let error = refused.error().unwrap();
        assert!(error.message().starts_with("what was approved has changed: `send`"), "{error}");
        assert!(error.suggestions()[0].contains("a person is asked about it as it is now"), "{error:?}");
        assert!(error.did_nothing() && !error.may_have_happened() && !error.is_retryable());
        // Not even where it is changed back: that approval is gone, and a person is asked about what there is now.
        post.write("Hi Ada");
        assert_eq!(code(&runtime.outcome_of(id, &bot()).await.unwrap()), "approval_stale");
        assert_eq!(post.sent(), [""; 0]);
        let again = approved(&runtime, send_draft()).await;
        assert_ne!(again, id);
        assert!(runtime.call(send_draft()).await.is_success());
        assert_eq!(post.sent(), ["Hi Ada"]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_changes_while_a_caller_waits_does_not_go_out() {
    let (post, runtime) = post();
    let running = tokio::spawn({
        let (runtime, call) = (runtime.clone(), send_draft().wait_for_approval(Duration::from_secs(60)));
        async move { runtime.call(call).await }
    });
    let id = loop {
        if let [one] = &runtime.approvals().list(ApprovalQuery::pending()).await.unwrap()[..] {
            break one.id;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    };
    post.write("Something else");
    runtime.approvals().decide(id, Decision::approve(), &ada()).await.unwrap();
    assert_eq!(code(&running.await.unwrap()), "approval_stale");
    assert_eq!(post.sent(), [""; 0]);
}

#[tokio::test]
async fn a_question_about_what_has_changed_is_put_anew() {
    let (post, runtime) = post();
    let first = asked(&runtime, send_draft()).await;
    assert_eq!(asked(&runtime, send_draft()).await, first, "nothing has changed");
    post.write("Hi Bob");
    let second = asked(&runtime, send_draft()).await;
    assert_ne!(second, first);
    let old = runtime.approvals().get(first).await.unwrap().unwrap();
    assert_eq!(old.state, ApprovalState::Withdrawn);
    assert!(old.ruling.unwrap().reason.unwrap().contains("has changed"));
    let shown = runtime.approvals().get(second).await.unwrap().unwrap();
    assert_eq!(shown.preview.as_deref(), Some("To: ada\n\nHi Bob"));
    // And a refusal of one draft is none of the next.
    runtime.approvals().decide(second, Decision::deny("his name is Rob"), &ada()).await.unwrap();
    assert_eq!(code(&runtime.call(send_draft()).await), "approval_denied");
    post.write("Hi Rob");
    approved(&runtime, send_draft()).await;
    assert!(runtime.call(send_draft()).await.is_success());
    assert_eq!(post.sent(), ["Hi Rob"]);
}

#[tokio::test]
async fn where_nobody_was_asked_there_is_nothing_to_compare() {
    let (post, runtime) = post();
    let id = asked(&runtime, send_draft()).await;
    let remember = Some(Remember { same: Same::Everything, ttl: None });
    let decision = Decision::Approve { edited: None, remember, reason: None };
    runtime.approvals().decide(id, decision, &ada()).await.unwrap();
    post.write("Hi Bob");
    // By the rule, which a person made for whatever the draft says by then.
    assert!(runtime.call(send_draft()).await.is_success());
    assert_eq!(post.sent(), ["Hi Bob"]);
    // The approval itself is still for what was seen.
    assert_eq!(code(&runtime.outcome_of(id, &bot()).await.unwrap()), "approval_stale");
    assert_eq!(post.sent(), ["Hi Bob"]);
}

#[tokio::test]
async fn a_tool_is_told_by_which_approval_it_runs() {
    let told = Arc::new(Mutex::new(Vec::new()));
    let tell = Arc::clone(&told);
    let built = |risk: Risk| {
        let tell = Arc::clone(&tell);
        Tool::builder("send")
            .description("Sends.")
            .input_schema(json!({ "type": "object" }))
            .risk(risk)
            .handler(move |_, context: Context| {
                tell.lock().unwrap().push(context.approved().cloned());
                async { Ok(Value::Null) }
            })
    };
    let runtime = Runtime::builder().tool(built(Risk::High)).unwrap().build();
    let id = approved(&runtime, send_draft()).await;
    assert!(runtime.call(send_draft()).await.is_success());
    runtime.registry().replace(Layer::Project, built(Risk::Low).build().unwrap()).unwrap();
    assert!(runtime.call(send_draft()).await.is_success());
    let by = helve::Approved { approval_id: id, fingerprint: None };
    assert_eq!(*told.lock().unwrap(), [Some(by), None]);
}

/// What a preview does that cannot be made.
async fn broken(how: &'static str) -> Result<Preview, ToolError> {
    match how {
        "fails" => Err(ToolError::failed("there is no draft `d-1`")),
        "panics" => panic!("hidden"),
        "hangs" => std::future::pending().await,
        "no fingerprint" => Ok(Preview::new("x").with_fingerprint("")),
        long => Ok(Preview::new("x").with_fingerprint(long.repeat(300))),
    }
}

#[tokio::test]
async fn nobody_is_asked_about_what_cannot_be_shown() {
    for (how, expected) in [
        ("fails", "there is no draft `d-1`"),
        ("panics", "the tool's own code crashed"),
        ("hangs", "the tool took too long"),
        ("no fingerprint", "a defect in the tool"),
        ("x", "a defect in the tool"),
    ] {
        for is_instant in [false, true] {
            let post = Post::default();
            let settings =
                Settings { precondition_timeout: Duration::from_millis(50), ..Settings::default() };
            let tool = post.tool().preview_with(move |_, _| broken(how));
            let tool = if is_instant { tool.instant() } else { tool };
            let runtime = Runtime::builder().settings(settings).tool(tool).unwrap().build();
            let outcome = runtime.call(send_draft()).await;
            let error = outcome.error().unwrap();
            assert!(error.message().contains(expected) && error.did_nothing(), "{how}: {error}");
            assert!(runtime.approvals().list(ApprovalQuery::default()).await.unwrap().is_empty(), "{how}");
            assert_eq!(post.sent(), [""; 0]);
        }
    }
}

#[tokio::test]
async fn what_must_be_shown_has_the_time_of_the_call_itself() {
    let (post, settings) =
        (Post::default(), Settings { precondition_timeout: Duration::from_millis(1), ..Settings::default() });
    let slow = post.tool().timeout(Duration::from_secs(30)).preview_with(|_, _| async {
        tokio::time::sleep(Duration::from_millis(200)).await;
        Ok(Preview::new("a large file").with_fingerprint("f-1"))
    });
    let runtime = Runtime::builder().settings(settings).tool(slow).unwrap().build();
    let Status::Pending(pending) = runtime.call(send_draft()).await.status else {
        panic!("nobody was asked")
    };
    let shown = runtime.approvals().get(pending.approval_id).await.unwrap().unwrap();
    assert_eq!(shown.preview.as_deref(), Some("a large file"));
}

/// A handler that looks at its draft, and whose preview may fail without that ending the call.
struct Careless(Post);

impl Handler for Careless {
    fn call(&self, _: Value, context: Context) -> BoxFuture<'static, Result<Value, ToolError>> {
        let post = self.0.clone();
        Box::pin(async move {
            context.still_approved(&fingerprint(&post.draft()?))?;
            post.1.lock().unwrap().push(post.draft()?);
            Ok(Value::Null)
        })
    }

    fn preview(&self, _: &Value, _: Context) -> Option<BoxFuture<'static, Result<Preview, ToolError>>> {
        Some(Box::pin(async { Err(ToolError::failed("the server is away")) }))
    }
}

#[tokio::test]
async fn an_approval_of_what_nobody_saw_fits_nothing() {
    let post = Post::default();
    let tool = Tool::builder("send").description("Sends.").input_schema(json!({ "type": "object" }));
    let tool = tool.risk(Risk::High).shared_handler(Arc::new(Careless(post.clone())));
    let runtime = Runtime::builder().tool(tool).unwrap().build();
    approved(&runtime, send_draft()).await;
    assert_eq!(code(&runtime.call(send_draft()).await), "approval_stale");
    assert_eq!(post.sent(), [""; 0]);
}

#[tokio::test]
async fn arguments_are_not_edited_where_nobody_would_see_what_they_lead_to() {
    let (post, runtime) = post();
    let id = asked(&runtime, send_draft()).await;
    let edited = json!({ "draft": "d-2" });
    let checked = runtime.approvals().check_edit(id, edited.clone()).await;
    let decision = Decision::Approve { edited: Some(edited), remember: None, reason: None };
    let decided = runtime.approvals().decide(id, decision, &ada()).await;
    for refused in [checked.map(drop), decided.map(drop)] {
        let Err(DecideError::Invalid(error)) = refused else { panic!("{refused:?}") };
        assert!(error.message().contains("deny the call and say what to change"), "{error}");
    }
    assert!(!runtime.approvals().get(id).await.unwrap().unwrap().can_be_edited());
    // The question stands, and can be approved as it is.
    runtime.approvals().decide(id, Decision::approve(), &ada()).await.unwrap();
    assert!(runtime.call(send_draft()).await.is_success());
    assert_eq!(post.sent(), ["Hi Ada"]);
}

#[tokio::test]
async fn a_key_answers_with_what_became_of_the_call_though_its_draft_is_gone() {
    let (post, runtime) = post();
    let call = || send_draft().idempotency_key("mail-1");
    approved(&runtime, call()).await;
    let sent = runtime.call(call()).await;
    *post.0.lock().unwrap() = None;
    let repeated = runtime.call(call()).await;
    assert!(repeated.is_success(), "{repeated:?}");
    assert_eq!((repeated.replay_of, post.sent()), (Some(sent.call_id), vec!["Hi Ada".to_owned()]));
    // Without its key it is another call, about a draft that is not there.
    assert_eq!(code(&runtime.call(send_draft()).await), "execution_failed");
}

#[tokio::test]
async fn whoever_is_refused_under_a_key_is_told_to_take_another() {
    let (post, runtime) = post();
    approved(&runtime, send_draft().idempotency_key("mail-1")).await;
    post.write("Hi Bob");
    let refused = runtime.call(send_draft().idempotency_key("mail-1")).await;
    assert_eq!(code(&refused), "approval_stale");
    assert!(refused.error().unwrap().suggestions()[0].contains("new idempotency key"), "{refused:?}");
    approved(&runtime, send_draft().idempotency_key("mail-2")).await;
    assert!(runtime.call(send_draft().idempotency_key("mail-2")).await.is_success());
    assert_eq!(post.sent(), ["Hi Bob"]);
}

#[tokio::test]
async fn a_part_of_a_run_is_held_to_what_was_seen_too() {
    for changes in [false, true] {
        let (post, runtime) = post();
        let trip = compose::sequence("trip").step(Step::of("send").arguments(json!({ "draft": "d-1" })));
        let trip = trip.description("A trip.").on_error(OnError::Stop).build(runtime.registry()).unwrap();
        runtime.registry().register(Layer::Project, trip).unwrap();
        let outcome = runtime.call(Call::new("trip", json!({})).by(bot())).await;
        let Status::Pending(pending) = outcome.status else { panic!("{outcome:?}") };
        runtime.approvals().decide(pending.approval_id, Decision::approve(), &ada()).await.unwrap();
        if changes {
            post.write("Hi Bob");
        }
        let ended = runtime.outcome_of(pending.approval_id, &bot()).await.unwrap();
        match changes {
            false => assert!(ended.is_success(), "{ended:?}"),
            true => assert_eq!(code(&ended), "approval_stale", "{ended:?}"),
        }
        assert_eq!(post.sent(), if changes { vec![] } else { vec!["Hi Ada"] });
    }
}

/// The process dies after the start of an approved call, before the tool has looked at its draft.
#[tokio::test]
async fn a_call_that_is_taken_up_after_a_crash_is_still_held_to_what_was_seen() {
    for changes in [false, true] {
        let (post, ledger) = (Post::default(), Arc::new(VolatileLedger::default()));
        let is_dead = Arc::new(AtomicBool::new(false));
        let (dead, begun) = (Arc::clone(&is_dead), Arc::new(tokio::sync::Notify::new()));
        let fault = move |_| match dead.load(SeqCst) {
            true => Err(helve::ports::JournalError::new("the process is gone")),
            false => Ok(()),
        };
        let faulty = Arc::new(FaultyLedger::new(ledger.clone(), Arc::new(fault)));
        let hangs = {
            let begun = Arc::clone(&begun);
            post.tool().idempotent().handler(move |_, _| {
                begun.notify_one();
                std::future::pending()
            })
        };
        let dying = Runtime::builder().ledger(faulty).tool(hangs).unwrap().build();
        approved(&dying, send_draft()).await;
        let calling = tokio::spawn(async move { dying.call(send_draft()).await });
        begun.notified().await;
        is_dead.store(true, SeqCst);
        calling.abort();
        assert!(calling.await.is_err());
        ledger.abandon_runs();
        if changes {
            post.write("Hi Bob");
        }
        let tool = post.tool().idempotent();
        let survivor = Runtime::builder().ledger(ledger.clone()).tool(tool).unwrap().build();
        let recovered = survivor.recover().await.unwrap();
        let [one] = &recovered[..] else { panic!("{recovered:?}") };
        let Resumption::Ended(outcome) = &one.resumption else { panic!("{one:?}") };
        match changes {
            false => assert!(outcome.is_success(), "{outcome:?}"),
            true => assert_eq!(code(outcome), "approval_stale", "{outcome:?}"),
        }
        assert_eq!(post.sent(), if changes { vec![] } else { vec!["Hi Ada"] });
        assert!(ledger.open_runs(None, 1).await.unwrap().is_empty());
    }
}
