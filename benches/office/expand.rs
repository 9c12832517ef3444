//! Events that repeat, expanded over a year, compared with calcard's own expansion of the same file.

use std::hint::black_box;

use calcard::common::timezone::Tz;
use calcard::icalendar::ICalendar;
use helve_office::ical::Document;
use helve_office::recurrence::{Range, Series};
use helve_office::rule::Budget;
use helve_office::zones::Zone;
use jiff::Timestamp;

use crate::Sizes;
use crate::made_up::{Words, YEAR_END, series};
use crate::measure::{Took, best, timed};

const ROUNDS: usize = 15;

pub(crate) fn measure_expand(sizes: Sizes) {
    let words = Words::new();
    // Each event in its own file, as calendar servers have them.
    let files: Vec<String> = (0..sizes.series)
        .map(|number| {
            let event = series(number, YEAR_END, &words);
            format!("BEGIN:VCALENDAR\r\nVERSION:2.0\r\n{event}END:VCALENDAR\r\n")
        })
        .collect();
    let documents: Vec<Document> =
        files.iter().map(|file| Document::parse(file.as_bytes()).unwrap()).collect();
    let calendars: Vec<ICalendar> =
        files.iter().map(|file| ICalendar::parse(file).unwrap_or_else(|_| panic!("{file}"))).collect();
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    let (mut ours_read, mut theirs_read) = (Vec::new(), Vec::new());
    let mut counts = (0, 0);
    for _ in 0..ROUNDS {
        let (time, count) = timed(|| documents.iter().map(expanded).sum());
        ours.push(time);
        counts.0 = count;
        let (time, count) = timed(|| calendars.iter().map(expanded_by_calcard).sum());
        theirs.push(time);
        counts.1 = count;
        let read = |file: &String| expanded(&Document::parse(file.as_bytes()).unwrap());
        ours_read.push(timed(|| files.iter().map(read).sum::<usize>()).0);
        let read = |file: &String| expanded_by_calcard(&ICalendar::parse(file).unwrap_or_default());
        theirs_read.push(timed(|| files.iter().map(read).sum::<usize>()).0);
    }
    assert_eq!(counts.0, counts.1, "both find the same");
    println!(
        "{} events over a year, {} occurrences: Helve, calcard, Helve / calcard",
        sizes.series, counts.0
    );
    line("from a file that was read", best(&ours), best(&theirs));
    line("reading the file as well", best(&ours_read), best(&theirs_read));
}

fn line(name: &str, ours: Took, theirs: Took) {
    let ms = |took: Took| took.wall_s() * 1e3;
    println!("{name:<40} {:>9.2} ms {:>9.2} ms {:>8.2}", ms(ours), ms(theirs), ms(ours) / ms(theirs));
}

fn expanded(document: &Document) -> usize {
    let second = |at| Timestamp::from_second(at).unwrap();
    // 2026, and a day on either side.
    let range = Range { from: second(1_767_139_200), to: second(1_798_848_000), asker: Zone::UTC };
    let mut budget = Budget::default();
    let of = |series: Series| black_box(series.expand(&range, &mut budget).unwrap()).len();
    Series::read_all(document, "VEVENT").into_iter().map(|(_, series)| series.unwrap()).map(of).sum()
}

fn expanded_by_calcard(calendar: &ICalendar) -> usize {
    let found = black_box(calendar.expand_dates(Tz::UTC, 100_000));
    assert!(found.errors.is_empty(), "{:?}", found.errors);
    found.events.len()
}
