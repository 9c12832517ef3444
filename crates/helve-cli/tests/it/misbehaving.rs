//! `helve mcp test` against a server that misbehaves in two hundred ways: it always ends, in bounded
//! time and memory, with one JSON document, and leaves nothing running.

use std::io::{BufRead, BufReader, Read};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::home::Home;

/// Runs at a time: most of them wait.
const AT_ONCE: usize = 20;
const STEP_S: u64 = 3;
/// Three steps and what a busy machine adds. Only a hang is longer.
const ENDED_WITHIN: Duration = Duration::from_secs(60);
const MEMORY_KB_MAX: u64 = 256 << 10;

/// Where this client does something else than the list expects, and why that is right.
const ARGUED: [(&str, &str, &str); 3] = [
    // The standard of server-sent events wants bytes that are no text replaced.
    ("invalid-utf8", "http", "ok"),
    // The one tool is refused, and so the list has come and there is nothing to call.
    ("deep-json", "", "call"),
    // `Echo` stands before `echo`: the first stays, and nobody can know which is the right one.
    ("tool-name-case", "", "call"),
];

struct Case {
    kind: String,
    transport: &'static str,
    expect: String,
}

fn misbehave() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../helve-mcp/tests/peers/misbehave.py")
}

#[expect(clippy::disallowed_methods, reason = "the tests start a counterpart")]
fn python(args: &[&str]) -> Command {
    let mut command = Command::new("python3");
    command.arg(misbehave()).args(args).env("MISBEHAVE_SECONDS", "90");
    command
}

fn cases() -> Vec<Case> {
    let listed = python(&["--list"]).output().unwrap();
    let mut cases = Vec::new();
    for line in String::from_utf8(listed.stdout).unwrap().lines() {
        let [kind, place, expect, _] = line.split('\t').collect::<Vec<_>>()[..] else { panic!("{line}") };
        for transport in ["stdio", "http"].into_iter().filter(|one| place == "both" || place == *one) {
            cases.push(Case { kind: kind.to_owned(), transport, expect: expect.to_owned() });
        }
    }
    assert!(cases.len() > 300, "{}", cases.len());
    apart(cases)
}

/// Cases that stand side by side are alike: twenty floods at once would leave no time for any of them.
fn apart(cases: Vec<Case>) -> Vec<Case> {
    let mut numbered: Vec<_> = cases.into_iter().enumerate().collect();
    numbered.sort_by_key(|(index, _)| index % AT_ONCE);
    numbered.into_iter().map(|(_, case)| case).collect()
}

