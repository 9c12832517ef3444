//! `helve sandbox run`, with real programs and a real way out.

use std::io::{Read, Write};
use std::net::TcpListener;

use crate::home::Home;

fn run_sandbox(home: &Home, args: &[&str]) -> (i32, serde_json::Value) {
    let ran = home.run(&[&["sandbox", "run", "--json"], args].concat());
    let report = serde_json::from_str(&ran.stdout).unwrap_or_else(|_| panic!("{}", ran.all()));
    (ran.code, report)
}

#[test]
fn a_program_runs_and_its_report_says_how() {
    let home = Home::new();
    let (code, report) = run_sandbox(&home, &["--", "sh", "-c", "echo out; echo err >&2; exit 7"]);
    assert_eq!(code, 7);
    assert_eq!((&report["stdout"], &report["stderr"]), (&"out\n".into(), &"err\n".into()));
    assert_eq!((&report["status"], &report["exit_code"]), (&"exited".into(), &7.into()));
    assert_eq!(report["truncated"], false);
    let level = report["level"].as_str().unwrap();
    assert!(["L2", "L3"].contains(&level), "{level}");
    let enforced: Vec<_> =
        report["enforced"].as_array().unwrap().iter().filter_map(|one| one.as_str()).collect();
    for guard in ["files", "network", "memory", "pids", "seccomp", "children"] {
        assert!(enforced.contains(&guard), "{guard} in {enforced:?}");
    }
    assert!(report["usage"]["wall_ms"].is_u64() && report["usage"]["cpu_ms"].is_u64());
    // For a person the program's own words are all there is.
    let ran = home.run(&["sandbox", "run", "--", "sh", "-c", "echo out; echo err >&2; kill -9 $$"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (137, "out\n"));
    assert!(ran.stderr.starts_with("err\n"), "{}", ran.stderr);
}

#[test]
fn every_limit_is_told() {
    let home = Home::new();
    let cases: [(&[&str], &[&str], &str, i32); 4] = [
        (&["--timeout-ms", "300"], &["sleep", "60"], "timeout", 124),
        (&["--memory-mb", "64"], &["python3", "-c", "x = bytearray(1 << 30)"], "memory_limit", 137),
        (&["--cpu-s", "1"], &["sh", "-c", "while :; do :; done"], "cpu_limit", 137),
        (&["--output-bytes", "1000"], &["yes"], "output_limit", 137),
    ];
    for (flags, command, status, expected) in cases {
        let (code, report) = run_sandbox(&home, &[flags, &["--"], command].concat());
        assert_eq!((report["status"].as_str(), code), (Some(status), expected), "{report}");
    }
    let (_, report) = run_sandbox(
        &home,
        &[
            "--pids",
            "5",
            "--",
            "python3",
            "-c",
            "import os\nn=0\ntry:\n  while n < 100:\n    if os.fork() == 0: __import__('time').sleep(9)\n    n += 1\nexcept OSError: print(n)",
        ],
    );
    assert!(report["stdout"].as_str().unwrap().trim().parse::<u32>().unwrap() <= 5, "{report}");
}

#[test]
fn folders_variables_and_input_are_what_is_given() {
    let home = Home::new();
    std::fs::create_dir(home.project().join("data")).unwrap();
    std::fs::write(home.project().join("data/in"), "there").unwrap();
    std::fs::write(home.project().join("secret"), "no").unwrap();
    let script = "cat data/in; cat secret 2>/dev/null; echo $NAME; touch data/x 2>/dev/null || echo kept";
    let project = home.project().canonicalize().unwrap().display().to_string();
    let script = format!("cd {project}; {script}");
    let (_, report) = run_sandbox(&home, &["--read", "data", "--env", "NAME=a=b", "--", "sh", "-c", &script]);
    assert_eq!(report["stdout"], "therea=b\nkept\n", "{report}");
    let (_, report) =
        run_sandbox(&home, &["--write", "data", "--", "sh", "-c", &format!("echo new > {project}/data/new")]);
    assert_eq!(report["exit_code"], 0, "{report}");
    assert_eq!(std::fs::read_to_string(home.project().join("data/new")).unwrap(), "new\n");
}

#[test]
fn what_cannot_be_run_is_refused_with_the_reason() {
    let home = Home::new();
    for (args, reason) in [
        (&["--", "no-such-program"] as &[&str], "no such program"),
        (&["--read", "nowhere", "--", "true"], "cannot be granted"),
        (&["--env", "NAME", "--", "true"], "has no value"),
        (&["--net", "not a host", "--", "true"], "is not a host"),
        (&["--min-level", "L9", "--", "true"], "is no level"),
    ] {
        let ran = home.run(&[&["sandbox", "run"], args].concat());
        assert_eq!(ran.code, 2, "{}", ran.all());
        assert!(ran.stderr.contains(reason), "{}", ran.stderr);
    }
}

/// A server that answers everything with one word, and says what it was asked.
fn server(word: &'static str) -> (u16, std::sync::mpsc::Receiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let (tell, asked) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut head = [0; 4096];
            let read = stream.read(&mut head).unwrap_or(0);
            let _ = tell.send(String::from_utf8_lossy(&head[..read]).into_owned());
            let _ = write!(
                stream,
                "HTTP/1.1 200 OK\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{word}",
                word.len()
            );
        }
    });
    (port, asked)
}

