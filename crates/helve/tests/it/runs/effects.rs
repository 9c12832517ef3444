//! Effects, applied and taken back.

use super::*;

#[tokio::test]
async fn effects_are_taken_back_in_reverse_when_one_fails_and_the_outcome_says_all() {
    let world = World::default();
    let ledger = Arc::new(VolatileLedger::default());
    let notice =
        Change::Notification { event: "order:placed".to_owned(), on: TellOn::Success, payload: None };
    let order = world
        .act("order")
        .effect(count_up(true))
        .effect(Effect::new("tells", notice))
        .effect(cascade("pack"))
        .effect(cascade("broken"))
        .effect(count_up(true));
    let tools = [order, failing("broken")].into_iter().chain(world.doable("pack"));
    let runtime = runtime(ledger.clone(), tools, Settings::default());
    let outcome = runtime.call(Call::new("order", json!({}))).await;
    assert_eq!(code(&outcome), "effect_failed");
    assert_eq!(world.done(), ["order", "pack", "unpack"]);
    assert_eq!(orders(&*ledger).await, json!(null));
    let states: Vec<_> = outcome.effects.iter().map(|effect| effect.state).collect();
    assert_eq!(
        states,
        [
            EffectState::RolledBack,
            EffectState::Applied,
            EffectState::RolledBack,
            EffectState::Failed,
            EffectState::NotReached
        ]
    );
    let message = outcome.error().unwrap().message();
    assert!(message.contains("“tells”") && message.contains("“counts orders”"), "{message}");
}

#[tokio::test]
async fn a_rollback_that_fails_is_recorded_and_the_others_go_on() {
    let world = World::default();
    let ledger = Arc::new(VolatileLedger::default());
    // The last cascade changes the state after the effect did.
    let meddle = Tool::builder("meddle").description("Meddles.").handler(|_, context| async move {
        let change = helve::memory::MemoryChange::new(helve::memory::Operation::Write(json!("mine")));
        context.memory().change(MemoryScope::ShortTerm, "url", change).await.unwrap();
        Ok(json!(null))
    });
    let set_url = Change::StateChange {
        state: Template::literal(json!("url")),
        change: StateOperation::Set,
        value: Some(Template::literal(json!("new"))),
        scope: MemoryScope::ShortTerm,
    };
    let go = world
        .act("go")
        .effect(count_up(true))
        .effect(Effect::new("sets the url", set_url).reversible())
        .effect(cascade("meddle"))
        .effect(cascade("broken"));
    let runtime = runtime(ledger.clone(), [go, meddle, failing("broken")], Settings::default());
    let outcome = runtime.call(Call::new("go", json!({}))).await;
    let states: Vec<_> = outcome.effects.iter().map(|effect| effect.state).collect();
    assert_eq!(states[..2], [EffectState::RolledBack, EffectState::RollbackFailed]);
    assert_eq!(orders(&*ledger).await, json!(null));
    let failed = ledger.entries().into_iter().any(|entry| {
        matches!(entry, helve::record::Entry::Step(step) if step.kind == StepKind::RollbackFailed { index: 1 })
    });
    assert!(failed);
}

#[tokio::test]
async fn a_part_whose_effect_failed_is_undone_with_its_saga() {
    let world = World::default();
    let [order, unorder] = world.doable("order");
    let tools = [order.effect(cascade("pack")).effect(cascade("broken")), unorder, failing("broken")];
    let tools = tools.into_iter().chain(world.doable("pack")).chain(world.doable("write"));
    let runtime = runtime(Arc::new(VolatileLedger::default()), tools, Settings::default());
    sequence(&runtime, "saga", &["write", "order"], OnError::Undo);
    let outcome = runtime.call(Call::new("saga", json!({}))).await;
    assert_eq!(code(&outcome), "effect_failed");
    assert_eq!(world.done(), ["write", "order", "pack", "unpack", "unorder", "unwrite"]);
    // The same without a saga: what stands is undone when somebody asks.
    let alone = runtime.call(Call::new("order", json!({}))).await;
    assert_eq!(code(&alone), "effect_failed");
    assert_eq!(world.count("unorder"), 1);
    let undone = runtime.undo_run(alone.call_id, Caller::local()).await.unwrap();
    assert!(undone.is_success(), "{undone:?}");
    assert_eq!((world.count("unorder"), world.count("unpack")), (2, 2));
}

