//! Questions to people: what is asked, who decides, and what runs then. The tool itself is the
//! witness: what matters is what it was given, and how often.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use helve::approval::{Mark, Same};
use helve::approvals::{DecideError, Decider, Decision, Remember, Vouch};
use helve::compose::{self, OnError, Step};
use helve::ports::{Clock, Ledger, Runs};
use helve::record::Entry;
use helve::run::StepKind;
use helve::runs::TakenUp;
use helve::{
    Approval, ApprovalId, ApprovalQuery, ApprovalState, BoxFuture, Call, Caller, Context, Handler, Layer,
    Outcome, Pending, Risk, Runtime, Settings, Status, Tool, ToolBuilder, ToolError, VolatileLedger,
};
use helve_testkit::{Boundary, FaultyLedger, ManualClock};
use serde_json::{Value, json};

use crate::support::code;

/// What a tool was given, each time it ran.
#[derive(Clone, Default)]
struct Witness(Arc<Mutex<Vec<Value>>>);

impl Witness {
    fn seen(&self) -> Vec<Value> {
        self.0.lock().unwrap().clone()
    }

    fn tool(&self, name: &str) -> ToolBuilder {
        let witness = self.clone();
        Tool::builder(name)
            .description("Sends something to somebody.")
            .input_schema(json!({ "type": "object", "required": ["to"], "properties": {
                "to": { "type": "string" }, "text": { "type": "string" }, "password": { "type": "string" } } }))
            .risk(Risk::High)
            .handler(move |arguments, _| {
                witness.0.lock().unwrap().push(arguments);
                async move { Ok(json!("sent")) }
            })
    }
}

struct Bench {
    runtime: Runtime,
    ledger: Arc<VolatileLedger>,
    clock: Arc<ManualClock>,
    witness: Witness,
}

impl Bench {
    fn new() -> Self {
        Self::with(|tool| tool, |_| {})
    }

    fn with(change: impl Fn(ToolBuilder) -> ToolBuilder, set: impl FnOnce(&mut Settings)) -> Self {
        let (clock, witness) = (Arc::new(ManualClock::default()), Witness::default());
        let ledger = Arc::new(VolatileLedger::new(clock.clone(), Default::default()));
        let mut settings = Settings::default();
        set(&mut settings);
        let runtime = Runtime::builder()
            .ledger(ledger.clone())
            .clock(clock.clone())
            .settings(settings)
            .tool(change(witness.tool("send")))
            .unwrap()
            .build();
        Self { runtime, ledger, clock, witness }
    }

    async fn ask(&self, call: Call) -> Pending {
        let outcome = self.runtime.call(call).await;
        match outcome.status {
            Status::Pending(pending) => pending,
            other => panic!("{other:?}"),
        }
    }

    async fn decide(&self, id: ApprovalId, decision: Decision) -> Result<Approval, DecideError> {
        self.runtime.approvals().decide(id, decision, &ada()).await
    }

    async fn approve(&self, id: ApprovalId) {
        self.decide(id, Decision::approve()).await.unwrap();
    }

    async fn get(&self, id: ApprovalId) -> Approval {
        self.runtime.approvals().get(id).await.unwrap().unwrap()
    }
}

fn ada() -> Decider {
    Decider::vouched("ada", Vouch::LocalUser)
}

fn bot() -> Arc<Caller> {
    Arc::new(Caller::agent("bot").session("s-1"))
}

fn send(to: &str) -> Call {
    Call::new("send", json!({ "to": to, "text": "hi" })).by(bot())
}

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

const DAY: jiff::SignedDuration = jiff::SignedDuration::from_hours(24);

#[tokio::test]
async fn a_clock_that_jumps_by_a_day_neither_lengthens_a_question_nor_revives_one() {
    let bench = Bench::new();
    let began = bench.clock.now();
    let waiting = bench.ask(send("ada")).await.approval_id;
    let granted = bench.ask(send("ben")).await.approval_id;
    bench.approve(granted).await;
    bench.clock.set(began - DAY);
    let late = bench.decide(waiting, Decision::approve()).await;
    assert!(matches!(late, Err(DecideError::Already(_))), "{late:?}");
    for to in ["ada", "ben"] {
        assert_eq!(code(&bench.runtime.call(send(to)).await), "approval_expired", "{to}");
    }
    // From here on it is as on any other day.
    let anew = bench.ask(send("ada")).await.approval_id;
    bench.approve(anew).await;
    bench.clock.set(began + DAY);
    assert_eq!(code(&bench.runtime.call(send("ada")).await), "approval_expired");
    for time in [began - DAY, began - DAY / 2] {
        bench.clock.set(time);
        bench.ask(send("ada")).await;
        assert_eq!(bench.get(anew).await.state, ApprovalState::Expired);
    }
    assert_eq!(bench.witness.seen(), Vec::<Value>::new());
}

