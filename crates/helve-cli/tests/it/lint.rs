//! `helve tools lint`: every problem with file and place; nothing is run or fetched.

use crate::home::Home;

const BROKEN: &str = r#"
[[tool.program]]
name = "no good name"
description = "Has a name that is none."
command = "true"

[[tool.program]]
name = "broken-schema"
description = "Has a schema that points outside."
command = "true"
input_schema = { type = "object", properties = { to = { "$ref" = "https://example.com/x.json" } } }

[[tool.http]]
name = "inline"
description = "Puts an argument where it may not stand."
url = "https://{host}/x"
"#;

#[test]
fn a_configuration_file_is_checked_tool_by_tool() {
    let home = Home::new();
    home.write("helve.toml", BROKEN);
    insta::assert_snapshot!("lint_toml", home.run(&["tools", "lint", "helve.toml"]).all());
    insta::assert_snapshot!("list_refused", home.run(&["tools", "list"]).stderr);
    home.write("helve.toml", "[[tool.program]]\nname = 'x'\ndescripton = 'y'\ncommand = 3\n");
    insta::assert_snapshot!("lint_keys", home.run(&["tools", "lint", "helve.toml"]).all());
}

#[test]
fn definitions_in_json_are_checked() {
    let home = Home::new();
    home.write(
        "tools.json",
        r#"[{ "name": "greet", "description": "Greets a person by name and returns the greeting.",
              "when_to_use": "To greet.", "parameters": [{ "name": "who", "type": "string", "description": "Whom." }] },
            { "name": "a.b", "description": "Short" },
            { "name": "wrong", "description": "", "input_schema": { "type": "array" } },
            { "name": "extra", "description": "Has a key that is none.", "risky": true }]"#,
    );
    insta::assert_snapshot!("lint_json", home.run(&["tools", "lint", "tools.json"]).all());
    home.write("twice.json", r#"{ "name": "a", "name": "b" }"#);
    insta::assert_snapshot!(
        "lint_not_json",
        home.run(&["tools", "lint", "twice.json", "nowhere.json"]).all()
    );
    let ran = home.run(&["tools", "lint", "--json", "tools.json"]);
    let report: serde_json::Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!((ran.code, &report["tools"]), (1, &serde_json::json!(4)));
}

pub(crate) const PETS: &str = r##"
openapi: 3.0.3
info: { title: Pets, version: "1" }
servers: [{ url: "https://pets.example.com" }]
paths:
  /pets/{id}:
    get:
      operationId: getPet
      summary: Gives one pet by its number.
      parameters: [{ name: id, in: path, required: true, description: Its number., schema: { type: integer } }]
      responses: { "200": { description: The pet. } }
  /broken:
    get:
      operationId: broken
      parameters: [{ $ref: "#/components/parameters/nowhere" }]
      responses: { "200": { description: Nothing. } }
"##;

#[test]
fn an_openapi_document_is_checked_operation_by_operation() {
    let home = Home::new();
    home.write("pets.yaml", PETS);
    insta::assert_snapshot!("lint_openapi", home.run(&["tools", "lint", "pets.yaml"]).all());
    home.write(
        "helve.toml",
        "[[openapi]]\nnamespace = 'pets'\ndocument = 'https://pets.example.com/openapi.yaml'\n",
    );
    insta::assert_snapshot!("lint_fetches_nothing", home.run(&["tools", "lint", "helve.toml"]).all());
}

const UPLOADS: &str = "\
openapi: 3.0.3
info: { title: Shop, version: '1' }
servers: [{ url: 'https://shop.example.com' }]
paths:
  /photos:
    post:
      operationId: photos_add
      summary: Adds a photo to the shop.
      requestBody: { content: { multipart/form-data: { schema: { type: object } } } }
      responses: { '200': { description: ok } }
    put:
      operationId: photos_replace
      summary: Replaces the photo of the shop.
      requestBody: { required: true, content: { image/png: {} } }
      responses: { '200': { description: ok } }
";

