//! Free, busy, and what is not known.

use helve_office::availability::{
    Calendar, DayHours, Interval, Part, Person, Sight, Slots, State, Timeline, WorkingHours, find_slots,
    freebusy,
};
use helve_office::ical::Document;
use helve_office::text::Address;
use jiff::Timestamp;
use jiff::civil::{Weekday, time};
use proptest::prelude::*;

use crate::{calendar, event, utc, zone};

fn interval(from: &str, to: &str) -> Interval {
    Interval::new(utc(from), utc(to)).unwrap()
}

fn day() -> Interval {
    interval("20260310T000000", "20260311T000000")
}

fn seen(documents: &[Document]) -> Person {
    let sight =
        Sight::of(documents, day(), &zone("Europe/Berlin"), &[Address::new("ada@example.org").unwrap()]);
    Person { who: "Ada".into(), calendars: vec![Calendar { name: "Work".into(), sight }] }
}

/// The states of a person at 10:00 in UTC, with one event at that time that has these lines.
fn state_with(lines: &str) -> State {
    let document = event(&format!("DTSTART:20260310T093000Z\nDTEND:20260310T103000Z\n{lines}"));
    seen(&[document]).timeline(day()).state(interval("20260310T100000", "20260310T100100"))
}

#[test]
fn what_an_event_means_depends_on_what_it_and_the_person_say() {
    let attendee = |answer: &str| {
        format!("ORGANIZER:mailto:boss@example.org\nATTENDEE;PARTSTAT={answer}:MAILTO:Ada@example.org")
    };
    for (lines, expected) in [
        (String::new(), State::Busy),
        ("TRANSP:OPAQUE".into(), State::Busy),
        ("TRANSP:TRANSPARENT".into(), State::Free),
        ("STATUS:CANCELLED".into(), State::Free),
        ("STATUS:TENTATIVE".into(), State::Tentative),
        (attendee("ACCEPTED"), State::Busy),
        (attendee("DECLINED"), State::Free),
        (attendee("TENTATIVE"), State::Tentative),
        (attendee("NEEDS-ACTION"), State::Tentative),
        ("ORGANIZER:mailto:boss@example.org\nATTENDEE:mailto:ada@example.org".into(), State::Tentative),
        ("ATTENDEE;PARTSTAT=DECLINED:mailto:eve@example.org".into(), State::Busy),
        (
            "ORGANIZER:mailto:ada@example.org\nATTENDEE;PARTSTAT=NEEDS-ACTION:mailto:ada@example.org".into(),
            State::Busy,
        ),
        ("X-MICROSOFT-CDO-BUSYSTATUS:FREE".into(), State::Free),
        ("TRANSP:OPAQUE\nX-MICROSOFT-CDO-BUSYSTATUS:TENTATIVE".into(), State::Tentative),
        ("TRANSP:TRANSPARENT\nX-MICROSOFT-CDO-BUSYSTATUS:OOF".into(), State::Busy),
    ] {
        assert_eq!(state_with(&lines), expected, "{lines}");
    }
}

#[test]
fn an_all_day_event_takes_the_day_of_the_person() {
    let all_day = event("DTSTART;VALUE=DATE:20260310");
    let timeline =
        seen(std::slice::from_ref(&all_day)).timeline(interval("20260309T000000", "20260312T000000"));
    let busy: Vec<Interval> =
        timeline.parts().iter().filter(|part| part.state == State::Busy).map(|part| part.interval).collect();
    assert_eq!(busy, [interval("20260309T230000", "20260310T230000")]);
    let birthday = event("DTSTART;VALUE=DATE:20260310\nTRANSP:TRANSPARENT");
    assert_eq!(seen(&[birthday]).timeline(day()).state(day()), State::Free);
}

