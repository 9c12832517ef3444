//! Tokens of an issuer, at a real `helve up`. What proves a refusal is the file that no tool wrote.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use jiff::Timestamp;
use ring::hmac;
use ring::rand::SystemRandom;
use ring::signature::{Ed25519KeyPair, KeyPair};
use serde_json::{Value, json};

use crate::home::Home;
use crate::up::Up;

const TOOLS: &str = r#"
[[tool.program]]
name = "deed"
description = "Leaves a line."
when_to_use = "In tests."
command = "sh"
write = ["."]
args = ["-c", "cat >> deeds; echo '{}'"]
risk = "low"
parameters = [{ name = "n", type = "integer", description = "Which.", required = true }]

[[tool.program]]
name = "grave"
description = "Leaves a line, if a person agrees."
when_to_use = "In tests."
command = "sh"
write = ["."]
args = ["-c", "cat >> deeds; echo '{}'"]
risk = "high"
parameters = [{ name = "n", type = "integer", description = "Which.", required = true }]
"#;

fn base64(bytes: impl AsRef<[u8]>) -> String {
    BASE64_URL_SAFE_NO_PAD.encode(bytes)
}

/// Somebody who signs, and publishes what a test puts there.
struct Issuer {
    url: String,
    pair: Ed25519KeyPair,
    /// None: it answers nothing.
    keys: Arc<Mutex<Option<Value>>>,
    asked: Arc<Mutex<Vec<String>>>,
}

fn pair() -> Ed25519KeyPair {
    let document = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).unwrap();
    Ed25519KeyPair::from_pkcs8(document.as_ref()).unwrap()
}

fn jwk(pair: &Ed25519KeyPair, id: &str) -> Value {
    json!({ "kty": "OKP", "crv": "Ed25519", "kid": id, "x": base64(pair.public_key()) })
}

fn signed(pair: &Ed25519KeyPair, header: &Value, claims: &Value) -> String {
    let text = format!("{}.{}", base64(header.to_string()), base64(claims.to_string()));
    format!("{text}.{}", base64(pair.sign(text.as_bytes())))
}

impl Issuer {
    fn open() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let (pair, asked) = (pair(), Arc::new(Mutex::new(Vec::new())));
        let keys = Arc::new(Mutex::new(Some(json!({ "keys": [jwk(&pair, "a")] }))));
        let (published, heard, own) = (Arc::clone(&keys), Arc::clone(&asked), url.clone());
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let mut reader = BufReader::new(stream);
                let mut lines = Vec::new();
                let mut line = String::new();
                while reader.read_line(&mut line).is_ok_and(|read| read > 2) {
                    lines.push(std::mem::take(&mut line));
                }
                let Some(first) = lines.first().cloned() else { continue };
                heard.lock().unwrap().push(lines.concat());
                let body = match (first.contains("openid-configuration"), &*published.lock().unwrap()) {
                    (_, None) => continue,
                    (true, Some(_)) => json!({ "issuer": own, "jwks_uri": format!("{own}/keys") }),
                    (false, Some(keys)) => keys.clone(),
                }
                .to_string();
                let _ = write!(
                    reader.get_mut(),
                    "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{body}",
                    body.len()
                );
            }
        });
        Self { url, pair, keys, asked }
    }

    fn claims(&self) -> Value {
        let now = Timestamp::now().as_second();
        json!({ "iss": self.url, "aud": "helve", "sub": "ada", "exp": now + 300, "roles": [] })
    }

    fn token(&self, claims: &Value) -> String {
        signed(&self.pair, &json!({ "alg": "EdDSA", "kid": "a" }), claims)
    }

    /// A home whose user trusts this issuer.
    fn home(&self) -> Home {
        let home = Home::new();
        let folder = home.project().parent().unwrap().join(".config/helve");
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("helve.toml"), self.section()).unwrap();
        home.write("helve.toml", TOOLS);
        home
    }

    fn section(&self) -> String {
        format!(
            "[identity.jwt]\nissuer = '{}'\naudience = 'helve'\nroles_claim = 'roles'\napprover_role = 'gatekeeper'\n",
            self.url
        )
    }
}

