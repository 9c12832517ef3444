//! `check_availability`: free only where everything was seen.

use serde_json::{Value, json};

use std::sync::Arc;

use helve_office::Account;
use helve_office::account::ObjectStore;
use helve_store::office::{AccountRow, NewCollection};

use crate::calendar_world::{World, account};

fn taken(answer: &Value, person: usize) -> Vec<String> {
    let parts = answer["people"][person]["taken"].as_array().unwrap();
    let text = |part: &Value, name: &str| part[name].as_str().unwrap()[..16].to_owned();
    parts
        .iter()
        .map(|part| {
            format!("{} {} {}", text(part, "start"), text(part, "end"), part["state"].as_str().unwrap())
        })
        .collect()
}

async fn ask(world: &World, more: Value) -> Value {
    let mut arguments =
        json!({ "startDate": "2026-03-02", "endDate": "2026-03-02", "timeZone": "Europe/Berlin" });
    for (key, value) in more.as_object().unwrap() {
        arguments[key] = value.clone();
    }
    world.ok("check_availability", arguments).await
}

#[tokio::test]
async fn what_takes_time_is_busy_and_what_does_not_is_free() {
    let world = World::new().await;
    world.event("a", "DTSTART;TZID=Europe/Berlin:20260302T100000\nDURATION:PT1H\nSUMMARY:Busy").await;
    world.event("t", "DTSTART;TZID=Europe/Berlin:20260302T110000\nDURATION:PT1H\nSTATUS:TENTATIVE").await;
    world.event("f", "DTSTART;TZID=Europe/Berlin:20260302T130000\nDURATION:PT1H\nTRANSP:TRANSPARENT").await;
    world.event("c", "DTSTART;TZID=Europe/Berlin:20260302T140000\nDURATION:PT1H\nSTATUS:CANCELLED").await;
    world
        .event("d", "DTSTART;TZID=Europe/Berlin:20260302T150000\nDURATION:PT1H\nATTENDEE;PARTSTAT=DECLINED:mailto:me@example.org")
        .await;
    world.event("b", "DTSTART;VALUE=DATE:20260302\nTRANSP:TRANSPARENT\nSUMMARY:Birthday").await;
    let answer = ask(&world, json!({ "durationMinutes": 60, "stepMinutes": 60, "limit": 20 })).await;
    assert_eq!(
        taken(&answer, 0),
        ["2026-03-02T10:00 2026-03-02T11:00 busy", "2026-03-02T11:00 2026-03-02T12:00 tentative"]
    );
    let free: Vec<&str> = answer["freeSlots"]
        .as_array()
        .unwrap()
        .iter()
        .map(|slot| &slot["start"].as_str().unwrap()[11..16])
        .collect();
    assert_eq!(free, ["09:00", "12:00", "13:00", "14:00", "15:00", "16:00"]);
    assert_eq!(answer["uncertainSlots"][0]["state"], "tentative");
    assert!(answer["people"][0].get("unknownBecause").is_none());
}

#[tokio::test]
async fn an_all_day_event_takes_the_day_of_who_asks() {
    let world = World::new().await;
    world.event("v", "DTSTART;VALUE=DATE:20260302\nSUMMARY:Vacation").await;
    let answer = ask(&world, json!({ "timeZone": "Asia/Tokyo" })).await;
    assert_eq!(taken(&answer, 0), ["2026-03-02T00:00 2026-03-03T00:00 busy"]);
    assert_eq!(answer["freeSlots"], json!([]));
}

#[tokio::test]
async fn what_cannot_be_read_makes_the_time_unknown_and_never_free() {
    let world = World::new().await;
    world.event("x", "DTSTART;TZID=Nowhere/Land:20200101T100000\nSUMMARY:Lost").await;
    world.event("a", "DTSTART;TZID=Europe/Berlin:20260302T100000\nDURATION:PT1H").await;
    let answer = ask(&world, json!({})).await;
    assert_eq!(
        taken(&answer, 0),
        [
            "2026-03-02T00:00 2026-03-02T10:00 unknown",
            "2026-03-02T10:00 2026-03-02T11:00 busy",
            "2026-03-02T11:00 2026-03-03T00:00 unknown",
        ]
    );
    assert_eq!(answer["freeSlots"], json!([]));
    assert_eq!(answer["uncertainSlots"][0]["state"], "unknown");
    assert!(answer["people"][0]["unknownBecause"][0].as_str().unwrap().contains("Nowhere/Land"), "{answer}");
}

