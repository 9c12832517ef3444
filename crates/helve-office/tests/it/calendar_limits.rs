//! What is too much, what goes wrong on the way, and many at once.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use helve::{BoxFuture, Call, CallId, Caller, Context};
use helve_office::account::{
    Collection, Expected, Fault, Holds, Object, ObjectChanges, ObjectStore, PutFault,
};
use helve_office::availability::{Interval, Part};
use helve_office::sync::{Progress, sync_objects};
use helve_office::text::Address;
use helve_office::{Account, tools::office_tools};
use helve_store::office::{AccountRow, ObjectPage, ObjectQuery, OfficeDb};
use serde_json::json;

use crate::calendar_world::{self, World};

#[tokio::test]
async fn a_rule_that_never_rests_makes_the_time_unknown_and_holds_up_nobody() {
    let world = World::new().await;
    world.event("s", "DTSTART:20200101T000000Z\nDURATION:PT1S\nRRULE:FREQ=SECONDLY\nSUMMARY:Flood").await;
    world.event("a", "DTSTART:20260302T100000Z\nDURATION:PT1H\nSUMMARY:Talk").await;
    let ask = json!({ "startDate": "2026-03-01", "endDate": "2026-03-31", "timeZone": "UTC" });
    let began = std::time::Instant::now();
    let answer = world.ok("list_calendar_events", ask.clone()).await;
    assert_eq!(answer["events"][0]["title"], "Talk");
    assert_eq!(answer["unreadable"][0]["title"], "Flood");
    let free = world.ok("check_availability", ask).await;
    assert_eq!(free["freeSlots"], json!([]));
    assert!(began.elapsed().as_secs() < 10, "{:?}", began.elapsed());
}

#[tokio::test]
async fn many_long_events_are_told_in_few_words_and_one_in_full() {
    let world = World::new().await;
    let long = "x".repeat(1_900);
    let people: String = (0..60).map(|n| format!("\nATTENDEE:mailto:p{n}@example.org")).collect();
    world
        .event(
            "l",
            &format!("DTSTART:20260302T100000Z\nRRULE:FREQ=DAILY;COUNT=200\nDESCRIPTION:{long}{people}"),
        )
        .await;
    let ask = |limit: u16| json!({ "startDate": "2026-03-01", "endDate": "2026-12-31", "limit": limit });
    let one = world.ok("list_calendar_events", ask(1)).await;
    assert_eq!(one["events"][0]["description"], long);
    assert_eq!(
        (one["events"][0]["attendees"].as_array().unwrap().len(), &one["events"][0]["attendeesMore"]),
        (50, &json!(10))
    );
    let many = world.ok("list_calendar_events", ask(250)).await;
    assert_eq!(many["events"].as_array().unwrap().len(), 200);
    assert_eq!(
        (many["events"][9]["attendees"].as_array().unwrap().len(), &many["events"][9]["attendeesMore"]),
        (5, &json!(55))
    );
    assert!(many.to_string().len() < 300_000, "{}", many.to_string().len());
}

#[tokio::test]
async fn of_many_who_change_one_event_at_once_none_is_overwritten() {
    let world = World::new().await;
    world.event("s", "DTSTART:20260302T100000Z\nSUMMARY:Talk").await;
    let listed = world.ok("list_calendar_events", json!({ "startDate": "2026-03-02" })).await;
    let id = listed["events"][0]["id"].clone();
    let tools = office_tools(&world.office);
    let tool = tools.iter().find(|tool| tool.name().as_str() == "update_calendar_event").unwrap();
    let mut calls = tokio::task::JoinSet::new();
    for n in 0..12 {
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(30);
        let context =
            Context::new(CallId::new(jiff::Timestamp::now()), tool.name().clone(), Caller::local(), deadline);
        let arguments = json!({ "id": id, "addAttendees": [format!("p{n}@example.org")] });
        let call = tool.handler().call(arguments, context);
        calls.spawn(async move { (n, call.await) });
    }
    let mut told = Vec::new();
    while let Some(done) = calls.join_next().await {
        match done.unwrap() {
            (n, Ok(_)) => told.push(format!("p{n}@example.org")),
            (_, Err(error)) => assert_eq!(error.tool_code(), Some("CONFLICT"), "{error}"),
        }
    }
    let stored = world.stored("calendar/s.ics").await.replace("\r\n ", "");
    assert!(!told.is_empty());
    for one in &told {
        assert!(stored.contains(&format!("mailto:{one}\r\n")), "{one}: {stored}");
    }
    assert_eq!(stored.matches("ATTENDEE").count(), told.len());
}