fn deeds(home: &Home) -> usize {
    std::fs::read_to_string(home.project().join("deeds")).map_or(0, |text| text.lines().count())
}

fn set(mut claims: Value, name: &str, value: Value) -> Value {
    claims[name] = value;
    claims
}

#[test]
fn a_token_calls_as_its_principal_and_one_that_lies_reaches_no_tool() {
    let issuer = Issuer::open();
    let home = issuer.home();
    let up = Up::start(&home);
    let good = issuer.token(&issuer.claims());
    let (status, answer) = up.call(&good, "deed", json!({ "n": 1 }));
    assert_eq!((status, deeds(&home)), (200, 1), "{answer}");
    let record = &home.json(&["audit", "list", "--tool", "deed"])[0];
    assert_eq!(record["caller"]["principal"], "ada", "{record}");

    let now = Timestamp::now().as_second();
    let (claims, stranger) = (issuer.claims(), pair());
    let header = |alg: &str, kid: &str| json!({ "alg": alg, "kid": kid });
    let text = |header: Value| format!("{}.{}", base64(header.to_string()), base64(claims.to_string()));
    // The issuer's public key as the shared secret of HMAC: the old confusion.
    let confused = text(header("HS256", "a"));
    let secret = hmac::Key::new(hmac::HMAC_SHA256, issuer.pair.public_key().as_ref());
    let confused = format!("{confused}.{}", base64(hmac::sign(&secret, confused.as_bytes())));
    let own_key = json!({ "alg": "EdDSA", "kid": "b", "jwk": jwk(&stranger, "b"), "jku": "http://evil.example/k",
        "x5u": "http://evil.example/c" });
    let mut lies = vec![
        issuer.token(&set(claims.clone(), "aud", json!("other"))),
        issuer.token(&set(claims.clone(), "iss", json!("http://evil.example"))),
        issuer.token(&set(claims.clone(), "exp", json!(now - 60))),
        issuer.token(&set(claims.clone(), "nbf", json!(now + 600))),
        issuer.token(&set(claims.clone(), "sub", json!("local"))),
        format!("{}.", text(json!({ "alg": "none" }))),
        format!("{}.", text(header("none", "a"))),
        confused,
        signed(&stranger, &header("EdDSA", "a"), &claims),
        signed(&stranger, &own_key, &claims),
        good[..good.len() - 4].to_owned(),
    ];
    // A key's id is compared, and never looked up anywhere.
    for kid in
        ["../../../../dev/null", "/etc/passwd", "http://evil.example/k", "' OR '1'='1", "a\0b", "A", ""]
    {
        lies.push(signed(&stranger, &header("EdDSA", kid), &claims));
    }
    for lie in &lies {
        let (status, answer) = up.call(lie, "deed", json!({ "n": 2 }));
        assert_eq!(status, 401, "{lie}: {answer}");
        assert!(!answer.to_string().contains("kid") && !answer.to_string().contains("expired"), "{answer}");
        let (status, _, _) = up.send("POST /sign-in", &[], &json!({ "code": lie }));
        assert_eq!(status, 401, "no cookie for it either");
    }
    assert_eq!(deeds(&home), 1);
    let asked = issuer.asked.lock().unwrap();
    assert!(asked.len() <= 4, "strangers make few requests: {asked:?}");
    assert!(
        asked.iter().all(|asked| !asked.contains(&good) && !asked.to_lowercase().contains("authorization"))
    );
}

