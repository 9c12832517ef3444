//! Who may do what: files of policies, their check, their tests, and what they stop.

use serde_json::{Value, json};

use crate::home::Home;

/// A tool that leaves a trace when it runs.
const TOOLS: &str = r#"
[[tool.program]]
name = "mail/send"
description = "Sends a mail to somebody."
command = "sh"
args = ["-c", "echo sent >> sent.txt; cat"]
write = ["."]
risk = "low"
parameters = [
  { name = "to", type = "string", description = "Whom.", required = true },
  { name = "copies", type = "integer", description = "How many." },
]
"#;

const POLICY: &str = r#"@id("everybody")
permit (principal, action in [Action::"list", Action::"call"], resource);

@id("inside-only")
@reason("mail goes to our own people")
forbid (principal, action == Action::"call mail/send", resource)
unless { context.arguments.to like "*@example.com" };

@id("untrusted-asks")
@reason("the session has read text of strangers")
forbid (principal, action in Action::"call", resource in Namespace::"mail")
when { context.labels.contains("untrusted") }
unless { context.approved };
"#;

const CASES: &str = r#"
[[case]]
name = "mail to our own"
caller = { principal = "planner", kind = "agent", channel = "http" }
tool = "mail/send"
arguments = { to = "ada@example.com" }
expect = "allow"

[[case]]
name = "mail to others"
caller = { principal = "planner" }
tool = "mail/send"
arguments = { to = "eve@elsewhere.org" }
expect = "deny"
by = "inside-only"

[[case]]
name = "after reading a page"
caller = { principal = "planner" }
tool = "mail/send"
arguments = { to = "ada@example.com" }
labels = ["untrusted"]
expect = "ask"

[[case]]
caller = { principal = "ada", roles = ["approver"] }
action = "approve"
expect = "deny"
"#;

fn home(policy: &str) -> Home {
    let home = Home::new();
    home.write("helve.toml", format!("[policy]\nfiles = ['policy.cedar']\n{TOOLS}"));
    home.write("policy.cedar", policy);
    home
}

fn sent(home: &Home) -> bool {
    home.project().join("sent.txt").exists()
}

#[test]
fn policies_stop_calls_before_the_tool_runs() {
    let home = home(POLICY);
    let ran = home.run(&["call", "mail/send", "to=eve@elsewhere.org"]);
    assert_eq!(ran.code, 4, "{}", ran.all());
    assert!(ran.stderr.contains("policy inside-only: mail goes to our own people"), "{}", ran.all());
    assert!(!sent(&home));
    let ran = home.run(&["call", "mail/send", "to=ada@example.com"]);
    assert_eq!(ran.code, 0, "{}", ran.all());
    assert!(sent(&home));
}

#[test]
fn policies_that_cannot_be_read_or_are_wrong_deny_every_call() {
    let wrong = |policy: &str, said: &str| {
        let home = home(policy);
        if policy.is_empty() {
            std::fs::remove_file(home.project().join("policy.cedar")).unwrap();
        }
        let ran = home.run(&["call", "mail/send", "to=ada@example.com"]);
        assert_eq!(ran.code, 4, "{}", ran.all());
        assert!(ran.stderr.contains(said) && ran.stderr.contains("helve policy check"), "{}", ran.all());
        assert!(!sent(&home));
        // What calls nothing works, and says what is wrong.
        assert_eq!(home.run(&["tools", "list"]).code, 0);
        assert!(home.run(&["doctor"]).all().contains(said));
        assert_eq!(home.run(&["policy", "show"]).code, 1);
        assert_ne!(home.run(&["policy", "check"]).code, 0);
    };
    wrong("", "policy.cedar cannot be read");
    wrong("permit (principal, action, resource", "unexpected");
    wrong(
        "permit (principal, action == Action::\"call mail/sned\", resource);",
        "did you mean `call mail/send`?",
    );
}

