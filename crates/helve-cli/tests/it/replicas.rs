//! The ledger on PostgreSQL, a real one: every command on it, and two machines that share it.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use helve_testkit::postgres::Postgres;
use serde_json::{Value, json};

use crate::home::{Home, until};
use crate::up::Up;

/// A service that takes orders, and counts them: what it counts did happen.
struct Shop {
    port: u16,
    orders: Arc<AtomicUsize>,
}

impl Shop {
    fn open() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let orders = Arc::new(AtomicUsize::new(0));
        let counter = Arc::clone(&orders);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                let _ = stream.read(&mut [0; 4096]);
                let order = counter.fetch_add(1, Ordering::SeqCst) + 1;
                let body = json!({ "order": order }).to_string();
                let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n", body.len());
                let answer =
                    format!("{head}content-type: application/json\r\nconnection: close\r\n\r\n{body}");
                let _ = stream.write_all(answer.as_bytes());
            }
        });
        Self { port, orders }
    }

    fn orders(&self) -> usize {
        self.orders.load(Ordering::SeqCst)
    }

    fn tool(&self) -> String {
        format!(
            "[[tool.http]]\nname = 'buy'\ndescription = 'Buys one.'\nmethod = 'POST'\nrisk = 'low'\n\
             url = 'http://127.0.0.1:{}/buy'\n",
            self.port
        )
    }
}

/// A machine whose user has named the database.
fn machine(database: &str, tools: &str) -> Home {
    let home = Home::new();
    let folder = home.project().join("../.config/helve");
    std::fs::create_dir_all(&folder).unwrap();
    let config = format!("[store]\nurl = '{database}'\n[net]\nallow = ['127.0.0.1']\n{tools}");
    std::fs::write(folder.join("helve.toml"), config).unwrap();
    home
}

fn says(home: &Home, args: &[&str], code: i32, words: &str) {
    let ran = home.run(args);
    assert!(ran.code == code && ran.all().contains(words), "{args:?} should say `{words}`: {}", ran.all());
}

#[test]
fn one_line_puts_the_ledger_into_a_database() {
    let postgres = Postgres::start();
    let database = postgres.database();
    let home = machine(&database, "");
    says(&home, &["audit", "verify"], 1, "the first `helve call` makes its tables");
    says(&home, &["runs", "show", "call_1"], 1, "there is no journal at postgres://");
    assert_eq!(home.json(&["audit", "list"]), json!([]));
    let called = home.json(&["call", "math-eval", "expression=6*7"]);
    assert_eq!(called["result"]["value"], 42, "{called}");
    let id = called["call_id"].as_str().unwrap();
    assert_eq!(home.json(&["audit", "list"])[0]["call_id"], id);
    assert_eq!(home.json(&["audit", "show", id])["status"], "done");
    says(&home, &["audit", "show", "nonsense!"], 2, "is not the beginning of a call's id");
    let exported = home.run(&["audit", "export"]);
    let lines: Vec<Value> = exported.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(lines.len() == 1 && lines[0]["call_id"] == id, "{}", exported.all());
    assert_eq!(home.run(&["memory", "set", "colour", "blue", "--scope", "long-term"]).code, 0);
    assert_eq!(home.json(&["memory", "get", "colour", "--scope", "long-term"])["value"], "blue");
    assert_eq!(home.run(&["keys", "create", "ci"]).code, 0);
    assert_eq!(home.json(&["keys", "list"])[0]["name"], "ci");
    assert_eq!(home.json(&["runs", "list"]), json!([]));
    assert_eq!(home.json(&["approvals", "list"]), json!([]));
    says(&home, &["doctor"], 0, "postgres://");
    let sound = home.json(&["audit", "verify"]);
    let entries = sound["chains"].as_array().unwrap().iter().map(|chain| chain["entries"].as_i64().unwrap());
    assert!(sound["sound"] == true && entries.sum::<i64>() >= 3, "{sound}");
    says(&home, &["audit", "verify"], 0, "nothing was changed or removed");
    assert!(!home.project().join("../.local/state/helve/helve.db").exists(), "nothing goes to a file");
    postgres.sql(&database, "UPDATE helve.entries SET head = replace(head, 'math-eval', 'mail-send')");
    says(&home, &["audit", "verify"], 1, "was changed");
}

#[test]
fn what_works_on_a_file_alone_says_what_to_do_instead() {
    let postgres = Postgres::start();
    let home = machine(&postgres.database(), "");
    assert_eq!(home.run(&["call", "math-eval", "expression=1"]).code, 0);
    for (args, words) in [
        (&["store", "backup", "copy"][..], "pg_dump"),
        (&["store", "restore", "copy"], "pg_restore"),
        (&["store", "prune", "--older-than", "30d"], "cannot prune it yet"),
        (&["store", "status"], "pg_database_size"),
        (&["audit", "accept"], "helve audit verify"),
        (&["audit", "checkpoint"], "`chains`"),
        (&["audit", "key"], "`chains`"),
    ] {
        says(&home, args, 2, words);
    }
    let head = format!("1:{}", "0".repeat(64));
    says(&home, &["audit", "verify", "--expect-head", &head], 2, "a chain for each writer");
}

