//! Edits of a series: what changes, and that nothing else does.

use helve_office::ical::{DateValue, Document, NewProperty};
use helve_office::recurrence::edit::{
    Changed, Changes, NewTime, SeriesEditError, Split, change_all, change_following, change_one, define_zone,
    remove_following, remove_one,
};
use helve_office::recurrence::{RecurrenceId, Series, When};
use helve_office::zones::Moment;
use proptest::prelude::*;
use similar_lines::difference;

use crate::{calendar, expand, local, printed, range, starts, utc, zone};

/// Lines that went and lines that came, so that a test names every one.
mod similar_lines {
    pub(super) fn difference(before: &str, after: &str) -> (Vec<String>, Vec<String>) {
        let lines = |text: &str| text.split("\r\n").map(str::to_owned).collect::<Vec<_>>();
        let (mut gone, mut came) = (lines(before), lines(after));
        gone.retain(|line| match came.iter().position(|other| other == line) {
            Some(at) => {
                came.remove(at);
                false
            }
            None => true,
        });
        (gone, came)
    }
}

const STORED: &str = "PRODID:-//Other//EN
    X-WR-CALNAME:Work
    BEGIN:VTIMEZONE
    TZID:Europe/Berlin
    BEGIN:STANDARD
    DTSTART:19701025T030000
    TZOFFSETFROM:+0200
    TZOFFSETTO:+0100
    RRULE:FREQ=YEARLY;BYMONTH=10;BYDAY=-1SU
    END:STANDARD
    BEGIN:DAYLIGHT
    DTSTART:19700329T020000
    TZOFFSETFROM:+0100
    TZOFFSETTO:+0200
    RRULE:FREQ=YEARLY;BYMONTH=3;BYDAY=-1SU
    END:DAYLIGHT
    END:VTIMEZONE
    BEGIN:VEVENT
    UID:a
    DTSTAMP:20260101T000000Z
    LAST-MODIFIED:20260101T000000Z
    SEQUENCE:3
    SUMMARY:Stand-up
    LOCATION:Room 1
    DTSTART;X-P=1;TZID=Europe/Berlin:20260316T090000
    DTEND;TZID=Europe/Berlin:20260316T091500
    RRULE:FREQ=WEEKLY;COUNT=6;X-Q=r
    EXDATE;TZID=Europe/Berlin:20260323T090000
    EXDATE:20260420T070000Z
    X-APPLE-STRUCTURED-LOCATION;VALUE=URI;X-TITLE=\"R:1\":geo:1,2
    BEGIN:VALARM
    ACTION:DISPLAY
    TRIGGER:-PT10M
    END:VALARM
    END:VEVENT
    BEGIN:VEVENT
    UID:a
    DTSTAMP:20260101T000000Z
    LAST-MODIFIED:20260101T000000Z
    SEQUENCE:3
    RECURRENCE-ID;TZID=Europe/Berlin:20260413T090000
    SUMMARY:Stand-up with cake
    LOCATION:Room 1
    DTSTART;TZID=Europe/Berlin:20260413T140000
    DTEND;TZID=Europe/Berlin:20260413T150000
    END:VEVENT\n";

fn stored() -> Document {
    calendar(STORED)
}

fn changes() -> Changes {
    Changes::at(utc("20260201T120000"))
}

fn setting(name: &str, text: &str) -> Changes {
    Changes { set: vec![NewProperty::text(name, text).unwrap()], ..changes() }
}

fn moving(start: &str, end: &str) -> Changes {
    let time = |text: &str| DateValue::parse(text).unwrap();
    let time = NewTime { start: time(start), end: time(end), tzid: Some("Europe/Berlin".into()) };
    Changes { time: Some(time), ..changes() }
}

fn id(text: &str) -> RecurrenceId {
    RecurrenceId::parse(text).unwrap()
}

fn listed(document: &Document) -> Vec<String> {
    starts(&expand(document, &range("20260301T000000", "20260601T000000", "Europe/Berlin")))
}

const ALL: [&str; 4] =
    ["2026-03-16T09:00:00", "2026-03-30T09:00:00", "2026-04-06T09:00:00", "2026-04-13T14:00:00"];