/// However a policy is wrong, the tool does not run, and a look says where.
#[test]
fn every_typo_denies_and_says_where_it_is() {
    const ALL: &str = "permit (principal, action, resource);\n";
    const SEND: &str = "forbid (principal, action == Action::\"call mail/send\", resource) when";
    let denied = |home: &Home, said: &str| {
        let ran = home.run(&["call", "mail/send", "to=ada@example.com"]);
        assert_eq!(ran.code, 4, "{}", ran.all());
        assert!(ran.stderr.contains(said), "{said}: {}", ran.all());
        assert!(!sent(home));
    };
    for (policy, said) in [
        (
            format!("{ALL}forbid (principal, action == Action::\"cal\", resource);"),
            "policy.cedar:2:38  there is no action `cal`",
        ),
        (format!("{ALL}{SEND} {{ context.arguments.too == \"x\" }};"), "policy.cedar:2:"),
        (format!("{ALL}\n{SEND} {{ context.arguments.to > 3 }};"), "policy.cedar:3:"),
        (
            format!("{ALL}{SEND} {{ context.arguments has copies && context.arguments.copies == \"x\" }};"),
            "policy.cedar:2:",
        ),
        (
            format!("{ALL}forbid (principal, action in Action::\"call\", resource == Tool::\"mail/sned\");"),
            "did you mean `mail/send`?",
        ),
        (
            format!("{ALL}forbid (principal, action, resource in Namespace::\"mial\");"),
            "did you mean `mail`?",
        ),
        (format!("{ALL}forbid (principl, action, resource);"), "policy.cedar:2:9"),
        (format!("{ALL}\u{feff}forbid (principal, action, resource);"), "policy.cedar:2:1"),
        (
            ALL.replace('\n', "\r\n") + "forbid (principal, action == Action::\"cal\", resource);\r\n",
            "policy.cedar:2:38",
        ),
        (format!("{ALL}\0"), "policy.cedar:2:1"),
        (ALL.repeat(300_000), "more than 10000 policies"),
        (format!("// {}\n{ALL}", "x".repeat(17 << 20)), "longer than"),
    ] {
        denied(&home(&policy), said);
    }
    let place = |home: &Home| home.project().join("policy.cedar");
    let broken = |make: fn(&std::path::Path), said: &str| {
        let home = home(ALL);
        std::fs::remove_file(place(&home)).unwrap();
        make(&place(&home));
        denied(&home, said);
    };
    broken(|path| std::fs::create_dir(path).unwrap(), "it is not a file");
    broken(|path| std::os::unix::fs::symlink(path, path).unwrap(), "cannot be read");
    broken(|path| std::os::unix::fs::symlink("/dev/zero", path).unwrap(), "they lie outside of the project");
    broken(
        |path| std::fs::write(path, b"permit (principal, action, resource);\xff").unwrap(),
        "cannot be read",
    );
    // What only looks odd is read: a mark at the beginning, the line ends of another system.
    for policy in [format!("\u{feff}{ALL}"), ALL.replace('\n', "\r\n")] {
        let home = home(&policy);
        assert_eq!(home.run(&["call", "mail/send", "to=ada@example.com"]).code, 0);
    }
    // An operator whose policies permit nothing, permits nothing.
    for policy in ["", "// to be written\n"] {
        let home = home(policy);
        let ran = home.run(&["call", "mail/send", "to=ada@example.com", "--config", "helve.toml"]);
        assert!(ran.code == 4 && !sent(&home), "{}", ran.all());
    }
}

#[test]
fn a_project_does_not_open_what_the_user_forbids() {
    let home = home("permit (principal, action, resource);");
    let own = home.project().parent().unwrap().join(".config/helve");
    std::fs::create_dir_all(&own).unwrap();
    std::fs::write(own.join("helve.toml"), "[policy]\nfiles = ['own.cedar']\n").unwrap();
    std::fs::write(
        own.join("own.cedar"),
        "@id(\"all\") permit (principal, action, resource);\n@id(\"no-mail\") forbid (principal, action in Action::\"call\", resource) when { resource.namespace == \"mail\" };",
    )
    .unwrap();
    let ran = home.run(&["call", "mail/send", "to=ada@example.com"]);
    assert!(ran.code == 4 && ran.stderr.contains("no-mail") && !sent(&home), "{}", ran.all());
    let statements = home.json(&["policy", "show"]);
    let narrows: Vec<_> = statements.as_array().unwrap().iter().map(|one| one["narrows"].clone()).collect();
    assert_eq!(narrows, [json!(false), json!(false), json!(true)]);
}

