//! The demo as messages, iCalendar and vCard.

use jiff::civil::{Date, time};
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Span, Timestamp, Zoned};

use super::mails::{DemoMail, MAILS, Place};
use super::objects::{DemoContact, DemoEvent, DemoTask, When};
use super::{Kind, message_id};
use crate::Account;
use crate::ical::{Document, Eol};
use crate::mail::{Attached, ComposeError, Letter, Thread, compose};
use crate::text::{Address, FileName, MailText, Mailbox, Recipients, Subject};
use crate::zones::vtimezone;

/// A mail with its thread.
pub(super) fn mail(mail: &DemoMail, account: &Account, now: &Zoned) -> Result<Vec<u8>, ComposeError> {
    let person = person(account);
    let (from, to) = match mail.place {
        Place::Inbox => (mail.other.to_owned(), person.to_string()),
        Place::Sent => (person.to_string(), mail.other.to_owned()),
    };
    let earlier = earlier(mail);
    let file = |(name, media_type, content): (&str, &str, &str)| Attached {
        name: FileName::new(name).expect("a plain name"),
        media_type: media_type.to_owned(),
        bytes: content.as_bytes().to_vec(),
        content_id: None,
    };
    let letter = Letter {
        reply_to: Vec::new(),
        kept: Vec::new(),
        from: Mailbox::parse(&from).expect("a test loads every mail"),
        recipients: Some(Recipients::new(&[to], &[], &[]).expect("a test loads every mail")),
        subject: Subject::new(mail.subject).expect("a test loads every mail"),
        text: MailText::new(mail.text).expect("a test loads every mail"),
        html: None,
        attachments: mail.file.map(file).into_iter().collect(),
        thread: Thread {
            in_reply_to: mail.answers.map(message_id),
            references: earlier.into_iter().map(message_id).collect(),
        },
        message_id: message_id(mail.id),
        date: at(now, mail.day, mail.time),
    };
    compose(&letter).map(|composed| composed.bytes)
}

/// The mails of its thread before it, oldest first.
fn earlier(mail: &DemoMail) -> Vec<&'static str> {
    let mut ids = Vec::new();
    let mut next = mail.answers;
    while let Some(id) = next {
        ids.insert(0, id);
        next = MAILS.iter().find(|one| one.id == id).and_then(|one| one.answers);
    }
    ids
}

/// A time of the asker's day. Never later than now: nobody has mail from the future.
fn at(now: &Zoned, day: i64, (hour, minute): (i8, i8)) -> Timestamp {
    let date = day_of(now, day);
    let moment = date.to_datetime(time(hour, minute, 0, 0)).to_zoned(now.time_zone().clone());
    let moment = moment.map_or_else(|_| now.timestamp(), |zoned| zoned.timestamp());
    moment.min(now.timestamp())
}

fn day_of(now: &Zoned, day: i64) -> Date {
    now.date().saturating_add(Span::new().days(day))
}

/// An event, with the zone that its times are in.
pub(super) fn event(event: &DemoEvent, account: &Account, now: &Zoned) -> Vec<u8> {
    let mut lines = begin("VEVENT", &Kind::Event.uid(event.id), now);
    lines.push(format!("SUMMARY:{}", escaped(event.title)));
    let zone = match event.when {
        When::Days(day, days) => {
            lines.push(format!("DTSTART;VALUE=DATE:{}", day_of(now, day).strftime("%Y%m%d")));
            lines.push(format!("DTEND;VALUE=DATE:{}", day_of(now, day + days).strftime("%Y%m%d")));
            None
        }
        When::At(day, (hour, minute), zone, minutes) => {
            let starts = weekday(event.rule, day_of(now, day)).to_datetime(time(hour, minute, 0, 0));
            let ends = starts.saturating_add(SignedDuration::from_mins(minutes));
            lines.push(format!("DTSTART;TZID={zone}:{}", starts.strftime("%Y%m%dT%H%M%S")));
            lines.push(format!("DTEND;TZID={zone}:{}", ends.strftime("%Y%m%dT%H%M%S")));
            Some(zone)
        }
    };
    lines.extend(event.rule.map(|rule| format!("RRULE:{rule}")));
    lines.extend(event.place.map(|place| format!("LOCATION:{}", escaped(place))));
    if !event.with.is_empty() {
        let person = person(account);
        lines.push(format!("ORGANIZER:mailto:{}", person.address()));
        lines.push(format!("ATTENDEE;PARTSTAT=ACCEPTED:mailto:{}", person.address()));
    }
    for (name, address) in event.with {
        lines.push(format!("ATTENDEE;CN=\"{name}\";PARTSTAT=ACCEPTED:mailto:{address}"));
    }
    lines.extend(event.more.iter().map(|line| (*line).to_owned()));
    calendar(lines, "VEVENT", zone, now)
}

