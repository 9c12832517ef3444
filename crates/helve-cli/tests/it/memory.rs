//! Memory as people see and change it.

use serde_json::json;

use crate::home::Home;

#[test]
fn values_are_set_seen_and_forgotten() {
    let home = Home::new();
    let set = home.json(&["memory", "set", "plan", r#"{"step": 2}"#]);
    assert_eq!((&set["key"], &set["value"]), (&json!("plan"), &json!({ "step": 2 })));
    // What is no JSON is text.
    assert_eq!(home.json(&["memory", "set", "name", "Ada Lovelace"])["value"], json!("Ada Lovelace"));
    assert_eq!(home.json(&["memory", "set", "count", "-3"])["value"], json!(-3));
    assert_eq!(home.json(&["memory", "get", "plan"])["value"], json!({ "step": 2 }));
    assert_eq!(home.run(&["memory", "get", "name"]).stdout, "\"Ada Lovelace\"\n");
    let keys = |args: &[&str]| {
        let listed = home.json(&[&["memory", "list"], args].concat());
        listed
            .as_array()
            .unwrap()
            .iter()
            .map(|one| one["key"].as_str().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(keys(&[]), ["count", "name", "plan"]);
    assert_eq!(keys(&["--prefix", "p"]), ["plan"]);
    assert_eq!(keys(&["-n", "1"]), ["count"]);
    assert_eq!(home.json(&["memory", "delete", "plan"])["deleted"], json!(true));
    assert_eq!(home.json(&["memory", "delete", "plan"])["deleted"], json!(false));
    assert_eq!(home.run(&["memory", "get", "plan"]).code, 1);
    home.settled(|home| insta::assert_snapshot!("list", home.run(&["memory", "list"]).all()));
}

#[test]
fn scopes_and_owners_are_apart() {
    let home = Home::new();
    home.run(&["memory", "set", "k", "1", "--session", "s", "--agent", "a"]);
    let found = |args: &[&str]| home.run(&[&["memory", "get", "k"], args].concat()).code == 0;
    assert!(found(&["--session", "s"]), "a session's agents share its memory");
    for others in
        [&["--session", "t"][..], &[], &["--session", "s", "--principal", "b"], &["--scope", "long-term"]]
    {
        assert!(!found(others), "{others:?}");
    }
    assert_eq!(home.run(&["memory", "list", "--scope", "working"]).code, 2);
}

#[test]
fn a_version_and_a_time_can_be_asked_for() {
    let home = Home::new();
    let first = home.json(&["memory", "set", "k", "1", "--if-version", "0"])["version"].to_string();
    let conflict = home.run(&["memory", "set", "k", "2", "--if-version", "0"]);
    assert_eq!(conflict.code, 1);
    assert!(conflict.stderr.contains("the value has changed"), "{}", conflict.all());
    assert_eq!(home.run(&["memory", "set", "k", "2", "--if-version", &first]).code, 0);
    assert_eq!(home.run(&["memory", "delete", "k", "--if-version", &first]).code, 1);
    assert!(home.json(&["memory", "set", "k", "3", "--ttl", "7d"])["expires_at"].is_string());
    for wrong in ["soon", "0s", "-1h"] {
        assert_eq!(home.run(&["memory", "set", "k", "3", &format!("--ttl={wrong}")]).code, 2, "{wrong}");
    }
    home.run(&["memory", "set", "k", "3", "--ttl", "1ms"]);
    std::thread::sleep(std::time::Duration::from_millis(5));
    assert_eq!(home.run(&["memory", "get", "k"]).code, 1);
}

#[test]
fn keys_of_the_runtime_are_its_own() {
    let home = Home::new();
    let ran = home.run(&["memory", "set", "helve/completed/time-now", "true"]);
    assert_eq!(ran.code, 2);
    assert!(ran.stderr.contains("the runtime's own"), "{}", ran.all());
    assert_eq!(home.run(&["memory", "set", "", "1"]).code, 2);
}