/// A server with pages, which breaks off at a call of the test's choosing.
struct Pages {
    calls: AtomicUsize,
    breaks_at: usize,
    asked: Mutex<Vec<Option<String>>>,
}

impl ObjectStore for Pages {
    fn collections(&self) -> BoxFuture<'_, Result<Vec<Collection>, Fault>> {
        let holds = Holds { events: true, ..Holds::default() };
        let one = Collection { href: "/c/".to_owned(), name: "C".to_owned(), holds, writable: true };
        Box::pin(async { Ok(vec![one]) })
    }

    fn changes<'a>(
        &'a self,
        _: &'a str,
        since: Option<&'a str>,
    ) -> BoxFuture<'a, Result<ObjectChanges, Fault>> {
        self.asked.lock().unwrap().push(since.map(str::to_owned));
        let at = since.map_or(0, |since| since.parse::<usize>().unwrap());
        let breaks = self.calls.fetch_add(1, Ordering::SeqCst) + 1 == self.breaks_at;
        Box::pin(async move {
            if breaks {
                return Err(Fault::Unreachable("the line broke".to_owned()));
            }
            let object = |n: usize| Object {
                href: format!("/c/{n}.ics"),
                version: format!("v{n}"),
                bytes: Bytes::from(match n {
                    3 => "BEGIN:VCALENDAR\r\nnonsense".to_owned(),
                    n => format!(
                        "BEGIN:VCALENDAR\r\nBEGIN:VEVENT\r\nUID:{n}\r\nDTSTART:20260302T100000Z\r\nEND:VEVENT\r\nEND:VCALENDAR\r\n"
                    ),
                }),
            };
            let changed = if at < 6 { vec![object(at), object(at + 1)] } else { Vec::new() };
            let gone = if at == 4 { vec!["/c/0.ics".to_owned()] } else { Vec::new() };
            let state = (at + 2).min(6).to_string();
            let unread = Vec::new();
            Ok(ObjectChanges { reset: since.is_none(), changed, gone, unread, state, more: at < 4 })
        })
    }

    fn get<'a>(&'a self, _: &'a str) -> BoxFuture<'a, Result<Object, Fault>> {
        Box::pin(async { Err(Fault::Gone("gone".to_owned())) })
    }

    fn put<'a>(
        &'a self,
        _: &'a str,
        _: Bytes,
        _: Expected<'a>,
    ) -> BoxFuture<'a, Result<Option<String>, PutFault>> {
        Box::pin(async { Err(PutFault::Conflict) })
    }

    fn delete<'a>(&'a self, _: &'a str, _: &'a str) -> BoxFuture<'a, Result<(), PutFault>> {
        Box::pin(async { Err(PutFault::Conflict) })
    }

    fn new_href(&self, collection: &str, uid: &str) -> String {
        format!("{collection}{uid}.ics")
    }

    fn free_busy<'a>(
        &'a self,
        _: &'a Address,
        _: Interval,
    ) -> BoxFuture<'a, Result<Option<Vec<Part>>, Fault>> {
        Box::pin(async { Ok(None) })
    }

    fn schedules(&self) -> bool {
        false
    }
}

