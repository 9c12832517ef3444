//! `file-list` and `file-search`.

use serde_json::{Value, json};

use super::World;

fn project() -> World {
    let world = World::new();
    world.put("root/.gitignore", "target/\n*.log\n!keep.log\n").put("root/sub/.gitignore", "/local.txt\n");
    world
        .put("root/target/out.txt", "needle\n")
        .put("root/x.log", "needle\n")
        .put("root/keep.log", "needle\n");
    world.put("root/sub/local.txt", "needle\n").put("root/sub/deep/local.txt", "a\nneedle here\nb\n");
    world.put("root/.hidden", "needle\n").put("root/.git/config", "needle\n").put("root/bin", b"needle\0\n");
    world.link("root/out", "../outside").link("root/to-a", "a.txt");
    world
}

fn paths(answer: &Value) -> Vec<String> {
    let entries = answer.get("entries").or(answer.get("matches")).unwrap().as_array().unwrap();
    entries.iter().map(|entry| entry["path"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn a_folder_is_listed_with_kinds_sizes_and_links() {
    let world = project();
    let answer = world.ok("file-list", json!({})).await;
    assert_eq!(paths(&answer), ["a.txt", "bin", "keep.log", "out", "sub", "to-a"]);
    assert_eq!(answer["truncated"], false);
    let [a, _, _, out, sub, _] = &answer["entries"].as_array().unwrap()[..] else { panic!() };
    assert_eq!((&a["kind"], &a["size"]), (&json!("file"), &json!(14)));
    assert_eq!((&out["kind"], &out["target"]), (&json!("link"), &json!("../outside")));
    assert_eq!(sub["kind"], "folder");
    assert!(a["modified"].as_str().unwrap().ends_with('Z'));
}

#[tokio::test]
async fn depth_globs_hidden_and_ignore_files_decide_what_is_listed() {
    let world = project();
    for (arguments, expected) in [
        (json!({ "path": "sub", "depth": 3 }), vec!["b.txt", "deep", "deep/local.txt"]),
        (json!({ "path": "sub", "depth": 1 }), vec!["b.txt", "deep"]),
        (json!({ "depth": 5, "glob": "*.txt" }), vec!["a.txt", "sub/b.txt", "sub/deep/local.txt"]),
        (json!({ "depth": 5, "glob": "sub/**/*.txt" }), vec!["sub/b.txt", "sub/deep/local.txt"]),
        (json!({ "depth": 1, "glob": "!*.txt" }), vec!["bin", "keep.log", "out", "sub", "to-a"]),
        (json!({ "hidden": true, "glob": ".*" }), vec![".gitignore", ".hidden"]),
        (
            json!({ "gitignore": false, "depth": 2, "glob": "*.{log,txt}" }),
            vec!["a.txt", "keep.log", "sub/b.txt", "sub/local.txt", "target/out.txt", "x.log"],
        ),
    ] {
        assert_eq!(paths(&world.ok("file-list", arguments.clone()).await), expected, "{arguments}");
    }
    let answer = world.ok("file-list", json!({ "depth": 5, "max_entries": 2 })).await;
    assert_eq!((paths(&answer).len(), &answer["truncated"]), (2, &json!(true)));
    let error = world.fails("file-list", json!({ "glob": "a{b" })).await;
    assert_eq!(error.field_errors()[0].path, "/glob");
}

#[tokio::test]
async fn text_is_found_where_ripgrep_would_find_it() {
    let world = project();
    let answer = world.ok("file-search", json!({ "pattern": "needle" })).await;
    assert_eq!(paths(&answer), ["keep.log", "sub/deep/local.txt"]);
    assert_eq!((&answer["files_matched"], &answer["truncated"]), (&json!(2), &json!(false)));
    let hit = &answer["matches"][1];
    assert_eq!((&hit["line"], &hit["column"], &hit["text"]), (&json!(2), &json!(1), &json!("needle here")));

    for (arguments, expected) in [
        (json!({ "pattern": "NEEDLE" }), vec![]),
        (json!({ "pattern": "NEEDLE", "case": "insensitive" }), vec!["keep.log", "sub/deep/local.txt"]),
        (json!({ "pattern": "Needle", "case": "smart" }), vec![]),
        (json!({ "pattern": "needle h.re$" }), vec!["sub/deep/local.txt"]),
        (json!({ "pattern": "h.re", "literal": true }), vec![]),
        (json!({ "pattern": "needle", "globs": ["*.log"] }), vec!["keep.log"]),
        (json!({ "pattern": "needle", "globs": ["!*.log"] }), vec!["sub/deep/local.txt"]),
        (json!({ "pattern": "needle", "path": "sub" }), vec!["sub/deep/local.txt"]),
        (json!({ "pattern": "needle", "path": "x.log" }), vec!["x.log"]),
        (json!({ "pattern": "needle", "hidden": true }), vec![".hidden", "keep.log", "sub/deep/local.txt"]),
        (json!({ "pattern": "secret" }), vec![]),
    ] {
        assert_eq!(paths(&world.ok("file-search", arguments.clone()).await), expected, "{arguments}");
    }
    let answer = world.ok("file-search", json!({ "pattern": "needle", "files_only": true })).await;
    assert_eq!(answer["files"], json!(["keep.log", "sub/deep/local.txt"]));
}

#[tokio::test]
async fn context_and_bounds_hold() {
    let world = project();
    let answer = world.ok("file-search", json!({ "pattern": "here", "context": 1 })).await;
    let hit = &answer["matches"][0];
    assert_eq!((&hit["before"], &hit["after"]), (&json!(["a"]), &json!(["b"])));

    world.put("root/many", "needle\n".repeat(1_000));
    let answer =
        world.ok("file-search", json!({ "pattern": "needle", "path": "many", "max_matches": 10 })).await;
    assert_eq!(paths(&answer).len(), 10);
    assert!(answer["why"].as_str().unwrap().contains("max_matches"));
    world.put("root/many", "needle\n".repeat(10));
    let answer =
        world.ok("file-search", json!({ "pattern": "needle", "path": "many", "max_matches": 10 })).await;
    assert_eq!((paths(&answer).len(), &answer["truncated"]), (10, &json!(false)));

    let long = format!("{}needle{}\n", "ü".repeat(1_000), "x".repeat(1_000));
    world.put("root/many", long.repeat(2_000));
    let answer =
        world.ok("file-search", json!({ "pattern": "needle", "path": "many", "max_matches": 5_000 })).await;
    assert!(answer.to_string().len() < 600_000);
    assert_eq!(answer["truncated"], true);

    for pattern in ["(", "a\nb", "(?=x)", &"x{1000}".repeat(500)] {
        let error = world.fails("file-search", json!({ "pattern": pattern })).await;
        assert_eq!(error.field_errors()[0].path, "/pattern", "{error:?}");
        assert!(error.message().len() < 500, "{error}");
    }
}