#[tokio::test]
async fn somebody_whom_no_server_knows_is_unknown() {
    let world = World::new().await;
    let people = json!(["me", "ME@example.org", "Ada <ada@example.org>", "ada@EXAMPLE.org"]);
    let answer = ask(&world, json!({ "people": people })).await;
    assert_eq!(answer["people"].as_array().unwrap().len(), 2, "each once: {answer}");
    assert_eq!(taken(&answer, 0), Vec::<String>::new());
    assert_eq!(taken(&answer, 1), ["2026-03-02T00:00 2026-03-03T00:00 unknown"]);
    assert_eq!(answer["freeSlots"], json!([]));
    for bad in ["nobody", "a@b.org\nx", "a\u{202e}@b.org"] {
        let arguments = json!({ "startDate": "2026-03-02", "endDate": "2026-03-02", "people": [bad] });
        let error = world.fails("check_availability", arguments).await;
        assert_eq!(error.code(), helve::ErrorCode::ValidationFailed, "{bad:?}");
    }
}

#[tokio::test]
async fn hours_follow_the_clock_and_may_cross_midnight() {
    let world = World::new().await;
    let answer = ask(
        &world,
        json!({ "startDate": "2026-03-28", "endDate": "2026-03-29", "durationMinutes": 180, "stepMinutes": 60,
                "workingHours": { "start": "22:00", "end": "04:00", "days": ["saturday"] }, "limit": 20 }),
    )
    .await;
    let free: Vec<&str> = answer["freeSlots"]
        .as_array()
        .unwrap()
        .iter()
        .map(|slot| &slot["end"].as_str().unwrap()[..22])
        .collect();
    // The night has five hours, because one is skipped.
    assert_eq!(
        free,
        ["2026-03-29T01:00:00+01", "2026-03-29T03:00:00+02", "2026-03-29T04:00:00+02"]
            .map(|text| &text[..22])
    );
    let error = world
        .fails(
            "check_availability",
            json!({ "startDate": "2026-03-02", "endDate": "2026-03-02",
            "workingHours": { "start": "9 am", "end": "17:00" } }),
        )
        .await;
    assert!(error.message().contains("no time of day"), "{error}");
}

#[tokio::test]
async fn an_account_of_which_no_calendar_could_be_read_is_unknown() {
    let world = World::new().await;
    let objects: Arc<dyn ObjectStore> = Arc::new(world.store.clone());
    let work = Account { id: "work".to_owned(), kind: "dav".to_owned(), ..account(&objects, None) };
    world.office.set_accounts([Arc::new(account(&objects, None)), Arc::new(work)]);
    let row = AccountRow {
        id: "work".to_owned(),
        kind: "dav".to_owned(),
        address: None,
        name: None,
        owner: None,
        settings: "{}".to_owned(),
        created_at: jiff::Timestamp::now(),
        synced_at: None,
        trouble: None,
    };
    let db = world.office.db();
    db.add_account(row).await.unwrap();
    let why = async || ask(&world, json!({})).await["people"][0]["unknownBecause"].to_string();
    assert!(why().await.contains("it was never synced"), "{}", why().await);
    // Its address book was read, and its calendars were not.
    let people = NewCollection { href: "/p/".to_owned(), contacts: true, ..NewCollection::default() };
    db.tell_collections("work", false, vec![people]).await.unwrap();
    assert!(why().await.contains("it was never synced"), "{}", why().await);
    let now = jiff::Timestamp::now();
    assert!(db.begin_sync("work", "p", now, now + std::time::Duration::from_secs(60)).await.unwrap());
    db.end_sync("work", "p", now, Some("the server says 500".to_owned())).await.unwrap();
    assert!(why().await.contains("its last sync failed: the server says 500"), "{}", why().await);
    let answer = ask(&world, json!({})).await;
    assert_eq!(taken(&answer, 0), ["2026-03-02T00:00 2026-03-03T00:00 unknown"]);
    assert_eq!(answer["freeSlots"], json!([]));
}
