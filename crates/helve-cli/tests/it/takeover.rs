//! What dead processes left, taken over by those that live; and a process that is suspended in the middle of a write.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Child, Stdio};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::home::{Home, until};
use crate::load::{home, home_with, send, signal, until_it_waits, waiting, world};
use crate::up::Up;

/// Lets tools reach the service of a test.
const REACH: [&str; 2] = ["--set", "net.allow=127.0.0.1"];

/// A `helve call` in the background.
fn call(home: &Home, tool: &str) -> Child {
    let mut command = home.command(&[&["call", tool], &REACH[..]].concat());
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
}

/// Kills a call of a tool that waits in its middle.
fn cut_short(home: &Home, tool: &str) {
    let mut child = call(home, tool);
    until_it_waits(home);
    signal(&child, Signal::KILL);
    child.wait().unwrap();
    std::fs::remove_file(home.project().join("waits")).unwrap();
}

fn runs(home: &Home) -> Vec<Value> {
    home.json(&["runs", "list", "--all"]).as_array().unwrap().clone()
}

fn ready(up: &Up) -> (u16, Value) {
    let (status, _, body) = up.send("GET /readyz", &[], &Value::Null);
    (status, body)
}

#[test]
fn what_a_command_left_is_taken_over_by_one_of_two_that_live() {
    let home = home();
    let ups = [Up::start(&home), Up::start(&home)];
    let mut calls: Vec<_> = (0..3).map(|_| call(&home, "saga")).collect();
    until("all wait", || waiting(&home) == 3);
    for call in &mut calls {
        signal(call, Signal::KILL);
        call.wait().unwrap();
    }
    home.write("go", "");
    until("all have ended", || runs(&home).iter().all(|run| run["state"] == "done"));
    assert_eq!(runs(&home).len(), 3);
    let world = world(&home);
    let of = |what: &str| world.iter().filter(|line| *line == what).count();
    assert_eq!((of("write"), of("undone")), (6, 0), "{world:?}");
    let taken: u64 = ups.iter().map(|up| ready(up).1["recovering"]["total"].as_u64().unwrap()).sum();
    assert!(taken >= 3, "nobody restarted anything");
}

#[test]
fn up_listens_at_once_and_a_service_that_hangs_keeps_nobody_else_waiting() {
    // It takes connections and never answers.
    let service = TcpListener::bind("127.0.0.1:0").unwrap();
    let tools = format!(
        r#"
[[tool.http]]
name = "pay-status"
description = "Whether it was paid."
url = "http://{}/status"
method = "GET"
timeout_ms = 60000
annotations = {{ read_only = true }}

[[tool.program]]
name = "pay"
description = "Pays."
command = "sh"
write = ["."]
args = ["-c", "cat >/dev/null; echo >> waits; while [ -e helve.toml ]; do sleep 0.1; done"]
timeout_ms = 100000
recall = {{ tool = "pay-status", happened = "answer.paid" }}
"#,
        service.local_addr().unwrap()
    );
    let home = home_with(&tools);
    assert_eq!(home.run(&["trust", "--yes"]).code, 0);
    for _ in 0..2 {
        cut_short(&home, "pay");
    }
    cut_short(&home, "saga");
    home.write("go", "");
    let up = Up::start_with(&home, &REACH);
    let (status, state) = ready(&up);
    assert_eq!(status, 200, "{state}");
    let (address, token) = (up.address.clone(), up.token());
    let (status, answer) = send(&address, &token, "/v1/calls", &json!({ "tool": "deed" })).unwrap();
    assert_eq!(status, 200, "{answer}");
    let of = |tool: &str, state: &str| {
        runs(&home).iter().filter(|run| run["tool"] == tool && run["state"] == state).count()
    };
    until("the other one has ended", || of("saga", "done") == 1);
    assert_eq!(of("pay", "running"), 2, "these are still asked about");
    let recovering = ready(&up).1["recovering"].clone();
    assert_eq!(recovering, json!({ "done": 1, "total": 3 }));
    // Nobody waits for the service when it is to stop, either: what hangs is left for the next process.
    let mut up = up;
    signal(&up.child, Signal::TERM);
    signal(&up.child, Signal::TERM);
    until("it has ended", || up.child.try_wait().unwrap().is_some());
    assert_eq!(of("pay", "cut_short"), 2, "{:?}", runs(&home));
    drop(service);
}

