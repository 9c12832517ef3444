//! `helve keys`, and a running `helve up` that lets in whoever has one.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::home::Home;

/// A `helve up`, ended with the test.
struct Up {
    child: Child,
    address: String,
    told: Value,
}

impl Drop for Up {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Up {
    fn start(home: &Home) -> Self {
        let mut command = home.command(&["up", "--listen", "127.0.0.1:0", "--json"]);
        let child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let mut up = Self { child, address: String::new(), told: Value::Null };
        let mut text = String::new();
        for line in BufReader::new(up.child.stdout.take().unwrap()).lines() {
            text.push_str(&line.unwrap());
            let documents = serde_json::Deserializer::from_str(&text).into_iter::<Value>();
            if let Some(told) = documents.flatten().find(|document| document["listening"].is_string()) {
                up.address = told["listening"].as_str().unwrap().to_owned();
                up.told = told;
                return up;
            }
        }
        panic!("it does not listen: {text}");
    }

    /// Status, headers and body.
    fn send(&self, line: &str, headers: &[(&str, &str)], body: &Value) -> (u16, String, Value) {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let mut text = format!(
            "{line} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\nContent-Type: application/json\r\nContent-Length: {}\r\n",
            self.address,
            body.len()
        );
        headers.iter().for_each(|(name, value)| text.push_str(&format!("{name}: {value}\r\n")));
        write!(stream, "{text}\r\n{body}").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        (status, head.to_owned(), serde_json::from_str(body).unwrap_or_default())
    }

    fn with(&self, line: &str, key: &str, body: Value) -> (u16, Value) {
        let (status, _, body) = self.send(line, &[("Authorization", &format!("Bearer {key}"))], &body);
        (status, body)
    }
}

#[test]
fn a_key_is_shown_once_and_comes_in_until_it_is_revoked() {
    let home = Home::new();
    let up = Up::start(&home);
    let made = home.json(&["keys", "create", "ci", "--service", "--tools", "math-eval", "--expires", "90d"]);
    let (id, key) = (made["id"].as_str().unwrap(), made["key"].as_str().unwrap());
    let listed = home.json(&["keys", "list"]);
    assert_eq!((&listed[0]["id"], &listed[0]["kind"]), (&json!(id), &json!("service")));
    let (_, secret) = key.rsplit_once('_').unwrap();
    let everything = format!("{listed}{}", home.json(&["audit", "list"]));
    assert!(!everything.contains(secret) && everything.contains("keys create"), "{everything}");
    assert!(!listed.to_string().contains("digest"), "{listed}");
    let call = || json!({ "tool": "math-eval", "arguments": { "expression": "6*7" } });
    let until = Instant::now() + Duration::from_secs(10);
    let (status, answer) = loop {
        let answered = up.with("POST /v1/calls", key, call());
        if answered.0 != 401 || Instant::now() > until {
            break answered;
        }
    };
    assert_eq!((status, &answer["result"]["value"]), (200, &json!(42)), "{answer}");
    let (status, _) = up.with("POST /v1/calls", key, json!({ "tool": "time-now" }));
    assert!(matches!(status, 403 | 404), "{status}");
    let (_, own) = up.with("GET /v1/audit", key, Value::Null);
    assert!(own.as_array().unwrap().iter().all(|one| one["caller"]["principal"] == "ci"), "{own}");
    let (_, record) =
        up.with(&format!("GET /v1/audit/{}", answer["call_id"].as_str().unwrap()), key, Value::Null);
    assert_eq!(
        (&record["status"], &record["caller"]["channel"]),
        (&json!("done"), &json!("http")),
        "{record}"
    );
    let foreign =
        home.json(&["audit", "list", "--principal", "local"])[0]["call_id"].as_str().unwrap().to_owned();
    assert_eq!(up.with(&format!("GET /v1/audit/{foreign}"), key, Value::Null).0, 404);
    assert_eq!(home.run(&["keys", "revoke", id]).code, 0);
    std::thread::sleep(Duration::from_secs(1));
    assert_eq!(up.with("POST /v1/calls", key, call()).0, 401, "a second later");
    assert_eq!(home.json(&["keys", "list"]), json!([]));
    let all = home.json(&["keys", "list", "--all"]);
    let states: Vec<_> = all.as_array().unwrap().iter().map(|key| key["state"].clone()).collect();
    assert_eq!(states, ["revoked", "live"], "the older one is the code of `helve up`");
}

#[test]
fn the_link_of_helve_up_signs_its_person_in_once() {
    let home = Home::new();
    let up = Up::start(&home);
    let token = std::fs::read_to_string(up.told["token_file"].as_str().unwrap()).unwrap();
    let (place, code) = up.told["sign_in"].as_str().unwrap().split_once('#').unwrap();
    assert_eq!(place, format!("http://{}/sign-in", up.address));
    let (status, head, me) = up.send("POST /sign-in", &[], &json!({ "code": code }));
    assert_eq!((status, &me["purpose"]), (200, &json!("decide")), "{me}");
    assert_eq!(up.send("POST /sign-in", &[], &json!({ "code": code })).0, 401);
    let cookie = head.lines().find_map(|line| line.strip_prefix("set-cookie: ")).unwrap();
    let cookie = cookie.split(';').next().unwrap().to_owned();
    let (status, pending) = up.with("POST /v1/calls", token.trim(), json!({ "tool": "math-eval", "arguments": { "expression": "1" }, "advice": { "action": "request_approval" } }));
    assert_eq!(status, 202, "{pending}");
    let line = format!("POST /v1/approvals/{}/decision", pending["approval_id"].as_str().unwrap());
    let approve = json!({ "decision": "approve" });
    assert_eq!(up.with(&line, token.trim(), approve.clone()).0, 403, "the caller's token decides nothing");
    assert_eq!(up.send(&line, &[("Cookie", &cookie)], &approve).0, 403, "without its token against forgery");
    let csrf = me["csrf"].as_str().unwrap();
    let (status, _, decided) = up.send(&line, &[("Cookie", &cookie), ("X-Helve-CSRF", csrf)], &approve);
    assert_eq!((status, &decided["state"]), (200, &json!("approved")), "{decided}");
    let by = decided["ruling"]["by"].as_str().unwrap();
    assert!(by.starts_with("local user"), "{by}");
    let another = home.json(&["keys", "sign-in"]);
    assert!(another["link"].as_str().unwrap().starts_with(place), "{another}");
}

#[test]
fn what_no_key_can_be_is_refused() {
    let home = Home::new();
    for args in [
        &["keys", "create", "local"][..],
        &["keys", "create", ""],
        &["keys", "create", "ada", "--approver", "--tools", "x"],
        &["keys", "create", "ada", "--approver", "--agent"],
        &["keys", "create", "ada", "--expires", "-3d"],
        &["keys", "create", "ada", "--expires", "soon"],
        &["keys", "revoke", "key_01ARZ3NDEKTSV4RRFFQ69G5FAV"],
        &["keys", "revoke", "x"],
    ] {
        assert_eq!(home.run(args).code, 2, "{args:?}");
    }
    let ran = home.run_with(&["keys", "create", "x"], &[("HELVE_CALL_ID", "call_1")], b"");
    assert!(ran.code == 2 && ran.stderr.contains("a tool does not make keys"), "{}", ran.stderr);
    assert_eq!(home.json(&["keys", "list"]), json!([]));
}