#[test]
fn the_sample_has_the_occurrences_that_the_tests_speak_of() {
    assert_eq!(listed(&stored()), ALL);
}

#[test]
fn one_occurrence_becomes_an_override_and_no_other_line_changes() {
    let mut document = stored();
    change_one(&mut document, "a", id("20260330T070000Z"), &setting("SUMMARY", "Planning; long, very"))
        .unwrap();
    let (gone, came) = difference(&printed(&stored()), &printed(&document));
    assert!(gone.is_empty(), "{gone:?}");
    assert_eq!(
        came,
        [
            "BEGIN:VEVENT",
            "UID:a",
            "DTSTAMP:20260201T120000Z",
            "LAST-MODIFIED:20260201T120000Z",
            "SEQUENCE:3",
            "SUMMARY:Planning\\; long\\, very",
            "LOCATION:Room 1",
            "DTSTART;X-P=1;TZID=Europe/Berlin:20260330T090000",
            "DTEND;TZID=Europe/Berlin:20260330T091500",
            "X-APPLE-STRUCTURED-LOCATION;VALUE=URI;X-TITLE=\"R:1\":geo:1,2",
            "RECURRENCE-ID;TZID=Europe/Berlin:20260330T090000",
            "BEGIN:VALARM",
            "ACTION:DISPLAY",
            "TRIGGER:-PT10M",
            "END:VALARM",
            "END:VEVENT",
        ]
    );
    assert_eq!(listed(&document), ALL);
}

#[test]
fn an_occurrence_with_an_override_keeps_it() {
    let mut document = stored();
    change_one(&mut document, "a", id("20260413T070000Z"), &moving("20260414T080000", "20260414T083000"))
        .unwrap();
    let (gone, came) = difference(&printed(&stored()), &printed(&document));
    assert_eq!(gone.len(), 5, "{gone:?}");
    assert_eq!(
        came,
        [
            "DTSTAMP:20260201T120000Z",
            "LAST-MODIFIED:20260201T120000Z",
            "SEQUENCE:4",
            "DTSTART;TZID=Europe/Berlin:20260414T080000",
            "DTEND;TZID=Europe/Berlin:20260414T083000",
        ]
    );
    assert_eq!(listed(&document)[3], "2026-04-14T08:00:00");
}

#[test]
fn only_occurrences_that_are_there_can_be_changed() {
    for missing in ["20260331T070000Z", "20260323T080000Z", "20260330T071500Z", "20270101T080000Z"] {
        let mut document = stored();
        let error = change_one(&mut document, "a", id(missing), &changes()).unwrap_err();
        assert_eq!(error, SeriesEditError::NoOccurrence { id: id(missing) }, "{missing}");
        assert!(remove_one(&mut document, "a", id(missing), changes().now).is_err());
        assert!(change_following(&mut document, "a", id(missing), &changes(), "b").is_err());
        assert_eq!(document, stored(), "nothing has changed");
    }
    assert_eq!(change_all(&mut stored(), "b", &changes()), Err(SeriesEditError::NoEvent));
}

#[test]
fn an_occurrence_can_be_taken_out_and_its_override_goes_with_it() {
    let mut document = stored();
    remove_one(&mut document, "a", id("20260413T070000Z"), changes().now).unwrap();
    remove_one(&mut document, "a", id("20260330T070000Z"), changes().now).unwrap();
    assert_eq!(listed(&document), [ALL[0], ALL[2]]);
    let text = printed(&document);
    assert!(text.contains(
        "EXDATE;TZID=Europe/Berlin:20260413T090000\r\nEXDATE;TZID=Europe/Berlin:20260330T090000\r\n"
    ));
    assert!(text.contains("SEQUENCE:5") && !text.contains("cake"));
}

