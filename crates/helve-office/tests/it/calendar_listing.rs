//! `list_calendar_events`: every kind of time, and what cannot be read.

use serde_json::{Value, json};

use crate::calendar_world::{World, times};

async fn listed(world: &World, from: &str, to: &str, zone: &str) -> Vec<String> {
    let answer =
        world.ok("list_calendar_events", json!({ "startDate": from, "endDate": to, "timeZone": zone }));
    times(&answer.await)
}

#[tokio::test]
async fn a_series_keeps_its_local_time_over_a_change_of_the_clock() {
    let world = World::new().await;
    world
        .event("a", "DTSTART;TZID=Europe/Berlin:20260328T023000\nDTEND;TZID=Europe/Berlin:20260328T033000\nRRULE:FREQ=DAILY;COUNT=3\nSUMMARY:Night")
        .await;
    // 02:30 does not exist on the 29th: it is read with the offset before the gap.
    assert_eq!(
        listed(&world, "2026-03-28", "2026-03-30", "Europe/Berlin").await,
        [
            "Night 2026-03-28T02:30:00+01:00[Europe/Berlin]/2026-03-28T03:30:00+01:00[Europe/Berlin]",
            "Night 2026-03-29T03:30:00+02:00[Europe/Berlin]/2026-03-29T04:30:00+02:00[Europe/Berlin]",
            "Night 2026-03-30T02:30:00+02:00[Europe/Berlin]/2026-03-30T03:30:00+02:00[Europe/Berlin]",
        ]
    );
}

#[tokio::test]
async fn a_time_that_comes_twice_is_the_first_of_the_two() {
    let world = World::new().await;
    world.event("a", "DTSTART;TZID=Europe/Berlin:20261025T023000\nDURATION:PT1H\nSUMMARY:Fold").await;
    assert_eq!(
        listed(&world, "2026-10-25", "2026-10-25", "UTC").await,
        ["Fold 2026-10-25T00:30:00+00:00[UTC]/2026-10-25T01:30:00+00:00[UTC]"]
    );
}

#[tokio::test]
async fn floating_and_all_day_events_are_on_the_clock_of_who_asks() {
    let world = World::new().await;
    world.event("f", "DTSTART:20260302T090000\nDTEND:20260302T100000\nSUMMARY:Yoga").await;
    world.event("d", "DTSTART;VALUE=DATE:20260302\nDTEND;VALUE=DATE:20260304\nSUMMARY:Fair").await;
    assert_eq!(
        listed(&world, "2026-03-02", "2026-03-02", "Asia/Tokyo").await,
        [
            "Fair 2026-03-02/2026-03-03",
            "Yoga 2026-03-02T09:00:00+09:00[Asia/Tokyo]/2026-03-02T10:00:00+09:00[Asia/Tokyo]"
        ]
    );
    assert_eq!(
        listed(&world, "2026-03-03", "2026-03-03", "America/Los_Angeles").await,
        ["Fair 2026-03-02/2026-03-03"]
    );
    assert_eq!(listed(&world, "2026-03-04", "2026-03-04", "Pacific/Kiritimati").await, Vec::<String>::new());
}

#[tokio::test]
async fn windows_zones_and_zones_of_a_file_are_understood() {
    let world = World::new().await;
    world
        .import(
            "BEGIN:VTIMEZONE
            TZID:Office
            BEGIN:STANDARD
            DTSTART:19700101T000000
            TZOFFSETFROM:+0330
            TZOFFSETTO:+0330
            END:STANDARD
            END:VTIMEZONE
            BEGIN:VEVENT
            UID:w
            DTSTART;TZID=W. Europe Standard Time:20260302T090000
            DURATION:PT1H
            SUMMARY:Windows
            END:VEVENT
            BEGIN:VEVENT
            UID:c
            DTSTART;TZID=Office:20260302T120000
            DURATION:PT1H
            SUMMARY:Custom
            END:VEVENT",
        )
        .await;
    assert_eq!(
        listed(&world, "2026-03-02", "2026-03-02", "UTC").await,
        [
            "Windows 2026-03-02T08:00:00+00:00[UTC]/2026-03-02T09:00:00+00:00[UTC]",
            "Custom 2026-03-02T08:30:00+00:00[UTC]/2026-03-02T09:30:00+00:00[UTC]",
        ]
    );
    // The split file still has its own zone, and only that.
    let custom = world.stored("calendar/c.ics").await;
    assert!(custom.contains("TZOFFSETTO:+0330"), "{custom}");
    assert!(!world.stored("calendar/w.ics").await.contains("VTIMEZONE"));
}