#[test]
fn what_is_left_out_of_an_api_is_seen() {
    let home = Home::new();
    home.write("shop.yaml", UPLOADS);
    home.write("helve.toml", "[[openapi]]\nnamespace = 'shop'\ndocument = 'shop.yaml'\n");
    insta::assert_snapshot!("left_out_lint", home.run(&["tools", "lint", "helve.toml"]).stdout);
    let remark = "1 operation of `shop` was skipped; `helve tools lint helve.toml` says why";
    assert!(home.run(&["tools", "list"]).stderr.contains(remark));
    for command in [&["up", "--check"][..], &["doctor"]] {
        let checks = home.json(command)["checks"].clone();
        let found = |check: &serde_json::Value| check["found"] == "1 operation of `shop` was skipped";
        assert!(checks.as_array().unwrap().iter().any(found), "{checks}");
    }
}

#[test]
fn a_warning_that_a_whole_api_gives_is_told_once() {
    let home = Home::new();
    let operation = |n: usize| {
        format!("  /p{n}:\n    get:\n      operationId: op{n}\n      summary: Gives the page number {n}.\n")
    };
    let head = "openapi: 3.0.3\ninfo: { title: Many, version: '1' }\nservers: [{ url: 'https://a.example.com' }]\npaths:\n";
    home.write("many.yaml", head.to_owned() + &(1..=7).map(operation).collect::<String>());
    insta::assert_snapshot!("lint_grouped", home.run(&["tools", "lint", "many.yaml"]).stdout);
    let report = home.json(&["tools", "lint", "many.yaml"]);
    assert_eq!(report["findings"].as_array().unwrap().len(), 7);
}

#[test]
fn lint_knows_timeouts_that_are_cut_and_names_that_providers_change() {
    let home = Home::new();
    let tool = |name: &str, more: &str| {
        format!(
            "[[tool.program]]\nname = '{name}'\ndescription = 'Does a thing, and says so.'\nwhen_to_use = 'Always.'\ncommand = 'sh'\n{more}"
        )
    };
    let file = "[execution]\nmax_timeout_ms = 60000\n".to_owned()
        + &tool("ns/plain", "timeout_ms = 60000\n")
        + &tool("ns/slow", "timeout_ms = 60001\n")
        + &tool("ns/dot.ted", "");
    home.write("helve.toml", file);
    insta::assert_snapshot!("lint_limits", home.run(&["tools", "lint", "helve.toml"]).stdout);
}

#[test]
fn the_documentations_examples_are_valid() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let pages = [
        "tools",
        "composition",
        "limits",
        "preconditions",
        "memory",
        "runs",
        "approvals",
        "policy",
        "rules",
        "identity",
        "hooks",
        "mcp",
        "network",
        "files",
        "web",
        "sandbox",
        "code",
        "telemetry",
        "store",
        "operating",
    ]
    .map(|name| format!("docs/{name}.md"));
    for page in pages.into_iter().chain(["README.md".to_owned()]) {
        let text = std::fs::read_to_string(root.join(&page)).unwrap();
        let blocks: Vec<_> =
            text.split("```toml\n").skip(1).filter_map(|rest| rest.split("```").next()).collect();
        assert!(!blocks.is_empty(), "{page} has no examples any more");
        for block in blocks {
            let home = Home::new();
            home.write("helve.toml", block);
            let ran = home.run(&["tools", "lint", "helve.toml"]);
            assert_eq!(ran.code, 0, "{page}:\n{block}\n{}", ran.all());
        }
    }
}

#[test]
fn lint_knows_the_tools_that_others_name() {
    let home = Home::new();
    let tool = |name: &str, more: &str| {
        format!(
            "[[tool.program]]\nname = \"{name}\"\ndescription = \"Does something for a test.\"\ncommand = \"true\"\n{more}\n"
        )
    };
    let cascade = |to: &str| {
        format!("effects = [{{ type = \"cascade\", description = \"Calls {to}\", tool = \"{to}\" }}]")
    };
    let text = [
        tool("a", &cascade("b")),
        tool("b", &cascade("a")),
        tool("c", &cascade("nobody")),
        tool("d", "undo = { tool = \"nobody\" }"),
        tool("e", "undo = { tool = \"e\" }"),
        tool("f", "recall = { tool = \"a\", happened = \"answer\" }"),
        tool("g", "undo = { tool = \"a\" }\nrecall = { tool = \"time-now\", happened = \"answer\" }"),
    ];
    home.write("helve.toml", text.join("\n"));
    let ran = home.run(&["tools", "lint", "helve.toml"]);
    for expected in [
        "`a` → `b` → `a`",
        "there is no tool `nobody`",
        "cannot undo itself",
        "only a read-only tool is asked",
    ] {
        assert!(ran.all().contains(expected), "{expected}: {}", ran.all());
    }
    let findings: serde_json::Value =
        serde_json::from_str(&home.run(&["tools", "lint", "helve.toml", "--json"]).stdout).unwrap();
    let errors = findings["findings"].as_array().unwrap().iter().filter(|one| one["level"] == "error");
    assert_eq!(errors.count(), 6, "{findings}");
}