#[test]
fn all_occurrences_take_a_new_value_unless_one_has_its_own() {
    let mut document = stored();
    let mut both = setting("SUMMARY", "Daily");
    both.set.push(NewProperty::text("LOCATION", "Room 2").unwrap());
    change_all(&mut document, "a", &both).unwrap();
    let (gone, came) = difference(&printed(&stored()), &printed(&document));
    assert_eq!(gone.len(), 7, "{gone:?}");
    let text: Vec<_> = came.iter().filter(|line| !line.contains("2026")).collect();
    assert_eq!(
        text,
        ["SUMMARY:Daily", "LOCATION:Room 2", "LOCATION:Room 2"],
        "the cake keeps its own summary"
    );
    assert_eq!(listed(&document), ALL);
}

#[test]
fn an_override_that_keeps_its_own_value_is_not_touched() {
    let mut document = stored();
    change_all(&mut document, "a", &setting("SUMMARY", "Daily")).unwrap();
    let (mut gone, _) = difference(&printed(&stored()), &printed(&document));
    gone.sort();
    assert_eq!(gone, ["DTSTAMP:20260101T000000Z", "LAST-MODIFIED:20260101T000000Z", "SUMMARY:Stand-up"]);
}

#[test]
fn several_properties_of_one_name_replace_all_of_that_name() {
    let mut document = calendar(&STORED.replace("LOCATION:Room 1", "ATTENDEE:mailto:x@example.org"));
    let mut people = changes();
    for address in ["mailto:bob@example.org", "mailto:carol@example.org"] {
        people.set.push(NewProperty::raw("ATTENDEE", address).unwrap());
    }
    change_all(&mut document, "a", &people).unwrap();
    let text = printed(&document);
    assert_eq!((text.matches("mailto:bob").count(), text.matches("mailto:carol").count()), (2, 2));
    assert!(!text.contains("mailto:x@"));
}

#[test]
fn when_all_occurrences_move_their_exceptions_move_along() {
    let mut document = stored();
    change_all(&mut document, "a", &moving("20260316T160000", "20260316T170000")).unwrap();
    let moved = ["2026-03-16T16:00:00", "2026-03-30T16:00:00", "2026-04-06T16:00:00", "2026-04-13T14:00:00"];
    assert_eq!(listed(&document), moved, "what was moved by hand stays where it was put");
    let text = printed(&document);
    for line in [
        "DTSTART;X-P=1;TZID=Europe/Berlin:20260316T160000\r\n",
        "EXDATE;TZID=Europe/Berlin:20260323T160000\r\n",
        "EXDATE;TZID=Europe/Berlin:20260420T160000\r\n",
        "RECURRENCE-ID;TZID=Europe/Berlin:20260413T160000\r\n",
        "RRULE:FREQ=WEEKLY;COUNT=6;X-Q=r\r\n",
        "SEQUENCE:4\r\n",
    ] {
        assert!(text.contains(line), "{line} in {text}");
    }
}

#[test]
fn a_series_that_moves_keeps_its_last_occurrence() {
    let mut document = calendar(&STORED.replace("COUNT=6", "UNTIL=20260420T070000Z"));
    let count = listed(&document).len();
    change_all(&mut document, "a", &moving("20260316T160000", "20260316T170000")).unwrap();
    assert_eq!(listed(&document).len(), count);
    assert!(printed(&document).contains("RRULE:FREQ=WEEKLY;X-Q=r;UNTIL=20260420T140000Z\r\n"));
}

#[test]
fn a_series_that_moves_to_another_day_needs_a_rule_for_it() {
    let mut document = calendar(&STORED.replace("X-Q=r", "BYDAY=MO"));
    let error = change_all(&mut document, "a", &moving("20260317T090000", "20260317T091500")).unwrap_err();
    assert_eq!(error, SeriesEditError::NeedsRule { rule: "FREQ=WEEKLY;COUNT=6;BYDAY=MO".into() });
    let mut with_rule = moving("20260317T090000", "20260317T091500");
    with_rule.set.push(NewProperty::raw("RRULE", "FREQ=WEEKLY;COUNT=6;BYDAY=TU").unwrap());
    let changed = change_all(&mut document, "a", &with_rule).unwrap();
    assert!(changed.dropped.is_empty());
    assert_eq!(listed(&document)[..3], ["2026-03-17T09:00:00", "2026-03-31T09:00:00", "2026-04-07T09:00:00"]);
}

