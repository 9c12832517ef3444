//! Events as models see them.

use jiff::civil::Date;
use schemars::JsonSchema;
use serde::Serialize;

use super::reach::Place;
use crate::availability::{Weight, weigh};
use crate::ical::{Component, Property};
use crate::objects::{Kind, ObjectId, mailto};
use crate::recurrence::{Occurrence, Status, When};
use crate::text::{cleaned, cleaned_lines};
use crate::zones::Zone;

const TEXT_CHARS_MAX: usize = 2_000;
const ATTENDEES_MAX: usize = 50;
const SHORT_CHARS_MAX: usize = 200;
const SHORT_ATTENDEES_MAX: usize = 5;

/// An event, or one occurrence of one that repeats.
#[derive(Debug, Clone, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(in crate::tools) struct EventShown {
    /// Pass it on as it is. It names this occurrence where the event repeats.
    pub(in crate::tools) id: String,
    /// Which state of the event this is; pass it on with an update.
    pub(in crate::tools) version: String,
    /// What it is called.
    pub(in crate::tools) title: String,
    /// When it starts, in the asker's zone, with offset and zone; the first day of an all-day event.
    pub(in crate::tools) start: String,
    /// When it ends, in the same way; the last day of an all-day event.
    pub(in crate::tools) end: String,
    /// Whether it takes whole days.
    pub(in crate::tools) all_day: bool,
    /// The same start in the event's own zone, where that is another.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::tools) start_in_event_zone: Option<String>,
    /// The same end in the event's own zone, where that is another.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::tools) end_in_event_zone: Option<String>,
    /// Whether it repeats; then an update needs a `scope`.
    pub(in crate::tools) repeats: bool,
    /// How it repeats, as iCalendar writes it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::tools) recurrence: Option<String>,
    /// One of `confirmed`, `tentative`, `cancelled`.
    pub(in crate::tools) status: String,
    /// What it does to the calendar's owner: one of `busy`, `tentative`, `free`.
    pub(in crate::tools) shows_as: String,
    /// Where it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::tools) location: Option<String>,
    /// What it is about, cut at 2000 characters, or at 200 where there is much to list.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::tools) description: Option<String>,
    /// Who called it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::tools) organizer: Option<PersonShown>,
    /// Who is invited: the first 50, or 5 where there is much to list.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(in crate::tools) attendees: Vec<PersonShown>,
    /// How many more are invited.
    #[serde(skip_serializing_if = "is_zero")]
    pub(in crate::tools) attendees_more: usize,
    /// The calendar that it is in.
    pub(in crate::tools) calendar: String,
    /// The account of that calendar.
    pub(in crate::tools) account: String,
}

fn is_zero(number: &usize) -> bool {
    *number == 0
}

/// A person in an event.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub(in crate::tools) struct PersonShown {
    /// Their name, where the event has it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::tools) name: Option<String>,
    /// Their mail address.
    pub(in crate::tools) address: String,
    /// What they answered: one of `needs-action`, `accepted`, `declined`, `tentative`, or what their program says.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::tools) answer: Option<String>,
}

/// A whole line of text of a component.
pub(in crate::tools) fn line(component: &Component, name: &str) -> Option<String> {
    let text = component.property(name)?.text_value();
    Some(cleaned(&text, 500)).filter(|text| !text.is_empty())
}

/// A text of a component, cut.
pub(in crate::tools) fn text(component: &Component, name: &str) -> Option<String> {
    let text = cleaned_lines(&component.property(name)?.text_value());
    let end = text.char_indices().nth(TEXT_CHARS_MAX).map(|(at, _)| at);
    let text = match end {
        Some(end) => format!("{}…", &text[..end]),
        None => text,
    };
    (!text.trim().is_empty()).then_some(text)
}