#[tokio::test]
async fn a_sync_that_breaks_off_goes_on_with_the_page_that_it_had_not_got() {
    let world = World::new().await;
    let db: &OfficeDb = world.office.db();
    let row = AccountRow {
        id: "far".to_owned(),
        kind: "dav".to_owned(),
        address: None,
        name: None,
        owner: None,
        settings: "{}".to_owned(),
        created_at: jiff::Timestamp::now(),
        synced_at: None,
        trouble: None,
    };
    db.add_account(row).await.unwrap();
    let pages = Arc::new(Pages { calls: AtomicUsize::new(0), breaks_at: 2, asked: Mutex::default() });
    let account = Account {
        id: "far".to_owned(),
        kind: "dav".to_owned(),
        person: None,
        owner: None,
        mails: None,
        submit: None,
        objects: Some(Arc::clone(&pages) as Arc<dyn ObjectStore>),
    };
    // An account of which nothing is known yet is not taken for an empty one.
    let account = Arc::new(account);
    let local: Arc<dyn ObjectStore> = Arc::new(world.store.clone());
    let local = Arc::new(calendar_world::account(&local, None));
    world.office.set_accounts([local, Arc::clone(&account)]);
    let day = json!({ "startDate": "2026-03-02", "endDate": "2026-03-02" });
    let free = world.ok("check_availability", day.clone()).await;
    assert_eq!(free["freeSlots"], json!([]), "{free}");
    assert!(free["people"][0]["unknownBecause"].to_string().contains("never synced"), "{free}");
    for (tool, ask) in [("list_calendar_events", day), ("list_tasks", json!({}))] {
        let listed = world.ok(tool, ask).await;
        assert_eq!(listed["notSynced"], json!(["account `far`: it was never synced"]));
    }
    let told = Mutex::new(Vec::new());
    let tell = |progress: Progress| told.lock().unwrap().push(progress.changed);
    let broken = sync_objects(db, &account, &tell).await.unwrap_err();
    assert!(matches!(broken, Fault::Unreachable(_)), "{broken}");
    world.office.set_accounts([Arc::clone(&account)]);
    // What is known only in part is not taken for free.
    let ask = json!({ "startDate": "2026-03-02", "endDate": "2026-03-02" });
    let half = world.runtime.call(Call::new("list_calendar_events", ask.clone())).await;
    let half = serde_json::to_value(&half).unwrap();
    assert!(half.to_string().contains("notSynced"), "{half}");
    assert_eq!(world.ok("check_availability", ask).await["freeSlots"], json!([]));
    let synced = sync_objects(db, &account, &tell).await.unwrap();
    assert_eq!((synced.changed, synced.gone), (4, 1));
    assert_eq!(*told.lock().unwrap(), [2, 2, 4]);
    let asked: Vec<Option<String>> = pages.asked.lock().unwrap().clone();
    let asked: Vec<Option<&str>> = asked.iter().map(Option::as_deref).collect();
    assert_eq!(asked, [None, Some("2"), Some("2"), Some("4")]);
    let collection = db.collections(Some("far")).await.unwrap()[0].id;
    let query = ObjectQuery {
        collections: vec![collection],
        kind: "event".to_owned(),
        limit: 10,
        ..ObjectQuery::default()
    };
    let objects = db.find_objects(query).await.unwrap();
    assert_eq!(objects.len(), 5, "one is gone, and the one that nobody can read is kept");
    assert_eq!(objects.iter().filter(|object| object.unreadable.is_some()).count(), 1);
    // While a server begins anew, what was synced before is not known any more.
    for reset in [true, false] {
        let page = ObjectPage { reset, state: "x".to_owned(), ..ObjectPage::default() };
        db.take_objects(collection, page).await.unwrap();
        let synced = db.collections(Some("far")).await.unwrap()[0].synced_at;
        assert!(synced.is_none());
    }
    let last = ObjectPage { state: "y".to_owned(), synced_at: Some(1), ..ObjectPage::default() };
    db.take_objects(collection, last).await.unwrap();
    assert!(db.collections(Some("far")).await.unwrap()[0].synced_at.is_some());
}

#[tokio::test]
async fn what_models_see_of_the_calendar_and_task_tools() {
    let world = World::new().await;
    let ours = ["calendar", "task", "availability"];
    for tool in office_tools(&world.office) {
        if ours.iter().any(|part| tool.name().as_str().contains(part)) {
            insta::assert_json_snapshot!(tool.name().as_str(), tool.definition());
        }
    }
}

#[tokio::test]
async fn offsets_that_no_clock_has_are_refused() {
    let world = World::new().await;
    for start in ["2026-03-01T12:00:00+25:00", "2026-03-01T12:00:00-16:00"] {
        let error = world.fails("create_calendar_event", json!({ "title": "x", "start": start })).await;
        assert!(error.message().contains("no place on earth"), "{start}: {error}");
    }
    world.ok("create_calendar_event", json!({ "title": "x", "start": "2026-03-01T12:00:00+14:00" })).await;
}

#[tokio::test]
async fn rules_that_never_fire_are_refused() {
    let world = World::new().await;
    for (rule, why) in [
        ("FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=30", "no day that it picks"),
        ("FREQ=MONTHLY;BYMONTHDAY=31;BYMONTH=4", "no day that it picks"),
        ("FREQ=DAILY;UNTIL=20260228", "ends before"),
    ] {
        let event = json!({ "title": "x", "start": "2026-03-01", "recurrence": rule });
        let error = world.fails("create_calendar_event", event).await;
        assert!(error.message().contains(why), "{rule}: {error}");
        let task = json!({ "title": "x", "due": "2026-03-01", "recurrence": rule });
        let error = world.fails("create_task", task).await;
        assert!(error.message().contains(why), "{rule}: {error}");
    }
    for rule in ["FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=29;BYDAY=MO", "FREQ=WEEKLY;COUNT=1", "FREQ=HOURLY"] {
        let event = json!({ "title": "x", "start": "2026-03-01", "recurrence": rule });
        world.ok("create_calendar_event", event).await;
    }
}