/// A tool that notes that it ran, with more keys.
fn noting(name: &str, more: &str) -> String {
    format!(
        "[[tool.program]]\nname = \"{name}\"\ndescription = \"Does something for a test.\"\ncommand = \"touch\"\n\
         args = [\"ran\"]\nwrite = [\".\"]\nparameters = []\n{more}\n"
    )
}

#[test]
fn effects_in_a_circle_are_refused_before_anything_runs() {
    let cascade = |to: &str| {
        format!("effects = [{{ type = \"cascade\", description = \"Calls {to}\", tool = \"{to}\" }}]")
    };
    let composed = "[[tool.sequence]]\nname = \"both\"\ndescription = \"Calls the other one.\"\n\
                    steps = [{ tool = \"a\" }]\n";
    for (text, circle) in [
        (noting("a", &cascade("b")) + &noting("b", &cascade("a")), "`a` → `b` → `a`"),
        (noting("a", &cascade("a")), "`a` → `a`"),
        (noting("a", &cascade("both")) + composed, "`a` → `both` → `a`"),
    ] {
        let home = Home::new();
        home.write("helve.toml", text);
        for command in
            [&["tools", "lint", "helve.toml"][..], &["tools", "list"], &["doctor"], &["call", "a", "{}"]]
        {
            let ran = home.run(command);
            // A list is printed all the same, with what is broken.
            let fails = command != ["tools", "list"];
            assert!((ran.code != 0) == fails && ran.all().contains(circle), "{command:?}: {}", ran.all());
        }
        assert!(!home.project().join("ran").exists());
    }
}

#[test]
fn an_unknown_name_in_effects_undo_or_recall_is_refused_before_anything_runs() {
    let effect = |value: &str| {
        format!(
            "effects = [{{ type = \"state_change\", description = \"Sets s\", state = \"s\", change = \"set\", value = \"{value}\" }}]"
        )
    };
    for (more, wrong) in [
        (
            effect("{{ reslt.id }}"),
            "effects/0/value: `reslt` is not known here; there are `arguments`, `result`",
        ),
        (effect("{{ arguments.id }}"), "effects/0/value: `arguments.id`: the input_schema has no such field"),
        (
            "undo = { tool = \"text-stats\", arguments = { text = \"{{ argumnts.x }}\" } }".to_owned(),
            "undo/arguments: `argumnts` is not known here",
        ),
        (
            "recall = { tool = \"time-now\", happened = \"anser.found\" }".to_owned(),
            "recall/happened: `anser` is not known here",
        ),
    ] {
        let home = Home::new();
        home.write("helve.toml", noting("pay", &more));
        for command in [&["tools", "lint", "helve.toml"][..], &["call", "pay", "{}"]] {
            let ran = home.run(command);
            assert!(ran.code != 0 && ran.all().contains(wrong), "{command:?}: {}", ran.all());
        }
        assert!(!home.project().join("ran").exists());
    }
}

