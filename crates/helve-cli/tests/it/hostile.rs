//! Input that was made to do harm ends in exit code 2, a clear message, and little memory.

use std::io::Write;

use crate::home::{Home, Ran};

fn refused(ran: &Ran, why: &str) {
    assert_eq!(ran.code, 2, "{}", ran.all());
    assert!(ran.stderr.contains(why), "{}", ran.stderr);
    assert!(ran.stderr.len() < 2_000, "{} bytes of error", ran.stderr.len());
    assert!(!ran.stderr.contains('\u{1b}') && !ran.stderr.contains('\0'));
}

#[test]
fn a_huge_argument_file_is_not_read_whole() {
    let home = Home::new();
    let mut file = std::fs::File::create(home.project().join("big.json")).unwrap();
    file.write_all(br#"{"text": ""#).unwrap();
    for _ in 0..50 {
        file.write_all(&[b'x'; 1 << 20]).unwrap();
    }
    file.write_all(br#""}"#).unwrap();
    refused(&home.run(&["call", "text-stats", "@big.json"]), "larger than 4194304 bytes");
    refused(&home.run(&["call", "text-stats", "@/dev/zero"]), "larger than 4194304 bytes");
    refused(&home.run(&["--config", "/dev/zero", "tools", "list"]), "larger than 4 MiB");
}

#[test]
fn hostile_json_is_refused() {
    let home = Home::new();
    let deep = "[".repeat(100_000);
    let wide = format!("{{\"text\": [{}]}}", "0,".repeat(300_000) + "0");
    for (name, text, why) in [
        ("nul", r#"{"text": "a\u0000b"}"#, "NUL"),
        ("twice", r#"{"text": "a", "text": "b"}"#, "stands twice"),
        ("deep", deep.as_str(), "deeper than 64"),
        ("wide", wide.as_str(), "more than 200000 values"),
        ("number", r#"{"text": 123456789012345678901234567890}"#, "does not fit in 64 bits"),
        ("cut", r#"{"text": "#, "not valid JSON"),
        ("escape", "{\"te\u{1b}[2Jxt\": }", "not valid JSON"),
    ] {
        home.write(name, text);
        refused(&home.run(&["call", "text-stats", &format!("@{name}")]), why);
    }
    home.write("binary", [0xff, 0xfe, 0x00]);
    refused(&home.run(&["call", "text-stats", "@binary"]), "not valid JSON");
}

#[test]
fn a_call_whose_arguments_are_refused_is_recorded() {
    let home = Home::new();
    let deep = format!("{}1{}", "[".repeat(100), "]".repeat(100));
    home.write("big", vec![b'x'; 5 << 20]);
    let all = [
        &[r#"{"text": "a", "text": "b"}"#][..],
        &[r#"{"text": "a\u0000b"}"#],
        &[r#"{"text": 1e400}"#],
        &[&deep],
        &["@big"],
        &["text=a", "text=hunter2"],
        &["text:={"],
    ];
    for (index, args) in all.iter().enumerate() {
        let ran = home.run(&[&["call", "text-stats"], *args].concat());
        refused(&ran, "validation_failed");
        let calls = home.json(&["audit", "list", "--tool", "text-stats", "--code", "validation_failed"]);
        assert_eq!(calls.as_array().unwrap().len(), index + 1, "{args:?}");
    }
    assert!(!home.run(&["audit", "export"]).stdout.contains("hunter2"));
}

#[test]
fn hostile_names_are_shown_harmless() {
    let home = Home::new();
    refused(&home.run(&["call", "\u{1b}]0;owned\u{7}", "{}"]), "tool_not_found");
    refused(&home.run(&["tools", "show", "\u{202e}txet"]), "no tool named");
    let long = "x".repeat(100_000);
    refused(&home.run(&["tools", "show", &long]), "no tool named");
    refused(&home.run(&["call", "time-now", &long]), "is not an argument");
}

#[test]
fn a_mistyped_command_line_is_shown_harmless() {
    let home = Home::new();
    for args in [&["a\u{1b}[2J\u{202e}\u{7}"][..], &["audit", "list", "--limit", "\u{1b}]0;x\u{7}"]] {
        refused(&home.run(args), "error:");
        refused(&home.run(&[&["--json"], args].concat()), "\"error\"");
    }
    refused(&home.run(&[&"x".repeat(100_000)]), "unrecognized");
}

#[test]
fn hostile_configuration_is_refused() {
    let home = Home::new();
    for (text, why) in [
        (format!("a = {}", "[".repeat(100_000)), "not valid TOML"),
        ("[execution]\ndefault_timeout_ms = 1\ndefault_timeout_ms = 2\n".to_owned(), "duplicate key"),
        ("[execution]\ndefault_timeout_ms = 99999999999999999999\n".to_owned(), "64 bits"),
        (format!("[\"{}\"]\n", "k".repeat(100_000)), "is not a key"),
    ] {
        home.write("helve.toml", &text);
        let ran = home.run(&["tools", "list"]);
        assert_eq!(ran.code, 2, "{}", ran.stderr);
        assert!(ran.stderr.contains(why), "{}", &ran.stderr[..ran.stderr.len().min(1_000)]);
        assert!(ran.stderr.len() < 5_000);
    }
}

#[test]
fn names_of_servers_and_integrations_are_shown_harmless() {
    let home = Home::new();
    home.write(
        "helve.toml",
        r#"
[mcp.servers."evil\u001b[2J"]
colour = 1

[integrations."acme"]
env = "VARIABLE\u001b]0;owned\u0007"

[[tool.program]]
name = "first"
description = "Says a word."
command = "echo"
integrations = ["acme"]

[[tool.program]]
name = "second"
description = "Says a word."
command = "echo"
integrations = ["other\u001b[31m"]
"#,
    );
    for (args, said) in [
        (&["mcp", "list"][..], "evil\\u{1b}[2J is broken"),
        (&["tools", "list"], "not shown first"),
        (&["tools", "show", "first"], "VARIABLE\\u{1b}"),
        (&["tools", "show", "second"], "other\\u{1b}[31m"),
    ] {
        let ran = home.run(args);
        assert!(ran.all().contains(said), "{args:?}: {}", ran.all());
        assert!(!ran.all().contains(['\u{1b}', '\u{7}']), "{args:?}: {}", ran.all());
    }
}

#[test]
fn hostile_descriptions_and_results_are_shown_harmless() {
    let home = Home::new();
    home.write(
        "helve.toml",
        r#"
[[tool.program]]
name = "evil"
description = "Clears the screen \u001b[2J and turns it \u202eround."
command = "printf"
args = ['"\\u001b]0;owned\\u0007 and more"']
risk = "low"
"#,
    );
    for args in [
        &["tools", "list"][..],
        &["tools", "show", "evil"],
        &["call", "evil"],
        &["tools", "list", "--json"],
        &["call", "evil", "--json"],
    ] {
        let ran = home.run(args);
        assert_eq!(ran.code, 0, "{}", ran.all());
        assert!(!ran.all().contains(['\u{1b}', '\u{7}', '\u{202e}']), "{args:?}: {}", ran.all());
    }
    home.run(&["call", "text-stats", "text=\u{202e}\u{9b}31m"]);
    let calls = home.json(&["audit", "list"]);
    let id = calls[0]["call_id"].as_str().unwrap();
    for args in [
        &["audit", "list", "--json"][..],
        &["audit", "show", id],
        &["audit", "show", id, "--json"],
        &["audit", "export"],
    ] {
        let ran = home.run(args);
        assert!(ran.stdout.contains("202e"), "{args:?}: {}", ran.stdout);
        assert!(!ran.stdout.contains(['\u{202e}', '\u{9b}']), "{args:?}: {}", ran.stdout);
    }
}