#[test]
fn a_process_that_is_suspended_is_not_taken_for_dead() {
    let home = home();
    let (suspended, other) = (Up::start(&home), Up::start(&home));
    let (address, token) = (suspended.address.clone(), suspended.token());
    let saga = std::thread::spawn(move || send(&address, &token, "/v1/calls", &json!({ "tool": "saga" })));
    until_it_waits(&home);
    let run = runs(&home)[0]["run"].clone();
    signal(&suspended.child, Signal::STOP);
    std::fs::remove_file(home.project().join("waits")).unwrap();
    cut_short(&home, "saga");
    let state = |run: &Value| home.json(&["runs", "show", run.as_str().unwrap()])["state"].clone();
    until("the other one looks, and takes what is dead", || ready(&other).1["recovering"]["total"] == 1);
    assert_eq!(state(&run), "running");
    signal(&suspended.child, Signal::CONT);
    home.write("go", "");
    assert_eq!(saga.join().unwrap().unwrap().0, 200, "its caller has its answer");
    until("both have ended", || runs(&home).iter().all(|run| run["state"] == "done"));
    let world = world(&home);
    assert_eq!(world.iter().filter(|line| *line == "write").count(), 4, "{world:?}");
}

/// Calls with keys of their own, each until it is answered for good, on whichever process lives.
fn keyed_clients(
    ups: &Arc<Mutex<Vec<(String, String)>>>,
    is_over: &Arc<AtomicBool>,
) -> Vec<std::thread::JoinHandle<HashMap<String, String>>> {
    let client = |client: usize| {
        let (ups, is_over) = (Arc::clone(ups), Arc::clone(is_over));
        std::thread::spawn(move || {
            let mut ended = HashMap::new();
            let mut number = 0;
            while !is_over.load(SeqCst) {
                number += 1;
                let key = format!("key-{client}-{number}");
                let body = json!({ "tool": "deed", "idempotency_key": key });
                let answer = (0..).find_map(|tried: usize| {
                    let (address, token) = ups.lock().unwrap()[tried % 2].clone();
                    let answer = send(&address, &token, "/v1/calls", &body);
                    let code = answer.map(|(status, body)| match status {
                        200 => "done".to_owned(),
                        _ => body["code"].as_str().unwrap_or_default().to_owned(),
                    });
                    assert!(tried < 2_000, "{key} is never answered: {code:?}");
                    let is_final = |code: &String| code == "done" || code == "outcome_unknown";
                    let code = code.filter(is_final);
                    if code.is_none() {
                        std::thread::sleep(Duration::from_millis(20));
                    }
                    code
                });
                ended.insert(key, answer.unwrap());
            }
            ended
        })
    };
    (0..4).map(client).collect()
}

#[test]
fn two_processes_that_are_killed_in_turn_do_every_deed_once_or_say_that_nobody_knows() {
    let home = home();
    let mut live = [Up::start(&home), Up::start(&home)].map(Some);
    let place = |up: &Option<Up>| up.as_ref().map(|up| (up.address.clone(), up.token())).unwrap();
    let ups = Arc::new(Mutex::new(live.iter().map(place).collect::<Vec<_>>()));
    let is_over = Arc::new(AtomicBool::new(false));
    let clients = keyed_clients(&ups, &is_over);
    for round in 0..12_usize {
        let before = world(&home).len();
        until("deeds are done", || world(&home).len() > before + 3);
        let index = round % 2;
        live[index].take().unwrap().kill();
        live[index] = Some(Up::start(&home));
        ups.lock().unwrap()[index] = place(&live[index]);
    }
    is_over.store(true, SeqCst);
    let mut ended = HashMap::new();
    for client in clients {
        ended.extend(client.join().unwrap());
    }
    until("nothing is left to nobody", || runs(&home).iter().all(|run| run["state"] != "cut_short"));
    let mut times = HashMap::<String, usize>::new();
    for line in world(&home) {
        *times.entry(line).or_default() += 1;
    }
    for (key, code) in &ended {
        let done = times
            .iter()
            .filter(|(line, _)| line.ends_with(key.as_str()))
            .map(|(_, count)| count)
            .sum::<usize>();
        assert!(done <= 1, "{key} was done {done} times");
        assert!(code != "done" || done == 1, "{key} is said to be done");
    }
    assert!(ended.values().filter(|code| *code == "done").count() > 20, "{ended:?}");
    assert_eq!(home.json(&["audit", "verify"])["sound"], json!(true));
}

/// Whether a process keeps the journal's write lock.
#[cfg(target_os = "linux")]
fn writes(pid: u32) -> bool {
    let locks = std::fs::read_to_string("/proc/locks").unwrap_or_default();
    locks.lines().any(|line| {
        let words: Vec<_> = line.split_whitespace().collect();
        words.len() == 8 && words[3] == "WRITE" && words[4] == pid.to_string() && words[6] == "120"
    })
}

/// Suspends a process, and waits until none of its threads runs any more: the signal comes before its effect.
#[cfg(target_os = "linux")]
fn suspend(child: &Child) {
    signal(child, Signal::STOP);
    let has_stopped =
        |stat: String| stat.rsplit_once(") ").is_some_and(|(_, state)| state.starts_with(['T', 'Z', 'X']));
    until("all its threads have stopped", || {
        let threads = std::fs::read_dir(format!("/proc/{}/task", child.id())).unwrap();
        // A thread that ends meanwhile has no state.
        threads
            .flatten()
            .all(|thread| std::fs::read_to_string(thread.path().join("stat")).ok().is_none_or(has_stopped))
    });
}

