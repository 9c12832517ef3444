//! Zones compared with Python's zoneinfo, by every kind of name.

use helve_office::ical::{Document, Eol};
use helve_office::zones::{
    CustomZone, Moment, Zone, ZoneTable, iana_for_display, iana_for_windows, vtimezone,
};
use jiff::Timestamp;

use crate::{calendar, local, table, utc, zone};

const LOCAL_TIMES: &str = include_str!("../tables/local_times.txt");

#[test]
fn local_times_mean_what_zoneinfo_says_also_in_gaps_and_folds() {
    let mut count = 0;
    for row in table(LOCAL_TIMES) {
        let [name, at, expected] = row[..] else { panic!("{row:?}") };
        assert_eq!(zone(name).instant(local(at)), utc(expected), "{at} in {name}");
        count += 1;
    }
    assert!(count > 1_500, "the table has {count} times");
}

/// The same table once more, by way of a definition that we wrote and read back.
#[test]
fn a_written_definition_means_what_zoneinfo_says() {
    let mut last: Option<(&str, Zone)> = None;
    for row in table(LOCAL_TIMES) {
        let [name, at, expected] = row[..] else { panic!("{row:?}") };
        if last.as_ref().is_none_or(|(known, _)| *known != name) {
            last = Some((name, defined(name, 2005)));
        }
        let (_, zone) = last.as_ref().unwrap();
        assert_eq!(zone.instant(local(at)), utc(expected), "{at} in the definition of {name}");
    }
}

/// A zone by the `VTIMEZONE` that we write for it.
fn defined(name: &str, from_year: i16) -> Zone {
    let component = vtimezone(zone(name).known().unwrap(), "Our/Own", from_year..=2030, Eol::Crlf).unwrap();
    CustomZone::read("Our/Own", &component).unwrap().into()
}

#[test]
fn every_zone_can_be_defined_and_read_back() {
    let mut count = 0;
    for name in jiff::tz::db().available() {
        let name = name.to_string();
        let Some(zone) = Zone::iana(&name) else { continue };
        let written = vtimezone(zone.known().unwrap(), &name, 2020..=2040, Eol::Crlf).unwrap();
        let read = Zone::from(CustomZone::read(&name, &written).unwrap());
        let mut at = utc("20200101T000000");
        while at < utc("20410101T000000") {
            assert_eq!(read.offset(at), zone.offset(at), "{name} at {at}");
            at = Timestamp::from_second(at.as_second() + 185 * 3600).unwrap();
        }
        for change in zone.known().unwrap().following(utc("20200101T000000")).take(40) {
            let before = Timestamp::from_second(change.timestamp().as_second() - 1).unwrap();
            assert_eq!(read.offset(change.timestamp()), change.offset(), "{name} at {}", change.timestamp());
            assert_eq!(read.offset(before), zone.offset(before), "{name} before {}", change.timestamp());
        }
        count += 1;
    }
    assert!(count > 400, "there are {count} zones");
}

#[test]
fn a_definition_follows_the_rule_for_ever_where_there_is_one() {
    let component = vtimezone(zone("Europe/Berlin").known().unwrap(), "Europe/Berlin", 2026..=2026, Eol::Lf);
    let text = String::from_utf8(Document::of(component.unwrap()).print()).unwrap();
    let expected = "BEGIN:VTIMEZONE\nTZID:Europe/Berlin\nX-LIC-LOCATION:Europe/Berlin\n\
        BEGIN:STANDARD\nDTSTART:20251026T030000\nTZOFFSETFROM:+0200\nTZOFFSETTO:+0100\nTZNAME:CET\n\
        RRULE:FREQ=YEARLY;BYMONTH=10;BYDAY=-1SU\nEND:STANDARD\n\
        BEGIN:DAYLIGHT\nDTSTART:20260329T020000\nTZOFFSETFROM:+0100\nTZOFFSETTO:+0200\nTZNAME:CEST\n\
        RRULE:FREQ=YEARLY;BYMONTH=3;BYDAY=-1SU\nEND:DAYLIGHT\nEND:VTIMEZONE\n";
    assert_eq!(text, expected);
}