#[test]
fn overrides_that_a_new_rule_has_no_place_for_go_and_are_told() {
    let mut document = stored();
    let mut rule = changes();
    rule.set.push(NewProperty::raw("RRULE", "FREQ=WEEKLY;COUNT=2").unwrap());
    let changed = change_all(&mut document, "a", &rule).unwrap();
    assert_eq!(changed.dropped, [id("20260413T070000Z")]);
    assert_eq!(listed(&document), ["2026-03-16T09:00:00"]);
}

#[test]
fn an_edit_keeps_parameters_that_do_not_belong_to_the_value() {
    let mut document = calendar(
        &STORED.replace("SUMMARY:Stand-up\n", "SUMMARY;LANGUAGE=de;ALTREP=\"x:y\";X-A=\"a;b\":Stand-up\n"),
    );
    let mut changes = moving("20260316T100000", "20260316T103000");
    changes.set.push(NewProperty::text("SUMMARY", "New").unwrap());
    change_all(&mut document, "a", &changes).unwrap();
    let text = printed(&document);
    assert!(text.contains("SUMMARY;LANGUAGE=de;X-A=\"a;b\":New\r\n"), "{text}");
    assert!(text.contains("DTSTART;X-P=1;TZID=Europe/Berlin:20260316T100000\r\n"), "{text}");
}

#[test]
fn an_override_keeps_its_own_length_when_all_move() {
    let mut document = stored();
    let longer = moving("20260413T090000", "20260413T110000");
    change_one(&mut document, "a", id("20260413T070000Z"), &longer).unwrap();
    change_all(&mut document, "a", &moving("20260316T100000", "20260316T103000")).unwrap();
    let text = printed(&document);
    assert!(text.contains("DTEND;TZID=Europe/Berlin:20260413T120000\r\n"), "{text}");
    assert!(text.contains("DTEND;TZID=Europe/Berlin:20260316T103000\r\n"), "{text}");
}

#[test]
fn all_are_cancelled_with_overrides_that_have_a_status_of_their_own() {
    let mut document = stored();
    let mut confirmed = changes();
    confirmed.set.push(NewProperty::raw("STATUS", "CONFIRMED").unwrap());
    change_one(&mut document, "a", id("20260413T070000Z"), &confirmed).unwrap();
    let mut cancelled = changes();
    cancelled.set.push(NewProperty::raw("STATUS", "CANCELLED").unwrap());
    change_all(&mut document, "a", &cancelled).unwrap();
    let text = printed(&document);
    assert_eq!(text.matches("STATUS:CANCELLED\r\n").count(), 2, "{text}");
    assert!(!text.contains("CONFIRMED"), "{text}");
}

fn split(document: &mut Document, at: &str, changes: &Changes) -> Document {
    match change_following(document, "a", id(at), changes, "b").unwrap() {
        Split::New(new, _) => new,
        Split::Whole(_) => panic!("it is not the first"),
    }
}

#[test]
fn this_and_following_splits_the_series() {
    let mut old = stored();
    let new = split(&mut old, "20260406T070000Z", &setting("SUMMARY", "Stand-up (new)"));
    assert_eq!(listed(&old), ALL[..2]);
    assert_eq!(listed(&new), ALL[2..]);
    let (gone, came) = difference(&printed(&stored()), &printed(&old));
    assert!(came.contains(&"RRULE:FREQ=WEEKLY;X-Q=r;UNTIL=20260406T065959Z".to_owned()), "{came:?}");
    assert!(
        gone.contains(&"EXDATE:20260420T070000Z".to_owned())
            && gone.contains(&"SUMMARY:Stand-up with cake".to_owned())
    );
    let text = printed(&new);
    for line in [
        "UID:b\r\n",
        "RELATED-TO;RELTYPE=SIBLING:a\r\n",
        "SUMMARY:Stand-up (new)\r\n",
        "SUMMARY:Stand-up with cake\r\n",
        "DTSTART;X-P=1;TZID=Europe/Berlin:20260406T090000\r\n",
        "DTEND;TZID=Europe/Berlin:20260406T091500\r\n",
        "RRULE:FREQ=WEEKLY;X-Q=r;COUNT=3\r\n",
        "EXDATE:20260420T070000Z\r\n",
        "X-WR-CALNAME:Work\r\n",
        "TRIGGER:-PT10M\r\n",
        "BEGIN:VTIMEZONE\r\n",
    ] {
        assert!(text.contains(line), "{line} in {text}");
    }
    assert!(!text.contains("UID:a\r\n") && !text.contains("20260323"), "{text}");
}

