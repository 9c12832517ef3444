//! One broken tool, API, server, hook or policy in `helve.toml`: the rest works, and what was to make the gate
//! stricter still denies.

use serde_json::{Value, json};

use crate::home::{Home, until};
use crate::up::Up;

const GOOD: &str = r#"[[tool.program]]
name = "greet"
description = "Greets."
command = "sh"
args = ["-c", "echo '\"hello\"'"]

"#;

/// A broken part.
struct Part {
    text: &'static str,
    name: &'static str,
    /// A tool of it that nobody else has.
    tool: &'static str,
    /// Where the mistake is, in a file that begins with the good one.
    place: &'static str,
}

const PARTS: [Part; 11] = [
    Part {
        text: "[[tool.http]]\nname = 'bad'\ndescription = 'Is broken.'\nurll = 'https://x.example'\n",
        name: "bad",
        tool: "bad",
        place: ":10:1",
    },
    Part {
        text: "[[tool.http]]\nname = 'bad'\ndescription = 'Is broken.'\nurl = 'no address'\n",
        name: "bad",
        tool: "bad",
        place: ":10:1",
    },
    Part {
        text: "[[tool.program]]\nname = 'bad'\ndescription = 'Is broken.'\ncommand = 7\n",
        name: "bad",
        tool: "bad",
        place: ":10:1",
    },
    Part {
        text: "[[openapi]]\nnamespace = 'bad'\ndocument = 'not/there.yaml'\n",
        name: "bad",
        tool: "bad/x",
        place: ":7:",
    },
    Part {
        text: "[[openapi]]\nnamespace = 'bad'\ndocument = 'a.yaml'\nincluded = 1\n",
        name: "bad",
        tool: "bad/x",
        place: ":10:1",
    },
    Part { text: "[mcp.servers.bad]\nurl = 7\n", name: "bad", tool: "bad/x", place: ":8:1" },
    Part {
        text: "[mcp.servers.bad]\nurl = 'http://127.0.0.1:9/mcp'\ncolour = 'red'\n",
        name: "bad",
        tool: "bad/x",
        place: ":9:1",
    },
    Part {
        text: "[[tool.sequence]]\nname = 'bad'\ndescription = 'Is broken.'\nsteps = [{ name = 'a', tool = 'nobody' }]\n",
        name: "bad",
        tool: "bad",
        place: ":10:",
    },
    Part {
        text: "[tool.map]\nname = 'bad'\ndescription = 'Is a table.'\nover = 'input.all'\n",
        name: "bad",
        tool: "bad",
        place: ":7:",
    },
    Part {
        text: "[[tool.htp]]\nname = 'bad'\ndescription = 'Is of no sort.'\nurl = 'https://x.example'\n",
        name: "bad",
        tool: "bad",
        place: ":7:",
    },
    Part { text: "[mcp.servers.bad]\nargs = ['x']\n", name: "bad", tool: "bad/x", place: ":8:1" },
];

/// A tool with a key that there is not.
const BAD: &str = PARTS[0].text;

