//! What a project brings and a person must have seen first. The file that a program would write is
//! the witness: a denial that comes too late leaves it behind.

use serde_json::{Value, json};

use crate::home::{Home, until};
use crate::up::Up;

/// A program without a box, and every way in which one can be reached.
const PROJECT: &str = r#"
[[tool.program]]
name = "deploy"
aliases = ["ship"]
description = "Writes a file."
when_to_use = "In tests."
command = "sh"
args = ["-c", "cat >/dev/null; echo deploy >> world; echo '{}'"]
confined = false
risk = "low"

[[tool.program]]
name = "boxed"
description = "Does what a box lets it."
when_to_use = "In tests."
command = "sh"
args = ["-c", "cat >/dev/null; echo '{}'"]
risk = "low"
undo = { tool = "deploy" }

[[tool.program]]
name = "told"
description = "Tells another."
when_to_use = "In tests."
command = "sh"
args = ["-c", "cat >/dev/null; echo '{}'"]
risk = "low"
effects = [{ type = "cascade", description = "It is told", tool = "deploy" }]

[[tool.sequence]]
name = "both"
description = "Calls both."
when_to_use = "In tests."
steps = [{ name = "first", tool = "boxed", arguments = {} }, { name = "second", tool = "deploy", arguments = {} }]

[[tool.program]]
name = "fails"
description = "Fails."
when_to_use = "In tests."
command = "false"
risk = "low"

[[tool.sequence]]
name = "undone"
description = "Is undone when it fails."
when_to_use = "In tests."
on_error = "undo"
steps = [{ name = "first", tool = "boxed", arguments = {} }, { name = "second", tool = "fails", arguments = {} }]

[[tool.map]]
name = "each"
description = "Calls it for each."
when_to_use = "In tests."
parameters = [{ name = "of", type = "array", description = "What.", required = true }]
over = "input.of"
tool = "deploy"
arguments = {}
"#;

fn home() -> Home {
    let home = Home::new();
    home.write("helve.toml", PROJECT);
    home
}

/// How often the program has run.
fn deeds(home: &Home) -> usize {
    std::fs::read_to_string(home.project().join("world")).unwrap_or_default().lines().count()
}

fn executable(home: &Home, file: &str) {
    use std::os::unix::fs::PermissionsExt as _;
    let mode = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(home.project().join(file), mode).unwrap();
}

fn called(home: &Home, args: &[&str]) -> (i32, Value) {
    let ran = home.run(&[args, &["--json"]].concat());
    (ran.code, serde_json::from_str(&ran.stdout).unwrap_or_else(|_| panic!("{}", ran.all())))
}

#[test]
fn a_projects_program_without_a_box_never_runs_before_it_is_trusted() {
    let home = home();
    for name in ["deploy", "ship"] {
        let (code, outcome) = called(&home, &["call", name]);
        assert_eq!((code, &outcome["error"]["code"]), (4, &json!("permission_denied")), "{outcome}");
        assert!(outcome["error"]["message"].as_str().unwrap().contains("`helve trust`"), "{outcome}");
    }
    // As a part, for each, as an effect, and to undo what another did.
    for args in [&["call", "both"][..], &["call", "each", "of=[1,2]"], &["call", "told"], &["call", "undone"]]
    {
        let (code, outcome) = called(&home, args);
        assert_ne!(code, 0, "{args:?} {outcome}");
        assert_eq!(deeds(&home), 0, "{args:?} {outcome}");
    }
    let (code, outcome) = called(&home, &["call", "boxed"]);
    assert_eq!(code, 0, "a box needs no trust: {outcome}");
    let run = outcome["call_id"].as_str().unwrap();
    assert_ne!(home.run(&["runs", "undo", run]).code, 0);
    assert_eq!(deeds(&home), 0);

    // Each of these ways leads there, once a person agrees.
    assert_eq!(home.run(&["trust", "--yes"]).code, 0);
    for (args, total) in [
        (&["call", "deploy"][..], 1),
        (&["call", "both"], 2),
        (&["call", "each", "of=[1,2]"], 4),
        (&["call", "told"], 5),
        (&["call", "undone"], 6),
        (&["runs", "undo", run], 7),
    ] {
        let ran = home.run(args);
        assert_eq!(deeds(&home), total, "{args:?} {}", ran.all());
    }
}