/// Behind a proxy, with scopes: what a token is for is asked at every door.
#[test]
fn a_token_for_something_else_reaches_no_tool_by_any_door() {
    let issuer = Issuer::open();
    let home = issuer.home();
    let resource = "https://helve.example.com/mcp";
    let section = format!(
        "[identity.jwt]\nissuer = '{}'\nresource = '{resource}'\n[identity.jwt.scopes.calls]\ntools = ['deed']\n",
        issuer.url
    );
    std::fs::write(home.project().parent().unwrap().join(".config/helve/helve.toml"), section).unwrap();
    let up = Up::start(&home);
    let metadata = |host: &str| {
        let line = "GET /.well-known/oauth-protected-resource/mcp";
        up.send(line, &[("Host", host)], &Value::Null)
    };
    assert_eq!(metadata("helve.example.com").2["resource"], resource, "by the name that clients know");
    assert_eq!(metadata("evil.example.com").0, 403);

    let claims = set(set(issuer.claims(), "aud", json!(resource)), "scope", json!("calls"));
    let now = Timestamp::now().as_second();
    let token = |name: &str, value: Value| issuer.token(&set(claims.clone(), name, value));
    let stranger = signed(&pair(), &json!({ "alg": "EdDSA", "kid": "a" }), &claims);
    let mut doors = vec![];
    for path in
        ["/mcp", "/mcp/sse", "/mcp/sse/message?sessionId=x", "/mcp/ws", "/v1/calls", "/v1/hooks", "/v1/tools"]
    {
        doors.extend(["POST", "GET", "DELETE"].map(|method| format!("{method} {path}")));
    }
    let call = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "tool": "deed", "arguments": { "n": 1 },
        "params": { "name": "deed", "arguments": { "n": 1 } } });
    for (why, token, status, error) in [
        ("another audience", token("aud", json!("https://other.example.com/mcp")), 401, "invalid_token"),
        ("the audience of before", token("aud", json!("helve")), 401, "invalid_token"),
        ("another issuer", token("iss", json!("https://evil.example.com")), 401, "invalid_token"),
        ("expired", token("exp", json!(now - 60)), 401, "invalid_token"),
        ("another's key", stranger, 401, "invalid_token"),
        ("no scope", token("scope", json!("")), 403, "insufficient_scope"),
        ("another scope", token("scope", json!("openid reads")), 403, "insufficient_scope"),
    ] {
        for door in &doors {
            let bearer = format!("Bearer {token}");
            let (got, head, _) = up.send(door, &[("Authorization", &bearer)], &call);
            assert_eq!(got, status, "{why} {door}: {head}");
            let expected = format!(
                "www-authenticate: Bearer realm=\"helve\", error=\"{error}\", scope=\"calls\", \
                 resource_metadata=\"https://helve.example.com/.well-known/oauth-protected-resource/mcp\""
            );
            assert!(head.contains(&expected), "{why} {door}: {head}");
        }
    }
    assert_eq!(deeds(&home), 0);
    let good = issuer.token(&claims);
    assert_eq!(up.call(&good, "deed", json!({ "n": 1 })).0, 200);
    assert!(matches!(up.call(&good, "grave", json!({ "n": 1 })).0, 403 | 404), "beyond its scope");
    assert_eq!(deeds(&home), 1);
}

#[test]
fn an_issuer_that_is_down_lets_nobody_in_until_it_is_back() {
    let issuer = Issuer::open();
    let keys = issuer.keys.lock().unwrap().take();
    let home = issuer.home();
    let up = Up::start(&home);
    let token = issuer.token(&issuer.claims());
    assert_eq!(up.call(&token, "deed", json!({ "n": 1 })).0, 401);
    assert_eq!(deeds(&home), 0);
    // A caller with another secret comes in meanwhile.
    assert_eq!(up.call(&up.token(), "deed", json!({ "n": 2 })).0, 200);
    *issuer.keys.lock().unwrap() = keys;
    let until = Instant::now() + Duration::from_secs(30);
    while up.call(&token, "deed", json!({ "n": 3 })).0 != 200 {
        assert!(Instant::now() < until, "it is never asked again");
        std::thread::sleep(Duration::from_millis(100));
    }
    assert_eq!(deeds(&home), 2);
}