#[test]
fn a_split_changes_the_named_occurrence_also_where_it_was_changed_alone() {
    let mut old = stored();
    let mut changes = moving("20260413T160000", "20260413T170000");
    changes.set.push(NewProperty::text("SUMMARY", "New").unwrap());
    let new = split(&mut old, "20260413T070000Z", &changes);
    assert_eq!(listed(&new), ["2026-04-13T16:00:00"]);
    let text = printed(&new);
    assert_eq!(text.matches("SUMMARY:New\r\n").count(), 2, "{text}");
    assert!(!text.contains("cake"), "{text}");
}

#[test]
fn a_split_tells_which_overrides_go() {
    let mut document = stored();
    let mut rule = changes();
    rule.set.push(NewProperty::raw("RRULE", "FREQ=MONTHLY").unwrap());
    let split = change_following(&mut document, "a", id("20260406T070000Z"), &rule, "b").unwrap();
    let Split::New(_, changed) = split else { panic!("{split:?}") };
    assert_eq!(changed.dropped, [id("20260413T070000Z")]);
}

#[test]
fn a_split_that_moves_takes_the_later_exceptions_along() {
    let mut old = stored();
    let new = split(&mut old, "20260406T070000Z", &moving("20260407T100000", "20260407T103000"));
    assert_eq!(listed(&old), ALL[..2]);
    assert_eq!(listed(&new), ["2026-04-07T10:00:00", "2026-04-13T14:00:00"], "April 21 stays out");
    assert!(printed(&new).contains("RECURRENCE-ID;TZID=Europe/Berlin:20260414T100000\r\n"));
}

#[test]
fn a_split_at_the_first_changes_the_whole_series() {
    let mut document = stored();
    let split =
        change_following(&mut document, "a", id("20260316T080000Z"), &setting("LOCATION", "Hall"), "b");
    assert_eq!(split, Ok(Split::Whole(Changed::default())));
    let text = printed(&document);
    assert!(text.contains("LOCATION:Hall") && !text.contains("UNTIL="));
}

#[test]
fn what_follows_can_be_taken_out() {
    for (lines, at, until) in [
        ("DTSTART;VALUE=DATE:20260302\nRRULE:FREQ=DAILY", "20260305", "20260304"),
        ("DTSTART:20260302T100000\nRRULE:FREQ=DAILY", "20260305T100000", "20260305T095959"),
        ("DTSTART:20260302T100000Z\nRRULE:FREQ=DAILY", "20260305T100000Z", "20260305T095959Z"),
    ] {
        let mut document = calendar(&format!("BEGIN:VEVENT\nUID:a\n{lines}\nEND:VEVENT\n"));
        remove_following(&mut document, "a", id(at), changes().now).unwrap();
        assert!(
            printed(&document).contains(&format!("RRULE:FREQ=DAILY;UNTIL={until}\r\n")),
            "{}",
            printed(&document)
        );
        assert_eq!(listed(&document).len(), 3);
    }
}

#[test]
fn a_rule_that_was_over_is_not_brought_back_by_a_split() {
    let lines =
        "DTSTART:20260302T100000Z\nRRULE:FREQ=DAILY;COUNT=2\nRDATE:20260401T100000Z\nRDATE:20260402T100000Z";
    let mut old = calendar(&format!("BEGIN:VEVENT\nUID:a\n{lines}\nEND:VEVENT\n"));
    let new = split(&mut old, "20260401T100000Z", &setting("SUMMARY", "x"));
    assert_eq!(listed(&old), ["2026-03-02T10:00:00", "2026-03-03T10:00:00"]);
    assert_eq!(listed(&new), ["2026-04-01T10:00:00", "2026-04-02T10:00:00"]);
}

