//! Odd names, and files that are too much: nothing gets out, and nothing takes longer than it may.

use std::fs::File;
use std::time::{Duration, Instant};

use helve::{Call, Layer, Registry, Runtime};
use serde_json::{Value, json};

use super::World;

/// Longer than any of these may take, on a busy machine.
const LONG: Duration = Duration::from_secs(20);

/// Calls a tool through the runtime, which ends it at its deadline.
async fn through_runtime(world: &World, tool: &str, arguments: Value) -> Value {
    let registry = Registry::default();
    registry.register_many(Layer::BuiltIn, world.tools.clone()).unwrap();
    let runtime = Runtime::builder().registry(registry).build();
    let began = Instant::now();
    let outcome = runtime.call(Call::new(tool, arguments.clone())).await;
    assert!(began.elapsed() < LONG, "{tool} {arguments} took {:?}", began.elapsed());
    serde_json::to_value(&outcome).unwrap()
}

#[tokio::test]
async fn dots_in_disguise_are_names_like_others() {
    let world = World::new();
    let root = world.path("root").display().to_string();
    let disguised = [
        "%2e%2e/outside/secret.txt".to_owned(),
        "..%2foutside%2fsecret.txt".to_owned(),
        "%2e%2e%2foutside/secret.txt".to_owned(),
        "..%252foutside/secret.txt".to_owned(),
        "..\\outside\\secret.txt".to_owned(),
        "....//outside/secret.txt".to_owned(),
        "..;/outside/secret.txt".to_owned(),
        ".. /outside/secret.txt".to_owned(),
        "..\u{200b}/outside/secret.txt".to_owned(),
        "\u{ff0e}\u{ff0e}/outside/secret.txt".to_owned(),
        "\u{2024}\u{2024}/outside/secret.txt".to_owned(),
        "..\u{2215}outside\u{2215}secret.txt".to_owned(),
        "..\u{ff0f}outside\u{ff0f}secret.txt".to_owned(),
        "file:../outside/secret.txt".to_owned(),
        format!("file://{root}/../outside/secret.txt"),
        format!("/proc/self/root{root}/../outside/secret.txt"),
        format!("/proc/self/cwd/{root}/a.txt"),
        "$HOME/../x".to_owned(),
        "`id`/../../outside/secret.txt".to_owned(),
    ];
    for path in disguised {
        for (tool, arguments) in [
            ("file-read", json!({ "path": path })),
            ("file-write", json!({ "path": path, "content": "x", "overwrite": true, "create_dirs": true })),
            ("file-list", json!({ "path": path })),
            ("file-search", json!({ "path": path, "pattern": "secret" })),
        ] {
            if let Ok(answer) = world.call(tool, arguments).await {
                assert!(!answer.to_string().contains("top secret"), "{tool} {path:?}: {answer}");
            }
        }
    }
    assert_eq!(world.text("outside/secret.txt"), "top secret\n");
    assert_eq!(std::fs::read_dir(world.path("outside")).unwrap().count(), 1);
    assert_eq!(std::fs::read_dir(world.path("")).unwrap().count(), 3);
}

#[tokio::test]
async fn names_that_terminals_and_shells_take_amiss_come_back_whole_or_escaped() {
    let world = World::new();
    for name in [
        "-rf",
        "a\nb",
        "a\u{1b}[2Jb",
        "\u{202e}txt.exe",
        "  ",
        "*",
        "a'b\"c",
        ".hidden",
        "n".repeat(255).as_str(),
    ] {
        world.put(&format!("root/odd/{name}"), "odd\n");
        let read = world.ok("file-read", json!({ "path": format!("odd/{name}") })).await;
        assert_eq!(read["content"], "odd\n", "{name:?}");
    }
    let listed = world.ok("file-list", json!({ "path": "odd", "hidden": true })).await;
    assert_eq!(listed["entries"].as_array().unwrap().len(), 9, "{listed}");
    let found = world.ok("file-search", json!({ "path": "odd", "pattern": "odd", "hidden": true })).await;
    assert_eq!(found["files_matched"], 9, "{found}");
}

#[tokio::test]
async fn a_file_without_end_is_given_up() {
    let world = World::new();
    // Terabytes, of which the disk holds nothing.
    File::create(world.path("root/huge")).unwrap().set_len(8 << 40).unwrap();
    for (tool, arguments) in [
        ("file-read", json!({ "path": "huge" })),
        ("file-read", json!({ "path": "huge", "start_line": 2 })),
        ("file-read", json!({ "path": "huge", "start_line": 1, "max_lines": 5 })),
        (
            "file-read",
            json!({ "path": "huge", "offset": 7_000_000_000_000_u64, "length": 10, "encoding": "base64" }),
        ),
        ("file-edit", json!({ "path": "huge", "edits": [{ "old": "x", "new": "y" }] })),
        ("file-search", json!({ "path": "huge", "pattern": "x" })),
        ("file-search", json!({ "pattern": "x\\ny" })),
        ("file-list", json!({})),
    ] {
        through_runtime(&world, tool, arguments).await;
    }
    assert_eq!(world.path("root/huge").metadata().unwrap().len(), 8 << 40);
}

