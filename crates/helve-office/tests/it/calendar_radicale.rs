//! Calendar and task tools on a real CalDAV server, with another program at the same calendar.

use std::sync::Arc;

use helve::{Call, Caller, Context, Tool};
use helve_office::account::{Expected, ObjectStore};
use helve_office::connect::discover_dav::check;
use helve_office::dav::DavAccount;
use helve_office::sync::{Progress, sync_objects};
use helve_office::text::{Address, Mailbox};
use helve_office::tools::office_tools;
use helve_office::{Account, Office, OfficeSettings};
use helve_store::office::{AccountRow, OfficeDb};
use helve_testkit::OfficeServers;
use jiff::tz::TimeZone;
use serde_json::json;

use crate::calendar_world::{World, runtime, times};
use crate::dav_server::{other_program, settings};

const CALENDAR: &str = "<c:mkcalendar xmlns='DAV:' xmlns:c='urn:ietf:params:xml:ns:caldav'><set><prop><displayname>NAME</displayname>\
     <c:supported-calendar-component-set><c:comp name='KIND'/></c:supported-calendar-component-set></prop></set></c:mkcalendar>";

/// The tools on Radicale.
struct Server {
    _servers: OfficeServers,
    _dir: tempfile::TempDir,
    office: Arc<Office>,
    account: Arc<Account>,
    store: Arc<dyn ObjectStore>,
    world: World,
    url: String,
}

impl Server {
    async fn start() -> Self {
        let servers = OfficeServers::start();
        let url = servers.text("/dav/url");
        for (path, name, kind) in [("work", "Work", "VEVENT"), ("todo", "To do", "VTODO")] {
            let body = CALENDAR.replace("NAME", name).replace("KIND", kind);
            let said = other_program("alice", "MKCALENDAR", &format!("{url}alice/{path}/"), &[], &body).await;
            assert!(said.contains(" 201 "), "{said}");
        }
        let settings = settings(&url, "alice");
        let store: Arc<dyn ObjectStore> =
            Arc::new(DavAccount::new(&settings, check(&settings).await.unwrap().layout).unwrap());
        let dir = tempfile::tempdir().unwrap();
        let db = OfficeDb::open(&dir.path().join("office.db")).unwrap();
        db.add_account(AccountRow {
            id: "work".to_owned(),
            kind: "dav".to_owned(),
            address: None,
            name: None,
            owner: None,
            settings: "{}".to_owned(),
            created_at: jiff::Timestamp::now(),
            synced_at: None,
            trouble: None,
        })
        .await
        .unwrap();
        let account = Arc::new(Account {
            id: "work".to_owned(),
            kind: "dav".to_owned(),
            person: Some(Mailbox::new(None, Address::new("alice@example.org").unwrap()).unwrap()),
            owner: None,
            mails: None,
            submit: None,
            objects: Some(Arc::clone(&store)),
        });
        let zone = TimeZone::get("Europe/Berlin").unwrap();
        let office = Arc::new(Office::new(db, OfficeSettings { zone, ..OfficeSettings::default() }));
        office.set_accounts([Arc::clone(&account)]);
        let world = World::new().await.on(runtime(&office));
        let server = Self { _servers: servers, _dir: dir, office, account, store, world, url };
        server.sync().await;
        server
    }

    async fn sync(&self) -> usize {
        let tell = |_: Progress| {};
        sync_objects(self.office.db(), &self.account, &tell).await.unwrap().changed
    }

    fn tool(&self, name: &str) -> Tool {
        office_tools(&self.office).into_iter().find(|tool| tool.name().as_str() == name).unwrap()
    }
}

#[tokio::test]
async fn events_and_tasks_are_made_changed_and_undone_on_the_server() {
    let server = Server::start().await;
    let world = &server.world;
    let event = json!({ "title": "Review", "start": "2026-03-02T10:00", "end": "2026-03-02T11:00",
                        "timeZone": "Europe/Berlin", "recurrence": "FREQ=WEEKLY;COUNT=4", "calendar": "Work" });
    let made = world.ok("create_calendar_event", event).await;
    // The index has it at once, and a sync finds the same.
    let list = json!({ "startDate": "2026-03-01", "endDate": "2026-04-30" });
    let listed = world.ok("list_calendar_events", list.clone()).await;
    assert_eq!(listed["events"].as_array().unwrap().len(), 4);
    assert_eq!(listed["events"][0]["version"], made["version"]);
    server.sync().await;
    assert_eq!(world.ok("list_calendar_events", list.clone()).await, listed);

    let third = &listed["events"][2];
    let change = json!({ "id": third["id"], "version": third["version"], "scope": "this_and_following",
                         "start": "2026-03-16T15:00" });
    let outcome = world.approved("update_calendar_event", change).await;
    assert!(outcome.is_success(), "{outcome:?}");
    let starts = |answer: &serde_json::Value| -> Vec<String> {
        times(answer).iter().map(|line| line[7..23].to_owned()).collect()
    };
    server.sync().await;
    let split = world.ok("list_calendar_events", list.clone()).await;
    assert_eq!(
        starts(&split),
        ["2026-03-02T10:00", "2026-03-09T10:00", "2026-03-16T15:00", "2026-03-23T15:00"]
    );
    let undone = world.undo(&outcome).await;
    assert!(undone.is_success(), "{undone:?}");
    server.sync().await;
    assert_eq!(starts(&world.ok("list_calendar_events", list).await), starts(&listed));

    let task = world
        .ok("create_task", json!({ "title": "Pay", "due": "2026-04-01", "recurrence": "monthly" }))
        .await;
    let done = json!({ "id": task["id"], "version": task["version"], "status": "completed" });
    let done = world.ok("update_task", done).await;
    assert_eq!((&done["task"]["due"], &done["task"]["status"]), (&json!("2026-05-01"), &json!("open")));
    server.sync().await;
    assert_eq!(world.ok("list_tasks", json!({})).await["tasks"][0]["due"], "2026-05-01");
}