pub(in crate::tools) fn person(property: &Property<'_>) -> PersonShown {
    let address = mailto(property.value()).unwrap_or_else(|| property.value());
    let answer = property.param("PARTSTAT").map(|answer| cleaned(&answer.to_lowercase(), 40));
    PersonShown {
        name: property.param("CN").map(|name| cleaned(&name, 200)).filter(|name| !name.is_empty()),
        address: cleaned(address, 254),
        answer: answer.filter(|_| property.is_named("ATTENDEE")),
    }
}

/// Start and end for people: in one zone.
pub(in crate::tools) fn told(when: &When, zone: &Zone) -> (String, String) {
    match when {
        When::AllDay { first, end } => (first.to_string(), last_day(*first, *end).to_string()),
        When::Timed { start, end } => (start.told_in(zone).to_string(), end.told_in(zone).to_string()),
    }
}

fn last_day(first: Date, end: Date) -> Date {
    end.yesterday().unwrap_or(first).max(first)
}

impl EventShown {
    /// The same in few words, for an answer with many events.
    pub(in crate::tools) fn shorten(&mut self) {
        self.attendees_more += self.attendees.len().saturating_sub(SHORT_ATTENDEES_MAX);
        self.attendees.truncate(SHORT_ATTENDEES_MAX);
        if let Some(text) = &mut self.description
            && let Some((end, _)) = text.char_indices().nth(SHORT_CHARS_MAX)
        {
            text.truncate(end);
            text.push('…');
        }
    }

    /// How much there is to read.
    pub(in crate::tools) fn weight(&self) -> usize {
        self.description.as_ref().map_or(0, String::len) + self.attendees.len() * 80
    }

    pub(super) fn new(
        place: &Place,
        uid: &str,
        version: &str,
        occurrence: &Occurrence,
        component: &Component,
        main: &Component,
        asker: &Zone,
    ) -> Self {
        let id = ObjectId {
            kind: Kind::Event,
            collection: place.collection.id,
            uid: uid.to_owned(),
            occurrence: occurrence.id,
        };
        let (start, end) = told(&occurrence.when, asker);
        let own = own_zone(&occurrence.when, asker).map(|zone| told(&occurrence.when, &zone));
        let attendees: Vec<PersonShown> = component.all("ATTENDEE").map(|found| person(&found)).collect();
        let addresses: Vec<_> = place.own().cloned().into_iter().collect();
        let rule = main.property("RRULE").map(|rule| cleaned(rule.value(), 500));
        Self {
            id: id.to_string(),
            version: version.to_owned(),
            title: line(component, "SUMMARY").unwrap_or_else(|| "(no title)".to_owned()),
            start,
            end,
            all_day: matches!(occurrence.when, When::AllDay { .. }),
            start_in_event_zone: own.as_ref().map(|(start, _)| start.clone()),
            end_in_event_zone: own.map(|(_, end)| end),
            repeats: occurrence.id.is_some() || rule.is_some(),
            recurrence: rule,
            status: status(occurrence.status).to_owned(),
            shows_as: shows_as(weigh(occurrence, component, &addresses)).to_owned(),
            location: line(component, "LOCATION"),
            description: text(component, "DESCRIPTION"),
            organizer: component.property("ORGANIZER").map(|found| person(&found)),
            attendees_more: attendees.len().saturating_sub(ATTENDEES_MAX),
            attendees: attendees.into_iter().take(ATTENDEES_MAX).collect(),
            calendar: place.name(),
            account: place.account.id.clone(),
        }
    }
}

/// The zone of an event, where its clock shows another time than the asker's.
fn own_zone(when: &When, asker: &Zone) -> Option<Zone> {
    let When::Timed { start, end } = when else { return None };
    let differs = start.local() != asker.local(start.instant) || end.local() != asker.local(end.instant);
    differs.then(|| start.zone.clone())
}

fn status(status: Status) -> &'static str {
    match status {
        Status::Confirmed => "confirmed",
        Status::Tentative => "tentative",
        Status::Cancelled => "cancelled",
    }
}

fn shows_as(weight: Weight) -> &'static str {
    match weight {
        Weight::None => "free",
        Weight::Tentative => "tentative",
        Weight::Busy => "busy",
    }
}