#[test]
fn a_project_says_nothing_of_the_database_and_a_file_holds_no_password() {
    let postgres = Postgres::start();
    let (mine, theirs) = (postgres.database(), postgres.database());
    let home = machine(&mine, "");
    home.write("helve.toml", format!("[store]\nurl = '{theirs}'\n"));
    let ran = home.run(&["call", "math-eval", "expression=1"]);
    assert!(ran.code == 0 && ran.stderr.contains("only your own helve.toml may say it"), "{}", ran.all());
    assert_eq!(postgres.sql(&theirs, "SELECT count(*) FROM pg_namespace WHERE nspname = 'helve'"), "0");
    assert_eq!(postgres.sql(&mine, "SELECT count(*) > 0 FROM helve.entries"), "t");

    let place = theirs.strip_prefix("postgres://helve@").unwrap();
    let home = machine(&format!("postgres://helve:hunter2@{place}"), "");
    says(&home, &["call", "math-eval", "expression=1"], 2, "a password stands in `store.url`");
    let shown = home.run(&["config", "show", "store"]);
    assert!(shown.code == 0 && !shown.all().contains("hunter2"), "{}", shown.all());
    let home = machine(&format!("postgres://helve:${{env:DB_PASSWORD}}@{place}"), "");
    says(&home, &["call", "math-eval", "expression=1"], 2, "DB_PASSWORD");
    let ran = home.run_with(&["call", "math-eval", "expression=1"], &[("DB_PASSWORD", "hunter2")], b"");
    assert_eq!(ran.code, 0, "{}", ran.all());
}

#[test]
fn a_database_that_is_away_stops_calls_and_says_where_it_should_be() {
    let mut postgres = Postgres::start();
    let home = machine(&postgres.database(), "");
    assert_eq!(home.run(&["call", "math-eval", "expression=1"]).code, 0);
    postgres.crash();
    says(&home, &["call", "math-eval", "expression=1"], 1, "without a record no tool runs");
    says(&home, &["doctor"], 1, "cannot be reached");
    postgres.start_again();
    assert_eq!(home.run(&["call", "math-eval", "expression=1"]).code, 0);
    assert_eq!(home.json(&["audit", "list"]).as_array().unwrap().len(), 2);
}

#[test]
fn two_machines_share_keys_approvals_and_what_was_done() {
    let (postgres, shop) = (Postgres::start(), Shop::open());
    let database = postgres.database();
    let (here, there) = (machine(&database, &shop.tool()), machine(&database, &shop.tool()));
    let (one, two) = (Up::start(&here), Up::start(&there));
    let key = one.key(&here, &["ci", "--service"]);
    let judge = two.key(&there, &["judge", "--approver"]);

    // Asked on one machine, decided on the other, while the caller waits.
    let waits = json!({ "tool": "buy", "wait_ms": 60_000, "advice": { "action": "request_approval" } });
    let decided = std::thread::scope(|scope| {
        let waiting = scope.spawn(|| one.with("POST /v1/calls", &key, waits));
        let mut id = String::new();
        until("the question on the other machine", || {
            let (_, listed) = two.with("GET /v1/approvals?state=pending", &judge, Value::Null);
            id = listed[0]["id"].as_str().unwrap_or_default().to_owned();
            !id.is_empty()
        });
        assert_eq!(shop.orders(), 0, "nobody has allowed it");
        let line = format!("POST /v1/approvals/{id}/decision");
        let (status, decided) = two.with(&line, &judge, json!({ "decision": "approve" }));
        assert_eq!(status, 200, "{decided}");
        waiting.join().unwrap()
    });
    assert_eq!((decided.0, &decided.1["result"]["order"]), (200, &json!(1)), "{}", decided.1);

    // One idempotency key, at once on both.
    let once = || json!({ "tool": "buy", "idempotency_key": "order-7" });
    let answers = std::thread::scope(|scope| {
        [&one, &two]
            .map(|up| scope.spawn(|| up.with("POST /v1/calls", &key, once())))
            .map(|asked| asked.join().unwrap())
    });
    for (status, answer) in &answers {
        assert_eq!((*status, &answer["result"]["order"]), (200, &json!(2)), "{answer}");
    }
    assert_eq!(shop.orders(), 2, "both had the answer of the one that ran");

    // Revoked on one machine.
    let call = || json!({ "tool": "math-eval", "arguments": { "expression": "1" } });
    assert_eq!(two.with("POST /v1/calls", &key, call()).0, 200);
    assert_eq!(here.run(&["keys", "revoke", "ci"]).code, 0);
    let revoked = Instant::now();
    while two.with("POST /v1/calls", &key, call()).0 != 401 {
        assert!(revoked.elapsed() < Duration::from_secs(2), "it is good for a second more, and no longer");
    }
    let (_, records) = two.with("GET /v1/audit?tool=buy", &judge, Value::Null);
    let is_whole = records.as_array().is_some_and(|all| all.len() >= 2);
    assert!(is_whole, "what was called on one is read on the other: {records}");
    let sound = there.json(&["audit", "verify"]);
    assert!(sound["sound"] == true && sound["chains"].as_array().unwrap().len() >= 2, "{sound}");
}