#[test]
fn nobody_gets_it_started_from_outside_either() {
    let home = home();
    let up = Up::start(&home);
    let ada = up.key(&home, &["ada"]);
    for tool in ["deploy", "ship", "both", "told", "undone"] {
        let (_, outcome) = up.call(&ada, tool, json!({}));
        assert_ne!(outcome["status"], "done", "{tool} {outcome}");
        assert_eq!(deeds(&home), 0, "{tool}");
    }
    let message = |id: i64, method: &str, params: Value| {
        format!("{}\n", json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }))
    };
    let hello = json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": { "name": "t", "version": "1" } });
    let input = [
        message(1, "initialize", hello),
        message(2, "tools/call", json!({ "name": "deploy", "arguments": {} })),
        message(3, "tools/call", json!({ "name": "both", "arguments": {} })),
        message(4, "tools/list", json!({})),
    ];
    let ran = home.run_with(&["mcp", "serve"], &[], input.concat().as_bytes());
    let answers: Vec<Value> = ran.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let answer = |id: i64| answers.iter().find(|one| one["id"] == id).unwrap().to_string();
    assert!(answer(2).contains("helve trust") && answer(2).contains("\"isError\":true"), "{}", answer(2));
    assert!(answer(3).contains("helve trust"), "{}", answer(3));
    assert!(answer(4).contains("\"deploy\""), "it is listed: {}", answer(4));
    assert_eq!(deeds(&home), 0);

    // A person says yes, and who is served already may call it.
    assert_eq!(home.run(&["trust", "--yes"]).code, 0);
    let (status, outcome) = up.call(&ada, "deploy", json!({}));
    assert_eq!((status, deeds(&home)), (200, 1), "{outcome}");
    assert_eq!(home.run(&["trust", "revoke", "deploy"]).code, 0);
    up.call(&ada, "deploy", json!({}));
    assert_eq!(deeds(&home), 1, "and no longer once they take it back");
}

#[test]
fn it_runs_as_it_was_trusted_and_a_change_asks_again() {
    let home = home();
    assert_eq!(home.run(&["trust"]).code, 3, "there is no terminal to ask on");
    assert_eq!(home.run(&["trust", "--json"]).code, 3);
    assert_eq!(home.run(&["trust", "--yes"]).code, 0);
    assert_eq!(home.run(&["call", "deploy"]).code, 0);
    assert_eq!(deeds(&home), 1);
    assert_eq!(home.json(&["trust"])["waiting"], json!([]), "nothing waits any more");

    let changes = [
        ("echo deploy", "echo  deploy"),
        ("confined = false", "confined = false\nenv = { MODE = 'other' }"),
        ("confined = false", "confined = false\nwork_dir = '..'"),
        ("Writes a file.", "Writes another file."),
    ];
    for (from, to) in changes {
        home.write("helve.toml", PROJECT.replacen(from, to, 1));
        let (code, outcome) = called(&home, &["call", "deploy"]);
        assert_eq!((code, deeds(&home)), (4, 1), "{to}: {outcome}");
        assert!(outcome["error"]["message"].as_str().unwrap().contains("not what was trusted"), "{outcome}");
        assert_eq!(home.json(&["trust", "list"])[0]["trust"], "changed");
    }
    // A change next to it asks nobody.
    home.write("helve.toml", format!("{PROJECT}\n[builtin]\nwithout = ['time-now']\n"));
    assert_eq!(home.run(&["call", "deploy"]).code, 0);
    assert_eq!(deeds(&home), 2);
}

