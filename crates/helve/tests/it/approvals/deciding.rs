//! What an approval is for, and who gives it.

use super::*;

#[tokio::test]
async fn an_approved_call_runs_once_and_the_next_asks_again() {
    let bench = Bench::new();
    let first = bench.ask(send("ada")).await;
    assert_eq!(bench.ask(send("ada")).await.approval_id, first.approval_id);
    let shown = bench.get(first.approval_id).await;
    assert_eq!(shown.arguments.get(), r#"{"text":"hi","to":"ada"}"#);
    assert_eq!((&*shown.tool, &*shown.caller), ("send", &*bot()));
    assert!(shown.marks.contains(&Mark::FirstUse) && shown.marks.contains(&Mark::Unlabelled), "{shown:?}");
    assert_eq!(shown.expires_at, shown.created_at + jiff::SignedDuration::from_hours(24));
    assert_eq!(bench.witness.seen(), Vec::<Value>::new());

    bench.approve(first.approval_id).await;
    let outcome = bench.runtime.call(send("ada")).await;
    assert!(outcome.is_success(), "{outcome:?}");
    assert_eq!(bench.witness.seen(), [json!({ "to": "ada", "text": "hi" })]);
    let used = bench.get(first.approval_id).await;
    assert_eq!((used.state, used.used_by), (ApprovalState::Used, Some(outcome.call_id)));

    let second = bench.ask(send("ada")).await;
    assert_ne!(second.approval_id, first.approval_id);
    assert!(!bench.get(second.approval_id).await.marks.contains(&Mark::FirstUse));
    assert_eq!(bench.witness.seen().len(), 1);
}

#[tokio::test]
async fn of_many_equal_calls_one_uses_the_approval() {
    let bench = Bench::new();
    let asked = bench.ask(send("ada")).await;
    bench.approve(asked.approval_id).await;
    let calls = (0..16).map(|_| bench.runtime.call(send("ada")));
    let outcomes = futures_util_join(calls).await;
    assert_eq!(outcomes.iter().filter(|outcome| outcome.is_success()).count(), 1);
    assert_eq!(bench.witness.seen().len(), 1);
}

async fn futures_util_join<F: Future<Output = Outcome> + Send>(
    calls: impl IntoIterator<Item = F>,
) -> Vec<Outcome> {
    let mut calls: Vec<_> = calls.into_iter().map(Box::pin).collect();
    let mut outcomes = Vec::new();
    std::future::poll_fn(|context| {
        calls.retain_mut(|call| match call.as_mut().poll(context) {
            std::task::Poll::Ready(outcome) => {
                outcomes.push(outcome);
                false
            }
            std::task::Poll::Pending => true,
        });
        if calls.is_empty() { std::task::Poll::Ready(()) } else { std::task::Poll::Pending }
    })
    .await;
    outcomes
}

#[tokio::test]
async fn an_approval_is_for_these_arguments_this_caller_and_this_tool() {
    let bench = Bench::new();
    let asked = bench.ask(send("ada")).await;
    bench.approve(asked.approval_id).await;
    // Swapped arguments, another agent, another session, another right: all ask for themselves.
    let others = [
        send("eve"),
        Call::new("send", json!({ "to": "ada", "text": "hi", "password": "" })).by(bot()),
        send("ada").by(Caller::agent("eve").session("s-1")),
        send("ada").by(Caller::agent("bot").session("s-2")),
        send("ada").by(Caller::agent("bot").session("s-1").granted(["*"])),
        send("ada").idempotency_key("k"),
    ];
    for other in others {
        assert_ne!(bench.ask(other).await.approval_id, asked.approval_id);
    }
    assert!(bench.witness.seen().is_empty());
    // A changed tool: what was approved is not what would run.
    let registry = bench.runtime.registry();
    let changed = bench.witness.tool("send").description("Sends it to everybody.").build().unwrap();
    registry.replace(Layer::Project, changed).unwrap();
    assert_ne!(bench.ask(send("ada")).await.approval_id, asked.approval_id);
    assert!(bench.witness.seen().is_empty());
    // Nothing of this has burnt it.
    registry.replace(Layer::Project, bench.witness.tool("send").build().unwrap()).unwrap();
    assert!(bench.runtime.call(send("ada")).await.is_success());
    assert_eq!(bench.witness.seen().len(), 1);
}

#[tokio::test]
async fn a_denied_call_is_told_why_and_not_asked_about_for_a_while() {
    let bench = Bench::new();
    let asked = bench.ask(send("ada")).await;
    bench.decide(asked.approval_id, Decision::deny("write to her by hand")).await.unwrap();
    let outcome = bench.runtime.call(send("ada")).await;
    assert_eq!(code(&outcome), "approval_denied");
    let message = outcome.error().unwrap().message();
    assert!(message.contains("by local user ada") && message.contains("write to her by hand"), "{message}");
    bench.clock.advance(Duration::from_secs(60));
    assert_eq!(code(&bench.runtime.call(send("ada")).await), "approval_denied");
    // Explicitly, or after a while.
    let again = bench.ask(send("ada").ask_again()).await;
    bench.decide(again.approval_id, Decision::deny("no")).await.unwrap();
    assert_eq!(code(&bench.runtime.call(send("ada")).await), "approval_denied");
    bench.clock.advance(Duration::from_secs(600));
    bench.ask(send("ada")).await;
    assert!(bench.witness.seen().is_empty());
}

#[tokio::test]
async fn what_nobody_decides_in_time_is_denied() {
    let bench = Bench::with(|tool| tool, |settings| settings.approvals.ttl = Duration::from_secs(60));
    let asked = bench.ask(send("ada")).await;
    bench.clock.advance(Duration::from_secs(60));
    let late = bench.decide(asked.approval_id, Decision::approve()).await;
    let Err(DecideError::Already(found)) = late else { panic!("{late:?}") };
    assert_eq!(found.state, ApprovalState::Expired);
    let outcome = bench.runtime.call(send("ada")).await;
    assert_eq!(code(&outcome), "approval_expired");
    // Told once; then it is asked anew. What was approved runs out too.
    let anew = bench.ask(send("ada")).await;
    bench.approve(anew.approval_id).await;
    bench.clock.advance(Duration::from_secs(60));
    assert_eq!(code(&bench.runtime.call(send("ada")).await), "approval_expired");
    assert!(bench.witness.seen().is_empty());
    let pending = bench.runtime.approvals().list(ApprovalQuery::pending()).await.unwrap();
    assert!(pending.is_empty());
}

#[tokio::test]
async fn the_second_decider_is_told_who_decided_what() {
    let bench = Bench::new();
    let id = bench.ask(send("ada")).await.approval_id;
    bench.decide(id, Decision::deny("not today")).await.unwrap();
    let eve = Decider::vouched("eve", Vouch::LocalUser);
    let late = bench.runtime.approvals().decide(id, Decision::approve(), &eve).await.unwrap_err();
    let said = late.to_string();
    assert!(said.contains("was denied by local user ada") && said.contains("not today"), "{said}");
    assert_eq!(bench.get(id).await.state, ApprovalState::Denied);
}

#[tokio::test]
async fn whoever_asks_cannot_decide() {
    let bench = Bench::new();
    let id = bench.ask(send("ada")).await.approval_id;
    let itself = Decider::vouched("bot", Vouch::Key);
    let refused = bench.runtime.approvals().decide(id, Decision::approve(), &itself).await;
    assert!(matches!(refused, Err(DecideError::OwnCall(_))), "{refused:?}");
    // Advice, the only thing that a call can say about itself, makes nothing laxer.
    let advised = send("ada").advised(helve::Advice::new(helve::AdvisedAction::Execute));
    assert_eq!(bench.ask(advised).await.approval_id, id);
    // Another caller learns nothing, and can take nothing back.
    let eve = Caller::agent("eve");
    let other = bench.runtime.outcome_of(id, &eve).await;
    assert!(matches!(other, Err(DecideError::NotFound(_))), "{other:?}");
    let other = bench.runtime.approvals().withdraw(id, &eve).await;
    assert!(matches!(other, Err(DecideError::NotFound(_))), "{other:?}");
    assert_eq!(bench.get(id).await.state, ApprovalState::Pending);
    bench.runtime.approvals().withdraw(id, &bot()).await.unwrap();
    let late = bench.decide(id, Decision::approve()).await;
    assert!(matches!(late, Err(DecideError::Already(_))), "{late:?}");
    assert!(bench.witness.seen().is_empty());
}

#[tokio::test]
async fn edited_arguments_are_validated_kept_beside_the_others_and_run() {
    let bench = Bench::new();
    let id = bench.ask(send("ada")).await.approval_id;
    let edit = |edited| Decision::Approve { edited: Some(edited), remember: None, reason: None };
    for (wrong, why) in [
        (json!({ "text": "hi" }), "to"),
        (json!({ "to": 5 }), "to"),
        (json!({ "to": "eve", "password": "hunter2!" }), "secret"),
        (json!(["eve"]), "do not fit"),
    ] {
        let refused = bench.decide(id, edit(wrong)).await;
        let Err(DecideError::Invalid(error)) = refused else { panic!("{refused:?}") };
        assert!(error.message().contains(why), "{error}");
    }
    assert_eq!(bench.get(id).await.state, ApprovalState::Pending);
    bench.decide(id, edit(json!({ "to": "eve", "text": "hi" }))).await.unwrap();
    let approval = bench.get(id).await;
    assert_eq!(approval.arguments.get(), r#"{"text":"hi","to":"ada"}"#);
    assert_eq!(approval.ruling.unwrap().edited.unwrap().get(), r#"{"text":"hi","to":"eve"}"#);
    assert_ne!(approval.granted, Some(approval.binding));
    // The caller repeats what it asked for, gets what was approved, and is told.
    let outcome = bench.runtime.call(send("ada")).await;
    assert!(outcome.is_success(), "{outcome:?}");
    assert_eq!(bench.witness.seen(), [json!({ "to": "eve", "text": "hi" })]);
    assert!(outcome.repairs[0].detail.contains(r#""to":"eve""#), "{outcome:?}");
    // Asking for the edited call outright is another call.
    bench.ask(send("eve")).await;
}

#[tokio::test]
async fn secrets_are_bound_but_not_shown() {
    let bench = Bench::new();
    let call = |password: &str| {
        Call::new("send", json!({ "to": "ada", "password": password })).by(bot()).advised(
            helve::Advice::new(helve::AdvisedAction::RequestApproval).because(format!("it is {password}")),
        )
    };
    let id = bench.ask(call("hunter2-hunter2")).await.approval_id;
    let shown = bench.get(id).await;
    assert!(shown.withheld);
    let all = format!("{shown:?} {:?}", bench.ledger.entries());
    assert!(!all.contains("hunter2-hunter2"), "{all}");
    let edit = Decision::Approve { edited: Some(json!({ "to": "eve" })), remember: None, reason: None };
    assert!(matches!(bench.decide(id, edit).await, Err(DecideError::Invalid(_))));
    let remember = Some(Remember { same: Same::Everything, ttl: None });
    let always = Decision::Approve { edited: None, remember, reason: None };
    assert!(matches!(bench.decide(id, always).await, Err(DecideError::Invalid(_))));
    bench.approve(id).await;
    assert_ne!(bench.ask(call("other-password")).await.approval_id, id);
    // Nobody but the caller has the secret.
    let fetched = bench.runtime.outcome_of(id, &bot()).await.unwrap();
    assert_eq!(code(&fetched), "permission_denied");
    assert!(bench.runtime.call(call("hunter2-hunter2")).await.is_success());
    assert_eq!(bench.witness.seen(), [json!({ "to": "ada", "password": "hunter2-hunter2" })]);
}
