//! How an event is edited: which lines, on which occurrences. No other line of the object changes.

use helve::ToolError;
use jiff::Timestamp;
use jiff::civil::DateTime;

use super::event::{
    ATTENDEES_MAX, Span, Telling, attendee, is_about, mailboxes, organizer, set_reminders, touched,
};
use super::fault::{refused, wrong};
use super::fields::{self, Written, unwritable};
use super::reach::Place;
use super::time::{GivenTime, read};
use super::update_event::{Clearable, Input, Scope};
use crate::ical::{Component, DateValue, Document, NewProperty};
use crate::objects::ObjectId;
use crate::recurrence::edit::{
    Changed, Changes, NewTime, SeriesEditError, Split, change_all, change_following, change_one,
    remove_following,
};
use crate::recurrence::{RecurrenceId, Series, When};
use crate::rule::{local_time, naive_seconds};
use crate::text::Address;
use crate::zones::{Moment, Zone, ZoneTable};

/// What is asked for.
pub(super) struct Edit<'a> {
    pub(super) input: &'a Input,
    pub(super) place: &'a Place,
    pub(super) id: &'a ObjectId,
    pub(super) scope: Scope,
    pub(super) asker: &'a Zone,
    pub(super) now: Timestamp,
    pub(super) new_uid: String,
}

/// What comes of it.
pub(super) struct Outcome {
    /// The object that was there, as it is to be.
    pub(super) document: Document,
    /// A new object next to it, where the series is split.
    pub(super) new: Option<Document>,
    pub(super) new_uid: String,
    pub(super) notes: Vec<String>,
}

impl Outcome {
    /// The object that was asked to be changed.
    pub(super) fn main(&self) -> &Document {
        self.new.as_ref().unwrap_or(&self.document)
    }

    pub(super) fn is_split(&self) -> bool {
        self.new.is_some()
    }

    /// Notes what an edit did besides.
    fn tell(&mut self, changed: &Changed) {
        let count = changed.dropped.len();
        if count > 0 {
            self.notes.push(format!(
                "{count} occurrences that were changed by themselves go: the new rule has none at their time"
            ));
        }
    }

    /// The UID of that object.
    pub(super) fn uid<'a>(&'a self, id: &'a ObjectId) -> &'a str {
        if self.is_split() { &self.new_uid } else { &id.uid }
    }
}

/// Edits an object.
pub(super) fn edit(edit: &Edit<'_>, before: &Document) -> Result<Outcome, ToolError> {
    let mut made =
        Outcome { document: before.clone(), new: None, new_uid: edit.new_uid.clone(), notes: Vec::new() };
    let uid = &edit.id.uid;
    let span = span(edit, before)?;
    let changes = changes(edit, before, span.as_ref())?;
    let occurrence = edit.id.occurrence;
    match (edit.scope, occurrence) {
        (Scope::This, Some(id)) => change_one(&mut made.document, uid, id, &changes).map_err(uneditable)?,
        (Scope::ThisAndFollowing, Some(id)) if edit.input.cancel => {
            cancel_following(&mut made, uid, id, &changes)?;
        }
        (Scope::ThisAndFollowing, Some(id)) => {
            let split = change_following(&mut made.document, uid, id, &changes, &edit.new_uid);
            match split.map_err(uneditable)? {
                Split::Whole(changed) => made.tell(&changed),
                Split::New(new, changed) => {
                    made.tell(&changed);
                    made.new = Some(new);
                }
            }
        }
        (Scope::All | Scope::This | Scope::ThisAndFollowing, _) => {
            let changed = change_all(&mut made.document, uid, &changes).map_err(uneditable)?;
            made.tell(&changed);
        }
    }
    finish(edit, before, span.as_ref(), &mut made)?;
    Ok(made)
}

/// What is not a matter of single properties: people, reminders, zones.
fn finish(
    edit: &Edit<'_>,
    before: &Document,
    span: Option<&Span>,
    made: &mut Outcome,
) -> Result<(), ToolError> {
    let uid = made.uid(edit.id).to_owned();
    let occurrence = edit.id.occurrence.filter(|_| edit.scope == Scope::This);
    check_telling(edit, before)?;
    let document = made.new.as_mut().unwrap_or(&mut made.document);
    let mut is_invited = edit.input.respond.is_none();
    for event in touched(document, &uid, occurrence) {
        if let Some(answer) = edit.input.respond {
            is_invited |= respond(edit, event, answer.as_ical())?;
        }
        people(edit, event)?;
        if let Some(minutes) = &edit.input.reminders {
            set_reminders(event, minutes)?;
        }
    }
    if !is_invited {
        let text = "the user is not invited to this event, so there is nothing to answer";
        return Err(ToolError::unrecoverable("NOT_INVITED", text).nothing_done());
    }
    match span {
        Some(span) => span.written().define(document),
        None => Ok(()),
    }
}

