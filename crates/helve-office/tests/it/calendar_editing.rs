//! `create_calendar_event` and `update_calendar_event`: what is asked, what is written, and what is left alone.

use std::sync::Arc;

use helve::approvals::Decision;
use helve::{ErrorCode, Status};
use helve_office::account::{Expected, ObjectStore};
use serde_json::{Value, json};

use crate::calendar_odd::{Mishap, failing, odd};
use crate::calendar_world::{World, account, decider, error, times};

/// A weekly series with lines that we know nothing of.
const SERIES: &str = "
    DTSTAMP:20260101T000000Z
    DTSTART;TZID=Europe/Berlin;X-ODD=\"a;b\":20260302T100000
    DTEND;TZID=Europe/Berlin:20260302T110000
    RRULE:FREQ=WEEKLY;COUNT=6
    summary;LANGUAGE=en:Review
    X-UNKNOWN;P=1:kept: as, it; is
    ATTENDEE;CN=Me Myself;PARTSTAT=NEEDS-ACTION;X-NUM=3;RSVP=TRUE:mailto:ME@example.org
    ATTENDEE;MEMBER=\"mailto:a@x.org\",\"mailto:b@x.org\";CN=Bob:mailto:bob@example.org
    ORGANIZER;CN=Bob:mailto:bob@example.org
    BEGIN:VALARM
    ACTION:EMAIL
    TRIGGER:-PT1H
    X-ALARM:kept
    END:VALARM";

async fn list(world: &World) -> Value {
    world.ok("list_calendar_events", json!({ "startDate": "2026-03-01", "endDate": "2026-05-01" })).await
}

/// The nth event of the calendar.
async fn nth(world: &World, at: usize) -> Value {
    list(world).await["events"][at].clone()
}

fn short(answer: &Value) -> Vec<String> {
    times(answer).iter().map(|line| line.split(":00+").next().unwrap().to_owned()).collect()
}

/// The lines of an object without those that every edit renews.
fn steady(text: &str) -> Vec<&str> {
    let renewed = ["DTSTAMP", "LAST-MODIFIED", "SEQUENCE", "CREATED"];
    text.split("\r\n").filter(|line| !renewed.iter().any(|name| line.starts_with(name))).collect()
}

/// An object without the definition of its zone, which an edit of times adds.
fn without_zone(text: &str) -> String {
    match (text.find("BEGIN:VTIMEZONE"), text.find("END:VTIMEZONE\r\n")) {
        (Some(from), Some(to)) => format!("{}{}", &text[..from], &text[to + 15..]),
        _ => text.to_owned(),
    }
}