#[test]
fn what_was_not_seen_is_unknown_and_never_free() {
    let nobody = Person::unseen("Grace");
    assert_eq!(nobody.timeline(day()).state(day()), State::Unknown);
    assert_eq!(nobody.unknown_because(), ["no calendar of Grace is connected"]);

    let mut ada = seen(&[event("DTSTART:20260310T100000Z\nDTEND:20260310T110000Z")]);
    ada.calendars
        .push(Calendar { name: "Home".into(), sight: Sight::Unseen("the server did not answer".into()) });
    let timeline = ada.timeline(day());
    let states: Vec<State> = timeline.parts().iter().map(|part| part.state).collect();
    assert_eq!(states, [State::Unknown, State::Busy, State::Unknown]);
    assert_eq!(ada.unknown_because(), ["Home: the server did not answer"]);

    let broken = seen(&[event("DTSTART;TZID=Mars/Olympus:20260310T100000\nDURATION:PT1H")]);
    assert_eq!(broken.timeline(day()).state(day()), State::Unknown);
    let because = broken.unknown_because().join("\n");
    assert!(
        because.contains("the event `a` cannot be placed: there is no time zone `Mars/Olympus`"),
        "{because}"
    );

    let flood = seen(&[event("DTSTART:20260101T000000Z\nRRULE:FREQ=SECONDLY")]);
    assert_eq!(
        flood.timeline(day()).state(day()),
        State::Unknown,
        "a hostile event hides what it is, not that it is"
    );
    assert_eq!(seen(&[]).timeline(day()).state(day()), State::Free, "a calendar that was seen and is empty");
}

#[test]
fn several_people_are_free_only_where_all_are() {
    let ada = seen(&[event("DTSTART:20260310T090000Z\nDTEND:20260310T100000Z")]).timeline(day());
    let bob =
        seen(&[event("DTSTART:20260310T093000Z\nDTEND:20260310T110000Z\nSTATUS:TENTATIVE")]).timeline(day());
    let grace = Person::unseen("Grace").timeline(day());
    let at = |all: &[&Timeline], from: &str, to: &str| {
        Timeline::together(day(), all.iter().copied()).state(interval(from, to))
    };
    assert_eq!(at(&[&ada, &bob], "20260310T090000", "20260310T091500"), State::Busy);
    assert_eq!(at(&[&ada, &bob], "20260310T101500", "20260310T103000"), State::Tentative);
    assert_eq!(at(&[&ada, &bob], "20260310T110000", "20260310T120000"), State::Free);
    assert_eq!(at(&[&ada, &bob, &grace], "20260310T110000", "20260310T120000"), State::Unknown);
    assert_eq!(at(&[&ada, &bob, &grace], "20260310T101500", "20260310T103000"), State::Unknown);
    assert_eq!(at(&[&ada, &bob, &grace], "20260310T090000", "20260310T091500"), State::Busy);
    assert_eq!(at(&[], "20260310T090000", "20260310T091500"), State::Unknown, "of nobody nothing is known");
    assert_eq!(at(&[&ada], "20260311T000000", "20260311T010000"), State::Unknown, "beyond the range");
    let week = interval("20260309T000000", "20260312T000000");
    let wider = Timeline::together(week, [&ada]);
    assert_eq!(
        wider.state(interval("20260309T100000", "20260309T110000")),
        State::Unknown,
        "nobody asked about that day"
    );
}

#[test]
fn working_hours_follow_the_clock_of_their_zone() {
    let hours = WorkingHours::weekdays(zone("Europe/Berlin"), time(9, 0, 0, 0), time(17, 0, 0, 0));
    // Friday before and Monday after the clock changes.
    let found = hours.within(interval("20260327T000000", "20260331T000000"));
    assert_eq!(
        found,
        [interval("20260327T080000", "20260327T160000"), interval("20260330T070000", "20260330T150000")]
    );
    let night = WorkingHours {
        zone: zone("Europe/Berlin"),
        days: vec![(Weekday::Saturday, DayHours { from: time(22, 0, 0, 0), to: time(6, 0, 0, 0) })],
    };
    let found = night.within(interval("20260329T000000", "20260330T000000"));
    assert_eq!(
        found,
        [interval("20260329T000000", "20260329T040000")],
        "the night that the clock skips an hour"
    );
    let with_break = WorkingHours {
        zone: zone("UTC"),
        days: vec![
            (Weekday::Tuesday, DayHours { from: time(13, 0, 0, 0), to: time(17, 0, 0, 0) }),
            (Weekday::Tuesday, DayHours { from: time(9, 0, 0, 0), to: time(12, 0, 0, 0) }),
        ],
    };
    assert_eq!(
        with_break.within(day()),
        [interval("20260310T090000", "20260310T120000"), interval("20260310T130000", "20260310T170000")]
    );
}

