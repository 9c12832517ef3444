//! Policies: what they say counts, at the call and in what is shown.

use std::sync::Arc;

use helve::gate::{Action, PolicyRequest, PolicyResource, Stance, Vote, VoteSource};
use helve::ports::Policy;
use helve::{Caller, Filter};
use serde_json::json;

use super::{Bench, bot, vote, word};

/// A policy that is a function.
struct Says<F>(F);

impl<F: Fn(&PolicyRequest<'_>) -> Vote + Send + Sync + 'static> Policy for Says<F> {
    fn rule(&self, request: &PolicyRequest<'_>) -> Vote {
        (self.0)(request)
    }
}

fn bench(says: impl Fn(&PolicyRequest<'_>) -> Vote + Send + Sync + 'static) -> Bench {
    Bench::new(|builder| builder.policy(Arc::new(Says(says))))
}

fn tool_of(request: &PolicyRequest<'_>) -> String {
    match request.resource {
        PolicyResource::Tool(tool) => tool.name().to_string(),
        PolicyResource::Served { name, .. } => name.to_owned(),
        PolicyResource::Runtime => String::new(),
    }
}

#[tokio::test]
async fn what_a_policy_denies_does_not_run_and_is_recorded() {
    let bench = bench(|request| match (request.action, tool_of(request).as_str()) {
        (Action::Call, "change") => vote("no-changes", Stance::Deny).because("not on Sundays"),
        _ => vote("rest", Stance::Allow),
    });
    let outcome = bench.call("change", json!({})).await;
    assert_eq!(word(&outcome), "not_authorized");
    assert!(outcome.error().unwrap().message().contains("not on Sundays"));
    assert!(bench.witness.ran().is_empty());
    let gate = bench.gate();
    assert_eq!((gate.said, &*gate.by[0]), (Stance::Deny, "policy no-changes"));
    assert_eq!(bench.last().payload.votes[0].reason.as_deref(), Some("not on Sundays"));

    assert_eq!(word(&bench.call("look", json!({})).await), "done");
    let gate = bench.gate();
    assert_eq!((gate.said, &*gate.by[0]), (Stance::Allow, "policy rest"));
}

#[tokio::test]
async fn a_policy_sees_the_arguments_that_will_run() {
    let bench = bench(|request| {
        let to = request.arguments.and_then(|arguments| arguments.get("to")).and_then(|to| to.as_str());
        match (request.action, to) {
            (Action::Call, Some("eve")) => vote("not-eve", Stance::Deny),
            _ => vote("rest", Stance::Allow),
        }
    });
    // As models write it: the arguments in a string.
    let outcome = bench.call("change", json!("{\"to\": \"eve\"}")).await;
    assert_eq!(word(&outcome), "not_authorized");
    assert_eq!(word(&bench.call("change", json!({ "to": "ada" })).await), "done");
    assert_eq!(bench.witness.given(), [json!({ "to": "ada" })]);
}

#[tokio::test]
async fn who_may_not_see_a_tool_does_not_hear_of_it() {
    let bench = bench(|request| match (request.action, tool_of(request).as_str()) {
        (Action::List, "risky") => vote("hidden", Stance::Deny),
        _ => vote("rest", Stance::Allow),
    });
    let names: Vec<_> = bench.runtime.tools_for(&bot(), &Filter::default());
    assert!(names.iter().all(|one| one.name().as_str() != "risky") && names.len() == 3);
    assert_eq!(word(&bench.call("risky", json!({})).await), "not_authorized");
    let near = bench.call("riskyy", json!({})).await;
    assert!(!near.error().unwrap().message().contains("did you mean"), "{near:?}");
    assert!(bench.witness.ran().is_empty());
}

#[tokio::test]
async fn an_asking_policy_is_not_overruled_by_an_allow_rule() {
    let bench = Bench::new(|builder| {
        let policy = Says(|request: &PolicyRequest<'_>| match request.action {
            Action::Call => vote("ask", Stance::Ask).because("a person should look"),
            _ => vote("rest", Stance::Allow),
        });
        builder.policy(Arc::new(policy)).permissions(super::permissions::user(json!({ "allow": ["*"] })))
    });
    assert_eq!(word(&bench.call("look", json!({})).await), "pending");
    assert_eq!(bench.gate().said, Stance::Ask);
    assert!(bench.witness.ran().is_empty());
}

#[tokio::test]
async fn roles_decide_where_there_is_no_policy() {
    let bench = Bench::new(|builder| builder);
    let says =
        |caller: &Caller, action| bench.runtime.permits(caller, action, PolicyResource::Runtime).stance;
    assert_eq!(says(&bot(), Action::Approve), Stance::Deny);
    assert_eq!(says(&bot(), Action::Administer), Stance::Deny);
    assert_eq!(says(&Caller::principal("ada").roles(["approver"]), Action::Approve), Stance::Allow);
    assert_eq!(says(&Caller::principal("ada").roles(["admin"]), Action::Administer), Stance::Allow);
    assert_eq!(says(&Caller::principal("ada").roles(["admin"]), Action::Approve), Stance::Deny);
}

#[tokio::test]
async fn a_policy_decides_as_a_policy_whatever_it_calls_itself() {
    let names = ["labels", "agent", "session", "risk", "trust", "policy", "hook 1 (x)", "can_use_tool", ""];
    for name in names {
        let bench = bench(move |request| match request.action {
            Action::Call => vote(name, Stance::Deny).because("no"),
            _ => vote("rest", Stance::Allow),
        });
        let outcome = bench.call("change", json!({})).await;
        let error = outcome.error().unwrap();
        assert_eq!(error.code().as_str(), "not_authorized", "{name}");
        let by = format!("policy {name}");
        assert_eq!(error.message(), format!("denied by {}: no", by.trim_end()));
        assert_eq!(&*bench.gate().by[0], by.trim_end());
    }
    for source in
        [VoteSource::Labels, VoteSource::Agent, VoteSource::Session, VoteSource::Person, VoteSource::Hook]
    {
        let bench = bench(move |request| match request.action {
            Action::Call => Vote::new(source, Stance::Deny).because("no"),
            _ => vote("rest", Stance::Allow),
        });
        let outcome = bench.call("change", json!({})).await;
        assert_eq!(word(&outcome), "not_authorized", "{source:?}");
        assert_eq!(&*bench.gate().by[0], format!("policy {}", source.as_str()));
        assert!(bench.witness.ran().is_empty());
    }
}
