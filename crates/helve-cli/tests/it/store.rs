//! Keeping the record for years: backups while Helve serves, restoring one, pruning by hand and by itself.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::home::Home;
use crate::up::Up;

/// Looks again until there is an answer.
fn wait_for<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let until = Instant::now() + Duration::from_secs(60);
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < until, "waited in vain: {what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn calls(home: &Home) -> usize {
    home.json(&["audit", "list", "-n", "1000"]).as_array().unwrap().len()
}

#[test]
fn a_backup_is_made_while_helve_serves_and_put_in_place_when_it_does_not() {
    let home = Home::new();
    let up = Up::start(&home);
    let token = up.token();
    for number in 0..20 {
        assert_eq!(up.call(&token, "math-eval", json!({ "expression": format!("{number}+1") })).0, 200);
    }
    // Calls that only read are answered before they are on disk.
    let head = Path::new(up.told["token_file"].as_str().unwrap()).with_file_name("helve.db.head");
    let is_anchored = |entry: u64| {
        let anchor = std::fs::read_to_string(&head).unwrap_or_default();
        anchor.contains(&format!(" {entry:020} ")).then_some(())
    };
    wait_for("twenty calls are on disk", || is_anchored(20));
    assert_eq!(calls(&home), 20);
    let made = home.json(&["store", "backup", "copy"]);
    let folder = home.project().join("copy");
    assert_eq!(made["folder"], json!(folder));
    assert_eq!(std::fs::metadata(&folder).unwrap().permissions().mode() & 0o777, 0o700);
    let there = format!("journal.path={}", folder.join("helve.db").display());
    assert_eq!(home.json(&["audit", "verify", "--set", &there])["calls"], 20);
    let again = home.run(&["store", "backup", "copy"]);
    assert!(again.code == 1 && again.stderr.contains("is there already"), "{}", again.all());

    up.call(&token, "math-eval", json!({ "expression": "1" }));
    wait_for("the last call is on disk", || is_anchored(21));
    let refused = home.run(&["store", "restore", "copy", "--yes"]);
    assert!(refused.code == 1 && refused.stderr.contains("stop `helve up`"), "{}", refused.all());
    let unasked = home.run(&["store", "restore", "copy"]);
    assert!(unasked.code == 1 && unasked.stderr.contains("stop `helve up`"), "at once: {}", unasked.all());
    drop(up);

    // Nobody is there to be asked.
    assert_eq!(home.run(&["store", "restore", "copy"]).code, 3);
    assert_eq!(calls(&home), 21);
    let restored = home.run(&["store", "restore", "copy", "--yes"]);
    assert_eq!(restored.code, 0, "{}", restored.all());
    let said = restored.all();
    assert!(said.contains("it lacks entry 21 (1 call here), which the anchor here knows of"), "{said}");
    assert!(said.contains("helve audit accept") && said.contains("helve.db.before"), "{said}");
    assert_eq!(calls(&home), 20);
    let call = home.run(&["call", "math-eval", "expression=1"]);
    assert!(call.code == 1 && call.all().contains("entry 21 was written and is gone"), "{}", call.all());
    let accepted = home.run(&["audit", "accept", "--yes"]);
    assert_eq!(accepted.code, 0);
    let named = |text: &str| accepted.stdout.lines().any(|line| line.contains(text));
    assert!(named("recorded in what is missing") && named(" math-eval: done"), "{}", accepted.all());
    assert_eq!(accepted.stdout.matches(" math-eval: ").count(), 1, "{}", accepted.all());
    assert_eq!(home.run(&["call", "math-eval", "expression=1"]).code, 0);
    assert_eq!(home.run(&["audit", "verify"]).code, 0);
}

#[test]
fn a_damaged_backup_is_refused() {
    let home = Home::new();
    home.run(&["call", "math-eval", "expression=1"]);
    home.json(&["store", "backup", "copy"]);
    let path = home.project().join("copy/helve.db");
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[5_000] ^= 1;
    std::fs::write(&path, bytes).unwrap();
    let refused = home.run(&["store", "restore", "copy", "--yes"]);
    assert!(refused.code == 1 && refused.stderr.contains("the backup is damaged"), "{}", refused.all());
    assert_eq!(home.run(&["store", "restore", "nowhere", "--yes"]).code, 1);
    assert_eq!(calls(&home), 1);
}