/// The server over HTTP, and its address.
fn serve(kind: &str) -> (Child, String) {
    let mut server =
        python(&["--http", "0", kind]).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(server.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let port = line.split_whitespace().nth(1).unwrap().to_owned();
    let path = if kind.starts_with("sse-") { "sse" } else { "mcp" };
    (server, format!("http://127.0.0.1:{port}/{path}"))
}

/// What is wrong with how a case went, if something is.
fn run_case(home: &Home, case: &Case, mark: &str) -> Result<(), String> {
    let Case { kind, transport, expect } = case;
    let step = STEP_S.to_string();
    let mut args = vec!["mcp", "test", "--json", "--timeout-s", &step];
    args.extend(["--call", "echo", "--args", r#"{"message": "hi"}"#]);
    let (mark, script) = (format!("MARK={mark}"), misbehave().display().to_string());
    let mut server = None;
    let address;
    if *transport == "stdio" {
        args.extend(["--env", &mark, "--env", "MISBEHAVE_SECONDS=90", "--", "python3", &script, kind]);
    } else {
        let (child, url) = serve(kind);
        server = Some(child);
        address = url;
        args.push(&address);
    }
    let ended = watch(home.command(&args));
    if let Some(mut server) = server {
        let _ = server.kill();
        let _ = server.wait();
    }
    let (code, stdout, memory_kb) = ended?;
    let report: Value =
        serde_json::from_str(&stdout).map_err(|error| format!("no JSON: {error}: {stdout:.300}"))?;
    let stage = if report["ok"] == true { "ok" } else { report["stage"].as_str().unwrap_or_default() };
    let argued =
        ARGUED.iter().find(|(name, where_, _)| name == kind && (where_.is_empty() || where_ == transport));
    let fits = match (argued, expect.as_str()) {
        (Some((_, _, instead)), _) => stage == *instead,
        (None, "either") => true,
        (None, "list") => matches!(stage, "connect" | "list"),
        (None, expect) => stage == expect,
    };
    match () {
        () if code != i32::from(report["ok"] != true) => Err(format!("exit code {code}")),
        () if memory_kb > MEMORY_KB_MAX => Err(format!("{memory_kb} kB of memory")),
        () if !fits => Err(format!("expected {expect}, not {stage}: {}", report["error"])),
        () if report["ok"] == report["error"].is_object() => Err("an error and none".to_owned()),
        () => Ok(()),
    }
}

/// Runs to the end: exit code, standard output, and the most memory that was seen.
fn watch(mut command: Command) -> Result<(i32, String, u64), String> {
    let mut child =
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut stdout = child.stdout.take().unwrap();
    let reading = std::thread::spawn(move || {
        let mut text = String::new();
        stdout.read_to_string(&mut text).map(|_| text)
    });
    let began = Instant::now();
    let mut memory_kb = 0;
    loop {
        let status = std::fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap_or_default();
        let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let peak = peak.and_then(|text| text.split_whitespace().next()?.parse().ok()).unwrap_or(0);
        memory_kb = memory_kb.max(peak);
        if let Some(ended) = child.try_wait().unwrap() {
            let text = reading.join().unwrap().map_err(|error| error.to_string())?;
            return Ok((ended.code().unwrap_or(-1), text, memory_kb));
        }
        if began.elapsed() > ENDED_WITHIN {
            let _ = child.kill();
            let _ = child.wait();
            return Err("it did not end".to_owned());
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Processes that a test marked and that are still there.
fn left_running(mark: &str) -> usize {
    let marked = |entry: std::fs::DirEntry| {
        let environment = std::fs::read(entry.path().join("environ")).unwrap_or_default();
        environment.split(|byte| *byte == 0).any(|variable| variable == format!("MARK={mark}").as_bytes())
    };
    std::fs::read_dir("/proc").unwrap().flatten().map(marked).filter(|is| *is).count()
}

#[test]
#[cfg(target_os = "linux")]
fn whatever_a_server_does_the_test_of_it_ends() {
    let home = Home::new();
    let mark = format!("helve-misbehaving-{}", std::process::id());
    let waiting = Mutex::new(cases());
    let suspects = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                loop {
                    let Some(case) = waiting.lock().unwrap().pop() else { return };
                    if run_case(&home, &case, &mark).is_err() {
                        suspects.lock().unwrap().push(case);
                    }
                }
            });
        }
    });
    // Among the floods of others a step may run out of time. Alone, every case must go as expected.
    let alone = |case: &Case| {
        run_case(&home, case, &mark).err().map(|why| format!("{} over {}: {why}", case.kind, case.transport))
    };
    let wrong: Vec<String> = suspects.into_inner().unwrap().iter().filter_map(alone).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    for _ in 0..50 {
        if left_running(&mark) == 0 {
            return;
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    panic!("{} processes are left running", left_running(&mark));
}

/// The first greeting says why; that such a server does not know the other era's greeting says nothing.
#[test]
fn a_refused_greeting_is_told_as_the_server_said_it() {
    let home = Home::new();
    let script = misbehave().display().to_string();
    for (kind, words) in [("error-to-initialize", "no database (code -32603)"), ("unknown-version", "`1.0`")]
    {
        let ran = home.run(&["mcp", "test", "--json", "--", "python3", &script, kind]);
        let report: Value = serde_json::from_str(&ran.stdout).unwrap();
        let message = report["error"]["message"].as_str().unwrap();
        assert!(message.contains(words) && !message.contains("-32601"), "{kind}: {message}");
    }
}

#[test]
fn what_cannot_be_tested_is_reported_too() {
    let home = Home::new();
    for (args, words) in [
        (&["file:///etc/passwd"][..], "must begin with"),
        (&["gopher://example.com/"], "must begin with"),
        (&["http://[::::]/"], "not an address"),
        (&["nobody"], "nobody"),
        (&["http://127.0.0.1:1/", "--call", "x", "--args", "[1]"], "--args"),
    ] {
        let ran = home.run(&[&["mcp", "test", "--json"], args].concat());
        assert_eq!((ran.code, ran.stderr.as_str()), (2, ""), "{}", ran.all());
        let report: Value = serde_json::from_str(&ran.stdout).unwrap();
        let message = report["error"]["message"].as_str().unwrap();
        assert!(report["ok"] == false && message.contains(words), "{message}");
    }
}
