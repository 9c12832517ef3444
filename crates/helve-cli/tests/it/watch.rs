//! What an operator watches: figures, alert rules and the dashboard, read by the programs that will read
//! them.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::home::Home;
use crate::up::Up;

fn deploy(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy").join(file).canonicalize().unwrap()
}

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

/// A Helve that checks its journal every second, with a call behind it.
fn watched(home: &Home) -> Up {
    let up = Up::start_with(home, &["--set", "journal.verify_every_s=1"]);
    let (status, _) = up.call(&up.token(), "math-eval", json!({ "expression": "1+1" }));
    assert_eq!(status, 200);
    up
}

#[expect(clippy::disallowed_methods, reason = "a test starts a program that others wrote")]
fn promtool(args: &[&str], input: &str) {
    let mut tool = Command::new("promtool").args(args).stdin(Stdio::piped()).spawn().unwrap();
    tool.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    assert!(tool.wait().unwrap().success(), "promtool {args:?}");
}

#[test]
fn figures_are_as_prometheus_wants_them() {
    let home = Home::new();
    let up = watched(&home);
    let text = wait_for("a check of the journal", || {
        let text = up.text("/metrics", &up.token());
        (text.contains("helve_journal_verified 1") && text.contains("tool=\"math-eval\"")).then_some(text)
    });
    promtool(&["check", "metrics"], &text);
    for figure in ["helve_journal_up 1", "helve_journal_anchor_up 1", "helve_runs_open{state=\"in_doubt\"} 0"]
    {
        assert!(text.lines().any(|line| line == figure), "{figure}\n{text}");
    }
}

#[test]
fn a_journal_that_is_not_sound_is_told_by_figure_and_event() {
    let home = Home::new();
    let up = watched(&home);
    let mut events = TcpStream::connect(&up.address).unwrap();
    let (address, token) = (&up.address, up.token());
    write!(events, "GET /v1/events HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {token}\r\n\r\n")
        .unwrap();
    let mut lines = BufReader::new(events).lines().map(Result::unwrap);
    let mut next =
        || lines.find(|line| line.starts_with("data:") && line.contains("audit.verified")).unwrap();
    assert!(!next().contains("problem"));
    let head = Path::new(up.told["token_file"].as_str().unwrap()).with_file_name("helve.db.head");
    assert!(head.exists());
    std::fs::write(head, "nonsense").unwrap();
    while !next().contains("problem") {}
    let text = up.text("/metrics", &up.token());
    assert!(text.contains("helve_journal_verified 0"), "{text}");
}

#[test]
fn the_alert_rules_fire_when_they_should() {
    let rules = deploy("prometheus/helve.rules.test.yml");
    promtool(&["test", "rules", rules.to_str().unwrap()], "");
}

/// A Prometheus that watches one Helve, ended with the test.
struct Prometheus {
    child: Child,
    address: String,
    _folder: tempfile::TempDir,
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Prometheus {
    #[expect(clippy::disallowed_methods, reason = "a test starts a program that others wrote")]
    fn watching(up: &Up) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
        let config = json!({
            "global": { "scrape_interval": "1s", "evaluation_interval": "1s" },
            "rule_files": [deploy("prometheus/helve.rules.yml")],
            "scrape_configs": [{
                "job_name": "helve",
                "authorization": { "credentials_file": up.told["token_file"] },
                "static_configs": [{ "targets": [up.address] }],
            }],
        });
        let file = folder.path().join("prometheus.yml");
        // Prometheus reads YAML, of which JSON is a part.
        std::fs::write(&file, config.to_string()).unwrap();
        let child = Command::new("prometheus")
            .arg(format!("--config.file={}", file.display()))
            .arg(format!("--storage.tsdb.path={}", folder.path().join("data").display()))
            .arg(format!("--web.listen-address={address}"))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        Self { child, address, _folder: folder }
    }

    fn get(&self, path: &str) -> Option<Value> {
        let mut stream = TcpStream::connect(&self.address).ok()?;
        write!(stream, "GET {path} HTTP/1.0\r\nHost: {}\r\n\r\n", self.address).ok()?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).ok()?;
        serde_json::from_str(answer.split_once("\r\n\r\n")?.1).ok()
    }

    fn query(&self, query: &str) -> Option<Value> {
        let query: String = url::form_urlencoded::byte_serialize(query.as_bytes()).collect();
        self.get(&format!("/api/v1/query?query={query}"))
    }
}

#[test]
fn prometheus_reads_the_figures_the_rules_and_every_panel_of_the_dashboard() {
    let home = Home::new();
    let up = watched(&home);
    let prometheus = Prometheus::watching(&up);
    wait_for("figures in Prometheus", || {
        let found = prometheus.query("helve_journal_verified")?;
        (found["data"]["result"][0]["value"][1] == "1").then_some(())
    });
    let rules = wait_for("rules that were evaluated", || {
        let rules = prometheus.get("/api/v1/rules")?["data"]["groups"][0]["rules"].as_array()?.clone();
        rules.iter().all(|rule| rule["health"] == "ok").then_some(rules)
    });
    assert!(rules.len() >= 10, "{rules:?}");
    let known = up.text("/metrics", &up.token());
    for expression in panels() {
        let asked = expression.replace("$__rate_interval", "1m").replace("$instance", ".*");
        let answer = prometheus.query(&asked).unwrap();
        assert_eq!(answer["status"], "success", "{asked}: {answer}");
        for name in figures_in(&expression) {
            assert!(known.contains(&format!("# TYPE {name} ")), "the dashboard asks for `{name}`:\n{known}");
        }
    }
}

/// What the dashboard asks Prometheus for.
fn panels() -> Vec<String> {
    let text = std::fs::read_to_string(deploy("grafana/helve.json")).unwrap();
    let dashboard: Value = serde_json::from_str(&text).unwrap();
    let panels = dashboard["panels"].as_array().unwrap().iter();
    let targets = panels.flat_map(|panel| panel["targets"].as_array().unwrap());
    targets.map(|target| target["expr"].as_str().unwrap().to_owned()).collect()
}

/// The names of figures in an expression, without what histograms add to theirs.
fn figures_in(expression: &str) -> BTreeSet<String> {
    let words = expression.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    words
        .filter(|word| word.starts_with("helve_"))
        .map(|word| word.trim_end_matches("_bucket").to_owned())
        .collect()
}
