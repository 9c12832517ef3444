//! What tools share that write events: the plan that a person approves and that is then carried out, times, attendees,
//! reminders.

use bytes::Bytes;
use helve::json::sha256_hex;
use helve::{Context, Preview, ToolError};
use jiff::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use super::super::allowed::check_domains;
use super::change::{Failure, Write, commit};
use super::facts::{Facts, conflict, diff, of_event};
use super::fault::{refused, wrong};
use super::fields::{Written, unwritable};
use super::reach::Place;
use super::shown::{EventShown, person};
use super::time::GivenTime;
use crate::Office;
use crate::ical::{Component, DateValue, Document, DurationValue, EditError, Eol, NewProperty, Property};
use crate::objects::{ObjectId, mailto, main_component};
use crate::recurrence::{Occurrence, RecurrenceId, Series, Source, Status};
use crate::text::{Address, Mailbox};
use crate::zones::Zone;

/// How many people one event may have.
pub(super) const ATTENDEES_MAX: usize = 200;
/// How many reminders one event may have.
pub(super) const REMINDERS_MAX: usize = 10;

/// What became of an event.
#[derive(Debug, Clone, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct EventChanged {
    /// Pass it on as it is.
    pub(super) id: String,
    /// Which state of the event this is now.
    pub(super) version: String,
    /// Which change this was: it can be undone as long as nobody changes the event.
    pub(super) change: String,
    /// The event as it is now.
    pub(super) event: EventShown,
    /// Whether attendees were told, and by whom.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) invitations: Option<String>,
    /// What else there is to know.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) notes: Vec<String>,
}

/// What a call is going to do: made for the person who is asked, and again when it runs.
pub(super) struct EventPlan {
    pub(super) asker: Zone,
    pub(super) place: Place,
    /// The event, or the occurrence, that the answer is about.
    pub(super) id: ObjectId,
    /// In order; the first is what the answer is about.
    pub(super) writes: Vec<Write>,
    pub(super) before: Facts,
    /// The same event, or the same occurrence, as it is to be.
    pub(super) wanted: Facts,
    /// The object that the answer is about, as it is to be.
    pub(super) after: Document,
    pub(super) invitations: Option<String>,
    pub(super) notes: Vec<String>,
    /// What is changed, for people: `Change: all occurrences`.
    pub(super) heading: String,
}

impl EventPlan {
    /// What a person is shown, bound to the versions that it is based on.
    pub(super) fn preview(&self) -> Preview {
        let mut text =
            format!("{}\nCalendar: {} ({})", self.heading, self.place.name(), self.place.account.id);
        if let Some(invitations) = &self.invitations {
            text.push_str(&format!("\nInvitations: {invitations}"));
        }
        for note in &self.notes {
            text.push_str(&format!("\nNote: {note}"));
        }
        // What is long comes last: what is asked stands above it as facts.
        text.push_str(&format!("\n\n{}", diff(&self.before, &self.wanted)));
        Preview::new(text).with_fingerprint(self.fingerprint())
    }

    /// A digest of what is there and what is to be there. Stamps and new UIDs differ each time, and mean nothing.
    pub(super) fn fingerprint(&self) -> String {
        let mut all = format!("{}\n{}\n", self.place.account.id, self.place.collection.told.href);
        for write in &self.writes {
            let version = write.before.as_ref().map_or("new", |before| &before.version);
            let after = write.after.as_deref().map(meaning).unwrap_or_default();
            all.push_str(&format!("{version}\n{}\n", sha256_hex(&after)));
        }
        sha256_hex(all.as_bytes())
    }

    /// Does it, if it is what was approved.
    pub(super) async fn carry_out(
        self,
        office: &Office,
        context: &Context,
    ) -> Result<EventChanged, ToolError> {
        context.still_approved(&self.fingerprint())?;
        let mut answer = self.answer(context)?;
        let result = serde_json::to_value(&answer).unwrap_or(Value::Null);
        match commit(office, context, &self.writes, &result).await {
            Ok(versions) => {
                answer.version = versions.into_iter().next().unwrap_or_default();
                answer.event.version.clone_from(&answer.version);
                Ok(answer)
            }
            Err(Failure::Error(error)) => Err(error),
            Err(Failure::Conflict(step)) => Err(self.lost(step).await?),
        }
    }

    pub(super) fn answer(&self, context: &Context) -> Result<EventChanged, ToolError> {
        let event = event_of(&self.place, &self.id, "", &self.after, &self.asker);
        let event = event.ok_or_else(|| ToolError::failed("the event cannot be read").nothing_done())?;
        Ok(EventChanged {
            id: event.id.clone(),
            version: String::new(),
            change: context.call_id().to_string(),
            event,
            invitations: self.invitations.clone(),
            notes: self.notes.clone(),
        })
    }

