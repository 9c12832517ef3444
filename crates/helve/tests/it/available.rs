//! What models are shown: the tools that could run, and whether a person is asked.

use std::sync::Arc;

use helve::formats::Format;
use helve::gate::{PolicyRequest, PolicyResource, Stance, Vote};
use helve::ports::{Connected, Integrations, Policy};
use helve::{Anonymous, Call, Caller, Filter, Risk, Settings};
use serde_json::Value;

use crate::support::{Bench, code, echo};

fn names(tools: &Value) -> Vec<&str> {
    tools.as_array().unwrap().iter().map(|tool| tool["name"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn a_tool_whose_integration_is_not_connected_is_not_shown_and_can_be_listed() {
    let tools = [
        echo("events").integration("calendar"),
        echo("mail").integration("mail"),
        echo("both").integration("mail").integration("calendar"),
        echo("plain"),
    ];
    let bench = Bench::with(tools, |builder| builder.integrations(Arc::new(Connected::new(["calendar"]))));
    let caller = Caller::agent("a");
    for format in Format::ALL {
        let exported = bench.runtime.export(format, &caller).to_string();
        let shown = ["events", "mail", "both", "plain"].map(|name| exported.contains(&format!("\"{name}\"")));
        assert_eq!(shown, [true, false, false, true], "{format}");
    }
    let available = bench.runtime.available_tools(&caller, &Filter::default());
    assert_eq!(available.iter().map(|one| one.name().as_str()).collect::<Vec<_>>(), ["events", "plain"]);
    assert_eq!(bench.runtime.tools_for(&caller, &Filter::default()).len(), 4, "all can be listed");
    let both = bench.runtime.registry().get("both").unwrap().tool;
    assert_eq!(bench.runtime.lacks(&caller, &both).collect::<Vec<_>>(), ["mail"]);
    assert_eq!(code(&bench.call("mail", serde_json::json!({})).await), "integration_missing");
}

/// Accounts that are connected for one principal alone.
struct Adas;

impl Integrations for Adas {
    fn connected(&self, _name: &str, caller: &Caller) -> bool {
        caller.principal.as_deref() == Some("ada")
    }

    fn how_to_connect(&self, name: &str) -> String {
        format!("connect {name}")
    }
}

#[tokio::test]
async fn what_is_shown_is_asked_for_each_caller() {
    let bench =
        Bench::with([echo("mail").integration("mail")], |builder| builder.integrations(Arc::new(Adas)));
    let shown = |who: &str| bench.runtime.export(Format::Llm, &Caller::principal(who));
    assert_eq!(names(&shown("ada")), ["mail"]);
    assert!(names(&shown("eve")).is_empty());
}

#[tokio::test]
async fn requires_approval_in_an_export_is_what_the_gate_will_do() {
    let tools = || Risk::ALL.map(|risk| echo(risk.as_str()).risk(risk)).into_iter();
    for ask_from in Risk::ALL {
        let always = echo("always").risk(Risk::Low).requires_approval();
        let bench = Bench::with_settings(tools().chain([always]), |settings| settings.ask_from = ask_from);
        for tool in bench.runtime.export(Format::Llm, &Caller::local()).as_array().unwrap() {
            let name = tool["name"].as_str().unwrap();
            let outcome = bench.call(name, serde_json::json!({})).await;
            let is_asked = matches!(outcome.status, helve::Status::Pending(_));
            assert_eq!(tool["requiresApproval"], is_asked, "{name} where {ask_from} asks");
        }
    }
}

/// Hides what begins so.
struct Hides(&'static str);

impl Policy for Hides {
    fn rule(&self, request: &PolicyRequest<'_>) -> Vote {
        let hidden = matches!(request.resource, PolicyResource::Tool(tool) if tool.name().as_str().starts_with(self.0));
        Vote::policy("hides", if hidden { Stance::Deny } else { Stance::Allow })
    }
}

#[tokio::test]
async fn the_closest_name_is_named_however_many_closer_ones_are_hidden() {
    let hidden = (0..20).map(|number| echo(&format!("secret/mail-sen{number}")));
    let tools = hidden.chain([echo("post/mail-send-now"), echo("zebra")]);
    let bench = Bench::with(tools, |builder| builder.policy(Arc::new(Hides("secret/"))));
    let outcome = bench.call("secret/mail-sen", serde_json::json!({})).await;
    let error = outcome.error().unwrap();
    assert!(error.message().contains("did you mean `post/mail-send-now`?"), "{error}");
    assert!(!format!("{error:?}{:?}", error.suggestions()).contains("sen1"), "hidden names stay hidden");
    let nearest = bench.runtime.nearest("secret/mail-sen", &Caller::local());
    assert_eq!(nearest.unwrap().as_str(), "post/mail-send-now");
}

#[tokio::test]
async fn the_closest_name_is_there_also_where_others_mean_the_like() {
    let tools = [
        echo("web-search").description("Searches the web."),
        echo("srch").description("Nothing of the kind."),
        echo("find").description("Search for files: a serch that sarches."),
    ];
    let bench = Bench::new(tools);
    assert_eq!(bench.runtime.registry().near("serch", 3)[0].as_str(), "srch");
    // Nothing is alike: the words lead to `web-search`, and the closest spelling is there too.
    let near = bench.runtime.registry().near("searches-web", 3);
    assert!(near.iter().any(|name| name.as_str() == "web-search"), "{near:?}");
    assert!(bench.runtime.registry().near("q", 3).is_empty(), "nothing is close to that");
}

#[tokio::test]
async fn a_runtime_says_plainly_what_an_anonymous_caller_may_do_and_it_is_so() {
    let strict = Settings { require_authentication: true, ..Settings::default() };
    let open = Bench::new([echo("look")]);
    let judged = Bench::with([echo("look")], |builder| builder.policy(Arc::new(Hides("look"))));
    let closed = Bench::with([echo("look")], |builder| builder.settings(strict));
    for (bench, expected, code_of_call) in [
        (open, Anonymous::Everything, "none"),
        (judged, Anonymous::AsPolicySays, "not_authorized"),
        (closed, Anonymous::Nothing, "not_authorized"),
    ] {
        assert_eq!(bench.runtime.anonymous(), expected);
        assert!(expected.to_string().contains("who does not say who they are"));
        let call = Call::new("look", serde_json::json!({})).by(Caller::anonymous());
        let outcome = bench.runtime.call(call).await;
        assert_eq!(code(&outcome), code_of_call, "{expected}");
        let shown = bench.runtime.export(Format::Llm, &Caller::anonymous());
        assert_eq!(names(&shown).len(), usize::from(expected == Anonymous::Everything), "{expected}");
    }
}