fn uneditable(error: SeriesEditError) -> ToolError {
    match error {
        SeriesEditError::NoEvent => super::fault::not_found("event"),
        SeriesEditError::NoOccurrence { .. } => super::fault::not_found("event"),
        SeriesEditError::NeedsRule { .. } => {
            wrong("recurrence", "the rule for the new days", error.to_string())
        }
        SeriesEditError::HasFutureRange
        | SeriesEditError::HasPeriods
        | SeriesEditError::Unreadable(_)
        | SeriesEditError::OverBudget(_)
        | SeriesEditError::Write(_) => {
            ToolError::unrecoverable("CANNOT_EDIT", error.to_string()).nothing_done()
        }
    }
}

/// From the first occurrence on means all of them.
fn cancel_following(
    made: &mut Outcome,
    uid: &str,
    id: RecurrenceId,
    changes: &Changes,
) -> Result<(), ToolError> {
    match remove_following(&mut made.document, uid, id, changes.now) {
        Ok(()) => Ok(()),
        Err(SeriesEditError::NoOccurrence { .. }) => {
            let series = Series::find(&made.document, "VEVENT", uid).and_then(Result::ok);
            let first = series.and_then(|series| {
                Some((series.when(None, &Zone::UTC)?, series.when(Some(id), &Zone::UTC)?))
            });
            match first.is_some_and(|(first, this)| first.0 == this.0) {
                true => change_all(&mut made.document, uid, changes).map(|_| ()).map_err(uneditable),
                false => Err(super::fault::not_found("event")),
            }
        }
        Err(error) => Err(uneditable(error)),
    }
}

fn changes(edit: &Edit<'_>, before: &Document, span: Option<&Span>) -> Result<Changes, ToolError> {
    let input = edit.input;
    let mut changes = Changes::at(edit.now);
    let text = |name: &str, text: &str| NewProperty::text(name, text).map_err(unwritable);
    if let Some(title) = &input.title {
        changes.set.push(text("SUMMARY", &fields::line("title", title)?)?);
    }
    if let Some(location) = &input.location {
        changes.set.push(text("LOCATION", &fields::line("location", location)?)?);
    }
    if let Some(description) = &input.description {
        changes.set.push(text("DESCRIPTION", &fields::text("description", description)?)?);
    }
    if input.cancel {
        changes.set.push(NewProperty::raw("STATUS", "CANCELLED").map_err(unwritable)?);
    }
    if let Some(recurrence) = &input.recurrence {
        check_repeats(edit)?;
        let start = match span {
            Some(span) => span.written(),
            None => own_start(before, &edit.id.uid)?,
        };
        changes.set.push(NewProperty::raw("RRULE", &fields::rule(recurrence, &start)?).map_err(unwritable)?);
    }
    for what in &input.clear {
        match what {
            Clearable::Location => changes.remove.push("LOCATION".to_owned()),
            Clearable::Description => changes.remove.push("DESCRIPTION".to_owned()),
            Clearable::Recurrence => {
                check_repeats(edit)?;
                changes.remove.extend(["RRULE", "RDATE", "EXDATE", "EXRULE"].map(str::to_owned));
            }
        }
    }
    changes.time = span.map(|span| NewTime {
        start: span.start,
        end: span.end,
        tzid: span.zone.as_ref().map(|(_, tzid)| tzid.clone()),
    });
    Ok(changes)
}

fn check_repeats(edit: &Edit<'_>) -> Result<(), ToolError> {
    match edit.scope {
        Scope::This => Err(wrong(
            "recurrence",
            "the scope `all` or `this_and_following`",
            "one occurrence does not repeat",
        )),
        Scope::ThisAndFollowing | Scope::All => Ok(()),
    }
}