/// A series over weekdays begins on one.
fn weekday(rule: Option<&str>, date: Date) -> Date {
    let is_for_weekdays = rule.is_some_and(|rule| rule.contains("BYDAY=MO,TU,WE,TH,FR"));
    let beyond = i64::from(date.weekday().to_monday_one_offset()) - 5;
    if is_for_weekdays && beyond > 0 { date.saturating_sub(Span::new().days(beyond)) } else { date }
}

/// Writes a task as a `VTODO`.
pub(super) fn task(task: &DemoTask, now: &Zoned) -> Vec<u8> {
    let mut lines = begin("VTODO", &Kind::Task.uid(task.id), now);
    lines.push(format!("SUMMARY:{}", escaped(task.title)));
    if let Some(day) = task.due {
        let date = day_of(now, day).strftime("%Y%m%d").to_string();
        // A series needs a day to count from.
        if !task.more.is_empty() {
            lines.push(format!("DTSTART;VALUE=DATE:{date}"));
        }
        lines.push(format!("DUE;VALUE=DATE:{date}"));
    }
    lines.push(format!("PRIORITY:{}", task.priority));
    lines.extend(task.project.map(|project| format!("CATEGORIES:{}", escaped(project))));
    if task.done {
        lines.push("STATUS:COMPLETED".to_owned());
        lines.push(format!("COMPLETED:{}", utc(at(now, -8, (17, 0)))));
        lines.push("PERCENT-COMPLETE:100".to_owned());
    } else {
        lines.push("STATUS:NEEDS-ACTION".to_owned());
    }
    lines.extend(task.more.iter().map(|line| (*line).to_owned()));
    calendar(lines, "VTODO", None, now)
}

/// Writes a contact as a vCard.
pub(super) fn contact(contact: &DemoContact) -> Vec<u8> {
    let DemoContact { id, given, family, company, title, mail, phone, note } = contact;
    let mut lines = vec![
        "BEGIN:VCARD".to_owned(),
        "VERSION:4.0".to_owned(),
        format!("UID:{}", Kind::Contact.uid(id)),
        format!("FN:{}", escaped(&format!("{given} {family}"))),
        format!("N:{};{};;;", escaped(family), escaped(given)),
        format!("EMAIL;TYPE=work:{mail}"),
    ];
    lines.extend(company.map(|company| format!("ORG:{}", escaped(company))));
    lines.extend(title.map(|title| format!("TITLE:{}", escaped(title))));
    lines.extend(phone.map(|phone| format!("TEL;TYPE=work:{phone}")));
    lines.extend(note.map(|note| format!("NOTE:{}", escaped(note))));
    lines.push("END:VCARD".to_owned());
    joined(&lines)
}

fn person(account: &Account) -> Mailbox {
    let nobody = || Mailbox::new(None, Address::new("me@helve.invalid").expect("an address"));
    account.person.clone().unwrap_or_else(|| nobody().expect("no name"))
}

fn begin(component: &str, uid: &str, now: &Zoned) -> Vec<String> {
    vec![format!("BEGIN:{component}"), format!("UID:{uid}"), format!("DTSTAMP:{}", utc(now.timestamp()))]
}

/// A component in its own calendar.
fn calendar(mut lines: Vec<String>, component: &str, zone: Option<&str>, now: &Zoned) -> Vec<u8> {
    lines.push(format!("END:{component}"));
    let head = ["BEGIN:VCALENDAR", "VERSION:2.0", "PRODID:-//Helve//Demo//EN"].map(str::to_owned);
    let zone = zone.and_then(|name| Some((name, TimeZone::get(name).ok()?)));
    let year = now.year();
    let zone = zone.and_then(|(name, zone)| vtimezone(&zone, name, year - 1..=year + 2, Eol::Crlf).ok());
    let zone = zone.map(|zone| Document::of(zone).print()).unwrap_or_default();
    let mut bytes = joined(&head);
    bytes.extend(zone);
    bytes.extend(joined(&lines));
    bytes.extend(b"END:VCALENDAR\r\n");
    bytes
}

fn joined(lines: &[String]) -> Vec<u8> {
    lines.iter().flat_map(|line| folded(line).into_bytes()).collect()
}

/// A line of 75 octets at most, continued on the next.
fn folded(line: &str) -> String {
    let mut out = String::new();
    let mut rest = line;
    while rest.len() > 75 {
        let at = rest.floor_char_boundary(74);
        out.push_str(&rest[..at]);
        out.push_str("\r\n ");
        rest = &rest[at..];
    }
    out.push_str(rest);
    out.push_str("\r\n");
    out
}

fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace(';', "\\;").replace(',', "\\,").replace('\n', "\\n")
}

fn utc(moment: Timestamp) -> String {
    moment.strftime("%Y%m%dT%H%M%SZ").to_string()
}
