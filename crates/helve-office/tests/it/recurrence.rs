//! Series: rules, dates, exceptions and overrides, across changes of the clock.

use helve_office::ical::Document;
use helve_office::recurrence::{Range, RecurrenceId, Series, Source, Status, When};
use helve_office::rule::{Budget, OverBudget};
use jiff::Timestamp;

use crate::{calendar, event, expand, local, range, shown, starts, table, utc, zone};

#[test]
fn series_start_when_zoneinfo_says() {
    let mut count = 0;
    for row in table(include_str!("../tables/series.txt")) {
        let [name, start, rule, from, to, expected] = row[..] else { panic!("{row:?}") };
        let document = event(&format!("DTSTART;TZID={name}:{start}\nDURATION:PT10M\nRRULE:{rule}"));
        let mut range = range(from, to, name);
        // Python's window takes its end in.
        range.to = Timestamp::from_second(range.to.as_second() + 1).unwrap();
        let found: Vec<String> = expand(&document, &range)
            .iter()
            .map(|occurrence| match &occurrence.when {
                When::Timed { start, .. } => {
                    let at = RecurrenceId::Instant(start.instant);
                    format!("{at}{:+}", start.offset().seconds() / 60)
                }
                When::AllDay { .. } => panic!("it has times"),
            })
            .collect();
        assert_eq!(found.join(","), expected, "{rule} from {start} in {name}");
        count += 1;
    }
    assert!(count > 10, "the table has {count} series");
}

/// What the events of one document with these lines do in a range, each on a line.
fn check(lines: &str, range: &Range, expected: &[&str]) {
    let found: Vec<String> = expand(&event(lines), range).iter().map(shown).collect();
    assert_eq!(found, expected, "{lines}");
}

#[test]
fn an_end_is_exact_and_a_duration_is_nominal_when_the_clock_changes() {
    let night = range("20260328T120000", "20260329T120000", "Europe/Berlin");
    check(
        "DTSTART;TZID=Europe/Berlin:20260301T220000\nDTEND;TZID=Europe/Berlin:20260302T060000\nRRULE:FREQ=DAILY",
        &night,
        &["2026-03-28T22:00:00+01:00[Europe/Berlin]/2026-03-29T07:00:00+02:00[Europe/Berlin]"],
    );
    check(
        "DTSTART;TZID=Europe/Berlin:20260328T220000\nDURATION:P1D",
        &night,
        &["2026-03-28T22:00:00+01:00[Europe/Berlin]/2026-03-29T22:00:00+02:00[Europe/Berlin]"],
    );
    check(
        "DTSTART;TZID=Europe/Berlin:20260328T220000\nDURATION:PT24H",
        &night,
        &["2026-03-28T22:00:00+01:00[Europe/Berlin]/2026-03-29T23:00:00+02:00[Europe/Berlin]"],
    );
}

#[test]
fn the_length_of_an_event_is_known_in_every_form() {
    let march = range("20260301T000000", "20260401T000000", "Europe/Berlin");
    for (lines, expected) in [
        ("DTSTART;VALUE=DATE:20260310", "2026-03-10/2026-03-11"),
        ("DTSTART;VALUE=DATE:20260310\nDTEND;VALUE=DATE:20260313", "2026-03-10/2026-03-13"),
        ("DTSTART;VALUE=DATE:20260310\nDTEND;VALUE=DATE:20260310", "2026-03-10/2026-03-11"),
        ("DTSTART;VALUE=DATE:20260310\nDURATION:P2D", "2026-03-10/2026-03-12"),
        ("DTSTART:20260310T100000Z", "2026-03-10T10:00:00+00:00[UTC]/2026-03-10T10:00:00+00:00[UTC]"),
        (
            "DTSTART:20260310T100000Z\nDTEND:20260310T090000Z",
            "2026-03-10T10:00:00+00:00[UTC]/2026-03-10T10:00:00+00:00[UTC]",
        ),
        (
            "DTSTART:20260310T100000Z\nDURATION:-PT1H",
            "2026-03-10T10:00:00+00:00[UTC]/2026-03-10T10:00:00+00:00[UTC]",
        ),
        (
            "DTSTART;TZID=Europe/Berlin:20260310T100000\nDTEND;TZID=America/New_York:20260310T100000",
            "2026-03-10T10:00:00+01:00[Europe/Berlin]/2026-03-10T15:00:00+01:00[Europe/Berlin]",
        ),
    ] {
        check(lines, &march, &[expected]);
    }
}

