//! Accounts on real servers: connected, synced, searched and forgotten; and what is kept of their secrets.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::Stdio;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use base64::Engine as _;
use base64::prelude::{BASE64_STANDARD, BASE64_URL_SAFE_NO_PAD};
use helve_testkit::OfficeServers;
use serde_json::{Value, json};

use crate::home::{Home, Ran};

const ALICE: &str = "alice@example.test";
const PASSWORD: &str = "alice-pw";

/// The flags that name the servers of a test.
fn at(servers: &OfficeServers) -> Vec<String> {
    vec![
        "--imap".to_owned(),
        format!("127.0.0.1:{}", servers.port("/imaps/port")),
        "--smtp".to_owned(),
        format!("127.0.0.1:{}", servers.port("/smtps/port")),
        "--tls".to_owned(),
        "implicit".to_owned(),
        "--ca-file".to_owned(),
        servers.text("/ca"),
    ]
}

fn connect(home: &Home, servers: &OfficeServers, more: &[&str], stdin: &str) -> Ran {
    let at = at(servers);
    let mut args = vec!["connect", "mail", ALICE];
    args.extend(at.iter().map(String::as_str));
    args.extend(more);
    home.run_with(&args, &[("MAIL_PW", PASSWORD)], stdin.as_bytes())
}

/// Delivers a mail to alice, as anybody's server would.
fn deliver(servers: &OfficeServers, subject: &str) {
    let text = format!(
        "From: bob@example.test\r\nTo: {ALICE}\r\nSubject: {subject}\r\nMessage-ID: <{}@example.test>\r\n\r\nHello.\r\n",
        subject.replace(' ', "-")
    );
    let script = "import sys, smtplib, ssl, json\n\
        e = json.load(open(sys.argv[1])); c = ssl.create_default_context(cafile=e['ca'])\n\
        s = smtplib.SMTP_SSL('127.0.0.1', e['smtps']['port'], context=c)\n\
        s.login('bob@example.test', 'bob-pw'); s.sendmail('bob@example.test', [sys.argv[2]], sys.stdin.buffer.read())";
    #[expect(clippy::disallowed_methods, reason = "a counterpart is not Helve's to confine")]
    let mut python = std::process::Command::new(servers.text("/python"))
        .args(["-c", script, &servers.folder().join("endpoints.json").display().to_string(), ALICE])
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    python.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    assert!(python.wait().unwrap().success());
}

fn subjects(home: &Home, words: &str) -> Vec<String> {
    let answer = home.json(&["call", "search_emails", &json!({ "query": words }).to_string()]);
    let emails = answer["result"]["emails"].as_array().unwrap_or_else(|| panic!("{answer}")).clone();
    emails.iter().map(|email| email["subject"].as_str().unwrap().to_owned()).collect()
}

/// The files below a folder that hold some text.
fn holding(folder: &Path, text: &str, found: &mut Vec<String>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            holding(&path, text, found);
        } else if path.is_file() {
            let bytes = std::fs::read(&path).unwrap();
            if bytes.windows(text.len()).any(|window| window == text.as_bytes()) {
                found.push(path.display().to_string());
            }
        }
    }
}

fn nowhere(home: &Home, secret: &str) {
    let mut found = Vec::new();
    for text in [secret.to_owned(), BASE64_STANDARD.encode(secret)] {
        holding(home.project().parent().unwrap(), &text, &mut found);
    }
    assert_eq!(found, [""; 0], "no file has it");
}

#[test]
fn a_mail_account_is_connected_synced_searched_and_forgotten() {
    let servers = OfficeServers::start();
    deliver(&servers, "Quarterly figures");
    let home = Home::new();
    let ran = connect(
        &home,
        &servers,
        &["--id", "work", "--name", "Alice", "--password-stdin", "--json"],
        PASSWORD,
    );
    assert_eq!(ran.code, 0, "{}", ran.all());
    let told: Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!(
        (&told["connected"], &told["kind"], &told["address"]),
        (&json!("work"), &json!("mail"), &json!(ALICE))
    );
    assert!(!ran.all().contains(PASSWORD), "{}", ran.all());

    let ran = home.run(&["office", "sync"]);
    assert!(ran.code == 0 && ran.stdout.contains("work is up to date"), "{}", ran.all());
    assert_eq!(subjects(&home, "quarterly"), ["Quarterly figures"]);
    let accounts = home.json(&["office", "accounts"]);
    let work = accounts.as_array().unwrap().iter().find(|one| one["id"] == "work").unwrap();
    assert!(work["synced_at"].is_string() && work["trouble"].is_null(), "{work}");
    assert_eq!(work["has"], json!(["mail", "sending"]));
    nowhere(&home, PASSWORD);

    // What comes later is there after the next one.
    deliver(&servers, "Second figures");
    assert_eq!(home.run(&["office", "sync", "work"]).code, 0);
    assert_eq!(subjects(&home, "figures").len(), 2);

    let ran = home.run(&["office", "disconnect", "work"]);
    assert!(ran.code == 2 && ran.stderr.contains("--yes"), "{}", ran.all());
    assert_eq!(home.run(&["office", "disconnect", "work", "--yes"]).code, 0);
    assert_eq!(home.json(&["office", "accounts"]).as_array().unwrap().len(), 1);
    assert!(subjects(&home, "figures").is_empty(), "the index is gone");
    let mut found = Vec::new();
    holding(home.project().parent().unwrap(), "Quarterly figures", &mut found);
    let found: Vec<_> = found.iter().filter(|file| file.contains("office.db")).collect();
    assert!(found.is_empty(), "{found:?}");
}