#[tokio::test]
async fn one_line_of_many_megabytes_is_bounded() {
    let world = World::new();
    world.put("root/line", "x".repeat(64 << 20));
    for (tool, arguments) in [
        ("file-read", json!({ "path": "line" })),
        ("file-read", json!({ "path": "line", "start_line": 1, "max_lines": 1 })),
        ("file-search", json!({ "path": "line", "pattern": "xxx" })),
        ("file-edit", json!({ "path": "line", "edits": [{ "old": "y", "new": "z" }] })),
    ] {
        let answer = through_runtime(&world, tool, arguments).await.to_string();
        assert!(answer.len() < 20 << 20, "{tool} answered {} bytes", answer.len());
    }
}

#[tokio::test]
async fn patterns_that_explode_are_refused_or_harmless() {
    let world = World::new();
    world.put("root/as.txt", "a".repeat(50_000));
    for pattern in [
        "(a+)+$".to_owned(),
        "(a|aa)+$".to_owned(),
        "(a*)*b".to_owned(),
        "(.*a){30}".to_owned(),
        "((((a{100}){100}){100}){100}){100}".to_owned(),
        "(?:a?){5000}a{5000}".to_owned(),
        "(\\pL{1000}){1000}".to_owned(),
        "a|".repeat(100_000),
        "(".repeat(10_000),
        "[".repeat(10_000),
        "(?x)".repeat(5_000),
        "(?:".repeat(5_000) + &")".repeat(5_000),
        "\\x{110000}".to_owned(),
    ] {
        let answer = through_runtime(&world, "file-search", json!({ "pattern": pattern })).await.to_string();
        assert!(answer.len() < 2 << 20, "{pattern:.20} answered {} bytes", answer.len());
    }
    let glob = "{a,b}".repeat(2_000) + &"*".repeat(2_000);
    through_runtime(&world, "file-list", json!({ "glob": glob })).await;
}

#[tokio::test]
async fn a_folder_of_very_many_is_listed_in_part() {
    let world = World::new();
    std::fs::create_dir(world.path("root/many")).unwrap();
    for n in 0..50_000 {
        File::create(world.path("root/many").join(format!("f{n}"))).unwrap();
    }
    let listed = through_runtime(&world, "file-list", json!({ "path": "many" })).await.to_string();
    assert!(listed.len() < 4 << 20, "{} bytes", listed.len());
    through_runtime(&world, "file-search", json!({ "path": "many", "pattern": "x" })).await;
    // What is not there is not looked for among all of them for long.
    through_runtime(&world, "file-read", json!({ "path": "many/g5" })).await;
}

#[tokio::test]
async fn a_deep_folder_is_walked_without_falling() {
    let world = World::new();
    let mut folder =
        cap_std::fs::Dir::open_ambient_dir(world.path("root"), cap_std::ambient_authority()).unwrap();
    for _ in 0..3_000 {
        folder.create_dir("d").unwrap();
        folder = folder.open_dir("d").unwrap();
    }
    through_runtime(&world, "file-list", json!({ "depth": 10_000 })).await;
    through_runtime(&world, "file-search", json!({ "pattern": "inner" })).await;
    through_runtime(&world, "file-read", json!({ "path": "d/".repeat(1_500) + "x" })).await;
    // Too deep for who removes the world after us by its whole path.
    drop(folder);
    let mut top = world.path("root/d");
    for _ in 0..3_000 / 500 + 1 {
        let tail = top.join("d/".repeat(500));
        if tail.exists() {
            std::fs::rename(&tail, world.path("root/d2")).unwrap();
            std::fs::remove_dir_all(&top).unwrap();
            std::fs::rename(world.path("root/d2"), world.path("root/d")).unwrap();
        }
        top = world.path("root/d");
    }
}

#[tokio::test]
async fn files_that_change_under_the_reader_hold_nobody_up() {
    let world = World::new();
    world.put("root/grows", "line\n");
    let path = world.path("root/grows");
    let stop = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    let writer = std::thread::spawn({
        let stop = std::sync::Arc::clone(&stop);
        move || {
            let mut long = false;
            while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                long = !long;
                File::options()
                    .write(true)
                    .open(&path)
                    .unwrap()
                    .set_len(if long { 8 << 20 } else { 1 })
                    .unwrap();
            }
        }
    });
    for _ in 0..50 {
        for arguments in
            [json!({ "path": "grows" }), json!({ "path": "grows", "start_line": 1, "max_lines": 3 })]
        {
            through_runtime(&world, "file-read", arguments).await;
        }
        through_runtime(&world, "file-search", json!({ "pattern": "line" })).await;
    }
    stop.store(true, std::sync::atomic::Ordering::Relaxed);
    writer.join().unwrap();
}
