//! What a program embeds behaves as the binary does.

use std::path::{Path, PathBuf};
use std::time::Duration;

use helve::{Call, ErrorCode, Filter, Outcome, Status};
use helve_host::config::{Inputs, load};
use helve_host::wire::trust;
use helve_host::{Host, HostErrorKind, Options};
use serde_json::{Value, json};

use crate::own_home::{in_a_home, write};

const GRACE: Duration = Duration::from_secs(5);

/// A program without a box, and a hook that says no to one word.
const PROJECT: &str = r#"
[[tool.program]]
name = "deploy"
description = "Writes a file."
when_to_use = "In tests."
command = "sh"
args = ["-c", "cat >/dev/null; echo deploy >> world; echo '{\"deployed\": true}'"]
confined = false
risk = "low"

[[hooks.PreToolUse]]
matcher = "text-stats"
hooks = [{ type = "command", command = "grep -q forbidden && { echo 'not that word' >&2; exit 2; } || exit 0" }]

[limits]
arguments_bytes = 2000
"#;

async fn call(helve: &Host, tool: &str, arguments: Value) -> Outcome {
    helve.runtime().call(Call::new(tool, arguments)).await
}

async fn open(project: &Path) -> Host {
    Host::open(Options::in_folder(project)).await.unwrap()
}

fn error(outcome: &Outcome) -> (ErrorCode, String) {
    match &outcome.status {
        Status::Failed(error) => (error.code(), error.message().to_owned()),
        Status::Done(_) | Status::Pending(_) => panic!("{outcome:?}"),
    }
}

/// As `helve trust --yes` does.
fn trust_all(project: &Path) {
    let loaded = load(&Inputs::of_process(project.to_owned())).unwrap();
    trust::waiting(&loaded).unwrap().iter().for_each(|one| one.accept(&loaded).unwrap());
}

#[test]
fn what_a_folder_brings_waits_for_trust_and_then_runs_under_its_hooks() {
    in_a_home(
        "embedded::what_a_folder_brings_waits_for_trust_and_then_runs_under_its_hooks",
        |project| async move {
            write(&project, "helve.toml", PROJECT);
            let world = project.join("world");
            let helve = open(&project).await;
            let waiting = helve.waiting().unwrap();
            let waiting: Vec<_> = waiting.iter().map(|one| (one.kind, one.name.as_str())).collect();
            assert_eq!(waiting, [("tool", "deploy"), ("hooks", "hooks")]);
            let (code, message) = error(&call(&helve, "deploy", json!({})).await);
            assert_eq!(code, ErrorCode::PermissionDenied);
            assert!(message.contains("`helve trust`"), "{message}");
            // A hook that nobody has trusted says no to all that it would look at.
            let (code, _) = error(&call(&helve, "text-stats", json!({ "text": "fine" })).await);
            assert_eq!(code, ErrorCode::HookDenied);
            assert!(!world.exists(), "nothing ran");

            trust_all(&project);
            assert!(helve.waiting().unwrap().is_empty());
            let ran = call(&helve, "deploy", json!({})).await;
            assert!(ran.is_success(), "trust is asked at every call: {ran:?}");
            assert_eq!(std::fs::read_to_string(&world).unwrap(), "deploy\n");
            helve.close(GRACE).await.unwrap();

            let helve = open(&project).await;
            assert!(call(&helve, "text-stats", json!({ "text": "fine" })).await.is_success());
            let (code, message) = error(&call(&helve, "text-stats", json!({ "text": "forbidden" })).await);
            assert_eq!(code, ErrorCode::HookDenied);
            assert!(message.contains("not that word"), "{message}");
            let long = "x".repeat(3000);
            let (code, _) = error(&call(&helve, "text-stats", json!({ "text": long })).await);
            assert_eq!(code, ErrorCode::ValidationFailed, "limits are those of the file");
            helve.close(GRACE).await.unwrap();
        },
    );
}

