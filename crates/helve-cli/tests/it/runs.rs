//! Runs from the outside: sagas, crashes, cancelling and undoing, with real processes.

mod restored;

use std::process::{Child, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::home::{Home, Ran, until};
use crate::up::Up;

/// Tools that write down in the file `world` what they do.
const TOOLS: &str = r#"
[[tool.program]]
name = "files/write"
description = "Writes a line."
command = "sh"
write = ["."]
args = ["-c", "cat >/dev/null; echo write >> world; echo '{\"line\": \"write\"}'"]
undo = { tool = "files/remove", arguments = { line = "{{ result.line }}" } }

[[tool.program]]
name = "files/remove"
description = "Removes a line."
command = "sh"
write = ["."]
args = ["-c", "cat >/dev/null; echo remove >> world; echo '{}'"]
parameters = [{ name = "line", type = "string", description = "Which line." }]

[[tool.program]]
name = "burn"
description = "Does what nobody can undo."
command = "sh"
write = ["."]
args = ["-c", "cat >/dev/null; echo burn >> world; echo '{}'"]

[[tool.program]]
name = "slow"
description = "Waits until there is a file called go, while there is a home."
command = "sh"
write = ["."]
args = ["-c", "cat >/dev/null; touch waits; while [ -e helve.toml ]; do if [ -e go ]; then echo slow >> world; echo '{}'; exit 0; fi; sleep 0.1; done; exit 1"]
timeout_ms = 100000

[[tool.program]]
name = "fails"
description = "Fails every time."
command = "sh"
write = ["."]
args = ["-c", "cat >/dev/null; echo 'out of paper' >&2; exit 3"]

[[tool.sequence]]
name = "saga"
description = "Fails at its third step."
on_error = "undo"
steps = [
  { name = "first", tool = "files/write", arguments = {} },
  { name = "second", tool = "files/write", arguments = {} },
  { name = "third", tool = "fails", arguments = {} },
]

[[tool.sequence]]
name = "long"
description = "Waits in the middle."
on_error = "undo"
steps = [
  { name = "first", tool = "files/write", arguments = {} },
  { name = "wait", tool = "slow", arguments = {} },
  { name = "last", tool = "files/write", arguments = {} },
]

[[tool.program]]
name = "sticky"
description = "Does what takes long to undo."
command = "sh"
write = ["."]
args = ["-c", "cat >/dev/null; echo '{}'"]
undo = { tool = "slow" }

[[tool.sequence]]
name = "stuck"
description = "Waits in the middle, and when it is undone."
on_error = "undo"
steps = [
  { name = "first", tool = "sticky", arguments = {} },
  { name = "wait", tool = "slow", arguments = {} },
]

[[tool.program]]
name = "sign"
description = "Needs approval."
command = "sh"
write = ["."]
args = ["-c", "cat >/dev/null; echo sign >> world; echo '{}'"]
requires_approval = true

[[tool.sequence]]
name = "contract"
description = "Writes a line and has it signed."
on_error = "undo"
steps = [
  { name = "first", tool = "files/write", arguments = {} },
  { name = "second", tool = "sign", arguments = {} },
]

[[tool.sequence]]
name = "two"
description = "Writes two lines."
steps = [
  { name = "first", tool = "files/write", arguments = {} },
  { name = "second", tool = "files/write", arguments = {} },
]

[[tool.sequence]]
name = "mixed"
description = "Writes a line and burns something."
steps = [
  { name = "first", tool = "files/write", arguments = {} },
  { name = "second", tool = "burn", arguments = {} },
]

[[tool.sequence]]
name = "describe"
description = "Counts words, and tells the time."
steps = [
  { name = "words", tool = "text-stats", arguments = { text = "two words" } },
  { name = "time", tool = "time-now", arguments = {} },
]
"#;

fn home() -> Home {
    let home = Home::new();
    home.write("helve.toml", TOOLS);
    home
}

/// What was done to the world, in order.
fn world(home: &Home) -> Vec<String> {
    let text = std::fs::read_to_string(home.project().join("world")).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}

/// Calls `long`, and returns once it waits in its second step.
fn begin(home: &Home) -> Child {
    begin_call(home, "long")
}

fn begin_call(home: &Home, tool: &str) -> Child {
    let mut command = home.command(&["call", tool]);
    let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    until("the second step", || home.project().join("waits").exists());
    child
}

fn signal(child: &Child, signal: Signal) {
    kill_process(Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap(), signal).unwrap();
}

/// Kills a call of `long` in the middle of its second step.
fn cut_short(home: &Home) -> String {
    let mut child = begin(home);
    signal(&child, Signal::KILL);
    child.wait().unwrap();
    // The program outlives its parent; it must not do anything later.
    std::fs::remove_file(home.project().join("waits")).unwrap();
    only_run(home)
}

fn list(home: &Home, args: &[&str]) -> Vec<Value> {
    home.json(&[&["runs", "list"], args].concat()).as_array().unwrap().clone()
}

fn only_run(home: &Home) -> String {
    let runs = list(home, &[]);
    assert_eq!(runs.len(), 1, "{runs:?}");
    runs[0]["run"].as_str().unwrap().to_owned()
}

fn state(home: &Home, run: &str) -> Value {
    home.json(&["runs", "show", run])["state"].clone()
}

fn assert_says(ran: &Ran, code: i32, said: &[&str]) {
    assert_eq!(ran.code, code, "{}", ran.all());
    for text in said {
        assert!(ran.all().contains(text), "`{text}` is missing: {}", ran.all());
    }
}

#[test]
fn a_saga_whose_third_step_fails_is_undone_and_shows_it() {
    let home = home();
    home.settled(|home| {
        insta::assert_snapshot!("saga_call", home.run(&["call", "saga"]).all());
        assert_eq!(world(home), ["write", "write", "remove", "remove"]);
        insta::assert_snapshot!("saga_list", home.run(&["runs", "list"]).all());
        insta::assert_snapshot!("saga_show", home.run(&["runs", "show", &only_run(home)]).all());
        let audit = home.run(&["audit", "list"]).stdout;
        assert!(audit.contains("files/remove (part `first/undo`)"), "{audit}");
    });
    let run = only_run(&home);
    let shown = home.json(&["runs", "show", &run]);
    assert_eq!(shown["state"], "failed");
    assert_eq!(shown["history"].as_array().unwrap().len(), 16);
    // A part leads to its run, and only where that does no harm.
    let part = shown["parts"][0]["call_id"].as_str().unwrap();
    assert_eq!(home.json(&["runs", "show", part])["run"], json!(run));
    assert_says(&home.run(&["runs", "undo", part]), 2, &["is the part `first` of the run", &run]);
    assert!(home.run(&["audit", "show", part]).stdout.contains(&format!("`first` of the run {run}")));
}

#[test]
fn a_run_cut_short_by_a_crash_is_finished_and_nothing_runs_twice() {
    let home = home();
    let run = cut_short(&home);
    assert_eq!(list(&home, &["--waiting"])[0]["state"], "cut_short");
    assert_says(&home.run(&["runs", "list"]), 0, &["cut short", "1/2", &format!("helve runs resume {run}")]);
    assert_says(&home.run(&["runs", "resume", &run, "--happened"]), 2, &["has not asked yet"]);
    assert_says(&home.run(&["doctor"]), 0, &["1 run was cut short", "helve runs resume --all"]);

    assert_says(&home.run(&["runs", "resume", &run]), 1, &["outcome_unknown", "helve runs show"]);
    home.settled(|home| insta::assert_snapshot!("waiting_show", home.run(&["runs", "show", &run]).all()));
    assert_says(&home.run(&["doctor"]), 0, &["1 run waits for a person", "helve runs list --waiting"]);
    assert_says(&home.run(&["runs", "resume", &run, "--happened", "--result", "{"]), 2, &["is not JSON"]);
    assert_eq!(world(&home), ["write"]);

    // The program died with the process that ran it: nobody writes but who is asked to.
    home.write("go", "");
    let ran = home.run(&["runs", "resume", &run, "--did-not-happen"]);
    assert_says(&ran, 0, &["\"line\": \"write\""]);
    assert_eq!(world(&home), ["write", "slow", "write"]);
    assert_eq!(state(&home, &run), "done");
    assert_says(&home.run(&["runs", "show", &run]), 0, &["found out: it did not happen, says ", "uid "]);
    // It came when it came, not when it was resumed.
    let received = |command: &str| home.json(&[command, "show", &run])["received_at"].clone();
    assert_eq!(received("audit"), received("runs"));
    assert_says(&home.run(&["runs", "resume", &run]), 2, &["has ended", "helve runs undo"]);
    assert_eq!(home.json(&["audit", "verify"])["sound"], json!(true));
}

#[test]
fn what_did_happen_is_not_done_again() {
    let home = home();
    let run = cut_short(&home);
    home.run(&["runs", "resume", &run]);
    let ran = home.run(&["runs", "resume", &run, "--happened", "--result", r#"{"known": true}"#]);
    assert_says(&ran, 0, &["\"known\": true"]);
    assert_eq!(world(&home), ["write", "write"]);
}

#[test]
fn up_takes_up_what_was_cut_short_and_says_so() {
    let home = home();
    assert!(!home.run(&["up", "--check"]).stdout.contains("runs"));
    let run = cut_short(&home);
    assert_says(&home.run(&["up", "--check"]), 0, &["1 run was cut short", "`helve up` resumes"]);
    assert_eq!(state(&home, &run), "cut_short", "a check resumes nothing");
    let up = Up::start(&home);
    until("it is resumed", || state(&home, &run) == "waiting_for_unknown_outcome");
    let (status, _, ready) = up.send("GET /readyz", &[], &Value::Null);
    assert_eq!((status, &ready["recovering"]), (200, &json!({ "done": 1, "total": 1 })), "{ready}");
    drop(up);
    assert_says(&home.run(&["up", "--check"]), 0, &["1 run waits for a person"]);
    assert_says(&home.run(&["runs", "resume", "--all"]), 0, &["no run was cut short"]);
    // Ended here, because nobody is at it.
    let ran = home.run(&["runs", "cancel", &run]);
    assert_says(&ran, 1, &["cancelled", "done, and undone", "nobody knows whether"]);
    assert_eq!(world(&home), ["write", "remove"]);
    assert_eq!(list(&home, &["--open"]), Vec::<Value>::new());
}

#[test]
fn every_run_that_was_cut_short_is_reported() {
    let home = home();
    let run = cut_short(&home);
    assert_says(&home.run(&["runs", "resume", "--all"]), 0, &[&run, "waits: ", "helve runs show"]);
}

#[test]
fn another_process_can_stop_a_run_but_not_take_it_over() {
    let home = home();
    let child = begin(&home);
    let run = only_run(&home);
    assert_eq!(state(&home, &run), "running");
    assert_says(
        &home.run(&["runs", "resume", &run]),
        1,
        &["is running in another process", &format!("`helve runs cancel {run}` asks it to stop")],
    );
    assert_says(&home.run(&["runs", "undo", &run]), 2, &["has not ended", "helve runs cancel"]);
    assert_says(
        &home.run(&["runs", "cancel", &run]),
        1,
        &["asked", "was stopped", "done, and undone", "nobody knows"],
    );
    assert_eq!(child.wait_with_output().unwrap().status.code(), Some(1));
    assert_eq!(world(&home), ["write", "remove"]);
    assert_eq!(state(&home, &run), "cancelled");
    assert_says(&home.run(&["runs", "cancel", &run]), 2, &["has ended", "helve runs show"]);
}

#[test]
fn an_interrupt_undoes_what_the_saga_did() {
    let home = home();
    let child = begin(&home);
    signal(&child, Signal::INT);
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("cancelled") && said.contains("done, and undone"), "{said}");
    assert_eq!(world(&home), ["write", "remove"]);
    assert_eq!(state(&home, &only_run(&home)), "cancelled");
}

#[test]
fn a_run_whose_tool_has_changed_waits_and_says_why() {
    let home = home();
    let run = cut_short(&home);
    home.write("helve.toml", TOOLS.replace("Waits in the middle.", "Waits in between."));
    assert_says(&home.run(&["runs", "resume", &run]), 1, &["`long` has changed since the run began"]);
    assert_says(
        &home.run(&["runs", "show", &run]),
        0,
        &["cannot go on", "`long` has changed since the run began", "helve runs cancel"],
    );
    // A request for another way is sent the same one.
    for command in [["runs", "undo", &run], ["runs", "show", &run]] {
        let ran = home.run(&command);
        let said = format!("{}{}", ran.stdout, ran.stderr);
        assert!(said.contains("helve runs cancel") && !said.contains("helve runs resume"), "{said}");
    }
    assert_says(&home.run(&["runs", "cancel", &run]), 1, &["done, and undone", "nobody knows whether"]);
}

#[test]
fn effects_that_failed_are_shown_with_the_call() {
    let home = home();
    let tool = r#"
[[tool.program]]
name = "note"
description = "Notes something, and tells a tool that fails."
command = "sh"
write = ["."]
args = ["-c", "cat >/dev/null; echo '{}'"]
effects = [
  { type = "state_change", description = "It is noted", state = "noted", change = "set", value = true, reversible = true },
  { type = "cascade", description = "It is told", tool = "fails" },
]
"#;
    home.write("helve.toml", format!("{TOOLS}{tool}"));
    home.settled(|home| {
        insta::assert_snapshot!("effects_call", home.run(&["call", "note"]).all());
        insta::assert_snapshot!("effects_show", home.run(&["runs", "show", &only_run(home)]).all());
        let audit = home.run(&["audit", "show", &only_run(home)]).stdout;
        assert!(audit.contains("effect `It is noted` taken back"), "{audit}");
    });
}

#[test]
fn a_second_interrupt_does_not_wait_for_the_undo() {
    let home = home();
    let mut child = begin_call(&home, "stuck");
    std::fs::remove_file(home.project().join("waits")).unwrap();
    signal(&child, Signal::INT);
    until("the undo", || home.project().join("waits").exists());
    signal(&child, Signal::INT);
    assert_eq!(child.wait().unwrap().code(), Some(130));
    assert_eq!(state(&home, &only_run(&home)), "cut_short");
}

#[test]
fn a_run_that_needs_approval_says_so_and_can_be_ended() {
    let home = home();
    let ran = home.run(&["call", "contract"]);
    assert_says(&ran, 3, &["waiting: a person must approve", "done, and stands", "waits for approval"]);
    let run = only_run(&home);
    assert_says(
        &home.run(&["runs", "show", &run]),
        0,
        &["waits for approval apr_", "May step `second` (sign, call_", &format!("helve runs resume {run}")],
    );
    assert_says(&home.run(&["runs", "resume", &run]), 3, &["waiting: a person must approve"]);
    assert_says(&home.run(&["runs", "resume", &run, "--happened"]), 2, &["does not wait to know"]);
    assert_says(&home.run(&["runs", "cancel", &run]), 0, &["done, and undone"]);
    assert_eq!(world(&home), ["write", "remove"]);
}

#[test]
fn a_finished_run_is_undone_once() {
    let home = home();
    assert_eq!(home.run(&["call", "two"]).code, 0);
    let run = only_run(&home);
    home.settled(|home| insta::assert_snapshot!("undo", home.run(&["runs", "undo", &run]).all()));
    assert_eq!(world(&home), ["write", "write", "remove", "remove"]);
    assert_eq!(state(&home, &run), "undone");
    home.settled(|home| insta::assert_snapshot!("undone_list", home.run(&["runs", "list"]).all()));
    let undo = list(&home, &[]).into_iter().find(|one| one["undo_of"] == json!(run)).unwrap();
    let undo = undo["run"].as_str().unwrap();
    assert_says(&home.run(&["runs", "undo", undo]), 2, &["undoes another run", "helve runs show"]);
    assert_says(&home.run(&["runs", "show", undo]), 0, &[&format!("undoes {run}"), "first/undo"]);
    assert_says(&home.run(&["runs", "undo", &run]), 0, &["undone already", "helve runs show"]);
    assert_eq!(world(&home).len(), 4);
}

#[test]
fn what_cannot_be_undone_stands_and_is_said() {
    let home = home();
    assert_eq!(home.run(&["call", "mixed"]).code, 0);
    let run = only_run(&home);
    let ran = home.run(&["runs", "undo", &run]);
    assert_says(&ran, 1, &["could be undone; what stands: `burn`", "done, and undone", "done, and stands"]);
    assert_eq!(state(&home, &run), "partly_undone");
    let shown = home.run(&["runs", "show", &run]);
    assert_says(&shown, 0, &["nothing here undoes what stands; take it back where it was done"]);
}

#[test]
fn after_a_rollback_only_what_stands_is_named_and_no_undo_is_offered_that_can_do_nothing() {
    let home = home();
    let burns = TOOLS.replace(
        "{ name = \"second\", tool = \"files/write\", arguments = {} },\n  { name = \"third\"",
        "{ name = \"second\", tool = \"burn\", arguments = {} },\n  { name = \"third\"",
    );
    assert_ne!(burns, TOOLS);
    home.write("helve.toml", burns);
    assert_eq!(home.run(&["call", "saga"]).code, 1);
    assert_eq!(world(&home), ["write", "burn", "remove"]);
    let run = only_run(&home);
    assert_eq!(home.json(&["runs", "show", &run])["next"], json!([]), "what burned stays burned");
    assert_eq!(list(&home, &[])[0]["next"], json!([]));
    let ran = home.run(&["runs", "undo", &run]);
    assert_says(&ran, 1, &["could be undone; what stands: `burn`"]);
    assert!(!ran.all().contains("files/remove"), "{}", ran.all());
    assert_eq!(world(&home), ["write", "burn", "remove"]);
    // Of what can be undone it still is.
    assert_eq!(home.run(&["call", "two"]).code, 0);
    let two = list(&home, &[]).into_iter().find(|one| one["tool"] == "two").unwrap();
    assert!(two["next"].to_string().contains("helve runs undo"), "{two}");
}

#[test]
fn whoever_looks_at_a_run_does_not_wait_for_an_api_that_is_down() {
    let home = home();
    assert_eq!(home.run(&["call", "burn"]).code, 0);
    assert_eq!(home.run(&["call", "files/write"]).code, 0);
    // It accepts every connection, and never answers.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = silent.local_addr().unwrap().port();
    let api = format!(
        "[net]\nallow = [\"127.0.0.1:{port}\"]\n{TOOLS}\n[[openapi]]\nnamespace = \"api\"\n\
         document = \"http://127.0.0.1:{port}/openapi.json\"\n"
    );
    home.write("helve.toml", api);
    assert_eq!(home.run(&["trust", "--yes"]).code, 0);
    let next = |tool: &str| {
        let run = list(&home, &[]).into_iter().find(|one| one["tool"] == tool).unwrap()["run"].clone();
        home.json(&["runs", "show", run.as_str().unwrap()])["next"].to_string()
    };
    assert_eq!(next("burn"), "[]", "what burned stays burned");
    assert!(next("files/write").contains("helve runs undo"));
    silent.set_nonblocking(true).unwrap();
    assert!(silent.accept().is_err(), "nobody asked the API");
}

#[test]
fn whoever_asks_for_what_is_not_there_learns_where_to_look() {
    let empty = Home::new();
    assert_says(&empty.run(&["runs", "list"]), 0, &["no run yet"]);
    assert_says(&empty.run(&["runs", "show", "call_01"]), 1, &["there is no journal", "helve config show"]);
    let home = home();
    let call = home.json(&["call", "time-now"])["call_id"].as_str().unwrap().to_owned();
    assert_says(&home.run(&["runs", "show", &call]), 2, &["is no run", "helve audit show"]);
    assert_says(&home.run(&["runs", "list", "--open"]), 0, &["every run has ended"]);
    assert_says(&home.run(&["runs", "list", "--waiting"]), 0, &["no run waits"]);
    assert_says(&home.run(&["runs", "list", "--tool", "two"]), 0, &["no run of this tool"]);
    for verb in ["show", "resume", "undo", "cancel"] {
        let unknown = "call_01ARZ3NDEKTSV4RRFFQ69G5FAV";
        assert_says(&home.run(&["runs", verb, unknown]), 2, &["no run begins with", "helve runs list --all"]);
        assert_says(&home.run(&["runs", verb, "not an id"]), 2, &["helve runs list --all"]);
    }
    assert_eq!(home.run(&["runs", "resume"]).code, 2);
}

#[test]
fn a_run_that_only_read_is_listed_and_has_nothing_to_undo() {
    let home = home();
    assert_eq!(home.run(&["call", "describe"]).code, 0);
    let run = only_run(&home);
    let undone = home.run(&["runs", "undo", &run]);
    assert_says(&undone, 2, &["changed nothing, so there is nothing to undo", "helve runs show"]);
}

/// A tool that does what it does and then takes too long.
const LATE: &str = r#"
[[tool.program]]
name = "late"
description = "Writes a line, and takes too long."
command = "sh"
write = ["."]
args = ["-c", "cat >/dev/null; echo late >> world; sleep 60"]
timeout_ms = 1000
undo = { tool = "files/remove", arguments = { line = "{{ result.line }}" } }
"#;

#[test]
fn a_person_who_knows_what_became_of_a_call_lets_it_be_undone() {
    let home = home();
    home.write("helve.toml", format!("{TOOLS}{LATE}"));
    assert_eq!(home.run(&["call", "late"]).code, 1);
    let run = only_run(&home);
    let settle = format!("helve runs undo {run} --did-not-happen {run}");
    assert_says(&home.run(&["runs", "show", &run]), 0, &["--happened", &settle]);
    let unknown = home.run(&["runs", "undo", &run]);
    assert_says(&unknown, 1, &["nobody knows whether it had its effect"]);
    let known = home.run(&["runs", "undo", &run, "--happened", &run, "--result", r#"{"line": "late"}"#]);
    assert_says(&known, 0, &["undone: late"]);
    assert_eq!(world(&home), ["late", "remove"]);
    assert_eq!(state(&home, &run), "undone");
    assert_says(&home.run(&["audit", "show", &run]), 0, &["found out: it did happen, says ", "uid "]);
    let again = home.run(&["runs", "undo", &run, "--did-not-happen", &run]);
    assert_says(&again, 2, &["is no call of this run of which nobody knows"]);
}

#[test]
fn an_undo_that_works_is_offered_after_an_effect_has_failed() {
    let home = home();
    let tool = r#"
[[tool.program]]
name = "note"
description = "Notes something, and tells a tool that fails."
command = "sh"
write = ["."]
args = ["-c", "cat >/dev/null; echo '{}'"]
undo = { tool = "files/remove" }
effects = [{ type = "cascade", description = "Somebody is told", tool = "fails" }]
"#;
    home.write("helve.toml", format!("{TOOLS}{tool}"));
    assert_eq!(home.run(&["call", "note"]).code, 1);
    let run = only_run(&home);
    assert_says(&home.run(&["runs", "show", &run]), 0, &["Next", &format!("helve runs undo {run}")]);
    assert_says(&home.run(&["runs", "list"]), 0, &[&format!("helve runs show {run}")]);
    assert_says(&home.run(&["runs", "undo", &run]), 0, &["undone: note"]);
}

/// A journal with this many runs, a second apart, and the runs, newest first.
fn journal_of(home: &Home, runs: usize) -> Vec<String> {
    use helve::ports::Journal;
    use helve_testkit::entries::SampleCall;
    let folder = home.project().join(".helve");
    let store =
        helve_store::Store::open(&folder.join("helve.db"), helve_store::StoreOptions::default()).unwrap();
    let begun = jiff::Timestamp::from_second(1_700_000_000).unwrap();
    let mut made = Vec::new();
    for number in 0..runs {
        let tool = if number % 7 == 0 { "mail/send" } else { "crm/update" };
        let call = SampleCall::at(tool, begun + jiff::SignedDuration::from_secs(number as i64));
        [call.started(), call.done(json!(number))].into_iter().for_each(|entry| store.append(entry).unwrap());
        made.push(call.id().to_string());
    }
    store.close().unwrap();
    made.reverse();
    made
}

#[test]
fn a_long_list_of_runs_comes_whole_page_by_page_and_from_any_place() {
    let home = home();
    let made = journal_of(&home, 1_203);
    let ids = |args: &[&str]| -> Vec<String> {
        let listed = home.json(&[&["runs", "list"], args].concat());
        let listed = listed.as_array().unwrap().iter();
        listed.map(|run| run["call_id"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(ids(&["--all"]), made);
    assert_eq!(ids(&[]), made[..20]);
    assert_eq!(ids(&["-n", "700", "--before", &made[99]]), made[100..800]);
    assert_eq!(ids(&["--all", "--tool", "mail/send"]).len(), 172);
    assert_eq!(ids(&["--tool", "mail/send", "-n", "3"]).len(), 3);
    assert_eq!(ids(&["--before", made.last().unwrap()]), Vec::<String>::new());
    let first = &home.json(&["runs", "list", "-n", "1"])[0];
    assert_eq!(first["call_id"], first["run"], "the name that it has everywhere, and the one that it had");

    let text = home.run(&["runs", "list", "--all"]);
    let lines: Vec<_> = text.stdout.lines().collect();
    assert_eq!(lines.len(), 1 + made.len(), "one heading, whatever the pages");
    let column = |line: &str| line.find("call_");
    assert!(
        lines[1..].iter().all(|line| column(line) == column(lines[1])),
        "the columns stay where they are"
    );
    let some = home.run(&["runs", "list", "-n", "5"]);
    assert_says(&some, 0, &[&format!("more: helve runs list --before {}", made[4])]);
}