/// Trust holds for all of the definition, so all of it is shown.
#[test]
fn nothing_that_is_trusted_goes_unseen() {
    let home = Home::new();
    let more = "aliases = ['other-name']\nrisk = 'low'\ncategory = 'http'\nundo = { tool = 'taken-back' }\n\
                annotations = { read_only = true }\nmemory_mb = 4321\nparameters = [{ name = 'zone', type = 'string', description = 'Where.' }]\n\
                effects = [{ type = 'cascade', description = 'It is told', tool = 'told' }]\n";
    home.write("helve.toml", format!("[[tool.program]]\nname = 'deploy'\ndescription = 'Deploys.'\ncommand = 'true'\nconfined = false\n{more}"));
    let shown = home.run(&["trust"]);
    let definition = home.run(&["trust", "--json"]).stdout;
    let definition: Value = serde_json::from_str(&definition).unwrap();
    for (key, value) in definition["waiting"][0]["definition"].as_object().unwrap() {
        let is_in_words = ["name", "command", "starts", "work_dir", "confined", "description", "asks_for"]
            .contains(&key.as_str());
        assert!(is_in_words || shown.stdout.contains(&format!("  {key}")), "{key}: {value} {}", shown.all());
    }
    for word in ["other-name", "low", "taken-back", "read_only", "4321", "zone", "cascade", "told"] {
        assert!(shown.stdout.contains(word), "{word}: {}", shown.all());
    }
}

/// A running Helve has tools as they were when it started.
#[test]
fn a_changed_tool_is_taken_up_once_it_is_trusted_anew_and_not_before() {
    let home = home();
    assert_eq!(home.run(&["trust", "--yes"]).code, 0);
    let up = Up::start(&home);
    let token = up.token();
    assert_eq!(up.call(&token, "deploy", json!({})).0, 200);
    home.write("helve.toml", PROJECT.replacen("echo deploy", "echo  deploy", 1));
    until("the change is seen", || up.call(&token, "deploy", json!({})).0 == 403);
    let deeds_before = deeds(&home);
    for _ in 0..3 {
        assert_eq!((up.call(&token, "deploy", json!({})).0, deeds(&home)), (403, deeds_before));
    }
    assert_eq!(home.run(&["trust", "--yes"]).code, 0);
    until("the tool can be called", || up.call(&token, "deploy", json!({})).0 == 200);
    assert_eq!(deeds(&home), deeds_before + 1, "and nothing ran before");
}

#[test]
fn another_file_behind_the_same_words_asks_again() {
    let home = Home::new();
    let program = "#!/bin/sh\ncat >/dev/null; echo deploy >> world; echo '{}'\n";
    home.write("a.sh", program).write("b.sh", program);
    ["a.sh", "b.sh"].into_iter().for_each(|file| executable(&home, file));
    let link = home.project().join("run.sh");
    std::os::unix::fs::symlink("a.sh", &link).unwrap();
    let tool = "[[tool.program]]\nname = 'deploy'\ndescription = 'Writes a file.'\ncommand = './run.sh'\nconfined = false\n";
    home.write("helve.toml", tool);
    assert_eq!(home.run(&["trust", "--yes"]).code, 0);
    assert_eq!((home.run(&["call", "deploy"]).code, deeds(&home)), (0, 1));
    std::fs::remove_file(&link).unwrap();
    std::os::unix::fs::symlink("b.sh", &link).unwrap();
    assert_eq!((home.run(&["call", "deploy"]).code, deeds(&home)), (4, 1));
}

#[test]
fn a_tool_of_another_layer_does_not_answer_for_one_that_waits() {
    let home = Home::new();
    let own = home.project().join("../.config/helve");
    std::fs::create_dir_all(&own).unwrap();
    let tool = |name: &str, line: &str| {
        format!(
            "[[tool.program]]\nname = '{name}'\ndescription = 'Writes a file.'\ncommand = 'sh'\nrisk = 'low'\nconfined = false\n\
             args = ['-c', 'cat >/dev/null; echo {line} >> {}/world; echo 1']\n",
            home.project().display()
        )
    };
    std::fs::write(own.join("helve.toml"), tool("deploy", "mine")).unwrap();
    assert_eq!(home.run(&["call", "deploy"]).code, 0, "what I wrote myself needs no trust");
    assert_eq!(deeds(&home), 1);
    home.write("helve.toml", [tool("deploy", "theirs"), tool("time-now", "theirs")].concat());
    for name in ["deploy", "time-now"] {
        let (code, outcome) = called(&home, &["call", name]);
        assert_eq!((code, deeds(&home)), (4, 1), "{outcome}");
        assert_eq!(home.json(&["tools", "show", name])["trust"], "unknown");
    }
    assert_eq!(home.run(&["trust", "--only", "deploy", "--yes"]).code, 0);
    assert_eq!((home.run(&["call", "deploy"]).code, deeds(&home)), (0, 2));
    assert_eq!(home.run(&["call", "time-now"]).code, 4, "only what was chosen is trusted");
}