#[test]
fn what_cannot_be_split_rightly_is_refused_and_left_alone() {
    let future = STORED.replace("RECURRENCE-ID;TZID", "RECURRENCE-ID;RANGE=THISANDFUTURE;TZID");
    let mut document = calendar(&future);
    let error = change_following(&mut document, "a", id("20260406T070000Z"), &changes(), "b");
    assert_eq!(error, Err(SeriesEditError::HasFutureRange));
    let periods = STORED
        .replace("EXDATE:20260420T070000Z", "RDATE;VALUE=PERIOD:20260401T070000Z/PT1H,20260501T070000Z/PT1H");
    let mut document = calendar(&periods);
    let error = change_following(&mut document, "a", id("20260406T070000Z"), &changes(), "b");
    assert_eq!(error, Err(SeriesEditError::HasPeriods));
    assert_eq!(document, calendar(&periods));
}

#[test]
fn an_occurrence_in_a_gap_can_be_named_and_overridden() {
    let mut document = calendar(
        "BEGIN:VEVENT\nUID:a\nDTSTART;TZID=Europe/Berlin:20260327T023000\nDURATION:PT1H\nRRULE:FREQ=DAILY;COUNT=5\nEND:VEVENT\n",
    );
    change_one(&mut document, "a", id("20260329T013000Z"), &setting("SUMMARY", "x")).unwrap();
    let found = listed(&document);
    assert_eq!(found.len(), 5, "{found:?}");
    assert_eq!(found[2], "2026-03-29T03:30:00");
}

/// Another program moved this and all later ones to the afternoon, and one of them to the next day.
const RANGE: &str = "BEGIN:VEVENT
    UID:a
    DTSTART;TZID=Europe/Berlin:20260302T090000
    DTEND;TZID=Europe/Berlin:20260302T093000
    RRULE:FREQ=WEEKLY;COUNT=6
    SUMMARY:Morning
    END:VEVENT
    BEGIN:VEVENT
    UID:a
    RECURRENCE-ID;RANGE=THISANDFUTURE;TZID=Europe/Berlin:20260316T090000
    DTSTART;TZID=Europe/Berlin:20260316T140000
    DTEND;TZID=Europe/Berlin:20260316T150000
    SUMMARY:Afternoon
    END:VEVENT
    BEGIN:VEVENT
    UID:a
    RECURRENCE-ID;TZID=Europe/Berlin:20260323T090000
    DTSTART;TZID=Europe/Berlin:20260324T110000
    DTEND;TZID=Europe/Berlin:20260324T113000
    SUMMARY:Next day
    END:VEVENT\n";

/// What happens of it, with the title of each occurrence.
fn titled(document: &Document) -> Vec<String> {
    let found = expand(document, &range("20260301T000000", "20260601T000000", "Europe/Berlin"));
    let title = |place: usize| {
        let event = document.events("VEVENT").nth(place).unwrap();
        event.property("SUMMARY").unwrap().text_value()
    };
    starts(&found)
        .iter()
        .zip(&found)
        .map(|(at, one)| format!("{} {}", &at[5..16], title(one.place)))
        .collect()
}