#[tokio::test]
async fn two_programs_at_one_event_never_overwrite_each_other() {
    let server = Server::start().await;
    let world = &server.world;
    let made =
        world.ok("create_calendar_event", json!({ "title": "Talk", "start": "2026-03-02T10:00" })).await;
    // Another program changes it on the server; our index does not know yet.
    let collections = server.store.collections().await.unwrap();
    let work = collections.iter().find(|one| one.holds.events).unwrap();
    let object = server.store.changes(&work.href, None).await.unwrap().changed.remove(0);
    let theirs = String::from_utf8(object.bytes.to_vec())
        .unwrap()
        .replace("SUMMARY:Talk", "SUMMARY:Lecture\r\nX-THEIRS:1");
    server.store.put(&object.href, theirs.into(), Expected::Version(&object.version)).await.unwrap();
    let mine = json!({ "id": made["id"], "version": made["version"], "location": "Hall" });
    let error = world.fails("update_calendar_event", mine).await;
    assert_eq!(error.tool_code(), Some("CONFLICT"), "{error}");
    assert!(error.message().contains("Title: Lecture") && error.message().contains("Where: Hall"), "{error}");
    // On their version it works, and keeps what they wrote.
    server.sync().await;
    let now =
        world.ok("list_calendar_events", json!({ "startDate": "2026-03-02" })).await["events"][0].clone();
    world
        .ok(
            "update_calendar_event",
            json!({ "id": now["id"], "version": now["version"], "location": "Hall" }),
        )
        .await;
    let stored = server.store.get(&object.href).await.unwrap();
    let stored = String::from_utf8(stored.bytes.to_vec()).unwrap();
    assert!(stored.contains("X-THEIRS:1") && stored.contains("LOCATION:Hall"), "{stored}");
    // What is gone on the server is gone after the next sync, whatever we knew.
    let gone = other_program("alice", "DELETE", &format!("{}alice/work/", server.url), &[], "").await;
    assert!(gone.contains(" 200 ") || gone.contains(" 204 "), "{gone}");
    let error = world.fails("update_calendar_event", json!({ "id": now["id"], "title": "x" })).await;
    assert_eq!(error.tool_code(), Some("NOT_FOUND"), "{error}");
    server.sync().await;
    let error = world.fails("list_calendar_events", json!({ "startDate": "2026-03-02" })).await;
    assert_eq!(error.code(), helve::ErrorCode::IntegrationMissing);
}

#[tokio::test]
async fn a_call_that_was_cut_short_is_looked_up_on_the_server() {
    use helve::run::Recalled;
    let server = Server::start().await;
    let tool = server.tool("create_task");
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(30);
    let id = helve::CallId::new(jiff::Timestamp::now());
    let context = Context::new(id, tool.name().clone(), Caller::local(), deadline);
    let recall = async || tool.recall_handler().unwrap().recall(json!({}), context.clone()).await.unwrap();
    assert_eq!(recall().await, Recalled::WillNotHappen);
    let result = tool.handler().call(json!({ "title": "Once" }), context.clone()).await.unwrap();
    let Recalled::Happened(recalled) = recall().await else { panic!("it happened") };
    assert_eq!(recalled["version"], result["version"]);
    let collections = server.store.collections().await.unwrap();
    let todo = collections.iter().find(|one| one.holds.tasks).unwrap();
    let object = server.store.changes(&todo.href, None).await.unwrap().changed.remove(0);
    server.store.delete(&object.href, &object.version).await.unwrap();
    // The server may still be at work on what it was sent, so this is not the last word.
    assert_eq!(recall().await, Recalled::DidNotHappen);
    let again = server.world.runtime.call(Call::new("list_tasks", json!({}))).await;
    assert!(again.is_success());
}
