//! `create_calendar_event`: something that takes place.

use std::sync::Arc;
use std::time::Duration;

use helve::{Annotations, Category, Context, Facet, Risk, Tool, ToolBuilder, ToolError};
use jiff::{Timestamp, ToSpan};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use super::change::{Write, adopt, undoable};
use super::event::{
    EventChanged, EventPlan, REMINDERS_MAX, Recipients, Span, Telling, alarm, attendee, check_told,
    mailboxes, organizer, printed, told,
};
use super::facts::{Facts, of_event};
use super::fault::wrong;
use super::fields::{self, calendar, component, new_uid, unwritable};
use super::reach::{Place, place_for_new, places};
use super::time::{GivenTime, asker, read};
use crate::Office;
use crate::account::Fault;
use crate::ical::{DateValue, Document, NewProperty};
use crate::objects::{Kind, ObjectId};
use crate::zones::{Moment, Zone};

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Input {
    /// What it is called, in one line.
    #[schemars(length(min = 1, max = 998))]
    title: String,
    /// When it starts: a local time in `timeZone` (`2026-03-02T10:00`), a time with an offset, or a date for whole
    /// days.
    start: String,
    /// When it ends, in the same way; for whole days the last day. Absent: an hour later, or the same day.
    #[serde(default)]
    end: Option<String>,
    /// The zone of the event, such as `Europe/Berlin`: local times are read in it, and a series follows its clock.
    #[serde(default)]
    time_zone: Option<String>,
    /// How it repeats: `daily`, `weekdays`, `weekly`, `monthly`, `yearly`, or an iCalendar rule.
    #[serde(default)]
    #[schemars(length(min = 1, max = 500))]
    recurrence: Option<String>,
    /// Who is invited: `ada@example.org` or `Ada Lovelace <ada@example.org>`.
    #[serde(default)]
    #[schemars(length(max = 200))]
    attendees: Vec<String>,
    /// Whether attendees are told. Without it nobody is.
    #[serde(default)]
    notify_attendees: bool,
    /// Where it is.
    #[serde(default)]
    #[schemars(length(min = 1, max = 998))]
    location: Option<String>,
    /// What it is about.
    #[serde(default)]
    #[schemars(length(min = 1, max = 65_536))]
    description: Option<String>,
    /// Reminders: minutes before the start.
    #[serde(default)]
    #[schemars(length(max = 10), inner(range(max = 525_600)))]
    reminders: Vec<u32>,
    /// Whether it leaves the time free, as a birthday does.
    #[serde(default)]
    shows_as_free: bool,
    /// The calendar that it goes to, by name. Absent: the first that can be written.
    #[serde(default)]
    #[schemars(length(min = 1, max = 200))]
    calendar: Option<String>,
}

pub(super) fn tool(office: &Arc<Office>) -> ToolBuilder {
    let (shared, for_preview) = (Arc::clone(office), Arc::clone(office));
    let builder = Tool::function(
        "create_calendar_event",
        "Puts an event into the user's calendar, after a person has approved it: with a time in a zone or whole days, \
         how it repeats, attendees, location, description and reminders. Attendees are told only with \
         `notifyAttendees`. Returns the event with its `id` and `version`. It can be undone.",
        move |input: Input, context: Context| {
            let office = Arc::clone(&shared);
            async move { answer(&office, &input, &context).await }
        },
    )
    .preview_with(move |arguments: Value, context: Context| {
        let office = Arc::clone(&for_preview);
        async move {
            let input: Input = serde_json::from_value(arguments)
                .map_err(|error| wrong("arguments", "what the schema says", error.to_string()))?;
            Ok(plan(&office, &input, &context).await?.preview())
        }
    })
    .when_to_use(
        "When the user wants something in their calendar at a time. Check with `check_availability` first where the \
         time is not fixed. For something to be done without a time, use `create_task`.",
    )
    .example_call(
        "Schedule lunch with Ada on Tuesday at noon",
        json!({ "title": "Lunch with Ada", "start": "2026-03-03T12:00", "end": "2026-03-03T13:00",
                "timeZone": "Europe/Berlin", "location": "Cantina" }),
    )
    .example_call(
        "I'm on vacation from August 3rd to 14th",
        json!({ "title": "Vacation", "start": "2026-08-03", "end": "2026-08-14" }),
    )
    .example_call(
        "Set up our stand-up every weekday at 9:15 New York time and invite Bob",
        json!({ "title": "Stand-up", "start": "2026-03-02T09:15", "end": "2026-03-02T09:30",
                "timeZone": "America/New_York", "recurrence": "weekdays",
                "attendees": ["Bob Martin <bob@example.org>"], "notifyAttendees": true }),
    )
    .example_call(
        "Dentist on the 10th at 8:30, remind me an hour before",
        json!({ "title": "Dentist", "start": "2026-03-10T08:30", "timeZone": "Europe/Berlin", "reminders": [60] }),
    )
    .integration("calendar")
    .category(Category::Create)
    .risk(Risk::Medium)
    .requires_approval()
    .annotations(Annotations { destructive: false, ..Annotations::default() })
    .timeout(Duration::from_secs(30))
    .facets([Facet::Mutates, Facet::ReadsPrivate, Facet::Egress]);
    undoable(builder, office)
}