#[test]
fn check_names_every_mistake_with_its_place() {
    let text = "permit (principal, action == Action::\"lst\", resource);\n\
                forbid (principal, action == Action::\"call mail/send\", resource)\nwhen { context.arguments.too == \"x\" };\n\
                @resaon(\"x\")\npermit (principal, action, resource) when { resource is Tool && resource.risk == \"huge\" };";
    let home = home(text);
    home.settled(|home| insta::assert_snapshot!("policy_check", home.run(&["policy", "check"]).all()));
    let found = home.run(&["policy", "check", "--json"]);
    let found: Value = serde_json::from_str(&found.stdout).unwrap();
    assert_eq!(found["usable"], json!(false));
    assert_eq!(found["findings"][1]["line"], json!(3));
    home.write("fine.cedar", POLICY);
    assert_eq!(
        home.json(&["policy", "check", "fine.cedar"]),
        json!({ "usable": true, "policies": 3, "findings": [] })
    );
}

#[test]
fn cases_are_tried_and_a_failure_is_an_exit_code() {
    let home = home(POLICY);
    home.write("cases.toml", CASES);
    home.settled(|home| {
        insta::assert_snapshot!("policy_test", home.run(&["policy", "test", "cases.toml"]).all())
    });
    let wrong = CASES
        .replace("expect = \"ask\"", "expect = \"allow\"")
        .replace("by = \"inside-only\"", "by = \"other\"");
    home.write("wrong.toml", wrong);
    let ran = home.run(&["policy", "test", "wrong.toml", "--json"]);
    let result: Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!((ran.code, &result["failed"], &result["passed"]), (1, &json!(2), &json!(2)), "{}", ran.all());
    // A case that could never happen proves nothing.
    home.write("odd.json", r#"{ "case": [{ "tool": "mail/send", "caller": { "principal": "ada" }, "arguments": { "copies": "x" }, "expect": "deny" },
        { "tool": "mail/sned", "caller": { "principal": "ada" }, "expect": "deny" }] }"#);
    let ran = home.run(&["policy", "test", "odd.json"]);
    assert!(
        ran.code == 1 && ran.stdout.contains("do not fit") && ran.stdout.contains("did you mean `mail/send`"),
        "{}",
        ran.all()
    );
    home.write("typo.toml", "[[case]]\ntol = 'x'\nexpect = 'deny'\n");
    assert_eq!(home.run(&["policy", "test", "typo.toml"]).code, 2);
    assert_eq!(home.run(&["policy", "test", "nowhere.toml"]).code, 2);
}

#[test]
fn explain_names_the_policy_and_its_place() {
    let home = home(POLICY);
    let explain = ["policy", "explain", "mail/send", "--as", "agent:planner", "--args"];
    let run = |args: &[&str]| home.run(&[&explain[..], args].concat());
    home.settled(|_| {
        insta::assert_snapshot!(
            "policy_explain",
            run(&["{\"to\": \"ada@example.com\"}", "--label", "untrusted"]).all()
        );
    });
    assert_eq!(run(&["{\"to\": \"ada@example.com\"}"]).code, 0);
    let denied = run(&["{\"to\": \"eve@elsewhere.org\"}", "--json"]);
    assert_eq!(denied.code, 4);
    let said: Value = serde_json::from_str(&denied.stdout).unwrap();
    assert_eq!(said["voice"]["by"], "policy inside-only");
    assert_eq!(
        said["applied"].as_array().unwrap().iter().filter(|one| one["decided"] == json!(true)).count(),
        1
    );
    for wrong in [
        &["mail/sned"][..],
        &["mail/send", "--action", "cal"],
        &["mail/send", "--label", "x"],
        &["--action", "list"],
    ] {
        assert_eq!(home.run(&[&["policy", "explain"], wrong].concat()).code, 2, "{wrong:?}");
    }
    assert_eq!(home.run(&["policy", "explain", "--action", "administer", "--as", "anonymous"]).code, 4);
    assert!(
        home.run(&["policy", "schema", "mail/send"]).stdout.contains("action \"call mail/send\" in [call]")
    );
}

#[test]
fn explain_says_that_a_person_is_asked_although_policies_allow() {
    let home = Home::new();
    let args = ["policy", "explain", "http-request", "--args", r#"{"url": "https://example.com/"}"#];
    let ran = home.run(&args);
    assert_eq!(ran.code, 0, "{}", ran.all());
    assert!(
        ran.stderr.contains("a person is asked all the same: `http-request` is of high risk"),
        "{}",
        ran.all()
    );
    let low = home.run(&["policy", "explain", "time-now"]);
    assert!(low.code == 0 && !low.stderr.contains("a person is asked"), "{}", low.all());
}
