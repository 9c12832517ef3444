//! What is read from an object's bytes to find it by. Nothing here is the truth: it can be made anew at any time.

use bytes::Bytes;
use helve::json::sha256_hex;
use helve_store::office::{NewObject, NewPerson};
use jiff::Timestamp;

use crate::account::Holds;
use crate::ical::{Component, DateValue, Document, Limits, Property, split_list, unescape};
use crate::recurrence::Series;
use crate::text::cleaned;
use crate::zones::{Zone, ZoneTable};

/// Largest object that is kept: a meeting with some thousand attendees, or a contact with a large picture.
pub const OBJECT_BYTES_MAX: usize = 8 << 20;

const TITLE_CHARS_MAX: usize = 500;
const NOTES_CHARS_MAX: usize = 20_000;
const PEOPLE_MAX: usize = 1_000;

/// The version of bytes that no server gave one.
pub fn version_of(bytes: &[u8]) -> String {
    sha256_hex(bytes).chars().take(32).collect()
}

/// Reads an object. One that cannot be read counts as what its collection holds, with the reason: an event that
/// nobody can read takes time that nobody knows.
pub fn derive(href: &str, version: &str, bytes: &[u8], holds: Holds) -> NewObject {
    let limits = Limits { bytes: OBJECT_BYTES_MAX, ..Limits::default() };
    let object = NewObject {
        href: href.to_owned(),
        version: version.to_owned(),
        uid: format!("href:{href}"),
        bytes: bytes.to_vec(),
        ..NewObject::default()
    };
    match Document::parse_within(Bytes::copy_from_slice(bytes), limits) {
        Ok(document) => read(&document, object),
        Err(error) => {
            NewObject { kind: guessed(holds).to_owned(), unreadable: Some(error.to_string()), ..object }
        }
    }
}

fn guessed(holds: Holds) -> &'static str {
    match (holds.events, holds.tasks, holds.contacts) {
        (true, ..) => "event",
        (false, true, _) => "task",
        (false, false, true) => "contact",
        (false, false, false) => "other",
    }
}

fn read(document: &Document, object: NewObject) -> NewObject {
    if document.events("VEVENT").next().is_some() {
        let object = NewObject { kind: "event".to_owned(), ..object };
        return with_times(document, "VEVENT", with_text(document, "VEVENT", object));
    }
    if document.events("VTODO").next().is_some() {
        let object = NewObject { kind: "task".to_owned(), ..object };
        return with_task(document, with_times(document, "VTODO", with_text(document, "VTODO", object)));
    }
    match document.components().find(|component| component.is_named("VCARD")) {
        Some(card) => with_contact(card, NewObject { kind: "contact".to_owned(), ..object }),
        None => NewObject { kind: "other".to_owned(), ..object },
    }
}

/// The event or task itself; an override where there is nothing else.
pub(crate) fn main_component<'a>(document: &'a Document, kind: &'a str) -> Option<&'a Component> {
    let is_main = |component: &&Component| component.property("RECURRENCE-ID").is_none();
    document.events(kind).find(is_main).or_else(|| document.events(kind).next())
}

fn with_text(document: &Document, kind: &str, object: NewObject) -> NewObject {
    let Some(main) = main_component(document, kind) else { return object };
    let text = |component: &Component, name: &str| component.property(name).map(|found| found.text_value());
    let mut notes: Vec<String> = Vec::new();
    let mut people: Vec<NewPerson> = Vec::new();
    for part in document.events(kind) {
        for name in ["SUMMARY", "LOCATION", "DESCRIPTION", "CATEGORIES", "COMMENT"] {
            // Title and place of the event itself have columns of their own.
            let is_own = std::ptr::eq(part, main) && matches!(name, "SUMMARY" | "LOCATION");
            notes.extend(text(part, name).filter(|text| !is_own && !notes.contains(text)));
        }
        for person in part.properties().filter_map(|property| person(&property)) {
            if !people.contains(&person) && people.len() < PEOPLE_MAX {
                notes.extend((!person.name.is_empty()).then(|| person.name.clone()));
                people.push(person);
            }
        }
    }
    let uid = text(main, "UID").filter(|uid| !uid.trim().is_empty());
    NewObject {
        uid: uid.unwrap_or(object.uid),
        title: cleaned(&text(main, "SUMMARY").unwrap_or_default(), TITLE_CHARS_MAX),
        place: cleaned(&text(main, "LOCATION").unwrap_or_default(), TITLE_CHARS_MAX),
        notes: cut(&notes.join("\n"), NOTES_CHARS_MAX),
        people,
        ..object
    }
}

fn with_times(document: &Document, kind: &str, object: NewObject) -> NewObject {
    let (mut first, mut last, mut is_endless) = (None::<Timestamp>, None::<Timestamp>, false);
    for (_, series) in Series::read_all(document, kind) {
        let series = match series {
            Ok(series) => series,
            // A task need not have a time.
            Err(crate::recurrence::Unreadable::NoStart) if kind == "VTODO" => continue,
            Err(error) => return NewObject { unreadable: Some(error.to_string()), ..object },
        };
        let span = series.span();
        first = first.into_iter().chain(span.0).min();
        last = last.into_iter().chain(span.1).max();
        is_endless |= span.1.is_none();
    }
    let last = last.filter(|_| !is_endless);
    NewObject { first: first.map(Timestamp::as_second), last: last.map(Timestamp::as_second), ..object }
}