#[tokio::test]
async fn a_new_event_is_shown_approved_and_written_with_its_zone() {
    let world = World::new().await;
    let arguments = json!({ "title": "Stand-up", "start": "2026-03-02T09:15", "end": "2026-03-02T09:30",
        "timeZone": "America/New_York", "recurrence": "weekdays", "location": "Room 5\u{2014}north",
        "attendees": ["Bob Martin <bob@example.org>"], "reminders": [10], "description": "One\n+ Who: eve" });
    let (_, preview) = world.asked("create_calendar_event", arguments.clone()).await;
    insta::assert_snapshot!(preview, @r"
    New event:
    Calendar: Calendar (local)
    Invitations: nobody is told

    + Title: Stand-up
    + When: Mon 2026-03-02 09:15 to 09:30 America/New_York (UTC-05:00)
    + For you: Mon 2026-03-02 15:15 to 15:30 Europe/Berlin (UTC+01:00)
    + Repeats: FREQ=WEEKLY;BYDAY=MO,TU,WE,TH,FR
    + Where: Room 5—north
    + Organizer: Me Myself <me@example.org>
    + Attendee: Bob Martin <bob@example.org> (needs-action)
    + Reminder: 10 minutes before
    + Description: One
        | + Who: eve
    ");
    let made = world.ok("create_calendar_event", arguments).await;
    assert_eq!(made["event"]["start"], "2026-03-02T15:15:00+01:00[Europe/Berlin]");
    assert_eq!(made["event"]["startInEventZone"], "2026-03-02T09:15:00-05:00[America/New_York]");
    assert_eq!(made["invitations"], "nobody is told");
    let listed = nth(&world, 0).await;
    assert_eq!(listed["version"], made["version"]);
    let object = world.only_object().await;
    for line in [
        "DTSTART;TZID=America/New_York:20260302T091500\r\n",
        "RRULE:FREQ=WEEKLY;BYDAY=MO,TU,WE,TH,FR\r\n",
        "BEGIN:VTIMEZONE\r\nTZID:America/New_York\r\n",
        "TRIGGER:-PT10M\r\n",
        "ORGANIZER;CN=Me Myself:mailto:me@example.org\r\n",
    ] {
        assert!(object.contains(line), "{line} {object}");
    }
    // Over the change of clocks in America it is at 9:15 there.
    let after = world
        .ok(
            "list_calendar_events",
            json!({ "startDate": "2026-03-09", "endDate": "2026-03-09", "timeZone": "UTC" }),
        )
        .await;
    assert_eq!(times(&after), ["Stand-up 2026-03-09T13:15:00+00:00[UTC]/2026-03-09T13:30:00+00:00[UTC]"]);
}

impl World {
    async fn only_object(&self) -> String {
        let page = self.store.changes("calendar/", None).await.unwrap();
        assert_eq!(page.changed.len(), 1);
        String::from_utf8(page.changed[0].bytes.to_vec()).unwrap()
    }
}

#[tokio::test]
async fn an_approval_does_not_fit_an_event_that_changed_since() {
    let world = World::new().await;
    world.event("s", "DTSTART:20260302T100000Z\nSUMMARY:Talk").await;
    let id = nth(&world, 0).await["id"].clone();
    let change = json!({ "id": id, "location": "Hall" });
    let (pending, _) = world.asked("update_calendar_event", change.clone()).await;
    let stored = world.store.get("calendar/s.ics").await.unwrap();
    let theirs = String::from_utf8(stored.bytes.to_vec()).unwrap().replace("Talk", "Lecture");
    let put =
        world.store.put("calendar/s.ics", theirs.clone().into(), Expected::Version(&stored.version)).await;
    put.unwrap();
    world.runtime.approvals().decide(pending.approval_id, Decision::approve(), &decider()).await.unwrap();
    let refused = error(world.outcome("update_calendar_event", change).await);
    assert_eq!(refused.code(), ErrorCode::ApprovalStale, "{refused}");
    assert_eq!(world.stored("calendar/s.ics").await, theirs);
}

#[tokio::test]
async fn one_occurrence_moves_and_every_line_of_the_series_stays() {
    let world = World::new().await;
    world.event("s", SERIES).await;
    let before = world.stored("calendar/s.ics").await;
    let second = nth(&world, 1).await;
    let change = json!({ "id": second["id"], "version": second["version"], "scope": "this",
                         "start": "2026-03-09T14:00", "title": "Review (late)" });
    let (_, preview) = world.asked("update_calendar_event", change.clone()).await;
    insta::assert_snapshot!(preview, @r"
    Change: this one occurrence
    Calendar: Calendar (local)
    Invitations: nobody is told

    - Title: Review
    + Title: Review (late)
    - When: Mon 2026-03-09 10:00 to 11:00 Europe/Berlin (UTC+01:00)
    + When: Mon 2026-03-09 14:00 to 15:00 Europe/Berlin (UTC+01:00)
    ");
    let changed = world.ok("update_calendar_event", change).await;
    assert_eq!(changed["event"]["start"], "2026-03-09T14:00:00+01:00[Europe/Berlin]");
    assert_eq!(changed["event"]["end"], "2026-03-09T15:00:00+01:00[Europe/Berlin]");
    let after = without_zone(&world.stored("calendar/s.ics").await);
    assert!(after.starts_with(before.strip_suffix("END:VCALENDAR\r\n").unwrap()), "{after}");
    assert_eq!(after.matches("X-UNKNOWN;P=1:kept: as, it; is\r\n").count(), 2);
    assert_eq!(
        short(&list(&world).await)[..3],
        ["Review 2026-03-02T10:00", "Review (late) 2026-03-09T14:00", "Review 2026-03-16T10:00"]
    );
}

#[tokio::test]
async fn this_and_following_splits_the_series_and_undo_joins_it_again() {
    let world = World::new().await;
    world.event("s", SERIES).await;
    let before = world.stored("calendar/s.ics").await;
    let third = nth(&world, 2).await;
    let change = json!({ "id": third["id"], "version": third["version"], "scope": "this_and_following",
                         "start": "2026-03-16T12:00:00+01:00", "location": "Room 5" });
    let (_, preview) = world.asked("update_calendar_event", change.clone()).await;
    insta::assert_snapshot!(preview, @r"
    Change: this and all following occurrences
    Calendar: Calendar (local)
    Invitations: nobody is told

      Title: Review
    - When: Mon 2026-03-16 10:00 to 11:00 Europe/Berlin (UTC+01:00)
    + When: Mon 2026-03-16 12:00 to 13:00 Europe/Berlin (UTC+01:00)
    + Where: Room 5
    ");
    let outcome = world.approved("update_calendar_event", change).await;
    assert!(outcome.is_success(), "{outcome:?}");
    let starts = [
        "Review 2026-03-02T10:00",
        "Review 2026-03-09T10:00",
        "Review 2026-03-16T12:00",
        "Review 2026-03-23T12:00",
        "Review 2026-03-30T12:00",
        "Review 2026-04-06T12:00",
    ];
    assert_eq!(short(&list(&world).await), starts);
    let page = world.store.changes("calendar/", None).await.unwrap();
    assert_eq!(page.changed.len(), 2);
    for object in &page.changed {
        let text = String::from_utf8(object.bytes.to_vec()).unwrap();
        for line in [
            "X-UNKNOWN;P=1:kept: as, it; is\r\n",
            "X-ALARM:kept\r\n",
            "MEMBER=\"mailto:a@x.org\",\"mailto:b@x",
        ] {
            assert!(text.contains(line), "{line}: {text}");
        }
    }
    let undone = world.undo(&outcome).await;
    assert!(undone.is_success(), "{undone:?}");
    assert_eq!(world.only_object().await, before);
}

#[tokio::test]
async fn what_follows_is_compared_with_the_same_occurrence() {
    let world = World::new().await;
    world.event("s", SERIES).await;
    let third = nth(&world, 2).await;
    let cancel = json!({ "id": third["id"], "scope": "this_and_following", "cancel": true });
    let (_, preview) = world.asked("update_calendar_event", cancel).await;
    let shown = preview.split_once("\n\n").unwrap().1;
    insta::assert_snapshot!(shown, @r"
      Title: Review
      When: Mon 2026-03-16 10:00 to 11:00 Europe/Berlin (UTC+01:00)
    + Status: cancelled, with all later ones
    ");
    let rule =
        json!({ "id": third["id"], "scope": "this_and_following", "recurrence": "FREQ=WEEKLY;INTERVAL=2" });
    let (_, preview) = world.asked("update_calendar_event", rule).await;
    let shown = preview.split_once("\n\n").unwrap().1;
    insta::assert_snapshot!(shown, @r"
      Title: Review
      When: Mon 2026-03-16 10:00 to 11:00 Europe/Berlin (UTC+01:00)
    - Repeats: FREQ=WEEKLY;COUNT=6
    + Repeats: FREQ=WEEKLY;INTERVAL=2
    ");
}

#[tokio::test]
async fn an_hour_that_comes_twice_is_shown_with_both_offsets() {
    let world = World::new().await;
    let start = json!({ "title": "Night shift", "start": "2026-10-25T02:30:00+02:00", "end": "2026-10-25T02:30:00+01:00" });
    let (_, preview) = world.asked("create_calendar_event", start).await;
    let when = "For you: Sun 2026-10-25 02:30 (UTC+02:00) to 02:30 (UTC+01:00) Europe/Berlin\n";
    assert!(format!("{preview}\n").contains(when), "{preview}");
}

#[tokio::test]
async fn all_move_by_as_much_as_the_one_that_was_named() {
    let world = World::new().await;
    world.event("s", SERIES).await;
    let before = world.stored("calendar/s.ics").await;
    let third = nth(&world, 2).await;
    let change =
        json!({ "id": third["id"], "scope": "all", "start": "2026-03-16T11:30", "end": "2026-03-16T13:00" });
    world.ok("update_calendar_event", change).await;
    let listed = list(&world).await;
    assert_eq!(short(&listed)[0], "Review 2026-03-02T11:30");
    assert_eq!(listed["events"][5]["end"], "2026-04-06T13:00:00+02:00[Europe/Berlin]");
    let after = world.stored("calendar/s.ics").await;
    let changed = ["DTSTART", "DTEND"];
    let keep = |text: &str| -> Vec<String> {
        let text = without_zone(text);
        let lines =
            steady(&text).into_iter().filter(|line| !changed.iter().any(|name| line.starts_with(name)));
        lines.map(str::to_owned).collect()
    };
    assert_eq!(keep(&after), keep(&before));
}

#[tokio::test]
async fn a_series_needs_a_scope_and_an_occurrence() {
    let world = World::new().await;
    world.event("s", SERIES).await;
    let second = nth(&world, 1).await;
    let error = world.fails("update_calendar_event", json!({ "id": second["id"], "title": "x" })).await;
    assert!(error.message().contains("repeats"), "{error}");
    let whole = second["id"].as_str().unwrap().rsplit_once('.').unwrap().0.to_owned();
    let error =
        world.fails("update_calendar_event", json!({ "id": whole, "scope": "this", "title": "x" })).await;
    assert!(error.message().contains("no occurrence"), "{error}");
    let none = format!("{whole}.20260303T090000Z");
    let error =
        world.fails("update_calendar_event", json!({ "id": none, "scope": "this", "title": "x" })).await;
    assert_eq!(error.tool_code(), Some("NOT_FOUND"));
    let error = world
        .fails("update_calendar_event", json!({ "id": second["id"], "scope": "this", "recurrence": "daily" }))
        .await;
    assert!(error.message().contains("does not repeat"), "{error}");
    let moved = json!({ "id": second["id"], "scope": "all", "recurrence": "FREQ=NEVER" });
    assert_eq!(world.fails("update_calendar_event", moved).await.code(), ErrorCode::ValidationFailed);
}

#[tokio::test]
async fn cancelling_frees_one_some_or_all() {
    for (scope, left) in [("this", 5), ("this_and_following", 2), ("all", 0)] {
        let world = World::new().await;
        world.event("s", SERIES).await;
        let third = nth(&world, 2).await;
        let outcome = world
            .approved("update_calendar_event", json!({ "id": third["id"], "scope": scope, "cancel": true }))
            .await;
        assert!(outcome.is_success(), "{outcome:?}");
        assert_eq!(list(&world).await["events"].as_array().unwrap().len(), left, "{scope}");
        assert!(world.undo(&outcome).await.is_success());
        assert_eq!(list(&world).await["events"].as_array().unwrap().len(), 6, "{scope}");
    }
}

#[tokio::test]
async fn an_answer_changes_one_word_of_ones_own_line() {
    let world = World::new().await;
    world.event("s", SERIES).await;
    let before = world.stored("calendar/s.ics").await;
    let first = nth(&world, 0).await;
    let answer = json!({ "id": first["id"], "scope": "all", "respond": "accept", "notifyAttendees": true });
    let answered = world.ok("update_calendar_event", answer).await;
    assert!(answered["invitations"].as_str().unwrap().starts_with("nobody is told: "), "{answered}");
    let after = world.stored("calendar/s.ics").await;
    let expected = before.replace("PARTSTAT=NEEDS-ACTION", "PARTSTAT=ACCEPTED");
    // The line is folded where it became longer or shorter; what it says is the same but for the word.
    let unfold = |text: &str| text.replace("\r\n ", "");
    assert_eq!(steady(&unfold(&after)), steady(&unfold(&expected)));
    let alone = json!({ "title": "Alone", "start": "2026-03-20" });
    let made = world.ok("create_calendar_event", alone).await;
    let error = world.fails("update_calendar_event", json!({ "id": made["id"], "respond": "decline" })).await;
    assert_eq!(error.tool_code(), Some("NOT_INVITED"));
}

#[tokio::test]
async fn attendees_are_added_and_removed_line_by_line() {
    let world = World::new().await;
    world.event("s", &SERIES.replace("RRULE:FREQ=WEEKLY;COUNT=6", "X-A:1")).await;
    let id = nth(&world, 0).await["id"].clone();
    let change = json!({ "id": id, "addAttendees": ["Carol <carol@example.org>", "bob@example.org"],
                         "removeAttendees": ["me@example.org"] });
    let changed = world.ok("update_calendar_event", change).await;
    let people: Vec<&str> = changed["event"]["attendees"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["address"].as_str().unwrap())
        .collect();
    assert_eq!(people, ["bob@example.org", "carol@example.org"]);
    let stored = world.stored("calendar/s.ics").await;
    assert!(
        stored.contains(
            "ATTENDEE;MEMBER=\"mailto:a@x.org\",\"mailto:b@x.org\";CN=Bob:mailto:bob@example.org\r\n"
                .get(..60)
                .unwrap()
        )
    );
    let change = json!({ "id": id, "attendees": ["carol@example.org"], "reminders": [5, 5, 30] });
    world.ok("update_calendar_event", change).await;
    let stored = world.stored("calendar/s.ics").await;
    assert!(!stored.contains("ATTENDEE;MEMBER"), "{stored}");
    assert_eq!(stored.matches("BEGIN:VALARM").count(), 3, "the mail alarm of another program stays");
}

#[tokio::test]
async fn a_conflict_returns_both_versions_and_changes_nothing() {
    let world = World::new().await;
    world.event("s", "DTSTART:20260302T100000Z\nSUMMARY:Talk").await;
    let seen = nth(&world, 0).await;
    world.ok("update_calendar_event", json!({ "id": seen["id"], "title": "Theirs" })).await;
    let stored = world.stored("calendar/s.ics").await;
    let mine = json!({ "id": seen["id"], "version": seen["version"], "title": "Mine" });
    let error = world.fails("update_calendar_event", mine).await;
    assert_eq!(error.tool_code(), Some("CONFLICT"));
    assert!(error.did_nothing());
    assert!(error.message().contains("Title: Theirs") && error.message().contains("Title: Mine"), "{error}");
    assert_eq!(world.stored("calendar/s.ics").await, stored);
    let now = nth(&world, 0).await;
    assert!(error.suggestions()[0].contains(now["version"].as_str().unwrap()), "{error:?}");
}

#[tokio::test]
async fn an_update_is_undone_unless_somebody_changed_it_since() {
    let world = World::new().await;
    world.event("s", SERIES).await;
    let before = world.stored("calendar/s.ics").await;
    let change = |id: &Value, title: &str| json!({ "id": id, "scope": "all", "title": title });
    let id = nth(&world, 0).await["id"].clone();
    let outcome = world.approved("update_calendar_event", change(&id, "One")).await;
    assert!(world.undo(&outcome).await.is_success());
    assert_eq!(world.stored("calendar/s.ics").await, before);
    let outcome = world.approved("update_calendar_event", change(&id, "Two")).await;
    world.ok("update_calendar_event", change(&id, "Three")).await;
    assert!(!world.undo(&outcome).await.is_success());
    assert_eq!(nth(&world, 0).await["title"], "Three");
    let made =
        world.approved("create_calendar_event", json!({ "title": "New", "start": "2026-03-03" })).await;
    assert!(world.undo(&made).await.is_success());
    assert_eq!(list(&world).await["events"].as_array().unwrap().len(), 6);
}

#[tokio::test]
async fn times_that_the_clock_skips_or_repeats_are_asked_back() {
    let world = World::new().await;
    let event = |start: &str| json!({ "title": "x", "start": start, "timeZone": "Europe/Berlin" });
    for start in ["2026-03-29T02:30", "2026-10-25T02:30"] {
        let error = world.fails("create_calendar_event", event(start)).await;
        assert_eq!(error.code(), ErrorCode::ValidationFailed, "{error}");
        assert!(error.suggestions()[0].contains(" or "), "{error:?}");
    }
    // The second pass of an hour cannot be written as local time.
    let made = world.ok("create_calendar_event", event("2026-10-25T02:30:00+01:00")).await;
    assert_eq!(made["event"]["start"], "2026-10-25T02:30:00+01:00[Europe/Berlin]");
    assert!(world.only_object().await.contains("DTSTART:20261025T013000Z"));
    let mut series = event("2026-10-25T02:30:00+01:00");
    series["recurrence"] = json!("daily");
    assert_eq!(world.fails("create_calendar_event", series).await.code(), ErrorCode::ValidationFailed);
    for (start, end) in [
        ("2026-03-02", "2026-03-02T10:00"),
        ("2026-03-02", "2026-03-01"),
        ("2026-03-02T10:00", "2026-03-02T10:00"),
    ] {
        let error =
            world.fails("create_calendar_event", json!({ "title": "x", "start": start, "end": end })).await;
        assert_eq!(error.code(), ErrorCode::ValidationFailed, "{start} {end}");
    }
    let days = world
        .ok("create_calendar_event", json!({ "title": "Trip", "start": "2026-08-03", "end": "2026-08-07" }))
        .await;
    assert_eq!(
        (&days["event"]["start"], &days["event"]["end"]),
        (&json!("2026-08-03"), &json!("2026-08-07"))
    );
    let moved = world.ok("update_calendar_event", json!({ "id": days["id"], "start": "2026-08-10" })).await;
    assert_eq!(
        (&moved["event"]["start"], &moved["event"]["end"]),
        (&json!("2026-08-10"), &json!("2026-08-14"))
    );
}

#[tokio::test]
async fn no_field_of_an_event_takes_characters_that_act_on_their_reader() {
    let world = World::new().await;
    let made = world.ok("create_calendar_event", json!({ "title": "x", "start": "2026-03-02" })).await;
    let bad = ["a\0b", "a\u{202e}b", "a\u{200b}b", "a\rb", "a\u{1b}[31mb", "a\u{e0041}b"];
    for field in ["title", "start", "end", "timeZone", "recurrence", "location", "description", "calendar"] {
        for text in bad {
            let mut arguments = json!({ "title": "x", "start": "2026-03-02" });
            arguments[field] = json!(text);
            let error = world.fails("create_calendar_event", arguments).await;
            assert_eq!(error.code(), ErrorCode::ValidationFailed, "{field} {text:?}: {error}");
            if field != "calendar" {
                let mut arguments = json!({ "id": made["id"], "title": "y" });
                arguments[field] = json!(text);
                let error = world.fails("update_calendar_event", arguments).await;
                assert_eq!(error.code(), ErrorCode::ValidationFailed, "{field} {text:?}: {error}");
            }
        }
    }
    for person in
        ["a@b.org\r\nX:1", "\"a\nb\" <a@b.org>", "a@b.org,c@d.org", "eve@x.org <a@b.org>", "a\u{202e}@b.org"]
    {
        for arguments in [
            json!({ "title": "x", "start": "2026-03-02", "attendees": [person] }),
            json!({ "id": made["id"], "addAttendees": [person] }),
            json!({ "id": made["id"], "attendees": [person] }),
            json!({ "id": made["id"], "removeAttendees": [person] }),
        ] {
            let tool =
                if arguments.get("id").is_some() { "update_calendar_event" } else { "create_calendar_event" };
            let error = world.fails(tool, arguments.clone()).await;
            assert_eq!(error.code(), ErrorCode::ValidationFailed, "{arguments}: {error}");
        }
    }
    // A name with signs of the format stays a name.
    let odd = json!({ "title": "a,b;c\\n", "start": "2026-03-02", "attendees": ["\"O;N:E, \\\"x\\\"\" <a@b.org>"] });
    let made = world.ok("create_calendar_event", odd).await;
    assert_eq!(made["event"]["title"], "a,b;c\\n");
    assert_eq!(made["event"]["attendees"][0]["name"], "O;N:E, \"x\"");
}

#[tokio::test]
async fn ids_of_others_and_made_up_ones_find_nothing() {
    let world = World::new().await;
    world.event("s", "DTSTART:20260302T100000Z\nSUMMARY:Talk").await;
    let id = nth(&world, 0).await["id"].as_str().unwrap().to_owned();
    for wrong in [
        "",
        "x",
        "e",
        "e1",
        "e1.!!",
        "e0.YQ",
        "e-1.YQ",
        &id.replace('e', "t"),
        &format!("{id}.20260101.x"),
        &"e1.".repeat(900),
    ] {
        let error = world.fails("update_calendar_event", json!({ "id": wrong, "title": "x" })).await;
        assert_eq!(error.code(), ErrorCode::ValidationFailed, "{wrong}");
    }
    for wrong in ["e1.YWJj", "e9.YWJj", "e2.YWJj"] {
        let error = world.fails("update_calendar_event", json!({ "id": wrong, "title": "x" })).await;
        assert_eq!(error.tool_code(), Some("NOT_FOUND"), "{wrong}: {error}");
    }
    let eve = Arc::new(helve::Caller::principal("eve"));
    let objects: Arc<dyn ObjectStore> = Arc::new(world.store.clone());
    world.office.set_accounts([Arc::new(account(&objects, Some("ada")))]);
    let call = helve::Call::new("update_calendar_event", json!({ "id": id, "title": "x" })).by(eve);
    assert_eq!(error(world.runtime.call(call).await).code(), ErrorCode::IntegrationMissing);
}

#[tokio::test]
async fn all_do_not_follow_one_that_was_moved_by_itself() {
    let world = World::new().await;
    world.event("s", SERIES).await;
    let second = nth(&world, 1).await;
    let alone = json!({ "id": second["id"], "scope": "this", "start": "2026-03-10T14:00" });
    world.ok("update_calendar_event", alone).await;
    let before = world.stored("calendar/s.ics").await;
    let all = json!({ "id": second["id"], "scope": "all", "start": "2026-03-10T15:00" });
    let error = world.fails("update_calendar_event", all).await;
    assert!(error.message().contains("moved by itself"), "{error}");
    assert_eq!(world.stored("calendar/s.ics").await, before);
}

#[tokio::test]
async fn a_change_behind_the_end_of_a_long_text_is_seen_by_who_approves() {
    let world = World::new().await;
    let long = |end: &str| format!("{}{end}", "a".repeat(65_530));
    let lines = format!("DTSTART:20260302T100000Z\nTRANSP:TRANSPARENT\nSUMMARY:{}one", "t".repeat(700));
    world.event("s", &format!("{lines}\nDESCRIPTION:{}", long("one"))).await;
    let id = nth(&world, 0).await["id"].clone();
    let change = json!({ "id": id, "title": format!("{}two", "t".repeat(700)), "description": long("two") });
    let (_, preview) = world.asked("update_calendar_event", change).await;
    assert!(preview.contains("ttone\n") && preview.contains("tttwo\n"), "{preview}");
    assert!(preview.contains("aaone\n") && preview.contains("aatwo"), "all that a call may write is shown");
    let theirs = format!("DTSTART:20260401T100000Z\nSUMMARY:x\nDESCRIPTION:{}", "a".repeat(70_000));
    world.event("t", &theirs).await;
    let id = nth(&world, 1).await["id"].clone();
    let (_, longer) = world.asked("update_calendar_event", json!({ "id": id, "description": "b" })).await;
    assert!(longer.contains("a… (+4464 characters, sha256 "), "{longer}");
    assert!(preview.starts_with("Change: this event\nCalendar: Calendar (local)\n\n"), "{preview}");
    let (_, preview) =
        world.asked("create_calendar_event", json!({ "title": "x", "start": "2026-03-02" })).await;
    assert!(!preview.contains("Shows as"), "{preview}");
}

#[tokio::test]
async fn a_split_whose_second_write_fails_leaves_everything_as_it_was() {
    let world = World::new().await;
    world.event("s", SERIES).await;
    let before = world.stored("calendar/s.ics").await;
    odd(&world, false, 2);
    let third = nth(&world, 2).await;
    let change = json!({ "id": third["id"], "scope": "this_and_following", "title": "x" });
    let error = world.fails("update_calendar_event", change).await;
    assert_eq!(error.code(), ErrorCode::Network, "{error}");
    assert_eq!(world.only_object().await, before);
    assert_eq!(list(&world).await["events"].as_array().unwrap().len(), 6);
}

#[tokio::test]
async fn a_split_whose_second_answer_is_lost_goes_on_where_it_was_done() {
    let world = World::new().await;
    world.event("s", SERIES).await;
    failing(&world, false, 2, Mishap::AnswerLost);
    let third = nth(&world, 2).await;
    let change = json!({ "id": third["id"], "scope": "this_and_following", "title": "x" });
    world.ok("update_calendar_event", change).await;
    assert_eq!(list(&world).await["events"].as_array().unwrap().len(), 6);
}

#[tokio::test]
async fn a_split_in_doubt_is_shown_twice_and_never_lost() {
    let world = World::new().await;
    world.event("s", SERIES).await;
    let before = world.stored("calendar/s.ics").await;
    failing(&world, false, 2, Mishap::RequestLost);
    let third = nth(&world, 2).await;
    let change = json!({ "id": third["id"], "scope": "this_and_following", "title": "x" });
    let error = world.fails("update_calendar_event", change).await;
    assert_eq!(error.code(), ErrorCode::OutcomeUnknown, "{error}");
    assert_eq!(world.stored("calendar/s.ics").await, before);
    assert_eq!(list(&world).await["events"].as_array().unwrap().len(), 6 + 4);
}

#[tokio::test]
async fn a_server_that_tells_people_does_so_only_where_that_was_agreed() {
    let world = World::new().await;
    odd(&world, true, 0);
    let event = |notify: bool| json!({ "title": "x", "start": "2026-03-02T10:00", "attendees": ["bob@example.org"], "notifyAttendees": notify });
    let quiet = world.ok("create_calendar_event", event(false)).await;
    assert_eq!(quiet["invitations"], "nobody is told");
    assert!(
        world.only_object().await.replace("\r\n ", "").contains("SCHEDULE-AGENT=NONE:mailto:bob@example.org")
    );
    // Later they may be told after all.
    let told = world
        .ok("update_calendar_event", json!({ "id": quiet["id"], "title": "y", "notifyAttendees": true }))
        .await;
    assert_eq!(told["invitations"], "the calendar server tells the attendees");
    assert!(!world.only_object().await.replace("\r\n ", "").contains("SCHEDULE-AGENT"));
    let error = world.fails("update_calendar_event", json!({ "id": quiet["id"], "title": "z" })).await;
    assert!(error.message().contains("notifyAttendees"), "{error}");
}

#[tokio::test]
async fn each_example_is_valid_and_runs() {
    let world = World::new().await;
    for tool in helve_office::tools::office_tools(&world.office) {
        let is_ours = [
            "list_calendar_events",
            "check_availability",
            "list_tasks",
            "create_task",
            "update_task",
            "create_calendar_event",
            "update_calendar_event",
        ]
        .contains(&tool.name().as_str());
        if !is_ours {
            continue;
        }
        let examples = &tool.definition().examples;
        assert!(examples.len() >= 4, "{}", tool.name());
        assert!(tool.definition().when_to_use.is_some() && tool.definition().output_schema.is_some());
        for example in examples {
            let helve::Example::Arguments { arguments, .. } = example else { panic!("{example:?}") };
            let outcome = world.approved(tool.name().as_str(), arguments.clone()).await;
            match outcome.status {
                Status::Done(_) => assert!(!tool.name().as_str().starts_with("update")),
                // There is no such event in a new calendar.
                Status::Failed(error) => {
                    assert_eq!(error.tool_code(), Some("NOT_FOUND"), "{}: {error}", tool.name())
                }
                Status::Pending(pending) => panic!("{pending:?}"),
            }
        }
    }
}
