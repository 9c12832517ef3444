//! What an event means for a person's time.

use super::timeline::{Interval, Part, State};
use crate::ical::{Component, DateValue, PeriodEnd, PeriodValue, ValueError, split_list};
use crate::recurrence::{Occurrence, Status};
use crate::text::Address;
use crate::zones::Zone;

/// What an occurrence does to a person's time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Weight {
    /// It leaves them free.
    None,
    /// They may be busy.
    Tentative,
    /// They are busy.
    Busy,
}

/// What an occurrence does to the time of the person whose calendar it is in. `component` is the event that it
/// comes from, `addresses` are those by which the person is invited.
///
/// Outlook's own busy status counts before `TRANSP`: it writes `OPAQUE` for what it shows as tentative.
pub fn weigh(occurrence: &Occurrence, component: &Component, addresses: &[Address]) -> Weight {
    let value =
        |name: &str| component.property(name).map(|property| property.value().trim().to_ascii_uppercase());
    let answer = answer(component, addresses);
    if occurrence.status == Status::Cancelled || answer.as_deref() == Some("DECLINED") {
        return Weight::None;
    }
    let shown = match value("X-MICROSOFT-CDO-BUSYSTATUS").as_deref() {
        Some("FREE" | "WORKINGELSEWHERE") => Weight::None,
        Some("TENTATIVE") => Weight::Tentative,
        Some("BUSY" | "OOF") => Weight::Busy,
        Some(_) | None if value("TRANSP").as_deref() == Some("TRANSPARENT") => Weight::None,
        Some(_) | None => Weight::Busy,
    };
    let is_open = matches!(answer.as_deref(), Some("TENTATIVE" | "NEEDS-ACTION"));
    match shown {
        Weight::Busy if is_open || occurrence.status == Status::Tentative => Weight::Tentative,
        Weight::None | Weight::Tentative | Weight::Busy => shown,
    }
}

/// What the person answered to the invitation; `None` where they are not invited.
fn answer(component: &Component, addresses: &[Address]) -> Option<String> {
    let is_person = |value: &str| {
        let address =
            value.get(..7).filter(|scheme| scheme.eq_ignore_ascii_case("mailto:")).map(|_| &value[7..]);
        address.is_some_and(|address| addresses.iter().any(|own| own.as_str().eq_ignore_ascii_case(address)))
    };
    // The organizer who also stands among the attendees has answered by calling the meeting.
    if component.property("ORGANIZER").is_some_and(|organizer| is_person(organizer.value().trim())) {
        let own = component.all("ATTENDEE").find(|attendee| is_person(attendee.value().trim()));
        let declined = own.and_then(|own| own.param("PARTSTAT")).map(|answer| answer.to_ascii_uppercase());
        return declined.filter(|answer| answer == "DECLINED").or_else(|| Some("ACCEPTED".to_owned()));
    }
    let attendee = component.all("ATTENDEE").find(|attendee| is_person(attendee.value().trim()))?;
    Some(attendee.param("PARTSTAT").map_or("NEEDS-ACTION".to_owned(), |answer| answer.to_ascii_uppercase()))
}

/// What a `VFREEBUSY` says of a person: their busy times. The caller knows for which range it was asked.
pub fn freebusy(component: &Component) -> Result<Vec<Part>, ValueError> {
    let mut parts = Vec::new();
    for property in component.all("FREEBUSY") {
        let state = match property.param("FBTYPE").map(|kind| kind.to_ascii_uppercase()).as_deref() {
            Some("FREE") => continue,
            Some("BUSY-TENTATIVE") => State::Tentative,
            // A kind that nobody knows is to be read as busy (RFC 5545 3.2.9).
            Some(_) | None => State::Busy,
        };
        for item in split_list(property.value()) {
            let period = PeriodValue::parse(item)?;
            let instant = |value: DateValue| match value {
                DateValue::Date(date) => Zone::UTC.instant(date.at(0, 0, 0, 0)),
                DateValue::Local(at) | DateValue::Utc(at) => Zone::UTC.instant(at),
            };
            let from = instant(period.start);
            let to = match period.end {
                PeriodEnd::At(end) => instant(end),
                PeriodEnd::After(length) => {
                    let end = from.as_second() + length.days * 86_400 + length.seconds;
                    jiff::Timestamp::from_second(end).unwrap_or(jiff::Timestamp::MAX)
                }
            };
            parts.extend(Interval::new(from, to).map(|interval| Part { interval, state }));
        }
    }
    Ok(parts)
}
