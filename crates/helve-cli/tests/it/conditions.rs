//! Preconditions from configuration: resources, states, permissions, dependencies, checks.

use serde_json::{Value, json};

use crate::home::Home;

/// The seed's two examples, and a tool with a check.
const TOOLS: &str = r#"
[resources.browser]
command = "sh"

[resources."api:credentials"]
env = "API_KEY"

[resources.index]
file = "index.db"

[resources.clock]
tool = "time-now"

[checks.sums]
tool = "math-eval"
arguments = { expression = "1 + 1" }
expect = "result.value == 2"

[permissions]
local = ["browser:*"]

[[tool.program]]
name = "browser/open"
description = "Opens a page in the browser."
command = "cat"
annotations = { read_only = true }
preconditions = [
  { type = "resource", description = "Browser instance must be available", resource = "browser" },
  { type = "state", description = "Browser must not be in error state", state = "browser.error", expected = false },
  { type = "permission", description = "User must have granted browser automation permission", permission = "browser:automate" },
]

[[tool.program]]
name = "api/call"
description = "Calls the API."
command = "cat"
annotations = { read_only = true }
preconditions = [
  { type = "resource", description = "API credentials must be configured", resource = "api:credentials" },
  { type = "state", description = "Rate limit must not be exceeded", state = "api.rateLimit.remaining", expected = "> 0" },
]

[[tool.program]]
name = "report"
description = "Writes a report on the page."
command = "cat"
annotations = { read_only = true }
preconditions = [
  { type = "dependency", description = "The page must be open", tool = "browser/open", status = "completed" },
  { type = "dependency", description = "There must be a clock", tool = "time-now", status = "available" },
  { type = "resource", description = "There must be a clock", resource = "clock" },
  { type = "custom", description = "The machine must be able to count", id = "sums" },
  { type = "resource", description = "The index makes it fast", resource = "index", critical = false },
]
"#;

fn home() -> Home {
    let home = Home::new();
    home.write("helve.toml", TOOLS);
    // What callers may do is for their user to say.
    assert_eq!(home.run(&["trust", "--yes"]).code, 0);
    home
}

/// Which conditions of a tool do not hold.
fn unmet(home: &Home, args: &[&str], variables: &[(&str, &str)]) -> (i32, Vec<String>) {
    let ran = home.run_with(&[&["tools", "check"], args, &["--json"]].concat(), variables, b"");
    let document: Value = serde_json::from_str(&ran.stdout).expect(&ran.stderr);
    assert_eq!(document["ready"], json!(ran.code == 0));
    let conditions = document["conditions"].as_array().unwrap();
    let unmet = conditions.iter().filter(|one| one["holds"] == json!(false));
    (ran.code, unmet.map(|one| one["description"].as_str().unwrap().to_owned()).collect())
}

#[test]
fn the_seeds_browser_tool() {
    let home = home();
    assert_eq!(unmet(&home, &["browser/open"], &[]), (0, vec![]));
    let (code, lacks) = unmet(&home, &["browser/open", "--principal", "ada"], &[]);
    assert_eq!((code, lacks.len()), (1, 1));
    assert_eq!(home.run(&["memory", "set", "browser.error", "true"]).code, 0);
    assert_eq!(unmet(&home, &["browser/open"], &[]).1, ["Browser must not be in error state"]);
    let ran = home.run(&["call", "browser/open"]);
    assert_eq!(ran.code, 1);
    assert!(ran.stderr.contains("Browser must not be in error state"), "{}", ran.all());
    // Another session has its own state.
    assert_eq!(home.run(&["call", "browser/open", "--session", "s-2"]).code, 0);
    assert_eq!(home.run(&["memory", "delete", "browser.error"]).code, 0);
    assert_eq!(home.run(&["call", "browser/open"]).code, 0);
}