#[test]
fn floating_and_all_day_events_are_on_the_clock_of_the_asker() {
    let floating = "DTSTART:20260310T230000\nDTEND:20260311T010000";
    check(
        floating,
        &range("20260310T000000", "20260311T000000", "Asia/Tokyo"),
        &["2026-03-10T23:00:00+09:00[Asia/Tokyo]/2026-03-11T01:00:00+09:00[Asia/Tokyo]"],
    );
    check(
        floating,
        &range("20260311T000000", "20260312T000000", "America/New_York"),
        &["2026-03-10T23:00:00-04:00[America/New_York]/2026-03-11T01:00:00-04:00[America/New_York]"],
    );
    let all_day = "DTSTART;VALUE=DATE:20260310\nRRULE:FREQ=WEEKLY;COUNT=2";
    for asker in ["Pacific/Kiritimati", "Pacific/Pago_Pago", "Europe/Berlin"] {
        check(all_day, &range("20260310T000000", "20260311T000000", asker), &["2026-03-10/2026-03-11"]);
        check(all_day, &range("20260311T000000", "20260317T000000", asker), &[]);
    }
}

#[test]
fn an_event_that_crosses_midnight_for_the_asker_is_on_both_days() {
    // 20:00 in New York is 01:00 of the next day in Berlin.
    let lines = "DTSTART;TZID=America/New_York:20260102T173000\nDTEND;TZID=America/New_York:20260102T190000\nRRULE:FREQ=DAILY;COUNT=1";
    let expected =
        ["2026-01-02T17:30:00-05:00[America/New_York]/2026-01-02T19:00:00-05:00[America/New_York]"];
    check(lines, &range("20260102T000000", "20260103T000000", "Europe/Berlin"), &expected);
    check(lines, &range("20260103T000000", "20260104T000000", "Europe/Berlin"), &expected);
    check(lines, &range("20260104T000000", "20260105T000000", "Europe/Berlin"), &[]);
}

#[test]
fn until_is_understood_in_every_form() {
    let berlin = range("20260301T000000", "20260320T000000", "Europe/Berlin");
    for (start, until, days) in [
        ("DTSTART;TZID=Europe/Berlin:20260302T233000", "20260304", 3),
        ("DTSTART;TZID=Europe/Berlin:20260302T233000", "20260304T223000Z", 3),
        ("DTSTART;TZID=Europe/Berlin:20260302T233000", "20260304T222959Z", 2),
        ("DTSTART;TZID=Europe/Berlin:20260302T233000", "20260304T233000", 3),
        ("DTSTART:20260302T233000", "20260304T233000Z", 3),
        ("DTSTART;VALUE=DATE:20260302", "20260304", 3),
        ("DTSTART;VALUE=DATE:20260302", "20260304T225959Z", 3),
        ("DTSTART:20260302T120000Z", "20260304T120000Z", 3),
        ("DTSTART:20260302T120000Z", "20260301T120000Z", 0),
    ] {
        let document = event(&format!("{start}\nRRULE:FREQ=DAILY;UNTIL={until}"));
        assert_eq!(expand(&document, &berlin).len(), days, "{start} until {until}");
    }
}

#[test]
fn an_until_within_a_fold_counts_by_its_instant() {
    // 02:30 comes twice on October 25; the series takes the first, which is 00:30 in UTC.
    for (until, days) in [("20261025T003000Z", 2), ("20261025T002959Z", 1), ("20261025T011500Z", 2)] {
        let document =
            event(&format!("DTSTART;TZID=Europe/Berlin:20261024T023000\nRRULE:FREQ=DAILY;UNTIL={until}"));
        assert_eq!(
            expand(&document, &range("20261020T000000", "20261101T000000", "Europe/Berlin")).len(),
            days,
            "{until}"
        );
    }
}

