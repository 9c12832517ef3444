//! Questions to a person, at the terminal. The file that the tool writes is the witness.

use std::process::Stdio;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use helve::json::sha256_hex;
use helve::{Call, Caller, Preview, Risk, Runtime, Status, Tool};
use serde_json::{Value, json};

use crate::home::{Home, Ran};

const TOOLS: &str = r#"
[[tool.program]]
name = "note"
description = "Writes a line into a file that everybody reads."
when_to_use = "In tests."
command = "sh"
write = ["."]
args = ["-c", "cat >> notes; echo '{}'"]
risk = "high"
parameters = [
  { name = "text", type = "string", description = "The line.", required = true },
  { name = "password", type = "string", description = "A secret." },
]

[[tool.program]]
name = "harmless"
description = "Writes a line into a file that nobody reads."
when_to_use = "In tests."
command = "sh"
write = ["."]
args = ["-c", "cat > /dev/null; echo harmless >> notes; echo '{}'"]

[[tool.sequence]]
name = "both"
description = "Writes a harmless line and then another one."
when_to_use = "In tests."
steps = [
  { name = "first", tool = "harmless", arguments = {} },
  { name = "second", tool = "note", arguments = { text = "second" } },
]

"#;

fn home() -> Home {
    let home = Home::new();
    home.write("helve.toml", TOOLS);
    home
}

fn notes(home: &Home) -> Vec<String> {
    let text = std::fs::read_to_string(home.project().join("notes")).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}

fn pending(home: &Home) -> Vec<Value> {
    home.json(&["approvals", "list"]).as_array().unwrap().clone()
}

fn id_of(approval: &Value) -> String {
    approval["id"].as_str().unwrap().to_owned()
}

fn only(home: &Home) -> String {
    let found = pending(home);
    assert_eq!(found.len(), 1, "{found:?}");
    id_of(&found[0])
}

fn assert_says(ran: &Ran, code: i32, texts: &[&str]) {
    let all = ran.all();
    assert_eq!(ran.code, code, "{all}");
    for text in texts {
        assert!(all.contains(text), "`{text}` is not in {all}");
    }
}