    /// The conflict over one of the writes, with what is there now.
    async fn lost(&self, step: usize) -> Result<ToolError, ToolError> {
        let write = &self.writes[step];
        let theirs = write.place.store.get(&write.href).await.map_err(|fault| fault.for_model())?;
        let now = Document::parse(&theirs.bytes).map(|now| of_event(&now, &self.id.uid, None, &self.asker));
        Ok(conflict("event", &theirs.version, &now.unwrap_or_default(), &self.wanted))
    }
}

/// An object without what differs each time that it is made.
fn meaning(bytes: &[u8]) -> Vec<u8> {
    let Ok(mut document) = Document::parse(bytes) else { return bytes.to_vec() };
    for event in document.events_mut("VEVENT") {
        for name in ["UID", "DTSTAMP", "LAST-MODIFIED", "CREATED"] {
            event.remove(name);
        }
    }
    document.print()
}

/// The event, or one occurrence of it, as models see it.
pub(super) fn event_of(
    place: &Place,
    id: &ObjectId,
    version: &str,
    document: &Document,
    asker: &Zone,
) -> Option<EventShown> {
    let series = Series::find(document, "VEVENT", &id.uid)?.ok()?;
    let (when, at) = series.when(id.occurrence, asker)?;
    let component = document.events("VEVENT").nth(at)?;
    let status = component.property("STATUS").map(|status| status.value().trim().to_ascii_uppercase());
    let status = match status.as_deref() {
        Some("CANCELLED") => Status::Cancelled,
        Some("TENTATIVE") => Status::Tentative,
        Some(_) | None => Status::Confirmed,
    };
    let occurrence = Occurrence { when, id: id.occurrence, source: Source::Series, status, place: at };
    let main = main_component(document, "VEVENT")?;
    Some(EventShown::new(place, &id.uid, version, &occurrence, component, main, asker))
}

/// Start and end as they are written: both in one form.
#[derive(Debug, Clone)]
pub(super) struct Span {
    pub(super) start: DateValue,
    pub(super) end: DateValue,
    pub(super) zone: Option<(Zone, String)>,
}

impl Span {
    /// Two times that were given. The end of whole days is the last of them.
    pub(super) fn of(start: &GivenTime, end: &GivenTime) -> Result<Self, ToolError> {
        let after = "a time after `start`";
        match (start, end) {
            (GivenTime::Day(first), GivenTime::Day(last)) if last >= first => {
                let end = last.tomorrow().map_err(|_| wrong("end", after, "it is out of bounds"))?;
                Ok(Self { start: DateValue::Date(*first), end: DateValue::Date(end), zone: None })
            }
            (GivenTime::At(from), GivenTime::At(to)) if to.instant > from.instant => {
                let to = GivenTime::At(to.told_in(&from.zone));
                let (start, end) = (Written::of(start), Written::of(&to));
                let zone = start.zone.clone().filter(|_| end.zone.is_some());
                let utc = |instant: Timestamp| DateValue::Utc(jiff::tz::Offset::UTC.to_datetime(instant));
                Ok(match zone {
                    Some(zone) => Self { start: start.value, end: end.value, zone: Some(zone) },
                    None => Self { start: utc(from.instant), end: utc(to.begins(&Zone::UTC)), zone: None },
                })
            }
            (GivenTime::Day(_), GivenTime::Day(_)) | (GivenTime::At(_), GivenTime::At(_)) => {
                Err(wrong("end", after, "it is not after `start`"))
            }
            (GivenTime::Day(_), GivenTime::At(_)) | (GivenTime::At(_), GivenTime::Day(_)) => Err(wrong(
                "end",
                "two dates or two times",
                "one of `start` and `end` is a date, the other a time",
            )),
        }
    }

    pub(super) fn written(&self) -> Written {
        Written { value: self.start, zone: self.zone.clone() }
    }
}

/// People to be invited, checked.
pub(super) fn mailboxes(field: &str, texts: &[String]) -> Result<Vec<Mailbox>, ToolError> {
    let mut all: Vec<Mailbox> = Vec::new();
    for (at, text) in texts.iter().enumerate() {
        let mailbox = Mailbox::parse(text).map_err(|refusal| refused(&format!("{field}.{at}"), refusal))?;
        if !all.iter().any(|known| known.address().is_same_mailbox(mailbox.address())) {
            all.push(mailbox);
        }
    }
    Ok(all)
}

/// Whether the server is to tell the people of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Telling {
    /// The server may tell them.
    Server,
    /// Nobody tells them.
    Nobody,
}

/// The line for a person who is invited.
pub(super) fn attendee(mailbox: &Mailbox, telling: Telling) -> Result<NewProperty, ToolError> {
    let make = || -> Result<NewProperty, EditError> {
        let mut line = NewProperty::raw("ATTENDEE", &format!("mailto:{}", mailbox.address()))?;
        if let Some(name) = mailbox.name() {
            line = line.with_param("CN", name)?;
        }
        line = line.with_param("ROLE", "REQ-PARTICIPANT")?.with_param("PARTSTAT", "NEEDS-ACTION")?;
        line = line.with_param("RSVP", "TRUE")?;
        match telling {
            Telling::Server => Ok(line),
            Telling::Nobody => line.with_param("SCHEDULE-AGENT", "NONE"),
        }
    };
    make().map_err(unwritable)
}