#[test]
fn a_wrong_password_is_said_clearly_and_nothing_is_kept() {
    let servers = OfficeServers::start();
    let home = Home::new();
    let ran = connect(&home, &servers, &["--password-stdin"], "wrong-pw-7261");
    assert_eq!(ran.code, 1, "{}", ran.all());
    assert!(ran.stderr.contains("nothing was kept") && !ran.all().contains("wrong-pw-7261"), "{}", ran.all());
    assert_eq!(home.json(&["office", "accounts"]).as_array().unwrap().len(), 1);
    nowhere(&home, "wrong-pw-7261");
    let kept = home.project().parent().unwrap().join(".local/state/helve/mcp/office.secrets");
    assert!(!kept.exists(), "not even encrypted");
    // Without a terminal, a flag or a pipe there is nothing to log in with.
    let ran = connect(&home, &servers, &[], "");
    assert!(ran.code == 2 && ran.stderr.contains("--password-stdin"), "{}", ran.all());
    // A password is no reference, and is not repeated.
    let ran = connect(&home, &servers, &["--secret", "hunter2-as-argument"], "");
    assert!(ran.code == 2, "{}", ran.all());
}

#[test]
fn a_reference_is_looked_up_at_each_login_and_an_account_can_be_connected_again() {
    let servers = OfficeServers::start();
    let home = Home::new();
    let ran = connect(&home, &servers, &["--secret", "env:MAIL_PW", "--owner", "ada"], "");
    assert_eq!(ran.code, 0, "{}", ran.all());
    // Without the variable a sync says what is missing; nothing else suffers.
    let ran = home.run(&["office", "sync"]);
    assert!(ran.code == 1 && ran.stdout.contains("MAIL_PW"), "{}", ran.all());
    let accounts = home.json(&["office", "accounts"]);
    assert!(accounts[1]["trouble"].as_str().unwrap().contains("MAIL_PW"), "{accounts}");
    assert_eq!((&accounts[1]["id"], &accounts[1]["owner"]), (&json!("example"), &json!("ada")));
    let ran = home.run_with(&["office", "sync"], &[("MAIL_PW", PASSWORD)], b"");
    assert_eq!(ran.code, 0, "{}", ran.all());
    // The same account again, now with a password that is kept.
    let ran = connect(&home, &servers, &["--password-stdin"], PASSWORD);
    assert!(ran.code == 0 && ran.stdout.contains("connected again"), "{}", ran.all());
    assert_eq!(home.run(&["office", "sync"]).code, 0);
    nowhere(&home, PASSWORD);
    // It is ada's: others do not see what is in it.
    deliver(&servers, "For ada alone");
    assert_eq!(home.run(&["office", "sync"]).code, 0);
    assert!(subjects(&home, "alone").is_empty());
    let ran = connect(&home, &servers, &["--secret", "env:MAIL_PW", "--owner", "local"], "");
    assert!(ran.code == 2 && ran.stderr.contains("belongs to ada"), "{}", ran.all());
    assert_eq!(home.run(&["office", "disconnect", "example", "--yes"]).code, 0);
    assert_eq!(connect(&home, &servers, &["--password-stdin", "--owner", "local"], PASSWORD).code, 0);
    assert_eq!(home.run(&["office", "sync"]).code, 0);
    assert_eq!(subjects(&home, "alone"), ["For ada alone"]);
}