#[test]
fn one_broken_part_leaves_the_rest_working() {
    for Part { text, name, tool, place } in PARTS {
        let home = Home::new();
        home.write("helve.toml", format!("{GOOD}{text}"));
        let list = home.run(&["tools", "list"]);
        assert_eq!(list.code, 0, "{text}\n{}", list.stderr);
        for said in [format!("{name} is broken"), format!("helve.toml{place}")] {
            assert!(list.stderr.contains(&said), "{said}\n{text}\n{}", list.stderr);
        }
        assert!(list.stderr.contains("`helve tools lint helve.toml`"), "{text}\n{}", list.stderr);
        let shown = home.json(&["tools", "list"]);
        let broken: Vec<_> =
            shown.as_array().unwrap().iter().filter(|one| one["broken"].is_object()).collect();
        assert_eq!((broken.len(), &broken[0]["name"]), (1, &json!(name)), "{text}");
        let called = home.run(&["call", "greet"]);
        assert_eq!((called.code, called.stdout.trim()), (0, "hello"), "{text}\n{}", called.stderr);
        let ran = home.run(&["call", tool]);
        let said = format!("precondition_failed: `{tool}` is broken: ");
        assert!(ran.code == 1 && ran.stderr.contains(&said), "{text}\n{}", ran.all());
        let is_placed = ran.stderr.contains("helve.toml:7:") || ran.stderr.contains(place);
        assert!(is_placed, "{text}\n{}", ran.stderr);
        assert_eq!(home.json(&["audit", "list", "--limit", "1"])[0]["status"], "failed", "{text}");
        for check in [&["doctor"][..], &["up", "--check"]] {
            let ran = home.run(check);
            assert!(ran.code == 1 && ran.stdout.contains(name), "{check:?} {text}\n{}", ran.all());
        }
        assert_ne!(home.run(&["tools", "lint", "helve.toml"]).code, 0, "{text}");
    }
}

#[test]
fn of_two_tools_with_one_name_the_first_works() {
    let home = Home::new();
    let twice = "[[tool.http]]\nname = 'greet'\ndescription = 'Comes late.'\nurl = 'https://x.example'\n";
    home.write("helve.toml", format!("{GOOD}{twice}"));
    // Those that send requests are made first.
    let list = home.run(&["tools", "list"]);
    assert!(
        list.stderr.contains("greet is broken") && list.stderr.contains("helve.toml:1:"),
        "{}",
        list.stderr
    );
    assert_eq!(home.json(&["tools", "show", "greet"])["implementation"], "http");
}

#[test]
fn a_server_starts_beside_what_is_broken_and_says_so_to_clients() {
    let home = Home::new();
    let named = |n: usize, text: &str| text.replace("bad", &format!("bad{n}"));
    let parts: String = PARTS.iter().enumerate().map(|(n, part)| named(n, part.text)).collect();
    home.write("helve.toml", format!("{GOOD}{parts}"));
    let up = Up::start(&home);
    let (status, answer) = up.call(&up.token(), "greet", json!({}));
    assert_eq!((status, &answer["result"]), (200, &json!("hello")), "{answer}");
    for (n, part) in PARTS.iter().enumerate() {
        let (status, answer) = up.call(&up.token(), &named(n, part.tool), json!({}));
        assert_eq!((status, &answer["code"]), (424, &json!("precondition_failed")), "{answer}");
        assert!(answer["detail"].as_str().unwrap().contains("helve.toml:"), "{answer}");
    }
    let (_, tools) = up.with("GET /v1/tools", &up.token(), Value::Null);
    assert!(!tools.to_string().contains("\"bad"), "no model is offered what is broken: {tools}");
}

#[test]
fn what_is_made_of_a_broken_tool_is_broken_and_says_why() {
    let home = Home::new();
    let made_of = |name: &str, part: &str| {
        format!(
            "[[tool.sequence]]\nname = '{name}'\ndescription = 'Calls another.'\n\
             steps = [{{ name = 'a', tool = '{part}' }}]\n"
        )
    };
    let undone = "[[tool.program]]\nname = 'undone'\ndescription = 'Is undone by another.'\ncommand = 'true'\n\
                  undo = { tool = 'bad' }\n";
    let text = format!("{BAD}{}{}{undone}{GOOD}", made_of("outer", "inner"), made_of("inner", "bad"));
    home.write("helve.toml", text + &made_of("sound", "greet") + &made_of("last", "undone"));
    let list = home.run(&["tools", "list"]);
    for said in [
        "`inner`: `bad`, which it calls, is broken: see helve.toml:1:1",
        "`outer`: `inner`, which it calls, is broken",
        "undone is broken",
        "`last`: `undone`, which it calls, is broken",
    ] {
        assert!(list.stderr.contains(said), "{said}\n{}", list.stderr);
    }
    assert_eq!(home.run(&["call", "sound"]).code, 0);
    for name in ["inner", "outer", "undone", "last"] {
        let ran = home.run(&["call", name]);
        assert!(ran.stderr.contains(&format!("`{name}` is broken")), "{}", ran.stderr);
    }
}