/// A key that counts for nothing would leave a tool laxer than it was meant.
#[test]
fn keys_that_do_not_exist_are_refused_however_deep_they_stand() {
    let home = Home::new();
    let tool = |more: &str| {
        format!(
            "[[tool.http]]\nname = 'x'\ndescription = 'Gets x, whatever that may be.'\nurl = 'https://example.com/'\n{more}\n"
        )
    };
    let condition = "type = 'permission', description = 'May.'";
    let effect = "type = 'notification', event = 'done', description = 'Told.'";
    for (more, expected) in [
        (format!("preconditions = [{{ {condition}, permission = 'a', critcal = false }}]"), "preconditions[0].critcal` is not a key; did you mean `critical`?"),
        (format!("preconditions = [{{ {condition}, permision = 'a' }}]"), "preconditions[0].permision` is not a key; did you mean `permission`?"),
        (format!("preconditions = [{{ {condition}, permission = 'a', resource = 'b' }}]"), "preconditions[0].resource`: expected only the fields `critical`, `description`, `permission`, `type`"),
        (format!("preconditions = [{{ {condition}, permission = 'a', availability = 'preferred' }}]"), "preconditions[0].availability` is not a key"),
        (format!("effects = [{{ {effect}, reversable = true }}]"), "effects[0].reversable` is not a key; did you mean `reversible`?"),
        (format!("effects = [{{ {effect}, paylod = 1 }}]"), "effects[0].paylod` is not a key; did you mean `payload`?"),
        ("undo = { tool = 'time-now', argumnets = {} }".to_owned(), "undo.argumnets` is not a key; did you mean `arguments`?"),
        ("retry = { retries_max = 1, retryable_codes = [], backoff = { type = 'fixed', delay_ms = 3, jitter = 0.5 } }".to_owned(), "retry.backoff.jitter`: expected only the fields `delay_ms`, `type`"),
        ("retry = { retries_max = 1, retryable_codes = [], backoff = { type = 'fixed', delay = 3 } }".to_owned(), "retry.backoff.delay` is not a key; did you mean `delay_ms`?"),
    ] {
        home.write("helve.toml", tool(&more));
        let ran = home.run(&["tools", "lint", "helve.toml"]);
        assert!(ran.code == 1 && ran.stdout.contains(expected), "{more}\n{}", ran.all());
        // Known fields are not called unknown because something next to them is wrong.
        assert!(!ran.stdout.contains(".type`") && !ran.stdout.contains(".description`"), "{}", ran.all());
        assert!(home.run(&["tools", "list"]).stderr.contains("x is broken"), "{more}");
        assert!(home.run(&["call", "x"]).stderr.contains("precondition_failed"), "{more}");
    }
    let json = r#"{ "name": "x", "description": "Gets x, whatever that may be.",
        "preconditions": [{ "type": "permission", "description": "May.", "permission": "a", "critcal": false }] }"#;
    home.write("x.json", json);
    let ran = home.run(&["tools", "lint", "x.json"]);
    assert!(ran.code == 1 && ran.stdout.contains("`critcal`"), "{}", ran.all());
}

#[test]
fn filters_and_tests_that_do_not_exist_are_refused_before_anything_runs() {
    let home = Home::new();
    for (template, expected) in [
        ("{{ arguments | merge({}) }}", "there is no filter `merge`"),
        ("{{ arguments.a is nosuchtest }}", "there is no test `nosuchtest`"),
    ] {
        home.write(
            "helve.toml",
            format!("[[tool.program]]\nname = 'x'\ndescription = 'Writes a file.'\ncommand = 'touch'\nargs = ['ran']\nconfined = false\n\
                     effects = [{{ type = 'notification', event = 'done', description = 'Told.', payload = \"{template}\" }}]\n"),
        );
        let linted = home.run(&["tools", "lint", "helve.toml"]);
        assert!(linted.code == 1 && linted.stdout.contains(expected), "{}", linted.all());
        let called = home.run(&["call", "x"]);
        assert!(called.code == 1 && called.stderr.contains(expected), "{}", called.all());
        assert!(!home.project().join("ran").exists());
    }
}

#[test]
fn preconditions_that_can_never_hold_are_warned_of() {
    let home = Home::new();
    home.write(
        "helve.toml",
        "[resources.browser]\ncommand = 'chromium'\n[checks.quota]\ntool = 'time-now'\nexpect = 'result'\n\
         [mcp.servers.mail]\ncommand = 'mail-server'\n\
         [[tool.http]]\nname = 'x'\ndescription = 'Gets x, whatever that may be.'\nurl = 'https://example.com/'\npreconditions = [\n\
         { type = 'resource', description = 'a', resource = 'browser' },\n\
         { type = 'resource', description = 'b', resource = 'browsr' },\n\
         { type = 'custom', description = 'c', id = 'quota' },\n\
         { type = 'custom', description = 'd', id = 'nope' },\n\
         { type = 'dependency', description = 'e', tool = 'time-now', status = 'completed' },\n\
         { type = 'dependency', description = 'f', tool = 'mail/send', status = 'completed' },\n\
         { type = 'dependency', description = 'g', tool = 'nope', status = 'completed' },\n]\n",
    );
    let ran = home.run(&["tools", "lint", "helve.toml"]);
    assert_eq!(ran.code, 0, "{}", ran.all());
    for expected in [
        "preconditions/1/resource: `[resources.browsr]` is not in this file, and without it this never holds; did you mean `browser`?",
        "preconditions/3/id: `[checks.nope]` is not in this file",
        "preconditions/6/tool: there is no tool `nope`",
    ] {
        assert!(ran.stdout.contains(expected), "{}", ran.all());
    }
    let about = ran.stdout.lines().filter(|line| line.contains("preconditions/")).count();
    assert_eq!(about, 3, "{}", ran.all());
}

