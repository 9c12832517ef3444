//! `file-read`: text, ranges, encodings and what it refuses.

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

/// Texts that people have, and the encodings that they have them in.
fn texts() -> Vec<(&'static str, &'static str)> {
    let japanese = "これは日本語の文章です。文字コードの判定を確かめます。\n次の行もあります。\n";
    vec![
        ("windows-1252", "Schöne Grüße aus Köln, das Frühstück wäre fertig – “bald”.\n"),
        ("windows-1251", "Съешь же ещё этих мягких французских булок, да выпей чаю.\n"),
        ("koi8-r", "Съешь же ещё этих мягких французских булок, да выпей чаю.\n"),
        ("shift_jis", japanese),
        ("euc-jp", japanese),
        ("iso-2022-jp", japanese),
        ("gbk", "这是一个用来检测编码的中文句子，里面有足够多的常用汉字。\n第二行也有文字。\n"),
        ("big5", "這是一個用來檢測編碼的中文句子，裡面有足夠多的常用漢字。\n第二行也有文字。\n"),
        ("euc-kr", "이것은 인코딩을 확인하기 위한 한국어 문장입니다. 글자가 충분히 많아야 합니다.\n"),
    ]
}

fn encoded(name: &str, text: &str) -> Vec<u8> {
    let (bytes, _, alien) = encoding_rs::Encoding::for_label(name.as_bytes()).unwrap().encode(text);
    assert!(!alien, "{name}");
    bytes.into_owned()
}

#[tokio::test]
async fn a_guess_is_said_and_utf_32_is_not_taken_for_utf_16() {
    let world = World::new();
    std::fs::write(world.path("root/latin"), b"sch\xF6ne Gr\xFC\xDFe aus K\xF6ln\n").unwrap();
    let guessed = world.ok("file-read", json!({ "path": "latin" })).await;
    assert_eq!((&guessed["encoding"], &guessed["guessed"]), (&json!("windows-1252"), &json!(true)));
    for name in ["latin-1", "cp1252"] {
        let named = world.ok("file-read", json!({ "path": "latin", "encoding": name })).await;
        assert_eq!((&named["content"], named.get("guessed")), (&guessed["content"], None), "{name}");
    }
    world.put("root/plain", "grüße\n");
    assert_eq!(world.ok("file-read", json!({ "path": "plain" })).await.get("guessed"), None);

    std::fs::write(world.path("root/wide"), b"\xFF\xFE\0\0h\0\0\0i\0\0\0").unwrap();
    let error = world.fails("file-read", json!({ "path": "wide" })).await;
    assert!(error.message().contains("UTF-32"), "{error}");
}

#[tokio::test]
async fn the_encodings_that_people_have_are_found_out_or_can_be_named() {
    let world = World::new();
    for (name, text) in texts() {
        world.put("root/f", encoded(name, text));
        for arguments in
            [json!({}), json!({ "encoding": name }), json!({ "encoding": name.to_ascii_uppercase() })]
        {
            let answer = read(&world, arguments.clone()).await;
            assert_eq!(answer["content"], text, "{name} {arguments}");
            // Russian is the same in both; what is found out is the larger one.
            let found = if name == "koi8-r" && arguments == json!({}) { "koi8-u" } else { name };
            assert_eq!(answer["encoding"], found, "{arguments}");
            assert_eq!(answer["replaced"], Value::Null);
        }
        let lines = read(&world, json!({ "max_lines": 1, "encoding": name })).await;
        assert_eq!(lines["content"].as_str().unwrap(), text.split_inclusive('\n').next().unwrap(), "{name}");
    }
    // Where the mark says so, either name of UTF-16 will do.
    let wide: Vec<u8> =
        [0xFE, 0xFF].into_iter().chain("grüße".encode_utf16().flat_map(u16::to_be_bytes)).collect();
    world.put("root/f", wide);
    let answer = read(&world, json!({ "encoding": "utf-16" })).await;
    assert_eq!((&answer["content"], &answer["encoding"]), (&json!("grüße"), &json!("utf-16be")));
}

#[tokio::test]
async fn a_wrong_encoding_is_refused_or_said_and_hostile_names_are_errors() {
    let world = World::new();
    world.put("root/f", b"\x81\xFF\xFE plain \x80");
    let error = world.fails("file-read", json!({ "path": "f", "encoding": "shift_jis" })).await;
    assert!(error.message().contains("is not shift_jis"), "{error}");
    for wrong in ["klingon", "replacement", "../etc", "utf-7", ""] {
        let error = world.fails("file-read", json!({ "path": "f", "encoding": wrong })).await;
        assert!(error.message().contains("no encoding is called"), "{wrong}: {error}");
    }
    // A piece may begin or end within a character: it is shown, and said.
    world.put("root/f", encoded("shift_jis", &"漢字".repeat(100)));
    let piece = read(&world, json!({ "encoding": "shift_jis", "offset": 1, "length": 4 })).await;
    assert_eq!(piece["length"], 4);
    // Sequences without an end, and half of one.
    for bytes in [&b"\x1B$B\x46"[..], b"\x1B$", b"\x1B(J\xFF", &b"\x1B$B".repeat(5_000)] {
        world.put("root/f", bytes);
        let answer = read(&world, json!({ "encoding": "base64" })).await;
        assert_eq!(answer["length"], bytes.len());
        let _any = world.call("file-read", json!({ "path": "f" })).await;
    }
}
