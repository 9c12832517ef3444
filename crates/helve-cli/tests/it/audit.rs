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

#[test]
fn a_checkpoint_proves_elsewhere_that_nothing_was_rewritten() {
    let home = Home::new();
    for _ in 0..3 {
        home.run(&["call", "time-now"]);
    }
    let key = home.run(&["audit", "key"]).stdout.trim().to_owned();
    let ran = home.run(&["audit", "checkpoint", "--out", "monday.txt"]);
    assert_eq!(ran.code, 0, "{}", ran.all());
    let verify = |home: &Home| home.run(&["audit", "verify", "--checkpoint", "monday.txt", "--key", &key]);
    home.run(&["call", "time-now"]);
    assert_eq!(verify(&home).code, 0);
    // A checkpoint that somebody changed proves nothing.
    let note = std::fs::read_to_string(home.project().join("monday.txt")).unwrap();
    home.write("monday.txt", note.replacen('3', "4", 1));
    let ran = verify(&home);
    assert!(ran.code == 1 && ran.all().contains("signature"), "{}", ran.all());
    home.write("monday.txt", &note);
    // A journal that was made anew is sound in itself, and does not fit.
    let state = home.run(&["config", "show", "journal.path", "--json"]);
    let text: serde_json::Value = serde_json::from_str(&state.stdout).unwrap();
    let path = text.to_string();
    let start = path.find('/').unwrap();
    let end = path.find(".db").unwrap() + 3;
    let journal = &path[start..end];
    for more in ["", "-wal", "-shm", ".head"] {
        let _ = std::fs::remove_file(format!("{journal}{more}"));
    }
    for _ in 0..8 {
        home.run(&["call", "time-now"]);
    }
    assert_eq!(home.run(&["audit", "verify"]).code, 0);
    let ran = verify(&home);
    assert!(ran.code == 1 && ran.all().contains("written anew"), "{}", ran.all());
}

#[test]
fn decisions_are_found_by_what_was_said_and_by_whom() {
    let home = Home::new();
    home.run(&["rules", "deny", "math-eval"]);
    home.run(&["call", "math-eval", "expression=1+1"]);
    home.run(&["call", "time-now"]);
    let denied = home.json(&["audit", "list", "--said", "deny", "--by", "rule deny"]);
    assert_eq!(denied.as_array().unwrap().len(), 1, "{denied}");
    assert_eq!(denied[0]["tool"], "math-eval");
    assert_eq!(denied[0]["ending"]["gate"]["by"][0], "rule deny math-eval");
    let allowed = home.json(&["audit", "list", "--said", "allow"]);
    assert_eq!(allowed.as_array().unwrap().len(), 1, "{allowed}");
    let id = denied[0]["call_id"].as_str().unwrap();
    let shown = home.run(&["audit", "show", id]);
    assert!(shown.stdout.contains("deny, by rule deny math-eval"), "{}", shown.all());
}

#[test]
fn equal_secrets_are_marked_alike_and_hidden() {
    let home = Home::new();
    let tools = "[[tool.program]]\nname = \"login\"\ndescription = \"Logs in.\"\nwhen_to_use = \"In tests.\"\ncommand = \"true\"\nparameters = [{ name = \"password\", type = \"string\", description = \"A secret.\" }]\n";
    home.write("helve.toml", tools);
    for password in ["hunter22", "hunter22", "other-one"] {
        home.run(&["call", "login", &format!("password={password}")]);
    }
    let calls = home.json(&["audit", "list"]);
    let mark = |index: usize| calls[index]["payload"]["arguments"]["password"].as_str().unwrap().to_owned();
    assert!(mark(0).starts_with("[redacted] hmac:"), "{calls}");
    assert_eq!(mark(1), mark(2));
    assert_ne!(mark(0), mark(1));
    assert!(!calls.to_string().contains("hunter22"));
}

