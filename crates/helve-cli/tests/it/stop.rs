//! SIGTERM: what clients hear, what is recorded, and what goes on in the next process.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::Stdio;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::home::until;
use crate::load::{assert_all_ended, crowd, home, home_with, send, signal, until_it_waits, world};
use crate::up::Up;

const SHORT: &str = "[execution]\nstop_grace_ms = 200\ncancel_grace_ms = 100\n";
const LONG: &str = "[execution]\nstop_grace_ms = 600000\ncancel_grace_ms = 100\n";

/// Waits until it has ended by itself, and well.
fn until_gone(up: &mut Up) {
    until("it has ended", || up.child.try_wait().unwrap().is_some());
    assert_eq!(up.child.wait().unwrap().code(), Some(0));
}

/// A call of a tool in the background.
fn calling(up: &Up, body: Value) -> std::thread::JoinHandle<(u16, Value)> {
    let (address, token) = (up.address.clone(), up.token());
    std::thread::spawn(move || send(&address, &token, "/v1/calls", &body).expect("an answer"))
}

fn ready(up: &Up) -> (u16, Value) {
    let (status, _, body) = up.send("GET /readyz", &[], &Value::Null);
    (status, body)
}

#[test]
fn under_load_every_client_gets_an_answer_and_every_call_its_end() {
    let home = home();
    let mut up = Up::start(&home);
    let (heard, clients) = crowd(&up, 8);
    until("all are at it", || heard.done.load(SeqCst) > 20);
    signal(&up.child, Signal::TERM);
    for client in clients {
        client.join().unwrap();
    }
    until_gone(&mut up);
    let calls = assert_all_ended(&home);
    assert_eq!(calls.len(), heard.all(), "every recorded call was answered");
    assert_eq!(world(&home).len(), heard.done.load(SeqCst), "the grace was enough for each");
}

#[test]
fn a_storm_of_signals_loses_no_answer_and_no_record() {
    let home = home_with(SHORT);
    let mut answered = 0;
    for round in 0..4 {
        let mut up = Up::start(&home);
        let (heard, clients) = crowd(&up, 8);
        until("some are at it", || heard.done.load(SeqCst) > 4 * round);
        for number in 0_u64..40 {
            signal(&up.child, Signal::TERM);
            std::thread::sleep(Duration::from_millis(number * 7 % 13));
        }
        for client in clients {
            client.join().unwrap();
        }
        until_gone(&mut up);
        answered += heard.all();
    }
    assert_eq!(assert_all_ended(&home).len(), answered);
}

#[test]
fn what_outlives_the_grace_is_cancelled_and_says_who_stopped_it() {
    let home = home_with("[execution]\nstop_grace_ms = 2000\ncancel_grace_ms = 100\n");
    let mut up = Up::start(&home);
    let slow = calling(&up, json!({ "tool": "slow" }));
    until_it_waits(&home);
    assert_eq!(ready(&up).0, 200);
    signal(&up.child, Signal::TERM);
    until("readiness is off", || ready(&up).0 == 503);
    assert_eq!(ready(&up).1["reason"], "stopping");
    assert_eq!(up.send("GET /healthz", &[], &Value::Null).0, 200, "it lives");
    let bearer = format!("Bearer {}", up.token());
    let (status, head, refused) =
        up.send("POST /v1/calls", &[("Authorization", &bearer)], &json!({ "tool": "deed" }));
    assert_eq!((status, &refused["code"]), (503, &json!("stopping")), "{refused}");
    assert!(head.to_lowercase().contains("retry-after:"), "{head}");
    assert_eq!((&refused["nothing_done"], &refused["retryable"]), (&json!(true), &json!(true)), "{refused}");
    assert!(refused.to_string().contains("another replica"), "{refused}");

    let (status, answer) = slow.join().unwrap();
    assert_eq!((status, &answer["code"]), (409, &json!("cancelled")), "{answer}");
    assert_eq!(answer["may_have_happened"], true, "{answer}");
    assert!(answer["detail"].as_str().unwrap().contains("SIGTERM"), "{answer}");
    until_gone(&mut up);
    let calls = assert_all_ended(&home);
    let slow = calls.iter().find(|call| call["tool"] == "slow").unwrap();
    assert_eq!(slow["ending"]["code"], "cancelled", "{slow}");
    assert!(calls.iter().any(|call| call["ending"]["code"] == "stopping"), "refusals are recorded");
    assert!(world(&home).is_empty(), "nothing ran after it was refused");
}

#[test]
fn a_second_signal_ends_the_grace() {
    let home = home_with(LONG);
    let mut up = Up::start(&home);
    let slow = calling(&up, json!({ "tool": "slow" }));
    until_it_waits(&home);
    signal(&up.child, Signal::TERM);
    until("readiness is off", || ready(&up).0 == 503);
    assert!(!slow.is_finished(), "it has ten minutes");
    signal(&up.child, Signal::TERM);
    assert_eq!(slow.join().unwrap().1["code"], "cancelled");
    until_gone(&mut up);
    assert_all_ended(&home);
}

#[test]
fn a_signal_after_the_terminal_has_gone_is_the_second_one() {
    let home = home_with(LONG);
    let mut up = Up::start(&home);
    let slow = calling(&up, json!({ "tool": "slow" }));
    until_it_waits(&home);
    for _ in 0..2 {
        signal(&up.child, Signal::HUP);
        until("readiness is off", || ready(&up).0 == 503);
    }
    assert!(!slow.is_finished(), "it has ten minutes");
    signal(&up.child, Signal::TERM);
    assert_eq!(slow.join().unwrap().1["code"], "cancelled");
    until_gone(&mut up);
    assert_all_ended(&home);
}