#[test]
fn what_a_tool_names_and_nobody_has_is_refused_before_anything_runs() {
    let home = Home::new();
    let tool = |name: &str, more: &str| {
        format!(
            "[[tool.program]]\nname = '{name}'\ndescription = 'Does something.'\ncommand = 'true'\n{more}\n"
        )
    };
    let cascade = "effects = [{ type = 'cascade', description = 'Tells', tool = 'nobody' }]";
    let cases = [
        (tool("c/a", "undo = { tool = 'c/a' }"), "cannot undo itself"),
        (tool("c/a", "undo = { tool = 'nobody' }"), "there is no tool `nobody`"),
        (tool("c/a", "recall = { tool = 'nobody', happened = 'answer' }"), "there is no tool `nobody`"),
        (tool("c/a", cascade), "there is no tool `nobody`"),
    ];
    for (text, why) in &cases {
        home.write("other.toml", text);
        let lint = home.run(&["tools", "lint", "other.toml"]);
        assert!(lint.code == 1 && lint.all().contains(why), "{}", lint.all());
        let call = home.run(&["--config", "other.toml", "call", "c/a"]);
        assert!(call.code == 1 && call.all().contains(why), "{}", call.all());
        assert!(call.all().contains("helve tools lint other.toml"), "the file that is meant: {}", call.all());
    }
    let server = "[mcp.servers.nobody]\ncommand = 'true'\n";
    let later = tool("c/a", "undo = { tool = 'nobody/undo' }");
    home.write("other.toml", format!("{server}{later}"));
    let listed = home.run(&["--config", "other.toml", "tools", "show", "c/a"]);
    assert_eq!(listed.code, 0, "an MCP server may bring it: {}", listed.all());
}

#[test]
fn constant_arguments_that_their_tool_would_refuse_are_found() {
    let home = Home::new();
    home.write(
        "helve.toml",
        r#"
[[tool.program]]
name = "take"
description = "Takes one thing and no other."
command = "true"
parameters = [{ name = "count", type = "integer", description = "How many.", required = true }]

[[tool.program]]
name = "note"
description = "Notes something."
command = "true"
undo = { tool = "take", arguments = { much = 3 } }
effects = [{ type = "cascade", description = "Takes", tool = "take", arguments = { count = "3" } }]

[[tool.sequence]]
name = "both"
description = "Takes twice."
steps = [
  { name = "one", tool = "take", arguments = { count = "{{ input.count }}" } },
  { name = "two", tool = "take", arguments = { count = [] } },
]
"#,
    );
    let lint = home.run(&["tools", "lint", "helve.toml"]).all();
    let found: Vec<_> = lint.lines().filter(|line| line.contains("`take` would refuse them")).collect();
    assert_eq!(found.len(), 2, "{lint}");
    assert!(found[0].contains("undo/arguments") && found[1].contains("steps/1/arguments"), "{lint}");
}

#[test]
fn without_a_file_the_configuration_in_use_is_checked() {
    let home = Home::new();
    let nothing = home.run(&["tools", "lint"]);
    assert_eq!(nothing.code, 2, "{}", nothing.all());
    assert!(nothing.stderr.contains("there is no helve.toml here"), "{}", nothing.stderr);
    home.write("helve.toml", BROKEN);
    std::fs::create_dir(home.project().join("below")).unwrap();
    let named = home.run(&["tools", "lint", "helve.toml"]);
    let found = home.run(&["tools", "lint"]);
    assert_eq!((found.code, &found.stdout), (1, &named.stdout));
    home.write("other.toml", "");
    assert_eq!(home.run(&["tools", "lint", "--config", "other.toml"]).code, 0);
}