#[cfg(target_os = "linux")]
#[test]
fn a_process_suspended_in_the_middle_of_a_write_is_named_and_blocks_nobody_for_ever() {
    let home = home();
    let (writer, other) = (Up::start(&home), Up::start(&home));
    let is_over = Arc::new(AtomicBool::new(false));
    let clients: Vec<_> = (0..4)
        .map(|_| {
            let (address, token, is_over) = (writer.address.clone(), writer.token(), Arc::clone(&is_over));
            std::thread::spawn(move || {
                while !is_over.load(SeqCst) {
                    let body = json!({ "tool": "memory-set", "arguments": { "key": "k", "value": 1 } });
                    send(&address, &token, "/v1/calls", &body);
                }
            })
        })
        .collect();
    until("it is caught in a write", || {
        for _ in 0..200 {
            // Worth suspending only where it writes; what counts is whether it still does when it has stopped.
            if writes(writer.child.id()) {
                suspend(&writer.child);
                if writes(writer.child.id()) {
                    return true;
                }
            }
            signal(&writer.child, Signal::CONT);
            std::thread::sleep(Duration::from_micros(700));
        }
        false
    });
    let (address, token) = (other.address.clone(), other.token());
    let deed = || send(&address, &token, "/v1/calls", &json!({ "tool": "deed" })).unwrap();
    // Bounded: it is refused, and nothing was done.
    let (status, refused) = deed();
    assert_eq!((status, &refused["code"]), (503, &json!("journal_unavailable")), "{refused}");
    let pid = writer.child.id().to_string();
    assert!(
        refused["detail"].as_str().unwrap().contains(&format!("process {pid} is suspended")),
        "{refused}"
    );
    assert!(world(&home).is_empty());
    let (status, state) = ready(&other);
    assert_eq!((status, &state["reason"]), (503, &json!("journal_blocked")), "{state}");
    let detail = state["detail"].as_str().unwrap();
    assert!(detail.contains(&pid) && detail.contains("since") && detail.contains("kill -CONT"), "{state}");
    assert_eq!(other.send("GET /healthz", &[], &Value::Null).0, 200);
    // A new process says so too, and does not hang.
    let ran = home.run(&["call", "deed"]);
    assert!(ran.code == 1 && ran.stderr.contains(&pid), "{}", ran.all());
    assert!(home.json(&["audit", "list"]).is_array(), "reading works");

    signal(&writer.child, Signal::CONT);
    until("all goes on by itself", || ready(&other).0 == 200);
    assert_eq!(deed().0, 200);
    is_over.store(true, SeqCst);
    clients.into_iter().for_each(|client| client.join().unwrap());
    assert_eq!(home.json(&["audit", "verify"])["sound"], json!(true));

    // The same where it is ended instead.
    suspend(&writer.child);
    writer.kill();
    assert_eq!(deed().0, 200);
}

#[test]
fn a_check_changes_nothing_at_all() {
    let home = home();
    let files = || {
        let mut found = BTreeMap::new();
        let mut folders = vec![home.project().parent().unwrap().to_owned()];
        while let Some(folder) = folders.pop() {
            for file in std::fs::read_dir(folder).unwrap().flatten() {
                let kind = file.metadata().unwrap();
                if kind.is_dir() {
                    folders.push(file.path());
                }
                let content = if kind.is_file() { std::fs::read(file.path()).unwrap() } else { Vec::new() };
                found.insert(file.path(), (kind.modified().unwrap(), content));
            }
        }
        found
    };
    let changed = |before: &BTreeMap<_, _>| {
        let after = files();
        let names = before.keys().chain(after.keys()).cloned().collect::<BTreeSet<PathBuf>>();
        names.into_iter().filter(|name| before.get(name) != after.get(name)).collect::<Vec<_>>()
    };
    let before = files();
    let ran = home.run(&["up", "--check"]);
    assert!(ran.code == 0 && ran.stdout.contains("is made at the first use"), "{}", ran.all());
    assert_eq!(changed(&before), Vec::<PathBuf>::new(), "nothing is made");
    home.run(&["call", "deed"]);
    cut_short(&home, "saga");
    // What was left in the log by the kill is moved by the process that opens it next for writing.
    home.run(&["call", "time-now"]);
    let before = files();
    let ran = home.run(&["up", "--check"]);
    assert!(ran.stdout.contains("1 run was cut short"), "{}", ran.all());
    assert_eq!(changed(&before), Vec::<PathBuf>::new(), "nothing is resumed");
}