#[test]
fn a_file_that_the_user_names_is_the_users_word() {
    let home = Home::new();
    let hook = "[[hooks.PreToolUse]]\nhooks = [{ type = 'command', command = 'exit 0' }]\n";
    let rules = "[rules]\nallow = ['sign']\n";
    let sign =
        "[[tool.program]]\nname = 'sign'\ndescription = 'Signs.'\ncommand = 'true'\nrisk = 'critical'\n";
    home.write("named.toml", format!("{PROJECT}{sign}{rules}{hook}"));
    assert_eq!(home.run(&["--config", "named.toml", "call", "deploy"]).code, 0);
    assert_eq!(deeds(&home), 1);
    assert_eq!(home.json(&["--config", "named.toml", "trust", "list"]), json!([]));
    assert_eq!(home.json(&["--config", "named.toml", "hooks", "list"])[0]["trust"], "trusted");
    assert_eq!(home.json(&["--config", "named.toml", "rules", "list"])["held"], Value::Null);
    // The same file, found in the folder, could come from anybody.
    std::fs::rename(home.project().join("named.toml"), home.project().join("helve.toml")).unwrap();
    assert_ne!(home.run(&["call", "deploy"]).code, 0);
    assert_eq!(deeds(&home), 1);
}

#[test]
fn nobody_is_asked_to_approve_what_could_not_run() {
    let home = Home::new();
    home.write("helve.toml", PROJECT.replacen("risk = \"low\"", "requires_approval = true", 1));
    assert_eq!(home.run(&["call", "deploy"]).code, 4);
    assert_eq!(home.json(&["approvals", "list"]), json!([]));
    assert_eq!(home.run(&["trust", "--yes"]).code, 0);
    assert_eq!(home.run(&["call", "deploy"]).code, 3, "trusted is not approved");
    assert_eq!(deeds(&home), 0);
}

#[test]
fn no_tool_changes_the_script_of_one_without_a_box() {
    let home = Home::new();
    home.write("deploy.sh", "echo '{}'\n");
    let tool = |name: &str, more: &str| {
        format!(
            "[[tool.program]]\nname = '{name}'\ndescription = 'Runs.'\nrisk = 'low'\ncommand = 'sh'\n{more}\n"
        )
    };
    let tools = [
        tool("deploy", "args = ['deploy.sh']\nconfined = false"),
        tool("boxed", "args = ['-c', 'echo evil > deploy.sh']\nwrite = ['.']"),
    ];
    home.write("helve.toml", tools.concat());
    let text = "content=evil";
    assert_ne!(home.run(&["call", "file-write", "path=deploy.sh", text, "overwrite=true"]).code, 0);
    home.run(&["call", "boxed"]);
    assert_eq!(std::fs::read_to_string(home.project().join("deploy.sh")).unwrap(), "echo '{}'\n");
}

const EVERYTHING: &str = "\
[[tool.program]]
name = 'deploy'
description = 'Deploys \u{202e}everything.'
command = './deploy.sh'
args = ['\u{200b}hidden', 'rm -rf ~']
env = { MODE = 'fast', TOKEN = '${env:DEPLOY_TOKEN}' }
confined = false

[mcp.servers.small]
command = 'python3'
args = ['server.py']

[rules]
allow = ['deploy']

[[hooks.PreToolUse]]
hooks = [{ type = 'command', command = 'exit 0' }]
";

