//! `file-write` and `file-edit`.

use std::os::unix::fs::PermissionsExt;

use helve::ErrorCode;
use serde_json::json;

use super::World;

#[tokio::test]
async fn a_new_file_is_made_and_an_existing_one_only_replaced_when_told() {
    let world = World::new();
    let answer = world.ok("file-write", json!({ "path": "new.txt", "content": "grüße" })).await;
    assert_eq!((&answer["path"], &answer["bytesWritten"]), (&json!("new.txt"), &json!(7)));
    assert!(answer.get("previous").is_none());
    assert_eq!(world.text("root/new.txt"), "grüße");

    let error = world.fails("file-write", json!({ "path": "new.txt", "content": "x" })).await;
    assert_eq!(error.message(), "`new.txt` already exists");
    assert_eq!((error.tool_code(), error.is_retryable()), (Some("FILE_EXISTS"), true));
    assert_eq!(error.suggestions(), ["set overwrite: true", "choose a different path"]);
    assert_eq!(world.text("root/new.txt"), "grüße");

    let answer =
        world.ok("file-write", json!({ "path": "new.txt", "content": "x", "overwrite": true })).await;
    assert_eq!(answer["previous"]["bytes"], 7);
    assert_eq!(world.text("root/new.txt"), "x");
}

/// Whatever keeps it from writing, other than a file that is there: the seed knows two codes.
#[tokio::test]
async fn what_cannot_be_written_is_write_failed() {
    let world = World::new();
    world.put("root/file", "x");
    for path in ["no/folder/f", "file/below", "."] {
        let error =
            world.fails("file-write", json!({ "path": path, "content": "x", "overwrite": true })).await;
        let codes = (error.code(), error.tool_code());
        assert_eq!(codes, (ErrorCode::ExecutionFailed, Some("WRITE_FAILED")), "{path}: {error}");
    }
    let error = world.fails("file-write", json!({ "path": "/etc/out", "content": "x" })).await;
    assert_eq!((error.code(), error.tool_code()), (ErrorCode::PermissionDenied, None), "{error}");
}

#[tokio::test]
async fn encodings_decide_what_content_means() {
    let world = World::new();
    let write = |content: &str, encoding: &str| json!({ "path": "f", "content": content, "encoding": encoding, "overwrite": true });
    world.ok("file-write", write("AP9/\ngA==", "base64")).await;
    assert_eq!(std::fs::read(world.path("root/f")).unwrap(), [0, 255, 127, 128]);
    world.ok("file-write", write("plain", "ascii")).await;
    for (content, encoding, reason) in
        [("grüße", "ascii", "`ü` is not ASCII"), ("***", "base64", "not base64")]
    {
        let error = world.fails("file-write", write(content, encoding)).await;
        assert!(error.message().contains(reason), "{error}");
        assert_eq!(error.code(), ErrorCode::ValidationFailed);
    }
    assert_eq!(world.text("root/f"), "plain");
}