#[test]
fn one_occurrence_that_begins_or_lies_in_a_moved_range_changes_alone() {
    let before = [
        "03-02T09:00 Morning",
        "03-09T09:00 Morning",
        "03-16T14:00 Afternoon",
        "03-24T11:00 Next day",
        "03-30T14:00 Afternoon",
        "04-06T14:00 Afternoon",
    ];
    assert_eq!(titled(&calendar(RANGE)), before);
    for (at, which, changed) in [
        ("20260309T080000Z", 1, "03-09T09:00 Alone"),
        ("20260316T080000Z", 2, "03-16T14:00 Alone"),
        ("20260323T080000Z", 3, "03-24T11:00 Alone"),
        ("20260330T070000Z", 4, "03-30T14:00 Alone"),
        ("20260406T070000Z", 5, "04-06T14:00 Alone"),
    ] {
        let mut document = calendar(RANGE);
        change_one(&mut document, "a", id(at), &setting("SUMMARY", "Alone")).unwrap();
        let mut expected = before;
        expected[which] = changed;
        assert_eq!(titled(&document), expected, "{}", printed(&document));
        assert_eq!(printed(&document).matches("RANGE=THISANDFUTURE").count(), 1);

        let mut fewer = calendar(RANGE);
        remove_one(&mut fewer, "a", id(at), changes().now).unwrap();
        let mut expected = before.to_vec();
        expected.remove(which);
        assert_eq!(titled(&fewer), expected, "{}", printed(&fewer));
    }
}

#[test]
fn the_last_occurrence_of_a_moved_range_is_its_own_override_afterwards() {
    let mut document = calendar(&RANGE.replace("COUNT=6", "COUNT=4"));
    change_one(&mut document, "a", id("20260316T080000Z"), &setting("SUMMARY", "Alone")).unwrap();
    let text = printed(&document);
    assert!(!text.contains("RANGE="), "{text}");
    assert_eq!(titled(&document)[2..], ["03-16T14:00 Alone", "03-24T11:00 Next day"]);
    // Without the series nobody knows where its range would go on.
    let alone = RANGE.split_once("END:VEVENT\n").unwrap().1;
    let mut document = calendar(alone);
    let error = change_one(&mut document, "a", id("20260316T080000Z"), &setting("SUMMARY", "Alone"));
    assert_eq!(error, Err(SeriesEditError::HasFutureRange));
    assert_eq!(document, calendar(alone));
}

#[test]
fn an_occurrence_in_a_moved_range_is_where_the_range_puts_it() {
    let document = calendar(RANGE);
    let series = Series::find(&document, "VEVENT", "a").unwrap().unwrap();
    let berlin = zone("Europe/Berlin");
    let (when, place) = series.when(Some(id("20260330T070000Z")), &berlin).unwrap();
    let When::Timed { start, end } = when else { panic!("{when:?}") };
    let shown = |moment: &Moment| moment.local().to_string();
    assert_eq!((shown(&start), shown(&end)), ("2026-03-30T14:00:00".into(), "2026-03-30T15:00:00".into()));
    assert_eq!(place, 1);
}

#[test]
fn a_split_leaves_the_overrides_before_it_and_takes_those_behind_it_along() {
    let mut old = stored();
    // One before the split is moved behind it, one on the day of the split names that day alone.
    change_one(&mut old, "a", id("20260330T070000Z"), &moving("20260501T080000", "20260501T083000")).unwrap();
    let day = "BEGIN:VEVENT\nUID:a\nRECURRENCE-ID;VALUE=DATE:20260406\nSUMMARY:By day\n\
               DTSTART;TZID=Europe/Berlin:20260406T120000\nDTEND;TZID=Europe/Berlin:20260406T123000\nEND:VEVENT\n";
    let body = printed(&old).replace("END:VCALENDAR\r\n", "");
    let body = body.split_once("VERSION:2.0\r\n").unwrap().1.to_owned();
    let mut old = calendar(&format!("{body}{day}"));
    let new = split(&mut old, "20260406T070000Z", &moving("20260406T100000", "20260406T101500"));
    assert_eq!(listed(&old), ["2026-03-16T09:00:00", "2026-05-01T08:00:00"]);
    assert_eq!(listed(&new), ["2026-04-06T10:00:00", "2026-04-13T14:00:00"]);
    assert!(!printed(&old).contains("By day") && printed(&new).contains("By day"));
}