#[test]
fn nothing_answers_in_the_place_of_a_broken_tool() {
    let home = Home::new();
    let named = |text: &str| text.replace("'bad'", "'time-now'");
    home.write("helve.toml", named(BAD));
    let ran = home.run(&["call", "time-now"]);
    assert!(ran.stderr.contains("precondition_failed: `time-now` is broken"), "{}", ran.all());
    // Of two files, the project's good one counts.
    let user = home.project().parent().unwrap().join(".config/helve");
    std::fs::create_dir_all(&user).unwrap();
    std::fs::write(user.join("helve.toml"), named(BAD)).unwrap();
    home.write("helve.toml", GOOD.replace("greet", "time-now"));
    let listed = home.json(&["tools", "list", "--layer", "project"]);
    assert_eq!(listed[0]["name"], "time-now");
    let ran = home.run(&["--config", "helve.toml", "call", "time-now"]);
    assert_eq!(ran.stdout.trim(), "hello", "{}", ran.all());
}

#[test]
fn whoever_calls_a_broken_tool_learns_nothing_of_its_definition() {
    let home = Home::new();
    let secret = "sk-not-for-models";
    let tool = "[[tool.http]]\nname = 'bad'\ndescription = 'Is broken.'\nurl = 'https://x.example'\n";
    home.write("helve.toml", format!("{tool}headers = 'Bearer {secret}'\n"));
    let ran = home.run(&["call", "bad", "--json"]);
    assert!(ran.stdout.contains("helve.toml:1:"), "{}", ran.all());
    assert!(!ran.all().contains(secret), "{}", ran.all());
    assert!(!home.run(&["audit", "export"]).stdout.contains(secret));
    // The person who mends it sees what stands there.
    assert!(home.run(&["tools", "lint", "helve.toml"]).stdout.contains("headers"));
}

#[test]
fn a_caller_is_told_of_no_broken_tool_that_it_may_not_use() {
    let home = Home::new();
    home.write("helve.toml", BAD);
    let ran = home.run(&["call", "bad", "--allow", "math-eval"]);
    assert!(ran.stderr.starts_with("tool_not_found"), "{}", ran.stderr);
}

#[test]
fn a_broken_hook_denies_what_it_would_look_at() {
    for (group, denies_all) in [
        ("matcher = 'math-eval'\nhooks = [{ type = 'command', commandd = 'true' }]", false),
        ("matcher = 'math-eval'\nhooks = [{ type = 'http' }]", false),
        ("matcher = 'math-eval'\nhooks = 'none'", false),
        ("matcher = '(['\nhooks = [{ type = 'command', command = 'true' }]", true),
        ("matcher = 7\nhooks = [{ type = 'command', command = 'true' }]", true),
    ] {
        let home = Home::new();
        home.write("helve.toml", format!("[[hooks.PreToolUse]]\n{group}\n"));
        // Named by its user, so that trust is not what denies.
        let call = |tool: &str, argument: &str| home.run(&["--config", "helve.toml", "call", tool, argument]);
        let denied = call("math-eval", "expression=1+1");
        assert_eq!(denied.code, 4, "{group}\n{}", denied.all());
        for said in ["helve.toml:1:", "is broken"] {
            assert!(denied.stderr.contains(said), "{}", denied.all());
        }
        let other = call("time-now", "{}");
        assert_eq!(other.code, if denies_all { 4 } else { 0 }, "{group}\n{}", other.all());
    }
}

