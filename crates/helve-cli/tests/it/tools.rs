//! List, show, search, export.

use serde_json::Value;

use crate::home::Home;

#[test]
fn list_is_a_plain_table_in_a_pipe() {
    let home = Home::new();
    insta::assert_snapshot!(home.run(&["tools", "list"]).all());
}

#[test]
fn an_overridden_tool_is_visible() {
    let home = Home::new();
    let own = "[[tool.program]]\nname = 'time-now'\ndescription = 'Tells our own time.'\ncommand = 'date'\n";
    home.write("helve.toml", own);
    insta::assert_snapshot!("overridden", home.run(&["tools", "list", "--layer", "project"]).all());
    assert_eq!(home.json(&["tools", "show", "time-now"])["overrides"], serde_json::json!(["built-in"]));
}

#[test]
fn list_filters() {
    let home = Home::new();
    let list = ["tools", "list", "--set", "office.enabled=false"];
    let count = |args: &[&str]| home.json(&[&list[..], args].concat()).as_array().unwrap().len();
    assert_eq!(count(&[]), 14);
    assert_eq!(count(&["--risk", "low", "--source", "builtin"]), 10);
    assert_eq!(count(&["--risk", "critical"]), 0);
    assert_eq!(count(&["--category", "file"]), 5);
    assert_eq!(count(&["--layer", "project"]), 0);
    assert_eq!(count(&["--set", "builtin.without=time-now,math-eval"]), 12);
    assert_eq!(home.run(&["tools", "list", "--risk", "huge"]).code, 2);
}

#[test]
fn colour_only_where_it_is_asked_for() {
    let home = Home::new();
    assert!(!home.run(&["tools", "list"]).stdout.contains('\u{1b}'));
    assert!(home.run(&["tools", "list", "--color", "always"]).stdout.contains('\u{1b}'));
    assert!(!home.run_with(&["tools", "list"], &[("NO_COLOR", "1")], b"").stdout.contains('\u{1b}'));
}

#[test]
fn show_is_readable() {
    let home = Home::new();
    home.settled(|home| insta::assert_snapshot!("show", home.run(&["tools", "show", "text-stats"]).all()));
    insta::assert_snapshot!("show_unknown", home.run(&["tools", "show", "txt-stats"]).all());
    assert_eq!(home.json(&["tools", "show", "time-now"])["name"], "time-now");
}

#[test]
fn search_finds_by_words_and_by_pattern() {
    let home = Home::new();
    assert_eq!(home.json(&["tools", "search", "count", "words"])[0]["name"], "text-stats");
    assert_eq!(home.json(&["tools", "search", "--pattern", "*-eval"])[0]["name"], "math-eval");
    let nothing = home.run(&["tools", "search", "zebra"]);
    assert_eq!(nothing.code, 1, "{}", nothing.stderr);
    assert_eq!(home.run(&["tools", "search"]).code, 2);
}

#[test]
fn export_speaks_every_format() {
    let home = Home::new();
    for format in ["anthropic", "openai", "openai-chat", "gemini", "mcp", "llm"] {
        let tools = home.json(&["tools", "export", "--format", format]);
        assert!(tools.to_string().contains("math-eval"), "{format}");
    }
    let one = home.json(&["tools", "export", "--format", "anthropic", "time-now"]);
    assert_eq!(one.as_array().unwrap().len(), 1);
    assert_eq!(home.run(&["tools", "export", "--format", "mcp", "--out", "tools.json"]).code, 0);
    let written = std::fs::read(home.project().join("tools.json")).unwrap();
    assert!(serde_json::from_slice::<Value>(&written).unwrap().is_array());
    assert_eq!(home.run(&["tools", "export", "--format", "cobol"]).code, 2);
    assert_eq!(home.run(&["tools", "export", "--format", "mcp", "nope"]).code, 2);
}

#[test]
fn a_reader_that_leaves_early_is_no_error() {
    let home = Home::new();
    let mut command = home.command(&["config", "schema"]);
    let mut child =
        command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
}
