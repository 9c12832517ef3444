//! The office kernel against tables that Python computed, slow references, hostile input and real exports.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod availability;
mod calendar_availability;
mod calendar_editing;
mod calendar_importing;
mod calendar_invitations;
mod calendar_limits;
mod calendar_listing;
mod calendar_odd;
mod calendar_radicale;
mod calendar_world;
mod context;
mod dav;
mod dav_hostile;
mod dav_server;
mod discover_mail;
mod edits;
mod ical;
mod imap;
mod imap_hostile;
mod imap_sync;
mod jmap;
mod mail;
mod mail_draft;
mod mail_real;
mod mail_search;
mod mail_send;
mod mail_servers;
mod mail_sync;
mod mail_world;
mod recurrence;
mod rule;
mod samples;
mod servers;
mod smtp;
mod tasks_tools;
mod text;
mod zones;

use helve_office::ical::{DateValue, Document};
use helve_office::recurrence::{Occurrence, Range, Series, When};
use helve_office::rule::Budget;
use helve_office::zones::Zone;
use jiff::Timestamp;
use jiff::civil::DateTime;

/// The lines of a committed table, each as its fields.
fn table(text: &'static str) -> impl Iterator<Item = Vec<&'static str>> {
    text.lines().map(|line| line.split('\t').collect())
}

/// A local time as iCalendar writes it.
fn local(text: &str) -> DateTime {
    match DateValue::parse(text).unwrap() {
        DateValue::Local(at) | DateValue::Utc(at) => at,
        DateValue::Date(date) => date.at(0, 0, 0, 0),
    }
}

/// An instant as iCalendar writes it in UTC.
fn utc(text: &str) -> Timestamp {
    Zone::UTC.instant(local(text))
}

fn zone(name: &str) -> Zone {
    Zone::iana(name).unwrap()
}

/// A calendar with these lines in it.
fn calendar(lines: &str) -> Document {
    let text = format!("BEGIN:VCALENDAR\r\nVERSION:2.0\r\n{}END:VCALENDAR\r\n", crlf(lines));
    Document::parse(text.as_bytes()).unwrap()
}

/// A calendar with one event that has a UID and these lines.
fn event(lines: &str) -> Document {
    calendar(&format!("BEGIN:VEVENT\nUID:a\n{}\nEND:VEVENT\n", lines.trim()))
}

fn crlf(lines: &str) -> String {
    lines.lines().map(str::trim).filter(|line| !line.is_empty()).map(|line| format!("{line}\r\n")).collect()
}

fn printed(document: &Document) -> String {
    String::from_utf8(document.print()).unwrap()
}

fn range(from: &str, to: &str, asker: &str) -> Range {
    let asker = zone(asker);
    Range { from: asker.instant(local(from)), to: asker.instant(local(to)), asker }
}

/// Everything that a document's events do in a range.
fn expand(document: &Document, range: &Range) -> Vec<Occurrence> {
    let mut found = Vec::new();
    for (_, series) in Series::read_all(document, "VEVENT") {
        found.extend(series.unwrap().expand(range, &mut Budget::default()).unwrap());
    }
    found
}

/// An occurrence on one line: days, or moments with offset and zone.
fn shown(occurrence: &Occurrence) -> String {
    match &occurrence.when {
        When::AllDay { first, end } => format!("{first}/{end}"),
        When::Timed { start, end } => format!("{start}/{end}"),
    }
}

/// The local starts of occurrences, for series in one zone.
fn starts(occurrences: &[Occurrence]) -> Vec<String> {
    occurrences
        .iter()
        .map(|occurrence| match &occurrence.when {
            When::AllDay { first, .. } => first.to_string(),
            When::Timed { start, .. } => start.local().to_string(),
        })
        .collect()
}