#[test]
fn no_tool_reads_the_file_that_an_account_takes_its_password_from() {
    let servers = OfficeServers::start();
    let home = Home::new();
    home.write("pw.txt", PASSWORD);
    let ran = home.run(&["call", "file-read", "path=pw.txt"]);
    assert!(ran.stdout.contains(PASSWORD), "it is a file like others before: {}", ran.all());
    let ran = connect(&home, &servers, &["--secret", "file:pw.txt"], "");
    assert_eq!(ran.code, 0, "{}", ran.all());
    let ran = home.run(&["call", "file-read", "path=pw.txt"]);
    assert!(ran.code != 0 && !ran.all().contains(PASSWORD), "{}", ran.all());
}

#[test]
fn two_processes_sync_one_account_once() {
    let servers = OfficeServers::start();
    for number in 0..5 {
        deliver(&servers, &format!("Number {number}"));
    }
    let home = Home::new();
    assert_eq!(connect(&home, &servers, &["--password-stdin"], PASSWORD).code, 0);
    let both: Vec<_> = std::thread::scope(|scope| {
        let runs: Vec<_> = (0..2).map(|_| scope.spawn(|| home.run(&["office", "sync", "--json"]))).collect();
        runs.into_iter().map(|run| run.join().unwrap()).collect()
    });
    for ran in &both {
        assert_eq!(ran.code, 0, "{}", ran.all());
        let ended: Value = serde_json::from_str(&ran.stdout).unwrap();
        assert!(["done", "elsewhere"].contains(&ended[0]["ended"].as_str().unwrap()), "{ended}");
    }
    assert_eq!(subjects(&home, "number").len(), 5);
}

#[test]
fn calendars_are_found_on_a_server_and_synced() {
    let servers = OfficeServers::start();
    let url = servers.text("/dav/url");
    let port = url.trim_end_matches('/').rsplit(':').next().unwrap().to_owned();
    let auth = BASE64_STANDARD.encode("alice:alice-pw");
    let ask = |method: &str, path: &str, body: &str| {
        let mut stream = TcpStream::connect(format!("127.0.0.1:{port}")).unwrap();
        write!(
            stream,
            "{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Basic {auth}\r\nConnection: close\r\n\
             Content-Type: text/calendar\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        )
        .unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert!(answer.contains(" 201 ") || answer.contains(" 207 "), "{answer}");
    };
    ask("MKCALENDAR", "/alice/work/", "");
    let event = "BEGIN:VCALENDAR\r\nVERSION:2.0\r\nPRODID:x\r\nBEGIN:VEVENT\r\nUID:tea\r\nDTSTAMP:20260101T000000Z\r\n\
                 DTSTART:20260105T100000Z\r\nDTEND:20260105T110000Z\r\nSUMMARY:Tea with Bob\r\nEND:VEVENT\r\nEND:VCALENDAR\r\n";
    ask("PUT", "/alice/work/tea.ics", event);
    let home = Home::new();
    let args =
        ["connect", "calendar", ALICE, "--url", &url, "--login", "alice", "--id", "cal", "--password-stdin"];
    let ran = home.run_with(&args, &[], PASSWORD.as_bytes());
    assert!(ran.code == 0 && ran.stdout.contains("1 calendar"), "{}", ran.all());
    let ran = home.run(&["office", "sync"]);
    assert_eq!(ran.code, 0, "{}", ran.all());
    let range = json!({ "startDate": "2026-01-01", "endDate": "2026-02-01" });
    let events = home.json(&["call", "list_calendar_events", &range.to_string()]);
    assert!(events.to_string().contains("Tea with Bob"), "{events}");
    nowhere(&home, PASSWORD);
    let wrong = home.run_with(
        &[
            "connect",
            "contacts",
            ALICE,
            "--url",
            &url,
            "--login",
            "alice",
            "--id",
            "other",
            "--password-stdin",
        ],
        &[],
        b"no",
    );
    assert!(wrong.code == 1 && wrong.stderr.contains("nothing was kept"), "{}", wrong.all());
}

/// An issuer of the test's own: it gives tokens that the mail server takes, each for a second only.
struct Issuer {
    url: String,
    grants: Arc<Mutex<Vec<String>>>,
}

impl Issuer {
    fn start(key: Vec<u8>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let grants = Arc::new(Mutex::new(Vec::new()));
        let (seen, base, count) = (Arc::clone(&grants), url.clone(), AtomicUsize::new(0));
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = BufReader::new(stream.unwrap());
                let mut head = String::new();
                while !head.ends_with("\r\n\r\n") && stream.read_line(&mut head).unwrap() > 0 {}
                let length = head.lines().find_map(|line| {
                    line.to_ascii_lowercase().strip_prefix("content-length: ")?.parse().ok()
                });
                let mut body = vec![0; length.unwrap_or(0)];
                stream.read_exact(&mut body).unwrap();
                let body = String::from_utf8(body).unwrap();
                let answer = if head.starts_with("GET /.well-known/openid-configuration") {
                    json!({ "issuer": base, "authorization_endpoint": format!("{base}/authorize"), "token_endpoint": format!("{base}/token") })
                } else if head.starts_with("POST /token") {
                    seen.lock().unwrap().push(body);
                    let number = count.fetch_add(1, Ordering::SeqCst);
                    json!({ "access_token": token(&key), "token_type": "Bearer", "expires_in": 1, "refresh_token": format!("refresh-{number}") })
                } else {
                    json!({ "error": "not_found" })
                };
                let text = answer.to_string();
                let _ = write!(
                    stream.get_mut(),
                    "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{text}",
                    text.len()
                );
            }
        });
        Self { url, grants }
    }

    fn grants(&self) -> Vec<String> {
        self.grants.lock().unwrap().clone()
    }
}