/// The start of an event as it is written.
fn own_start(document: &Document, uid: &str) -> Result<Written, ToolError> {
    let unreadable =
        || ToolError::unrecoverable("UNREADABLE", "the event has no start that can be read").nothing_done();
    let series = Series::find(document, "VEVENT", uid).and_then(Result::ok).ok_or_else(unreadable)?;
    let place = series.event().ok_or_else(unreadable)?.place;
    let start = document.events("VEVENT").nth(place).and_then(|event| event.property("DTSTART"));
    let start = start.ok_or_else(unreadable)?;
    let tzid = start.param("TZID");
    let zone = tzid.and_then(|tzid| Some((ZoneTable::of(document).resolve(&tzid).ok()?, tzid)));
    Ok(Written { value: DateValue::parse(start.value()).map_err(|_| unreadable())?, zone })
}

/// The new times, where there are any: of the occurrence at hand, or for all of the first.
fn span(edit: &Edit<'_>, before: &Document) -> Result<Option<Span>, ToolError> {
    let input = edit.input;
    if input.start.is_none() && input.end.is_none() {
        return Ok(None);
    }
    let series = Series::find(before, "VEVENT", &edit.id.uid).and_then(Result::ok);
    let series = series.ok_or_else(|| super::fault::not_found("event"))?;
    let when = series.when(edit.id.occurrence, edit.asker).ok_or_else(|| super::fault::not_found("event"))?.0;
    let (start, end) = wanted(edit, &when)?;
    if edit.scope != Scope::All || edit.id.occurrence.is_none() {
        return Span::of(&start, &end).map(Some);
    }
    if edit.id.occurrence.is_some_and(|id| series.is_moved(id)) {
        let why = "this occurrence was moved by itself, so its time says nothing of the others";
        return Err(wrong("id", "an occurrence that was not moved by itself", why).suggest(
            "list the events, and give the new time of an occurrence that is where its series puts it",
        ));
    }
    // All of a series move by as much as the occurrence that was named.
    let first = series.when(None, edit.asker).ok_or_else(|| super::fault::not_found("event"))?.0;
    let by = naive_seconds(local(&start)) - naive_seconds(local_start(&when));
    let moved = |given: &GivenTime| -> Result<GivenTime, ToolError> {
        let to = naive_seconds(local_start(&first)) + by + naive_seconds(local(given))
            - naive_seconds(local(&start));
        let to =
            local_time(to).ok_or_else(|| wrong("start", "a time within bounds", "it is out of bounds"))?;
        Ok(match given {
            GivenTime::Day(_) => GivenTime::Day(to.date()),
            GivenTime::At(at) => {
                GivenTime::At(Moment { instant: at.zone.instant(to), zone: at.zone.clone() })
            }
        })
    };
    Span::of(&moved(&start)?, &moved(&end)?).map(Some)
}

fn local(given: &GivenTime) -> DateTime {
    match given {
        GivenTime::Day(day) => day.at(0, 0, 0, 0),
        GivenTime::At(moment) => moment.local(),
    }
}

fn local_start(when: &When) -> DateTime {
    match when {
        When::AllDay { first, .. } => first.at(0, 0, 0, 0),
        When::Timed { start, .. } => start.local(),
    }
}

/// Start and end as they are to be; what is not given comes from what is.
fn wanted(edit: &Edit<'_>, when: &When) -> Result<(GivenTime, GivenTime), ToolError> {
    let zone = match when {
        // An event keeps its zone, unless another is named.
        When::Timed { start, .. } if edit.input.time_zone.is_none() && is_named(&start.zone) => {
            start.zone.clone()
        }
        When::Timed { .. } | When::AllDay { .. } => edit.asker.clone(),
    };
    let given = |field: &str, text: &String| -> Result<GivenTime, ToolError> {
        Ok(match read(field, text, edit.asker)? {
            GivenTime::At(at) => GivenTime::At(at.told_in(&zone)),
            day @ GivenTime::Day(_) => day,
        })
    };
    let (old_start, old_end) = match when {
        When::AllDay { first, end } => {
            (GivenTime::Day(*first), GivenTime::Day(end.yesterday().unwrap_or(*first).max(*first)))
        }
        When::Timed { start, end } => {
            (GivenTime::At(start.told_in(&zone)), GivenTime::At(end.told_in(&zone)))
        }
    };
    let start = edit.input.start.as_ref().map(|text| given("start", text)).transpose()?;
    let end = edit.input.end.as_ref().map(|text| given("end", text)).transpose()?;
    match (start, end) {
        (Some(start), Some(end)) => Ok((start, end)),
        (None, Some(end)) => Ok((old_start, end)),
        (Some(start), None) => {
            let end = as_long(&start, &old_start, &old_end);
            Ok((start, end))
        }
        (None, None) => Ok((old_start, old_end)),
    }
}