#[test]
fn every_windows_name_leads_to_a_zone() {
    let table = include_str!("../../src/zones/windows_zones.txt");
    for name in table.lines().map(|line| line.split('\t').next().unwrap()) {
        assert!(iana_for_windows(name).and_then(Zone::iana).is_some(), "{name}");
    }
    assert_eq!(iana_for_windows("w. europe standard time"), Some("Europe/Berlin"));
    assert_eq!(iana_for_windows("Middle-earth Standard Time"), None);
}

#[test]
fn display_names_of_windows_lead_to_a_zone() {
    for (name, expected) in [
        ("(UTC+01:00) Amsterdam, Berlin", Some("Europe/Berlin")),
        ("(UTC+01:00) Amsterdam, Berlin, Bern, Rome, Stockholm, Vienna", Some("Europe/Berlin")),
        ("(GMT-05:00) Eastern Time (US & Canada)", Some("America/New_York")),
        ("(UTC-08:00) Pacific Time (US & Canada)", Some("America/Los_Angeles")),
        ("(UTC+09:00) Osaka, Sapporo, Tokyo", Some("Asia/Tokyo")),
        ("(UTC+00:00) Dublin, Edinburgh, Lisbon, London", Some("Europe/London")),
        ("(UTC+01:00) Atlantis", None),
        ("(UTC+01:00)", None),
        ("Amsterdam, Berlin", None),
        ("(", None),
    ] {
        assert_eq!(iana_for_display(name), expected, "{name}");
    }
}

/// Half an hour ahead of UTC in winter, and two hours and a half in summer, from the second Sunday of May on.
const CUSTOM: &str = "BEGIN:VTIMEZONE
    TZID:Our Own Time
    BEGIN:STANDARD
    DTSTART:16010101T030000
    TZOFFSETFROM:+0230
    TZOFFSETTO:+0030
    RRULE:FREQ=YEARLY;BYMONTH=9;BYDAY=-1SU
    END:STANDARD
    BEGIN:DAYLIGHT
    DTSTART:16010101T010000
    TZOFFSETFROM:+0030
    TZOFFSETTO:+0230
    RRULE:FREQ=YEARLY;BYMONTH=5;BYDAY=2SU
    END:DAYLIGHT
    END:VTIMEZONE\n";

#[test]
fn a_zone_that_the_file_defines_is_followed() {
    let document = calendar(CUSTOM);
    let zone = ZoneTable::of(&document).resolve("Our Own Time").unwrap();
    for (at, expected) in [
        ("20260101T120000", "20260101T113000"),
        ("20260701T120000", "20260701T093000"),
        // The clock goes from 01:00 to 03:00 on May 10: 01:30 is read with the offset before, and shown as 03:30.
        ("20260510T005959", "20260510T002959"),
        ("20260510T013000", "20260510T010000"),
        ("20260510T030000", "20260510T003000"),
        // It goes from 03:00 back to 01:00 on September 27: the first 02:00 counts.
        ("20260927T020000", "20260926T233000"),
        ("20260927T030000", "20260927T023000"),
    ] {
        assert_eq!(zone.instant(local(at)), utc(expected), "{at}");
    }
    let moment = Moment { instant: utc("20260701T093000"), zone };
    assert_eq!(moment.to_string(), "2026-07-01T12:00:00+02:30[Our Own Time]");
}

#[test]
fn onsets_may_be_listed_as_dates_and_end_with_until() {
    let document = calendar(
        "BEGIN:VTIMEZONE
        TZID:Odd
        BEGIN:STANDARD
        DTSTART:20200101T000000
        TZOFFSETFROM:+0000
        TZOFFSETTO:+0100
        END:STANDARD
        BEGIN:DAYLIGHT
        DTSTART:20210601T000000
        RDATE:20220615T000000,20230620T000000
        TZOFFSETFROM:+0100
        TZOFFSETTO:+0200
        END:DAYLIGHT
        BEGIN:STANDARD
        DTSTART:20211001T000000
        RRULE:FREQ=YEARLY;UNTIL=20230930T220000Z
        TZOFFSETFROM:+0200
        TZOFFSETTO:+0100
        END:STANDARD
        END:VTIMEZONE\n",
    );
    let zone = ZoneTable::of(&document).resolve("Odd").unwrap();
    let hours = |at: &str| zone.offset(utc(at)).seconds() / 3600;
    let days =
        ["20190101", "20200601", "20210701", "20211101", "20220614", "20220616", "20231101", "20240701"];
    let found: Vec<i32> = days.iter().map(|day| hours(&format!("{day}T120000"))).collect();
    assert_eq!(found, [0, 1, 2, 1, 1, 2, 1, 1]);
}

