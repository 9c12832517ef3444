//! The record afterwards.

use serde_json::Value;

use crate::home::Home;

fn with_calls() -> Home {
    let home = Home::new();
    home.run(&["call", "math-eval", "expression=2+3", "--agent", "tester", "--session", "s-1"]);
    home.run(&["call", "math-eval"]);
    home.run(&["call", "time-now", "--advice", "deny"]);
    home
}

#[test]
fn an_empty_record_is_no_error_but_proves_nothing() {
    let home = Home::new();
    assert_eq!(home.json(&["audit", "list"]), serde_json::json!([]));
    home.settled(|home| {
        insta::assert_snapshot!("audit_empty", home.run(&["audit", "list"]).all());
        insta::assert_snapshot!("audit_verify_nothing", home.run(&["audit", "verify"]).all());
    });
}

#[test]
fn every_call_is_listed_whatever_its_end() {
    with_calls().settled(|home| insta::assert_snapshot!("audit_list", home.run(&["audit", "list"]).all()));
    let home = with_calls();
    let count = |args: &[&str]| home.json(&[&["audit", "list"], args].concat()).as_array().unwrap().len();
    assert_eq!(count(&[]), 3);
    assert_eq!(count(&["--status", "failed"]), 1);
    assert_eq!(count(&["--code", "permission_denied"]), 1);
    assert_eq!(count(&["--tool", "math-eval"]), 2);
    assert_eq!(count(&["--session", "s-1"]), 1);
    assert_eq!(count(&["--since", "1h"]), 3);
    assert_eq!(count(&["--until", "1h"]), 0);
    assert_eq!(count(&["-n", "2"]), 2);
    assert_eq!(home.run(&["audit", "list", "--since", "soon"]).code, 2);
}

#[test]
fn a_filter_that_no_call_fits_is_said() {
    let ran = with_calls().run(&["audit", "list", "--tool", "nope"]);
    assert_eq!(ran.stderr, "no call fits; `helve audit list` without filters shows the latest\n");
}

#[test]
fn one_call_is_shown_by_the_beginning_of_its_id() {
    let home = with_calls();
    let calls = home.json(&["audit", "list", "--session", "s-1"]);
    let id = calls[0]["call_id"].as_str().unwrap();
    assert_eq!(home.json(&["audit", "show", id])["call_id"], id);
    let shown = home.run(&["audit", "show", &id[..29]]);
    assert!(
        shown.stdout.contains("agent tester, session s-1") && shown.stdout.contains("2+3"),
        "{}",
        shown.stdout
    );
    assert_eq!(home.run(&["audit", "show", "call_"]).code, 2);
    assert_eq!(home.run(&["audit", "show", "7ZZZ"]).code, 2);
}

#[test]
fn verify_proves_and_finds_a_changed_byte() {
    let home = with_calls();
    home.settled(|home| insta::assert_snapshot!("audit_verify", home.run(&["audit", "verify"]).all()));
    let head = home.json(&["audit", "verify"])["head"].clone();
    let expected = format!("{}:{}", head["seq"], head["hash"].as_str().unwrap());
    home.run(&["call", "time-now"]);
    assert_eq!(home.run(&["audit", "verify", "--expect-head", &expected]).code, 0);
    let other = format!("{}:{}", head["seq"], "0".repeat(64));
    let ran = home.run(&["audit", "verify", "--expect-head", &other]);
    assert_eq!(ran.code, 1, "{}", ran.all());
    assert_eq!(home.run(&["audit", "verify", "--expect-head", "nonsense"]).code, 2);

    let path = home.project().join("../.local/state/helve/helve.db");
    let mut bytes = std::fs::read(&path).unwrap();
    let needle = b"math-eval";
    let at = bytes.windows(needle.len()).position(|window| window == needle).unwrap();
    bytes[at] = b'M';
    std::fs::write(&path, bytes).unwrap();
    let ran = home.run(&["audit", "verify"]);
    assert_eq!(ran.code, 1, "{}", ran.all());
    assert!(ran.stdout.contains("✗"), "{}", ran.stdout);
}

#[test]
fn export_is_one_line_a_call() {
    let home = with_calls();
    let ran = home.run(&["audit", "export"]);
    let lines: Vec<Value> = ran.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len(), 3);
    assert_eq!(lines[0]["tool"], "math-eval");
    assert_eq!(home.json(&["audit", "export", "--out", "calls.jsonl"])["calls"], 3);
}

#[test]
fn secrets_never_reach_the_record() {
    let home = Home::new();
    home.run(&[
        "call",
        "json-query",
        r#"{"document": {"password": "hunter2", "iban": "CH93"}, "query": "$.x"}"#,
        "--set",
        "redact.names=iban",
    ]);
    let ran = home.run(&["audit", "export"]);
    assert_eq!(ran.stdout.lines().count(), 1);
    assert!(!ran.stdout.contains("hunter2") && !ran.stdout.contains("CH93"), "{}", ran.stdout);
}
