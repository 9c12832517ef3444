//! Back to what was, through the runtime and after a restart.

use std::path::Path;
use std::sync::Arc;

use helve::ports::Ledger;
use helve::run::Recalled;
use helve::{Call, Layer, Outcome, Registry, Runtime};
use helve_store::{Store, StoreOptions};
use helve_tools::files::{Files, FilesConfig, RootConfig, file_tools};
use serde_json::{Value, json};

use super::World;
use crate::context;

/// A runtime as a process has it that starts now.
fn runtime(dir: &Path, backup_bytes: u64) -> (Runtime, Arc<Store>) {
    let roots = vec![RootConfig::Path(dir.join("root"))];
    let files = Files::builder(FilesConfig { roots, backup_bytes, ..FilesConfig::default() })
        .backups(dir.join("state/backups"))
        .build();
    let store = Arc::new(Store::open(&dir.join("state/helve.db"), StoreOptions::default()).unwrap());
    let registry = Registry::default();
    registry.register_many(Layer::BuiltIn, file_tools(&files)).unwrap();
    (Runtime::builder().registry(registry).ledger(store.clone() as Arc<dyn Ledger>).build(), store)
}

/// Calls a tool in one process, and undoes it in the next.
async fn call_and_undo(world: &World, tool: &str, arguments: Value, meanwhile: impl FnOnce()) -> Outcome {
    let dir = world.path("");
    let (first, store) = runtime(&dir, 1 << 20);
    let outcome = first.call(Call::new(tool, arguments)).await;
    assert!(outcome.is_success(), "{outcome:?}");
    assert_eq!(outcome.effects.len(), 1);
    drop(first);
    store.close().unwrap();
    drop(store);
    meanwhile();
    let (second, store) = runtime(&dir, 1 << 20);
    let undone = second.undo_run(outcome.call_id, helve::Caller::local()).await.unwrap();
    drop(second);
    store.close().unwrap();
    undone
}

#[tokio::test]
async fn a_new_file_is_removed_and_a_replaced_one_restored() {
    let world = World::new();
    let undone = call_and_undo(&world, "file:write", json!({ "path": "n.txt", "content": "x" }), || {
        assert_eq!(world.text("root/n.txt"), "x");
    });
    assert!(undone.await.is_success());
    assert!(!world.path("root/n.txt").exists());

    world.put("root/f", [0, 159, 146, 150]);
    let write = json!({ "path": "f", "content": "text", "overwrite": true });
    let undone =
        call_and_undo(&world, "file-write", write, || assert_eq!(world.text("root/f"), "text")).await;
    assert!(undone.is_success(), "{undone:?}");
    assert_eq!(std::fs::read(world.path("root/f")).unwrap(), [0, 159, 146, 150]);

    let edit = json!({ "path": "a.txt", "edits": [{ "old": "two", "new": "2" }] });
    let undone =
        call_and_undo(&world, "file-edit", edit, || assert_eq!(world.text("root/a.txt"), "one\n2\nthree\n"))
            .await;
    assert!(undone.is_success(), "{undone:?}");
    assert_eq!(world.text("root/a.txt"), "one\ntwo\nthree\n");
}

#[tokio::test]
async fn a_file_that_changed_since_is_left_as_it_is() {
    let world = World::new();
    let write = json!({ "path": "a.txt", "content": "mine", "overwrite": true });
    let undone = call_and_undo(&world, "file-write", write.clone(), || {
        world.put("root/a.txt", "theirs");
    });
    let undone = undone.await;
    assert!(!undone.is_success());
    assert_eq!(world.text("root/a.txt"), "theirs");

    let undone = call_and_undo(&world, "file-write", write, || {
        std::fs::remove_file(world.path("root/a.txt")).unwrap()
    });
    assert!(!undone.await.is_success());
    assert!(!world.path("root/a.txt").exists());
}

/// Undoes by the tool's own code, to see what it says.
async fn undo(world: &World, result: Value) -> Result<(), helve::ToolError> {
    let tool = world.tool("file-write");
    tool.undo_handler().unwrap().undo(json!({}), result, context(tool)).await
}

#[tokio::test]
async fn undoing_twice_does_no_harm_and_a_refusal_says_why() {
    let world = World::new();
    let result =
        world.ok("file-write", json!({ "path": "a.txt", "content": "new", "overwrite": true })).await;
    undo(&world, result.clone()).await.unwrap();
    undo(&world, result.clone()).await.unwrap();
    assert_eq!(world.text("root/a.txt"), "one\ntwo\nthree\n");
    world.put("root/a.txt", "theirs");
    let error = undo(&world, result).await.unwrap_err();
    assert_eq!(error.message(), "`a.txt` was changed since, so it is left as it is");

    let made = world.ok("file-write", json!({ "path": "n.txt", "content": "new" })).await;
    undo(&world, made.clone()).await.unwrap();
    undo(&world, made).await.unwrap();
    // What a result says is not trusted either.
    let forged = json!({ "path": "../outside/secret.txt", "bytesWritten": 1, "sha256": "0".repeat(64) });
    assert!(undo(&world, forged).await.is_err());
    assert_eq!(world.text("outside/secret.txt"), "top secret\n");
}

#[tokio::test]
async fn content_that_is_not_kept_any_more_cannot_be_restored() {
    let world = World::new();
    let result =
        world.ok("file-write", json!({ "path": "a.txt", "content": "new", "overwrite": true })).await;
    std::fs::remove_dir_all(world.path("state/backups")).unwrap();
    let error = undo(&world, result).await.unwrap_err();
    assert!(error.message().contains("not kept, or not any more"), "{error}");
    assert_eq!(world.text("root/a.txt"), "new");
}

#[tokio::test]
async fn a_call_that_was_cut_short_can_be_asked_what_became_of_it() {
    let world = World::new();
    let tool = world.tool("file-write");
    let context = context(tool);
    let recall = async || tool.recall_handler().unwrap().recall(json!({}), context.clone()).await.unwrap();
    assert_eq!(recall().await, Recalled::WillNotHappen);
    let arguments = json!({ "path": "a.txt", "content": "new", "overwrite": true });
    let result = tool.handler().call(arguments, context.clone()).await.unwrap();
    assert_eq!(recall().await, Recalled::Happened(result));
    world.put("root/a.txt", "one\ntwo\nthree\n");
    assert_eq!(recall().await, Recalled::WillNotHappen);
    world.put("root/a.txt", "theirs");
    assert_eq!(recall().await, Recalled::Unknown);
}

#[tokio::test]
async fn a_call_that_was_taken_back_changes_nothing() {
    let world = World::new();
    let tool = world.tool("file-write");
    let context = context(tool);
    context.cancellation().cancel();
    let arguments = json!({ "path": "a.txt", "content": "new", "overwrite": true });
    let error = tool.handler().call(arguments, context).await.unwrap_err();
    assert_eq!(error.code(), helve::ErrorCode::Cancelled);
    assert_eq!(world.text("root/a.txt"), "one\ntwo\nthree\n");
    assert_eq!(std::fs::read_dir(world.path("root")).unwrap().count(), 2);
}