#[test]
fn who_the_issuer_says_decides_calls_nothing_and_not_about_themselves() {
    let issuer = Issuer::open();
    let home = issuer.home();
    let up = Up::start(&home);
    let caller = issuer.token(&issuer.claims());
    let deciding = |name: &str| {
        let claims = set(set(issuer.claims(), "sub", json!(name)), "roles", json!(["gatekeeper"]));
        issuer.token(&claims)
    };
    let (status, asked) = up.call(&caller, "grave", json!({ "n": 1 }));
    assert_eq!(status, 202, "{asked}");
    let line = format!("POST /v1/approvals/{}/decision", asked["approval_id"].as_str().unwrap());
    let approve = || json!({ "decision": "approve" });
    assert_eq!(up.with(&line, &caller, approve()).0, 403, "a caller's token");
    assert_eq!(up.with(&line, &deciding("ada"), approve()).0, 403, "the same principal with the role");
    assert_eq!(up.call(&deciding("grace"), "deed", json!({ "n": 2 })).0, 403, "one who decides");
    assert_eq!(up.call(&caller, "grave", json!({ "n": 1 })).0, 202);
    assert_eq!(deeds(&home), 0);
    assert_eq!(up.with(&line, &deciding("grace"), approve()).0, 200);
    assert_eq!(up.call(&caller, "grave", json!({ "n": 1 })).0, 200);
    assert_eq!(deeds(&home), 1);
}

/// What lasts longer than a request ends with the token that it was begun with.
#[test]
fn a_stream_ends_with_its_token() {
    let issuer = Issuer::open();
    let home = issuer.home();
    let up = Up::start(&home);
    let soon = Timestamp::now().as_second() + 4;
    let token = issuer.token(&set(issuer.claims(), "exp", json!(soon)));
    let mut socket = TcpStream::connect(&up.address).unwrap();
    write!(
        socket,
        "GET /mcp/ws HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {token}\r\nConnection: upgrade\r\n\
         Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Protocol: mcp\r\n\
         Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n",
        up.address
    )
    .unwrap();
    let mut reader = BufReader::new(socket.try_clone().unwrap());
    let mut heard = String::new();
    while !heard.ends_with("\r\n\r\n") && reader.read_line(&mut heard).unwrap() > 0 {}
    assert!(heard.contains(" 101 "), "{heard}");
    // A frame with a mask of zeros, which masks nothing.
    let say = |message: Value| {
        let text = message.to_string();
        let length = u16::try_from(text.len()).unwrap().to_be_bytes();
        (&socket).write_all(&[&[0x81, 0xfe], length.as_slice(), &[0; 4], text.as_bytes()].concat())
    };
    let hello = json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": { "name": "t", "version": "1" } });
    say(json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello })).unwrap();
    say(json!({ "jsonrpc": "2.0", "method": "notifications/initialized" })).unwrap();
    let call = |id: i64| {
        let params = json!({ "name": "deed", "arguments": { "n": id } });
        say(json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params }))
    };
    call(2).unwrap();
    let until = Instant::now() + Duration::from_secs(20);
    while deeds(&home) != 1 {
        assert!(Instant::now() < until, "it never ran");
        std::thread::sleep(Duration::from_millis(20));
    }
    while Timestamp::now().as_second() <= soon {
        std::thread::sleep(Duration::from_millis(100));
    }
    // It may be gone already.
    let _ = call(3);
    let mut rest = Vec::new();
    reader.get_ref().set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    let ended = reader.read_to_end(&mut rest);
    assert!(ended.is_ok() || ended.is_err_and(|error| error.kind() != std::io::ErrorKind::WouldBlock));
    assert_eq!(deeds(&home), 1, "nothing runs for a token that is over");
}

/// A folder that somebody cloned does not say who may come in.
#[test]
fn a_project_names_no_issuer() {
    let issuer = Issuer::open();
    let home = Home::new();
    home.write("helve.toml", format!("{}{TOOLS}", issuer.section()));
    let up = Up::start(&home);
    let token = issuer.token(&issuer.claims());
    assert_eq!(up.call(&token, "deed", json!({ "n": 1 })).0, 401);
    assert_eq!(deeds(&home), 0);
    assert!(issuer.asked.lock().unwrap().is_empty());
    drop(up);
    // A user who names the file has seen it.
    let up = Up::start_with(&home, &["--config", "helve.toml"]);
    assert_eq!(up.call(&token, "deed", json!({ "n": 1 })).0, 200);
    assert_eq!(deeds(&home), 1);
}