#[test]
fn details_show_what_was_asked_for_and_why_it_was_denied() {
    let home = with_calls();
    let plain = home.run(&["audit", "list"]).stdout;
    assert!(!plain.contains("2+3"), "only on request: {plain}");
    let details = home.run(&["audit", "list", "--details"]).stdout;
    let lines: Vec<_> = details.lines().collect();
    assert!(lines[0].starts_with("when "), "{details}");
    let calls: Vec<_> = lines.iter().filter(|line| line.contains("call_")).collect();
    assert_eq!(calls.len(), 3, "{details}");
    let column = |line: &str, text: &str| line.find(text);
    assert_eq!(column(calls[0], "time-now"), column(calls[2], "math-eval"), "aligned: {details}");
    assert!(lines.contains(&r#"    arguments  {"expression":"2+3"}"#), "{details}");
    assert!(
        lines.iter().any(|line| line.starts_with("    error ") && line.contains("expression")),
        "{details}"
    );
    assert!(lines.iter().any(|line| line.starts_with("    error ") && line.contains("agent")), "{details}");
}

#[test]
fn details_say_who_decided_and_every_reason_once() {
    let home = Home::new();
    home.write(
        "helve.toml",
        "[[tool.program]]\nname = 'pay'\ndescription = 'Pays.'\ncommand = 'true'\nrisk = 'high'\n",
    );
    assert_eq!(home.run(&["call", "pay"]).code, 3);
    let id = home.json(&["approvals", "list"])[0]["id"].as_str().unwrap().to_owned();
    assert_eq!(home.run(&["approvals", "approve", &id, "--reason", "it is due"]).code, 0);
    let details = home.run(&["audit", "list", "--details"]).stdout;
    assert_eq!(details.matches("`pay` is of high risk").count(), 1, "{details}");
    let decided = details.lines().find(|line| line.trim_start().starts_with("decided")).unwrap();
    assert!(decided.contains("approved by local user") && decided.ends_with(": it is due"), "{details}");
}

#[test]
fn an_export_can_begin_at_a_time() {
    let home = with_calls();
    assert_eq!(home.run(&["audit", "export", "--since", "1h"]).stdout.lines().count(), 3);
    assert_eq!(home.run(&["audit", "export", "--since", "2099-01-01 00:00"]).stdout, "");
    assert_eq!(home.run(&["audit", "export", "--since", "soon"]).code, 2);
}

const RISKY: &str = "[[tool.program]]\nname = 'note'\ndescription = 'Notes.'\nwhen_to_use = 'In tests.'\ncommand = 'true'\nrisk = 'high'\n";

#[test]
fn what_a_person_or_a_guard_denied_is_found_and_names_its_question() {
    let home = Home::new();
    home.write("helve.toml", RISKY);
    assert_eq!(home.run(&["call", "note"]).code, 3);
    let question = home.json(&["approvals", "list"])[0]["id"].as_str().unwrap().to_owned();
    assert_eq!(home.run(&["approvals", "deny", &question]).code, 0);
    assert_eq!(home.run(&["call", "note"]).code, 4);
    assert_eq!(home.run(&["call", "http-get", "url=http://127.0.0.1:9/"]).code, 4);
    let tools = |said: &str| -> Vec<String> {
        let found = home.json(&["audit", "list", "--said", said]);
        found.as_array().unwrap().iter().map(|call| call["tool"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(tools("deny"), ["http-get", "note"]);
    // One that waits, and one that was denied.
    assert_eq!(tools("ask"), ["note", "note"]);
    let denied = home.json(&["audit", "list", "--said", "deny", "--tool", "note"]);
    let shown = home.run(&["audit", "show", denied[0]["call_id"].as_str().unwrap()]).stdout;
    let line = |name: &str| shown.lines().find(|line| line.trim_start().starts_with(name)).map(str::to_owned);
    assert!(
        line("gate").is_some_and(|line| line.contains(&format!("deny, by approval {question}"))),
        "{shown}"
    );
    assert!(line("approval").is_some_and(|line| line.contains(&question)), "{shown}");
    assert!(line("decided by").is_some_and(|line| line.contains("local user")), "{shown}");
}

#[test]
fn the_next_page_is_of_the_same_search() {
    let home = with_calls();
    let said =
        home.run(&["audit", "list", "--tool", "math-*", "--since", "1h", "-n", "1", "--details"]).stderr;
    let more = said.lines().find_map(|line| line.strip_prefix("more: helve ")).unwrap().to_owned();
    assert!(more.contains("--tool 'math-*'") && more.contains("--details"), "{more}");
    let words: Vec<_> = more.split(' ').map(|word| word.trim_matches('\'')).collect();
    let next = home.run(&words);
    assert!(next.stdout.contains("2+3"), "the other one: {}", next.all());
    assert!(!home.run(&["audit", "list"]).stderr.contains("more:"));
}

#[test]
fn an_answer_from_the_record_is_told_from_a_call_that_ran() {
    let home = Home::new();
    for _ in 0..2 {
        home.run(&["call", "math-eval", "expression=2+3", "--idempotency-key", "k"]);
    }
    let listed = home.run(&["audit", "list"]).stdout;
    assert_eq!(listed.matches("math-eval (replay)").count(), 1, "{listed}");
    assert_eq!(listed.matches("math-eval ").count(), 2, "{listed}");
}
