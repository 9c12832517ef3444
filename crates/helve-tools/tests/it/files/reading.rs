//! `file-read`.

use serde_json::{Value, json};

use super::World;

async fn read(world: &World, more: Value) -> Value {
    let mut arguments = json!({ "path": "f" });
    arguments.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    world.ok("file-read", arguments).await
}

#[tokio::test]
async fn a_file_is_read_whole_with_its_facts() {
    let world = World::new();
    let root = world.path("root");
    for path in ["a.txt".to_owned(), "./a.txt".to_owned(), root.join("a.txt").display().to_string()] {
        let answer = world.ok("file-read", json!({ "path": path })).await;
        assert_eq!(
            answer,
            json!({ "path": "a.txt", "content": "one\ntwo\nthree\n", "encoding": "utf-8", "size": 14, "offset": 0,
                "length": 14, "start_line": 1, "total_lines": 3, "truncated": false })
        );
    }
    world.put("root/f", "");
    assert_eq!(read(&world, json!({})).await["content"], "");
}

#[tokio::test]
async fn lines_and_bytes_can_be_asked_for_and_the_pieces_meet() {
    let world = World::new();
    let text: String = (1..=1_000).map(|line| format!("line {line} ü\n")).collect();
    world.put("root/f", &text);
    let piece = read(&world, json!({ "start_line": 10, "max_lines": 2 })).await;
    assert_eq!(piece["content"], "line 10 ü\nline 11 ü\n");
    assert_eq!((&piece["total_lines"], &piece["next"]), (&json!(1_000), &json!({ "start_line": 12 })));
    let last = read(&world, json!({ "start_line": 1_000 })).await;
    assert_eq!((&last["content"], &last["truncated"]), (&json!("line 1000 ü\n"), &json!(false)));
    for (more, reason) in [
        (json!({ "start_line": 1_001 }), "only 1000 lines"),
        (json!({ "offset": 99_999 }), "only"),
        (json!({ "offset": 1, "start_line": 1 }), "not both"),
    ] {
        let mut arguments = json!({ "path": "f" });
        arguments.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let error = world.fails("file-read", arguments).await;
        assert!(error.message().contains(reason), "{error}");
    }
    // Whatever the length, going on as told gives the whole file, and no character is cut.
    for length in [5, 7, 64, 1_001] {
        let (mut whole, mut next) = (String::new(), json!({}));
        loop {
            let mut more = next.clone();
            more["length"] = json!(length);
            let piece = read(&world, more).await;
            whole.push_str(piece["content"].as_str().unwrap());
            match piece.get("next") {
                Some(more) => next = more.clone(),
                None => break,
            }
        }
        assert_eq!(whole, text, "length {length}");
    }
}

#[tokio::test]
async fn a_big_file_is_cut_at_a_line_and_says_how_to_go_on() {
    let world = World::with(|mut config| {
        config.read_bytes = 10_000;
        config
    });
    let text: String = (1..=5_000).map(|line| format!("line {line}\n")).collect();
    world.put("root/f", &text);
    let (mut whole, mut next, mut pieces) = (String::new(), json!({}), 0);
    loop {
        let piece = read(&world, next).await;
        let content = piece["content"].as_str().unwrap();
        assert!(content.len() <= 10_000 && content.ends_with('\n'));
        whole.push_str(content);
        pieces += 1;
        match piece.get("next") {
            Some(more) => next = more.clone(),
            None => break,
        }
    }
    assert_eq!(whole, text);
    assert!(pieces >= 5);
    // One line without an end is cut by bytes.
    world.put("root/f", "x".repeat(25_000));
    let piece = read(&world, json!({})).await;
    assert_eq!((&piece["length"], &piece["next"]), (&json!(10_000), &json!({ "offset": 10_000 })));
}

#[tokio::test]
async fn encodings_are_found_out() {
    let world = World::new();
    let utf_16: Vec<u8> =
        [0xFF, 0xFE].into_iter().chain("grüße\n".encode_utf16().flat_map(u16::to_le_bytes)).collect();
    for (bytes, content, encoding) in [
        ("grüße\n".as_bytes().to_vec(), "grüße\n", "utf-8"),
        (b"\xEF\xBB\xBFhello".to_vec(), "hello", "utf-8-bom"),
        (utf_16, "grüße\n", "utf-16le"),
        (b"sch\xF6ne Gr\xFC\xDFe aus K\xF6ln\n".to_vec(), "schöne Grüße aus Köln\n", "windows-1252"),
    ] {
        let size = bytes.len();
        world.put("root/f", bytes);
        let answer = read(&world, json!({})).await;
        assert_eq!(
            (answer["content"].as_str(), answer["encoding"].as_str()),
            (Some(content), Some(encoding))
        );
        assert_eq!((answer["length"].as_u64(), &answer["truncated"]), (Some(size as u64), &json!(false)));
    }
}

#[tokio::test]
async fn binary_files_are_refused_kindly_and_given_as_base64_on_request() {
    let world = World::new();
    world.put("root/f", b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR");
    let error = world.fails("file-read", json!({ "path": "f" })).await;
    assert!(error.message().contains("is a PNG image, not text"), "{error}");
    assert!(error.suggestions()[0].contains("base64"));
    let answer = read(&world, json!({ "encoding": "base64", "length": 4 })).await;
    assert_eq!((&answer["content"], &answer["next"]), (&json!("iVBORw=="), &json!({ "offset": 4 })));
    world.put("root/f", b"caf\xE9");
    for encoding in ["utf-8", "ascii"] {
        let error = world.fails("file-read", json!({ "path": "f", "encoding": encoding })).await;
        assert!(error.message().contains("byte 3"), "{error}");
    }
}
