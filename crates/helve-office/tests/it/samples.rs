//! Exports of real programs, rebuilt with their quirks: read rightly, printed as they came, edited without loss.

use helve_office::ical::{Document, NewProperty};
use helve_office::recurrence::Series;
use helve_office::recurrence::edit::{Changes, change_all};

use crate::{expand, printed, range, shown, utc};

const GOOGLE: &str = include_str!("exports/google.ics");
const OUTLOOK: &str = include_str!("exports/outlook.ics");
const APPLE: &str = include_str!("exports/apple.ics");
const NEXTCLOUD: &str = include_str!("exports/nextcloud.ics");

fn check(export: &str, expected: &[&str]) {
    let april = range("20260301T000000", "20260501T000000", "Europe/Berlin");
    // As it is stored in the repository, and as it comes over the wire.
    for text in [export.to_owned(), export.replace('\n', "\r\n")] {
        let document = Document::parse(text.as_bytes()).unwrap();
        assert_eq!(printed(&document), text);
        let found: Vec<String> = expand(&document, &april)
            .iter()
            .map(|occurrence| {
                let event = document.events("VEVENT").nth(occurrence.place).unwrap();
                let summary = event.property("SUMMARY").unwrap().text_value();
                format!("{summary}: {} {:?}", shown(occurrence), occurrence.status)
            })
            .collect();
        assert_eq!(found, expected);
    }
}

#[test]
fn google() {
    check(
        GOOGLE,
        &[
            "Jour fixe 🗓️: 2026-03-25T09:30:00+01:00[Europe/Berlin]/2026-03-25T10:00:00+01:00[Europe/Berlin] Confirmed",
            "Jour fixe 🗓️ (verschoben): 2026-04-02T14:00:00+02:00[Europe/Berlin]/2026-04-02T14:30:00+02:00[Europe/Berlin] Confirmed",
            "Jour fixe 🗓️: 2026-04-15T09:30:00+02:00[Europe/Berlin]/2026-04-15T10:00:00+02:00[Europe/Berlin] Confirmed",
            "Jour fixe 🗓️: 2026-04-22T09:30:00+02:00[Europe/Berlin]/2026-04-22T10:00:00+02:00[Europe/Berlin] Confirmed",
            "Jour fixe 🗓️: 2026-04-29T09:30:00+02:00[Europe/Berlin]/2026-04-29T10:00:00+02:00[Europe/Berlin] Confirmed",
            "Grace's birthday: 2026-04-10/2026-04-11 Confirmed",
        ],
    );
}

#[test]
fn outlook() {
    check(
        OUTLOOK,
        &[
            "Projektrunde: 2026-03-24T10:00:00+01:00[Europe/Berlin]/2026-03-24T11:00:00+01:00[Europe/Berlin] Confirmed",
            "Projektrunde: 2026-03-31T10:00:00+02:00[Europe/Berlin]/2026-03-31T11:00:00+02:00[Europe/Berlin] Confirmed",
            "Projektrunde: 2026-04-07T10:00:00+02:00[Europe/Berlin]/2026-04-07T11:00:00+02:00[Europe/Berlin] Confirmed",
            "Call: 2026-03-26T09:00:00-04:00[Customized Time Zone]/2026-03-26T09:30:00-04:00[Customized Time Zone] Confirmed",
            "From a web form: 2026-03-27T09:00:00+01:00[Europe/Berlin]/2026-03-27T09:30:00+01:00[Europe/Berlin] Confirmed",
        ],
    );
}

#[test]
fn apple() {
    check(
        APPLE,
        &[
            "Drinks: 2026-03-06T17:30:00-05:00[America/New_York]/2026-03-06T18:30:00-05:00[America/New_York] Confirmed",
            "Drinks: 2026-03-20T17:30:00-04:00[America/New_York]/2026-03-20T18:30:00-04:00[America/New_York] Confirmed",
            "Drinks: 2026-03-27T17:30:00-04:00[America/New_York]/2026-03-27T18:30:00-04:00[America/New_York] Confirmed",
            "Drinks: 2026-04-03T17:30:00-04:00[America/New_York]/2026-04-03T18:30:00-04:00[America/New_York] Confirmed",
            "Run (wherever I am): 2026-03-21T09:00:00+01:00[Europe/Berlin]/2026-03-21T10:00:00+01:00[Europe/Berlin] Confirmed",
        ],
    );
}

#[test]
fn nextcloud() {
    check(
        NEXTCLOUD,
        &[
            "Night shift: 2026-03-28T23:30:00+00:00[Europe/London]/2026-03-29T02:30:00+01:00[Europe/London] Confirmed",
            "Night shift: 2026-03-29T23:30:00+01:00[Europe/London]/2026-03-30T01:30:00+01:00[Europe/London] Cancelled",
            "Night shift: 2026-03-30T23:30:00+01:00[Europe/London]/2026-03-31T01:30:00+01:00[Europe/London] Confirmed",
        ],
    );
}

#[test]
fn an_edit_of_any_of_them_changes_the_lines_that_it_names() {
    for export in [GOOGLE, OUTLOOK, APPLE, NEXTCLOUD] {
        let before = Document::parse(export.as_bytes()).unwrap();
        for (uid, _) in Series::read_all(&before, "VEVENT") {
            let mut document = before.clone();
            let mut changes = Changes::at(utc("20260301T000000"));
            changes.set.push(NewProperty::text("COMMENT", "seen").unwrap());
            change_all(&mut document, &uid, &changes).unwrap();
            let stamps = ["DTSTAMP:", "LAST-MODIFIED:", "COMMENT:"];
            let rest = |text: &str| {
                text.lines()
                    .filter(|line| !stamps.iter().any(|stamp| line.starts_with(stamp)))
                    .collect::<Vec<_>>()
                    .join("\n")
            };
            assert_eq!(rest(&printed(&document)), rest(export), "{uid}");
            assert!(printed(&document).contains("COMMENT:seen"));
        }
    }
}