#[tokio::test]
async fn the_mode_stays_and_nothing_else_is_left_in_the_folder() {
    let world = World::new();
    world.put("root/run.sh", "#!/bin/sh\n");
    std::fs::set_permissions(world.path("root/run.sh"), PermissionsExt::from_mode(0o750)).unwrap();
    world
        .ok("file-write", json!({ "path": "run.sh", "content": "#!/bin/sh\nexit 1\n", "overwrite": true }))
        .await;
    world.ok("file-edit", json!({ "path": "run.sh", "edits": [{ "old": "exit 1", "new": "exit 0" }] })).await;
    assert_eq!(std::fs::metadata(world.path("root/run.sh")).unwrap().permissions().mode() & 0o7777, 0o750);
    // A writer that died left this behind.
    world.put("root/.helve-tmp-00ff", "half");
    world.ok("file-write", json!({ "path": "other.txt", "content": "" })).await;
    let mut names: Vec<_> = std::fs::read_dir(world.path("root"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    assert_eq!(names, ["a.txt", "other.txt", "run.sh", "sub"]);
}

#[tokio::test]
async fn folders_are_made_only_when_told() {
    let world = World::new();
    let error = world.fails("file-write", json!({ "path": "deep/er/f", "content": "x" })).await;
    assert!(error.message().contains("there is no folder `deep`"), "{error}");
    assert!(error.suggestions().iter().any(|one| one.contains("create_dirs: true")), "{error:?}");
    assert!(!world.path("root/deep").exists());
    world.ok("file-write", json!({ "path": "deep/er/f", "content": "x", "create_dirs": true })).await;
    assert_eq!(world.text("root/deep/er/f"), "x");
}

#[tokio::test]
async fn what_is_too_large_is_not_written() {
    let world = World::with(|mut config| {
        config.write_bytes = 2_000;
        config
    });
    let error = world.fails("file-write", json!({ "path": "f", "content": "x".repeat(2_001) })).await;
    assert!(error.message().contains("2001 bytes; at most 2000"), "{error}");
    world.put("root/f", "ab".repeat(900));
    let edit = json!({ "old": "a", "new": "long", "replace_all": true });
    let error = world.fails("file-edit", json!({ "path": "f", "edits": [edit] })).await;
    assert!(error.message().contains("at most 2000"), "{error}");
    assert_eq!(world.text("root/f"), "ab".repeat(900));
}

#[tokio::test]
async fn edits_are_done_together_or_not_at_all() {
    let world = World::new();
    let edits = json!([{ "old": "two", "new": "2" }, { "insert_line": 1, "new": "zero" }]);
    let answer = world.ok("file-edit", json!({ "path": "a.txt", "edits": edits })).await;
    assert_eq!(world.text("root/a.txt"), "zero\none\n2\nthree\n");
    assert_eq!(answer["replacements"], 2);
    insta::assert_snapshot!(answer["diff"].as_str().unwrap(), @"
    --- a.txt
    +++ a.txt
    @@ -1,3 +1,4 @@
    +zero
     one
    -two
    +2
     three
    ");
    let edits = json!([{ "old": "one", "new": "1" }, { "old": "gone", "new": "x" }]);
    let error = world.fails("file-edit", json!({ "path": "a.txt", "edits": edits })).await;
    assert_eq!(error.field_errors()[0].path, "/edits/1/old");
    assert_eq!(world.text("root/a.txt"), "zero\none\n2\nthree\n");
}

#[tokio::test]
async fn an_edit_keeps_encoding_and_line_endings() {
    let world = World::new();
    let utf_16 = |text: &str| -> Vec<u8> {
        [0xFF, 0xFE].into_iter().chain(text.encode_utf16().flat_map(u16::to_le_bytes)).collect()
    };
    for (before, after) in [
        (utf_16("alt\r\nund\r\n"), utf_16("neu\r\nneuer\r\nund\r\n")),
        (b"\xEF\xBB\xBFalt\n".to_vec(), b"\xEF\xBB\xBFneu\nneuer\n".to_vec()),
        (
            b"sch\xF6n alt\nGr\xFC\xDFe aus K\xF6ln\n".to_vec(),
            b"sch\xF6n neu\nneuer\nGr\xFC\xDFe aus K\xF6ln\n".to_vec(),
        ),
    ] {
        world.put("root/f", before);
        world.ok("file-edit", json!({ "path": "f", "edits": [{ "old": "alt", "new": "neu\nneuer" }] })).await;
        assert_eq!(std::fs::read(world.path("root/f")).unwrap(), after);
    }
    let error =
        world.fails("file-edit", json!({ "path": "f", "edits": [{ "old": "neuer", "new": "日本" }] })).await;
    assert!(error.message().contains("has no `日`"), "{error}");
    world.put("root/f", [0, 1, 2]);
    let error = world.fails("file-edit", json!({ "path": "f", "edits": [{ "old": "x", "new": "y" }] })).await;
    assert!(error.message().contains("not edited"), "{error}");
}

#[tokio::test]
async fn an_edit_keeps_the_encodings_that_people_have_or_refuses() {
    let world = World::new();
    for name in ["shift_jis", "euc-jp", "iso-2022-jp", "gbk", "euc-kr", "koi8-r", "windows-1252"] {
        let encoding = encoding_rs::Encoding::for_label(name.as_bytes()).unwrap();
        let known = match name {
            "koi8-r" => "чай",
            "windows-1252" => "Grüße",
            "euc-kr" => "한국어",
            _ => "日本",
        };
        let text = |word: &str| encoding.encode(&format!("{known} alt\n{word}\n")).0.into_owned();
        world.put("root/f", text("x"));
        let edits = json!([{ "old": "\nx\n", "new": format!("\n{known}\n") }]);
        let answer = world.ok("file-edit", json!({ "path": "f", "encoding": name, "edits": edits })).await;
        assert_eq!(answer["encoding"], name);
        assert_eq!(std::fs::read(world.path("root/f")).unwrap(), text(known), "{name}");
        let edits = json!([{ "old": "alt", "new": "😀" }]);
        let error = world.fails("file-edit", json!({ "path": "f", "encoding": name, "edits": edits })).await;
        assert!(error.message().contains("has no `😀`"), "{name}: {error}");
        assert_eq!(std::fs::read(world.path("root/f")).unwrap(), text(known), "nothing was written");
    }
    let edits = json!([{ "old": "alt", "new": "neu" }]);
    let error =
        world.fails("file-edit", json!({ "path": "f", "encoding": "shift_jis", "edits": edits })).await;
    assert!(error.message().contains("which is not edited"), "what it is not is not written back: {error}");
    let error = world.fails("file-edit", json!({ "path": "f", "encoding": "base64", "edits": edits })).await;
    assert!(error.message().contains("only text is edited"), "{error}");
}

#[tokio::test]
async fn an_edit_of_ascii_is_refused_where_the_file_is_more_or_would_be() {
    let world = World::new();
    let edit =
        |new: &str| json!({ "path": "f", "encoding": "ascii", "edits": [{ "old": "alt", "new": new }] });
    for (content, new, why) in [("Grüße alt\n", "neu", "byte 2 "), ("alt\n", "für", "has no `ü`")] {
        world.put("root/f", content);
        let error = world.fails("file-edit", edit(new)).await;
        assert!(error.message().contains(why), "{error}");
        assert_eq!(std::fs::read_to_string(world.path("root/f")).unwrap(), content, "nothing was written");
    }
    world.ok("file-edit", edit("neu")).await;
    assert_eq!(std::fs::read(world.path("root/f")).unwrap(), b"neu\n");
}