async fn answer(office: &Office, input: &Input, context: &Context) -> Result<EventChanged, ToolError> {
    let plan = plan(office, input, context).await?;
    if let Some(made) = made_before(office, &plan, context).await? {
        return Ok(made);
    }
    plan.carry_out(office, context).await
}

/// Only a call under the same key makes the same UID: what it made is the answer.
async fn made_before(
    office: &Office,
    plan: &EventPlan,
    context: &Context,
) -> Result<Option<EventChanged>, ToolError> {
    let Some(write) = plan.writes.first() else { return Ok(None) };
    let object = match plan.place.store.get(&write.href).await {
        Ok(object) => object,
        Err(Fault::Gone(_)) => return Ok(None),
        Err(fault) => return Err(fault.for_model()),
    };
    let mut answer = plan.answer(context)?;
    answer.version.clone_from(&object.version);
    answer.event.version.clone_from(&object.version);
    let result = serde_json::to_value(&answer).unwrap_or(Value::Null);
    adopt(office, context, write, &object, &result).await?;
    Ok(Some(answer))
}

async fn plan(office: &Office, input: &Input, context: &Context) -> Result<EventPlan, ToolError> {
    let asker = asker(office, input.time_zone.as_ref())?;
    let all = places(office, context.caller(), Kind::Event).await?;
    let place = place_for_new(all, "calendar", input.calendar.as_ref())?;
    let uid = new_uid(context, "event");
    let after = document(input, &place, &uid, &asker)?;
    check_told(office, &place, input.notify_attendees.then_some(Recipients::Everybody), &[&after])?;
    let href = place.store.new_href(&place.collection.told.href, &uid);
    let id = ObjectId { kind: Kind::Event, collection: place.collection.id, uid, occurrence: None };
    let writes = vec![Write { place: place.clone(), href, before: None, after: Some(printed(&after)) }];
    let zone = Zone::from(office.settings().zone.clone());
    Ok(EventPlan {
        invitations: told(&place, !input.attendees.is_empty(), input.notify_attendees),
        place,
        writes,
        before: Facts::new(),
        wanted: of_event(&after, &id.uid, None, &zone),
        id,
        after,
        notes: Vec::new(),
        heading: "New event:".to_owned(),
        asker: zone,
    })
}

fn span(input: &Input, asker: &Zone) -> Result<Span, ToolError> {
    let start = read("start", &input.start, asker)?;
    let end = match (&input.end, &start) {
        (Some(end), _) => read("end", end, asker)?,
        (None, GivenTime::Day(day)) => GivenTime::Day(*day),
        (None, GivenTime::At(at)) => {
            let end = at.instant.saturating_add(1.hour()).unwrap_or(at.instant);
            GivenTime::At(Moment { instant: end, zone: at.zone.clone() })
        }
    };
    Span::of(&start, &end)
}

fn document(input: &Input, place: &Place, uid: &str, asker: &Zone) -> Result<Document, ToolError> {
    let span = span(input, asker)?;
    let mut event = component("VEVENT", uid, Timestamp::now())?;
    let text = |name: &str, text: &str| NewProperty::text(name, text).map_err(unwritable);
    let raw = |name: &str, value: &str| NewProperty::raw(name, value).map_err(unwritable);
    let written = span.written();
    event.add(&written.property("DTSTART")?);
    event.add(&fields::Written { value: span.end, zone: span.zone.clone() }.property("DTEND")?);
    event.add(&text("SUMMARY", &fields::line("title", &input.title)?)?);
    if let Some(recurrence) = &input.recurrence {
        check_series(&span, asker)?;
        event.add(&raw("RRULE", &fields::rule(recurrence, &written)?)?);
    }
    if let Some(location) = &input.location {
        event.add(&text("LOCATION", &fields::line("location", location)?)?);
    }
    if let Some(description) = &input.description {
        event.add(&text("DESCRIPTION", &fields::text("description", description)?)?);
    }
    if input.shows_as_free {
        event.add(&raw("TRANSP", "TRANSPARENT")?);
    }
    event.add(&raw("SEQUENCE", "0")?);
    let attendees = mailboxes("attendees", &input.attendees)?;
    if !attendees.is_empty()
        && let Some(person) = &place.account.person
    {
        event.add(&organizer(person)?);
    }
    let telling = if input.notify_attendees { Telling::Server } else { Telling::Nobody };
    for mailbox in &attendees {
        event.add(&attendee(mailbox, telling)?);
    }
    for minutes in input.reminders.iter().take(REMINDERS_MAX) {
        event.push(alarm(*minutes, event.eol())?);
    }
    let mut document = calendar(event)?;
    written.define(&mut document)?;
    Ok(document)
}

/// A series follows the clock of its zone, so its start must be one that the clock shows.
pub(super) fn check_series(span: &Span, asker: &Zone) -> Result<(), ToolError> {
    let has_zone = asker.known().is_some_and(|zone| zone.iana_name().is_some_and(|name| name != "UTC"));
    match (span.start, &span.zone) {
        (DateValue::Utc(_), None) if has_zone => Err(wrong(
            "start",
            "a time that the clock shows once",
            "a series cannot begin in the second pass of an hour that comes twice",
        )),
        _ => Ok(()),
    }
}
