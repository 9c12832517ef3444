//! When other people are busy, by the account's own server (RFC 6638 5).

use helve_net::{HeaderValue, Method, header};
use jiff::Timestamp;
use jiff::tz::TimeZone;

use super::client::Dav;
use super::href::Href;
use super::layout::mail_of;
use super::xml::{Element, Space};
use crate::account::Fault;
use crate::availability::{Interval, Part, State, freebusy};
use crate::ical::{Component, DateValue, Document};
use crate::text::Address;
use crate::web::{Ask, Intent};
use crate::zones::Zone;

/// Most that is read of an answer about one person.
const ANSWER_BYTES_MAX: usize = 4 << 20;

/// Asks the server when a person is busy. `None`: it does not know them, or does not say.
pub(super) async fn ask(
    dav: &Dav,
    outbox: &Href,
    asker: &Address,
    who: &Address,
    range: Interval,
) -> Result<Option<Vec<Part>>, Fault> {
    let ask = Ask::reads(Method::POST, outbox.url(&dav.server))
        .header(header::CONTENT_TYPE, HeaderValue::from_static("text/calendar; charset=utf-8"))
        .answer_bytes_max(ANSWER_BYTES_MAX)
        .body(question(asker, who, range));
    let response = dav.server.send(ask).await?;
    match response.status.as_u16() {
        200 => Ok(answer(&dav.xml(&response)?, who, range)),
        // It has an outbox and does not let us use it.
        403 | 404 | 405 | 501 => Ok(None),
        _ => Err(dav.fault(Intent::Read, &response)),
    }
}

fn question(asker: &Address, who: &Address, range: Interval) -> String {
    let (from, to) = (utc(range.from), utc(range.to));
    let uid = super::state::digest(&format!("{asker} {who} {from} {to}"));
    [
        "BEGIN:VCALENDAR",
        "VERSION:2.0",
        "PRODID:-//Helve//Helve//EN",
        "METHOD:REQUEST",
        "BEGIN:VFREEBUSY",
        &format!("UID:{uid}"),
        &format!("DTSTAMP:{}", utc(Timestamp::now())),
        &format!("DTSTART:{from}"),
        &format!("DTEND:{to}"),
        // An address is ASCII without spaces; a long one may go beyond the usual length of a line.
        &format!("ORGANIZER:mailto:{asker}"),
        &format!("ATTENDEE:mailto:{who}"),
        "END:VFREEBUSY",
        "END:VCALENDAR",
        "",
    ]
    .join("\r\n")
}

fn utc(at: Timestamp) -> String {
    DateValue::Utc(at.to_zoned(TimeZone::UTC).datetime()).to_string()
}

/// What the server says about the person, if it does.
fn answer(root: &Element, who: &Address, range: Interval) -> Option<Vec<Part>> {
    let is_about = |response: &&Element| {
        let recipient = response.child(Space::CalDav, "recipient");
        let href = recipient.and_then(|recipient| recipient.text_of(Space::Dav, "href"));
        href.and_then(mail_of).is_some_and(|address| address.is_same_mailbox(who))
    };
    let response = root.all(Space::CalDav, "response").find(is_about)?;
    let status = response.text_of(Space::CalDav, "request-status")?;
    let data = response.text_of(Space::CalDav, "calendar-data").filter(|_| status.starts_with("2."))?;
    let document = Document::parse(data.as_bytes()).ok()?;
    let calendar = document.components().find(|component| component.is_named("VCALENDAR"))?;
    let component = calendar.components().find(|component| component.is_named("VFREEBUSY"))?;
    let mut parts = freebusy(component).ok()?;
    parts.extend(beyond(component, range));
    Some(parts)
}

/// What of the range an answer does not cover: the server may know less than it was asked.
fn beyond(component: &Component, range: Interval) -> Vec<Part> {
    let at = |name: &str| match DateValue::parse(component.property(name)?.value()).ok()? {
        DateValue::Utc(at) => Some(Zone::UTC.instant(at)),
        DateValue::Local(_) | DateValue::Date(_) => None,
    };
    let (from, to) = (at("DTSTART").unwrap_or(range.from), at("DTEND").unwrap_or(range.to));
    let unseen = [Interval::new(range.from, from.min(range.to)), Interval::new(to.max(range.from), range.to)];
    unseen.into_iter().flatten().map(|interval| Part { interval, state: State::Unknown }).collect()
}