#[test]
fn a_broken_hook_that_looks_at_results_denies_before_there_is_one() {
    let home = Home::new();
    home.write("helve.toml", format!("{GOOD}[[hooks.PostToolUse]]\nmatcher = 'greet'\nhooks = 'none'\n"));
    let ran = home.run(&["--config", "helve.toml", "call", "greet"]);
    assert!(ran.code == 4 && ran.stdout.is_empty(), "{}", ran.all());
    let ran = home.run(&["doctor"]);
    assert!(ran.code == 1 && ran.stdout.contains("helve.toml:9:1"), "{}", ran.stdout);
    assert!(home.run(&["hooks", "list"]).stderr.contains("helve.toml:9:1"));
}

#[test]
fn a_broken_hook_says_whether_it_denies() {
    for (event, follows) in [
        ("PreToolUse", "what this hook would look at is denied"),
        ("Elicitation", "what this hook would look at is denied"),
        ("PostToolBatch", "what this hook would look at is denied"),
        ("ConfigChange", "its event goes on without it"),
        ("Notification", "its event goes on without it"),
    ] {
        let home = Home::new();
        home.write("helve.toml", format!("[[hooks.{event}]]\nhooks = 'none'\n"));
        let listed = home.run(&["hooks", "list"]);
        assert!(listed.stderr.contains(follows), "{event}: {}", listed.all());
    }
}

#[test]
fn a_broken_hook_that_comes_with_a_tool_denies_it_while_a_server_runs() {
    let home = Home::new();
    home.write("helve.toml", "");
    let up = Up::start_with(&home, &["--config", "helve.toml"]);
    home.write("helve.toml", format!("{GOOD}[[hooks.PreToolUse]]\nmatcher = 'greet'\nhooks = 'none'\n"));
    until("the tool is there", || {
        let (status, answer) = up.call(&up.token(), "greet", json!({}));
        assert_ne!(status, 200, "at no time does it run unguarded: {answer}");
        status == 403 && answer["detail"].as_str().unwrap().contains("is broken")
    });
    assert_eq!(up.call(&up.token(), "math-eval", json!({ "expression": "1+1" })).0, 200);
    home.write("helve.toml", GOOD);
    until("it is mended", || up.call(&up.token(), "greet", json!({})).0 == 200);
}

#[test]
fn broken_policies_deny_everything_and_a_server_starts_all_the_same() {
    let home = Home::new();
    home.write("p.cedar", "permit (principal, action, resouce);");
    home.write("helve.toml", "[policy]\nfiles = ['p.cedar']\n");
    let up = Up::start(&home);
    let call = || up.call(&up.token(), "math-eval", json!({ "expression": "1+1" }));
    assert_eq!(call().0, 403, "{}", call().1);
    home.write("p.cedar", "permit (principal, action, resource);");
    until("the policies are followed", || call().0 == 200);
}

#[test]
fn a_check_by_a_broken_tool_does_not_hold() {
    let home = Home::new();
    let checked = "preconditions = [{ type = 'custom', check = 'ok', description = 'All is well.' }]\n";
    let tool = GOOD.replace("description", &format!("{checked}description"));
    home.write("helve.toml", format!("{BAD}[checks.ok]\ntool = 'bad'\nexpect = 'result'\n{tool}"));
    let ran = home.run(&["--config", "helve.toml", "call", "greet"]);
    assert!(ran.code == 1 && ran.stderr.contains("precondition_failed"), "{}", ran.all());
    assert_eq!(home.run(&["--config", "helve.toml", "call", "math-eval", "expression=1+1"]).code, 0);
}