const DAILY: &str = "DTSTART;TZID=Europe/Berlin:20260326T023000\nDTEND;TZID=Europe/Berlin:20260326T033000\nRRULE:FREQ=DAILY;COUNT=6";

fn after(lines: &str) -> Vec<String> {
    starts(&expand(
        &event(&format!("{DAILY}\n{lines}")),
        &range("20260301T000000", "20260501T000000", "Europe/Berlin"),
    ))
}

#[test]
fn exceptions_are_understood_in_every_form() {
    let all = [
        "2026-03-26T02:30:00",
        "2026-03-27T02:30:00",
        "2026-03-28T02:30:00",
        "2026-03-29T03:30:00",
        "2026-03-30T02:30:00",
        "2026-03-31T02:30:00",
    ];
    let without = |gone: &[usize]| -> Vec<&str> {
        all.iter().enumerate().filter(|(i, _)| !gone.contains(i)).map(|(_, at)| *at).collect()
    };
    for (lines, gone) in [
        ("", &[][..]),
        ("EXDATE;TZID=Europe/Berlin:20260327T023000,20260328T023000", &[1, 2]),
        ("EXDATE:20260327T013000Z\nEXDATE:20260330T003000Z", &[1, 4]),
        ("EXDATE;VALUE=DATE:20260328", &[2]),
        ("EXDATE;TZID=America/New_York:20260326T213000", &[1]),
        ("EXDATE;TZID=W. Europe Standard Time:20260327T023000", &[1]),
        ("EXDATE:20260327T023000", &[1]),
        // The one in the gap, by the rule's time, by the clock's time, and in UTC.
        ("EXDATE;TZID=Europe/Berlin:20260329T023000", &[3]),
        ("EXDATE;TZID=Europe/Berlin:20260329T033000", &[3]),
        ("EXDATE:20260329T013000Z", &[3]),
        // The start itself, and a date that is no occurrence.
        ("EXDATE;TZID=Europe/Berlin:20260326T023000", &[0]),
        ("EXDATE;TZID=Europe/Berlin:20260327T024500", &[]),
        ("EXRULE:FREQ=DAILY;INTERVAL=2", &[0, 2, 4]),
    ] {
        assert_eq!(after(lines), without(gone), "{lines}");
    }
}

#[test]
fn extra_dates_are_understood_in_every_form() {
    let extra = |lines: &str| after(lines)[6..].to_vec();
    assert_eq!(
        extra("RDATE;TZID=Europe/Berlin:20260410T120000,20260411T120000"),
        ["2026-04-10T12:00:00", "2026-04-11T12:00:00"]
    );
    assert_eq!(extra("RDATE:20260410T100000Z"), ["2026-04-10T12:00:00"]);
    assert_eq!(extra("RDATE;VALUE=DATE:20260410"), ["2026-04-10T02:30:00"]);
    assert_eq!(
        after("RDATE;TZID=Europe/Berlin:20260327T023000").len(),
        6,
        "an occurrence that is there already"
    );
    let document = event(&format!(
        "{DAILY}\nRDATE;VALUE=PERIOD:20260410T100000Z/PT3H,20260411T100000Z/20260411T101500Z"
    ));
    let found = expand(&document, &range("20260401T000000", "20260501T000000", "Europe/Berlin"));
    let found: Vec<String> = found.iter().map(shown).collect();
    assert_eq!(
        found,
        [
            "2026-04-10T12:00:00+02:00[Europe/Berlin]/2026-04-10T15:00:00+02:00[Europe/Berlin]",
            "2026-04-11T12:00:00+02:00[Europe/Berlin]/2026-04-11T12:15:00+02:00[Europe/Berlin]",
        ]
    );
    let only_dates = event("DTSTART;VALUE=DATE:20260301\nRDATE;VALUE=DATE:20260305,20260309");
    assert_eq!(
        starts(&expand(&only_dates, &range("20260301T000000", "20260401T000000", "UTC"))),
        ["2026-03-01", "2026-03-05", "2026-03-09"]
    );
}

