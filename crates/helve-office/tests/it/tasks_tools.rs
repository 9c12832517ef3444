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

/// A task of another program, with lines that we know nothing of.
const THEIRS: &str = "BEGIN:VTODO
    UID:t
    DTSTAMP:20260101T000000Z
    summary;LANGUAGE=de:Miete
    DTSTART;TZID=Europe/Berlin:20260301T090000
    DUE;TZID=Europe/Berlin:20260301T100000
    RRULE:FREQ=MONTHLY;COUNT=3
    CATEGORIES;X-C=1:Haus,Geld\\, viel
    X-APPLE-SORT-ORDER:7
    PERCENT-COMPLETE:20
    BEGIN:VALARM
    ACTION:DISPLAY
    TRIGGER:-PT5M
    END:VALARM
    END:VTODO";

async fn only(world: &World) -> Value {
    world.ok("list_tasks", json!({ "status": "all" })).await["tasks"][0].clone()
}

#[tokio::test]
async fn an_update_changes_what_it_names_and_keeps_every_other_line() {
    let world = World::new().await;
    assert_eq!(world.import(THEIRS).await.tasks, 1);
    let task = only(&world).await;
    assert_eq!((&task["title"], &task["project"]), (&json!("Miete"), &json!("Haus")));
    let before = world.stored("tasks/t.ics").await;
    let change =
        json!({ "id": task["id"], "version": task["version"], "priority": "high", "project": "Wohnung" });
    let outcome = world.outcome("update_task", change).await;
    assert!(outcome.is_success(), "{outcome:?}");
    let after = world.stored("tasks/t.ics").await;
    let stamps = |line: &&str| !line.starts_with("DTSTAMP") && !line.starts_with("LAST-MODIFIED");
    let expected = before.replace("CATEGORIES;X-C=1:Haus,", "CATEGORIES;X-C=1:Wohnung,");
    let lines: Vec<&str> = after.split("\r\n").filter(stamps).filter(|line| *line != "PRIORITY:1").collect();
    assert_eq!(lines, expected.split("\r\n").filter(stamps).collect::<Vec<_>>());
    assert!(world.undo(&outcome).await.is_success());
    assert_eq!(world.stored("tasks/t.ics").await, before);
}

#[tokio::test]
async fn parameters_and_other_categories_stay_when_a_value_changes() {
    let world = World::new().await;
    world.import(THEIRS).await;
    let task = only(&world).await;
    let change = json!({ "id": task["id"], "title": "Pacht", "clear": ["project"],
                         "due": "2026-03-02T10:00", "timeZone": "Europe/Berlin" });
    world.ok("update_task", change).await;
    let after = world.stored("tasks/t.ics").await;
    for line in ["summary;LANGUAGE=de:Pacht\r\n", "CATEGORIES;X-C=1:Geld\\, viel\r\n"] {
        assert!(after.contains(line), "{line} in {after}");
    }
    assert!(after.contains("DUE;TZID=Europe/Berlin:20260302T100000\r\n"), "{after}");
}

#[tokio::test]
async fn a_task_that_repeats_is_due_for_its_next_time_until_the_last() {
    let world = World::new().await;
    world.import(THEIRS).await;
    let mut dues = Vec::new();
    for _ in 0..3 {
        let task = only(&world).await;
        assert_eq!(task["status"], "open");
        dues.push(task["due"].as_str().unwrap().to_owned());
        let done = json!({ "id": task["id"], "version": task["version"], "status": "completed" });
        world.ok("update_task", done).await;
    }
    assert_eq!(
        dues,
        [
            "2026-03-01T10:00:00+01:00[Europe/Berlin]",
            "2026-04-01T10:00:00+02:00[Europe/Berlin]",
            "2026-05-01T10:00:00+02:00[Europe/Berlin]",
        ]
    );
    let task = only(&world).await;
    assert_eq!(task["status"], "completed");
    assert!(task["completedAt"].is_string());
    let stored = world.stored("tasks/t.ics").await;
    assert!(
        stored.contains("X-APPLE-SORT-ORDER:7\r\n") && stored.contains("RRULE:FREQ=MONTHLY;COUNT=1\r\n"),
        "{stored}"
    );
    // Taken up again, it is open.
    let open = world.ok("update_task", json!({ "id": task["id"], "status": "in_progress" })).await;
    assert!(open["task"].get("completedAt").is_none(), "{open}");
}

#[tokio::test]
async fn a_task_that_somebody_changed_is_a_conflict_with_both_versions() {
    let world = World::new().await;
    let made = world.ok("create_task", json!({ "title": "Mine", "due": "2026-03-01" })).await;
    world.ok("update_task", json!({ "id": made["id"], "version": made["version"], "title": "Theirs" })).await;
    let error = world
        .fails("update_task", json!({ "id": made["id"], "version": made["version"], "due": "2026-03-05" }))
        .await;
    assert_eq!(error.tool_code(), Some("CONFLICT"));
    assert!(error.message().contains("Title: Theirs; Due: 2026-03-01"), "{error}");
    assert!(error.message().contains("Title: Theirs; Due: 2026-03-05"), "{error}");
    assert_eq!(only(&world).await["due"], "2026-03-01");
    for (arguments, part) in [
        (json!({ "id": made["id"] }), "nothing is to be changed"),
        (json!({ "id": "e1.YQ", "title": "x" }), "no id of a task"),
        (json!({ "id": made["id"], "clear": ["due"], "recurrence": "daily" }), "needs to be due"),
        (json!({ "id": made["id"], "recurrence": "FREQ=SECONDLY" }), "every hour"),
        (json!({ "id": made["id"], "recurrence": "FREQ=DAILY\nX:1" }), "characters"),
    ] {
        let error = world.fails("update_task", arguments.clone()).await;
        assert!(error.message().contains(part), "{arguments}: {error}");
    }
    let cleared = world.ok("update_task", json!({ "id": made["id"], "clear": ["due"] })).await;
    assert!(cleared["task"].get("due").is_none());
}

#[tokio::test]
async fn a_call_that_was_cut_short_can_be_asked_what_became_of_it() {
    use helve::run::Recalled;
    use helve_office::account::ObjectStore;
    let world = World::new().await;
    let tools = helve_office::tools::office_tools(&world.office);
    let tool = tools.iter().find(|tool| tool.name().as_str() == "create_task").unwrap();
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(30);
    let id = helve::CallId::new(jiff::Timestamp::now());
    let context = helve::Context::new(id, tool.name().clone(), helve::Caller::local(), deadline);
    let recall = async || tool.recall_handler().unwrap().recall(json!({}), context.clone()).await.unwrap();
    assert_eq!(recall().await, Recalled::WillNotHappen);
    let result = tool.handler().call(json!({ "title": "Once" }), context.clone()).await.unwrap();
    let Recalled::Happened(found) = recall().await else { panic!("it happened") };
    assert_eq!((&found["id"], &found["version"]), (&result["id"], &result["version"]));
    // Taken up again, the same call makes nothing new.
    let again = tool.handler().call(json!({ "title": "Once" }), context.clone()).await.unwrap();
    assert_eq!(again["id"], result["id"]);
    assert_eq!(world.ok("list_tasks", json!({})).await["total"], 1);
    let object = world.store.changes("tasks/", None).await.unwrap().changed.remove(0);
    world.store.delete(&object.href, &object.version).await.unwrap();
    assert_eq!(recall().await, Recalled::WillNotHappen);
}