#[tokio::test]
async fn exceptions_overrides_and_the_end_of_a_rule_as_a_date_count() {
    let world = World::new().await;
    world
        .import(
            "BEGIN:VEVENT
            UID:s
            DTSTART;TZID=Europe/Berlin:20260302T100000
            DTEND;TZID=Europe/Berlin:20260302T110000
            RRULE:FREQ=DAILY;UNTIL=20260306
            EXDATE;TZID=Europe/Berlin:20260303T100000
            RDATE;TZID=Europe/Berlin:20260307T150000
            SUMMARY:Daily
            END:VEVENT
            BEGIN:VEVENT
            UID:s
            RECURRENCE-ID;TZID=Europe/Berlin:20260304T100000
            DTSTART;TZID=Europe/Berlin:20260304T180000
            DTEND;TZID=Europe/Berlin:20260304T190000
            SUMMARY:Moved
            END:VEVENT
            BEGIN:VEVENT
            UID:s
            RECURRENCE-ID;RANGE=THISANDFUTURE;TZID=Europe/Berlin:20260306T100000
            DTSTART;TZID=Europe/Berlin:20260306T120000
            DTEND;TZID=Europe/Berlin:20260306T130000
            SUMMARY:Later
            END:VEVENT",
        )
        .await;
    let found = listed(&world, "2026-03-01", "2026-03-10", "Europe/Berlin").await;
    let short: Vec<String> = found.iter().map(|line| line.split(":00+").next().unwrap().to_owned()).collect();
    assert_eq!(
        short,
        [
            "Daily 2026-03-02T10:00",
            "Moved 2026-03-04T18:00",
            "Daily 2026-03-05T10:00",
            "Later 2026-03-06T12:00",
            "Later 2026-03-07T17:00",
        ]
    );
}

#[tokio::test]
async fn an_event_over_midnight_is_found_on_both_days() {
    let world = World::new().await;
    world.event("n", "DTSTART:20260302T223000Z\nDTEND:20260303T003000Z\nSUMMARY:Late").await;
    for day in ["2026-03-02", "2026-03-03"] {
        let found = listed(&world, day, day, "Europe/Berlin").await;
        assert_eq!(
            found,
            ["Late 2026-03-02T23:30:00+01:00[Europe/Berlin]/2026-03-03T01:30:00+01:00[Europe/Berlin]"]
        );
    }
    assert_eq!(listed(&world, "2026-03-02", "2026-03-02", "Asia/Tokyo").await.len(), 0);
}

#[tokio::test]
async fn what_cannot_be_read_is_told() {
    let world = World::new().await;
    world.event("x", "DTSTART;TZID=Nowhere/Land:20260302T100000\nSUMMARY:Lost").await;
    let answer = world.ok("list_calendar_events", json!({ "startDate": "2030-01-01" })).await;
    assert_eq!(answer["events"], json!([]));
    assert_eq!(answer["unreadable"][0]["title"], "Lost");
    assert!(answer["unreadable"][0]["why"].as_str().unwrap().contains("Nowhere/Land"));
}

#[tokio::test]
async fn pages_follow_each_other_without_a_gap() {
    let world = World::new().await;
    world
        .event("h", "DTSTART:20260301T000000Z\nDURATION:PT1H\nRRULE:FREQ=HOURLY;COUNT=120\nSUMMARY:Tick")
        .await;
    world.event("same", "DTSTART:20260301T050000Z\nDURATION:PT1H\nSUMMARY:Tock").await;
    let (mut all, mut cursor) = (Vec::new(), Value::Null);
    loop {
        let mut ask =
            json!({ "startDate": "2026-03-01", "endDate": "2026-03-10", "timeZone": "UTC", "limit": 7 });
        if cursor.is_string() {
            ask["cursor"] = cursor.clone();
        }
        let answer = world.ok("list_calendar_events", ask).await;
        all.extend(
            answer["events"].as_array().unwrap().iter().map(|event| event["id"].as_str().unwrap().to_owned()),
        );
        cursor = answer["nextCursor"].clone();
        if cursor.is_null() {
            break;
        }
    }
    let unique: std::collections::HashSet<_> = all.iter().collect();
    assert_eq!((all.len(), unique.len()), (121, 121));
}