fn is_named(zone: &Zone) -> bool {
    zone.known().is_some_and(|zone| zone.iana_name().is_some_and(|name| name != "UTC"))
}

/// The end that keeps the length. Where days become a time, or a time days, it is an hour or a day.
fn as_long(start: &GivenTime, old_start: &GivenTime, old_end: &GivenTime) -> GivenTime {
    let naive = |given: &GivenTime| naive_seconds(local(given));
    match (start, old_start, old_end) {
        (GivenTime::Day(day), GivenTime::Day(_), GivenTime::Day(_)) => {
            let end = local_time(naive(start) + naive(old_end) - naive(old_start));
            GivenTime::Day(end.map_or(*day, DateTime::date))
        }
        (GivenTime::Day(day), ..) => GivenTime::Day(*day),
        (GivenTime::At(at), GivenTime::At(from), GivenTime::At(to)) => {
            let length = to.instant.as_second() - from.instant.as_second();
            later(at, length)
        }
        (GivenTime::At(at), ..) => later(at, 3600),
    }
}

fn later(at: &Moment, seconds: i64) -> GivenTime {
    let instant = Timestamp::from_second(at.instant.as_second() + seconds).unwrap_or(at.instant);
    GivenTime::At(Moment { instant, zone: at.zone.clone() })
}

/// A server that tells people by itself would do so without being asked: that has to be agreed to.
fn check_telling(edit: &Edit<'_>, before: &Document) -> Result<(), ToolError> {
    let is_told = |event: &Component| {
        event.all("ATTENDEE").any(|line| {
            let agent = line.param("SCHEDULE-AGENT").unwrap_or_default();
            !agent.eq_ignore_ascii_case("NONE") && !agent.eq_ignore_ascii_case("CLIENT")
        })
    };
    let would_tell = edit.place.store.schedules() && before.events("VEVENT").any(is_told);
    match would_tell && !edit.input.notify_attendees {
        true => Err(wrong(
            "notifyAttendees",
            "`true`",
            "the calendar's server tells the people of this event of every change by itself",
        )
        .suggest("ask the user whether they may be told, and set notifyAttendees: true")),
        false => Ok(()),
    }
}

fn people(edit: &Edit<'_>, event: &mut Component) -> Result<(), ToolError> {
    let input = edit.input;
    if let Some(all) = &input.attendees {
        let wanted = mailboxes("attendees", all)?;
        event.remove_where("ATTENDEE", |line| !wanted.iter().any(|one| is_about(line, one.address())));
        invite(edit, event, "attendees", all)?;
    }
    for (at, text) in input.remove_attendees.iter().enumerate() {
        let address = Address::new(text.trim())
            .map_err(|refusal| refused(&format!("removeAttendees.{at}"), refusal))?;
        event.remove_where("ATTENDEE", |line| is_about(line, &address));
    }
    invite(edit, event, "addAttendees", &input.add_attendees)?;
    if input.notify_attendees && edit.place.store.schedules() {
        event.set_param("ATTENDEE", |_| true, "SCHEDULE-AGENT", None).map_err(unwritable)?;
    }
    match event.all("ATTENDEE").count() > ATTENDEES_MAX.max(input.add_attendees.len())
        && !input.add_attendees.is_empty()
    {
        true => Err(wrong("addAttendees", "at most 200 people in all", "too many people would be invited")),
        false => Ok(()),
    }
}

fn invite(edit: &Edit<'_>, event: &mut Component, field: &str, texts: &[String]) -> Result<(), ToolError> {
    let telling = if edit.input.notify_attendees { Telling::Server } else { Telling::Nobody };
    for mailbox in mailboxes(field, texts)? {
        if event.all("ATTENDEE").any(|line| is_about(&line, mailbox.address())) {
            continue;
        }
        if let (None, Some(person)) = (event.property("ORGANIZER"), &edit.place.account.person) {
            event.add(&organizer(person)?);
        }
        event.add(&attendee(&mailbox, telling)?);
    }
    Ok(())
}

/// Writes the person's own answer; every other word on the line stays. Says whether they are invited.
fn respond(edit: &Edit<'_>, event: &mut Component, answer: &str) -> Result<bool, ToolError> {
    let Some(own) = edit.place.own() else { return Ok(false) };
    let is_own = |line: &crate::ical::Property<'_>| is_about(line, own);
    Ok(event.set_param("ATTENDEE", is_own, "PARTSTAT", Some(answer)).map_err(unwritable)? > 0)
}
