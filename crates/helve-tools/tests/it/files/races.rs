//! Files swapped for links while tools are at them, and writers side by side.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::{CWD, RenameFlags, renameat_with};
use serde_json::json;

use super::World;

const ROUNDS: usize = 1_500;

/// Swaps two names as fast as it can until told to stop.
fn swap(a: std::path::PathBuf, b: std::path::PathBuf, stop: Arc<AtomicBool>) -> std::thread::JoinHandle<u64> {
    std::thread::spawn(move || {
        let mut swaps = 0;
        while !stop.load(Ordering::Relaxed) {
            renameat_with(CWD, &a, CWD, &b, RenameFlags::EXCHANGE).unwrap();
            swaps += 1;
        }
        swaps
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn a_name_that_turns_into_a_link_never_leaks_and_is_never_written_through() {
    let world = World::new();
    world.put("root/swap/secret.txt", "inside\n").link("root/other", "../outside");
    world.put("root/leaf", "inside\n").link("root/leaf-link", "../outside/secret.txt");
    let stop = Arc::new(AtomicBool::new(false));
    let swappers = [
        swap(world.path("root/swap"), world.path("root/other"), Arc::clone(&stop)),
        swap(world.path("root/leaf"), world.path("root/leaf-link"), Arc::clone(&stop)),
    ];
    let (mut read, mut refused) = (0, 0);
    for round in 0..ROUNDS {
        let path = if round % 2 == 0 { "swap/secret.txt" } else { "leaf" };
        match world.call("file-read", json!({ "path": path })).await {
            Ok(answer) => {
                assert_eq!(answer["content"], "inside\n");
                read += 1;
            }
            Err(_) => refused += 1,
        }
        if round % 10 == 0 {
            let _ = world
                .call("file-write", json!({ "path": path, "content": "inside\n", "overwrite": true }))
                .await;
            let _ = world
                .call(
                    "file-write",
                    json!({ "path": "swap/new.txt", "content": "inside\n", "overwrite": true }),
                )
                .await;
            let found = world.ok("file-search", json!({ "pattern": "top" })).await;
            assert_eq!(found["files_matched"], 0);
            let listed = world.ok("file-list", json!({ "depth": 3, "glob": "only-outside*" })).await;
            assert_eq!(listed["entries"], json!([]));
        }
        if round == 0 {
            world.put("outside/only-outside.txt", "top secret");
        }
    }
    stop.store(true, Ordering::Relaxed);
    let swaps: Vec<_> = swappers.into_iter().map(|swapper| swapper.join().unwrap()).collect();
    // The test would show nothing if the swaps had not come in between.
    assert!(read > 0 && refused > 0, "{read} read, {refused} refused, {swaps:?} swaps");
    assert_eq!(world.text("outside/secret.txt"), "top secret\n");
    assert!(!world.path("outside/new.txt").exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn of_many_writers_one_makes_the_file() {
    let world = Arc::new(World::new());
    for round in 0..20 {
        let path = format!("new-{round}.txt");
        let writers: Vec<_> = (0..8)
            .map(|writer| {
                let (world, path) = (Arc::clone(&world), path.clone());
                tokio::spawn(async move {
                    let content = format!("writer {writer}");
                    let answer = world.call("file-write", json!({ "path": path, "content": content })).await;
                    answer.map(|_| content)
                })
            })
            .collect();
        let mut made = Vec::new();
        for writer in writers {
            match writer.await.unwrap() {
                Ok(content) => made.push(content),
                Err(error) => assert_eq!(error.tool_code(), Some("FILE_EXISTS"), "{error}"),
            }
        }
        assert_eq!(made, [world.text(&format!("root/{path}"))]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn no_edit_of_several_at_once_is_lost() {
    let world = Arc::new(World::new());
    let lines: String = (0..16).map(|line| format!("line {line} old\n")).collect();
    world.put("root/shared.txt", lines);
    let editors: Vec<_> = (0..16)
        .map(|line| {
            let world = Arc::clone(&world);
            let edit = json!({ "old": format!("line {line} old"), "new": format!("line {line} new") });
            tokio::spawn(async move {
                world.ok("file-edit", json!({ "path": "shared.txt", "edits": [edit] })).await
            })
        })
        .collect();
    for editor in editors {
        editor.await.unwrap();
    }
    let expected: String = (0..16).map(|line| format!("line {line} new\n")).collect();
    assert_eq!(world.text("root/shared.txt"), expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reader_sees_a_file_whole_while_it_is_replaced() {
    let world = Arc::new(World::new());
    world.put("root/big.txt", "a".repeat(200_000));
    let writer = {
        let world = Arc::clone(&world);
        tokio::spawn(async move {
            for round in 0..40 {
                let content = if round % 2 == 0 { "b" } else { "a" }.repeat(200_000);
                world
                    .ok("file-write", json!({ "path": "big.txt", "content": content, "overwrite": true }))
                    .await;
            }
        })
    };
    while !writer.is_finished() {
        let read = world.ok("file-read", json!({ "path": "big.txt" })).await;
        let content = read["content"].as_str().unwrap();
        let first = content.as_bytes()[0];
        assert!(content.len() == 200_000 && content.bytes().all(|byte| byte == first));
    }
    writer.await.unwrap();
}