fn with_override(id: &str, lines: &str) -> Document {
    calendar(&format!(
        "BEGIN:VEVENT\nUID:a\nDTSTART;TZID=Europe/Berlin:20260302T100000\nDTEND;TZID=Europe/Berlin:20260302T110000\n\
         RRULE:FREQ=WEEKLY;COUNT=5\nEXDATE;TZID=Europe/Berlin:20260330T100000\nEND:VEVENT\n\
         BEGIN:VEVENT\nUID:a\nRECURRENCE-ID{id}\n{lines}\nEND:VEVENT\n"
    ))
}

#[test]
fn an_override_replaces_its_occurrence_however_it_is_named() {
    let march = range("20260301T000000", "20260401T000000", "Europe/Berlin");
    for id in [
        ";TZID=Europe/Berlin:20260309T100000",
        ":20260309T090000Z",
        ";TZID=America/New_York:20260309T050000",
        ";VALUE=DATE:20260309",
        ":20260309T100000",
    ] {
        let document = with_override(id, "DTSTART;TZID=Europe/Berlin:20260311T150000\nDURATION:PT30M");
        let found = expand(&document, &march);
        let expected =
            ["2026-03-02T10:00:00", "2026-03-11T15:00:00", "2026-03-16T10:00:00", "2026-03-23T10:00:00"];
        assert_eq!(starts(&found), expected, "{id}");
        assert_eq!(found[1].source, Source::Override);
        assert_eq!((found[0].place, found[1].place), (0, 1));
        assert_eq!(found[0].id, Some(RecurrenceId::Instant(utc("20260302T090000"))));
    }
}

#[test]
fn an_override_is_found_where_it_is_and_not_where_it_was() {
    let document = with_override(":20260309T090000Z", "DTSTART:20260520T080000Z\nDTEND:20260520T090000Z");
    let week = expand(&document, &range("20260309T000000", "20260310T000000", "Europe/Berlin"));
    assert!(week.is_empty(), "it was moved away: {week:?}");
    let may = expand(&document, &range("20260501T000000", "20260601T000000", "Europe/Berlin"));
    assert_eq!(may[0].id, Some(RecurrenceId::Instant(utc("20260309T090000"))));
}

#[test]
fn cancelled_orphaned_and_excluded_overrides_are_told_apart() {
    let march = range("20260301T000000", "20260401T000000", "Europe/Berlin");
    let cancelled = with_override(":20260309T090000Z", "DTSTART:20260309T090000Z\nSTATUS:CANCELLED");
    let found: Vec<Status> = expand(&cancelled, &march).iter().map(|occurrence| occurrence.status).collect();
    assert_eq!(found, [Status::Confirmed, Status::Cancelled, Status::Confirmed, Status::Confirmed]);
    let orphaned = with_override(":20260310T090000Z", "DTSTART:20260310T090000Z");
    assert_eq!(expand(&orphaned, &march).len(), 5, "another program made it: it is shown");
    let excluded = with_override(":20260330T080000Z", "DTSTART:20260330T080000Z");
    assert_eq!(expand(&excluded, &march).len(), 4, "its occurrence was taken out");
    let invited_to_one = calendar(
        "BEGIN:VEVENT\nUID:a\nRECURRENCE-ID:20260309T090000Z\nDTSTART:20260309T100000Z\nEND:VEVENT\n",
    );
    assert_eq!(starts(&expand(&invited_to_one, &march)), ["2026-03-09T10:00:00"]);
}

#[test]
fn of_several_revisions_the_highest_counts() {
    let revision = |sequence: &str, hour: &str, id: &str| {
        format!(
            "BEGIN:VEVENT\nUID:a\nSEQUENCE:{sequence}\n{id}DTSTART:20260302T{hour}0000Z\nRRULE:FREQ=DAILY;COUNT=1\nEND:VEVENT\n"
        )
    };
    let march = range("20260301T000000", "20260401T000000", "UTC");
    let id = "RECURRENCE-ID:20260302T120000Z\n";
    for (parts, expected) in [
        ([revision("0", "10", ""), revision("2", "12", ""), revision("1", "11", "")], "2026-03-02T12:00:00"),
        ([revision("0", "12", ""), revision("2", "14", id), revision("1", "13", id)], "2026-03-02T14:00:00"),
        ([revision("0", "12", ""), revision("1", "13", id), revision("1", "15", id)], "2026-03-02T15:00:00"),
    ] {
        assert_eq!(starts(&expand(&calendar(&parts.concat()), &march)), [expected]);
    }
}