#[tokio::test]
async fn words_are_found_in_every_script_and_never_taken_for_syntax() {
    let world = World::new().await;
    world.event("j", "DTSTART:20260302T100000Z\nSUMMARY:四半期の予算会議\nLOCATION:東京").await;
    world.event("a", "DTSTART:20260302T110000Z\nSUMMARY:اجتماع الميزانية").await;
    world
        .event(
            "c",
            "DTSTART:20260302T120000Z\nSUMMARY:C++ and budget-2026\nATTENDEE;CN=Zoë Müller:mailto:zoe@x.org",
        )
        .await;
    let find = async |query: &str| -> Vec<String> {
        let ask =
            json!({ "startDate": "2026-03-02", "endDate": "2026-03-02", "timeZone": "UTC", "query": query });
        let answer = world.ok("list_calendar_events", ask).await;
        answer["events"]
            .as_array()
            .unwrap()
            .iter()
            .map(|event| event["title"].as_str().unwrap().to_owned())
            .collect()
    };
    for query in ["予算会議", "会議", "東京"] {
        assert_eq!(find(query).await, ["四半期の予算会議"], "{query}");
    }
    assert_eq!(find("الميزانية").await, ["اجتماع الميزانية"]);
    for query in ["c++", "budget-2026", "BUDG", "zoe muller", "\"and budget\"", "++"] {
        assert_eq!(find(query).await, ["C++ and budget-2026"], "{query}");
    }
    for query in ["OR", "NEAR(a b)", "title:*", "%", "a\" OR \"b", "'; DROP TABLE objects"] {
        assert_eq!(find(query).await, Vec::<String>::new(), "{query}");
    }
}

#[tokio::test]
async fn arguments_that_cannot_be_used_say_what_to_give_instead() {
    let world = World::new().await;
    let fails = async |arguments: Value| world.fails("list_calendar_events", arguments).await;
    let gap = fails(json!({ "startDate": "2026-03-29T02:30", "timeZone": "Europe/Berlin" })).await;
    assert!(gap.message().contains("does not exist"), "{gap}");
    assert!(gap.suggestions()[0].contains("2026-03-29T03:30:00+02:00"), "{gap:?}");
    assert!(gap.suggestions()[0].contains("2026-03-29T01:30:00+01:00"), "{gap:?}");
    let fold = fails(json!({ "startDate": "2026-10-25T02:30", "timeZone": "Europe/Berlin" })).await;
    assert!(fold.suggestions()[0].contains("2026-10-25T02:30:00+02:00"), "{fold:?}");
    assert!(fold.suggestions()[0].contains("2026-10-25T02:30:00+01:00"), "{fold:?}");
    for (arguments, part) in [
        (json!({ "startDate": "tomorrow" }), "no date or time"),
        (json!({ "startDate": "2026-03-02", "endDate": "2026-03-01" }), "not after"),
        (json!({ "startDate": "2026-03-02", "endDate": "2029-03-01" }), "too long"),
        (json!({ "startDate": "2026-03-02", "timeZone": "Mars/Base" }), "no such time zone"),
        (json!({ "startDate": "2026-03-02T10:00:00+05:00[Europe/Berlin]" }), "another offset"),
        (json!({ "startDate": "9999-12-31" }), "out of bounds"),
        (json!({ "startDate": "2026-03-02", "calendars": ["Nope"] }), "none of this name"),
        (json!({ "startDate": "2026-03-02", "cursor": "x" }), "no cursor"),
        (json!({ "startDate": "2026-03-02", "query": "a\u{202e}b" }), "right-to-left override"),
    ] {
        let error = fails(arguments.clone()).await;
        assert!(error.message().contains(part), "{arguments}: {error}");
    }
}

#[tokio::test]
async fn another_principals_account_is_not_there() {
    let world = World::owned(Some("eve")).await;
    world.event("a", "DTSTART:20260302T100000Z\nSUMMARY:Secret").await;
    let error = world.fails("list_calendar_events", json!({ "startDate": "2026-03-02" })).await;
    assert_eq!(error.code(), helve::ErrorCode::IntegrationMissing);
    assert!(error.suggestions()[0].contains("helve connect calendar"), "{error:?}");
    let eve = std::sync::Arc::new(helve::Caller::principal("eve"));
    let call = helve::Call::new("list_calendar_events", json!({ "startDate": "2026-03-02" })).by(eve);
    assert!(world.runtime.call(call).await.is_success());
}

#[tokio::test]
async fn what_acts_on_its_reader_is_taken_out_of_descriptions_and_notes() {
    let world = World::new().await;
    let hostile = "a\u{202e}b\u{e0041}c\u{200b}d\\n\u{2028}next";
    world.event("e", &format!("DTSTART:20260302T100000Z\nSUMMARY:x\nDESCRIPTION:{hostile}")).await;
    world.import(&format!("BEGIN:VTODO\nUID:t\nSUMMARY:y\nDESCRIPTION:{hostile}\nEND:VTODO\n")).await;
    let events = world.ok("list_calendar_events", json!({ "startDate": "2026-03-02" })).await;
    assert_eq!(events["events"][0]["description"], "abcd\n\nnext");
    let tasks = world.ok("list_tasks", json!({})).await;
    assert_eq!(tasks["tasks"][0]["notes"], "abcd\n\nnext");
}
