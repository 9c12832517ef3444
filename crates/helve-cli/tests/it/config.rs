//! Layers, where values came from, what is refused.

use crate::home::Home;

const PROJECT: &str = "\
[execution]
default_timeout_ms = 1000

[journal]
path = 'calls.db'
";

fn layered() -> Home {
    let home = Home::new();
    let user = home.project().join("../.config/helve");
    std::fs::create_dir_all(&user).unwrap();
    std::fs::write(
        user.join("helve.toml"),
        "[registry]\ntools_max = 50\n[execution]\ndefault_timeout_ms = 2000\n",
    )
    .unwrap();
    home.write("helve.toml", PROJECT);
    home
}

#[test]
fn show_says_where_each_value_came_from() {
    layered().settled(|home| {
        let variables = [("HELVE_REPAIR__ENABLED", "false"), ("HELVE_NET__ALLOW", "localhost,10.0.0.0/8")];
        let args = ["config", "show", "--set", "execution.max_timeout_ms=60000"];
        insta::assert_snapshot!("config_show", home.run_with(&args, &variables, b"").all());
        insta::assert_snapshot!("config_changed", home.run(&["config", "show", "--changed"]).all());
    });
    let rows = layered().json(&["config", "show", "execution.default"])["values"].take();
    assert_eq!(rows[0]["value"], 1000);
    assert_eq!(rows[0]["source"]["kind"], "file");
    assert_eq!(rows[0]["source"]["line"], 2);
}

#[test]
fn a_program_reads_the_same_remarks_as_a_person() {
    let home = Home::new();
    home.write("helve.toml", "[approvals]\nask_url = 'https://evil.example'\n");
    let ran = home.run_with(&["config", "show", "approvals", "--json"], &[("HELVE_ZZZ", "x")], b"");
    let shown: serde_json::Value = serde_json::from_str(&ran.stdout).unwrap();
    let remarks = shown["remarks"].as_array().unwrap();
    assert!(remarks[0]["found"].as_str().unwrap().contains("`HELVE_ZZZ` sets nothing"), "{shown}");
    assert!(remarks[1]["found"].as_str().unwrap().contains("`approvals.ask_url` of the project"), "{shown}");
    assert!(remarks.iter().all(|one| one["fix"].is_string()), "{shown}");
}

#[test]
fn the_project_is_found_from_below_and_not_beyond_the_repository() {
    let home = layered();
    let below = home.project().join("a/b");
    std::fs::create_dir_all(&below).unwrap();
    let path = |dir: &std::path::Path| {
        let output = home.command(&["config", "path", "--json"]).current_dir(dir).output().unwrap();
        let rows: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        rows[1]["path"].clone()
    };
    assert!(path(&below).as_str().unwrap().ends_with("project/helve.toml"));
    std::fs::create_dir(home.project().join("a/.git")).unwrap();
    assert!(path(&below).is_null());
}

#[test]
fn what_is_wrong_is_refused_with_its_place_and_a_hint() {
    let home = Home::new();
    home.write(
        "helve.toml",
        "[execution]\ndefault_timout_ms = 5\nmax_timeout_ms = 'long'\n\n[jurnal]\npath = 'x'\n",
    );
    insta::assert_snapshot!("config_problems", home.run(&["tools", "list"]).all());
    home.write("helve.toml", "[execution\n");
    insta::assert_snapshot!("config_syntax", home.run(&["tools", "list"]).all());
    home.write("helve.toml", "[net]\nallow = ['local host']\n");
    insta::assert_snapshot!("config_value", home.run(&["tools", "list"]).all());
    home.write("helve.toml", "[execution]\nmax_timeout_ms = 5\n");
    insta::assert_snapshot!("config_together", home.run(&["tools", "list"]).all());
    let home = Home::new();
    insta::assert_snapshot!("config_flag", home.run(&["tools", "list", "--set", "repair.enable=yes"]).all());
    let variables = [("HELVE_REGISTRY__TOOLS_MAX", "-1"), ("HELVE_LOG", "off"), ("HELVE_TOKEN", "x")];
    insta::assert_snapshot!("config_variable", home.run_with(&["tools", "list"], &variables, b"").all());
    insta::assert_snapshot!("config_missing", home.run(&["--config", "nowhere.toml", "tools", "list"]).all());
}

#[test]
fn a_configuration_that_is_no_file_is_an_error() {
    use rustix::fs::{CWD, Mode, mkfifoat};
    for why in ["leads to no file", "is a folder", "not a regular file"] {
        for place in ["helve.toml", "../.config/helve/helve.toml"] {
            let home = Home::new();
            let path = home.project().join(place);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            match why {
                "leads to no file" => std::os::unix::fs::symlink("nowhere", &path).unwrap(),
                "is a folder" => std::fs::create_dir(&path).unwrap(),
                _ => mkfifoat(CWD, &path, Mode::RUSR | Mode::WUSR).unwrap(),
            }
            let ran = home.run(&["tools", "list"]);
            assert_eq!(ran.code, 2, "{why}: {}", ran.all());
            assert!(ran.stderr.contains(why), "{}", ran.stderr);
        }
    }
}

#[test]
fn what_the_configuration_names_in_vain_is_remarked() {
    let home = Home::new();
    let args = ["tools", "list", "--set", "builtin.without=tme-now"];
    let ran = home.run_with(&args, &[("HELVE_JOURNAL_PATH", "x")], b"");
    insta::assert_snapshot!("config_in_vain", ran.stderr);
    assert_eq!(home.run(&[&args[..], &["--quiet"]].concat()).stderr, "");
}

#[test]
fn a_filter_that_nothing_matches_is_said() {
    let home = Home::new();
    for args in [["config", "keys", "zzz"], ["config", "show", "zzz"]] {
        let ran = home.run(&args);
        assert_eq!((ran.code, ran.stdout.as_str()), (0, ""));
        assert_eq!(ran.stderr, "nothing matches `zzz`; `helve config keys` lists every key\n");
    }
    assert_eq!(home.run(&["config", "show", "--changed"]).stderr, "no value differs from its default\n");
}

#[test]
fn errors_are_json_where_json_is_asked_for() {
    let home = Home::new();
    let ran = home.run(&["tools", "list", "--json", "--set", "nothing"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (2, ""));
    let error: serde_json::Value = serde_json::from_str(&ran.stderr).unwrap();
    assert_eq!(error["error"]["message"], "`--set nothing` has no `=`");
}

#[test]
fn keys_and_schema_describe_every_key() {
    let home = Home::new();
    insta::assert_snapshot!("config_keys", home.run(&["config", "keys", "execution"]).all());
    let keys = home.json(&["config", "keys"]);
    assert!(keys.as_array().unwrap().iter().any(|section| section["header"] == "[[tool.program]]"));
    let schema = home.json(&["config", "schema"]);
    assert_eq!(schema["additionalProperties"], false);
    assert!(schema["properties"]["execution"].is_object());
}

#[test]
fn what_a_key_takes_is_said_in_words_of_toml() {
    let home = Home::new();
    home.write(
        "helve.toml",
        "[[tool.program]]\nname = 'x'\ndescription = 'y'\ncommand = 'z'\nmemory_mb = 'much'\n",
    );
    let ran = home.run(&["tools", "list"]);
    assert!(ran.stderr.contains("memory_mb`: expected integer, received \"much\""), "{}", ran.stderr);
}