#[tokio::test]
async fn what_a_part_set_off_is_undone_once() {
    let world = World::default();
    let [order, unorder] = world.doable("order");
    let tools = [order.effect(cascade("pack")), unorder, failing("broken")];
    let tools = tools.into_iter().chain(world.doable("pack"));
    let runtime = runtime(Arc::new(VolatileLedger::default()), tools, Settings::default());
    sequence(&runtime, "saga", &["order", "broken"], OnError::Undo);
    runtime.call(Call::new("saga", json!({}))).await;
    assert_eq!(world.done(), ["order", "pack", "unpack", "unorder"]);
    let alone = runtime.call(Call::new("order", json!({}))).await;
    assert!(alone.is_success());
    runtime.undo_run(alone.call_id, Caller::local()).await.unwrap();
    assert_eq!((world.count("unpack"), world.count("unorder")), (2, 2));
}

#[tokio::test]
async fn effects_that_go_in_a_circle_are_stopped() {
    let world = World::default();
    let tools = [
        world.act("a").effect(cascade("b")),
        world.act("b").effect(cascade("c")),
        world.act("c").effect(cascade("a")),
    ];
    let runtime = runtime(Arc::new(VolatileLedger::default()), tools, Settings::default());
    let outcome = runtime.call(Call::new("a", json!({}))).await;
    assert_eq!(code(&outcome), "effect_failed");
    assert_eq!(world.done(), ["a", "b", "c"]);
    assert!(outcome.error().unwrap().message().contains("`a` → `b` → `c` → `a`"), "{outcome:?}");
}

/// Appends to a list and keeps the last ones, made from the former value.
fn appends(keep: usize) -> Effect {
    let value = format!("{{{{ ((former or []) + [{{'page': arguments.page}}])[-{keep}:] }}}}");
    let change = Change::Memory {
        scope: MemoryScope::ShortTerm,
        operation: MemoryOperation::Write,
        key: Template::literal(json!("orders")),
        value: Some(Template::parse(json!(value)).unwrap()),
        ttl_ms: None,
    };
    Effect::new("remembers the page", change).reversible()
}

#[tokio::test]
async fn a_change_made_from_the_former_value_appends_and_is_taken_back() {
    let world = World::default();
    let ledger = Arc::new(VolatileLedger::default());
    let tools = [
        world.act("open").effect(appends(3)),
        world.act("open-badly").effect(appends(3)).effect(cascade("broken")),
        failing("broken"),
    ];
    let runtime = runtime(ledger.clone(), tools, Settings::default());
    let open = async |tool: &str, page: u32| runtime.call(Call::new(tool, json!({ "page": page }))).await;
    let pages = |pages: &[u32]| pages.iter().map(|page| json!({ "page": page })).collect::<Value>();
    let first = open("open", 1).await;
    assert!(first.is_success(), "{first:?}");
    assert_eq!(orders(&*ledger).await, pages(&[1]), "a value is made where there was none");
    for page in 2..=4 {
        assert!(open("open", page).await.is_success());
    }
    assert_eq!(orders(&*ledger).await, pages(&[2, 3, 4]));
    assert_eq!(code(&open("open-badly", 5).await), "effect_failed");
    assert_eq!(orders(&*ledger).await, pages(&[2, 3, 4]), "what fell off the end is back");
    let last = open("open", 6).await;
    assert_eq!(orders(&*ledger).await, pages(&[3, 4, 6]));
    runtime.undo_run(last.call_id, Caller::local()).await.unwrap();
    assert_eq!(orders(&*ledger).await, pages(&[2, 3, 4]));
}