fn with_task(document: &Document, object: NewObject) -> NewObject {
    let Some(main) = main_component(document, "VTODO") else { return object };
    let mut zones = ZoneTable::of(document);
    let due = main.property("DUE").and_then(|due| instant(&due, &mut zones));
    let value = |name: &str| main.property(name).map(|found| found.value().trim().to_ascii_lowercase());
    let is_done = main.property("COMPLETED").is_some();
    let status =
        value("STATUS").unwrap_or_else(|| if is_done { "completed" } else { "needs-action" }.to_owned());
    NewObject {
        due: due.map(Timestamp::as_second),
        status: Some(status),
        priority: value("PRIORITY")
            .and_then(|text| text.parse().ok())
            .filter(|number| (0..=9).contains(number)),
        project: main.property("CATEGORIES").and_then(|found| first_category(&found)),
        ..object
    }
}

/// The first of a task's categories: what most programs show as its list or project.
fn first_category(property: &Property<'_>) -> Option<String> {
    let first = split_list(property.value()).next().map(unescape)?;
    Some(cleaned(&first, TITLE_CHARS_MAX)).filter(|first| !first.is_empty())
}

fn instant(property: &Property<'_>, zones: &mut ZoneTable<'_>) -> Option<Timestamp> {
    let zone = property.param("TZID").and_then(|tzid| zones.resolve(&tzid).ok());
    Some(match DateValue::parse(property.value()).ok()? {
        DateValue::Date(date) => Zone::UTC.instant(date.at(0, 0, 0, 0)),
        DateValue::Utc(at) => Zone::UTC.instant(at),
        DateValue::Local(at) => zone.unwrap_or(Zone::UTC).instant(at),
    })
}

/// The address of a `mailto:` value.
pub(crate) fn mailto(value: &str) -> Option<&str> {
    let value = value.trim();
    value.get(..7).filter(|scheme| scheme.eq_ignore_ascii_case("mailto:")).map(|_| value[7..].trim())
}

fn person(property: &Property<'_>) -> Option<NewPerson> {
    let role = match () {
        () if property.is_named("ORGANIZER") => "organizer",
        () if property.is_named("ATTENDEE") => "attendee",
        () => return None,
    };
    let email = || property.param("EMAIL").unwrap_or_default();
    let address = mailto(property.value()).map_or_else(email, str::to_owned);
    let name = cleaned(&property.param("CN").unwrap_or_default(), 200);
    let address = cleaned(&address.to_lowercase(), 254);
    let is_named = !(name.is_empty() && address.is_empty());
    // Programs repeat the address where they know no name.
    let name = if name.eq_ignore_ascii_case(&address) { String::new() } else { name };
    is_named.then(|| NewPerson { role: role.to_owned(), name, address, organisation: String::new() })
}

fn with_contact(card: &Component, object: NewObject) -> NewObject {
    let text = |name: &str| card.property(name).map(|found| found.text_value()).unwrap_or_default();
    let structured = |value: &str| {
        let parts = value.split(';').map(|part| unescape(part).trim().to_owned());
        parts.filter(|part| !part.is_empty()).collect::<Vec<_>>()
    };
    let organisation = card.property("ORG").map(|org| structured(org.value()).join(", ")).unwrap_or_default();
    let organisation = cleaned(&organisation, 200);
    let mut name = cleaned(&text("FN"), 200);
    if name.is_empty() {
        let mut parts = card.property("N").map(|name| structured(name.value())).unwrap_or_default();
        parts.reverse();
        name = cleaned(&parts.join(" "), 200);
    }
    let mut addresses: Vec<String> = card
        .all("EMAIL")
        .map(|email| cleaned(&email.text_value().to_lowercase(), 254))
        .filter(|address| !address.is_empty())
        .take(PEOPLE_MAX)
        .collect();
    if addresses.is_empty() {
        addresses.push(String::new());
    }
    let told = ["NICKNAME", "TITLE", "ROLE", "TEL", "ADR", "CATEGORIES", "NOTE"];
    let told = told.iter().flat_map(|name| card.all(name)).map(|found| found.text_value());
    let notes: Vec<String> = addresses.iter().cloned().chain([organisation.clone()]).chain(told).collect();
    let person = |address: String| NewPerson {
        role: "contact".to_owned(),
        name: name.clone(),
        address,
        organisation: organisation.clone(),
    };
    let uid = Some(text("UID")).filter(|uid| !uid.trim().is_empty());
    NewObject {
        uid: uid.unwrap_or_else(|| object.uid.clone()),
        title: name.clone(),
        notes: cut(&notes.join("\n"), NOTES_CHARS_MAX),
        people: addresses.into_iter().map(person).collect(),
        ..object
    }
}

fn cut(text: &str, chars_max: usize) -> String {
    let end = text.char_indices().nth(chars_max).map_or(text.len(), |(at, _)| at);
    text[..end].to_owned()
}
