//! Composed tools from a file, through the real binary. The three compositions of the seed are
//! here as TOML.

use serde_json::json;

use crate::home::Home;

/// `echo` gives back its arguments; `fail` fails.
const TOOLS: &str = r#"
[[tool.program]]
name = "echo"
description = "Gives back what it gets."
command = "cat"
risk = "low"
input_schema = { type = "object" }

[[tool.program]]
name = "fail"
description = "Fails, whatever it gets."
command = "false"
risk = "low"
input_schema = { type = "object" }
"#;

fn home(composed: &str) -> Home {
    let home = Home::new();
    home.write("helve.toml", TOOLS.to_owned() + composed);
    home
}

#[test]
fn the_seeds_sequence_with_its_options() {
    let home = home(
        r#"
        # sequence([echo, echo], { stopOnError: true, transformOutput: … })
        [[tool.sequence]]
        name = "transformed"
        description = "Sequential execution of two tools."
        steps = [{ tool = "echo", name = "first" },
                 { tool = "echo", name = "second", arguments = { got = "{{ previous.n }}", from = { "$pointer" = "/input/n" } } }]

        # sequence([fail, echo], { stopOnError: true })
        [[tool.sequence]]
        name = "stops"
        description = "Stops at the first failure."
        steps = [{ tool = "fail" }, { tool = "echo" }]

        # sequence([fail, echo]): continues with the original arguments
        [[tool.sequence]]
        name = "continues"
        description = "Goes on with the original arguments."
        on_error = "continue"
        steps = [{ tool = "fail" }, { tool = "echo" }]
        "#,
    );
    let result = |tool: &str| home.json(&["call", tool, r#"{"n": 3}"#]);
    assert_eq!(
        result("transformed")["result"]["results"],
        json!({ "first": { "n": 3 }, "second": { "got": 3, "from": 3 } })
    );
    let ran = home.run(&["call", "--json", "stops", r#"{"n": 3}"#]);
    assert_eq!(ran.code, 1);
    assert!(ran.stdout.contains("step `fail` failed"), "{}", ran.all());
    let ran = home.run(&["call", "continues", r#"{"n": 3}"#, "--json"]);
    assert_eq!(ran.code, 1, "it went on, and has not succeeded");
    let outcome: serde_json::Value = serde_json::from_str(&ran.stdout).unwrap();
    let result = outcome["result"].clone();
    assert_eq!(result["results"], json!({ "echo": { "n": 3 } }));
    assert_eq!(result["errors"]["fail"]["code"], "execution_failed");
}

#[test]
fn the_seeds_parallel_with_its_options() {
    let home = home(
        r#"
        # parallel([echo, fail, text-stats], { maxConcurrency: 2, stopOnError: false, timeout: 20000 })
        [[tool.parallel]]
        name = "all"
        description = "Parallel execution of three tools."
        concurrency = 2
        timeout_ms = 20000
        on_error = "continue"
        steps = [{ tool = "echo" }, { tool = "fail" }, { tool = "text-stats" }]

        # parallel([fail, echo], { stopOnError: true })
        [[tool.parallel]]
        name = "stops"
        description = "Stops at the first failure."
        steps = [{ tool = "fail" }, { tool = "echo" }]
        "#,
    );
    let ran = home.run(&["call", "all", r#"{"text": "a b"}"#, "--json"]);
    assert_eq!(ran.code, 1, "as in the seed, one that failed keeps the whole from success");
    let outcome: serde_json::Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!(outcome["degraded"], serde_json::json!(["step `fail` failed (execution_failed)"]));
    let result = &outcome["result"];
    assert_eq!(result["echo"]["text"], "a b");
    assert_eq!(result["text_stats"]["words"], 2);
    assert_eq!(result["fail"]["error"]["code"], "execution_failed");
    assert_eq!(home.run(&["call", "stops", "{}"]).code, 1);
}

#[test]
fn the_seeds_conditional_with_and_without_a_fallback() {
    let home = home(
        r#"
        # conditional([{ condition, tools: [echo] }, …], fallback: [echo])
        [[tool.conditional]]
        name = "chooses"
        description = "Conditional tool execution."
        otherwise = [{ tool = "echo", arguments = { took = "fallback" } }]
        [[tool.conditional.branches]]
        when = "input.n > 10"
        steps = [{ tool = "echo" }, { tool = "echo", arguments = { took = "{{ branch }}", n = "{{ previous.n }}" } }]

        # conditional([{ condition, tools: [echo] }])
        [[tool.conditional]]
        name = "narrow"
        description = "Conditional tool execution."
        [[tool.conditional.branches]]
        when = "input.n > 10"
        steps = [{ tool = "echo" }]
        "#,
    );
    let result = |n: u32| home.json(&["call", "chooses", &format!(r#"{{"n": {n}}}"#)])["result"].clone();
    assert_eq!(result(11), json!({ "branch": "branch_1", "result": { "took": "branch_1", "n": 11 } }));
    assert_eq!(result(1), json!({ "branch": "otherwise", "result": { "took": "fallback" } }));
    let ran = home.run(&["call", "--json", "narrow", r#"{"n": 1}"#]);
    assert!(ran.stdout.contains("no_branch_matched") && ran.stdout.contains("input.n > 10"), "{}", ran.all());
}

#[test]
fn the_order_in_the_file_does_not_matter_and_loops_are_named() {
    let home = home(
        r#"
        [[tool.map]]
        name = "outer"
        description = "Calls the inner one for each item."
        tool = "inner"
        over = "input.items"
        [[tool.sequence]]
        name = "inner"
        description = "Gives back what it gets."
        steps = [{ tool = "echo" }]
        output = "{{ previous }}"
        "#,
    );
    let outcome = home.json(&["call", "outer", r#"{"items": [{"a": 1}, {"a": 2}]}"#]);
    assert_eq!(outcome["result"], json!([{ "a": 1 }, { "a": 2 }]));
    let looping = r#"
[[tool.sequence]]
name = "a"
description = "Calls the other one, which calls this one."
steps = [{ tool = "b" }]
[[tool.parallel]]
name = "b"
description = "Calls the other one, which calls this one."
steps = [{ tool = "a" }]
[[tool.sequence]]
name = "typo"
description = "Names a tool that there is not, and a value neither."
steps = [{ tool = "ecko" }, { tool = "echo", when = "inptu.x" }]
"#;
    home.write("helve.toml", TOOLS.to_owned() + looping);
    insta::assert_snapshot!("composition_lint", home.run(&["tools", "lint", "helve.toml"]).stdout);
    insta::assert_snapshot!("composition_refused", home.run(&["tools", "list"]).stderr);
}

#[test]
fn wrong_arguments_of_a_part_are_no_fault_of_whoever_called() {
    let home = Home::new();
    home.write(
        "helve.toml",
        r#"
[[tool.sequence]]
name = "broken"
description = "Gives a part what it does not take."
steps = [{ name = "words", tool = "text-stats", arguments = { text = ["no", "text"] } }]
"#,
    );
    let ran = home.run(&["call", "broken"]);
    let said = ran.all();
    assert_eq!(ran.code, 1, "{said}");
    assert!(said.contains("execution_failed: step `words` failed: it was given wrong arguments"), "{said}");
    assert!(said.contains("defect in how the tool is composed") && !said.contains("call again"), "{said}");
}
