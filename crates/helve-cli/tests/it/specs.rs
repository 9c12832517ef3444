//! What the specifications ask for, as people meet it: tools that can run, costs, errors with names.

use serde_json::{Value, json};

use crate::home::Home;
use crate::up::Up;

const TOOLS: &str = r#"
[integrations.acme]
env = "ACME_TOKEN"

[[tool.program]]
name = "acme-report"
description = "Needs an account."
command = "sh"
args = ["-c", "echo 1"]
risk = "medium"
integrations = ["acme"]

[[tool.program]]
name = "paid"
description = "Costs something each time."
command = "sh"
args = ["-c", "echo '{\"usage\": {\"cost\": 0.25}}'"]
annotations = { read_only = true }
risk = "low"
cost = { per_call = "0.10", reported = "/usage/cost", unit = "EUR" }

[[tool.program]]
name = "stock"
description = "Says by itself what went wrong."
command = "sh"
args = ["-c", "echo '{\"error\": {\"code\": \"NO_STOCK\", \"message\": \"none is left\", \"recoverable\": true}}'; exit 1"]
risk = "low"
"#;

fn home() -> Home {
    let home = Home::new();
    home.write("helve.toml", TOOLS);
    home
}

fn names(tools: &Value) -> Vec<&str> {
    tools.as_array().unwrap().iter().map(|tool| tool["name"].as_str().unwrap()).collect()
}

#[test]
fn what_cannot_run_is_not_exported_and_can_be_listed() {
    let home = home();
    let export = ["tools", "export", "--format", "llm"];
    let ran = home.run(&export);
    let shown: Value = serde_json::from_str(&ran.stdout).unwrap();
    assert!(!names(&shown).contains(&"acme-report") && !names(&shown).contains(&"web-search"));
    assert!(ran.stderr.contains("models are not shown acme-report: set the environment variable ACME_TOKEN"));
    assert!(ran.stderr.contains("models are not shown web-search: set TAVILY_API_KEY"), "{}", ran.stderr);
    let all = home.json(&[&export[..], &["--unavailable"]].concat());
    assert!(names(&all).contains(&"acme-report") && names(&all).contains(&"web-search"));
    let by_name = home.json(&["tools", "export", "--format", "llm", "acme-report"]);
    assert_eq!(names(&by_name), ["acme-report"], "a caller that names it wants it");

    let connected = home.run_with(&export, &[("ACME_TOKEN", "x"), ("TAVILY_API_KEY", "tvly-x")], b"");
    let shown: Value = serde_json::from_str(&connected.stdout).unwrap();
    assert!(names(&shown).contains(&"acme-report") && names(&shown).contains(&"web-search"));

    let listed = home.json(&["tools", "list"]);
    let one = listed.as_array().unwrap().iter().find(|tool| tool["name"] == "acme-report").unwrap();
    assert_eq!(one["lacks"], json!(["acme"]), "people see all");
    let shown = home.run(&["tools", "show", "acme-report"]);
    assert!(shown.stdout.contains("models are not shown it: set the environment variable ACME_TOKEN"));
}

#[test]
fn requires_approval_follows_ask_from() {
    let home = home();
    let asks = |ask_from: &str, args: &[&str]| {
        let set = format!("security.ask_from={ask_from}");
        let tools = home.json(&[args, &["--set", &set]].concat());
        let tools = tools.as_array().cloned().unwrap();
        let report = tools.into_iter().find(|tool| tool["name"] == "acme-report").unwrap();
        report.get("requiresApproval").or(report.get("requires_approval")).cloned().unwrap()
    };
    for (ask_from, expected) in [("low", true), ("medium", true), ("high", false), ("critical", false)] {
        assert_eq!(asks(ask_from, &["tools", "export", "--format", "llm", "--unavailable"]), expected);
        assert_eq!(asks(ask_from, &["tools", "list"]), expected, "{ask_from}");
    }
}

#[test]
fn a_tools_own_error_has_its_name() {
    let home = home();
    let ran = home.run(&["call", "stock"]);
    assert_eq!(ran.code, 1);
    assert!(ran.stderr.contains("NO_STOCK: none is left"), "{}", ran.stderr);
    let ran = home.run(&["call", "stock", "--json"]);
    let outcome: Value = serde_json::from_str(&ran.stdout).unwrap();
    let error = &outcome["error"];
    assert_eq!(
        (&error["code"], &error["tool_code"], &error["retryable"]),
        (&json!("execution_failed"), &json!("NO_STOCK"), &json!(true))
    );
}