#[test]
fn tasks_repeat_by_their_start_or_by_when_they_are_due() {
    let document = calendar(
        "BEGIN:VTODO\nUID:a\nDTSTART:20260302T090000Z\nDUE:20260302T170000Z\nRRULE:FREQ=WEEKLY;COUNT=2\nEND:VTODO\n\
         BEGIN:VTODO\nUID:b\nDUE;VALUE=DATE:20260305\nEND:VTODO\nBEGIN:VTODO\nUID:c\nEND:VTODO\n",
    );
    let march = range("20260301T000000", "20260401T000000", "UTC");
    let mut found = Vec::new();
    for (uid, series) in Series::read_all(&document, "VTODO") {
        match series {
            Ok(series) => {
                found.extend(series.expand(&march, &mut Budget::default()).unwrap().iter().map(shown))
            }
            Err(error) => found.push(format!("{uid}: {error}")),
        }
    }
    assert_eq!(
        found,
        [
            "2026-03-02T09:00:00+00:00[UTC]/2026-03-02T17:00:00+00:00[UTC]",
            "2026-03-09T09:00:00+00:00[UTC]/2026-03-09T17:00:00+00:00[UTC]",
            "2026-03-05/2026-03-06",
            "c: it has no start",
        ]
    );
}

#[test]
fn this_and_future_moves_all_later_occurrences() {
    let document = with_override(
        ";RANGE=THISANDFUTURE;TZID=Europe/Berlin:20260309T100000",
        "DTSTART;TZID=Europe/Berlin:20260310T113000\nDURATION:PT2H\nSTATUS:TENTATIVE",
    );
    let found = expand(&document, &range("20260301T000000", "20260401T000000", "Europe/Berlin"));
    assert_eq!(
        starts(&found),
        ["2026-03-02T10:00:00", "2026-03-10T11:30:00", "2026-03-17T11:30:00", "2026-03-24T11:30:00"]
    );
    let sources: Vec<Source> = found.iter().map(|occurrence| occurrence.source).collect();
    assert_eq!(
        sources,
        [Source::Series, Source::ThisAndFuture, Source::ThisAndFuture, Source::ThisAndFuture]
    );
    assert_eq!(found[2].id, Some(RecurrenceId::Instant(utc("20260316T090000"))));
    assert_eq!((found[2].status, found[2].place), (Status::Tentative, 1));
    assert!(shown(&found[3]).ends_with("2026-03-24T13:30:00+01:00[Europe/Berlin]"));
    // What reaches into a range only because it was moved is found as well.
    let day = expand(&document, &range("20260324T000000", "20260325T000000", "Europe/Berlin"));
    assert_eq!(starts(&day), ["2026-03-24T11:30:00"]);
}

#[test]
fn zones_of_windows_and_of_the_file_are_followed_in_a_series() {
    let march = range("20260323T000000", "20260406T000000", "Europe/Berlin");
    for tzid in [
        "W. Europe Standard Time",
        "\"(UTC+01:00) Amsterdam, Berlin\"",
        "/mozilla.org/20050126_1/Europe/Berlin",
    ] {
        let document = event(&format!("DTSTART;TZID={tzid}:20260302T100000\nRRULE:FREQ=WEEKLY"));
        let found: Vec<String> = expand(&document, &march).iter().map(shown).collect();
        assert!(
            found[0].contains("2026-03-23T10:00:00+01:00") && found[1].contains("2026-03-30T10:00:00+02:00"),
            "{tzid}: {found:?}"
        );
    }
}