#[test]
fn no_tool_reads_a_backup_or_restores_one() {
    let home = Home::new();
    home.write("helve.toml", "[files]\nroots = [\".\"]\n");
    home.run(&["call", "math-eval", "expression=1"]);
    home.json(&["store", "backup", "copy"]);
    let read = home.run(&["call", "file-read", "path=copy/manifest.json"]);
    assert_ne!(read.code, 0, "{}", read.all());
    assert!(!read.stdout.contains("sha256"), "{}", read.all());
    let accept = &["audit", "accept", "--yes"][..];
    for args in [&["store", "backup", "other"][..], &["store", "restore", "copy", "--yes"], accept] {
        let ran = home.run_with(args, &[("HELVE_CALL_ID", "call_1")], b"");
        assert!(ran.code == 2 && ran.stderr.contains("a tool does not"), "{}", ran.all());
    }
}

#[test]
fn pruning_shows_what_would_go_and_asks() {
    let home = Home::new();
    for _ in 0..3 {
        home.run(&["call", "math-eval", "expression=1"]);
    }
    let prune = |args: &[&str]| home.run(&[&["store", "prune"], args].concat());
    let nothing = prune(&[]);
    assert!(
        nothing.code == 2 && nothing.stderr.contains("nothing says which entries may go"),
        "{}",
        nothing.all()
    );
    let shown = prune(&["--older-than", "2099-01-01", "--dry-run"]);
    assert!(shown.code == 0 && shown.stdout.starts_with("3 entries would go: 1 to 3"), "{}", shown.all());
    assert!(shown.stderr.contains("helve audit export"), "{}", shown.all());
    assert_eq!(prune(&["--older-than", "2099-01-01"]).code, 3, "there is no terminal to ask on");
    assert_eq!(prune(&["--older-than", "90d", "--yes"]).stdout, "no entry goes\n");
    assert_eq!(calls(&home), 3);
    let pruned = prune(&["--older-than", "2099-01-01", "--yes"]);
    assert!(pruned.code == 0 && pruned.stdout.contains("3 entries removed"), "{}", pruned.all());
    assert_eq!(calls(&home), 1);
    let verified = home.run(&["audit", "verify"]);
    assert!(
        verified.code == 0 && verified.stdout.contains("entries 1 to 3 were pruned at"),
        "{}",
        verified.all()
    );
    let status = home.json(&["store", "status"]);
    assert_eq!((&status["first_entry"], &status["calls"]), (&json!(4), &json!(1)));

    // A head that was kept of what is gone, and the one at the cut.
    let cut = home.json(&["audit", "verify"])["pruned"].clone();
    let expect = |seq: &Value, hash: &Value| {
        let head = format!("{seq}:{}", hash.as_str().unwrap());
        home.run(&["audit", "verify", "--expect-head", &head])
    };
    assert_eq!(expect(&cut["last"], &cut["hash"]).code, 0);
    let older = expect(&json!(1), &cut["hash"]);
    assert!(older.code == 1 && older.stdout.contains("were pruned"), "{}", older.all());
}

#[test]
fn helve_up_prunes_by_itself_and_tells() {
    let home = Home::new();
    let up = Up::start_with(
        &home,
        &["--set", "journal.retention.size_bytes=1", "--set", "journal.retention.every_s=1"],
    );
    let token = up.token();
    for _ in 0..5 {
        assert_eq!(up.call(&token, "math-eval", json!({ "expression": "1" })).0, 200);
    }
    let text = wait_for("a pruning", || {
        let text = up.text("/metrics", &token);
        let counted =
            text.lines().find_map(|line| line.strip_prefix("helve_journal_pruned_entries_total "))?;
        (counted.parse::<u64>().unwrap() >= 4).then_some(text)
    });
    assert!(text.contains("helve_journal_pruned 1"), "{text}");
    assert!(calls(&home) <= 1);
    assert_eq!(home.run(&["audit", "verify"]).code, 0);
}

#[test]
fn a_project_does_not_say_what_its_user_forgets() {
    let home = Home::new();
    home.write("helve.toml", "[journal.retention]\nolder_than_days = 1\n");
    let ran = home.run(&["store", "prune"]);
    assert!(ran.code == 2 && ran.all().contains("nothing says which entries may go"), "{}", ran.all());
}