#[test]
fn what_only_adds_something_is_left_out_where_it_is_wrong() {
    for (text, place) in [
        ("[resources.db]\nfil = 'x'\n", "helve.toml:8:1"),
        ("[checks.ok]\ntool = 7\nexpect = 'result'\n", "helve.toml:8:1"),
        ("[checks.ok]\ntool = 'nobody'\nexpect = 'result'\n", "helve.toml:8:1"),
        ("[checks.ok]\ntool = 'time-now'\nexpect = 'result +'\n", "helve.toml:8:1"),
        ("[integrations.crm]\nenvv = 'CRM'\n", "helve.toml:8:1"),
        ("[web.secrets.key]\nhosts = ['x.example']\n", "helve.toml:7:"),
        ("[something]\nof = 'mine'\n", "helve.toml:7:2"),
        ("[[something]]\nof = 'mine'\n", "helve.toml:7:"),
        ("[toolz.http]\nname = 'x'\n", "helve.toml:7:2"),
    ] {
        let home = Home::new();
        home.write("helve.toml", format!("{GOOD}{text}"));
        let config = ["--config", "helve.toml"];
        let called = home.run(&[&config[..], &["call", "greet"]].concat());
        assert_eq!((called.code, called.stdout.trim()), (0, "hello"), "{text}\n{}", called.stderr);
        let doctor = home.run(&[&config[..], &["doctor"]].concat());
        assert!(doctor.stdout.contains(place), "{text}\n{}", doctor.all());
        // As the project's own, before anybody has trusted it.
        assert_eq!(home.run(&["call", "math-eval", "expression=1+1"]).code, 0, "{text}");
    }
}

#[test]
fn a_web_tool_that_cannot_be_made_leaves_the_others_working() {
    let home = Home::new();
    home.write("helve.toml", format!("{GOOD}[web.secrets.key]\nenv = 'KEY'\nhosts = []\n"));
    let config = ["--config", "helve.toml"];
    assert_eq!(home.run(&[&config[..], &["call", "greet"]].concat()).code, 0);
    let ran = home.run(&[&config[..], &["call", "http-get", "url=https://x.example"]].concat());
    assert!(ran.code == 1 && ran.stderr.contains("`http-get` is broken"), "{}", ran.all());
    let doctor = home.run(&[&config[..], &["doctor"]].concat());
    assert!(doctor.code == 1 && doctor.stdout.contains("list the `hosts`"), "{}", doctor.all());
}

/// A mistyped guard refuses the whole file: without it, calls could pass that it should stop.
#[test]
fn a_mistyped_table_of_the_gate_refuses_the_file() {
    for text in
        ["[rule]\ndeny = ['greet']\n", "[securty]\nask_from = 'low'\n", "deny = ['greet']\n", "[polices]\n"]
    {
        let home = Home::new();
        home.write("helve.toml", format!("{text}{GOOD}"));
        let ran = home.run(&["call", "greet"]);
        assert!(ran.code == 2 && ran.stderr.contains("helve.toml:1:"), "{text}\n{}", ran.all());
    }
}

#[test]
fn a_mistake_outside_of_parts_refuses_the_file_with_its_place() {
    let home = Home::new();
    for (text, place) in [
        ("[execution]\nmax = 1\n", "helve.toml:2:1"),
        ("[rules]\ndeny = ['file-read(']\n", "helve.toml:"),
        ("[[tool.http]\n", "helve.toml:1:"),
    ] {
        home.write("helve.toml", text);
        let ran = home.run(&["call", "math-eval", "expression=1+1"]);
        assert!(ran.code == 2 && ran.stderr.contains(place), "{text}\n{}", ran.all());
    }
}

#[test]
fn a_broken_server_is_listed_and_can_be_taken_out() {
    let home = Home::new();
    home.write("helve.toml", format!("{GOOD}{}", PARTS[6].text));
    let listed = home.json(&["mcp", "list"]);
    assert_eq!(listed[0]["name"], "bad");
    assert!(listed[0]["broken"][0].as_str().unwrap().contains("helve.toml:9:1"), "{listed}");
    let status = home.run(&["mcp", "status"]);
    assert!(status.code == 1 && status.stdout.contains("helve.toml:9:1"), "{}", status.all());
    assert_eq!(home.run(&["mcp", "remove", "bad"]).code, 0);
    assert_eq!(home.json(&["mcp", "list"]), json!([]));
    assert!(!home.run(&["doctor"]).stdout.contains('✗'));
}