#[tokio::test]
async fn changes_made_from_the_former_value_at_once_lose_none() {
    let world = World::default();
    let ledger = Arc::new(VolatileLedger::default());
    let runtime = runtime(ledger.clone(), [world.act("open").effect(appends(100))], Settings::default());
    let calls = (0..16).map(|page| runtime.call(Call::new("open", json!({ "page": page }))));
    for outcome in futures_util::future::join_all(calls).await {
        assert!(outcome.is_success(), "{outcome:?}");
    }
    let found = orders(&*ledger).await;
    let pages: std::collections::BTreeSet<_> =
        found.as_array().unwrap().iter().map(|one| one["page"].as_u64().unwrap()).collect();
    assert_eq!(pages, (0..16).collect());
}

#[tokio::test]
async fn a_tool_whose_cascade_or_undo_is_not_there_does_not_run() {
    let world = World::default();
    let [write, unwrite] = world.doable("write");
    let tools = [write, world.act("note").effect(cascade("gone"))];
    let runtime = runtime(Arc::new(VolatileLedger::default()), tools, Settings::default());
    for (tool, absent) in [("write", "`unwrite`"), ("note", "`gone`")] {
        let outcome = runtime.call(Call::new(tool, json!({}))).await;
        assert_eq!(code(&outcome), "precondition_failed");
        assert!(outcome.error().unwrap().message().contains(absent), "{outcome:?}");
    }
    assert_eq!(world.done(), [""; 0]);
    runtime.registry().register(helve::Layer::Project, unwrite.build().unwrap()).unwrap();
    assert!(runtime.call(Call::new("write", json!({}))).await.is_success(), "it came later");
}

#[test]
fn what_can_never_be_applied_or_undone_is_refused_with_its_tool() {
    let note = || World::default().act("note").alias("jot");
    let undo = |tool: &str| Undo::Tool { tool: tool.to_owned(), arguments: Template::literal(json!({})) };
    let memory = |key: &str| Change::Memory {
        scope: MemoryScope::ShortTerm,
        operation: MemoryOperation::Write,
        key: Template::parse(json!(key)).unwrap(),
        value: None,
        ttl_ms: None,
    };
    let count = |value: Value| Change::StateChange {
        state: Template::literal(json!("orders")),
        change: StateOperation::Increment,
        value: Some(Template::parse(value).unwrap()),
        scope: MemoryScope::ShortTerm,
    };
    let refused = [
        (note().undo(undo("note")), "cannot undo itself"),
        (note().undo(undo("jot")), "cannot undo itself"),
        (note().effect(Effect::new("It is kept", memory("helve/own"))), "the runtime's own"),
        (note().effect(Effect::new("It counts", count(json!("many")))), "only a number"),
    ];
    for (tool, why) in refused {
        let error = tool.build().unwrap_err().to_string();
        assert!(error.contains(why), "{error}");
    }
    for value in [json!(2), json!("{{ 1 + 1 }}"), json!("{{ result.many }}")] {
        note().effect(Effect::new("It counts", count(value))).build().unwrap();
    }
}

/// What was told since, as name and payload.
async fn told(heard: &mut helve::Subscription) -> Vec<(String, Value)> {
    let mut told = Vec::new();
    while let Ok(Some(delivery)) =
        tokio::time::timeout(std::time::Duration::from_millis(50), heard.next()).await
    {
        if let helve::Delivery::Event(event) = delivery
            && let helve::event::EventKind::Notification { event, payload, .. } = &event.kind
        {
            told.push((event.clone(), payload.clone()));
        }
    }
    told
}