#[test]
fn a_call_that_ends_within_the_grace_is_answered_as_ever() {
    let home = home_with(LONG);
    let mut up = Up::start(&home);
    let slow = calling(&up, json!({ "tool": "slow" }));
    until_it_waits(&home);
    signal(&up.child, Signal::TERM);
    until("readiness is off", || ready(&up).0 == 503);
    home.write("go", "");
    assert_eq!(slow.join().unwrap().0, 200);
    until_gone(&mut up);
    assert_eq!(world(&home), ["slow"]);
    assert_all_ended(&home);
}

#[test]
fn a_saga_is_not_undone_by_a_stop_and_the_next_process_goes_on_with_it() {
    let home = home_with(SHORT);
    let mut up = Up::start(&home);
    let saga = calling(&up, json!({ "tool": "saga" }));
    until_it_waits(&home);
    signal(&up.child, Signal::TERM);
    let (status, answer) = saga.join().unwrap();
    assert_eq!((status, &answer["code"]), (503, &json!("stopping")), "{answer}");
    assert_eq!(
        (&answer["may_have_happened"], &answer["retryable"]),
        (&json!(true), &json!(false)),
        "{answer}"
    );
    assert!(answer.to_string().contains("do not call again"), "{answer}");
    until_gone(&mut up);
    assert_eq!(world(&home), ["write"], "nothing was undone");
    let runs = home.json(&["runs", "list"]);
    assert_eq!(runs[0]["state"], "cut_short", "{runs}");
    let run = runs[0]["run"].as_str().unwrap();
    let shown = home.run(&["runs", "show", run]).stdout;
    assert!(shown.contains("SIGTERM stopped the process"), "{shown}");

    home.write("go", "");
    let _up = Up::start(&home);
    until("the next one goes on with it", || home.json(&["runs", "show", run])["state"] == "done");
    assert_eq!(world(&home), ["write", "slow", "write"]);
}

#[test]
fn whoever_waits_for_a_person_is_told_that_the_question_stands() {
    let home = home_with(LONG);
    let mut up = Up::start(&home);
    let waiting = calling(&up, json!({ "tool": "sign", "wait_ms": 600_000 }));
    until("it asks", || home.json(&["approvals", "list"]) != json!([]));
    signal(&up.child, Signal::TERM);
    let (status, pending) = waiting.join().unwrap();
    assert_eq!((status, &pending["status"]), (202, &json!("pending")), "{pending}");
    until_gone(&mut up);
    assert_eq!(home.json(&["approvals", "list"])[0]["state"], "pending");
    assert!(world(&home).is_empty());
}

#[test]
fn streams_are_told_and_do_not_keep_the_process() {
    let home = home_with(SHORT);
    let mut up = Up::start(&home);
    let mut stream = TcpStream::connect(&up.address).unwrap();
    let (address, token) = (&up.address, up.token());
    write!(stream, "GET /v1/events HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {token}\r\n\r\n")
        .unwrap();
    let mut lines = BufReader::new(stream);
    let mut head = String::new();
    while !head.contains("retry: 2000") {
        assert!(lines.read_line(&mut head).unwrap() > 0, "{head}");
    }
    signal(&up.child, Signal::TERM);
    let mut rest = String::new();
    lines.read_to_string(&mut rest).unwrap();
    assert!(rest.contains("event: stopping"), "{rest}");
    until_gone(&mut up);
}

#[test]
fn a_client_over_stdio_is_answered_before_the_process_ends() {
    let home = home_with(SHORT);
    let mut command = home.command(&["mcp", "serve"]);
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    let params = json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": { "name": "t", "version": "1" } });
    let initialize = json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params });
    let call = json!({ "jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": { "name": "slow", "arguments": {} } });
    write!(input, "{initialize}\n{call}\n").unwrap();
    until_it_waits(&home);
    signal(&child, Signal::TERM);
    let mut said = String::new();
    child.stdout.take().unwrap().read_to_string(&mut said).unwrap();
    let answer = said.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let answer = answer.into_iter().find(|message| message["id"] == 2).expect("an answer");
    assert!(answer["result"]["isError"] == true, "{answer}");
    assert!(answer.to_string().contains("cancelled") && answer.to_string().contains("SIGTERM"), "{answer}");
    assert_eq!(child.wait().unwrap().code(), Some(0));
    drop(input);
    assert_all_ended(&home);
}

/// The number after a word in one of the files for operators.
fn number_in(file: &str, word: &str) -> u64 {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy").join(file);
    let text = std::fs::read_to_string(path).unwrap();
    let line = text.lines().find_map(|line| line.trim().strip_prefix(word)).expect(word);
    line.trim().parse().unwrap()
}

#[test]
fn supervisors_give_a_stop_the_time_that_it_can_take() {
    let home = home();
    let shown = home.json(&["config", "show", "execution"]);
    let values = shown["values"].as_array().unwrap();
    let grace = values.iter().find(|one| one["key"] == "execution.stop_grace_ms").unwrap();
    // To end, to record, to answer and to tell traces, each of which is bounded.
    let stop_s = grace["value"].as_u64().unwrap() / 1_000 + 30;
    assert!(number_in("systemd/helve.service", "TimeoutStopSec=") > stop_s);
    let pre_stop_s = 5;
    assert!(number_in("kubernetes/helve.yaml", "terminationGracePeriodSeconds:") > stop_s + pre_stop_s);
}
