//! Always for this session.

use super::*;

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
