//! `helve keys`, and a running `helve up` that lets in callers that have one.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::home::Home;
use crate::up::Up;

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
    let revoked = Instant::now();
    while up.with("POST /v1/calls", key, call()).0 != 401 {
        assert!(
            revoked.elapsed() < Duration::from_secs(2),
            "it is good for half a second more, and no longer"
        );
    }
    assert_eq!(home.json(&["keys", "list"]), json!([]));
    let listed = home.run(&["keys", "list"]);
    assert!(listed.stderr.contains("no key is good any more"), "{}", listed.all());
    let all = home.json(&["keys", "list", "--all"]);
    let states: Vec<_> = all.as_array().unwrap().iter().map(|key| key["state"].clone()).collect();
    assert_eq!(states, ["revoked"], "no code is made that nobody is shown");
}

#[test]
fn a_link_to_helve_up_signs_its_person_in_once() {
    let home = Home::new();
    let up = Up::start(&home);
    let token = std::fs::read_to_string(up.told["token_file"].as_str().unwrap()).unwrap();
    let made = home.json(&["keys", "sign-in"]);
    let (place, code) = made["link"].as_str().unwrap().split_once('#').unwrap();
    assert_eq!(place, format!("http://{}/sign-in", up.address));
    let (status, head, me) = up.send("POST /sign-in", &[], &json!({ "code": code }));
    assert_eq!((status, &me["purpose"]), (200, &json!("decide")), "{me}");
    assert_eq!(up.send("POST /sign-in", &[], &json!({ "code": code })).0, 401);
    let cookie = head.lines().find_map(|line| line.strip_prefix("set-cookie: ")).unwrap();
    let cookie = cookie.split(';').next().unwrap().to_owned();
    let (status, pending) = up.with("POST /v1/calls", token.trim(), json!({ "tool": "math-eval", "arguments": { "expression": "1" }, "advice": { "action": "request_approval" } }));
    assert_eq!(status, 202, "{pending}");
    let path = format!("/v1/approvals/{}/decision", pending["approval_id"].as_str().unwrap());
    let (line, approve) = (format!("POST {path}"), json!({ "decision": "approve" }));
    assert_eq!(up.with(&line, token.trim(), approve.clone()).0, 403, "the caller's token decides nothing");
    let csrf = me["csrf"].as_str().unwrap();
    let both = [("Cookie", &*cookie), ("X-Helve-CSRF", csrf)];
    assert_eq!(up.send(&line, &both, &approve).0, 401, "not at its place");
    let line = format!("POST {}{path}", me["place"].as_str().unwrap());
    assert_eq!(up.send(&line, &[("Cookie", &cookie)], &approve).0, 403, "without its token against forgery");
    let (status, _, decided) = up.send(&line, &both, &approve);
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
        &["keys", "create", "ada "],
        &["keys", "create", "ada\u{200b}"],
        &["keys", "create", "ad\u{430}"],
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

#[test]
fn a_key_is_revoked_by_its_name_where_one_has_it() {
    let home = Home::new();
    for _ in 0..2 {
        assert_eq!(home.run(&["keys", "create", "cron"]).code, 0);
    }
    assert_eq!(home.run(&["keys", "create", "ada"]).code, 0);
    assert_eq!(home.run(&["keys", "revoke", "ada"]).code, 0);
    let several = home.run(&["keys", "revoke", "cron"]);
    assert!(several.code == 2 && several.stderr.contains("2 keys have the name `cron`"), "{}", several.all());
    assert_eq!(several.stderr.matches("helve keys revoke ").count(), 2, "{}", several.all());
    let id = home.json(&["keys", "list"])[0]["id"].as_str().unwrap().to_owned();
    assert_eq!(home.run(&["keys", "revoke", &id]).code, 0);
    assert_eq!(home.run(&["keys", "revoke", "cron"]).code, 0, "one is left");
    assert_eq!(home.json(&["keys", "list"]), json!([]));
    // Who is not good any more is not meant by a name.
    assert_eq!(home.run(&["keys", "revoke", "ada"]).code, 2);
}