#[tokio::test]
async fn a_clock_that_jumps_by_a_day_runs_no_key_twice_and_frees_no_limit() {
    let bench = Bench::with(|tool| tool.risk(Risk::Low), |_| {});
    let began = bench.clock.now();
    for time in [began, began - DAY, began + DAY] {
        bench.clock.set(time);
        assert!(bench.runtime.call(send("ada").idempotency_key("k")).await.is_success());
    }
    assert_eq!(bench.witness.seen().len(), 1);
    let rule = helve::limit::LimitRule::for_tools("send").rate("1/1h".parse().unwrap());
    let bench = Bench::with(|tool| tool.risk(Risk::Low), |settings| settings.limits = vec![rule]);
    assert!(bench.runtime.call(send("ada")).await.is_success());
    for time in [began, began - DAY, began + DAY] {
        bench.clock.set(time);
        assert_eq!(code(&bench.runtime.call(send("ben")).await), "rate_limit");
    }
    assert_eq!(bench.witness.seen().len(), 1);
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

#[tokio::test]
async fn always_for_this_session_is_narrow_listed_and_revoked() {
    let bench = Bench::new();
    let id = bench.ask(send("ada")).await.approval_id;
    let remember = Some(Remember { same: Same::Fields(vec!["/to".to_owned()]), ttl: None });
    let decision = Decision::Approve { edited: None, remember, reason: Some("she knows".to_owned()) };
    bench.decide(id, decision).await.unwrap();
    assert!(bench.runtime.call(send("ada")).await.is_success(), "the approval itself");
    let like = Call::new("send", json!({ "to": "ada", "text": "again" })).by(bot());
    let outcome = bench.runtime.call(like.clone()).await;
    assert!(outcome.is_success(), "{outcome:?}");
    let rules = bench.runtime.approvals().rules(10).await.unwrap();
    assert_eq!((rules.len(), rules[0].session.as_deref()), (1, Some("s-1")));
    let told = |entry: &Entry| {
        matches!(entry, Entry::Step(step)
            if step.kind == StepKind::RuleUsed { rule_id: rules[0].id } && step.call_id == outcome.call_id)
    };
    assert!(bench.ledger.entries().iter().any(told));
    // Neither for others, nor for anything else, nor where the agent itself wants to be asked.
    bench.ask(send("eve")).await;
    bench.ask(like.clone().by(Caller::agent("bot").session("s-2"))).await;
    bench.ask(like.clone().by(Caller::agent("eve").session("s-1"))).await;
    let asking = helve::Advice::new(helve::AdvisedAction::RequestApproval);
    bench.ask(like.clone().advised(asking)).await;
    assert_eq!(bench.witness.seen().len(), 2);
    let revoked = bench.runtime.approvals().revoke(rules[0].id, &ada()).await.unwrap();
    assert_eq!(revoked.unwrap().revoked_by.as_deref(), Some("local user ada"));
    bench.ask(like).await;
    assert_eq!(bench.witness.seen().len(), 2);
}

#[tokio::test]
async fn a_rule_ends_with_its_time_and_with_the_tool() {
    let bench = Bench::new();
    let id = bench.ask(send("ada")).await.approval_id;
    let remember = Some(Remember { same: Same::Fields(Vec::new()), ttl: Some(Duration::from_secs(60)) });
    bench.decide(id, Decision::Approve { edited: None, remember, reason: None }).await.unwrap();
    assert!(bench.runtime.call(send("eve")).await.is_success(), "any arguments");
    let changed = bench.witness.tool("send").description("Sends it to everybody.").build().unwrap();
    bench.runtime.registry().replace(Layer::Project, changed).unwrap();
    bench.ask(send("eve")).await;
    bench.runtime.registry().replace(Layer::Project, bench.witness.tool("send").build().unwrap()).unwrap();
    assert!(bench.runtime.call(send("eve")).await.is_success());
    bench.clock.advance(Duration::from_secs(60));
    bench.ask(send("eve")).await;
    assert_eq!(bench.witness.seen().len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_waiting_call_goes_on_as_soon_as_it_is_decided() {
    let bench = Arc::new(Bench::new());
    let waiting = |to: &'static str| {
        let runtime = bench.runtime.clone();
        tokio::spawn(async move { runtime.call(send(to).wait_for_approval(Duration::from_secs(60))).await })
    };
    let asked = async |count: usize| loop {
        let found = bench.runtime.approvals().list(ApprovalQuery::pending()).await.unwrap();
        if found.len() == count {
            return found;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    };
    let (good, bad) = (waiting("ada"), waiting("eve"));
    for approval in asked(2).await {
        let decision = match approval.arguments.get().contains("ada") {
            true => Decision::approve(),
            false => Decision::deny("not her"),
        };
        bench.decide(approval.id, decision).await.unwrap();
    }
    assert!(good.await.unwrap().is_success());
    assert_eq!(code(&bad.await.unwrap()), "approval_denied");
    assert_eq!(bench.witness.seen(), [json!({ "to": "ada", "text": "hi" })]);
    // Taken back by the caller while it waits: it is not asked again.
    let gone = waiting("bob");
    let asked_bob = asked(1).await;
    bench.runtime.approvals().withdraw(asked_bob[0].id, &bot()).await.unwrap();
    assert_eq!(code(&gone.await.unwrap()), "cancelled");
    assert!(asked(0).await.is_empty());
    // Time is up: it is pending as if it had not waited.
    let outcome = bench.runtime.call(send("tom").wait_for_approval(Duration::from_millis(20))).await;
    assert!(matches!(outcome.status, Status::Pending(_)), "{outcome:?}");
    // Taken back: the question stands.
    let token = tokio_util::sync::CancellationToken::new();
    token.cancel();
    let call = send("tim").wait_for_approval(Duration::from_secs(60)).cancellation(token);
    assert_eq!(code(&bench.runtime.call(call).await), "cancelled");
    assert_eq!(asked(2).await.len(), 2);
}

#[tokio::test]
async fn outcomes_are_fetched_by_id_and_the_call_runs_once() {
    let bench = Bench::new();
    let id = bench.ask(send("ada")).await.approval_id;
    let fetch = async || bench.runtime.outcome_of(id, &bot()).await.unwrap();
    assert!(matches!(fetch().await.status, Status::Pending(_)));
    bench.approve(id).await;
    let first = fetch().await;
    assert!(first.is_success(), "{first:?}");
    let second = fetch().await;
    assert_eq!((second.call_id, second.into_result().unwrap()), (first.call_id, json!("sent")));
    assert_eq!(bench.witness.seen().len(), 1);
}

#[tokio::test]
async fn a_key_that_has_run_is_not_asked_about_again() {
    let bench = Bench::new();
    let call = || send("ada").idempotency_key("order-17");
    let id = bench.ask(call()).await.approval_id;
    bench.approve(id).await;
    let first = bench.runtime.call(call()).await;
    assert!(first.is_success(), "{first:?}");
    let again = bench.runtime.call(call()).await;
    assert_eq!((again.replay_of, again.is_success()), (Some(first.call_id), true), "{again:?}");
    assert_eq!(bench.witness.seen().len(), 1);
}

#[tokio::test]
async fn reading_too_uses_its_approval_up_before_it_starts() {
    let bench = Bench::with(|tool| tool.read_only(), |_| {});
    let id = bench.ask(send("ada")).await.approval_id;
    bench.approve(id).await;
    let outcome = bench.runtime.call(send("ada")).await;
    assert!(outcome.is_success(), "{outcome:?}");
    assert_eq!(bench.get(id).await.used_by, Some(outcome.call_id));
    let entries = bench.ledger.entries();
    let used = |entry: &Entry| matches!(entry, Entry::Started(started) if started.grant.is_some());
    let ended = |entry: &Entry| matches!(entry, Entry::Finished(finished) if finished.facts.call_id == outcome.call_id);
    assert!(entries.iter().position(used) < entries.iter().position(ended));
    assert!(bench.ledger.open_runs(None, 10).await.unwrap().is_empty());
    bench.ask(send("ada")).await;
}

#[tokio::test]
async fn questions_and_decisions_are_in_the_journal() {
    let bench = Bench::new();
    let ids = [bench.ask(send("ada")).await.approval_id, bench.ask(send("eve")).await.approval_id];
    bench.approve(ids[0]).await;
    bench.decide(ids[1], Decision::deny("not her")).await.unwrap();
    let steps: Vec<_> = bench
        .ledger
        .entries()
        .into_iter()
        .filter_map(|entry| match entry {
            Entry::Step(step) => Some((step.kind, step.payload.unwrap().get().to_owned())),
            Entry::Started(_) | Entry::Finished(_) => None,
        })
        .collect();
    let by = Some("local user ada".to_owned());
    let decided = |approval_id, decision| StepKind::Decided { approval_id, decision, by: by.clone() };
    let kinds: Vec<_> = steps.iter().map(|(kind, _)| kind.clone()).collect();
    assert_eq!(
        kinds,
        [
            StepKind::Asked { approval_id: ids[0] },
            StepKind::Asked { approval_id: ids[1] },
            decided(ids[0], ApprovalState::Approved),
            decided(ids[1], ApprovalState::Denied),
        ]
    );
    assert!(steps[0].1.contains("is of high risk") && steps[3].1.contains("not her"), "{steps:?}");
}

#[tokio::test]
async fn a_ledger_that_refuses_means_no() {
    for allowed in 0..6 {
        let witness = Witness::default();
        let inner: Arc<dyn Ledger> = Arc::new(VolatileLedger::default());
        let build = |ledger: Arc<dyn Ledger>| {
            Runtime::builder().ledger(ledger).tool(witness.tool("send")).unwrap().build()
        };
        let faulty = build(Arc::new(FaultyLedger::failing_after(inner.clone(), allowed)));
        let asked = faulty.call(send("ada")).await;
        let Status::Pending(pending) = asked.status else {
            assert_eq!((code(&asked), allowed < 2), ("journal_unavailable", true), "{allowed}");
            continue;
        };
        let decided = faulty.approvals().decide(pending.approval_id, Decision::approve(), &ada()).await;
        let outcome = faulty.call(send("ada")).await;
        match decided {
            // The question itself, its call's end and the decision have been written: three.
            Ok(_) => assert!(allowed >= 3, "{allowed}"),
            Err(error) => assert!(matches!(error, DecideError::Journal(_)), "{error}"),
        }
        // The start, which uses the approval up, is the fifth; without it nothing runs.
        assert_eq!(witness.seen().len(), usize::from(allowed >= 5), "{allowed}: {outcome:?}");
    }
}

#[tokio::test]
async fn too_many_questions_are_not_put() {
    let bench = Bench::with(|tool| tool, |settings| settings.approvals.pending_max = 3);
    for to in ["a", "b", "c"] {
        bench.ask(send(to)).await;
    }
    let outcome = bench.runtime.call(send("d")).await;
    assert_eq!(code(&outcome), "permission_denied");
    assert!(outcome.error().unwrap().message().contains("3 calls wait"), "{outcome:?}");
}

/// A handler that shows what it would do.
struct Shows(&'static str);

impl Handler for Shows {
    fn call(&self, _: Value, _: Context) -> BoxFuture<'static, Result<Value, ToolError>> {
        Box::pin(async { Ok(Value::Null) })
    }

    fn preview(
        &self,
        arguments: &Value,
        _: Context,
    ) -> Option<BoxFuture<'static, Result<String, ToolError>>> {
        let (how, to) = (self.0, arguments["to"].to_string());
        assert_ne!(how, "panics at once");
        Some(Box::pin(async move {
            match how {
                "fails" => Err(ToolError::failed("no idea")),
                "panics" => panic!("hidden"),
                "hangs" => std::future::pending().await,
                "floods" => Ok("x".repeat(1 << 20)),
                _ => Ok(format!("would write to {to}")),
            }
        }))
    }
}

#[tokio::test]
async fn a_preview_is_shown_and_never_keeps_a_person_from_deciding() {
    for (how, expected) in [
        ("works", "would write to \"ada\""),
        ("fails", "(no preview: no idea)"),
        ("panics", "(no preview: the tool's own code crashed)"),
        ("panics at once", "(no preview: the tool's own code crashed)"),
        ("hangs", "(no preview: the tool took too long)"),
        ("floods", "xxx"),
    ] {
        let settings = Settings { precondition_timeout: Duration::from_millis(50), ..Settings::default() };
        let tool = Tool::builder("send")
            .description("Sends.")
            .input_schema(json!({ "type": "object" }))
            .risk(Risk::High)
            .shared_handler(Arc::new(Shows(how)));
        let runtime = Runtime::builder().settings(settings).tool(tool).unwrap().build();
        let Status::Pending(pending) = runtime.call(send("ada")).await.status else { panic!("{how}") };
        let shown = runtime.approvals().get(pending.approval_id).await.unwrap().unwrap();
        let preview = shown.preview.unwrap();
        assert!(preview.contains(expected), "{how}: {preview}");
        assert!(preview.len() < 70_000);
    }
}

/// A sequence whose second step needs approval.
fn trip(ledger: Arc<dyn Ledger>, witness: &Witness) -> Runtime {
    let harmless = |name: &str| witness.tool(name).risk(Risk::Low);
    let runtime = Runtime::builder()
        .ledger(ledger)
        .tool(harmless("before"))
        .unwrap()
        .tool(witness.tool("send"))
        .unwrap()
        .tool(harmless("after"))
        .unwrap()
        .build();
    let steps = ["before", "send", "after"].map(|tool| Step::of(tool).arguments(json!({ "to": tool })));
    let trip = steps.into_iter().fold(compose::sequence("trip"), |trip, step| trip.step(step));
    let tool = trip.description("A trip.").on_error(OnError::Stop).build(runtime.registry()).unwrap();
    runtime.registry().register(Layer::Project, tool).unwrap();
    runtime
}

fn went(witness: &Witness) -> Vec<String> {
    witness.seen().iter().map(|seen| seen["to"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn a_run_that_waits_goes_on_by_recovery_once_it_is_decided() {
    let (ledger, witness) = (Arc::new(VolatileLedger::default()), Witness::default());
    let runtime = trip(ledger.clone(), &witness);
    let outcome = runtime.call(Call::new("trip", json!({})).by(bot())).await;
    let Status::Pending(pending) = outcome.status else { panic!("{outcome:?}") };
    assert_eq!(went(&witness), ["before"]);
    let shown = runtime.approvals().get(pending.approval_id).await.unwrap().unwrap();
    assert_eq!(shown.part.as_ref().map(|part| part.run), Some(outcome.call_id));
    assert!(runtime.recover().await.unwrap().is_empty(), "nothing is decided");
    // The same tool with the same arguments outside the run is another question.
    let apart = runtime.call(Call::new("send", json!({ "to": "send" })).by(bot())).await;
    assert!(matches!(&apart.status, Status::Pending(other) if other.approval_id != pending.approval_id));

    let later = trip(ledger.clone(), &witness);
    let edited = Some(json!({ "to": "edited" }));
    let decision = Decision::Approve { edited, remember: None, reason: None };
    later.approvals().decide(pending.approval_id, decision, &ada()).await.unwrap();
    let recovered = later.recover().await.unwrap();
    let [one] = &recovered[..] else { panic!("{recovered:?}") };
    assert!(matches!(&one.taken_up, TakenUp::Ended(outcome) if outcome.is_success()), "{one:?}");
    assert_eq!(one.run, outcome.call_id);
    assert_eq!(went(&witness), ["before", "edited", "after"]);
    let fetched = later.outcome_of(pending.approval_id, &bot()).await.unwrap();
    assert_eq!((fetched.call_id, fetched.is_success()), (outcome.call_id, true));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_caller_can_wait_for_a_run_that_waits() {
    let (ledger, witness) = (Arc::new(VolatileLedger::default()), Witness::default());
    let runtime = trip(ledger, &witness);
    let running = tokio::spawn({
        let call = Call::new("trip", json!({})).by(bot()).wait_for_approval(Duration::from_secs(60));
        let runtime = runtime.clone();
        async move { runtime.call(call).await }
    });
    let id = loop {
        if let [one] = &runtime.approvals().list(ApprovalQuery::pending()).await.unwrap()[..] {
            break one.id;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    };
    runtime.approvals().decide(id, Decision::approve(), &ada()).await.unwrap();
    assert!(running.await.unwrap().is_success());
    assert_eq!(went(&witness), ["before", "send", "after"]);
}

#[tokio::test]
async fn a_run_whose_step_is_denied_fails_and_says_why() {
    let (ledger, witness) = (Arc::new(VolatileLedger::default()), Witness::default());
    let runtime = trip(ledger.clone(), &witness);
    let outcome = runtime.call(Call::new("trip", json!({}))).await;
    let Status::Pending(pending) = outcome.status else { panic!("{outcome:?}") };
    runtime.approvals().decide(pending.approval_id, Decision::deny("too far"), &ada()).await.unwrap();
    let resumed = runtime.resume_run(outcome.call_id, None).await.unwrap();
    assert!(resumed.error().unwrap().message().contains("too far"), "{resumed:?}");
    assert_eq!(went(&witness), ["before"]);
    assert!(ledger.open_runs(None, 10).await.unwrap().is_empty());
}

/// Cuts a run short at every write between the question and its end, and takes it up again.
#[tokio::test]
async fn a_crash_anywhere_neither_loses_an_approval_nor_uses_it_twice() {
    for edited in [None, Some(json!({ "to": "edited" }))] {
        for cut_at in 0..40 {
            let (inner, witness) = (Arc::new(VolatileLedger::default()), Witness::default());
            let writes = Arc::new(std::sync::atomic::AtomicU32::new(0));
            let count = writes.clone();
            // From one write on nothing is written any more: to the ledger that is a crash.
            let faulty = FaultyLedger::new(
                inner.clone(),
                Arc::new(move |boundary| {
                    let number = match boundary {
                        Boundary::Before => count.fetch_add(1, std::sync::atomic::Ordering::SeqCst),
                        Boundary::After => return Ok(()),
                    };
                    match number >= cut_at {
                        true => Err(helve::ports::JournalError::new("gone")),
                        false => Ok(()),
                    }
                }),
            );
            let crashing = trip(Arc::new(faulty), &witness);
            let outcome = crashing.call(Call::new("trip", json!({}))).await;
            if let Status::Pending(pending) = &outcome.status {
                let decision = Decision::Approve { edited: edited.clone(), remember: None, reason: None };
                if crashing.approvals().decide(pending.approval_id, decision, &ada()).await.is_ok() {
                    let _ = crashing.resume_run(outcome.call_id, None).await;
                }
            }
            inner.abandon_runs();
            let whole = writes.load(std::sync::atomic::Ordering::SeqCst) <= cut_at;
            let sound = trip(inner.clone(), &witness);
            for _ in 0..4 {
                sound.recover().await.unwrap();
                for one in sound.approvals().list(ApprovalQuery::pending()).await.unwrap() {
                    let decision = Decision::Approve { edited: edited.clone(), remember: None, reason: None };
                    sound.approvals().decide(one.id, decision, &ada()).await.unwrap();
                }
            }
            let sent = edited.as_ref().map_or("send", |_| "edited");
            let count = went(&witness).iter().filter(|to| *to == sent).count();
            assert!(count <= 1, "{cut_at}: {:?}", went(&witness));
            let used = sound.approvals().list(ApprovalQuery::default()).await.unwrap();
            let used = used.iter().filter(|one| one.state == ApprovalState::Used).count();
            assert!(used <= 1, "{cut_at}: asked twice for one step");
            // What had started when it was cut off asks whether it happened, and nothing else is lost.
            let open = inner.open_runs(None, 10).await.unwrap();
            assert!(count == 1 || cut_at < 3 || !open.is_empty(), "{cut_at}: {:?}", went(&witness));
            if whole {
                assert_eq!(went(&witness), ["before", sent, "after"], "{cut_at}");
                break;
            }
        }
    }
}

#[tokio::test]
async fn an_edit_is_not_undone_by_a_rule_that_comes_with_it() {
    let bench = Bench::new();
    let asked = bench.ask(send("ada")).await;
    let approve = |same| Decision::Approve {
        edited: Some(json!({ "to": "bob", "text": "hi" })),
        remember: Some(Remember { same, ttl: None }),
        reason: None,
    };
    let refused = bench.decide(asked.approval_id, approve(Same::Fields(vec!["/text".into()]))).await;
    assert!(matches!(&refused, Err(DecideError::Invalid(_))), "{refused:?}");
    bench.decide(asked.approval_id, approve(Same::Fields(vec!["/to".into()]))).await.unwrap();
    bench.runtime.call(send("ada")).await;
    assert_eq!(bench.witness.seen(), [json!({ "to": "bob", "text": "hi" })]);
}
