//! A journal that was put back from an older copy: read, and not worked with until a person accepts it.

use serde_json::{Value, json};

use super::{assert_says, begin, home, list, state, world};
use crate::home::{Home, until};
use crate::up::Up;

/// A copy of the journal from when a run was open, put back once it had ended.
fn with_older_copy() -> (Home, String) {
    let home = home();
    home.run(&["call", "files/write"]);
    let mut child = begin(&home);
    let journal = find_journal(&home);
    let copy = |from: &str, to: &str| {
        for ending in ["", "-wal"] {
            let name = |of: &str| format!("{}{of}{ending}", journal.display());
            let _ = std::fs::remove_file(name(to));
            if std::path::Path::new(&name(from)).exists() {
                std::fs::copy(name(from), name(to)).unwrap();
            }
        }
    };
    copy("", ".older");
    let run = list(&home, &[]).iter().find(|run| run["state"] == "running").unwrap()["run"].clone();
    home.write("go", "");
    assert!(child.wait().unwrap().success());
    assert_eq!(world(&home), ["write", "write", "slow", "write"]);
    let _ = std::fs::remove_file(format!("{}-shm", journal.display()));
    copy(".older", "");
    (home, run.as_str().unwrap().to_owned())
}

fn find_journal(home: &Home) -> std::path::PathBuf {
    let mut folders = vec![home.project().parent().unwrap().to_owned()];
    while let Some(folder) = folders.pop() {
        for file in std::fs::read_dir(folder).unwrap().flatten().map(|file| file.path()) {
            if file.is_dir() {
                folders.push(file);
            } else if file.file_name().is_some_and(|name| name == "helve.db") {
                return file;
            }
        }
    }
    panic!("there is no journal")
}

#[test]
fn an_older_copy_of_the_journal_is_read_and_nothing_is_done_again_until_it_is_accepted() {
    let (home, run) = with_older_copy();
    let deeds = ["write", "write", "slow", "write"];
    let gone = ["does not match its anchor", "were written and are gone", "helve audit accept"];
    assert_says(&home.run(&["up", "--check"]), 1, &gone);
    assert_says(&home.run(&["doctor"]), 1, &gone);
    let refused = home.run(&["call", "files/write"]);
    assert!(refused.code == 1 && refused.stderr.contains("journal_unavailable"), "{}", refused.all());
    assert!(gone.iter().all(|said| refused.stderr.contains(said)), "{}", refused.all());
    for command in [&["runs", "resume", &run][..], &["runs", "resume", "--all"], &["runs", "cancel", &run]] {
        let ran = home.run(command);
        assert!(ran.all().contains("does not match its anchor"), "{command:?}: {}", ran.all());
    }
    // It serves: what is there can be read, and readiness says that nothing runs.
    let up = Up::start(&home);
    assert_eq!(up.send("GET /readyz", &[], &Value::Null).0, 503);
    assert_eq!(up.send("GET /healthz", &[], &Value::Null).0, 200);
    assert_eq!(home.json(&["runs", "show", &run])["run"], json!(run));
    assert!(!home.json(&["audit", "list"]).as_array().unwrap().is_empty());
    assert_eq!(world(&home), deeds, "nothing was done again");

    let asked = home.run(&["audit", "accept"]);
    assert_says(&asked, 3, &["were written and are gone", &run, "there is no terminal to ask on"]);
    assert_eq!(up.send("GET /readyz", &[], &Value::Null).0, 503);
    assert_says(&home.run(&["audit", "accept", "--yes"]), 0, &["accepted; calls run again"]);
    until("the running one takes it", || up.send("GET /readyz", &[], &Value::Null).0 == 200);
    drop(up);
    assert_says(&home.run(&["audit", "accept"]), 0, &["nothing to accept"]);
    assert_eq!(home.json(&["audit", "verify"])["sound"], json!(true));
    // What was open may have ended in what is gone: it waits for a person.
    drop(Up::start(&home));
    assert_eq!(state(&home, &run), "waiting_for_decision");
    assert_eq!(world(&home), deeds, "nothing was done again");
    assert_says(&home.run(&["call", "files/write"]), 0, &[]);
}
