//! Tools that reach a server, here a real one on loopback.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::home::Home;
use crate::lint::PETS;

/// Answers every request with the same text, and counts them.
struct Server {
    port: u16,
    requests: Arc<AtomicUsize>,
}

impl Server {
    fn start(content_type: &'static str, body: &'static str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let requests = Arc::new(AtomicUsize::new(0));
        let counter = Arc::clone(&requests);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                let _ = stream.read(&mut [0; 4096]);
                counter.fetch_add(1, Ordering::SeqCst);
                let length = body.len();
                let head = format!(
                    "HTTP/1.1 200 OK\r\ncontent-type: {content_type}\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n"
                );
                let _ = stream.write_all(format!("{head}{body}").as_bytes());
            }
        });
        Self { port, requests }
    }
}

#[test]
fn loopback_is_reached_only_where_somebody_said_so() {
    let server = Server::start("application/json", r#"{"temperature": 7}"#);
    let home = Home::new();
    let tool = format!(
        "[[tool.http]]\nname = 'weather'\ndescription = 'Gives the weather of a place.'\nurl = 'http://127.0.0.1:{}/now'\n",
        server.port
    );
    home.write("helve.toml", &tool);
    let ran = home.run(&["call", "weather"]);
    assert!(ran.code == 4 && ran.stderr.contains("helve trust"), "{}", ran.all());
    let url = format!("url=http://127.0.0.1:{}/", server.port);
    // A person who trusts the tool has seen its address: that is one round, and opens it to nobody else.
    let shown = home.run(&["trust", "--yes"]);
    assert!(shown.stdout.contains(&format!("127.0.0.1:{}", server.port)), "{}", shown.all());
    let ran = home.run(&["call", "http-get", &url]);
    assert!(ran.code == 4 && ran.stderr.contains("[net] allow"), "{}", ran.all());
    assert_eq!(server.requests.load(Ordering::SeqCst), 0);
    assert_eq!(home.json(&["call", "weather"])["result"]["temperature"], 7);
    assert_eq!(home.run(&["call", "http-get", &url, "--set", "net.allow=127.0.0.1"]).code, 0);
}

#[test]
fn a_document_that_names_this_machine_itself_is_trusted_and_called() {
    let server = Server::start("application/json", r#"{"name": "Rex"}"#);
    let home = Home::new();
    let pets = format!("servers: [{{ url: 'http://127.0.0.1:{}' }}]\n{}", server.port, without_servers(PETS));
    home.write("pets.yaml", &pets);
    home.write("helve.toml", "[[openapi]]\nnamespace = 'pets'\ndocument = 'pets.yaml'\n");
    let listed = home.run(&["tools", "list", "--namespace", "pets"]);
    assert!(listed.stderr.contains("gives no tools: nobody has trusted it"), "{}", listed.all());
    let trusted = home.run(&["trust", "--yes"]);
    assert!(trusted.stdout.contains(&format!("127.0.0.1:{}", server.port)), "{}", trusted.all());
    let call = || home.run(&["call", "pets/getPet", "id=7"]);
    let ran = call();
    assert_eq!((ran.code, server.requests.load(Ordering::SeqCst)), (0, 1), "{}", ran.all());
    // Another address in the document is another thing to trust.
    home.write("pets.yaml", pets.replace("127.0.0.1", "127.0.0.2"));
    assert_ne!(call().code, 0);
    assert_eq!(server.requests.load(Ordering::SeqCst), 1);
}

/// A document without the servers that it names.
fn without_servers(document: &str) -> String {
    document.lines().filter(|line| !line.starts_with("servers")).map(|line| format!("{line}\n")).collect()
}

#[test]
fn a_fetched_document_is_kept() {
    let server = Server::start("application/yaml", PETS);
    let home = Home::new();
    home.write(
        "helve.toml",
        format!(
            "[net]\nallow = ['127.0.0.1']\n[[openapi]]\nnamespace = 'pets'\ndocument = 'http://127.0.0.1:{}/openapi.yaml'\n",
            server.port
        ),
    );
    assert_eq!(home.run(&["trust", "--yes"]).code, 0);
    for _ in 0..3 {
        let tools = home.json(&["tools", "list", "--namespace", "pets"]);
        assert_eq!(tools[0]["name"], "pets/getPet");
    }
    assert_eq!(server.requests.load(Ordering::SeqCst), 1);
}

#[test]
fn a_document_that_cannot_be_fetched_is_named_with_its_place() {
    let home = Home::new();
    home.write(
        "helve.toml",
        "[net]\nallow = ['127.0.0.1']\n[[openapi]]\nnamespace = 'pets'\ndocument = 'http://127.0.0.1:9/x'\n",
    );
    assert_eq!(home.run(&["trust", "--yes"]).code, 0);
    let ran = home.run(&["tools", "list"]);
    assert_eq!(ran.code, 0, "the other tools are there");
    assert!(ran.stderr.contains("helve.toml:3:1") && ran.stderr.contains("cannot fetch"), "{}", ran.stderr);
}

#[test]
fn a_check_gives_verdict_and_reason_without_connecting() {
    let home = Home::new();
    let server = Server::start("text/plain", "hello");
    let loopback = format!("http://127.0.0.1:{}/", server.port);
    let check = |args: &[&str]| home.run(&[&["net", "check"], args].concat());
    insta::assert_snapshot!(
        "net_allowed",
        check(&["https://example.com/", "--resolve", "example.com=93.184.215.14"]).all()
    );
    insta::assert_snapshot!("net_private", check(&["http://0x7f.1:8080/"]).all());
    insta::assert_snapshot!(
        "net_metadata",
        check(&["http://m.example/", "--resolve", "m.example=169.254.169.254"]).all()
    );
    insta::assert_snapshot!(
        "net_mixed",
        check(&["http://m.example/", "--resolve", "m.example=8.8.8.8", "--resolve", "m.example=10.0.0.1"])
            .all()
    );
    insta::assert_snapshot!("net_bad_url", check(&["ftp://example.com/\u{1b}[31m"]).all());
    insta::assert_snapshot!(
        "net_localhost",
        check(&["http://localhost:8080/", "--set", "net.allow=localhost:8080"]).all()
    );
    let only = ["https://b.example/", "--resolve", "b.example=8.8.8.8", "--set", "net.only=a.example"];
    insta::assert_snapshot!("net_only", check(&only).all());
    let deny = ["https://b.example/", "--resolve", "b.example=8.8.8.8", "--set", "net.deny=8.0.0.0/8"];
    insta::assert_snapshot!("net_deny", check(&deny).all());
    insta::assert_snapshot!(
        "net_resolve_wrong",
        check(&["https://b.example/", "--resolve", "b.example=x"]).all()
    );
    assert_eq!(check(&[&loopback, "--set", "net.allow=127.0.0.1"]).code, 0);
    assert_eq!(server.requests.load(Ordering::SeqCst), 0);
}

#[test]
fn a_check_is_readable_by_programs() {
    let home = Home::new();
    let ran = home.run(&["net", "check", "http://2130706433:8080/x", "--json"]);
    assert_eq!(ran.code, 4, "{}", ran.all());
    let report: serde_json::Value = serde_json::from_str(&ran.stdout).unwrap();
    let reason = "`127.0.0.1:8080` is at 127.0.0.1 (loopback), not on the public internet; \
                  if it should be reached, add `127.0.0.1:8080` to [net] allow";
    let expected = serde_json::json!({
        "url": "http://2130706433:8080/x", "verdict": "deny", "reason": reason,
        "host": "127.0.0.1", "port": 8080,
        "addresses": [{ "address": "127.0.0.1", "verdict": "deny", "range": "loopback", "reason": reason }],
    });
    assert_eq!(report, expected);
    let report = home.json(&["net", "check", "https://a.example", "--resolve", "A.example.=2606:4700::1111"]);
    assert_eq!((&report["verdict"], &report["port"]), (&"allow".into(), &443.into()));
    let ran = home.run(&["net", "check", "not a url", "--json"]);
    let report: serde_json::Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!(
        (ran.code, &report["verdict"], &report["host"]),
        (4, &"deny".into(), &serde_json::Value::Null)
    );
}