#[test]
fn calls_are_in_the_journal_of_the_folder_and_none_is_taken_after_the_end() {
    in_a_home(
        "embedded::calls_are_in_the_journal_of_the_folder_and_none_is_taken_after_the_end",
        |project| async move {
            write(&project, "helve.toml", "[builtin]\nwithout = ['time-now']\n");
            let helve = open(&project).await;
            assert_eq!(helve.journal(), project.join(".helve/helve.db"));
            assert!(call(&helve, "math-eval", json!({ "expression": "6*7" })).await.is_success());
            let names: Vec<_> = helve.runtime().registry().list(&Filter::default());
            assert!(names.iter().all(|one| one.name().as_str() != "time-now"));
            let (journal, runtime) = (helve.journal().to_owned(), helve.runtime().clone());
            helve.close(GRACE).await.unwrap();
            let late = runtime.call(Call::new("math-eval", json!({ "expression": "1" }))).await;
            assert_eq!(error(&late).0, ErrorCode::JournalUnavailable, "no journal, no call");
            let audit = helve_store::Audit::open(&journal).unwrap();
            assert!(audit.verify(|_| {}).unwrap().first_problem.is_none());
            let calls = audit.list(&helve_store::AuditQuery::default()).unwrap();
            assert_eq!(calls.len(), 1, "{calls:?}");
        },
    );
}

#[test]
fn a_folder_is_opened_wherever_the_process_is() {
    in_a_home("embedded::a_folder_is_opened_wherever_the_process_is", |here| async move {
        let folder = here.with_file_name("folder");
        // A boundary, as the one of the process's own folder. Neither has a file.
        std::fs::create_dir_all(folder.join(".git")).unwrap();
        std::fs::create_dir(folder.join("data")).unwrap();
        write(&folder, "there.txt", "of the folder");
        write(&folder, "data/deep.txt", "of its data");
        write(&here, "here.txt", "of the process");
        assert_eq!(std::env::current_dir().unwrap().canonicalize().unwrap(), here.canonicalize().unwrap());
        let outside = here.join("here.txt").display().to_string();

        let helve = open(&folder).await;
        let read = call(&helve, "file-read", json!({ "path": "there.txt" })).await;
        assert!(read.is_success() && format!("{read:?}").contains("of the folder"), "{read:?}");
        for path in ["here.txt", outside.as_str()] {
            let read = call(&helve, "file-read", json!({ "path": path })).await;
            assert!(!read.is_success() && !format!("{read:?}").contains("of the process"), "{read:?}");
        }
        helve.close(GRACE).await.unwrap();

        let options = Options::in_folder(&folder).set("files.roots=['data']");
        let helve = Host::open(options).await.unwrap();
        assert!(call(&helve, "file-read", json!({ "path": "deep.txt" })).await.is_success());
        assert!(!call(&helve, "file-read", json!({ "path": "there.txt" })).await.is_success());
        helve.close(GRACE).await.unwrap();
    });
}

#[test]
fn mistakes_are_values_with_their_place() {
    in_a_home("embedded::mistakes_are_values_with_their_place", |project| async move {
        write(&project, "helve.toml", "[execution]\ndefault_timeout_m = 5\n");
        let Err(error) = Host::open(Options::in_folder(&project)).await else { panic!("it is wrong") };
        assert_eq!(error.kind, HostErrorKind::Usage);
        assert!(error.lines()[0].contains("helve.toml"), "{error:?}");
        let source = std::error::Error::source(&error).unwrap().to_string();
        assert!(source.contains("default_timeout_m"), "{source}");

        write(&project, "helve.toml", "[[tool.program]]\nname = 'broken'\n");
        let no_page = Options::in_folder(&project).set("approvals.page_url=ftp://here.example");
        let Err(error) = Host::open(no_page).await else { panic!("it is no page") };
        assert_eq!(error.kind, HostErrorKind::Usage);
        let helve = Host::open(Options::in_folder(&project).set("journal.path=here.db")).await.unwrap();
        assert!(helve.remarks().iter().any(|remark| remark.found.contains("`broken` is broken")));
        assert_eq!(helve.journal().file_name(), PathBuf::from("here.db").file_name());
        assert!(call(&helve, "math-eval", json!({ "expression": "1" })).await.is_success());
        helve.close(GRACE).await.unwrap();
    });
}
