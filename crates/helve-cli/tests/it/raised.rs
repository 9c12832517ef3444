//! Events that agents post to a running `helve up`: with their own rights, under their own name, a few at a time.

use serde_json::{Value, json};

use crate::home::Home;
use crate::up::Up;

const PROJECT: &str = r#"
[[hooks.UserPromptSubmit]]
hooks = [{ type = "tool", tool = "file-write", input = { path = "pwned.txt", content = "${prompt}" } }]

[[hooks.Notification]]
hooks = [{ type = "command", command = "cat > told.json", write = ["."] }]

# Each leaves a mark while it runs, and writes down how many marks there are.
[[hooks.Stop]]
hooks = [{ type = "command", write = ["."], command = '''
mkdir -p running && mark=$(mktemp running/XXXXXX) && ls running | wc -l >> counts; sleep 0.4; rm "$mark"
''' }]

[[hooks.PreToolUse]]
hooks = [{ type = "command", command = "touch posed", write = ["."] }]

# A project's rule takes no limit away.
[[limits.calls]]
tool = "hook-fire"
rate = "1000000/1s"
"#;

fn served() -> (Home, Up) {
    let home = Home::new();
    home.write("helve.toml", PROJECT);
    let trusted = home.run(&["hooks", "trust", "--yes"]);
    assert_eq!(trusted.code, 0, "{}", trusted.all());
    let up = Up::start(&home);
    (home, up)
}

/// Who called what, and how it ended, oldest first.
fn recorded(up: &Up, of: &str) -> Vec<(String, String, String)> {
    let (status, records) = up.with("GET /v1/audit?limit=200", &up.token(), Value::Null);
    assert_eq!(status, 200, "{records}");
    let text = |record: &Value, name: &str| record[name].as_str().unwrap_or_default().to_owned();
    let all = records.as_array().unwrap().iter().rev();
    let who = |record: &Value| record["caller"]["principal"].as_str().unwrap_or_default().to_owned();
    let seen = all.map(|record| (who(record), text(record, "tool"), text(record, "status")));
    seen.filter(|(_, tool, _)| of.is_empty() || tool == of).collect()
}

#[test]
fn a_key_for_one_tool_runs_no_other_by_posting_an_event() {
    let (home, up) = served();
    let event = || json!({ "hook_event_name": "UserPromptSubmit", "prompt": "owned", "session_id": "s-1" });
    let pwned = home.project().join("pwned.txt");

    let narrow = up.key(&home, &["narrow", "--agent", "--tools", "math-eval"]);
    let (status, refused) = up.with("POST /v1/hooks", &narrow, event());
    assert_eq!((status, &refused["code"]), (403, &json!("not_authorized")), "{refused}");

    let raises = up.key(&home, &["raises", "--agent", "--tools", "math-eval", "--tools", "hook-fire"]);
    let (status, answer) = up.with("POST /v1/hooks", &raises, event());
    assert_eq!(status, 200, "the event is theirs to raise, its tool is not theirs to run: {answer}");
    assert!(!pwned.exists(), "neither ran file-write");

    let wide = up.key(&home, &["wide", "--agent"]);
    assert_eq!(up.with("POST /v1/hooks", &wide, event()).0, 200);
    assert_eq!(std::fs::read_to_string(&pwned).unwrap(), "owned", "a caller who may use the tool may");

    let seen = recorded(&up, "");
    let seen: Vec<_> = seen.iter().map(|(who, tool, _)| (who.as_str(), tool.as_str())).collect();
    let expected = [
        ("narrow", "hook-fire"),
        ("raises", "file-write"),
        ("raises", "hook-fire"),
        ("wide", "file-write"),
        ("wide", "hook-fire"),
    ];
    let of_them: Vec<_> =
        seen.into_iter().filter(|(who, _)| expected.iter().any(|(one, _)| one == who)).collect();
    for one in expected {
        assert!(of_them.contains(&one), "{one:?} is missing: {of_them:?}");
    }
    assert_eq!(of_them.len(), expected.len(), "{of_them:?}");
}

#[test]
fn who_an_event_is_from_is_read_from_the_key() {
    let (home, up) = served();
    let key = up.key(&home, &["scout", "--agent"]);
    let claims = json!({ "hook_event_name": "Notification", "message": "hi", "notification_type": "x",
        "session_id": "s-1", "agent_id": "root", "permission_mode": "bypassPermissions",
        "raised_by": { "principal": "local", "channel": "cli" }, "principal": "local" });
    let (status, answer) = up.with("POST /v1/hooks", &key, claims);
    assert_eq!(status, 200, "{answer}");
    let told: Value =
        serde_json::from_slice(&std::fs::read(home.project().join("told.json")).unwrap()).unwrap();
    assert_eq!((&told["agent_id"], &told["permission_mode"]), (&json!("scout"), &json!("default")), "{told}");
    assert_eq!(told["raised_by"], json!({ "principal": "scout", "kind": "agent", "channel": "http" }));
}

#[test]
fn an_event_of_helves_own_is_not_taken_from_outside() {
    let (home, up) = served();
    let key = up.key(&home, &["scout", "--agent"]);
    for event in ["PreToolUse", "PostToolUse", "PermissionRequest", "ConfigChange", "Elicitation"] {
        let body = json!({ "hook_event_name": event, "tool_name": "file-write", "tool_input": {},
            "tool_use_id": "call_1", "source": "user_settings" });
        let (status, refused) = up.with("POST /v1/hooks", &key, body);
        assert_eq!((status, &refused["code"]), (403, &json!("permission_denied")), "{event}: {refused}");
    }
    assert!(!home.project().join("posed").exists(), "no hook was told");
    assert_eq!(recorded(&up, "hook-fire").len(), 5, "and each try is in the journal");
    // The operator reports calls that another program makes, as its hook.
    let fired =
        home.run(&["hook", "fire", "PreToolUse", "--input", r#"{"tool_name": "Bash", "tool_input": {}}"#]);
    assert_eq!(fired.code, 0, "{}", fired.all());
    assert!(home.project().join("posed").exists());
}

#[test]
fn eighty_events_at_once_run_no_eighty_boxes() {
    let (home, up) = served();
    let key = up.key(&home, &["flood", "--agent"]);
    let post = || up.with("POST /v1/hooks", &key, json!({ "hook_event_name": "Stop" })).0;
    let statuses: Vec<u16> = std::thread::scope(|scope| {
        let posts: Vec<_> = (0..80).map(|_| scope.spawn(post)).collect();
        posts.into_iter().map(|post| post.join().unwrap()).collect()
    });
    let (fine, refused): (Vec<u16>, Vec<u16>) = statuses.iter().partition(|status| **status == 200);
    assert!(!fine.is_empty() && refused.iter().all(|status| *status == 429), "{statuses:?}");
    let counts = std::fs::read_to_string(home.project().join("counts")).unwrap();
    let most = counts.lines().map(|line| line.trim().parse::<u32>().unwrap()).max().unwrap();
    assert!(most <= 8, "{most} ran at once");
    assert_eq!(counts.lines().count(), fine.len(), "each that was answered ran once, and no other");
    assert_eq!(recorded(&up, "hook-fire").len(), 80);
}