fn until<T>(what: &str, found: impl Fn() -> Option<T>) -> T {
    let deadline = Instant::now() + Duration::from_secs(30);
    loop {
        if let Some(found) = found() {
            return found;
        }
        assert!(Instant::now() < deadline, "{what} did not happen");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_call_asks_is_shown_approved_and_runs_once() {
    let home = home();
    let call = ["call", "note", "text=hello"];
    home.settled(|home| insta::assert_snapshot!("asks", home.run(&call).all()));
    assert_eq!(home.run(&call).code, 3, "asked once");
    let id = only(&home);
    home.settled(|home| {
        let mut settings = insta::Settings::clone_current();
        settings.add_filter(r"(?m)^\d\d:\d\d:\d\d", "[time]");
        settings.bind(|| {
            insta::assert_snapshot!("list", home.run(&["approvals", "list"]).all());
            insta::assert_snapshot!("show", home.run(&["approvals", "show", &id]).all());
        });
    });
    assert!(notes(&home).is_empty());
    // Any beginning that only one has will do.
    assert_says(
        &home.run(&["approvals", "approve", &id[..24]]),
        0,
        &["approved", "make the same call again"],
    );
    assert_eq!(home.run(&call).code, 0);
    assert_eq!(notes(&home), [r#"{"text":"hello"}"#]);
    assert_eq!(home.run(&call).code, 3, "the next one asks again");
    assert_eq!(notes(&home).len(), 1);
    let used = home.json(&["approvals", "show", &id]);
    assert_eq!(used["state"], "used");
    let call = used["used_by"].as_str().unwrap();
    assert_says(&home.run(&["audit", "show", call]), 0, &["decided by", "approval used", &id]);
    let asking = used["call_id"].as_str().unwrap();
    assert_says(
        &home.run(&["audit", "show", asking]),
        0,
        &["a person is asked", "`note` is of high risk", "approved by local user"],
    );
    assert_eq!(home.run(&["audit", "verify"]).code, 0);
}

#[test]
fn denied_calls_are_told_why_and_the_second_decider_who_was_first() {
    let home = home();
    let call = ["call", "note", "text=hello"];
    assert_eq!(home.run(&call).code, 3);
    let id = only(&home);
    assert_says(&home.run(&["approvals", "deny", &id, "--reason", "not now"]), 0, &["denied"]);
    assert_says(&home.run(&call), 4, &["approval_denied", "not now"]);
    assert_says(
        &home.run(&["approvals", "approve", &id]),
        1,
        &["was denied by local user", "not now", "helve approvals show"],
    );
    assert_says(&home.run(&[&call[..], &["--ask-again"]].concat()), 3, &["a person must approve"]);
    assert!(notes(&home).is_empty());
}

#[test]
fn edited_arguments_run_instead_and_wrong_ones_are_refused() {
    let home = home();
    assert_eq!(home.run(&["call", "note", "text=hello"]).code, 3);
    let id = only(&home);
    assert_says(&home.run(&["approvals", "approve", &id, "--edit", r#"{"txt": 1}"#]), 2, &["do not fit"]);
    assert_says(&home.run(&["approvals", "approve", &id, "--edit", "nowhere.json"]), 2, &["neither JSON"]);
    home.write("edited.json", r#"{"text": "edited"}"#);
    assert_eq!(home.run(&["approvals", "approve", &id, "--edit", "edited.json"]).code, 0);
    assert_says(&home.run(&["call", "note", "text=hello"]), 0, &["the person who approved the call changed"]);
    assert_eq!(notes(&home), [r#"{"text":"edited"}"#]);
    assert_says(&home.run(&["approvals", "show", &id]), 0, &["\"hello\"", "Edited to", "\"edited\""]);
}

#[test]
fn what_hides_in_arguments_is_made_visible_and_secrets_are_not_shown() {
    let home = home();
    let hidden = "text=safe\u{202e}evil\u{1b}[31m\u{200b}";
    assert_eq!(home.run(&["call", "note", hidden, "password=hunter2-hunter2"]).code, 3);
    let id = only(&home);
    for command in
        [&["approvals", "show", &id][..], &["approvals", "list"], &["approvals", "show", &id, "--json"]]
    {
        let shown = home.run(command).all();
        assert!(!shown.contains(['\u{202e}', '\u{1b}', '\u{200b}']), "{shown}");
        assert!(shown.contains(r"\u202e") && !shown.contains("hunter2"), "{shown}");
    }
    assert_says(&home.run(&["approvals", "show", &id]), 0, &["something secret is not shown"]);
}

#[test]
fn always_for_a_session_is_listed_and_revoked() {
    let home = home();
    let call = |text: &str, session: &str| home.run(&["call", "note", text, "--session", session]).code;
    assert_eq!(call("text=a", "s-1"), 3);
    let id = only(&home);
    let approve = ["approvals", "approve", &id, "--always", "--any-arguments", "--for", "2h"];
    assert_says(&home.run(&approve), 0, &["helve approvals revoke rule_"]);
    assert_eq!([call("text=a", "s-1"), call("text=b", "s-1"), call("text=b", "s-2")], [0, 0, 3]);
    let rules = home.json(&["approvals", "rules"]);
    let rule = rules[0]["id"].as_str().unwrap();
    assert_says(&home.run(&["approvals", "rules"]), 0, &["note", "in s-1", "any arguments"]);
    assert_says(&home.run(&["approvals", "revoke", rule]), 0, &["calls of `note` ask again"]);
    assert_eq!(call("text=c", "s-1"), 3);
    assert_says(&home.run(&["approvals", "rules"]), 0, &["nothing is allowed"]);
    assert_says(&home.run(&["approvals", "rules", "--all"]), 0, &["revoked"]);
    assert_eq!(notes(&home).len(), 2);
}

#[test]
fn a_call_that_waits_goes_on_when_another_process_approves() {
    let home = home();
    let child = home
        .command(&["call", "note", "text=waited", "--wait"])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let id = until("the question", || pending(&home).first().map(id_of));
    assert_eq!(home.run(&["approvals", "approve", &id]).code, 0);
    let ended = child.wait_with_output().unwrap();
    let said = String::from_utf8(ended.stderr).unwrap();
    assert!(said.contains(&format!("helve approvals approve {id}")), "{said}");
    assert_eq!((ended.status.code(), notes(&home)), (Some(0), vec![r#"{"text":"waited"}"#.to_owned()]));
    assert_says(&home.run(&["call", "note", "text=waited", "--wait=0"]), 3, &["a person must approve"]);
}

#[test]
fn a_run_that_waits_goes_on_once_it_is_decided() {
    let home = home();
    let ran = home.run(&["call", "both"]);
    assert_says(&ran, 3, &["helve approvals approve apr_", "helve runs show"]);
    let id = only(&home);
    let shown = home.json(&["approvals", "show", &id]);
    let run = shown["part"]["run"].as_str().unwrap().to_owned();
    assert_says(
        &home.run(&["runs", "show", &run]),
        0,
        &["a person is asked", &format!("helve approvals show {id}")],
    );
    assert_says(&home.run(&["approvals", "approve", &id]), 0, &[&format!("helve runs resume {run}")]);
    assert_eq!(notes(&home), ["harmless"]);
    // Recovery takes it up as well as somebody who resumes it.
    assert_says(&home.run(&["runs", "resume", "--all"]), 0, &["both", "done"]);
    assert_eq!(notes(&home), ["harmless", r#"{"text":"second"}"#]);
    assert_says(&home.run(&["runs", "show", &run]), 0, &["approved by local user", "done"]);
    assert_says(&home.run(&["runs", "resume", &run]), 2, &["has ended"]);
    assert_eq!(home.run(&["audit", "verify"]).code, 0);
}

#[test]
fn a_killed_caller_leaves_the_question_and_its_approval() {
    let home = home();
    let mut child = home
        .command(&["call", "note", "text=killed", "--wait"])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let id = until("the question", || pending(&home).first().map(id_of));
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(only(&home), id);
    assert_eq!(home.run(&["approvals", "approve", &id]).code, 0);
    assert!(notes(&home).is_empty());
    assert_eq!(home.run(&["call", "note", "text=killed"]).code, 0);
    assert_eq!(notes(&home).len(), 1);
}

#[test]
fn questions_are_watched_as_they_come() {
    let home = home();
    assert_eq!(home.run(&["call", "note", "text=first"]).code, 3);
    let first = only(&home);
    let watching = home
        .command(&["approvals", "watch", "--limit", "3", "--json"])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // Whatever comes before it is ready it lists, and whatever comes after it hears of.
    assert_eq!(home.run(&["call", "note", "text=second"]).code, 3);
    assert_eq!(home.run(&["approvals", "deny", &first]).code, 0);
    let ended = watching.wait_with_output().unwrap();
    let lines = String::from_utf8(ended.stdout).unwrap();
    let seen: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(seen.len(), 3);
    let of = |text: &str| seen.iter().filter(|one| one["arguments"] == json!({ "text": text })).count();
    assert!(of("first") >= 1 && of("second") >= 1, "{seen:?}");
}

#[test]
fn tools_do_not_decide_and_nobody_finds_what_is_not_there() {
    let empty = Home::new();
    assert_says(&empty.run(&["approvals", "list"]), 0, &["no question waits"]);
    assert_says(&empty.run(&["approvals", "show", "apr_01"]), 1, &["there is no journal"]);
    let home = home();
    assert_eq!(home.run(&["call", "note", "text=a"]).code, 3);
    let id = only(&home);
    for verb in ["approve", "deny"] {
        let within = home.run_with(&["approvals", verb, &id], &[("HELVE_CALL_ID", "call_1")], b"");
        assert_says(&within, 2, &["a tool does not decide"]);
        let unknown = "apr_01ARZ3NDEKTSV4RRFFQ69G5FAV";
        assert_says(&home.run(&["approvals", verb, unknown]), 2, &["there is no approval", "list --all"]);
        assert_says(&home.run(&["approvals", verb, "not an id"]), 2, &["is not the id"]);
    }
    assert_eq!(only(&home), id);
}

#[test]
fn what_nobody_decides_in_time_is_denied() {
    let home = home();
    home.write("helve.toml", format!("{TOOLS}\n[approvals]\nttl_s = 1\n"));
    assert_eq!(home.run(&["call", "note", "text=a"]).code, 3);
    until("the end of its time", || pending(&home).is_empty().then_some(()));
    assert_says(&home.run(&["call", "note", "text=a"]), 4, &["approval_expired", "calling again asks anew"]);
    assert_eq!(home.run(&["call", "note", "text=a"]).code, 3);
    assert_says(&home.run(&["approvals", "list", "--state", "expired"]), 0, &["expired"]);
    assert!(notes(&home).is_empty());
}

#[test]
fn who_decided_is_named_with_the_call_that_ran_by_it() {
    let home = home();
    home.run(&["call", "note", "text=hello"]);
    let id = only(&home);
    home.run_with(&["approvals", "approve", &id], &[("USER", "ada")], b"");
    assert_eq!(home.run(&["call", "note", "text=hello"]).code, 0);
    let ran = &home.json(&["audit", "list", "--status", "done"])[0];
    let ran = ran["call_id"].as_str().unwrap();
    let shown = home.run(&["audit", "show", ran]);
    let named = shown.stdout.lines().find(|line| line.trim_start().starts_with("decided by"));
    assert!(named.is_some_and(|line| line.contains("ada (uid ")), "{}", shown.all());
    let by = home.json(&["audit", "show", ran])["decided_by"].clone();
    assert!(by.as_str().is_some_and(|by| by.contains("ada (uid ")), "{by}");
}

#[test]
fn always_is_offered_only_where_it_is_not_refused() {
    let home = home();
    home.run(&["call", "note", "text=hello"]);
    let id = only(&home);
    assert_says(&home.run(&["approvals", "show", &id]), 0, &["--always", "--edit JSON"]);
    home.run(&["approvals", "deny", &id]);
    // The agent asks about this very call.
    home.run(&["call", "harmless", "--advice", "request_approval"]);
    let id = only(&home);
    let shown = home.run(&["approvals", "show", &id]);
    assert_says(&shown, 0, &["--edit JSON"]);
    assert!(!shown.all().contains("--always"), "{}", shown.all());
    assert_says(&home.run(&["approvals", "approve", &id, "--always"]), 2, &["without `--always`"]);
}

/// A runtime of the project's own journal, in this process, with a tool that sends a draft.
fn with_draft(home: &Home, draft: &'static str, sent: &Arc<Mutex<Vec<&'static str>>>) -> Runtime {
    let sent = Arc::clone(sent);
    let tool = Tool::builder("send_draft")
        .description("Sends a draft.")
        .input_schema(json!({ "type": "object" }))
        .risk(Risk::High)
        .preview_with(move |_, _| async move {
            Ok(Preview::new(draft).with_fingerprint(sha256_hex(draft.as_bytes())))
        })
        .handler(move |_, context| {
            let sent = Arc::clone(&sent);
            async move {
                context.still_approved(&sha256_hex(draft.as_bytes()))?;
                sent.lock().unwrap().push(draft);
                Ok(json!("sent"))
            }
        });
    let journal = home.project().join(".helve").join("helve.db");
    let store = helve_store::Store::open(&journal, helve_store::StoreOptions::default()).unwrap();
    Runtime::builder().ledger(Arc::new(store)).tool(tool).unwrap().build()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_changed_after_it_was_approved_at_the_terminal_does_not_go_out() {
    const DRAFT: &str = "To: ada@example.com\nSubject: Hi\n\n@@\n-old\n+new\u{202e}";
    let (home, sent) = (home(), Arc::default());
    assert_eq!(home.run(&["call", "harmless"]).code, 0, "there is a journal");
    let call = || Call::new("send_draft", json!({ "draft": "d-1" }));
    let runtime = with_draft(&home, DRAFT, &sent);
    let Status::Pending(pending) = runtime.call(call()).await.status else { panic!("nobody was asked") };
    let id = pending.approval_id.to_string();
    let shown = home.run(&["approvals", "show", &id]);
    let lines =
        ["  To:      ada@example.com", "  Subject: Hi", "  +new\\u{202e}", "has to be asked about again"];
    assert_says(&shown, 0, &lines);
    assert!(!shown.all().contains("--edit") && !shown.all().contains(&sha256_hex(DRAFT.as_bytes())));
    assert_eq!(home.json(&["approvals", "show", &id])["fingerprint"], sha256_hex(DRAFT.as_bytes()));
    assert_says(&home.run(&["approvals", "approve", &id]), 0, &["may run once"]);
    // The draft is another one by the time that it is sent, by another process.
    let later = with_draft(&home, "To: eve@evil.example", &sent);
    let refused = later.outcome_of(pending.approval_id, &Caller::local()).await.unwrap();
    assert_eq!(refused.error().unwrap().code().as_str(), "approval_stale");
    assert!(sent.lock().unwrap().is_empty());
    assert_says(&home.run(&["approvals", "show", &id]), 0, &["used"]);
    assert_says(
        &home.run(&["audit", "show", &refused.call_id.to_string()]),
        0,
        &["what was approved has changed"],
    );
    assert_says(&home.run(&["audit", "verify"]), 0, &[]);
}

#[test]
fn a_question_shows_the_command_and_the_address_that_would_run() {
    let home = Home::new();
    let program = "[[tool.program]]\nname = 'tidy'\ndescription = 'Tidies up.'\nwhen_to_use = 'In tests.'\ncommand = 'rm'\nargs = ['-f', 'two words']\nrisk = 'high'\n";
    let http = "[[tool.http]]\nname = 'drop'\ndescription = 'Drops a draft.'\nwhen_to_use = 'In tests.'\nmethod = 'DELETE'\nurl = 'https://api.example.com/drafts/{id}'\nheaders = { Authorization = 'Bearer ${env:DRAFTS_KEY}' }\nquery = { key = '${env:DRAFTS_KEY}' }\nparameters = [{ name = 'id', type = 'integer', description = 'Which.', required = true }]\n";
    home.write("helve.toml", format!("{program}{http}"));
    let env = [("DRAFTS_KEY", "s3cret-key-77")];
    assert_eq!(home.run_with(&["trust", "--yes"], &env, b"").code, 0);
    let shown = |call: &[&str]| {
        assert_eq!(home.run_with(call, &env, b"").code, 3, "{call:?}");
        let asked = home.json(&["approvals", "list"]);
        home.run(&["approvals", "show", asked[0]["id"].as_str().unwrap()]).stdout
    };
    let program = shown(&["call", "tidy"]);
    assert!(program.contains("  rm -f 'two words'"), "{program}");
    let http = shown(&["call", "drop", "id=7"]);
    assert!(http.contains("  DELETE https://api.example.com/drafts/7?key="), "{http}");
    assert!(!http.contains("s3cret"), "{http}");
}
