//! The first minutes: help, `up`, `init`, `doctor`, completions.

use crate::home::Home;

#[test]
fn help_is_grouped_and_has_examples() {
    let home = Home::new();
    insta::assert_snapshot!("help", home.run(&["--help"]).all());
    insta::assert_snapshot!("help_call", home.run(&["call", "--help"]).all());
    for (asked, command) in [(&["help"][..], &[][..]), (&["help", "audit", "list"], &["audit", "list"])] {
        let flag = home.run(&[command, &["--help"]].concat());
        assert_eq!((home.run(asked).all(), flag.code), (flag.all(), 0), "{asked:?}");
    }
    assert_eq!(home.run(&["help", "frobnicate"]).code, 2);
    insta::assert_snapshot!("help_tools", home.run(&["tools", "--help"]).all());
}

#[test]
fn a_mistyped_command_is_corrected() {
    let home = Home::new();
    insta::assert_snapshot!(home.run(&["tols", "list"]).all());
}

#[test]
fn up_checks_twice_over_and_stays_short() {
    let home = Home::new();
    home.settled(|home| {
        insta::assert_snapshot!("up_first", home.run(&["up", "--check"]).all());
        home.run(&["call", "time-now"]);
        let again = home.run(&["up", "--check"]);
        insta::assert_snapshot!("up_again", again.all());
        assert!(again.stdout.lines().count() < 25);
    });
    assert_eq!(home.json(&["up", "--check"])["state"], "good");
}

#[test]
fn init_writes_a_file_that_is_valid_and_never_overwrites_unasked() {
    let home = Home::new();
    assert_eq!(home.run(&["init"]).code, 0);
    assert_eq!(home.run(&["config", "show"]).code, 0);
    insta::assert_snapshot!(home.run(&["init"]).all());
    home.write("helve.toml", "broken");
    assert_eq!(home.run(&["init", "--force"]).code, 0);
    assert_eq!(home.run(&["tools", "list"]).code, 0);
}

#[test]
fn the_journal_of_a_project_stays_out_of_git() {
    let home = Home::new();
    home.run(&["init"]);
    home.run(&["call", "time-now"]);
    let folder = home.project().join(".helve");
    assert!(folder.join("helve.db").is_file());
    assert_eq!(std::fs::read_to_string(folder.join(".gitignore")).unwrap(), "*\n");
}

#[test]
fn everything_that_init_writes_in_comments_works() {
    let home = Home::new();
    home.run(&["init"]);
    let text = std::fs::read_to_string(home.project().join("helve.toml")).unwrap();
    let is_code = |line: &str| {
        line.starts_with('[') || line.split_once(" = ").is_some_and(|(key, _)| !key.contains(' '))
    };
    let uncommented: String = text
        .lines()
        .map(|line| line.strip_prefix("# ").filter(|rest| is_code(rest)).unwrap_or(line))
        .filter(|line| !line.contains("petstore") && *line != "[[openapi]]")
        .map(|line| format!("{line}\n"))
        .collect();
    home.write("helve.toml", &uncommented);
    let ran = home.run(&["tools", "lint", "helve.toml"]);
    assert_eq!(ran.code, 0, "{uncommented}\n{}{}", ran.stdout, ran.stderr);
    let names: Vec<_> = home
        .json(&["tools", "list", "--layer", "project"])
        .as_array()
        .unwrap()
        .iter()
        .map(|tool| tool["name"].clone())
        .collect();
    assert_eq!(names, ["count-lines", "weather"]);
}

#[test]
fn doctor_says_what_is_broken_and_how_to_mend_it() {
    let home = Home::new();
    // Others have no cgroup, and are told so.
    if rustix::process::getuid().is_root() {
        home.settled(|home| insta::assert_snapshot!("doctor_well", home.run(&["doctor"]).all()));
    }
    let ran = home.run(&["doctor", "--set", "journal.path=/proc/helve.db"]);
    assert_eq!(ran.code, 1);
    assert!(ran.stdout.contains("✗"), "{}", ran.stdout);
    let ran = home.run(&["doctor", "--json", "--set", "journal.path=/proc/helve.db"]);
    let json: serde_json::Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!(json["state"], "broken");
    home.write("helve.toml", "[exekution]\n");
    home.settled(|home| insta::assert_snapshot!("doctor_config", home.run(&["doctor"]).all()));
}

#[test]
fn completions_know_the_commands_of_every_shell() {
    let home = Home::new();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let ran = home.run(&["completions", shell]);
        assert_eq!(ran.code, 0);
        assert!(ran.stdout.contains("doctor") && ran.stdout.contains("verify"), "{shell}");
    }
}