#[tokio::test]
async fn somebody_can_be_told_of_a_failure_alone() {
    let notice = |event: &str, on: TellOn, payload: Option<Value>| {
        let payload = payload.map(|payload| Template::parse(payload).unwrap());
        Effect::new(event, Change::Notification { event: event.to_owned(), on, payload })
    };
    let api = Tool::builder("api")
        .description("Works or not.")
        .input_schema(json!({ "type": "object", "properties": { "works": { "type": "boolean" }, "key": { "type": "string" } } }))
        .effect(notice("api:ok", TellOn::Success, None))
        .effect(notice("api:error", TellOn::Failure, Some(json!({ "code": "{{ error.tool_code }}", "of": "{{ arguments.works }}" }))))
        .effect(notice("api:done", TellOn::End, None))
        .effect(
            notice("api:network", TellOn::Failure, None)
                .when(helve::expression::Expression::parse("error.code == 'network'").unwrap()),
        )
        .effect(count_up(true))
        .handler(|arguments, _| async move {
            match arguments["works"].as_bool() {
                Some(true) => Ok(json!("fine")),
                _ => Err(ToolError::unrecoverable("API_DOWN", "it is down")),
            }
        });
    let ledger = Arc::new(VolatileLedger::default());
    let runtime = runtime(ledger.clone(), [api], Settings::default());
    let mut heard = runtime.subscribe();
    let failed = runtime.call(Call::new("api", json!({ "works": false }))).await;
    assert_eq!(code(&failed), "execution_failed");
    let states: Vec<_> = failed.effects.iter().map(|effect| effect.state).collect();
    assert_eq!(
        states,
        [
            EffectState::NotReached,
            EffectState::Applied,
            EffectState::Applied,
            EffectState::Skipped,
            EffectState::NotReached
        ]
    );
    let events = told(&mut heard).await;
    assert_eq!(events[0], ("api:error".to_owned(), json!({ "code": "API_DOWN", "of": false })));
    assert_eq!((events[1].0.as_str(), &events[1].1["message"]), ("api:done", &json!("it is down")));
    assert_eq!(events.len(), 2);
    assert_eq!(orders(&*ledger).await, json!(null), "a failure changes nothing else");

    assert!(runtime.call(Call::new("api", json!({ "works": true }))).await.is_success());
    let names: Vec<_> = told(&mut heard).await.into_iter().map(|(event, _)| event).collect();
    assert_eq!(names, ["api:ok", "api:done"]);
    assert_eq!(orders(&*ledger).await, json!(1));
}

#[tokio::test]
async fn an_error_that_is_to_be_told_says_nothing_secret_and_may_be_a_result_or_a_broken_promise() {
    let notice = || {
        let change = Change::Notification { event: "bad".to_owned(), on: TellOn::Failure, payload: None };
        Effect::new("tells", change)
    };
    let leaks = Tool::builder("leaks")
        .description("Repeats a secret.")
        .parameter(helve::Parameter::required("password", helve::ParameterType::String, "Secret"))
        .effect(notice())
        .handler(
            |arguments, _| async move { Err(ToolError::failed(format!("no: {}", arguments["password"]))) },
        );
    let returns = failing("returns").failure_mode(helve::FailureMode::Return).effect(notice());
    let breaks = Tool::builder("breaks")
        .description("Promises text.")
        .output_schema(json!({ "type": "string" }))
        .effect(notice())
        .handler(|_, _| async { Ok(json!(1)) });
    let runtime = runtime(Arc::new(VolatileLedger::default()), [leaks, returns, breaks], Settings::default());
    let mut heard = runtime.subscribe();
    runtime.call(Call::new("leaks", json!({ "password": "hunter2-hunter2" }))).await;
    let events = told(&mut heard).await;
    assert_eq!(events.len(), 1);
    assert!(!events[0].1.to_string().contains("hunter2"), "{events:?}");
    runtime.call(Call::new("returns", json!({}))).await;
    assert!(told(&mut heard).await[0].1["message"].is_string());
    runtime.call(Call::new("breaks", json!({}))).await;
    assert_eq!(told(&mut heard).await[0].1["code"], "output_invalid");
    // What was never run has not failed.
    runtime.call(Call::new("leaks", json!({ "password": 5, "more": [] }))).await;
    assert!(told(&mut heard).await.is_empty());
}
