//! Whom a calendar's server may tell, where an operator names the domains that mail may go to.

use std::sync::Arc;

use helve_office::{Office, OfficeSettings};
use serde_json::{Value, json};

use crate::calendar_odd::telling;
use crate::calendar_world::{World, account, runtime};

/// A world whose server tells attendees, and whose operator lets mail go to one domain.
async fn world() -> World {
    let world = World::new().await;
    let settings = OfficeSettings {
        recipient_domains: vec!["example.org".to_owned()],
        ..world.office.settings().clone()
    };
    let office = Arc::new(Office::new(world.office.db().clone(), settings));
    office.set_accounts([Arc::new(account(&telling(&world), None))]);
    let runtime = runtime(&office);
    world.on(runtime)
}

fn event(who: &str, notify: bool) -> Value {
    json!({ "title": "x", "start": "2026-03-02T10:00", "attendees": [who], "notifyAttendees": notify })
}

async fn refused(world: &World, tool: &str, arguments: Value) {
    let error = world.fails(tool, arguments.clone()).await;
    assert_eq!(error.tool_code(), Some("RECIPIENT_NOT_ALLOWED"), "{arguments}: {error}");
    assert!(error.did_nothing(), "{error:?}");
}

#[tokio::test]
async fn invitations_go_only_to_domains_that_an_operator_allows() {
    let world = world().await;
    for evil in ["eve@evil.example", "eve@example.org.evil.example", "eve@sub.example.org"] {
        refused(&world, "create_calendar_event", event(evil, true)).await;
    }
    let quiet = world.ok("create_calendar_event", event("eve@evil.example", false)).await;
    assert_eq!(quiet["invitations"], "nobody is told", "to write somebody down sends nothing");
    let agreed = json!({ "id": quiet["id"], "title": "y", "notifyAttendees": true });
    refused(&world, "update_calendar_event", agreed).await;
    let without =
        json!({ "id": quiet["id"], "removeAttendees": ["eve@evil.example"], "notifyAttendees": true });
    refused(&world, "update_calendar_event", without).await;

    let told = world.ok("create_calendar_event", event("Bob <bob@EXAMPLE.org>", true)).await;
    assert_eq!(told["invitations"], "the calendar server tells the attendees");
    let more = |who: &str| json!({ "id": told["id"], "addAttendees": [who], "notifyAttendees": true });
    refused(&world, "update_calendar_event", more("eve@evil.example")).await;
    world.ok("update_calendar_event", more("carol@example.org")).await;
}

#[tokio::test]
async fn an_answer_goes_to_the_organizer_alone() {
    let world = world().await;
    let lines = |organizer: &str| {
        format!(
            "DTSTAMP:20260101T000000Z\nDTSTART:20260302T100000Z\nSUMMARY:x\nORGANIZER:mailto:{organizer}\n\
             ATTENDEE;PARTSTAT=NEEDS-ACTION:mailto:me@example.org\nATTENDEE:mailto:eve@evil.example"
        )
    };
    world.event("theirs", &lines("boss@example.org")).await;
    world.event("evil", &lines("boss@evil.example")).await;
    let list = json!({ "startDate": "2026-03-02" });
    let listed = world.ok("list_calendar_events", list).await;
    let id = |organizer: &str| {
        let events = listed["events"].as_array().unwrap();
        events.iter().find(|event| event["organizer"]["address"] == organizer).unwrap()["id"].clone()
    };
    let accept = |id: Value| json!({ "id": id, "respond": "accept", "notifyAttendees": true });
    world.ok("update_calendar_event", accept(id("boss@example.org"))).await;
    refused(&world, "update_calendar_event", accept(id("boss@evil.example"))).await;
    // An answer alone: with it nothing goes out to the other attendees.
    let louder = json!({
        "id": id("boss@example.org"), "respond": "accept", "description": "look here", "notifyAttendees": true
    });
    refused(&world, "update_calendar_event", louder).await;
}

#[tokio::test]
async fn another_name_of_the_organizer_opens_no_way_to_the_attendees() {
    let world = world().await;
    let lines = "DTSTAMP:20260101T000000Z\nDTSTART:20260302T100000Z\nSUMMARY:x\nORGANIZER:mailto:team@example.org\n\
                 ATTENDEE;SCHEDULE-AGENT=NONE:mailto:bob@example.org";
    world.event("shared", lines).await;
    let listed = world.ok("list_calendar_events", json!({ "startDate": "2026-03-02" })).await;
    let more = |who: &str| json!({ "id": listed["events"][0]["id"], "addAttendees": [who], "notifyAttendees": true });
    refused(&world, "update_calendar_event", more("eve@evil.example")).await;
    world.ok("update_calendar_event", more("carol@example.org")).await;
}