#[test]
fn names_are_looked_for_in_the_order_that_is_documented() {
    let mut lines = CUSTOM.replace("Our Own Time", "Europe/Berlin");
    lines.push_str(&CUSTOM.replace("Our Own Time", "W. Europe Standard Time"));
    lines.push_str(
        &CUSTOM
            .replace("Our Own Time", "Tokyo")
            .replace("BEGIN:STANDARD", "X-LIC-LOCATION:Asia/Tokyo\nBEGIN:STANDARD"),
    );
    lines.push_str(&CUSTOM.replace("Our Own Time", "(UTC+01:00) Amsterdam\\, Berlin"));
    let document = calendar(&lines);
    let mut zones = ZoneTable::of(&document);
    for (tzid, expected) in [
        ("Europe/Berlin", "Europe/Berlin"),
        ("europe/berlin", "Europe/Berlin"),
        ("W. Europe Standard Time", "Europe/Berlin"),
        ("Eastern Standard Time", "America/New_York"),
        ("/mozilla.org/20050126_1/Europe/Berlin", "Europe/Berlin"),
        (
            "/freeassociation.sourceforge.net/Tzfile/America/Argentina/Buenos_Aires",
            "America/Argentina/Buenos_Aires",
        ),
        ("Tokyo", "Asia/Tokyo"),
        ("(UTC+01:00) Amsterdam, Berlin", "(UTC+01:00) Amsterdam, Berlin"),
        ("(UTC+09:00) Osaka, Sapporo, Tokyo", "Asia/Tokyo"),
    ] {
        assert_eq!(zones.resolve(tzid).unwrap().name(), Some(expected), "{tzid}");
    }
    for (tzid, minutes) in [("UTC+02:00", 120), ("GMT-5", -300), ("+0530", 330)] {
        assert_eq!(
            zones.resolve(tzid).unwrap().offset(utc("20260101T000000")).seconds() / 60,
            minutes,
            "{tzid}"
        );
    }
}

#[test]
fn a_zone_that_nobody_knows_is_said_and_not_guessed() {
    let document = calendar("");
    let mut zones = ZoneTable::of(&document);
    for tzid in [
        "Mars/Olympus",
        "",
        "/",
        "//////////////////",
        "+",
        "UTC+99:00",
        "+éé",
        "../../etc/passwd",
        "Etc/Unknown",
    ] {
        let error = zones.resolve(tzid).unwrap_err().to_string();
        assert!(error.starts_with("there is no time zone"), "{tzid}: {error}");
    }
}

#[test]
fn hostile_definitions_are_refused() {
    let broken = |from: &str, to: &str| {
        let document = calendar(&CUSTOM.replace(from, to));
        let resolved = ZoneTable::of(&document).resolve("Our Own Time");
        resolved.unwrap_err().to_string()
    };
    for (from, to, expected) in [
        ("FREQ=YEARLY;BYMONTH=9;BYDAY=-1SU", "FREQ=SECONDLY", "it happens more than"),
        ("FREQ=YEARLY;BYMONTH=9;BYDAY=-1SU", "FREQ=SOMETIMES", "`FREQ` of the recurrence rule"),
        ("TZOFFSETTO:+0230", "TZOFFSETTO:+9999", "it has no TZOFFSETTO that can be read"),
        ("TZOFFSETTO:+0230", "TZOFFSETTO:two", "it has no TZOFFSETTO that can be read"),
        ("DTSTART:16010101T030000", "DTSTART:soon", "it has no DTSTART that can be read"),
    ] {
        let error = broken(from, to);
        assert!(error.contains(expected), "{to}: {error}");
    }
    let empty = calendar("BEGIN:VTIMEZONE\nTZID:E\nEND:VTIMEZONE\n");
    assert!(ZoneTable::of(&empty).resolve("E").unwrap_err().to_string().contains("no STANDARD"));
}
