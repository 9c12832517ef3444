//! Calendars and contacts: printing gives the bytes back, an edit changes the one line it names, and expanding ends.
#![no_main]

use helve_office::ical::{Document, Limits, NewProperty};
use helve_office::recurrence::{Range, Series};
use helve_office::rule::Budget;
use helve_office::zones::Zone;
use jiff::Timestamp;
use libfuzzer_sys::fuzz_target;

const LIMITS: Limits = Limits { bytes: 8_192, lines: 500, components: 50, depth: 8 };

fuzz_target!(|bytes: &[u8]| {
    let Ok(mut document) = Document::parse_within(bytes.to_vec().into(), LIMITS) else { return };
    assert_eq!(document.print(), bytes, "printing gives the bytes back");

    let second = |at: i64| Timestamp::from_second(at).expect("a time");
    let range = Range { from: second(1_767_225_600), to: second(1_798_761_600), asker: Zone::UTC };
    for kind in ["VEVENT", "VTODO"] {
        for (_, series) in Series::read_all(&document, kind) {
            let Ok(series) = series else { continue };
            if let Ok(found) = series.expand(&range, &mut Budget::new(500, 20_000)) {
                assert!(found.len() <= 500);
                assert!(found.iter().all(|one| one.when.overlaps(&range)));
                assert!(found.is_sorted_by_key(|one| one.when.instants(&range.asker)));
            }
        }
    }

    let others = |document: &Document| -> Vec<Vec<u8>> {
        let lines = document.events("VEVENT").flat_map(|event| event.lines());
        let kept = lines.filter(|line| line.property().is_none_or(|property| !property.is_named("SUMMARY")));
        kept.map(|line| line.raw().to_vec()).collect()
    };
    let before = others(&document);
    let summary = NewProperty::text("SUMMARY", "one; two, three\nfour").expect("a property");
    document.events_mut("VEVENT").for_each(|event| event.set(&summary));
    let again = Document::parse(&document.print()).expect("what we print can be read");
    assert_eq!(others(&again), before, "an edit leaves other lines alone");
    for event in again.events("VEVENT") {
        let summary = event.property("SUMMARY").map(|summary| summary.text_value());
        assert_eq!(summary.as_deref(), Some("one; two, three\nfour"));
    }
});