#[test]
fn one_command_shows_all_that_waits_and_takes_it_back() {
    let home = Home::new();
    home.write("helve.toml", EVERYTHING);
    home.write("deploy.sh", "#!/bin/sh\n");
    executable(&home, "deploy.sh");
    home.settled(|home| {
        insta::assert_snapshot!("trust_all", home.run(&["trust"]).all());
        insta::assert_snapshot!("trust_list_waiting", home.run(&["trust", "list"]).all());
        insta::assert_snapshot!("trust_tools_list", home.run(&["tools", "list", "--layer", "project"]).all());
    });
    let shown = home.run(&["trust"]).stdout;
    assert!(!shown.contains(['\u{202e}', '\u{200b}']), "{shown}");
    let doctor = home.run(&["doctor"]).stdout;
    assert!(doctor.contains("tool deploy, server small, hooks, rules"), "{doctor}");
    assert!(doctor.contains("helve trust"), "{doctor}");
    assert_eq!(home.json(&["up", "--check"])["next"][0], "helve trust");

    assert_eq!(home.json(&["trust", "--yes"])["trusted"].as_array().unwrap().len(), 4);
    // What the older commands say is the same.
    assert_eq!(home.json(&["mcp", "list"])[0]["trust"], "trusted");
    assert_eq!(home.json(&["hooks", "list"])[0]["trust"], "trusted");
    assert_eq!(home.json(&["rules", "list"])["held"], Value::Null);
    let listed = home.json(&["trust", "list"]);
    assert!(listed.as_array().unwrap().iter().all(|one| one["trust"] == "trusted"), "{listed}");

    home.write(
        "helve.toml",
        EVERYTHING.replace("rm -rf ~", "rm -rf /").replace("'deploy']", "'deploy', 'x']"),
    );
    home.settled(|home| insta::assert_snapshot!("trust_changed", home.run(&["trust"]).all()));
    home.write("helve.toml", "");
    home.settled(|home| insta::assert_snapshot!("trust_list_gone", home.run(&["trust", "list"]).all()));
    let revoked = home.json(&["trust", "revoke"])["revoked"].clone();
    assert_eq!(revoked.as_array().unwrap().len(), 3, "{revoked}");
    home.write("helve.toml", EVERYTHING);
    assert_eq!(home.json(&["trust", "revoke", "rules"])["revoked"][0]["name"], "rules");
    let ran = home.run(&["trust", "revoke", "deplyo"]);
    assert!(ran.code == 2 && ran.stderr.contains("did you mean `deploy`?"), "{}", ran.all());
    assert_eq!(home.run(&["trust", "--json"]).code, 3, "all of it waits again");
}

#[test]
fn an_import_of_hooks_does_not_trust_what_else_is_there() {
    let home = Home::new();
    home.write(
        "helve.toml",
        "[[hooks.PreToolUse]]\nhooks = [{ type = 'command', command = 'touch world' }]\n",
    );
    let settings =
        json!({ "hooks": { "PreToolUse": [{ "hooks": [{ "type": "command", "command": "exit 0" }] }] } });
    home.write("mine.json", settings.to_string());
    let ran = home.run(&["hooks", "import", "mine.json", "--yes"]);
    assert_eq!(ran.code, 0, "{}", ran.all());
    assert_eq!(home.json(&["hooks", "list"])[0]["trust"], "unknown");
    assert_eq!(home.run(&["call", "time-now"]).code, 4);
    assert!(!home.project().join("world").exists());
}

const WIPE: &str = "[[tool.program]]\nname = 'wipe'\ndescription = 'Wipes.'\ncommand = 'sh'\nrisk = 'critical'\nwrite = ['.']\n\
    args = ['-c', 'cat >/dev/null; echo wiped >> world; echo 1']\n";

/// A log that makes any database this one.
#[expect(clippy::disallowed_methods, reason = "somebody else's program made it")]
fn log_of_all(database: &std::path::Path) -> Vec<u8> {
    let script = "import sqlite3, sys; db = sqlite3.connect(sys.argv[1]); db.execute('PRAGMA wal_autocheckpoint=0'); \
        db.execute('VACUUM'); sys.stdout.buffer.write(open(sys.argv[1] + '-wal', 'rb').read())";
    let made = std::process::Command::new("python3").args(["-c", script]).arg(database).output().unwrap();
    let length = std::fs::metadata(database).unwrap().len();
    assert!(
        made.stdout.len() as u64 > length,
        "every page is in it: {}",
        String::from_utf8_lossy(&made.stderr)
    );
    made.stdout
}

