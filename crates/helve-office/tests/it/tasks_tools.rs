//! `list_tasks`, `create_task`, `update_task`.

use helve::Call;
use serde_json::{Value, json};

use crate::calendar_world::World;

fn titles(answer: &Value) -> Vec<String> {
    answer["tasks"]
        .as_array()
        .unwrap()
        .iter()
        .map(|task| task["title"].as_str().unwrap().to_owned())
        .collect()
}

#[tokio::test]
async fn tasks_are_made_and_found_again() {
    let world = World::new().await;
    let made = world
        .ok(
            "create_task",
            json!({ "title": "Send the report", "due": "2026-03-06T17:00", "priority": "high", "project": "Acme, Inc;",
                    "notes": "Line one\nline two; with, signs \\ and more" }),
        )
        .await;
    assert_eq!(made["task"]["due"], "2026-03-06T17:00:00+01:00[Europe/Berlin]");
    world.ok("create_task", json!({ "title": "Buy milk", "due": "2026-03-05" })).await;
    world.ok("create_task", json!({ "title": "Some day" })).await;
    let all = world.ok("list_tasks", json!({})).await;
    assert_eq!(titles(&all), ["Buy milk", "Send the report", "Some day"]);
    assert_eq!(all["tasks"][1]["notes"], "Line one\nline two; with, signs \\ and more");
    assert_eq!(all["tasks"][1]["version"], made["version"]);
    assert_eq!(all["tasks"][1]["id"], made["id"]);
    for (ask, found) in [
        (json!({ "dueAfter": "2026-03-06" }), vec!["Send the report"]),
        (json!({ "dueBefore": "2026-03-05" }), vec!["Buy milk"]),
        (json!({ "dueBefore": "2026-03-06T16:00:00Z" }), vec!["Buy milk"]),
        (json!({ "dueBefore": "2026-03-06T16:00:01Z" }), vec!["Buy milk", "Send the report"]),
        (json!({ "priority": "high" }), vec!["Send the report"]),
        (json!({ "project": "acme, inc;" }), vec!["Send the report"]),
        (json!({ "query": "milk" }), vec!["Buy milk"]),
        (json!({ "status": "completed" }), vec![]),
        (json!({ "limit": 1, "offset": 1 }), vec!["Send the report"]),
    ] {
        assert_eq!(titles(&world.ok("list_tasks", ask.clone()).await), found, "{ask}");
    }
    let stored = world.store_bytes(&made).await;
    assert!(stored.contains("DUE;TZID=Europe/Berlin:20260306T170000\r\n"), "{stored}");
    assert!(stored.contains("BEGIN:VTIMEZONE\r\nTZID:Europe/Berlin\r\n"), "{stored}");
}

impl World {
    /// The bytes of the task that an answer is about.
    pub(crate) async fn store_bytes(&self, answer: &Value) -> String {
        use helve_office::objects::{Kind, ObjectId};
        let id = ObjectId::parse(answer["id"].as_str().unwrap(), Kind::Task).unwrap();
        let row = self.office.db().object_of(id.collection, &id.uid).await.unwrap().unwrap();
        String::from_utf8(row.bytes).unwrap()
    }
}

#[tokio::test]
async fn a_new_task_is_undone_unless_somebody_changed_it() {
    let world = World::new().await;
    let outcome = world.outcome("create_task", json!({ "title": "Oops" })).await;
    assert!(outcome.is_success(), "{outcome:?}");
    assert!(world.undo(&outcome).await.is_success());
    assert_eq!(titles(&world.ok("list_tasks", json!({ "status": "all" })).await), Vec::<String>::new());
}

#[tokio::test]
async fn the_same_key_makes_one_task() {
    let world = World::new().await;
    let call = || Call::new("create_task", json!({ "title": "Once" })).idempotency_key("k-1");
    let first = world.runtime.call(call()).await;
    assert!(first.is_success(), "{first:?}");
    assert!(world.runtime.call(call()).await.is_success());
    assert_eq!(titles(&world.ok("list_tasks", json!({})).await), ["Once"]);
}

#[tokio::test]
async fn no_field_takes_characters_that_act_on_their_reader() {
    let world = World::new().await;
    for field in ["title", "notes", "project", "list", "recurrence", "due", "timeZone"] {
        for bad in ["a\0b", "a\u{202e}b", "a\u{200b}b", "a\rb", "a\u{1b}[31mb", "a\u{e0041}b"] {
            let mut arguments = json!({ "title": "x", "due": "2026-03-01" });
            arguments[field] = json!(bad);
            let error = world.fails("create_task", arguments).await;
            assert_eq!(error.code(), helve::ErrorCode::ValidationFailed, "{field} {bad:?}: {error}");
        }
    }
    for field in ["title", "project"] {
        let mut arguments = json!({ "title": "x" });
        arguments[field] = json!("a\nDTSTART:20260101\nb");
        world.fails("create_task", arguments).await;
    }
    // Notes may have lines, which become an escape and never a property.
    let made =
        world.ok("create_task", json!({ "title": "x", "notes": "a\nATTACH:http://evil.example\r\nb" })).await;
    let stored = world.store_bytes(&made).await;
    assert!(stored.contains("DESCRIPTION:a\\nATTACH:http://evil.example\\nb\r\n"), "{stored}");
}