#[test]
fn a_program_that_is_not_there_and_a_field_that_nobody_gives_are_found() {
    let home = Home::new();
    home.write(
        "helve.toml",
        r#"
[[tool.program]]
name = "gone"
description = "Runs a program that is not there."
when_to_use = "Never."
command = "./tools/no-such-program"

[[tool.program]]
name = "here"
description = "Runs a program that is there."
when_to_use = "Never."
command = "./helve.toml"

[[tool.sequence]]
name = "measure"
description = "Measures a text."
when_to_use = "In tests."
parameters = [{ name = "text", type = "string", description = "The text.", required = true }]
output = { words = "{{ steps.stats.wrods }}", of = "{{ input.titel }}", good = "{{ steps.stats.words }}" }
steps = [{ name = "stats", tool = "text-stats", arguments = { text = "{{ input.txet }}" } }]

[[tool.sequence]]
name = "open"
description = "Takes what its templates name."
when_to_use = "In tests."
output = { of = "{{ input.title }}" }
steps = [{ name = "stats", tool = "text-stats", arguments = { text = "{{ input.text }}" } }]
"#,
    );
    let ran = home.run(&["tools", "lint", "helve.toml"]);
    let found: Vec<_> =
        ran.stdout.lines().filter_map(|line| line.split_once(": ")?.1.split_once(": ")).collect();
    let gone = "gone command: there is no file `./tools/no-such-program`, so the tool cannot run";
    let expected = [
        ("warning", gone),
        ("error", "measure output/of: `input.titel`: the tool takes no such field"),
        (
            "error",
            "measure output/words: `steps.stats.wrods`: `text-stats` returns no such field; did you mean `words`?",
        ),
        (
            "error",
            "measure steps/0/arguments/text: `input.txet`: the tool takes no such field; did you mean `text`?",
        ),
    ];
    assert_eq!(ran.code, 1, "{}", ran.all());
    for one in expected {
        assert!(found.contains(&one), "{one:?} is not in {}", ran.all());
    }
    let errors = found.iter().filter(|(level, _)| *level == "error").count();
    assert_eq!((errors, ran.stdout.matches("cannot run").count()), (3, 1), "{}", ran.all());
}

#[test]
fn a_script_that_is_not_there_and_a_field_in_a_condition_that_nobody_gives_are_found() {
    let home = Home::new();
    home.write("here.py", "");
    home.write(
        "helve.toml",
        r#"
[[tool.program]]
name = "gone"
description = "Runs a script that is not there."
command = "sh"
args = ["-u", "scripts/missing.py", "other.py"]

[[tool.program]]
name = "none"
description = "Runs a program that nobody has."
command = "no-such-program-anywhere"

[[tool.program]]
name = "here"
description = "Runs a script that is there."
command = "sh"
args = ["here.py", "not-its-script.py"]

[[tool.sequence]]
name = "measure"
description = "Measures a text."
parameters = [{ name = "text", type = "string", description = "The text.", required = true }]
steps = [
    { name = "stats", tool = "text-stats", arguments = { text = "{{ input.text }}" } },
    { name = "now", tool = "time-now", when = "input.txet != ''" },
    { name = "late", tool = "time-now", when = "steps.stats.wrods > 3" },
]
"#,
    );
    let ran = home.run(&["tools", "lint", "helve.toml"]);
    for (level, said) in [
        ("warning", "gone args/1: there is no file `scripts/missing.py`, so the tool cannot run"),
        ("warning", "none command: cannot start `no-such-program-anywhere`"),
        ("error", "measure steps/1/when: `input.txet`: the tool takes no such field; did you mean `text`?"),
        (
            "error",
            "measure steps/2/when: `steps.stats.wrods`: `text-stats` returns no such field; did you mean `words`?",
        ),
    ] {
        let is_said = ran.stdout.lines().any(|line| line.contains(&format!("{level}: {said}")));
        assert!(is_said, "{said}\n{}", ran.all());
    }
    assert_eq!(ran.stdout.matches("cannot run").count(), 1, "{}", ran.all());
}

#[test]
fn a_key_that_others_call_so_is_the_one_that_we_have() {
    let home = Home::new();
    home.write("pets.yaml", PETS);
    home.write(
        "helve.toml",
        "[[openapi]]\nnamespace = 'pets'\ndocument = 'pets.yaml'\nbase_url = 'https://a.example'\n",
    );
    let ran = home.run(&["tools", "lint"]);
    assert!(ran.code == 1 && ran.stdout.contains("did you mean `server`?"), "{}", ran.all());
    assert!(ran.stdout.contains("✗ 1 error, 0 warnings") && !ran.stdout.contains("0 tools"), "{}", ran.all());
}