/// In every place where somebody reads of a failure: callers over HTTP, listeners, and who looks later.
#[test]
fn a_tools_own_error_has_its_name_everywhere() {
    let home = home();
    let up = Up::start(&home);
    let (token, own) = (up.token(), json!("NO_STOCK"));
    let (status, problem) = up.call(&token, "stock", json!({}));
    assert_eq!((status, &problem["code"]), (502, &json!("execution_failed")), "{problem}");
    assert_eq!(problem["tool_code"], own);

    let call = json!({ "type": "tool_use", "id": "toolu_1", "name": "stock", "input": {} });
    let message = json!({ "message": { "role": "assistant", "content": [call] } });
    let (_, answer) = up.with("POST /v1/answers", &token, message);
    assert_eq!(answer["calls"][0]["tool_code"], own, "{answer}");

    let (_, records) = up.with("GET /v1/audit?code=NO_STOCK", &token, Value::Null);
    assert_eq!(records.as_array().unwrap().len(), 2, "{records}");
    let (_, document) = up.with("GET /v1/openapi.json", &token, Value::Null);
    let schemas = &document["components"]["schemas"];
    for schema in ["Problem", "Ending", "AnsweredCall"] {
        assert!(schemas[schema]["properties"]["tool_code"].is_object(), "{schema}");
    }

    let listed = home.json(&["audit", "list", "--code", "NO_STOCK"]);
    let ending = &listed[0]["ending"];
    assert_eq!((&ending["code"], &ending["tool_code"]), (&json!("execution_failed"), &own));
    assert_eq!(listed.as_array().unwrap().len(), 2);
    assert_eq!(home.json(&["audit", "list", "--code", "NO_SUCH_CODE"]), json!([]));
    assert_eq!(home.json(&["audit", "list", "--code", "execution_failed"]).as_array().unwrap().len(), 2);
    assert!(home.run(&["audit", "list"]).stdout.contains("failed (NO_STOCK)"));
    let id = listed[0]["call_id"].as_str().unwrap();
    let shown = home.run(&["audit", "show", id]).stdout;
    assert!(shown.contains("failed (NO_STOCK)") && shown.contains("execution_failed"), "{shown}");
    assert_eq!(home.run(&["audit", "list", "--code", "no such"]).code, 2);
}

#[test]
fn costs_are_kept_added_up_and_limited_from_one_process_to_the_next() {
    let home = home();
    let call = |args: &[&str]| home.json(&[&["call", "paid"], args].concat());
    assert_eq!(call(&["--session", "s-1"])["cost"], json!({ "micros": 350_000, "unit": "EUR" }));
    call(&["--session", "s-2"]);
    let by = |args: &[&str]| home.json(&[&["audit", "costs"], args].concat());
    let total = &by(&[])[0];
    assert_eq!(
        (&total["tool"], &total["calls"], &total["amount"], &total["unit"]),
        (&json!("paid"), &json!(2), &json!("0.7"), &json!("EUR"))
    );
    assert_eq!(by(&["--by", "session"]).as_array().unwrap().len(), 2);
    assert_eq!(by(&["--by", "session", "--session", "s-2"])[0]["amount"], "0.35");
    assert_eq!(by(&["--by", "caller"])[0]["calls"], 2);
    assert_eq!(by(&["--tool", "other*"]), json!([]));
    assert_eq!(by(&["--since", "2030-01-01"]), json!([]));
    insta::assert_snapshot!("audit_costs", home.run(&["audit", "costs", "--by", "session"]).all());

    let limits = "\n[[limits.calls]]\ntool = 'pa*'\nby = 'caller'\ncost = '0.75 EUR/1d'\n";
    home.write("helve.toml", format!("{TOOLS}{limits}"));
    let refused = home.run(&["call", "paid"]);
    assert_eq!(refused.code, 1);
    assert!(
        refused
            .stderr
            .contains("calls to `pa*` may cost 0.75 EUR/1d for each caller, and 0.7 of it is spent"),
        "{}",
        refused.stderr
    );
    assert_eq!(home.run(&["audit", "verify"]).code, 0, "the chain covers what calls cost");
    home.write("helve.toml", format!("{TOOLS}{}", limits.replace("0.75 EUR/1d", "plenty")));
    assert_eq!(home.run(&["call", "paid"]).code, 2, "a limit that is none is refused");
}

#[test]
fn what_the_agent_said_of_its_call_is_in_the_record() {
    let home = home();
    let advised = ["call", "time-now", "--advice", "request_approval", "--because", "not sure"];
    let ran = home.run(&[&advised[..], &["--confidence", "0.4"]].concat());
    assert!(ran.stderr.contains("asks for approval (40% sure): not sure"), "{}", ran.stderr);
    let asked = home.json(&["approvals", "list"]);
    assert_eq!(
        asked[0]["advice"],
        json!({ "action": "request_approval", "confidence": 0.4, "reasoning": "not sure" })
    );
    let calls = home.json(&["audit", "list"]);
    let id = calls[0]["call_id"].as_str().unwrap();
    let shown = home.run(&["audit", "show", id]);
    assert!(shown.stdout.contains("ask a person (40% sure): not sure"), "{}", shown.stdout);
    assert_eq!(home.run(&[&advised[..], &["--confidence", "2"]].concat()).code, 2);
}