fn found(slots: &Slots) -> (Vec<String>, Vec<String>) {
    let shown = |slots: &[helve_office::availability::Slot]| {
        slots.iter().map(|slot| slot.interval.from.strftime("%H:%M").to_string()).collect()
    };
    (shown(&slots.free), shown(&slots.uncertain))
}

#[test]
fn slots_fit_between_what_is_known() {
    let ada = seen(&[
        event("DTSTART:20260310T091000Z\nDTEND:20260310T100500Z"),
        event("DTSTART:20260310T110000Z\nDTEND:20260310T113000Z\nSTATUS:TENTATIVE"),
    ]);
    let timeline = ada.timeline(day());
    let hours = [interval("20260310T084000", "20260310T120000")];
    let slots = find_slots(&timeline, &hours, 1800, 900, 10);
    let (free, uncertain) = found(&slots);
    assert_eq!(free, ["10:15", "10:30", "11:30"]);
    assert_eq!(uncertain, ["10:45", "11:00", "11:15"]);
    assert!(!slots.more);
    let few = find_slots(&timeline, &hours, 1800, 900, 2);
    assert_eq!((found(&few).0, few.more), (vec!["10:15".to_owned(), "10:30".into()], true));
    let unseen = find_slots(&Person::unseen("Grace").timeline(day()), &hours, 3600, 3600, 10);
    assert_eq!(found(&unseen), (vec![], vec!["09:00".to_owned(), "10:00".into(), "11:00".into()]));
    assert_eq!(find_slots(&timeline, &hours, 86_400, 900, 10), Slots::default());
}

#[test]
fn a_server_that_answers_with_free_busy_is_understood() {
    let document = calendar(
        "BEGIN:VFREEBUSY\nFREEBUSY:20260310T090000Z/PT1H,20260310T120000Z/20260310T130000Z\n\
         FREEBUSY;FBTYPE=BUSY-TENTATIVE:20260310T140000Z/PT30M\nFREEBUSY;FBTYPE=FREE:20260310T150000Z/PT1H\n\
         FREEBUSY;FBTYPE=X-OTHER:20260310T160000Z/PT1H\nEND:VFREEBUSY\n",
    );
    let parts = freebusy(document.events("VFREEBUSY").next().unwrap()).unwrap();
    let states: Vec<State> = parts.iter().map(|part| part.state).collect();
    assert_eq!(states, [State::Busy, State::Busy, State::Tentative, State::Busy]);
    assert_eq!(parts[0].interval, interval("20260310T090000", "20260310T100000"));
    let broken = calendar("BEGIN:VFREEBUSY\nFREEBUSY:soon\nEND:VFREEBUSY\n");
    assert!(freebusy(broken.events("VFREEBUSY").next().unwrap()).is_err());
}

fn state() -> impl Strategy<Value = State> {
    prop_oneof![Just(State::Free), Just(State::Tentative), Just(State::Unknown), Just(State::Busy)]
}

proptest! {
    /// A timeline has at every minute what looking at every part for that minute gives, covers its range without
    /// a gap, and never has two neighbours alike.
    #[test]
    fn a_timeline_is_what_every_minute_says(
        ground in state(),
        laid in proptest::collection::vec((-20..80i64, 0..40i64, state()), 0..12),
    ) {
        let at = |minute: i64| Timestamp::from_second(minute * 60).unwrap();
        let range = Interval::new(at(0), at(60)).unwrap();
        let parts: Vec<Part> = laid
            .iter()
            .filter_map(|(from, length, state)| Some(Part { interval: Interval::new(at(*from), at(from + length))?, state: *state }))
            .collect();
        let timeline = Timeline::new(range, ground, parts.clone());
        for minute in 0..60 {
            let this = Interval::new(at(minute), at(minute + 1)).unwrap();
            let covering = parts.iter().filter(|part| part.interval.within(this).is_some());
            let expected = covering.map(|part| part.state).max().unwrap_or(State::Free).max(ground);
            prop_assert_eq!(timeline.state(this), expected, "minute {}", minute);
        }
        let found = timeline.parts();
        prop_assert_eq!((found[0].interval.from, found[found.len() - 1].interval.to), (range.from, range.to));
        for pair in found.windows(2) {
            prop_assert_eq!(pair[0].interval.to, pair[1].interval.from);
            prop_assert_ne!(pair[0].state, pair[1].state);
        }
    }
}