/// The line for the person whose calendar it is.
pub(super) fn organizer(mailbox: &Mailbox) -> Result<NewProperty, ToolError> {
    let make = || -> Result<NewProperty, EditError> {
        let line = NewProperty::raw("ORGANIZER", &format!("mailto:{}", mailbox.address()))?;
        mailbox.name().map_or(Ok(line.clone()), |name| line.with_param("CN", name))
    };
    make().map_err(unwritable)
}

/// Whether a line is about this person.
pub(super) fn is_about(property: &Property<'_>, address: &Address) -> bool {
    mailto(property.value()).is_some_and(|found| found.eq_ignore_ascii_case(address.as_str()))
}

/// A reminder so many minutes before the start.
pub(super) fn alarm(minutes: u32, eol: Eol) -> Result<Component, ToolError> {
    let make = || -> Result<Component, EditError> {
        let mut alarm = Component::new("VALARM", eol)?;
        let before = DurationValue { days: 0, seconds: -i64::from(minutes) * 60 };
        alarm.add(&NewProperty::raw("ACTION", "DISPLAY")?);
        alarm.add(&NewProperty::text("DESCRIPTION", "Reminder")?);
        alarm.add(&NewProperty::raw("TRIGGER", &before.to_string())?);
        Ok(alarm)
    };
    make().map_err(unwritable)
}

/// Sets the reminders that are shown; those that other programs act on otherwise stay.
pub(super) fn set_reminders(event: &mut Component, minutes: &[u32]) -> Result<(), ToolError> {
    event.take_components(|inner| {
        let action = inner.property("ACTION").map(|action| action.value().trim().to_ascii_uppercase());
        inner.is_named("VALARM") && matches!(action.as_deref(), Some("DISPLAY" | "AUDIO"))
    });
    let mut minutes = minutes.to_vec();
    minutes.sort_unstable();
    minutes.dedup();
    for minutes in minutes {
        event.push(alarm(minutes, event.eol())?);
    }
    Ok(())
}

/// What is said of invitations, where there are people to be told.
pub(super) fn told(place: &Place, has_attendees: bool, notify: bool) -> Option<String> {
    let text = match (has_attendees, place.store.schedules(), notify) {
        (false, ..) => return None,
        (true, true, true) => "the calendar server tells the attendees",
        (true, _, false) => "nobody is told",
        (true, false, true) => {
            "nobody is told: this calendar's server sends no invitations; tell the attendees by mail"
        }
    };
    Some(text.to_owned())
}

/// Whom a calendar server may tell of a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Recipients {
    /// The organizer alone: an attendee answers, and changes nothing else.
    Organizer,
    /// All who stand in the event, also those who are invited no longer. Who its organizer is does not matter: the server
    /// may know the user by more addresses than we do.
    Everybody,
}

/// Everybody whom the server may tell of a change has to be in a domain that an operator allows: an invitation carries
/// text out as well as a mail does.
pub(super) fn check_told(
    office: &Office,
    place: &Place,
    told: Option<Recipients>,
    documents: &[&Document],
) -> Result<(), ToolError> {
    let Some(told) = told.filter(|_| place.store.schedules()) else { return Ok(()) };
    let is_own = |address: &str| place.own().is_some_and(|own| own.as_str().eq_ignore_ascii_case(address));
    let all = |name: &str| -> Vec<String> {
        let events = documents.iter().flat_map(|document| document.events("VEVENT"));
        let lines =
            events.flat_map(|event| event.all(name).map(|line| person(&line).address).collect::<Vec<_>>());
        lines.filter(|address| !is_own(address)).collect()
    };
    let mut people = all("ORGANIZER");
    if told == Recipients::Everybody {
        people.extend(all("ATTENDEE"));
    }
    check_domains(office, people.iter().map(String::as_str))
}

/// A document as bytes to be written.
pub(super) fn printed(document: &Document) -> Bytes {
    document.print().into()
}

/// The events of a document that an edit concerns.
pub(super) fn touched<'a>(
    document: &'a mut Document,
    uid: &str,
    occurrence: Option<RecurrenceId>,
) -> Vec<&'a mut Component> {
    let place = occurrence.and_then(|id| {
        let series = Series::find(document, "VEVENT", uid)?.ok()?;
        series.when(Some(id), &Zone::UTC).map(|(_, place)| place)
    });
    let has_uid = |event: &Component| event.property("UID").is_some_and(|found| found.text_value() == uid);
    let all = document.events_mut("VEVENT").enumerate();
    let picked = all.filter(|(at, event)| place.map_or_else(|| has_uid(event), |place| *at == place));
    picked.map(|(_, event)| event).collect()
}
