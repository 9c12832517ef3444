//! The file tools from the outside: roots of the configuration, and undo across processes.

use serde_json::json;

use crate::home::Home;

#[test]
fn a_file_is_written_read_and_the_writing_undone() {
    let home = Home::new();
    home.write("helve.toml", "").write("notes.txt", "before\n");
    let written = home.json(&["call", "file:write", "path=notes.txt", "content=after\n", "overwrite=true"]);
    assert_eq!(written["result"]["bytesWritten"], 6, "{written}");
    assert_eq!(home.json(&["call", "file-read", "path=notes.txt"])["result"]["content"], "after\n");
    let id = written["call_id"].as_str().unwrap();
    let undone = home.run(&["runs", "undo", id]);
    assert_eq!(undone.code, 0, "{}", undone.all());
    assert_eq!(std::fs::read_to_string(home.project().join("notes.txt")).unwrap(), "before\n");

    let made = home.json(&["call", "file-write", "path=new.txt", "content=x"]);
    let undone = home.run(&["runs", "undo", made["call_id"].as_str().unwrap()]);
    assert_eq!(undone.code, 0, "{}", undone.all());
    assert!(!home.project().join("new.txt").exists());
}

#[test]
fn an_undo_refuses_where_the_file_has_changed_and_says_so() {
    let home = Home::new();
    home.write("helve.toml", "").write("a.txt", "one\n");
    let edits = r#"edits:=[{ "old": "one", "new": "two" }]"#;
    let edited = home.json(&["call", "file-edit", "path=a.txt", edits]);
    home.write("a.txt", "three\n");
    let id = edited["call_id"].as_str().unwrap();
    let refused = home.run(&["runs", "undo", id]);
    assert_eq!(refused.code, 1, "{}", refused.all());
    assert_eq!(std::fs::read_to_string(home.project().join("a.txt")).unwrap(), "three\n");
    let story = home.run(&["runs", "show", id]);
    assert!(story.stdout.contains("was changed since, so it is left as it is"), "{}", story.all());
}

#[test]
fn what_goes_wrong_is_told_with_a_way_out() {
    let home = Home::new();
    home.write("helve.toml", "").write("a.txt", "x");
    home.settled(|home| {
        let said = [
            home.run(&["call", "file-write", "path=a.txt", "content=y"]),
            home.run(&["call", "file-read", "path=../secret"]),
            home.run(&["call", "file-read", "path=/etc/passwd"]),
            home.run(&["call", "file-read", "path=b.txt"]),
            home.run(&["call", "file-write", "path=helve.toml", "content=", "overwrite=true"]),
            home.run(&["call", "file-read", "path=.helve/helve.db"]),
        ];
        let said: Vec<_> = said.iter().map(crate::home::Ran::all).collect();
        insta::assert_snapshot!("files_refused", said.join("\n\n"));
    });
}

#[test]
fn roots_start_at_the_file_that_names_them_and_may_be_read_only() {
    let home = Home::new();
    home.write(
        "helve.toml",
        "[files]\nroots = ['work', { path = 'library', read_only = true }]\nread_bytes = 2000\n",
    );
    for folder in ["work", "library", "elsewhere"] {
        std::fs::create_dir(home.project().join(folder)).unwrap();
    }
    home.write("library/book.txt", "text\n".repeat(1_000));
    let mut command = home.command(&["call", "file-write", "path=a.txt", "content=x", "--json"]);
    assert!(command.current_dir(home.project().join("elsewhere")).status().unwrap().success());
    assert!(home.project().join("work/a.txt").exists());
    let book = home.json(&["call", "file-read", "path=book.txt"])["result"].clone();
    assert_eq!((&book["length"], &book["next"]), (&json!(2_000), &json!({ "start_line": 401 })));
    let refused = home.run(&["call", "file-write", "path=book.txt", "content=x", "overwrite=true"]);
    assert!(refused.stderr.contains("only for reading"), "{}", refused.all());
    assert_eq!(refused.code, 4, "{}", refused.all());
    let refused = home.run(&["call", "file-read", "path=helve.toml"]);
    assert!(refused.stderr.contains("there is no file"), "{}", refused.all());
}

#[test]
fn file_tools_can_be_left_out() {
    let home = Home::new();
    let has = |file: &str, tool: &str| {
        home.write("helve.toml", file);
        home.run(&["tools", "list"]).stdout.contains(tool)
    };
    assert!(has("", "file-write"));
    assert!(!has("[builtin]\nwithout = ['file-write']\n", "file-write"));
    assert!(has("[builtin]\nwithout = ['file-write']\n", "file-read"));
    assert!(!has("[files]\nroots = []\n", "file-"));
    assert!(!has("[builtin]\nwithout = ['*']\n", "file-"));
    home.write("helve.toml", "[files]\nroots = [{ path = '.', readonly = true }]\n");
    let refused = home.run(&["tools", "list"]);
    assert_eq!(refused.code, 2, "{}", refused.all());
}

#[test]
fn a_journal_beside_the_files_is_closed_to_tools() {
    let home = Home::new();
    home.write("helve.toml", "[journal]\npath = 'calls.db'\n").write("a.txt", "x");
    home.json(&["call", "file-read", "path=a.txt"]);
    for path in ["calls.db", "calls.db.head", "calls.db-wal"] {
        let refused = home.run(&["call", "file-read", &format!("path={path}"), "encoding=base64"]);
        assert_ne!(refused.code, 0, "{path}: {}", refused.all());
        assert!(refused.stderr.contains("belongs to Helve"), "{path}: {}", refused.all());
    }
    let listed = home.json(&["call", "file-list"])["result"].clone();
    let names: Vec<_> =
        listed["entries"].as_array().unwrap().iter().map(|entry| entry["path"].clone()).collect();
    assert_eq!(names, ["a.txt", "helve.toml"]);
}