#[test]
fn the_seeds_api_tool() {
    let home = home();
    let (code, lacks) = unmet(&home, &["api/call"], &[]);
    assert_eq!((code, lacks.len()), (1, 2));
    home.run(&["memory", "set", "api.rateLimit.remaining", "1"]);
    assert_eq!(unmet(&home, &["api/call"], &[("API_KEY", "x")]), (0, vec![]));
    home.run(&["memory", "set", "api.rateLimit.remaining", "0"]);
    assert_eq!(unmet(&home, &["api/call"], &[("API_KEY", "x")]).1, ["Rate limit must not be exceeded"]);
}

#[test]
fn dependencies_checks_and_degraded_mode() {
    let home = home();
    let session = ["--session", "s-1"];
    assert_eq!(
        unmet(&home, &["report", "--session", "s-1"], &[]),
        (1, vec!["The page must be open".to_owned(), "The index makes it fast".to_owned()])
    );
    assert_eq!(home.run(&[&["call", "browser/open"], &session[..]].concat()).code, 0);
    assert_eq!(
        unmet(&home, &["report", "--session", "s-1"], &[]),
        (0, vec!["The index makes it fast".to_owned()])
    );
    let outcome = home.json(&["call", "report", "--session", "s-1"]);
    let said = home.run(&["call", "report", "--session", "s-1"]).stderr;
    assert!(said.contains("did less: The index makes it fast"), "{said}");
    assert!(outcome["degraded"][0].as_str().unwrap().starts_with("The index makes it fast (there is no"));
    assert_eq!(home.run(&["call", "report", "--session", "s-2"]).code, 1);
    home.write("index.db", "");
    assert_eq!(home.json(&["call", "report", "--session", "s-1"])["degraded"], Value::Null);
    // What the runtime notes for itself is nobody's to see or to write.
    assert_eq!(home.json(&["memory", "list", "--session", "s-1"]), json!([]));
}

#[test]
fn a_check_is_a_table_and_says_what_is_wrong() {
    let home = home();
    home.settled(|home| insta::assert_snapshot!("check", home.run(&["tools", "check", "report"]).all()));
    assert!(home.run(&["tools", "check", "time-now"]).stderr.contains("needs nothing"));
    assert_eq!(home.run(&["tools", "check", "tme-now"]).code, 2);
    assert_eq!(home.run(&["tools", "check", "time-now", "--arguments", "{"]).code, 2);
}

#[test]
fn checks_and_predicates_that_cannot_work_are_named_and_the_rest_works() {
    for (text, said) in [
        ("[checks.x]\ntool = 'nobody'\nexpect = 'true'\n", "there is no tool `nobody`"),
        ("[checks.x]\ntool = 'time-now'\nexpect = 'result +'\n", "`result +` is wrong"),
        ("[checks.x]\ntool = 'time-now'\nexpect = 'answer'\n", "there is only `result`"),
        (
            "[checks.x]\ntool = 'w'\nexpect = 'true'\n[[tool.program]]\nname = 'w'\ndescription = 'Writes.'\ncommand = 'cat'\n",
            "checks only read",
        ),
        ("[resources.x]\ncomand = 'sh'\n", "resources.x"),
    ] {
        let home = Home::new();
        home.write("helve.toml", text);
        home.run(&["trust", "--yes"]);
        let doctor = home.run(&["doctor"]);
        assert!(doctor.stdout.contains(said), "{text}: {}", doctor.all());
        assert_eq!(home.run(&["call", "time-now"]).code, 0, "{text}");
    }
    let home = Home::new();
    home.write(
        "helve.toml",
        "[[tool.program]]\nname = 'p'\ndescription = 'P.'\ncommand = 'cat'\npreconditions = [{ type = 'state', description = 'd', state = 's', expected = '> much' }]\n",
    );
    let ran = home.run(&["call", "p"]);
    assert!(ran.code == 1 && ran.stderr.contains("there is no `much`"), "{}", ran.all());
    assert_eq!(home.run(&["call", "time-now"]).code, 0);
}