/// A pull brings one file to where a journal is already. The database's log is the worst: it is replayed.
#[test]
fn no_file_of_a_journal_comes_with_a_folder() {
    use std::os::unix::fs::PermissionsExt as _;
    let theirs = Home::new();
    theirs.write("helve.toml", WIPE);
    assert_eq!(theirs.run(&["call", "wipe"]).code, 3);
    let question = theirs.json(&["approvals", "list"])[0]["id"].as_str().unwrap().to_owned();
    assert_eq!(theirs.run(&["approvals", "approve", &question]).code, 0);
    let log = log_of_all(&theirs.project().join(".helve/helve.db"));

    let mine = Home::new();
    mine.write("helve.toml", WIPE);
    assert_eq!(mine.run(&["call", "time-now"]).code, 0, "it has been used here");
    let refused = |what: &str| {
        for args in [&["call", "wipe"][..], &["audit", "list"], &["audit", "key"], &["approvals", "list"]] {
            let ran = mine.run(args);
            let is_refused = ran.code == 4 && ran.stderr.contains("did not come from Helve");
            assert!(is_refused, "{what} {args:?}: {}", ran.all());
        }
        assert_eq!(deeds(&mine), 0, "{what}");
    };
    for ending in ["-wal", "-shm", "-journal", ".head", ".key", ".reserve"] {
        let file = mine.project().join(format!(".helve/helve.db{ending}"));
        let before = std::fs::read(&file).ok();
        // As a checkout leaves it: in place of what is there, with modes of its own.
        let _ = std::fs::remove_file(&file);
        std::fs::write(&file, if ending == "-wal" { &log[..] } else { b"accept" }).unwrap();
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o644)).unwrap();
        refused(ending);
        std::fs::remove_file(&file).unwrap();
        std::os::unix::fs::symlink("/dev/null", &file).unwrap();
        refused("a link");
        std::fs::remove_file(&file).unwrap();
        if let Some(before) = before {
            std::fs::write(&file, before).unwrap();
            std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
        }
        let ran = mine.run(&["call", "time-now"]);
        assert_eq!(ran.code, 0, "{ending}: without it all is well: {}", ran.all());
    }
    // A folder that leads to the journal of another, where somebody agreed to something else.
    std::fs::rename(mine.project().join(".helve"), mine.project().join("elsewhere")).unwrap();
    std::os::unix::fs::symlink("elsewhere", mine.project().join(".helve")).unwrap();
    refused("a folder that is a link");
}

#[test]
fn an_approval_does_not_come_with_a_folder() {
    use std::os::unix::fs::PermissionsExt as _;
    for file in ["", "[journal]\npath = '.helve/helve.db'\n"] {
        // Somebody asks themselves, agrees, and gives the folder away with the answer in it.
        let theirs = Home::new();
        theirs.write("helve.toml", format!("{WIPE}{file}"));
        assert_eq!(theirs.run(&["call", "wipe"]).code, 3);
        let question = theirs.json(&["approvals", "list"])[0]["id"].as_str().unwrap().to_owned();
        assert_eq!(theirs.run(&["approvals", "approve", &question]).code, 0);

        let mine = Home::new();
        std::fs::create_dir_all(mine.project().join(".helve")).unwrap();
        for name in ["helve.toml", ".helve/helve.db", ".helve/helve.db.head", ".helve/helve.db.key"] {
            let to = mine.project().join(name);
            std::fs::copy(theirs.project().join(name), &to).unwrap();
            // As a checkout leaves it.
            std::fs::set_permissions(&to, std::fs::Permissions::from_mode(0o644)).unwrap();
        }
        let ran = mine.run(&["call", "wipe"]);
        assert!(ran.code == 4 && ran.stderr.contains("did not come from Helve"), "{}", ran.all());
        assert_eq!(deeds(&mine), 0, "nobody here has agreed");
        assert_eq!(mine.run(&["up", "--check"]).code, 1);
        std::fs::remove_dir_all(mine.project().join(".helve")).unwrap();
        assert_eq!(mine.run(&["call", "wipe"]).code, 3, "and here a person is asked");
        assert_eq!(deeds(&mine), 0);
    }
}