#[test]
fn a_wrong_command_line_is_one_line_of_json_where_json_is_asked_for() {
    let home = Home::new();
    for (args, message) in [
        (&["--json", "bogus"][..], "unrecognized subcommand 'bogus'"),
        (&["--json", "call"], "the following required arguments were not provided"),
        (&["--json", "tools"], "a command is missing"),
        (&["--json", "audit", "list", "--limit", "x"], "invalid value 'x' for '--limit <COUNT>'"),
        (&["call", "time-now", "--advice", "no", "--json"], "invalid value 'no' for '--advice <ACTION>'"),
        (&["audit", "verify", "--expect-head", "zz", "--json"], "invalid value 'zz'"),
    ] {
        let ran = home.run(args);
        assert_eq!((ran.code, ran.stdout.as_str(), ran.stderr.lines().count()), (2, "", 1), "{}", ran.all());
        let said: serde_json::Value = serde_json::from_str(&ran.stderr).unwrap();
        assert!(said["error"]["message"].as_str().unwrap().starts_with(message), "{}", ran.stderr);
    }
    // After `--` it is an argument of the tool, and no flag.
    assert!(home.run(&["call", "--bogus", "--", "--json"]).stderr.starts_with("error: unexpected"));
}

#[test]
#[cfg(target_os = "linux")]
fn an_answer_that_cannot_be_written_is_an_error() {
    let home = Home::new();
    for args in [&["tools", "list"][..], &["call", "time-now"], &["audit", "export"]] {
        let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
        let output = home.command(args).stdout(full).output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{args:?}");
        assert!(said.contains("cannot be written to standard output: No space left"), "{args:?}: {said}");
    }
}

#[test]
fn doctor_notices_a_program_that_is_not_there() {
    let home = Home::new();
    let tool = |name: &str, command: &str| {
        format!("[[tool.program]]\nname = '{name}'\ndescription = 'Does a thing.'\ncommand = '{command}'\n")
    };
    home.write("notes.txt", "no program");
    home.write("helve.toml", tool("a", "sh") + &tool("b", "no-such-program") + &tool("c", "./notes.txt"));
    home.settled(|home| {
        let checks = home.json(&["doctor"])["checks"].clone();
        let programs = checks.as_array().unwrap().iter().filter(|check| check["name"] == "program");
        let found: Vec<_> = programs.map(|check| check["found"].as_str().unwrap()).collect();
        insta::assert_snapshot!("doctor_programs", found.join("\n"));
    });
}

#[test]
fn an_address_is_understood_as_people_write_it() {
    let home = Home::new();
    let ran = home.run(&["up", "--listen", "nowhere"]);
    assert!(ran.code == 2 && ran.stderr.contains("as in 127.0.0.1:7777"), "{}", ran.all());
    // Refused before anything else is said.
    let ran = home.run(&["up", "--listen", "0.0.0.0:7777"]);
    assert!(ran.code == 2 && ran.stdout.is_empty() && ran.stderr.contains("--token-file"), "{}", ran.all());
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    for address in [port.to_string(), format!(":{port}"), format!("localhost:{port}")] {
        let ran = home.run(&["up", "--listen", &address]);
        assert!(ran.code == 1 && ran.stderr.contains(&format!("127.0.0.1:{port}")), "{}", ran.all());
        assert!(ran.stderr.contains("--listen 127.0.0.1:0"), "{}", ran.all());
    }
}

#[test]
fn small_mistakes_are_answered_with_what_was_meant() {
    let home = Home::new();
    home.write("helve.toml", "[[hooks.PreToolUs]]\nhooks = [{ type = 'command', command = 'exit 2' }]\n");
    let check = |args: &[&str], code: i32, says: &str| {
        let ran = home.run(args);
        assert!(ran.code == code && ran.all().contains(says), "{args:?}: expected `{says}`:\n{}", ran.all());
    };
    check(&["hooks", "list"], 0, "so its hooks never run (helve.toml:1:1); did you mean `PreToolUse`?");
    check(&["doctor"], 0, "Helve knows no event `PreToolUs`");
    check(&["hooks", "test", "PreToolUs"], 0, "did you mean `PreToolUse`?");
    check(&["hook", "fire", "SesionStart"], 0, "did you mean `SessionStart`?");
    check(
        &["rules", "deny", "fil-read(.env)"],
        0,
        "no tool here is named `fil-read`; did you mean `file-read`?",
    );
    check(&["rules", "deny", "fil-read(.env)"], 0, "nothing changed");
    check(&["rules", "deny", "fil-read(.env)", "--remove"], 0, "no longer there");
    check(&["rules", "deny", "fil-read(.env)", "--remove"], 0, "nothing changed");
    check(&["keys", "revoke", "ada"], 2, "`helve keys list --all` shows them");
    check(&["session", "show", "nobody"], 0, "nothing is known of it");
    check(&["net", "check", "example.com"], 4, "as in https://example.com/");
    check(&["mcp", "add", "time"], 2, "`helve mcp add time -- CMD ARGS…`");
}