#[test]
fn an_event_whose_times_cannot_be_known_is_said_and_hides_no_other() {
    let document = calendar(
        "BEGIN:VEVENT\nUID:a\nDTSTART;TZID=Mars/Olympus:20260302T100000\nEND:VEVENT\n\
         BEGIN:VEVENT\nUID:b\nEND:VEVENT\nBEGIN:VEVENT\nUID:c\nDTSTART:20260302T100000Z\nRRULE:FREQ=NEVER\nEND:VEVENT\n\
         BEGIN:VEVENT\nUID:d\nDTSTART:20260302T100000Z\nEND:VEVENT\nBEGIN:VEVENT\nDTSTART:20260302T100000Z\nEND:VEVENT\n\
         BEGIN:VEVENT\nDTSTART:20260303T100000Z\nEND:VEVENT\n",
    );
    let said: Vec<String> = Series::read_all(&document, "VEVENT")
        .into_iter()
        .map(|(uid, series)| {
            format!("{uid}: {}", series.map_or_else(|error| error.to_string(), |_| "read".into()))
        })
        .collect();
    assert_eq!(
        said,
        [
            "a: there is no time zone `Mars/Olympus`, and no VTIMEZONE defines it",
            "b: it has no start",
            "c: `FREQ` of the recurrence rule has the value `NEVER`; use DAILY, WEEKLY, MONTHLY, …",
            "d: read",
            ": read",
            ": read",
        ]
    );
}

#[test]
fn hostile_series_end_with_an_error_or_with_nothing() {
    let year = range("20260101T000000", "20270101T000000", "UTC");
    let expand = |lines: &str| {
        let series = Series::find(&event(lines), "VEVENT", "a").unwrap().unwrap();
        series.expand(&year, &mut Budget::default()).map(|found| found.len())
    };
    assert_eq!(
        expand("DTSTART:20260101T000000Z\nRRULE:FREQ=SECONDLY"),
        Err(OverBudget::Occurrences { max: 10_000 })
    );
    assert_eq!(
        expand("DTSTART:19700101T000000Z\nRRULE:FREQ=SECONDLY;COUNT=1000000000"),
        Err(OverBudget::Work)
    );
    assert_eq!(expand("DTSTART:20250101T000000Z\nRRULE:FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=30"), Ok(0));
    assert_eq!(expand("DTSTART:99991231T235959Z\nRRULE:FREQ=DAILY"), Ok(0));
    assert_eq!(expand("DTSTART:00000101T000000Z\nDURATION:P366000D\nRRULE:FREQ=YEARLY;COUNT=2"), Ok(0));
    let far = "DTSTART:20250101T000000Z\nDTEND:99991231T235959Z\nRRULE:FREQ=DAILY";
    assert_eq!(expand(far), Ok(730), "long events overlap, and each is counted");
    let many = format!("DTSTART:20260101T000000Z\n{}", "EXDATE:20260101T000000Z\n".repeat(5_000));
    assert_eq!(expand(&many), Ok(0));
    let dates = (0..20_001).map(|i| {
        format!(
            "2026{:02}{:02}T{:02}{:02}{:02}Z",
            i % 12 + 1,
            i / 12 % 28 + 1,
            i / 336 % 24,
            i / 8064,
            i % 60
        )
    });
    let list = dates.collect::<Vec<_>>().join(",");
    let series =
        Series::find(&event(&format!("DTSTART:20260101T000000Z\nRDATE:{list}")), "VEVENT", "a").unwrap();
    assert_eq!(series.unwrap_err().to_string(), "it has more than 20000 exceptions or overrides");
}

#[test]
fn a_window_in_the_far_past_or_future_is_harmless() {
    let document = event("DTSTART;TZID=Europe/Berlin:20260302T100000\nRRULE:FREQ=WEEKLY\nDURATION:PT1H");
    let series = Series::find(&document, "VEVENT", "a").unwrap().unwrap();
    for (from, to) in
        [(Timestamp::MIN, utc("20000101T000000")), (utc("99980101T000000"), utc("99980301T000000"))]
    {
        let range = Range { from, to, asker: zone("Europe/Berlin") };
        let found = series.expand(&range, &mut Budget::default()).unwrap();
        assert_eq!(found.is_empty(), from == Timestamp::MIN);
    }
    assert_eq!(
        RecurrenceId::parse("20260302T090000Z").unwrap(),
        RecurrenceId::Instant(utc("20260302T090000"))
    );
    assert_eq!(RecurrenceId::Local(local("20260302T090000")).to_string(), "20260302T090000");
}