/// A token that Dovecot takes for alice, for a minute.
fn token(key: &[u8]) -> String {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs();
    let part = |value: &Value| BASE64_URL_SAFE_NO_PAD.encode(value.to_string());
    let head = part(&json!({ "alg": "HS256", "typ": "JWT" }));
    let claims =
        part(&json!({ "iss": "https://issuer.example.test", "sub": ALICE, "iat": now - 5, "exp": now + 60 }));
    let signed = format!("{head}.{claims}");
    let tag = ring::hmac::sign(&ring::hmac::Key::new(ring::hmac::HMAC_SHA256, key), signed.as_bytes());
    format!("{signed}.{}", BASE64_URL_SAFE_NO_PAD.encode(tag.as_ref()))
}

#[test]
fn a_login_in_the_browser_gives_tokens_that_are_renewed() {
    let servers = OfficeServers::start();
    deliver(&servers, "By token");
    let key = std::fs::read_to_string(servers.text("/jwt_key")).unwrap();
    let issuer = Issuer::start(BASE64_STANDARD.decode(key.trim()).unwrap());
    let home = Home::new();
    let at = at(&servers);
    let mut args = vec![
        "connect",
        "mail",
        ALICE,
        "--id",
        "work",
        "--issuer",
        &issuer.url,
        "--client-id",
        "helve-test",
        "--scope",
        "mail",
    ];
    args.extend(at.iter().map(String::as_str));
    let mut child = home
        .command(&args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let _stdin = child.stdin.take();
    let mut errors = BufReader::new(child.stderr.take().unwrap());
    let mut line = String::new();
    while !line.contains("/authorize?") {
        line.clear();
        assert!(errors.read_line(&mut line).unwrap() > 0, "no address to open");
    }
    let url = url::Url::parse(line.trim()).unwrap();
    let asked = |name: &str| url.query_pairs().find(|(key, _)| key == name).unwrap().1.into_owned();
    assert_eq!(
        (asked("code_challenge_method").as_str(), asked("client_id").as_str()),
        ("S256", "helve-test")
    );
    // The browser comes back.
    let back = url::Url::parse(&asked("redirect_uri")).unwrap();
    let mut browser = TcpStream::connect(("127.0.0.1", back.port().unwrap())).unwrap();
    write!(browser, "GET {}?code=code-1&state={} HTTP/1.1\r\nHost: x\r\n\r\n", back.path(), asked("state"))
        .unwrap();
    let done = child.wait_with_output().unwrap();
    let mut rest = String::new();
    errors.read_to_string(&mut rest).unwrap();
    assert!(done.status.success(), "{rest}");
    let first = issuer.grants();
    assert!(
        first[0].contains("grant_type=authorization_code") && first[0].contains("code_verifier="),
        "{first:?}"
    );

    // Its end is a time of the system's clock, in whole seconds.
    std::thread::sleep(std::time::Duration::from_millis(1_100));
    // It has ended by now, and is renewed with the token that came last.
    let before = issuer.grants().len();
    let ran = home.run(&["office", "sync"]);
    assert_eq!(ran.code, 0, "{}", ran.all());
    assert_eq!(subjects(&home, "token"), ["By token"]);
    let grants = issuer.grants();
    assert!(grants.len() > before && grants[before].contains("grant_type=refresh_token"), "{grants:?}");
    assert!(grants[before].contains(&format!("refresh_token=refresh-{}", before - 1)), "rotated: {grants:?}");
    for secret in ["refresh-", "code-1"] {
        nowhere(&home, secret);
    }
    assert_eq!(home.run(&["office", "disconnect", "work", "--yes"]).code, 0);
    assert!(home.run(&["office", "sync"]).code == 2);
}