#[test]
fn a_zone_is_defined_once() {
    let mut document = calendar("BEGIN:VEVENT\nUID:a\nEND:VEVENT\n");
    assert_eq!(
        define_zone(&mut document, &zone("America/New_York"), "America/New_York", 2026..=2027),
        Ok(true)
    );
    let once = printed(&document);
    assert!(once.find("BEGIN:VTIMEZONE") < once.find("BEGIN:VEVENT"));
    assert_eq!(
        define_zone(&mut document, &zone("America/New_York"), "America/New_York", 2026..=2027),
        Ok(false)
    );
    assert_eq!(printed(&document), once);
    let read = Document::parse(once.as_bytes()).unwrap();
    let zone = helve_office::zones::CustomZone::read("x", read.events("VTIMEZONE").next().unwrap()).unwrap();
    assert_eq!(
        helve_office::zones::Zone::from(zone).instant(local("20260701T120000")),
        utc("20260701T160000")
    );
}

/// A series of some kind, and one of its occurrences.
fn any_series() -> impl Strategy<Value = (String, usize)> {
    let start = prop_oneof![
        Just("DTSTART;TZID=Europe/Berlin:20260302T023000\nDTEND;TZID=Europe/Berlin:20260302T040000"),
        Just("DTSTART:20260302T100000Z\nDURATION:PT30M"),
        Just("DTSTART:20260302T233000\nDTEND:20260303T003000"),
        Just("DTSTART;VALUE=DATE:20260302\nDTEND;VALUE=DATE:20260304"),
        Just("DTSTART;TZID=W. Europe Standard Time:20260302T090000"),
    ];
    let rule = prop_oneof![
        Just("FREQ=DAILY;INTERVAL=3"),
        Just("FREQ=WEEKLY;BYDAY=MO,TH"),
        Just("FREQ=MONTHLY;BYDAY=1MO"),
        Just("FREQ=DAILY;BYDAY=MO,TU,WE,TH,FR;COUNT=30"),
        Just("FREQ=WEEKLY;COUNT=7"),
        Just("FREQ=DAILY;UNTIL=20260420"),
        Just("FREQ=WEEKLY;UNTIL=20260501T120000Z"),
    ];
    let exceptions = proptest::collection::vec(0..60u8, 0..6).prop_map(|days| {
        let day = |day: u8| format!("EXDATE;VALUE=DATE:2026{:02}{:02}\n", 3 + day / 28, day % 28 + 1);
        days.into_iter().map(day).collect::<String>()
    });
    (start, rule, exceptions, 0..40usize)
        .prop_map(|(start, rule, exceptions, at)| (format!("{start}\nRRULE:{rule}\n{exceptions}"), at))
}

/// What the events of a document do in three months, with what each occurrence is known by.
fn occurrences(document: &Document) -> Vec<(RecurrenceId, String)> {
    let found = expand(document, &range("20260301T000000", "20260601T000000", "Europe/Berlin"));
    found.iter().map(|occurrence| (occurrence.id.unwrap(), crate::shown(occurrence))).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    /// A split neither loses an occurrence nor makes one up, and what is taken out is what was named.
    #[test]
    fn edits_keep_every_occurrence_that_they_do_not_name((lines, at) in any_series()) {
        let document = calendar(&format!("BEGIN:VEVENT\nUID:a\n{lines}END:VEVENT\n"));
        let before = occurrences(&document);
        prop_assume!(!before.is_empty());
        let at = at % before.len();
        let id = before[at].0;

        let mut old = document.clone();
        match change_following(&mut old, "a", id, &setting("SUMMARY", "x"), "b").unwrap() {
            Split::Whole(_) => prop_assert_eq!(&occurrences(&old), &before),
            Split::New(new, _) => {
                let mut both = occurrences(&old);
                prop_assert_eq!(&both[..], &before[..at]);
                both.extend(occurrences(&new));
                prop_assert_eq!(&both, &before);
            }
        }

        let mut fewer = document.clone();
        remove_one(&mut fewer, "a", id, changes().now).unwrap();
        let mut expected = before.clone();
        expected.remove(at);
        prop_assert_eq!(&occurrences(&fewer), &expected);

        let mut overridden = document.clone();
        change_one(&mut overridden, "a", id, &setting("SUMMARY", "x")).unwrap();
        prop_assert_eq!(&occurrences(&overridden), &before);
        prop_assert_eq!(printed(&overridden).matches("SUMMARY:x").count(), 1);
    }
}