#[test]
fn a_granted_host_is_reached_and_no_other() {
    let home = Home::new();
    let ((granted, _), (other, asked)) = (server("granted"), server("other"));
    let script = format!(
        "import urllib.request, urllib.error, socket\n\
         print(urllib.request.urlopen('http://127.0.0.1:{granted}/').read().decode())\n\
         try: print(urllib.request.urlopen('http://127.0.0.1:{other}/').read())\n\
         except urllib.error.HTTPError as e: print(e.code)\n\
         try: socket.create_connection(('127.0.0.1', {other}), 2); print('connected')\n\
         except OSError as e: print('refused')\n"
    );
    let net = format!("127.0.0.1:{granted}");
    let (_, report) = run_sandbox(&home, &["--net", &net, "--", "python3", "-c", &script]);
    assert_eq!(report["stdout"], "granted\n403\nrefused\n", "{report}");
    // Without a grant there is no proxy, and nothing at all.
    let (_, report) = run_sandbox(&home, &["--net", "none", "--", "python3", "-c", &script]);
    assert_eq!(report["exit_code"], 1);
    assert!(asked.try_recv().is_err());
}

#[test]
fn a_program_tool_gets_what_its_configuration_grants() {
    let home = Home::new();
    let (granted, _) = server("granted");
    let program = |name: &str, extra: &str, script: &str| {
        format!(
            "[[tool.program]]\nname = \"{name}\"\ndescription = \"Tries.\"\ncommand = \"python3\"\nargs = ['-c', '''{script}''']\n{extra}\n"
        )
    };
    let fetch = format!(
        "import urllib.request, json; print(json.dumps(urllib.request.urlopen(\"http://127.0.0.1:{granted}/\").read().decode()))"
    );
    let write = "import json; open(\"made\", \"w\"); print(json.dumps(\"made\"))";
    home.write(
        "helve.toml",
        [
            program("online", &format!("network = [\"127.0.0.1:{granted}\"]"), &fetch),
            program("offline", "", &fetch),
            program("writes", "write = [\".\"]", write),
            program("reads", "", write),
            program("free", "confined = false", write),
        ]
        .concat(),
    );
    assert_eq!(home.run(&["trust", "--yes"]).code, 0);
    for (tool, code) in [("online", 0), ("offline", 1), ("writes", 0), ("reads", 1), ("free", 0)] {
        let ran = home.run(&["call", tool, "{}"]);
        assert_eq!(ran.code, code, "{tool}: {}", ran.all());
    }
}
