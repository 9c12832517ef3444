//! Every way out of a root that we could think of.

use std::os::unix::net::UnixListener;

use helve::gate::Stance;
use helve::permission::PermissionRule;
use helve::{ErrorCode, ToolError};
use helve_sandbox::Unwritable;
use helve_tools::files::RootConfig;
use rustix::fs::{CWD, Mode, mkfifoat};
use serde_json::{Value, json};

use super::{World, read_only};

/// A call of each tool that names this path.
fn calls(path: &str) -> [(&'static str, Value); 5] {
    [
        ("file-read", json!({ "path": path })),
        ("file-write", json!({ "path": path, "content": "x", "overwrite": true, "create_dirs": true })),
        ("file-edit", json!({ "path": path, "edits": [{ "old": "secret", "new": "x" }] })),
        ("file-list", json!({ "path": path, "hidden": true, "gitignore": false })),
        ("file-search", json!({ "path": path, "pattern": ".", "hidden": true })),
    ]
}

/// Refused, without a word of what is outside.
fn refused(error: &ToolError) {
    let text = serde_json::to_string(error).unwrap();
    assert!(!text.contains("top secret"), "{text}");
    assert!(text.len() < 2_000, "{text}");
    let denied = matches!(error.code(), ErrorCode::PermissionDenied | ErrorCode::ValidationFailed);
    assert!(denied || error.code() == ErrorCode::ExecutionFailed, "{error:?}");
}

#[tokio::test]
async fn no_path_leads_out_of_the_root() {
    let world = World::new();
    let outside = world.path("outside");
    world.link("root/out", &outside).link("root/out-relative", "../outside");
    world
        .link("root/file-out", outside.join("secret.txt"))
        .link("root/file-out-relative", "../outside/secret.txt");
    world.link("root/chain", "out-relative/secret.txt").link("root/up", "..").link("root/sub/up-up", "../..");
    world.link("root/self", "self").link("root/proc", "/proc/self/root").link("root/fd", "/proc/self/cwd");
    world.link("root/sneaky", "sub/../../outside/secret.txt").link("root/hidden-up", "sub/up-up/outside");
    let absolute = outside.join("secret.txt").display().to_string();
    let root = world.path("root").display().to_string();
    let paths = [
        "../outside/secret.txt".to_owned(),
        "sub/../../outside/secret.txt".to_owned(),
        "..".to_owned(),
        "./..".to_owned(),
        "/".to_owned(),
        "/etc/passwd".to_owned(),
        "//etc/passwd".to_owned(),
        "/proc/self/environ".to_owned(),
        absolute,
        format!("{root}/../outside/secret.txt"),
        format!("{root}-other/x"),
        format!("{root}x"),
        "out/secret.txt".to_owned(),
        "out-relative/secret.txt".to_owned(),
        "out".to_owned(),
        "out-relative".to_owned(),
        "file-out".to_owned(),
        "file-out-relative".to_owned(),
        "chain".to_owned(),
        "up/outside/secret.txt".to_owned(),
        "sub/up-up/outside/secret.txt".to_owned(),
        "sneaky".to_owned(),
        "hidden-up/secret.txt".to_owned(),
        "self".to_owned(),
        "proc/etc/passwd".to_owned(),
        "fd".to_owned(),
        "a\0b".to_owned(),
        "a.txt\0.png".to_owned(),
        String::new(),
        "n".repeat(300),
        "d/".repeat(3_000),
        "x".repeat(100_000),
        "a.txt/b".to_owned(),
        "~/x/y".to_owned() + &"/..".repeat(4),
    ];
    for path in &paths {
        for (tool, arguments) in calls(path) {
            refused(&world.fails(tool, arguments).await);
        }
    }
    assert_eq!(world.text("outside/secret.txt"), "top secret\n");
    let outside: Vec<_> = std::fs::read_dir(world.path("outside")).unwrap().collect();
    assert_eq!(outside.len(), 1, "something was put outside");
    let above = std::fs::read_dir(world.path("")).unwrap().count();
    assert_eq!(above, 3, "something was put next to the root");
}

#[tokio::test]
async fn links_that_stay_inside_work() {
    let world = World::new();
    world.link("root/to-a", "a.txt").link("root/to-sub", "sub").link("root/sub/back", "../a.txt");
    for path in ["to-a", "sub/back", "to-sub/back"] {
        let read = world.ok("file-read", json!({ "path": path })).await;
        assert_eq!(read["content"], "one\ntwo\nthree\n", "{path}");
    }
    // A link is written through, and stays a link.
    world.ok("file-write", json!({ "path": "to-a", "content": "new", "overwrite": true })).await;
    assert_eq!(world.text("root/a.txt"), "new");
    assert!(world.path("root/to-a").is_symlink());
    world.ok("file-write", json!({ "path": "to-sub/c.txt", "content": "c" })).await;
    assert_eq!(world.text("root/sub/c.txt"), "c");
}

#[tokio::test]
async fn pipes_sockets_devices_and_folders_are_refused_and_nothing_waits() {
    let world = World::new();
    mkfifoat(CWD, world.path("root/pipe"), Mode::from_raw_mode(0o600)).unwrap();
    let _socket = UnixListener::bind(world.path("root/socket")).unwrap();
    world.link("root/to-pipe", "pipe").link("root/null", "/dev/null");
    for (path, what) in
        [("pipe", "a named pipe"), ("socket", "a socket"), ("to-pipe", "a named pipe"), ("sub", "a folder")]
    {
        for (tool, arguments) in calls(path).into_iter().take(3) {
            let error = world.fails(tool, arguments).await;
            assert!(error.message().contains(what), "{tool} {path}: {error}");
        }
    }
    refused(&world.fails("file-read", json!({ "path": "null" })).await);
    // A real device, where we may make one: the root is then the folder of devices itself.
    let devices = World::with(|mut config| {
        config.roots = vec![read_only("/dev".into())];
        config
    });
    for device in ["null", "zero", "tty"] {
        let error = devices.fails("file-read", json!({ "path": device })).await;
        assert!(error.message().contains("a device"), "{error}");
    }
    // Walks pass them by.
    let found = world.ok("file-search", json!({ "pattern": "inner" })).await;
    assert_eq!(found["files_matched"], 1);
    let listed = world.ok("file-list", json!({})).await;
    let pipe = listed["entries"].as_array().unwrap().iter().find(|entry| entry["path"] == "pipe").unwrap();
    assert_eq!(pipe["kind"], "other");
}

#[tokio::test]
async fn magic_links_are_not_followed() {
    let world = World::with(|mut config| {
        config.roots = vec![read_only("/proc".into())];
        config
    });
    for path in [
        "self/root/etc/passwd",
        "self/cwd/Cargo.toml",
        "self/fd/0",
        "self/exe",
        "thread-self/root/etc/hostname",
    ] {
        refused(&world.fails("file-read", json!({ "path": path })).await);
    }
}

#[tokio::test]
async fn a_read_only_root_is_only_read_by_whatever_path() {
    let world = World::with(|mut config| {
        let outer = config.roots[0].path().to_owned();
        config.roots.push(read_only(outer.join("sub")));
        config
    });
    world.link("root/alias", "sub");
    let inner = world.path("root/sub/b.txt").display().to_string();
    for path in ["sub/b.txt", "alias/b.txt", &inner, "sub/new.txt", "sub/deep/new.txt", "alias/deep/new.txt"]
    {
        let error = world.fails(
            "file-write",
            json!({ "path": path, "content": "x", "overwrite": true, "create_dirs": true }),
        );
        let error = error.await;
        assert_eq!(error.code(), ErrorCode::PermissionDenied, "{path}: {error:?}");
        assert!(error.message().contains("only for reading"), "{error}");
    }
    assert!(!world.path("root/sub/deep").exists());
    assert_eq!(world.ok("file-read", json!({ "path": "alias/b.txt" })).await["content"], "inner\n");
    world.ok("file-write", json!({ "path": "c.txt", "content": "x" })).await;
}

#[tokio::test]
async fn helves_own_files_are_left_alone() {
    let world = World::new();
    world
        .put("root/private/key", "top secret")
        .link("root/sub/alias", "../private")
        .link("root/alias-key", "private/key");
    for path in ["private/key", "sub/alias/key", "alias-key", "private", "sub/alias"] {
        for (tool, arguments) in calls(path) {
            refused(&world.fails(tool, arguments).await);
        }
    }
    assert_eq!(world.text("root/private/key"), "top secret");
    let found =
        world.ok("file-search", json!({ "pattern": "top", "hidden": true, "gitignore": false })).await;
    assert_eq!(found["files_matched"], 0, "{found}");
    let listed = world.ok("file-list", json!({ "depth": 5 })).await;
    assert!(!listed.to_string().contains("\"path\":\"private"), "{listed}");
    for path in ["helve.toml", "sub/HELVE.toml"] {
        let error =
            world.fails("file-write", json!({ "path": path, "content": "[files]\nroots = ['/']\n" })).await;
        assert!(error.message().contains("configuration"), "{error}");
    }
    let error = world.fails("file-write", json!({ "path": ".helve-tmp-0", "content": "" })).await;
    assert!(error.message().contains("in the making"), "{error}");
}

#[tokio::test]
async fn no_name_leads_to_what_is_unwritable() {
    let unwritable = Unwritable::default();
    let world = World::guarded(unwritable.clone());
    world.put("root/conf/real.toml", "mine").put("root/deep/hook.sh", "mine").put("root/late.sh", "mine");
    world
        .link("root/helve.toml", "conf/real.toml")
        .link("root/chain", "sub/../again")
        .link("root/again", "deep/hook.sh")
        .link("root/door", "deep")
        .link("root/absolute", world.path("root/deep/hook.sh"));
    std::fs::hard_link(world.path("root/deep/hook.sh"), world.path("root/hard.sh")).unwrap();
    unwritable.add(["chain", "helve.toml", "gone/x.sh"].map(|name| world.path("root").join(name)));
    let names = [
        "helve.toml",
        "conf/real.toml",
        "chain",
        "again",
        "deep/hook.sh",
        "door/hook.sh",
        "absolute",
        "hard.sh",
        "gone/x.sh",
        "gone/x.sh/y",
    ];
    for path in names {
        for (tool, arguments) in [
            (
                "file-write",
                json!({ "path": path, "content": "evil", "overwrite": true, "create_dirs": true }),
            ),
            ("file-edit", json!({ "path": path, "edits": [{ "old": "mine", "new": "evil" }] })),
        ] {
            let error = world.fails(tool, arguments).await;
            let is_refused = error.code() == ErrorCode::PermissionDenied;
            assert!(is_refused || (tool == "file-edit" && path.starts_with("gone")), "{tool} {path} {error}");
        }
    }
    for path in ["conf/real.toml", "deep/hook.sh"] {
        assert_eq!(world.text(&format!("root/{path}")), "mine", "{path}");
    }
    assert!(!world.path("root/gone/x.sh").exists(), "nothing is made in its place");
    // What is added later counts at once.
    let late = json!({ "path": "late.sh", "content": "mine", "overwrite": true });
    world.ok("file-write", late.clone()).await;
    unwritable.add([world.path("root/late.sh")]);
    assert_eq!(world.fails("file-write", late).await.code(), ErrorCode::PermissionDenied);
    // Next to them everything is free.
    for path in ["deep/other.sh", "conf/x", "gone/y.sh"] {
        world.ok("file-write", json!({ "path": path, "content": "x", "create_dirs": true })).await;
    }
}

#[tokio::test]
async fn another_name_of_what_is_private_is_private() {
    let world = World::new();
    world.put("root/data/key", "top secret").link("root/private", "data/key");
    std::fs::hard_link(world.path("root/data/key"), world.path("root/hard")).unwrap();
    for path in ["private", "data/key", "hard"] {
        for (tool, arguments) in calls(path).into_iter().filter(|(tool, _)| *tool != "file-list") {
            let error = world.fails(tool, arguments).await;
            assert_eq!(error.code(), ErrorCode::PermissionDenied, "{tool} {path}: {error}");
        }
    }
}

#[tokio::test]
async fn several_roots_are_used_in_order_and_by_absolute_path() {
    let world = World::with(|mut config| {
        let second = config.roots[0].path().parent().unwrap().join("second");
        std::fs::create_dir(&second).unwrap();
        std::fs::write(second.join("only-here.txt"), "second").unwrap();
        std::fs::write(second.join("a.txt"), "another a").unwrap();
        config.roots.push(RootConfig::Path(second.join("../second")));
        config
    });
    let content = async |path: &str| world.ok("file-read", json!({ "path": path })).await["content"].clone();
    assert_eq!(content("a.txt").await, "one\ntwo\nthree\n");
    assert_eq!(content("only-here.txt").await, "second");
    let absolute = world.path("second/a.txt").display().to_string();
    assert_eq!(content(&absolute).await, "another a");
    let written =
        world.ok("file-write", json!({ "path": "only-here.txt", "content": "2", "overwrite": true })).await;
    assert_eq!(written["path"], world.path("second/only-here.txt").display().to_string());
    world.ok("file-write", json!({ "path": "new.txt", "content": "x" })).await;
    assert!(world.path("root/new.txt").exists());
    let listed = world.ok("file-list", json!({})).await;
    assert_eq!(listed["other_roots"], json!([world.path("second").display().to_string()]));
}

#[tokio::test]
async fn a_root_that_is_not_there_is_the_operators_business() {
    let world = World::with(|mut config| {
        config.roots = vec![RootConfig::Path("/nowhere/at/all".into())];
        config
    });
    let error = world.fails("file-read", json!({ "path": "a.txt" })).await;
    assert_eq!(error.code(), ErrorCode::PreconditionFailed);
    assert!(error.suggestions()[0].contains("files.roots"), "{error:?}");
}

#[tokio::test]
async fn what_is_not_there_is_answered_with_what_is() {
    let world = World::new();
    world.put("root/README.md", "").put("root/source/main.rs", "");
    let error = world.fails("file-read", json!({ "path": "readme.txt" })).await;
    assert!(error.message().contains("there is no file `readme.txt`"), "{error}");
    assert!(error.suggestions()[0].contains("`README.md`"), "{error:?}");
    let error = world.fails("file-read", json!({ "path": "sorce/main.rs" })).await;
    assert!(error.message().contains("there is no folder `sorce`"), "{error}");
    assert!(error.suggestions()[0].contains("`source`"), "{error:?}");
}

/// A hook or a policy that looks at how a path ends is not led astray.
#[tokio::test]
async fn a_path_that_ends_like_a_folder_names_no_file() {
    let world = World::new();
    world.put("root/sub/b.txt", "secret");
    for path in ["sub/b.txt/", "sub/b.txt//", "sub/b.txt/.", "sub/b.txt/./", "new/c.txt/"] {
        for (tool, arguments) in calls(path).into_iter().filter(|(tool, _)| *tool != "file-list") {
            let error = world.call(tool, arguments).await.unwrap_err();
            let is_there = path.starts_with("sub");
            assert!(!is_there || error.message().contains("only folders"), "{tool} {path}: {error}");
        }
    }
    assert!(!world.path("root/new").exists());
    world.call("file-list", json!({ "path": "sub/" })).await.unwrap();
    world.call("file-search", json!({ "path": "sub/", "pattern": "secret" })).await.unwrap();
}

/// What is denied is denied by whatever path the tools would find it.
#[test]
fn rules_hold_against_every_path_to_a_file() {
    let world = World::with(|mut config| {
        let root = config.roots[0].path().to_owned();
        config.roots.push(RootConfig::Path(root.join("sub")));
        config.roots.push(RootConfig::Path(root.with_file_name("linked")));
        config
    });
    world.link("linked", "outside");
    let at = |path: &str| world.path(path).display().to_string();
    let fits = |stance: Stance, tool: &str, pattern: &str, path: &str| {
        let rule: PermissionRule = format!("{tool}({pattern})").parse().unwrap();
        rule.fits(stance, world.tool(tool), &json!({ "path": path }))
    };
    for (pattern, path) in [
        ("a.txt", "a.txt".to_owned()),
        ("a.txt", "a.txt/".to_owned()),
        ("a.txt", "./a.txt".to_owned()),
        ("a.txt", at("root/a.txt")),
        ("a.txt", format!("/{}//./a.txt/", at("root"))),
        ("sub/*", at("root/sub/b.txt")),
        // Of a root within another.
        ("sub/b.txt", "b.txt".to_owned()),
        ("b.txt", "sub/b.txt".to_owned()),
        // A rule that names the whole path.
        (&at("root/a.txt"), "a.txt".to_owned()),
        (&at("linked/*"), "secret.txt".to_owned()),
        // A root that is a link has two.
        (&at("linked/*"), at("outside/secret.txt")),
        (&at("outside/*"), at("linked/secret.txt")),
        ("secret.txt", at("outside/secret.txt")),
    ] {
        for tool in ["file-read", "file-write", "file-edit", "file-list", "file-search"] {
            assert!(fits(Stance::Deny, tool, pattern, &path), "{tool}({pattern}) {path}");
            assert!(fits(Stance::Ask, tool, pattern, &path), "{tool}({pattern}) {path}");
        }
    }
    for (pattern, path) in [("a.txt", at("root/x/a.txt")), ("root/*", at("root/a.txt"))] {
        assert!(!fits(Stance::Deny, "file-read", pattern, &path), "{pattern} {path}");
    }
    let rule: PermissionRule = "file-read(*/*)".parse().unwrap();
    let of_one_root = World::new();
    let top = json!({ "path": "a.txt" });
    assert!(
        !rule.fits(Stance::Deny, of_one_root.tool("file-read"), &top),
        "what is above a root is not meant"
    );
    assert!(fits(Stance::Deny, "file-search", "sub/*", "sub"), "a search of a folder sees all in it");
    assert!(!fits(Stance::Allow, "file-search", "sub/*", "sub"));
    assert!(!fits(Stance::Allow, "file-read", "a.txt", &at("root/a.txt")));
}
